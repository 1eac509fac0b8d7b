"""Who is updated, and who goes first.

WorkingSet ──▶ candidates() ──▶ slots in the order of their turn

Pure. As many as the partition leaves: the highest ordinals first, or by the priorities of unorderedUpdate.
"""

from collections.abc import Sequence

from pykruise.kinds.statefulset.building import RevisionChoice
from pykruise.kinds.statefulset.working_set import Slot, WorkingSet
from pykruise.pods.api import PriorityStrategy
from pykruise.pods.ordering import by_priority

__all__ = ["candidates"]


def candidates(ws: WorkingSet) -> Sequence[Slot]:
    """The slots that are to be of the update revision. Missing pods hold their place in the order."""
    descending = list(reversed(ws.slots))
    if ws.limits.quota == 0 or ws.spec.is_on_delete:
        return []
    block = ws.spec.rolling_update
    unordered = block.unordered_update if block else None
    if unordered is None:
        return descending[: ws.limits.quota]
    # Missing pods are made of the revision that the partition leaves them: those that come updated take up the quota.
    choice = RevisionChoice(ws)
    come_updated = {
        slot.name for slot in ws.slots if slot.pod is None and choice.of(slot).hash == ws.update.hash
    }
    ahead: list[Slot] = []
    others: list[Slot] = []
    for slot in descending:
        pod = slot.pod
        is_ahead = slot.name in come_updated if pod is None else pod.is_deleting or ws.counts_as_updated(pod)
        (ahead if is_ahead else others).append(slot)
    return [*ahead, *_by_priority(others, unordered.priority_strategy)][: ws.limits.quota]


def _by_priority(slots: Sequence[Slot], strategy: PriorityStrategy | None) -> Sequence[Slot]:
    if strategy is None:
        return slots
    pods = [slot.pod for slot in slots if slot.pod is not None]
    by_name = {slot.name: slot for slot in slots}
    missing = [slot for slot in slots if slot.pod is None]
    return [*(by_name[pod.name] for pod in by_priority(pods, strategy)), *missing]
