"""Result of one phase of a plan, and steps for a pod that phases of every kind use.

scale, update, refresh of a kind ──▶ PlanPhase ──▶ the kind's plan.py joins the phases into a Plan

Pure. A kind adds its own parts (claims, labels, events) to the chains from this module.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.readiness import PRE_DELETE_HOOK, hold_back
from pykruise.pods.lifecycle.states import (
    LifecycleHook,
    LifecycleState,
    is_hooked,
    pre_delete_wait,
    state_metadata,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Patch, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step
from pykruise.runtime.reasons import Reason

MOST_AT_ONCE: Final = 256
"""Maximum number of pods that one phase writes to in one plan: about as many as an API server handles in the second
before the next plan, and few enough to be planned (60 µs each at most) without delaying other work.
"""


ON_DELETE: Final = Reason(Code.ON_DELETE, "OnDelete: it is updated when a person deletes it")
PAUSED: Final = Reason(Code.PAUSED, "updates are paused")
MAX_UNAVAILABLE_USED_UP: Final = Reason(Code.BUDGET, "waits for its turn: maxUnavailable is used up")
OTHERS_FIRST: Final = Reason(Code.TURN, "waits for its turn: others are being updated")
"""Reason for pods of an older revision that are left alone, for every kind."""


class PlanPhase(msgspec.Struct, frozen=True, kw_only=True):
    """Writes of one phase, the pods left alone with their reasons, and events."""

    stages: tuple[Stage, ...] = ()
    late_stages: tuple[Stage, ...] = ()
    """Writes that the API server may refuse each time. They are the last ones of a plan, so that a refusal does not
    delay other pods.
    """
    skipped: Mapping[str, Reason] = {}
    """Reasons by name of pods that are left alone."""
    notes: tuple[Note, ...] = ()
    failure: Reason | None = None
    """A part of the phase that is impossible, which a condition reports."""
    look_at: Instant | None = None
    """Time at which the phase can continue without an event."""
    is_partial: bool = False
    """Whether a limit per plan left out further writes: plan again as soon as this plan is done."""

    @property
    def is_writing(self) -> bool:
        """Whether the phase has writes left."""
        return bool(self.stages or self.late_stages)

    @property
    def touched(self) -> frozenset[str]:
        """Names of the pods that are written to."""
        stages = (*self.stages, *self.late_stages)
        return frozenset(chain.subject for stage in stages for chain in stage.chains)


def pod_key(pod: PodView) -> Key:
    """Return the key for writes to the pod."""
    return Key(pod.namespace, pod.name)


def pod_patch(
    pod: PodView,
    body: Document,
    *,
    patch_type: PatchType = PatchType.STRATEGIC,
    subresource: str = "",
    unchanged: bool = False,
    is_dry_run: bool = False,
) -> Patch:
    """Return a patch of exactly this pod. `unchanged`: only if its resourceVersion is still the same."""
    return patch_object(
        PODS,
        pod,
        body,
        patch_type=patch_type,
        subresource=subresource,
        unchanged=unchanged,
        is_dry_run=is_dry_run,
    )


def pod_chain(pod: PodView, *steps: Step) -> Chain:
    """Return the writes to one pod as a chain."""
    return Chain(subject=pod.name, steps=steps)


def stage_of(
    purpose: Purpose,
    chains: Iterable[Chain],
    *,
    ramp: bool = False,
    is_optional: bool = False,
    regardless: bool = False,
    only_after: tuple[Purpose, ...] = (),
) -> tuple[Stage, ...]:
    """Return the stage with these chains; empty without chains."""
    result = tuple(chains)
    if not result:
        return ()
    stage = Stage(
        purpose=purpose,
        chains=result,
        ramp=ramp,
        is_optional=is_optional,
        regardless=regardless,
        only_after=only_after,
    )
    return (stage,)


def skip(pods: Iterable[PodView], reason: Reason) -> dict[str, Reason]:
    """Return the same reason for all pods."""
    return dict.fromkeys((pod.name for pod in pods), reason)


def state_step(
    pod: PodView,
    state: LifecycleState,
    *,
    now: Instant,
    because: str,
    conditions: Sequence[Document] = (),
    unchanged: bool = False,
) -> Step:
    """Set the lifecycle state; with conditions, both are one write of the status subresource.

    `unchanged`: only if the pod's resourceVersion is still the same.
    """
    return Step(
        action=pod_patch(
            pod,
            {
                "metadata": state_metadata(state, now=now),
                **({"status": {"conditions": list(conditions)}} if conditions else {}),
            },
            subresource="status" if conditions else "",
            # A condition with several writers is read, changed and written, so no other write may happen between.
            unchanged=unchanged or bool(conditions),
        ),
        because=because,
    )


def delete_steps(
    pod: PodView, *, hook: LifecycleHook | None, now: Instant, because: str
) -> tuple[tuple[Step, ...], Reason | None]:
    """Return the steps that delete the pod now, or none and the reason to wait.

    A pod that the preDelete hook holds enters PreparingDelete first, which also takes it out of service. A pod that
    is deleted because it does not serve must be unchanged: if it became ready meanwhile, its deletion would need a
    place in the budget.
    """
    if hook is not None and is_hooked(hook, pod):
        conditions = hold_back(pod, PRE_DELETE_HOOK, now=now) if hook.mark_pod_not_ready else []
        if pod.state == LifecycleState.PREPARING_DELETE and not conditions:
            return (), pre_delete_wait(hook, pod)
        held = f"{because}; the preDelete hook holds it"
        state = LifecycleState.PREPARING_DELETE
        step = state_step(
            pod, state, now=now, because=held, conditions=conditions, unchanged=not pod.is_serving
        )
        return (step,), None
    step = Step(
        action=delete_object(PODS, pod, unchanged=not pod.is_serving or hook is not None),
        because=because,
        done=Note(reason="SuccessfulDelete", message=f"deleted pod {pod.name}: {because}"),
        failed=Note(reason="FailedDelete", message=f"failed to delete pod {pod.name}", warning=True),
    )
    return (step,), None
