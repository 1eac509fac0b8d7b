"""Deletion costs of pods, so that a workload keeps its spread when it is scaled in.

Grouped ──▶ compute_wanted_costs() ──▶ pod name → cost

Pure. The order of deletion is: pods without a subset, pods above the limit of their subset, pods for which every subset
is full, then pods of the last subset. For pods of old versions, the order of the subsets is reversed, because the new
version fills the first subsets.
"""

from collections.abc import Sequence
from typing import Any, Final

from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.subset_grouping import NOWHERE, Grouped
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION
from pykruise.pods.view.pod_view import PodView

STEP: Final = 100


def compute_wanted_costs(snapshot: SpreadSnapshot, groups: Grouped) -> dict[str, int]:
    """Return the cost of every active pod, except pods of a subset with an unreadable limit, and pods for which every
    subset is full. The latter get no cost, which counts as 0. So they are deleted before the pods within the limits of
    their subsets, which have positive costs. Return nothing while the latest version is unknown.
    """
    if not snapshot.spread.has_deletion_costs or snapshot.latest is None:
        return {}
    subsets = snapshot.spread.subsets
    count = len(subsets)
    costs: dict[str, int] = {}
    for version, members in groups.versions.items():
        for number, subset in enumerate(subsets):
            index = number if version == snapshot.latest else count - 1 - number
            try:
                limit = limit_of(subset, replicas=snapshot.replicas)
            except LimitError:
                continue
            active = [pod for pod in members.get(subset.name, ()) if pod.is_active]
            surplus = 0 if limit == ANY_NUMBER else max(len(active) - limit, 0)
            lower = -STEP * (index + 1)
            for position, pod in enumerate(_sort_for_deletion(active, lower) if surplus else active):
                costs[pod.name] = lower if position < surplus else STEP * (count - index)
        for pod in members.get(NOWHERE, ()):
            if pod.is_active and pod.name not in groups.surplus:
                costs[pod.name] = -STEP * (count + 1)
    return costs


def _sort_for_deletion(pods: Sequence[PodView], lower: int) -> list[PodView]:
    """Sort pods so that the least valuable pods are first: pods without a node, pending pods, pods that are not ready.
    Among the others, pods that already have the lower cost are first. Otherwise the cost would move to another pod
    after every restart. After them come pods that have been ready for the shortest time, have restarted, or are new.
    """

    def place(pod: PodView) -> tuple[Any, ...]:
        has_cost = pod.annotations.get(DELETION_COST_ANNOTATION) == str(lower)
        return (pod.rank.has_node, pod.rank.phase, pod.rank.is_ready, not has_cost, pod.rank)

    return sorted(pods, key=place)
