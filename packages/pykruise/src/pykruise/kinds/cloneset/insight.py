"""CloneSet for the commands explain, plan and simulate.

spec ──▶ make_strategy_reader()      status ──▶ counts_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kube.documents import Document
from pykruise.plans.insight import RolloutCounts, WorkloadInsight, make_strategy_reader
from pykruise.runtime.plan import Plan


def counts_of(document: Document, status: Mapping[str, Any], _plan: Plan) -> RolloutCounts:
    """Return the counts that show the progress of the rollout."""
    return RolloutCounts(
        wanted=document["spec"].get("replicas", 1),
        updated=status.get("updatedReplicas", 0),
        to_be_updated=status.get("expectedUpdatedReplicas", 0),
        available=status.get("availableReplicas", 0),
        revision=status.get("updateRevision") or "",
    )


INSIGHT: Final = WorkloadInsight(
    names=frozenset({"clone"}),
    strategy=make_strategy_reader(read_spec, min_ready_s=lambda spec: spec.min_ready_seconds),
    counts=counts_of,
    asks_budgets=lambda settings: settings.asks_budgets,
)
