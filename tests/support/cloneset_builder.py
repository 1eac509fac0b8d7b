"""Builders for snapshots of CloneSets: a test sets the fields that matter, and the builder sets all others.

cloneset(replicas=5, max_unavailable=1).marked("a").not_ready("a").snapshot()

A CloneSet starts with as many pods as it has replicas, named a, b, c, …, all of the update revision, running,
ready for an hour and available. The real views decode all objects from JSON.
"""

import copy
from collections.abc import Iterable
from itertools import islice, product
from typing import Any, Self

import msgspec
import orjson

from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS, CloneSetSettings, CloneSetSnapshot, CloneSetView
from pykruise.kube.clock import format_time
from pykruise.kube.pod_rules.nodes import Taint
from pykruise.plans.views import CLAIM_VIEWS, NODE_VIEWS, POD_VIEWS, REVISION_VIEWS, NodeView
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView, project_claim
from pykruise.pods.workload.revisions import (
    RevisionView,
    encode_revision_data,
    hash_revision,
    project_revision,
)
from pykruise.pods.workload.selector_guard import record_of
from pykruise.runtime.read import Memories
from support.snapshots import OnPaper, snapshot_of
from support.workload_builder import NAME, NAMESPACE, NOW, UID, WorkloadBuilder


def names(count: int) -> list[str]:
    """a, b, …, z, aa, ab, …, zz, aaa, …"""
    letters = "abcdefghijklmnopqrstuvwxyz"
    result = ("".join(word) for length in (1, 2, 3) for word in product(letters, repeat=length))
    return list(islice(result, count))


def template(image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": NAME}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def claim_template(name: str = "data", size: str = "1Gi") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }


def revision_name_of(pod_template: dict[str, Any]) -> str:
    return f"{NAME}-{hash_revision(encode_revision_data(pod_template), 0)}"


def revision(
    pod_template: dict[str, Any], number: int, *, name: str = "", controller: str = UID, **metadata: Any
) -> dict[str, Any]:
    """A stored ControllerRevision document."""
    text = name or revision_name_of(pod_template)
    document: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": text,
            "namespace": NAMESPACE,
            "uid": f"uid-{text}",
            "resourceVersion": "7",
            "labels": {**pod_template["metadata"]["labels"], keys.REVISION_HASH_LABEL: text.split("-")[-1]},
            "annotations": {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: ""},
            "creationTimestamp": format_time(NOW - 86400 + number),
            **metadata,
        },
        "data": orjson.loads(encode_revision_data(pod_template)),
        "revision": number,
    }
    if controller:
        document["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": NAME, "uid": controller}
            | {"controller": True, "blockOwnerDeletion": True}
        ]
    return document


