"""Advanced DaemonSet, as plan, explain and simulate know it."""

from collections.abc import Mapping
from typing import Any

from pykruise.cli.insight.workloads.base import Around, Counts, Strategy, Workload
from pykruise.kinds.daemonset.plan import plan_daemonset
from pykruise.kinds.daemonset.snapshot import Snapshot, build_snapshot, project_daemonset, read_spec
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.documents import Document
from pykruise.plans.plan import Plan

__all__ = ["DAEMON_SET"]


def _snapshot(around: Around) -> Snapshot:
    return build_snapshot(
        project_daemonset(around.raw),
        nodes=around.nodes,
        pods=around.pods,
        orphans=around.orphans,
        revisions=around.revisions,
        now=around.now,
        seed=around.seed,
        settings=around.settings.daemonset,
    )


def _strategy(spec: Mapping[str, Any]) -> tuple[Strategy | None, str]:
    read, problem = read_spec(spec)
    if read is None:
        return None, problem
    found = Strategy(
        in_place="if possible" if read.is_in_place else "never",
        recreates_because="rollingUpdateType is Standard",
        is_paused=read.is_paused,
        is_on_delete=read.is_on_delete,
        min_ready_s=read.min_ready_seconds,
        lifecycle=read.lifecycle,
    )
    return found, ""


def _counts(document: Document, status: Mapping[str, Any], plan: Plan) -> Counts:
    wanted = status.get("desiredNumberScheduled", 0)
    kept = sum(why.startswith("the partition keeps") for why in plan.left.values())
    return Counts(
        wanted=wanted,
        updated=status.get("updatedNumberScheduled", 0),
        to_be_updated=wanted - kept,
        available=status.get("numberAvailable", 0),
        revision=f"{document['metadata']['name']}-{status['updateRevision']}"
        if status.get("updateRevision")
        else "",
    )


_ROLLING = ("spec", "updateStrategy", "rollingUpdate")

DAEMON_SET = Workload(
    resource=DAEMON_SETS,
    names=frozenset({"advanceddaemonset", "kruiseds"}),
    snapshot=_snapshot,
    plan=plan_daemonset,
    strategy=_strategy,
    counts=_counts,
    in_place_settings=lambda settings: settings.daemonset.in_place,
    words=(
        (
            "its node is not one that rollingUpdate.selector",
            "NodeSelector",
            "widen rollingUpdate.selector to go on",
        ),
        ("waits for its turn: maxSurge", "Budget", "wait, or raise maxSurge"),
        ("stays until", "Turn", ""),
        ("its node must not get another pod", "Placement", "free the node, or delete the pod"),
        ("failed again shortly", "Backoff", "see why its pod fails on that node"),
        ("succeeded again shortly", "Backoff", "a DaemonSet's pod has to go on: see why it ends"),
        ("gets its pod after the nodes", "Turn", ""),
        ("is updated when every node has", "Turn", ""),
        ("its last pod is not gone yet", "Departing", ""),
    ),
    fields={
        "partition": (*_ROLLING, "partition"),
        "maxUnavailable": (*_ROLLING, "maxUnavailable"),
        "maxSurge": (*_ROLLING, "maxSurge"),
        "paused": (*_ROLLING, "paused"),
    },
    is_per_node=True,
)
