"""Brings pods into service, the same for every kind: sets conditions and continues in-place updates.

pods of a kind + the steps due for each ──▶ refresh_phase() ──▶ PlanPhase
a complete update ──▶ released_after_update(), due_conditions() ──▶ conditions
conditions + metadata ──▶ service_step() ──▶ one patch of the pod

Pure. A kind selects the pods that may need steps and adds its own parts: states, labels.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.plans.failed_resizes import is_resize
from pykruise.plans.in_place import InPlaceProgress, Recall, summary_of
from pykruise.plans.phases import MOST_AT_ONCE, PlanPhase, pod_chain, pod_patch, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import InPlaceSettings
from pykruise.pods.lifecycle.readiness import PRE_UPDATE_HOOK, let_go, missing_conditions
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.plan import Chain, Step
from pykruise.runtime.reasons import Reason

_NOT_UPDATING: Final = InPlaceProgress()
_DURING_UPDATE: Final = (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING, LifecycleState.UPDATED)


def refresh_phase(
    pods: Iterable[PodView],
    *,
    steps_of: Callable[[PodView, InPlaceProgress], tuple[Step, ...]],
    instead_of: Callable[[PodView, InPlaceProgress], tuple[Step, ...]] = lambda *_: (),
    why_waiting: Callable[[PodView], Reason | None] = lambda _: None,
    now: Instant,
    settings: InPlaceSettings,
    recall: Recall | None = None,
) -> PlanPhase:
    """Return the writes for each of these pods, which may need steps.

    `steps_of`: steps of a pod whose in-place update has no writes itself. `instead_of`: steps that replace those of
    its update, which is given up. `why_waiting`: reason for a pod without steps that is not being updated. `recall`:
    results of the last plan for the same owner.
    """
    recall = recall or Recall()
    chains: list[Chain] = []
    late: list[Chain] = []
    skipped: dict[str, Reason] = {}
    broken: dict[str, Reason] = {}
    times: list[Instant] = []
    is_partial = False
    for pod in pods:
        if len(chains) + len(late) == MOST_AT_ONCE:
            is_partial = True
            break
        progress = recall.go_on(pod, now=now, settings=settings) if pod.may_be_updating else _NOT_UPDATING
        steps = instead_of(pod, progress) or progress.steps or steps_of(pod, progress)
        if progress.look_at is not None:
            times.append(progress.look_at)
        if progress.is_broken and progress.waits is not None:
            broken[pod.name] = progress.waits
        if steps:
            (late if any(map(is_resize, steps)) else chains).append(pod_chain(pod, *steps))
        elif reason := progress.waits or why_waiting(pod):
            skipped[pod.name] = reason
    if not is_partial:
        recall.forget_others()
    return PlanPhase(
        stages=stage_of(Purpose.REFRESH_PODS, chains),
        late_stages=stage_of(Purpose.REFRESH_PODS, late),
        skipped=skipped,
        failure=summary_of(broken, Code.BROKEN_UPDATE_STATE),
        look_at=min(times, default=None),
        is_partial=is_partial,
    )


def due_conditions(
    pod: PodView, progress: InPlaceProgress, *, released: Sequence[Document] = (), now: Instant
) -> list[Document]:
    """Return the conditions that bring the pod into service: those that its update held, those in `released`, and
    missing ones.

    A pod without a node cannot become ready. Once it has a node, its conditions and its state are one write.
    """
    missing = missing_conditions(pod, now=now) if pod.node_name else []
    due = [*progress.conditions, *released]
    own = {condition["type"] for condition in due}
    return [*due, *(entry for entry in missing if entry["type"] not in own)]


def released_after_update(pod: PodView, state: LifecycleState | None, *, now: Instant) -> list[Document]:
    """Release the inPlaceUpdate hook of a pod whose update is complete, when it enters this state."""
    is_over = state in (LifecycleState.NORMAL, LifecycleState.UPDATED) and pod.state in _DURING_UPDATE
    return let_go(pod, PRE_UPDATE_HOOK, now=now) if is_over else []


def because_of(conditions: Sequence[Document], state: LifecycleState | None = None) -> str:
    """Return the reason for writing these conditions and a new state; empty: there is nothing to write."""
    parts = [f"nothing holds {condition['type']} back" for condition in conditions]
    return ", and ".join([*parts, *([f"it may change to {state}"] if state else [])])


def service_step(
    pod: PodView,
    progress: InPlaceProgress,
    *,
    conditions: Sequence[Document],
    metadata: Document | None = None,
    because: str,
) -> tuple[Step, ...]:
    """Return one patch with everything that is due for the pod; empty: nothing is due."""
    if not metadata and not conditions:
        return ()
    body: Document = {}
    if metadata:
        body["metadata"] = metadata
    if conditions:
        body["status"] = {"conditions": list(conditions)}
    # A changed condition, and the end of an update, must apply to the planned resourceVersion: another update may
    # just have begun. A missing condition cannot be confused with another one, and new pods change too often for this
    # check.
    replaced = any(pod.condition(condition["type"]) is not None for condition in conditions)
    action = pod_patch(
        pod, body, subresource="status" if conditions else "", unchanged=replaced or progress.is_complete
    )
    return (Step(action=action, because=because),)