class CloneSetBuilder(WorkloadBuilder):
    """A CloneSet with pods; every method changes it and returns it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__("apps.kruise.io/v1beta1", "CloneSet", spec)
        self.revisions: list[dict[str, Any]] = []
        self.claims: dict[str, dict[str, Any]] = {}
        self.occupied: set[str] = set()
        self.node_labels: dict[str, dict[str, str]] = {}
        self.cordoned: set[str] = set()
        self.taints: dict[str, tuple[Taint, ...]] = {}
        """Names of nodes."""
        self.settings = CloneSetSettings()
        self.old_template = template("nginx:0")
        self.current = ""
        self.managed: dict[str, Any] | str | None = "the selector"

    # the CloneSet itself

    @property
    def update_revision(self) -> str:
        return revision_name_of(self.spec["template"])

    @property
    def old_revision(self) -> str:
        return revision_name_of(self.old_template)

    def with_hook(self, turn: str, *, finalizer: str = "example.com/hook", **fields: Any) -> Self:
        lifecycle = self.spec.setdefault("lifecycle", {})
        lifecycle[turn] = {"finalizersHandler": [finalizer], **fields}
        return self

    def paused(self) -> Self:
        return self.with_rolling(paused=True)

    def managed_by(self, selector: dict[str, Any] | None) -> Self:
        """Set the selector that is recorded with the revisions (default: that of the spec); None: no record."""
        self.managed = selector
        return self

    def to_delete(self, *pods: str) -> Self:
        self.spec.setdefault("scaleStrategy", {})["podsToDelete"] = [self.pod_name(pod) for pod in pods]
        return self

    def with_settings(self, **fields: bool) -> Self:
        self.settings = CloneSetSettings(**fields)
        return self

    def at(self, now: float) -> Self:
        self.now = now
        return self

    # its pods

    @staticmethod
    def pod_name(short: str) -> str:
        return f"{NAME}-{short}"

    def add(self, *short_names: str, old: bool = False) -> Self:
        for short in short_names:
            wanted = self.old_template if old else self.spec["template"]
            self.pods[short] = self._pod(short, wanted)
        return self

    def _pod(self, short: str, pod_template: dict[str, Any]) -> dict[str, Any]:
        """A pod of this template, whose containers run."""
        revision_name = revision_name_of(pod_template)
        containers = copy.deepcopy(pod_template["spec"]["containers"])
        born = format_time(NOW - 7200)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.pod_name(short),
                "namespace": NAMESPACE,
                "uid": f"uid-{short}",
                "resourceVersion": "50",
                "creationTimestamp": born,
                "labels": {
                    "app": NAME,
                    keys.REVISION_LABEL: revision_name,
                    keys.TEMPLATE_HASH_LABEL: revision_name.split("-")[-1],
                    keys.INSTANCE_ID_LABEL: short,
                    keys.STATE_LABEL: "Normal",
                },
                "annotations": {},
                "finalizers": [],
                "ownerReferences": [
                    {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": NAME, "uid": UID}
                    | {"controller": True, "blockOwnerDeletion": True}
                ],
            },
            "spec": {
                "nodeName": f"node-{short}",
                "containers": containers,
                "readinessGates": [
                    {"conditionType": keys.IN_PLACE_READY},
                    {"conditionType": keys.KRUISE_POD_READY},
                ],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": keys.IN_PLACE_READY, "status": "True", "lastTransitionTime": born},
                    {"type": keys.KRUISE_POD_READY, "status": "True", "lastTransitionTime": born},
                    {"type": "ContainersReady", "status": "True", "lastTransitionTime": born},
                    {"type": "Ready", "status": "True", "lastTransitionTime": format_time(NOW - 3600)},
                ],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "image": container["image"],
                        "imageID": f"sha256:{container['image']}",
                        "containerID": f"containerd://{short}-{container['name']}-1",
                        "restartCount": 0,
                        "ready": True,
                    }
                    for container in containers
                ],
            },
        }

    def old(self, *short_names: str) -> Self:
        """Give these pods the older revision."""
        for short in short_names:
            labels = self.pods[short]["metadata"]["labels"]
            labels[keys.REVISION_LABEL] = self.old_revision
            labels[keys.TEMPLATE_HASH_LABEL] = self.old_revision.split("-")[-1]
        return self

    def annotated(self, annotations: dict[str, str], *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["metadata"]["annotations"].update(annotations)
        return self

    def marked(self, *short_names: str) -> Self:
        """Specified for deletion by the label."""
        return self.labelled({keys.SPECIFIED_DELETE_LABEL: "true"}, *short_names)

    def grouped(self, group: str, *short_names: str) -> Self:
        """Put these pods into this PodGroup."""
        for short in short_names:
            self.pods[short]["spec"]["schedulingGroup"] = {"podGroupName": group}
        return self

    def cost(self, amount: str, *short_names: str) -> Self:
        return self.annotated({keys.DELETION_COST_ANNOTATION: amount}, *short_names)

    def in_state(self, state: str, *short_names: str) -> Self:
        for short in short_names:
            labels = self.pods[short]["metadata"]["labels"]
            labels.pop(keys.STATE_LABEL, None)
            if state:
                labels[keys.STATE_LABEL] = state
        return self

    def phase(self, phase: str, *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["status"]["phase"] = phase
        return self

    def on_node(self, node: str, *short_names: str, **labels: str) -> Self:
        for short in short_names:
            self.pods[short]["spec"]["nodeName"] = node
        if labels:
            self.node_labels[node] = {key.replace("__", "/"): value for key, value in labels.items()}
        return self

    def restarts(self, count: int, *short_names: str) -> Self:
        for short in short_names:
            self.pods[short]["status"]["containerStatuses"][0]["restartCount"] = count
        return self

    def fresh(self, *short_names: str) -> Self:
        """Pods as the API server has them right after creation, but already bound to a node."""
        for short in short_names:
            pod = self.pods[short]
            pod["metadata"]["labels"][keys.STATE_LABEL] = "PreparingNormal"
            pod["status"] = {"phase": "Pending", "conditions": []}
        return self

    # their claims

    def with_templates(self, *template_names: str, reuse: bool = False) -> Self:
        """volumeClaimTemplates of these names."""
        self.spec["volumeClaimTemplates"] = [claim_template(name) for name in template_names]
        self.spec.setdefault("scaleStrategy", {})["enablePVCReuse"] = reuse
        return self

    def claim(self, *short_names: str, of: str = "data", deleting: bool = False, **metadata: Any) -> Self:
        """A stored claim of the template `of` for each id."""
        for short in short_names:
            name = f"{of}-{self.pod_name(short)}"
            document = {
                **claim_template(of),
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": f"uid-{name}",
                    "resourceVersion": "40",
                    "labels": {"app": NAME, keys.INSTANCE_ID_LABEL: short},
                    "ownerReferences": [
                        {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": NAME}
                        | {"uid": UID, "controller": True, "blockOwnerDeletion": True}
                    ],
                    **({"deletionTimestamp": format_time(NOW)} if deleting else {}),
                    **metadata,
                },
            }
            self.claims[name] = document
        return self

    def occupied_by_others(self, *short_names: str) -> Self:
        """Pods of these names exist, but they are not the CloneSet's."""
        self.occupied |= {*short_names}
        return self

    # results

    def with_revisions(self, *documents: dict[str, Any]) -> Self:
        self.revisions = list(documents)
        return self

    def stored_revisions(self) -> list[dict[str, Any]]:
        """The given revisions; by default the update revision, and before it the old one if a pod has it."""
        if self.revisions:
            return self.revisions
        update = revision(self.spec["template"], 2)
        used = {pod["metadata"]["labels"].get(keys.REVISION_LABEL) for pod in self.pods.values()}
        return [revision(self.old_template, 1), update] if self.old_revision in used else [update]

    def view(self) -> CloneSetView:
        document = copy.deepcopy(self.document)
        if self.current:
            document["status"].setdefault("currentRevision", self.current)
        return CLONE_SET_VIEWS.project(orjson.dumps(document))

    def revision_views(self) -> list[RevisionView]:
        documents = copy.deepcopy(self.stored_revisions())
        recorded = self.spec.get("selector") if isinstance(self.managed, str) else self.managed
        if recorded is not None:
            for document in documents:
                annotations = document["metadata"].get("annotations")
                if annotations is not None:
                    annotations |= record_of(recorded)
        return [project_revision(orjson.dumps(document)) for document in documents]

    def claim_views(self) -> list[ClaimView]:
        return [project_claim(orjson.dumps(claim)) for claim in self.claims.values()]

    def with_current(self, name: str) -> Self:
        self.current = name
        return self

    def snapshot(self) -> CloneSetSnapshot:
        if not self.current and any(
            pod["metadata"]["labels"].get(keys.REVISION_LABEL) == self.old_revision
            for pod in self.pods.values()
        ):
            self.current = self.old_revision
        return self.snapshot_of(self.pod_views(), self.revision_views())

    def snapshot_of(
        self,
        pods: Iterable[PodView],
        revisions: Iterable[RevisionView],
        *,
        memories: Memories | None = None,
        **more: Any,
    ) -> CloneSetSnapshot:
        """Snapshot with these pods and revisions instead of its own; `more`: further fields of the snapshot."""
        objects: OnPaper = {
            POD_VIEWS: [*pods, *self._occupying()],
            REVISION_VIEWS: revisions,
            CLAIM_VIEWS: self.claim_views(),
            NODE_VIEWS: self.node_views(),
        }
        snapshot: CloneSetSnapshot = snapshot_of(
            KIND,
            self.view(),
            objects,
            settings=self.settings,
            now=self.now,
            seed=self.seed,
            memories=memories,
        )
        return msgspec.structs.replace(snapshot, **more)

    def node_views(self) -> list[NodeView]:
        return [
            NodeView(
                name=name,
                uid=f"uid-{name}",
                resource_version=1,
                labels=labels,
                taints=self.taints.get(name, ()),
                is_cordoned=name in self.cordoned,
            )
            for name, labels in self.node_labels.items()
        ]

    def _occupying(self) -> list[PodView]:
        """Pods of another owner, with names that pods of the CloneSet would have."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "other"}
        return [
            project_pod(
                orjson.dumps(
                    {
                        "metadata": {
                            "name": self.pod_name(short),
                            "namespace": NAMESPACE,
                            "ownerReferences": [owner | {"controller": True}],
                        }
                    }
                )
            )
            for short in sorted(self.occupied)
        ]


def cloneset(
    replicas: int = 5,
    *,
    pods: int | None = None,
    old: int = 0,
    partition: int | str | None = None,
    max_unavailable: int | str | None = None,
    max_surge: int | str | None = None,
    image: str = "nginx:1",
    **spec: Any,
) -> CloneSetBuilder:
    """A CloneSet with `pods` pods (default: the replicas); the first `old` of them have the older revision."""
    builder = CloneSetBuilder(
        {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "template": template(image),
            **spec,
        }
    )
    given = {"partition": partition, "maxUnavailable": max_unavailable, "maxSurge": max_surge}
    builder.with_rolling(**{field: value for field, value in given.items() if value is not None})
    pods_in_order = names(replicas if pods is None else pods)
    builder.add(*pods_in_order[:old], old=True).add(*pods_in_order[old:])
    return builder
