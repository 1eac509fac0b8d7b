"""Deletion costs, so that a workload that scales down keeps its spread.

Grouped ──▶ wanted_costs() ──▶ pod name → cost

Pure. Pods of the last subset go first, within a subset those beyond its limit before all others; of old versions
in the opposite order, since the new version fills the first subsets.
"""

from collections.abc import Sequence
from typing import Any, Final

from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.subset_grouping import NOWHERE, Grouped
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION
from pykruise.pods.view.pod_view import PodView

STEP: Final = 100
_WITH_COSTS: Final = frozenset({"CloneSet", "Deployment", "ReplicaSet"})


def has_costs(snapshot: SpreadSnapshot) -> bool:
    """Whether the workload asks for costs when it scales down."""
    target = snapshot.spread.target
    return target is not None and target[0].kind in _WITH_COSTS


def wanted_costs(snapshot: SpreadSnapshot, groups: Grouped) -> dict[str, int]:
    """The cost of every active pod but the surplus: without one it goes before pods of subsets all the same, whose
    costs are positive. Nothing while it is not known which version is the latest."""
    if not has_costs(snapshot) or snapshot.latest is None:
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
            for position, pod in enumerate(_delete_first(active, lower) if surplus else active):
                costs[pod.name] = lower if position < surplus else STEP * (count - index)
        for pod in members.get(NOWHERE, ()):
            if pod.is_active and pod.name not in groups.surplus:
                costs[pod.name] = -STEP * (count + 1)
    return costs


def _delete_first(pods: Sequence[PodView], lower: int) -> list[PodView]:
    """Pods whose loss matters least first: unbound, pending, not ready; then those that have the lower cost already, so
    that it does not move from pod to pod with every restart; ready for a short time, restarted, new.
    """

    def place(pod: PodView) -> tuple[Any, ...]:
        has_cost = pod.annotations.get(DELETION_COST_ANNOTATION) == str(lower)
        return (pod.rank.has_node, pod.rank.phase, pod.rank.is_ready, not has_cost, pod.rank)

    return sorted(pods, key=place)
