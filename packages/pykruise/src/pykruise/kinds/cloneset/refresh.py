"""Writes that bring pods into service: readiness conditions, lifecycle states, and steps of started in-place updates.

CloneSetWorkingSet ──▶ plan_refresh() ──▶ PlanPhase

Pure. Every plan runs this phase, even while the CloneSet is paused and under OnDelete, because a pod may wait for a
condition or a state. One patch sets the readiness conditions and the state of a pod: when a new pod gets a node, and
when an in-place update is complete. The patch also adds labels that older versions did not set.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.status import resize_refused_since
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.plans.in_place import InPlaceProgress
from pykruise.plans.lifecycle_refresh import bring_into_service, refresh_phase
from pykruise.plans.phases import ChangePod, PlanPhase, skip
from pykruise.pods.lifecycle.states import WAITS_FOR_A_NODE, LifecycleState, explain_waiting, find_next_state
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

_NEW: Final = LifecycleState.PREPARING_NORMAL.value
_NORMAL: Final = LifecycleState.NORMAL.value


def plan_refresh(
    ws: CloneSetWorkingSet, *, chosen: Collection[str] | None, except_for: Collection[str]
) -> PlanPhase:
    """Plan the writes for each pod whose conditions or state are out of date.

    `chosen`: names of the pods to update now or later; None if this plan does not choose pods to update. `except_for`:
    names of pods to which another phase writes.
    """
    hash_label = keys.TEMPLATE_HASH_LABEL
    # One comprehension without calls is fast: in most plans, most pods need no write.
    open_ones = [
        pod
        for pod in ws.all_pods
        if pod.state != _NORMAL or pod.open_gates or pod.may_be_updating or hash_label not in pod.labels
    ]
    if except_for:
        open_ones = [pod for pod in open_ones if pod.name not in except_for]
    waiting = _find_pods_without_node(ws, open_ones)
    phase = refresh_phase(
        [pod for pod in open_ones if pod.name not in waiting] if waiting else open_ones,
        decide=lambda pod, progress: _decide(ws, pod, progress, chosen),
        policy=ws.spec.policy,
        refused_since=resize_refused_since(ws),
        now=ws.now,
        settings=ws.settings.in_place,
        recall=ws.recall,
    )
    return msgspec.structs.replace(phase, skipped={**waiting, **phase.skipped}) if waiting else phase


def _find_pods_without_node(ws: CloneSetWorkingSet, pods: Sequence[PodView]) -> dict[str, Reason]:
    """Find new pods that need no write until they have a node. After a large scale-out there are thousands of them."""
    hook = ws.spec.hooks.pre_normal
    if hook is not None and hook.has_handlers:
        return {}
    return skip(
        (
            pod
            for pod in pods
            if not pod.node_name
            and pod.state == _NEW
            and not pod.may_be_updating
            and keys.TEMPLATE_HASH_LABEL in pod.labels
        ),
        WAITS_FOR_A_NODE,
    )


def _decide(
    ws: CloneSetWorkingSet, pod: PodView, progress: InPlaceProgress, chosen: Collection[str] | None
) -> ChangePod | Reason | None:
    """Return one write with everything that the pod needs now, the reason why it waits, or None."""
    # A pod in PreparingUpdate whose update is no longer wanted (the update is paused, or the partition was raised)
    # returns to service. Otherwise it would be out of service until the update continues. `chosen` can also contain
    # pods of the update revision: they return to the current revision.
    is_done_with = pod.revision == ws.update.hash if chosen is None else pod.name not in chosen
    state = find_next_state(
        pod,
        ws.spec.lifecycle,
        is_updated=is_done_with,
        is_update_complete=progress.is_complete,
    )
    lacks_hash = pod.revision and keys.TEMPLATE_HASH_LABEL not in pod.labels
    change = bring_into_service(
        pod,
        progress,
        state=state,
        labels={keys.TEMPLATE_HASH_LABEL: pod.revision} if lacks_hash else {},
        because_of_labels="it lacks the label with its template's hash",
        now=ws.now,
    )
    return change or explain_waiting(pod, ws.spec.lifecycle)
