"""Bring pods into service: readiness conditions, lifecycle states, and in-place updates that have started.

StatefulSetWorkingSet ──▶ plan_refresh() ──▶ PlanPhase

Pure. Every plan runs this phase, also while the set is paused and under OnDelete, because pods may wait for a condition
or a state. This phase also returns a pod from PreparingDelete to service when the pod is needed again.
"""

from collections.abc import Collection, Sequence
from typing import Final

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.status import resize_refused_since
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.plans.in_place import Differences, InPlaceProgress
from pykruise.plans.lifecycle_refresh import bring_into_service, refresh_phase
from pykruise.plans.phases import ChangePod, PlanPhase
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import NotInPlace
from pykruise.pods.lifecycle.readiness import PRE_DELETE_HOOK, PRE_UPDATE_HOOK, remove_hold
from pykruise.pods.lifecycle.states import LifecycleState, explain_waiting, find_next_state
from pykruise.pods.view.pod_view import SERVING_STATES, PodView
from pykruise.runtime.reasons import Reason

_NORMAL: Final = LifecycleState.NORMAL.value


def plan_refresh(
    ws: StatefulSetWorkingSet,
    differences: Differences,
    *,
    updating: Collection[str],
    except_for: Collection[str],
    recreates: bool = False,
) -> PlanPhase:
    """Plan the writes for each pod whose conditions or state are out of date.

    `updating`: names of the candidates of a running update. `except_for`: pods to which another phase already writes.
    `recreates`: whether the update recreates all pods.
    """
    wanted = {pod.name for pod in ws.slot_pods}
    growth = Growth(ws)

    def decide(pod: PodView, progress: InPlaceProgress) -> ChangePod | Reason | None:
        is_kept = pod.name in wanted and _is_wanted_again(
            ws, pod, differences, growth, updating, recreates=recreates
        )
        # A pod in PreparingUpdate whose update no longer happens returns to service like a pod that was
        # rolled back.
        is_updated = ws.is_updated(pod) or pod.name not in updating
        return _decide(ws, pod, progress, is_updated=is_updated, is_kept=is_kept)

    open_ones = (
        pod
        for pod in ws.counted
        if pod.state != _NORMAL or pod.open_gates or pod.may_be_updating or not pod.is_ready
    )
    return refresh_phase(
        (pod for pod in open_ones if pod.is_active and pod.name not in except_for),
        decide=decide,
        policy=ws.spec.policy,
        refused_since=resize_refused_since(ws),
        now=ws.now,
        settings=ws.settings.in_place,
    )


def _is_wanted_again(
    ws: StatefulSetWorkingSet,
    pod: PodView,
    differences: Differences,
    growth: Growth,
    updating: Collection[str],
    *,
    recreates: bool,
) -> bool:
    """Whether a pod in PreparingDelete no longer has a reason to be deleted: it is not specified for deletion, and no
    update recreates it, neither for the update revision nor for the file system of its claims.
    """
    if pod.state != LifecycleState.PREPARING_DELETE or pod.is_specified_delete:
        return False
    if pod.name not in updating:
        return True
    if ws.is_updated(pod):
        return not growth.is_restart_due(ws.read_ordinal(pod))
    return not (recreates or _is_recreated(ws, differences, pod))


def _is_recreated(ws: StatefulSetWorkingSet, differences: Differences, pod: PodView) -> bool:
    """Whether an update recreates the pod."""
    only = ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY
    return not only and isinstance(differences.find_difference(pod), NotInPlace)


def _decide(
    ws: StatefulSetWorkingSet, pod: PodView, progress: InPlaceProgress, *, is_updated: bool, is_kept: bool
) -> ChangePod | Reason | None:
    """Decide one write with everything that the pod needs, or the reason why it waits."""
    state = find_next_state(
        pod,
        ws.spec.lifecycle,
        is_updated=is_updated,
        is_update_complete=progress.is_complete,
    )
    released: Sequence[Document] = ()
    if is_kept:
        state = LifecycleState.NORMAL
        released = remove_hold(pod, PRE_DELETE_HOOK, now=ws.now)
    elif pod.state in SERVING_STATES:
        # An interrupted update or deletion may have set a condition to False. Without this write, the condition would
        # keep the pod out of service forever.
        released = remove_hold(pod, PRE_DELETE_HOOK, now=ws.now) or remove_hold(
            pod, PRE_UPDATE_HOOK, now=ws.now
        )
    because = "its deletion is no longer wanted" if is_kept else ""
    change = bring_into_service(pod, progress, state=state, released=released, because=because, now=ws.now)
    return change or explain_waiting(pod, ws.spec.lifecycle)
