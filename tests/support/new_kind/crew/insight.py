"""Crew for the commands explain, plan and simulate.

spec ──▶ strategy_of()      status ──▶ counts_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.crew.snapshot import read_spec
from pykruise.kube.documents import Document
from pykruise.plans.insight import RolloutCounts, RolloutStrategy, WorkloadInsight
from pykruise.runtime.plan import Plan

__all__ = ["INSIGHT"]


def strategy_of(spec: Mapping[str, Any]) -> tuple[RolloutStrategy | None, str]:
    """The strategy of a Crew: its pods never get a new template."""
    read, problem = read_spec(spec)
    return (None, problem) if read is None else (RolloutStrategy(in_place="never"), "")


def counts_of(document: Document, status: Mapping[str, Any], _plan: Plan) -> RolloutCounts:
    """Counts that show the progress of a Crew."""
    size, there, ready = document["spec"].get("size", 1), status.get("size", 0), status.get("ready", 0)
    return RolloutCounts(wanted=size, updated=there, to_be_updated=size, available=ready, revision="")


INSIGHT: Final = WorkloadInsight(strategy=strategy_of, counts=counts_of, has_known_names=True)
