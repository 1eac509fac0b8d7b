"""PodUnavailableBudget for the commands explain and plan.

snapshot ──▶ short_workloads()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kinds.podunavailablebudget.snapshot import BudgetSnapshot
from pykruise.kube.ids import Key
from pykruise.plans.insight import Insight, InsightChild
from pykruise.plans.targets import TARGET_RESOURCES


def short_workloads(snapshot: BudgetSnapshot) -> Iterator[InsightChild]:
    """Yield the workloads of the budget's pods while pods are missing, because missing pods use up the budget."""
    wanted = snapshot.total if snapshot.wanted is None else min(snapshot.wanted, snapshot.total)
    if len(snapshot.pods) >= wanted:
        return
    for kind, name in snapshot.workloads:
        if (resource := TARGET_RESOURCES.get(kind)) is not None:
            yield InsightChild(resource=resource, key=Key(snapshot.budget.namespace, name))


INSIGHT: Final = Insight(
    names=frozenset({"pub"}), containers=(), children=short_workloads, pod_selector=("spec", "selector")
)
