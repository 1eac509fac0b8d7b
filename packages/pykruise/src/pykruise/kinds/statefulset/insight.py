"""Advanced StatefulSet for the commands explain, plan and simulate.

spec ──▶ make_strategy_reader()      status ──▶ counts_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.statefulset.limits import limits_of
from pykruise.kinds.statefulset.snapshot import read_spec
from pykruise.kube.documents import Document
from pykruise.plans.insight import RolloutCounts, WorkloadInsight, make_strategy_reader
from pykruise.pods.workload.ordinals import split_name
from pykruise.runtime.plan import Plan


def counts_of(document: Document, status: Mapping[str, Any], _plan: Plan) -> RolloutCounts:
    """Counts that show the progress of the rollout."""
    spec, _ = read_spec(document["spec"])
    limits = limits_of(spec)[0] if spec is not None else None
    return RolloutCounts(
        wanted=limits.replicas if limits else 0,
        updated=status.get("updatedReplicas", 0),
        to_be_updated=limits.quota if limits else 0,
        available=status.get("availableReplicas", 0),
        revision=status.get("updateRevision") or "",
    )


def has_claim(document: Document, claim: Document) -> bool:
    """Whether the PVC's name is that of a claim of the set. Owner references do not show this, because a set is not
    always an owner of its PVCs.
    """
    name = document["metadata"]["name"]
    templates = document["spec"].get("volumeClaimTemplates") or ()
    names = [f"{(template.get('metadata') or {}).get('name')}-{name}" for template in templates]
    return split_name(claim["metadata"]["name"])[0] in names


INSIGHT: Final = WorkloadInsight(
    names=frozenset({"asts", "advancedstatefulset"}),
    has_known_names=True,
    # Same as Kubernetes' StatefulSet: under OrderedReady the controller does not update a pod that is not ready.
    replaces_stuck=lambda spec: spec.get("podManagementPolicy") == "Parallel",
    strategy=make_strategy_reader(read_spec, min_ready_s=lambda spec: limits_of(spec)[0].min_ready_seconds),
    counts=counts_of,
    has_claim=has_claim,
)
