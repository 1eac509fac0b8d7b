"""Simulated input of the controller of WorkloadSpreads, and its plans.

plan = plan_spread(world(spread(subset("a", 3), subset("b")), stored("p1", "a"), stored("p2", node="n1")))
assert status_of(plan)["a"] == entry("a", 2, 1)
"""

from typing import Any

import orjson

from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.versions import UNVERSIONED
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.nodes import Taint
from pykruise.plans.views import NodeView
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION, MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.spreads import NOW, placed_in, pod, view


def ago(seconds: float) -> str:
    """The time this many seconds before now."""
    return format_time(NOW - seconds)


def stored(
    name: str,
    of: str = "",
    *,
    uid: str = "",
    node: str = "",
    cost: int | None = None,
    phase: str = "Running",
    age: float = 3600,
    ready: bool = True,
    unschedulable: bool = False,
    **given: Any,
) -> Document:
    """A stored pod with the annotation of this subset; without a subset it has no annotation."""
    annotations: dict[str, str] = {}
    if of:
        note = {"name": "ws", "subset": of, **({"uid": uid} if uid else {})}
        annotations[MATCHED_SPREAD_ANNOTATION] = orjson.dumps(note).decode()
    if cost is not None:
        annotations[DELETION_COST_ANNOTATION] = str(cost)
    document = pod(name, annotations=annotations, phase=phase, **given)
    document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "7", "creationTimestamp": ago(age)}
    if node:
        document["spec"]["nodeName"] = node
    conditions = document["status"].setdefault("conditions", [])
    if ready:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": ago(age)})
    if unschedulable:
        document["status"]["phase"] = "Pending"
        conditions[:] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return document


def node(name: str, *taints: Taint, **labels: str) -> NodeView:
    return NodeView(name=name, uid=f"uid-{name}", resource_version=1, labels=labels, taints=taints)


def world(
    document: Document, *pods: Document, nodes: tuple[NodeView, ...] = (), **given: Any
) -> SpreadSnapshot:
    """A snapshot; `given` replaces fields."""
    views: list[PodView] = [project_pod(orjson.dumps(pod)) for pod in pods]
    defaults: dict[str, Any] = {
        "spread": view(document),
        "replicas": len(pods),
        "pods": views,
        "nodes": {node.name: node for node in nodes},
        "documents": {pod["metadata"]["uid"]: pod for pod in pods},
        "now": NOW,
    }
    return SpreadSnapshot(**{**defaults, **given})


def entry(name: str, missing: int, replicas: int = 0, **fields: Any) -> Document:
    """A subset in the status."""
    return {"name": name, "replicas": replicas, "missingReplicas": missing, **fields}


def status_of(plan: Plan, version: str = UNVERSIONED) -> dict[str, Document]:
    """The written list of a version, by subset. The empty version selects the list of all versions."""
    assert plan.status is not None
    result = plan.status["versionedSubsetStatuses"][version] if version else plan.status["subsetStatuses"]
    return {item["name"]: item for item in result}


def known(*entries: Document, version: str = UNVERSIONED, overall: Any = ()) -> Document:
    return {"versionedSubsetStatuses": {version: list(entries)}, "subsetStatuses": list(overall)}


def annotations_in(plan: Plan) -> dict[str, Document]:
    """Annotations that are written, by pod."""
    return {
        step.action.key.name: step.action.body["metadata"]["annotations"]
        for step in plan.steps
        if isinstance(step.action, Patch)
    }


def costs(plan: Plan) -> dict[str, int]:
    """Deletion costs that are written, by pod."""
    costs = annotations_in(plan)
    return {
        name: int(value[DELETION_COST_ANNOTATION])
        for name, value in costs.items()
        if DELETION_COST_ANNOTATION in value
    }


def adopted(plan: Plan) -> dict[str, str]:
    """Subsets of pods that get a note, by pod."""
    result = annotations_in(plan)
    return {
        name: orjson.loads(value[MATCHED_SPREAD_ANNOTATION])["subset"]
        for name, value in result.items()
        if MATCHED_SPREAD_ANNOTATION in value
    }


def deleted(plan: Plan) -> set[str]:
    """Names of pods that are deleted."""
    return {step.action.key.name for step in plan.steps if isinstance(step.action, Delete)}


def events_of(plan: Plan) -> list[str]:
    return sorted(note.reason for note in plan.notes)


def settled(document: Document, plan: Plan) -> Document:
    """The object after the plan's status was written."""
    return {**document, "status": plan.status or document.get("status") or {}}


def counted(document: Document, *pods: Document, **given: Any) -> Plan:
    """The plan after the first status is stored; this status changes no pod without an annotation."""
    first = plan_spread(world(document, *pods, **given))
    assert first.status is not None
    unmarked = {pod["metadata"]["name"] for pod in pods if placed_in(pod) == ""}
    assert not unmarked & annotations_in(first).keys()
    return plan_spread(world(settled(document, first), *pods, **given))
