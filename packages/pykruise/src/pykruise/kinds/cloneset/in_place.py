"""Selection of the in-place updates of a CloneSet's pods that begin now.

pods to update + their changes ──▶ begin() ──▶ decisions, or the reason why each pod waits

Pure. The engine (pods/in_place, plans/in_place.py) computes what changes and when an update is complete. This module
adds the hooks and labels of the CloneSet, and limits the number of updates that one plan begins.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kinds.cloneset.differences import label_of
from pykruise.kinds.cloneset.status import is_write_refused
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.plans.in_place import TurnTarget, count_begun_updates, find_hook_wait, take_turn
from pykruise.plans.phases import OTHERS_FIRST, ChangePod, UpdatePod
from pykruise.pods.in_place import UpdateSpec
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

_HELD: Final = frozenset({LifecycleState.PREPARING_UPDATE.value, LifecycleState.UPDATED.value})
"""Lifecycle states in which a pod waits for a hook or for its update, and not for the update of other pods."""

SPECIFIED: Final = Reason(Code.SPECIFIED, "specified for deletion; its successor will be of the new revision")


def begin(
    ws: CloneSetWorkingSet, pods: Sequence[tuple[PodView, UpdateSpec]], target: RevisionView
) -> tuple[list[ChangePod | UpdatePod], dict[str, Reason], bool]:
    """Decide the next step of every pod, in the given order. The changes update the pods to `target`.

    Return the decisions, the reasons why other pods wait, and whether a later plan must begin further updates.
    """
    decisions: list[ChangePod | UpdatePod] = []
    skipped: dict[str, Reason] = {}
    most = count_begun_updates(len(ws.pods))
    going_to = TurnTarget(
        revision=target.name,
        labels={
            keys.REVISION_LABEL: label_of(target, ws.snapshot),
            keys.TEMPLATE_HASH_LABEL: target.hash,
        },
        hook=ws.spec.hooks.in_place_update,
        now=ws.now,
        settings=ws.settings.in_place,
    )
    # A pod whose deletion is rejected every time is updated, so that the pods after it have their turn.
    to_delete = set() if is_write_refused(ws) else {pod.name for pod in ws.to_delete}
    for pod, change in pods:
        is_full = len(decisions) == most
        if not is_full and pod.name in to_delete:
            skipped[pod.name] = SPECIFIED
        elif pod.state in _HELD and (waits := find_hook_wait(pod, going_to.hook)):
            skipped[pod.name] = waits
        elif is_full:
            skipped[pod.name] = OTHERS_FIRST
        else:
            decisions.append(take_turn(pod, change, going_to))
    is_partial = len(decisions) == most and len(pods) > most
    return decisions, skipped, is_partial
