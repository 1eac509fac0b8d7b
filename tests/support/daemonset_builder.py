"""Builders for snapshots of DaemonSets: a test sets the fields that matter, and the builder sets all others.

daemonset(5, maxUnavailable=1).old("n1", "n2").not_ready("n1").plan()

A DaemonSet starts with nodes n1, n2, … and a pod with its name on each, of the update revision, running,
ready for an hour and available. The real views decode all objects from JSON.
"""

import copy
from collections.abc import Iterable
from typing import Any, Self

import msgspec
import orjson

from pykruise.kinds.daemonset.kind import KIND
from pykruise.kinds.daemonset.plan import plan_daemonset
from pykruise.kinds.daemonset.snapshot import (
    DAEMON_SET_VIEWS,
    DaemonSetSettings,
    DaemonSetSnapshot,
    DaemonSetView,
)
from pykruise.kube.clock import format_time
from pykruise.kube.resources import PODS
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, REVISION_VIEWS, NodeView, project_node
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import (
    RevisionView,
    encode_revision_data,
    hash_revision,
    project_revision,
)
from pykruise.pods.workload.selector_guard import record_of
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.snapshots import snapshot_of
from support.workload_builder import NAME, NAMESPACE, NOW, UID, WorkloadBuilder

SELECTOR = {"matchLabels": {"app": NAME}}


