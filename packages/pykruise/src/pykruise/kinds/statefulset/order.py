"""Update order: the pods that are updated, and their order.

StatefulSetWorkingSet ──▶ list_candidates() ──▶ slots in update order

Pure. The partition limits the number of pods. The highest ordinals come first, unless unorderedUpdate sets
priorities.
"""

from collections.abc import Sequence

from pykruise.kinds.statefulset.building import StatefulSetRevisionChoice
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.pods.lifecycle.ordering import sort_by_priority
from pykruise.pods.view.pod_view import PodView


def list_candidates(ws: StatefulSetWorkingSet) -> Sequence[Slot]:
    """Slots that should have the update revision. Without unorderedUpdate, a missing pod keeps its place in the order.
    With it, missing pods that are created at the update revision come first, and other missing pods are left out.
    """
    if ws.spec.is_on_delete:
        return []
    descending = list(reversed(ws.slots))
    block = ws.spec.rolling_update
    unordered = block.unordered_update if block else None
    if unordered is None:
        return descending[: ws.limits.quota]
    # A missing pod is created at the revision that the partition assigns. If that is the update revision, it uses
    # part of the quota. Otherwise it is not a candidate. Updated and terminating pods always use part of the quota.
    choice = StatefulSetRevisionChoice(ws)
    come_updated = {
        slot.name
        for slot in ws.slots
        if slot.pod is None and choice.choose_revision(slot).hash == ws.update.hash
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
    in_order = [by_name[pod.name] for pod in sort_by_priority(others, unordered.priority_strategy)]
    return [*ahead, *in_order][: ws.limits.quota]
