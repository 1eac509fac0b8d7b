"""Results of the phases of a plan: the decided writes, and the pods that are not changed.

scale, update, refresh of a kind ──▶ PlanPhase: decisions in stages ──▶ pod_writes.py ──▶ stages of the Plan
hook + pod ──▶ decide_deletion() ──▶ delete the pod, let it prepare, or the reason why it waits

Pure. A decision is a value: what happens to one pod, and why. Only pod_writes.py knows how it is written.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import RESIZE, PodPatch
from pykruise.pods.lifecycle.readiness import PRE_DELETE_HOOK, hold_back
from pykruise.pods.lifecycle.states import (
    LifecycleHook,
    LifecycleState,
    build_state_metadata,
    explain_pre_delete,
    is_hooked,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import BudgetView
from pykruise.runtime.plan import Chain, Note, Step
from pykruise.runtime.reasons import Reason

MOST_AT_ONCE: Final = 256
"""Maximum number of pods that one phase writes to in one plan: about as many as an API server handles in the second
before the next plan, and few enough to be planned (60 µs each at most) without delaying other work.
"""


ON_DELETE: Final = Reason(
    Code.ON_DELETE, "the update strategy is OnDelete: the pod is updated when a person deletes it"
)
PAUSED: Final = Reason(Code.PAUSED, "updates are paused")
MAX_UNAVAILABLE_USED_UP: Final = Reason(Code.BUDGET, "waits for its turn: maxUnavailable is used up")
OTHERS_FIRST: Final = Reason(Code.TURN, "waits for its turn: other pods are being updated")
"""Reason for pods of an older revision that are not changed, for every kind."""


class CreatePod(msgspec.Struct, frozen=True, kw_only=True):
    """A new pod."""

    subject: str
    """Name of the pod."""
    document: Document
    because: str
    created: str
    """Message of the event after the creation."""
    failed: str = "failed to create a pod"
    """Message of the event after a failure."""
    before: tuple[Step, ...] = ()
    """Writes to its claims that come first."""
    has_random_name: bool = True
    """See `Chain.has_random_name`."""


class PodDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Writes to an existing pod."""

    pod: PodView

    @property
    def subject(self) -> str:
        """Name of the pod."""
        return self.pod.name


class DeletePod(PodDecision, frozen=True, kw_only=True):
    """The deletion of a pod."""

    because: str
    unchanged: bool
    """Whether the write must fail if the pod's resourceVersion has changed."""
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    """Writes to its claims before and after the deletion."""
    also: tuple[Note, ...] = ()
    """Further events of the deletion, see `Step.also`."""


class ChangePod(PodDecision, frozen=True, kw_only=True):
    """Metadata and conditions that a pod gets in one write."""

    metadata: Document = {}
    conditions: Sequence[Document] = ()
    because: str
    unchanged: bool = False
    """Whether the write must fail if the pod's resourceVersion has changed."""
    before: tuple[Step, ...] = ()
    """Writes to its claims that come first."""
    done: Note | None = None
    failed: Note | None = None


class UpdatePod(PodDecision, frozen=True, kw_only=True):
    """Writes with which an in-place update begins or continues."""

    writes: Sequence[PodPatch]
    revision: str = ""
    """Name of the revision to which the update begins; empty: it has begun before."""

    @property
    def is_resize(self) -> bool:
        """Whether a write resizes the running pod, which the API server may reject."""
        return any(write.subresource == RESIZE for write in self.writes)


class SpecifyPod(PodDecision, frozen=True, kw_only=True):
    """The mark that a pod is to be deleted. The kind then deletes it under all its rules."""

    because: str
    unchanged: bool = False
    """Whether the write must fail if the pod's resourceVersion has changed."""
    done: Note
    failed: Note | None = None


class SpendBudget(msgspec.Struct, frozen=True, kw_only=True):
    """One write to a PodUnavailableBudget for all of its pods whose update starts now. It fails when another writer has
    spent from the budget in between.
    """

    budget: BudgetView
    pods: Sequence[PodView]
    now: Instant

    @property
    def subject(self) -> str:
        """Name of the budget, for people."""
        return f"budget {self.budget.name}"


Decision = CreatePod | DeletePod | ChangePod | UpdatePod | SpecifyPod | SpendBudget | Chain
"""One decided write. A chain writes to claims."""


class DecidedStage(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions that may be carried out concurrently. The options are those of `Stage`."""

    purpose: Purpose
    decisions: Sequence[Decision]
    ramp: bool = False
    is_optional: bool = False
    regardless: bool = False
    is_last: bool = False
    """Whether the API server may reject the writes each time. Then they follow the writes of all phases, so that a
    rejection does not delay other pods.
    """


class PlanPhase(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of one phase, the pods that are not changed, with their reasons, and events."""

    decided: tuple[DecidedStage, ...] = ()
    """Stages in their order. Those without decisions are ignored."""
    skipped: Mapping[str, Reason] = {}
    """Reasons why pods are not changed, by name of the pod."""
    notes: tuple[Note, ...] = ()
    failure: Reason | None = None
    """A part of the phase that is impossible, which a condition reports."""
    look_at: Instant | None = None
    """Time at which the phase can continue without an event."""
    is_partial: bool = False
    """Whether a limit per plan left out further writes: plan again as soon as this plan is done."""

    @property
    def stages(self) -> tuple[DecidedStage, ...]:
        """The stages with decisions; empty: the phase writes nothing."""
        return tuple(stage for stage in self.decided if stage.decisions)

    @property
    def touched(self) -> frozenset[str]:
        """Names of the pods that are written to."""
        return frozenset(decision.subject for stage in self.decided for decision in stage.decisions)


def skip(pods: Iterable[PodView], reason: Reason) -> dict[str, Reason]:
    """Return the same reason for all pods."""
    return dict.fromkeys((pod.name for pod in pods), reason)


def decide_deletion(
    pod: PodView, *, hook: LifecycleHook | None, now: Instant, because: str
) -> DeletePod | ChangePod | Reason:
    """Return the decision to delete the pod now, or to let it prepare for that, or the reason to wait.

    A pod that the preDelete hook holds enters PreparingDelete first. If the hook has `mark_pod_not_ready`, the same
    write takes the pod out of service. A pod that is deleted because it does not serve must be unchanged: if it became
    ready meanwhile, its deletion would need a place in the budget.
    """
    if hook is None or not is_hooked(hook, pod):
        return DeletePod(pod=pod, because=because, unchanged=not pod.is_serving or hook is not None)
    waits = explain_pre_delete(hook, pod) if pod.state == LifecycleState.PREPARING_DELETE else None
    conditions = hold_back(pod, PRE_DELETE_HOOK, now=now) if hook.mark_pod_not_ready else []
    if waits and not conditions:
        return waits
    return ChangePod(
        pod=pod,
        metadata=build_state_metadata(LifecycleState.PREPARING_DELETE, now=now),
        conditions=conditions,
        because=f"{because}; the preDelete hook delays the deletion",
        # A condition with several writers is read, changed and written, so no other write may happen between.
        unchanged=bool(conditions) or not pod.is_serving,
    )
