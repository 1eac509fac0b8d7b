"""The Advanced DaemonSet for the commands explain, plan and simulate.

spec ──▶ make_strategy_reader()      status + plan ──▶ counts_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.daemonset.snapshot import read_spec
from pykruise.kube.documents import Document
from pykruise.plans.insight import RolloutCounts, WorkloadInsight, make_strategy_reader
from pykruise.pods.reasons import Code
from pykruise.runtime.plan import Plan


def counts_of(document: Document, status: Mapping[str, Any], plan: Plan) -> RolloutCounts:
    """Return the progress of the rollout. Nodes that the partition keeps at older revisions do not have to be
    updated.
    """
    wanted = status.get("desiredNumberScheduled", 0)
    kept = sum(why.code == Code.PARTITION for why in plan.skipped.values())
    revision = status.get("updateRevision")
    return RolloutCounts(
        wanted=wanted,
        updated=status.get("updatedNumberScheduled", 0),
        to_be_updated=wanted - kept,
        available=status.get("numberAvailable", 0),
        revision=f"{document['metadata']['name']}-{revision}" if revision else "",
    )


INSIGHT: Final = WorkloadInsight(
    names=frozenset({"advanceddaemonset", "kruiseds"}),
    strategy=make_strategy_reader(
        read_spec,
        min_ready_s=lambda spec: spec.min_ready_seconds,
        recreates_because="rollingUpdateType is Standard",
    ),
    counts=counts_of,
)
