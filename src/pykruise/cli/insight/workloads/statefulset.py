"""Advanced StatefulSet, as plan, explain and simulate know it."""

from collections.abc import Mapping
from typing import Any, Literal

from pykruise.cli.insight.workloads.base import Around, Counts, Strategy, Workload
from pykruise.kinds.statefulset.limits import limits_of
from pykruise.kinds.statefulset.ordinals import split_name
from pykruise.kinds.statefulset.plan import plan_statefulset
from pykruise.kinds.statefulset.snapshot import Snapshot, build_snapshot, project_statefulset, read_spec
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, PodUpdatePolicy
from pykruise.kube.documents import Document
from pykruise.plans.plan import Plan

__all__ = ["STATEFUL_SET"]


def _snapshot(around: Around) -> Snapshot:
    claims = {claim.name: claim for claim in around.claims}
    return build_snapshot(
        project_statefulset(around.raw),
        pods=around.pods,
        orphans=around.orphans,
        revisions=around.revisions,
        claim=claims.get,
        now=around.now,
        settings=around.settings.statefulset,
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
        min_ready_s=limits_of(read)[0].min_ready_seconds,
        lifecycle=read.lifecycle,
    )
    return found, ""


def _counts(document: Document, status: Mapping[str, Any], _plan: Plan) -> Counts:
    spec, _ = read_spec(document["spec"])
    limits = limits_of(spec)[0] if spec is not None else None
    return Counts(
        wanted=limits.replicas if limits else 0,
        updated=status.get("updatedReplicas", 0),
        to_be_updated=limits.quota if limits else 0,
        available=status.get("availableReplicas", 0),
        revision=status.get("updateRevision") or "",
    )


def _has_claim(document: Document, claim: Document) -> bool:
    """By name: its claims need not have it as an owner."""
    name = document["metadata"]["name"]
    templates = document["spec"].get("volumeClaimTemplates") or ()
    names = [f"{(one.get('metadata') or {}).get('name')}-{name}" for one in templates]
    return split_name(claim["metadata"]["name"])[0] in names


_ROLLING = ("spec", "updateStrategy", "rollingUpdate")

STATEFUL_SET = Workload(
    resource=ADVANCED_STATEFUL_SETS,
    names=frozenset({"asts", "advancedstatefulset"}),
    has_known_names=True,
    snapshot=_snapshot,
    plan=plan_statefulset,
    strategy=_strategy,
    counts=_counts,
    in_place_settings=lambda settings: settings.statefulset.in_place,
    words=(
        ("waits until its old claim", "Departing", "see what still uses the claim, if that lasts"),
        ("is not made before claim", "Departing", "see what still uses the claim, if that lasts"),
        ("waits until its claims have grown", "Claims", "see the events of the claims, if that lasts"),
        ("waits until the file system", "Claims", ""),
        ("has to be ready for", "MinReadySeconds", ""),
        ("is not ready; the others wait", "NotReady", "see why the pod is not ready"),
        ("surplus, but not available", "Turn", "see why that pod is not healthy"),
        ("surplus; goes after", "Turn", ""),
        ("terminates", "Departing", ""),
        ("specified for deletion, but maxUnavailable", "Specified", "wait, or raise maxUnavailable"),
        ("is on its way back", "Turn", ""),
    ),
    has_claim=_has_claim,
    fields={
        "replicas": ("spec", "replicas"),
        "partition": (*_ROLLING, "partition"),
        "maxUnavailable": (*_ROLLING, "maxUnavailable"),
        "paused": (*_ROLLING, "paused"),
    },
)
