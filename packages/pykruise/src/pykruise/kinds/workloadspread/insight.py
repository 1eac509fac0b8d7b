"""WorkloadSpread for the commands explain and plan.

snapshot ──▶ short_workload()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kube.ids import Key
from pykruise.plans.insight import Insight, InsightChild
from pykruise.plans.targets import TARGET_RESOURCES


def short_workload(snapshot: SpreadSnapshot) -> Iterator[InsightChild]:
    """Yield the workload while it lacks pods: the cause of this also keeps subsets from being filled."""
    target = snapshot.spread.target
    if (
        target is None
        or not snapshot.is_there
        or sum(pod.is_active for pod in snapshot.pods) >= snapshot.replicas
    ):
        return
    if (resource := TARGET_RESOURCES.get(target[0])) is not None:
        yield InsightChild(resource=resource, key=Key(snapshot.spread.namespace, target[1]))


INSIGHT: Final = Insight(names=frozenset({"ws"}), containers=(), children=short_workload)
