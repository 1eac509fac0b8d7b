"""Result of one phase of a plan, and the steps for a pod that phases of every kind use.

scale, update, refresh of a kind ──▶ Phase ──▶ the kind's plan.py joins the phases into a Plan

Pure. A kind adds what is its own (claims, labels, events) to the chains that are made here.
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
"""Pods that one phase writes to in one plan: about what an API server takes in the second after which the world
is looked at again, and few enough to be planned (60 µs each at most) without holding up everything else."""


ON_DELETE: Final = Reason(Code.ON_DELETE, "OnDelete: it is updated when a person deletes it")
PAUSED: Final = Reason(Code.PAUSED, "updates are paused")
MAX_UNAVAILABLE_USED_UP: Final = Reason(Code.BUDGET, "waits for its turn: maxUnavailable is used up")
OTHERS_FIRST: Final = Reason(Code.TURN, "waits for its turn: others are being updated")
"""Why pods of an older revision are left alone, whatever the kind."""


class PlanPhase(msgspec.Struct, frozen=True, kw_only=True):
    """The writes of one phase, the pods left alone with their reasons, and what to tell."""

    stages: tuple[Stage, ...] = ()
    skipped: Mapping[str, Reason] = {}
    """Pods left alone."""
    notes: tuple[Note, ...] = ()
    failure: Reason | None = None
    """Impossible part of the phase, reported as a condition."""
    look_at: Instant | None = None
    """When time alone lets it go on."""
    is_partial: bool = False
    """More would be written if it were not for a limit per plan: plan again as soon as this is done."""

    @property
    def touched(self) -> frozenset[str]:
        """Names of the pods that are written to."""
        return frozenset(chain.subject for stage in self.stages for chain in stage.chains)


def pod_key(pod: PodView) -> Key:
    """Where a write to the pod goes."""
    return Key(pod.namespace, pod.name)


def pod_patch(
    pod: PodView,
    body: Document,
    *,
    patch_type: PatchType = PatchType.STRATEGIC,
    subresource: str = "",
    unchanged: bool = False,
) -> Patch:
    """A patch of this very pod. `unchanged`: only if it is still as it was seen."""
    return patch_object(PODS, pod, body, patch_type=patch_type, subresource=subresource, unchanged=unchanged)


def pod_chain(pod: PodView, *steps: Step) -> Chain:
    """The writes to one pod."""
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
    """The stage with these chains; none without any."""
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
    """The same reason for all."""
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
    """Set the lifecycle state; with conditions in one write of the status subresource, which takes both.

    `unchanged`: only if the pod is still as it was seen.
    """
    return Step(
        action=pod_patch(
            pod,
            {
                "metadata": state_metadata(state, now=now),
                **({"status": {"conditions": list(conditions)}} if conditions else {}),
            },
            subresource="status" if conditions else "",
            # A condition with several writers is read, changed and written: no other write may come between.
            unchanged=unchanged or bool(conditions),
        ),
        because=because,
    )


def delete_steps(
    pod: PodView, *, hook: LifecycleHook | None, now: Instant, because: str
) -> tuple[tuple[Step, ...], Reason | None]:
    """Steps of deleting the pod now, or no steps and the reason for waiting.

    A pod that the preDelete hook holds goes to PreparingDelete first, which takes it out of service too. A pod
    that goes because it does not serve must still be as it was seen: had it become ready meanwhile, it would
    cost a place in the budget.
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