def template(image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": NAME}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def hash_of(pod_template: dict[str, Any]) -> str:
    return hash_revision(encode_revision_data(pod_template), 0)


def owner(uid: str = UID) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "DaemonSet",
        "name": NAME,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def revision(
    pod_template: dict[str, Any],
    number: int,
    *,
    name: str = "",
    controller: str = UID,
    record: dict[str, Any] | None = SELECTOR,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A stored ControllerRevision document; `record=None`: another manager stored it."""
    text = name or f"{NAME}-{hash_of(pod_template)}"
    own = {**pod_template["metadata"]["labels"], keys.REVISION_LABEL: text.rpartition("-")[2]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": text,
            "namespace": NAMESPACE,
            "uid": f"uid-{text}",
            "resourceVersion": "7",
            "labels": own if labels is None else labels,
            "annotations": record_of(record) if record is not None else {},
            "creationTimestamp": format_time(NOW - 86400 + number),
            **({"ownerReferences": [owner(controller)]} if controller else {}),
        },
        "data": orjson.loads(encode_revision_data(pod_template)),
        "revision": number,
    }


class DaemonSetBuilder(WorkloadBuilder):
    """A DaemonSet with nodes and pods; every method changes it and returns it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__("apps.kruise.io/v1beta1", "DaemonSet", spec)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.revisions: list[dict[str, Any]] | None = None
        self.failed_until: dict[str, float] = {}
        self.settings = DaemonSetSettings()
        self.old_template = template("nginx:0")

    # the DaemonSet itself

    @property
    def update_hash(self) -> str:
        return hash_of(self.spec["template"])

    @property
    def old_hash(self) -> str:
        return hash_of(self.old_template)

    def in_place(self) -> Self:
        return self.with_rolling(rollingUpdateType="InPlaceIfPossible")

    def surging(self, amount: int | str = 1) -> Self:
        return self.with_rolling(maxSurge=amount, maxUnavailable=0)

    def with_hook(self, *, finalizer: str = "example.com/hook", **fields: Any) -> Self:
        self.spec["lifecycle"] = {"preDelete": {"finalizersHandler": [finalizer], **fields}}
        return self

    def with_template(self, **spec: Any) -> Self:
        """Add fields to the template's spec, in both revisions."""
        self.spec["template"]["spec"].update(spec)
        self.old_template["spec"].update(spec)
        return self

    def annotated(self, **annotations: str) -> Self:
        self.document["metadata"]["annotations"] = {
            key.replace("__", "."): value for key, value in annotations.items()
        }
        return self

    def with_settings(self, **fields: bool) -> Self:
        self.settings = DaemonSetSettings(**fields)
        return self

    def at(self, seconds_later: float) -> Self:
        self.now = NOW + seconds_later
        return self

    # nodes

    def node(self, *names: str, **labels: str) -> Self:
        """Add nodes without a pod of the DaemonSet, or add labels to existing nodes."""
        for name in names:
            result = self.nodes.setdefault(
                name,
                {
                    "metadata": {
                        "name": name,
                        "uid": f"uid-{name}",
                        "resourceVersion": "9",
                        "labels": {"kubernetes.io/hostname": name},
                    },
                    "spec": {},
                },
            )
            result["metadata"]["labels"].update(labels)
        return self

    def taint(self, name: str, *taints: str) -> Self:
        """`key:effect` or `key=value:effect`."""
        result = []
        for text in taints:
            key, _, effect = text.partition(":")
            key, _, value = key.partition("=")
            result.append({"key": key, "effect": effect, **({"value": value} if value else {})})
        self.nodes[name]["spec"]["taints"] = result
        return self

    def without_node(self, *names: str) -> Self:
        for name in names:
            del self.nodes[name]
        return self

    # pods

    def on(self, *names: str, old: bool = False, called: str = "") -> Self:
        """Create a pod on each of these nodes, named after the node or `called`."""
        for name in names:
            self.pods[called or name] = self._pod(called or name, name, old=old)
        return self

    def without_pod(self, *names: str) -> Self:
        for name in names:
            del self.pods[name]
        return self

    def _pod(self, short: str, node: str, *, old: bool) -> dict[str, Any]:
        pod_template = self.old_template if old else self.spec["template"]
        born = format_time(NOW - 7200)
        block = (self.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        gates = (
            [{"conditionType": keys.IN_PLACE_READY}]
            if block.get("rollingUpdateType") == "InPlaceIfPossible"
            else []
        )
        gate = [{"type": keys.IN_PLACE_READY, "status": "True", "lastTransitionTime": born}] if gates else []
        image = pod_template["spec"]["containers"][0]["image"]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{NAME}-{short}",
                "namespace": NAMESPACE,
                "uid": f"uid-{short}",
                "resourceVersion": "50",
                "creationTimestamp": born,
                "labels": {"app": NAME, keys.REVISION_LABEL: hash_of(pod_template)},
                "annotations": {},
                "finalizers": [],
                "ownerReferences": [owner()],
            },
            "spec": {
                "nodeName": node,
                "affinity": _bound_to(node),
                "containers": copy.deepcopy(pod_template["spec"]["containers"]),
                "readinessGates": gates,
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    *gate,
                    {"type": "ContainersReady", "status": "True", "lastTransitionTime": born},
                    {"type": "Ready", "status": "True", "lastTransitionTime": format_time(NOW - 3600)},
                ],
                "containerStatuses": [
                    {
                        "name": "main",
                        "image": image,
                        "imageID": f"sha256:{image}",
                        "containerID": f"containerd://{short}-1",
                        "restartCount": 0,
                        "ready": True,
                    }
                ],
            },
        }

    def old(self, *short_names: str) -> Self:
        """Give these pods the older revision."""
        for short in short_names:
            pod = self.pods[short]
            pod["metadata"]["labels"][keys.REVISION_LABEL] = self.old_hash
            image = self.old_template["spec"]["containers"][0]["image"]
            pod["spec"]["containers"][0]["image"] = image
            pod["status"]["containerStatuses"][0] |= {"image": image, "imageID": f"sha256:{image}"}
        return self

    def all_old(self) -> Self:
        return self.old(*self.pods)

    def leaving(self, *short_names: str) -> Self:
        """Put these pods into PreparingDelete."""
        return self.labelled({keys.STATE_LABEL: "PreparingDelete"}, *short_names)

    def hooked(self, *short_names: str, finalizer: str = "example.com/hook") -> Self:
        for short in short_names:
            self.pods[short]["metadata"]["finalizers"].append(finalizer)
        return self

    def held(self, *short_names: str) -> Self:
        """Put these pods into PreparingDelete, with a preDelete hook that holds them."""
        return self.with_hook().leaving(*short_names).hooked(*short_names)

    def with_gate(self, short: str, kind: str) -> Self:
        self.pods[short]["spec"]["readinessGates"].append({"conditionType": kind})
        return self

    def phase(self, phase: str, *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["status"]["phase"] = phase
            self.not_ready(short)
        return self

    # results

    def with_revisions(self, *documents: dict[str, Any]) -> Self:
        self.revisions = list(documents)
        return self

    def stored_revisions(self) -> list[dict[str, Any]]:
        """The given revisions; by default the update revision, and before it the old one if a pod has it."""
        if self.revisions is not None:
            return self.revisions
        update = revision(self.spec["template"], 2)
        used = {pod["metadata"]["labels"].get(keys.REVISION_LABEL) for pod in self.pods.values()}
        return [revision(self.old_template, 1), update] if self.old_hash in used else [update]

    def view(self) -> DaemonSetView:
        return DAEMON_SET_VIEWS.project(orjson.dumps(self.document))

    def node_views(self) -> list[NodeView]:
        return [project_node(orjson.dumps(node)) for node in self.nodes.values()]

    def revision_views(self) -> list[RevisionView]:
        return [project_revision(orjson.dumps(revision)) for revision in self.stored_revisions()]

    def snapshot(self) -> DaemonSetSnapshot:
        return self.snapshot_of(self.node_views(), self.pod_views(), self.revision_views())

    def snapshot_of(
        self,
        nodes: Iterable[NodeView],
        pods: Iterable[PodView],
        revisions: Iterable[RevisionView],
        *,
        memories: Memories | None = None,
    ) -> DaemonSetSnapshot:
        """Snapshot with these nodes, pods and revisions instead of its own."""
        snapshot: DaemonSetSnapshot = snapshot_of(
            KIND,
            self.view(),
            {NODE_VIEWS: nodes, POD_VIEWS: pods, REVISION_VIEWS: revisions},
            settings=self.settings,
            now=self.now,
            seed=self.seed,
            memories=memories,
        )
        return (
            msgspec.structs.replace(snapshot, failed_until=self.failed_until)
            if self.failed_until
            else snapshot
        )

    def plan(self) -> Plan:
        return plan_daemonset(self.snapshot())


def _bound_to(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def daemonset(
    nodes: int = 5, *, pods: bool = True, image: str = "nginx:1", **rolling: Any
) -> DaemonSetBuilder:
    """A DaemonSet on nodes n1, n2, …, with a pod each unless `pods=False`; fields of rollingUpdate as keywords."""
    builder = DaemonSetBuilder({"selector": copy.deepcopy(SELECTOR), "template": template(image)})
    builder.with_rolling(**rolling)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    builder.node(*names)
    return builder.on(*names) if pods else builder


def created_on(plan: Plan) -> list[str]:
    """Nodes that get a pod, in order."""
    return [node_of(step.action.body) for step in plan.steps if _creates_pod(step.action)]


def _creates_pod(action: Any) -> bool:
    return isinstance(action, Create) and action.resource == PODS


def node_of(pod: dict[str, Any]) -> str:
    """The node that a pod's document is bound to."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    (node,) = field["values"]
    return str(node)


def updatable(nodes: int = 5, **rolling: Any) -> DaemonSetBuilder:
    """Like `daemonset`, of type InPlaceIfPossible, with pods that have the readiness gate for it."""
    return daemonset(nodes, rollingUpdateType="InPlaceIfPossible", **rolling)
