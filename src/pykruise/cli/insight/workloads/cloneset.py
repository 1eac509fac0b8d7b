"""CloneSet, as plan, explain and simulate know it."""

from collections.abc import Mapping
from typing import Any, Literal

from pykruise.cli.insight.workloads.base import Around, Counts, Strategy, Workload
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.snapshot import Snapshot, build_snapshot, project_cloneset, read_spec
from pykruise.kinds.cloneset.types import CLONE_SETS, PodUpdatePolicy
from pykruise.kube.documents import Document
from pykruise.plans.plan import Plan
from pykruise.pods.names import pod_name

__all__ = ["CLONE_SET"]


def _snapshot(around: Around) -> Snapshot:
    view = project_cloneset(around.raw)
    claims = [one for one in around.claims if one.controller_uid == around.uid]
    taken = {pod.name for pod in around.others}
    return build_snapshot(
        view,
        pods=around.pods,
        orphans=around.orphans,
        revisions=around.revisions,
        now=around.now,
        seed=around.seed,
        claims=claims,
        occupied_ids=[one.instance_id for one in claims if pod_name(view.name, one.instance_id) in taken],
        budgets=around.budgets,
        node_labels={node.name: node.labels for node in around.nodes},
        settings=around.settings.cloneset,
    )


def _strategy(spec: Mapping[str, Any]) -> tuple[Strategy | None, str]:
    read, problem = read_spec(spec)
    if read is None:
        return None, problem
    ways: dict[str, Literal["if possible", "only"]] = {
        PodUpdatePolicy.IN_PLACE_IF_POSSIBLE: "if possible",
        PodUpdatePolicy.IN_PLACE_ONLY: "only",
    }
    found = Strategy(
        in_place=ways.get(read.policy, "never"),
        recreates_because="podUpdatePolicy is ReCreate",
        is_paused=read.is_paused,
        is_on_delete=read.is_on_delete,
        min_ready_s=read.min_ready_seconds,
        lifecycle=read.lifecycle,
    )
    return found, ""


def _counts(document: Document, status: Mapping[str, Any], _plan: Plan) -> Counts:
    return Counts(
        wanted=document["spec"].get("replicas", 1),
        updated=status.get("updatedReplicas", 0),
        to_be_updated=status.get("expectedUpdatedReplicas", 0),
        available=status.get("availableReplicas", 0),
        revision=status.get("updateRevision") or "",
    )


_ROLLING = ("spec", "updateStrategy", "rollingUpdate")

CLONE_SET = Workload(
    resource=CLONE_SETS,
    names=frozenset({"clone"}),
    snapshot=_snapshot,
    plan=plan_cloneset,
    strategy=_strategy,
    counts=_counts,
    in_place_settings=lambda settings: settings.cloneset.in_place,
    asks_budgets=lambda settings: settings.cloneset.asks_budgets,
    fields={
        "replicas": ("spec", "replicas"),
        "partition": (*_ROLLING, "partition"),
        "maxUnavailable": (*_ROLLING, "maxUnavailable"),
        "maxSurge": (*_ROLLING, "maxSurge"),
        "paused": (*_ROLLING, "paused"),
    },
)
