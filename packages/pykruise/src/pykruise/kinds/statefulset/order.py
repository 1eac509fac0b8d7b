"""Update order: which pods are updated, and which first.

StatefulSetWorkingSet ──▶ candidates() ──▶ slots in the order of their turn

Pure. As many as the partition leaves: the highest ordinals first, or by the priorities of unorderedUpdate.
"""

from collections.abc import Sequence

from pykruise.kinds.statefulset.building import StatefulSetRevisionChoice
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.pods.lifecycle.ordering import by_priority
from pykruise.pods.view.pod_view import PodView


def candidates(ws: StatefulSetWorkingSet) -> Sequence[Slot]:
    """The slots that are to be of the update revision. Missing pods hold their place in the order."""
    if ws.spec.is_on_delete:
        return []
    descending = list(reversed(ws.slots))
    block = ws.spec.rolling_update
    unordered = block.unordered_update if block else None
    if unordered is None:
        return descending[: ws.limits.quota]
    # Missing pods are made of the revision that the partition leaves them: those that come updated take up the quota.
    # One that comes old is no candidate: then updated pods, and those that terminate, fill the quota.
    choice = StatefulSetRevisionChoice(ws)
    come_updated = {
        slot.name for slot in ws.slots if slot.pod is None and choice.of(slot).hash == ws.update.hash
    }
    ahead: list[Slot] = []
    others: list[PodView] = []
    for slot in descending:
        pod = slot.pod
        if pod is None:
            if slot.name in come_updated:
                ahead.append(slot)
        elif pod.is_deleting or ws.counts_as_updated(pod):
            ahead.append(slot)
        else:
            others.append(pod)
    by_name = {slot.name: slot for slot in descending}
    in_order = [by_name[pod.name] for pod in by_priority(others, unordered.priority_strategy)]
    return [*ahead, *in_order][: ws.limits.quota]
