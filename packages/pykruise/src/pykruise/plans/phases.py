"""Results of the phases of a plan: decisions to write, and the reasons why pods are not changed.

scale, update, refresh of a kind ──▶ PlanPhase: decisions in stages ──▶ pod_writes.py ──▶ stages of the Plan
hook + pod ──▶ decide_deletion() ──▶ delete the pod, or set PreparingDelete, or the reason why the pod waits

Pure. A decision is a value: what happens to one pod, and why. Only pod_writes.py turns decisions into API writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
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
"""Maximum number of pods that one phase writes to in one plan. An API server can handle about this number of writes in
the second until the next plan, and planning them (at most 60 µs each) does not delay other work.
"""


ON_DELETE: Final = Reason(
    Code.ON_DELETE, "the update strategy is OnDelete: the pod is updated when a person deletes it"
)
PAUSED: Final = Reason(Code.PAUSED, "updates are paused")
MAX_UNAVAILABLE_USED_UP: Final = Reason(Code.BUDGET, "waits for its turn: maxUnavailable is used up")
OTHERS_FIRST: Final = Reason(Code.TURN, "waits for its turn: other pods are being updated")
"""Reasons, the same for every kind, why pods of an older revision are not changed."""


class CreatePod(msgspec.Struct, frozen=True, kw_only=True):
    """A new pod."""

    subject: str
    """Name of the pod."""
    document: Document
    because: str
    created: str
    """Message of the event if the pod was created."""
    failed: str = "failed to create a pod"
    """Message of the event if the creation failed."""
    before: tuple[Step, ...] = ()
    """Writes to the pod's claims that are sent first."""
    has_random_name: bool = True
    """See `Chain.has_random_name`."""


class PodDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to write to an existing pod."""

    pod: PodView

    @property
    def subject(self) -> str:
        """Name of the pod."""
        return self.pod.name


class DeletePod(PodDecision, frozen=True, kw_only=True):
    """A decision to delete a pod."""

    because: str
    unchanged: bool
    """Whether the write must fail if the pod has changed. If True, the write contains the pod's resourceVersion."""
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    """Writes to the pod's claims before and after its deletion."""
    also: tuple[Note, ...] = ()
    """Further events about the deletion, see `Step.also`."""


class ChangePod(PodDecision, frozen=True, kw_only=True):
    """A decision to change metadata and conditions of a pod in one write."""

    metadata: Document = {}
    conditions: Sequence[Document] = ()
    because: str
    unchanged: bool = False
    """Whether the write must fail if the pod has changed. If True, the write contains the pod's resourceVersion."""
    before: tuple[Step, ...] = ()
    """Writes to the pod's claims that are sent first."""
    done: Note | None = None
    failed: Note | None = None


class UpdatePod(PodDecision, frozen=True, kw_only=True):
    """A decision to begin or continue an in-place update."""

    writes: Sequence[PodPatch]
    revision: str = ""
    """Name of the revision if this begins an update to it; empty if the update has begun before."""

    @property
    def is_resize(self) -> bool:
        """Whether a write resizes the running pod. The API server may reject such a write."""
        return any(write.subresource == RESIZE for write in self.writes)


class SpecifyPod(PodDecision, frozen=True, kw_only=True):
    """A decision to mark a pod as specified for deletion. The kind deletes it later, by its own rules."""

    because: str
    unchanged: bool = False
    """Whether the write must fail if the pod has changed. If True, the write contains the pod's resourceVersion."""
    done: Note
    failed: Note | None = None


class SpendBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to record, in one write to a PodUnavailableBudget, all of its pods whose update begins now. The write
    fails if another program has used the budget since it was read.
    """

    budget: BudgetView
    pods: Sequence[PodView]
    now: Instant

    @property
    def subject(self) -> str:
        """The budget, in messages."""
        return f"budget {self.budget.name}"


Decision = CreatePod | DeletePod | ChangePod | UpdatePod | SpecifyPod | SpendBudget | Chain
"""One decision. A Chain contains writes to claims."""


class DecidedStage(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions that are carried out concurrently. For the options see `Stage`."""

    purpose: Purpose
    decisions: Sequence[Decision]
    ramp: bool = False
    is_optional: bool = False
    regardless: bool = False
    is_independent: bool = False
    only_after: tuple[Purpose, ...] = ()
    instead_of: tuple[Purpose, ...] = ()
    is_last: bool = False
    """Whether the stage is sent after the stages of all phases: the API server perhaps rejects its writes every time,
    and this must not delay other pods.
    """


class PlanPhase(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Decisions of one phase, the reasons why pods are not changed, and events.

    `dict=True`: `stages` and `touched` are computed once, because callers read them once per pod.
    """

    decided: tuple[DecidedStage, ...] = ()
    """Stages in their order. A stage without decisions is ignored."""
    skipped: Mapping[str, Reason] = {}
    """Name of each pod that is not changed → the reason."""
    notes: tuple[Note, ...] = ()
    failure: Reason | None = None
    """Why a part of the phase is impossible. A condition reports this."""
    look_at: Instant | None = None
    """Time at which the phase can continue even without an event."""
    is_partial: bool = False
    """Whether further writes are needed that exceed the limit for one plan. The next plan follows immediately."""

    @cached_property
    def stages(self) -> tuple[DecidedStage, ...]:
        """The stages with decisions; empty if the phase writes nothing."""
        return tuple(stage for stage in self.decided if stage.decisions)

    @cached_property
    def touched(self) -> frozenset[str]:
        """Names of the pods to which the phase writes."""
        return frozenset(decision.subject for stage in self.decided for decision in stage.decisions)


def list_alternatives(*phases: PlanPhase) -> tuple[DecidedStage, ...]:
    """Return the stages of these phases. The stages of a later phase are carried out only if the earlier phases write
    nothing, because the API server rejects all of their writes. So a write that is rejected every time does not prevent
    the later phases forever.
    """
    stages: list[DecidedStage] = []
    for phase in phases:
        before = tuple(dict.fromkeys(stage.purpose for stage in stages))
        stages += [
            msgspec.structs.replace(stage, instead_of=(*stage.instead_of, *before)) for stage in phase.stages
        ]
    return tuple(stages)


def skip(pods: Iterable[PodView], reason: Reason) -> dict[str, Reason]:
    """Return the name of each pod with this reason."""
    return dict.fromkeys((pod.name for pod in pods), reason)


def decide_deletion(
    pod: PodView, *, hook: LifecycleHook | None, now: Instant, because: str
) -> DeletePod | ChangePod | Reason:
    """Return the decision to delete the pod, or to set it to PreparingDelete, or the reason why it waits.

    If the preDelete hook has not released the pod, the pod enters PreparingDelete first. If the hook has
    `mark_pod_not_ready`, the same write takes the pod out of service. The deletion of a pod that does not serve uses no
    budget, so this deletion fails if the pod has become ready meanwhile.
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
        # Several programs write this condition. The write fails if the condition has changed since it was read.
        unchanged=bool(conditions) or not pod.is_serving,
    )
