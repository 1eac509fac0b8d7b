"""CloneSet, as explain, plan and simulate know it.

spec ──▶ strategy_of()      status ──▶ counts_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kinds.cloneset.types import PodUpdatePolicy
from pykruise.kube.documents import Document
from pykruise.plans.insight import ROLLING_UPDATE, Counts, Strategy, WorkloadInsight
from pykruise.plans.plan import Plan

__all__ = ["INSIGHT"]

_WAYS: Final[Mapping[str, Literal["if possible", "only"]]] = {
    PodUpdatePolicy.IN_PLACE_IF_POSSIBLE: "if possible",
    PodUpdatePolicy.IN_PLACE_ONLY: "only",
}


def strategy_of(spec: Mapping[str, Any]) -> tuple[Strategy | None, str]:
    """How its pods get a new template."""
    read, problem = read_spec(spec)
    if read is None:
        return None, problem
    found = Strategy(
        in_place=_WAYS.get(read.policy, "never"),
        recreates_because="podUpdatePolicy is ReCreate",
        is_paused=read.is_paused,
        is_on_delete=read.is_on_delete,
        min_ready_s=read.min_ready_seconds,
        lifecycle=read.lifecycle,
    )
    return found, ""


def counts_of(document: Document, status: Mapping[str, Any], _plan: Plan) -> Counts:
    """How far it is."""
    return Counts(
        wanted=document["spec"].get("replicas", 1),
        updated=status.get("updatedReplicas", 0),
        to_be_updated=status.get("expectedUpdatedReplicas", 0),
        available=status.get("availableReplicas", 0),
        revision=status.get("updateRevision") or "",
    )


INSIGHT: Final = WorkloadInsight(
    names=frozenset({"clone"}),
    strategy=strategy_of,
    counts=counts_of,
    asks_budgets=lambda settings: settings.asks_budgets,
    fields={
        "replicas": ("spec", "replicas"),
        "partition": (*ROLLING_UPDATE, "partition"),
        "maxUnavailable": (*ROLLING_UPDATE, "maxUnavailable"),
        "maxSurge": (*ROLLING_UPDATE, "maxSurge"),
        "paused": (*ROLLING_UPDATE, "paused"),
    },
)
