"""Bring pods into service: readiness conditions, lifecycle states, and updates in place that have started.

StatefulSetWorkingSet ──▶ plan_refresh() ──▶ PlanPhase

Pure. Every plan runs this phase, also while paused and under OnDelete, because pods may wait for a condition or a
state. It also brings back a pod that was to be deleted and is needed again.
"""

from collections.abc import Collection
from typing import Final

from pykruise.kinds.statefulset.in_place import StatefulSetDifferences
from pykruise.kinds.statefulset.status import resize_refused_since
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.plans.failed_resizes import recreation_instead
from pykruise.plans.in_place import InPlaceProgress
from pykruise.plans.lifecycle_refresh import (
    because_of,
    due_conditions,
    refresh_phase,
    released_after_update,
    service_step,
)
from pykruise.plans.phases import PlanPhase
from pykruise.pods.lifecycle.readiness import PRE_DELETE_HOOK, PRE_UPDATE_HOOK, let_go
from pykruise.pods.lifecycle.states import LifecycleState, next_state, state_metadata, why_waiting
from pykruise.pods.view.pod_view import SERVING_STATES, PodView
from pykruise.runtime.plan import Step

_NORMAL: Final = LifecycleState.NORMAL.value


def plan_refresh(
    ws: StatefulSetWorkingSet,
    differences: StatefulSetDifferences,
    *,
    updating: Collection[str],
    except_for: Collection[str],
) -> PlanPhase:
    """Plan the writes for each pod whose conditions or state are behind.

    `updating`: names of the candidates of a running update. `except_for`: pods to which another phase already writes.
    """
    wanted = {pod.name for pod in ws.slot_pods}

    def steps(pod: PodView, progress: InPlaceProgress) -> tuple[Step, ...]:
        is_kept = pod.name in wanted and _is_wanted_again(ws, pod, differences, updating)
        # A pod that prepares for an update that no longer happens returns to service like a pod that was rolled back.
        is_updated = ws.is_updated(pod) or pod.name not in updating
        return _build_steps(ws, pod, progress, is_updated=is_updated, is_kept=is_kept)

    refused = resize_refused_since(ws)
    open_ones = (
        pod
        for pod in ws.counted
        if pod.state != _NORMAL or pod.open_gates or pod.may_be_updating or not pod.is_ready
    )
    return refresh_phase(
        (pod for pod in open_ones if pod.is_active and pod.name not in except_for),
        steps_of=steps,
        instead_of=lambda pod, progress: recreation_instead(
            pod,
            progress,
            policy=ws.spec.policy,
            refused_since=refused,
            settings=ws.settings.in_place,
            now=ws.now,
        ),
        why_waiting=lambda pod: why_waiting(pod, ws.spec.lifecycle),
        now=ws.now,
        settings=ws.settings.in_place,
    )


def _is_wanted_again(
    ws: StatefulSetWorkingSet, pod: PodView, differences: StatefulSetDifferences, updating: Collection[str]
) -> bool:
    """Whether a pod in PreparingDelete no longer has a reason to be deleted: neither a mark nor an update that would
    recreate it.
    """
    if pod.state != LifecycleState.PREPARING_DELETE or pod.is_specified_delete:
        return False
    return ws.is_updated(pod) or pod.name not in updating or not differences.recreates(pod)


def _build_steps(
    ws: StatefulSetWorkingSet, pod: PodView, progress: InPlaceProgress, *, is_updated: bool, is_kept: bool
) -> tuple[Step, ...]:
    """Build one patch with everything that the pod needs; empty when it needs nothing."""
    state = next_state(
        pod,
        ws.spec.lifecycle,
        is_updated=is_updated,
        is_update_complete=progress.is_complete,
    )
    released = released_after_update(pod, state, now=ws.now)
    if is_kept:
        state = LifecycleState.NORMAL
        released += let_go(pod, PRE_DELETE_HOOK, now=ws.now)
    if pod.state in SERVING_STATES:
        # The remains of an interrupted update or deletion would otherwise keep the pod out of service forever.
        released = let_go(pod, PRE_DELETE_HOOK, now=ws.now) or let_go(pod, PRE_UPDATE_HOOK, now=ws.now)
    conditions = due_conditions(pod, progress, released=released, now=ws.now)
    because = because_of(conditions, None if is_kept else state)
    if is_kept:
        because = ", and ".join(filter(None, (because, "its deletion is no longer wanted")))
    metadata = state_metadata(state, now=ws.now) if state else None
    return service_step(pod, progress, conditions=conditions, metadata=metadata, because=because)
