"""Who is updated, and who goes first.

WorkingSet ──▶ candidates() ──▶ slots in the order of their turn

Pure. As many as the partition leaves: the highest ordinals first, or by the priorities of unorderedUpdate.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds.statefulset.working_set import Slot, WorkingSet
from pykruise.kube.selectors import Selector, SelectorError, selector_from
from pykruise.pods.api import PriorityStrategy
from pykruise.pods.ordering import by_ordered_keys, by_weight
from pykruise.pods.views import PodView

__all__ = ["candidates"]


def candidates(ws: WorkingSet) -> Sequence[Slot]:
    """The slots that are to be of the update revision. Missing pods hold their place in the order."""
    descending = list(reversed(ws.slots))
    if ws.limits.quota == 0 or ws.spec.is_on_delete or ws.spec.rolling_update is None:
        return []
    unordered = ws.spec.rolling_update.unordered_update
    if unordered is None:
        return descending[: ws.limits.quota]
    ahead: list[Slot] = []
    others: list[Slot] = []
    for slot in descending:
        is_ahead = slot.pod is not None and (slot.pod.is_deleting or ws.counts_as_updated(slot.pod))
        (ahead if is_ahead or _comes_updated(ws, slot) else others).append(slot)
    return [*ahead, *_by_priority(others, unordered.priority_strategy)][: ws.limits.quota]


def _comes_updated(ws: WorkingSet, slot: Slot) -> bool:
    """A pod that is made in this very plan: it gets the update revision while the partition has its fill."""
    if slot.pod is not None:
        return False
    old = sum(not ws.counts_as_updated(pod) for pod in ws.slot_pods)
    return old >= ws.limits.partition


def _by_priority(slots: Sequence[Slot], strategy: PriorityStrategy | None) -> Sequence[Slot]:
    if strategy is None:
        return slots
    pods = [slot.pod for slot in slots if slot.pod is not None]
    by_name = {slot.name: slot for slot in slots}
    ordered = _ordered(pods, strategy)
    missing = [slot for slot in slots if slot.pod is None]
    return [*(by_name[pod.name] for pod in ordered), *missing]


def _ordered(pods: Sequence[PodView], strategy: PriorityStrategy) -> Sequence[PodView]:
    if strategy.weight_priority:
        terms = [
            (selector, term.weight)
            for term in strategy.weight_priority
            if (selector := _selector(msgspec.to_builtins(term.match_selector))) is not None
        ]
        return by_weight(pods, terms)
    return by_ordered_keys(pods, [term.ordered_key for term in strategy.order_priority or ()])


def _selector(text: dict[str, object]) -> Selector | None:
    try:
        return selector_from(text)
    except SelectorError:
        return None  # admission was bypassed; it matches nobody
