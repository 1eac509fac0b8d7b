"""Builders for snapshots of StatefulSets: a test sets the fields that matter, and the builder sets all others.

statefulset(3, parallel=True, maxUnavailable=2).all_old().not_ready(1).plan()

A set starts with its pods by ordinal, all of the update revision, running, ready for an hour and available.
The real views decode all objects from JSON.
"""

import copy
from collections.abc import Callable
from typing import Any, Self

import orjson

from pykruise.kinds.statefulset.kind import KIND
from pykruise.kinds.statefulset.plan import plan_statefulset
from pykruise.kinds.statefulset.snapshot import (
    STATEFUL_SET_VIEWS,
    STORAGE_CLASS_VIEWS,
    StatefulSetSettings,
    StatefulSetSnapshot,
    StatefulSetView,
    project_storage_class,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.plans.views import CLAIM_VIEWS, NODE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS, REVISION_VIEWS
from pykruise.pods.images.pull_jobs import project_pull_job
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import PodProjector
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView, project_claim
from pykruise.pods.workload.revisions import (
    RevisionView,
    encode_revision_data,
    hash_revision,
    project_revision,
)
from pykruise.pods.workload.selector_guard import record_of
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.snapshots import snapshot_of

NOW = parse_time("2026-01-31T12:00:00Z")
NAME, NAMESPACE, UID = "web", "shop", "owner-uid"
SELECTOR = {"matchLabels": {"app": NAME}}
HOOK = {"example.com/hook": "1"}
"""Labels of the hooks in tests."""


def template(image: str = "nginx:1", **spec: Any) -> Document:
    return {
        "metadata": {"labels": {"app": NAME}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def name_of(pod_template: Document) -> str:
    """Name of the revision of a template."""
    return f"{NAME}-{hash_revision(encode_revision_data(pod_template), 0)}"


def owner(uid: str = UID) -> Document:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "StatefulSet",
        "name": NAME,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def revision(
    pod_template: Document,
    number: int,
    *,
    name: str = "",
    controller: str = UID,
    record: Document | None = SELECTOR,
    labels: dict[str, str] | None = None,
    data: Document | None = None,
) -> Document:
    """A stored ControllerRevision document; `record=None`: another manager stored it."""
    text = name or name_of(pod_template)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": text,
            "namespace": NAMESPACE,
            "uid": f"uid-{text}",
            "resourceVersion": "7",
            "labels": {
                **pod_template["metadata"]["labels"],
                keys.REVISION_HASH_LABEL: text.rpartition("-")[2],
                **(labels or {}),
            },
            "annotations": record_of(record) if record is not None else {},
            "creationTimestamp": format_time(NOW - 86400 + number),
            **({"ownerReferences": [owner(controller)]} if controller else {}),
        },
        "data": data or orjson.loads(encode_revision_data(pod_template)),
        "revision": number,
    }


def claim_template(name: str = "data", size: str = "1Gi", **spec: Any) -> Document:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


class StatefulSetBuilder:
    """A StatefulSet with its pods, claims and revisions; every method changes it and returns it."""

    def __init__(self, spec: Document) -> None:
        self.document: Document = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "StatefulSet",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": UID,
                "resourceVersion": "100",
                "generation": 3,
            },
            "spec": spec,
            "status": {},
        }
        self.pods: dict[str, Document] = {}
        """Pods by name."""
        self.claims: dict[str, Document] = {}
        self.classes: list[Document] = []
        self.jobs: list[Document] | None = None
        self.revisions: list[Document] | None = None
        self.nodes: list[NodeView] = []
        self.settings = StatefulSetSettings()
        self.now = NOW
        self.old_template = template("nginx:0")

    # the set itself

    @property
    def spec(self) -> Document:
        spec: Document = self.document["spec"]
        return spec

    @property
    def update_name(self) -> str:
        return name_of(self.spec["template"])

    @property
    def old_name(self) -> str:
        return name_of(self.old_template)

    def with_spec(self, **fields: Any) -> Self:
        self.spec.update(fields)
        return self

    def with_rolling(self, **fields: Any) -> Self:
        strategy = self.spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
        strategy.setdefault("rollingUpdate", {}).update(fields)
        return self

    def on_delete(self) -> Self:
        self.spec["updateStrategy"] = {"type": "OnDelete"}
        return self

    def unordered(self, **strategy: Any) -> Self:
        return self.with_rolling(unorderedUpdate={"priorityStrategy": strategy} if strategy else {})

    def with_hook(self, turn: str, **fields: Any) -> Self:
        hook = {"labelsHandler": dict(HOOK), **fields}
        self.spec.setdefault("lifecycle", {})[turn] = hook
        return self

    def with_claims(self, *templates: Document, there: bool = True) -> Self:
        """Add claim templates; with `there`, all pods already mount bound claims of these templates."""
        self.spec["volumeClaimTemplates"] = list(templates) or [claim_template()]
        if there:
            for pod in list(self.pods):
                for template in self.spec["volumeClaimTemplates"]:
                    self.claim(template, pod)
                    self._mount(template["metadata"]["name"], pod)
        return self

    def _mount(self, volume: str, pod: str) -> None:
        source = {"claimName": f"{volume}-{pod}"}
        volumes = self.pods[pod]["spec"].setdefault("volumes", [])
        volumes.append({"name": volume, "persistentVolumeClaim": source})

    def claim(self, entry: Document, pod: str, *, size: str = "", **metadata: Any) -> Self:
        """A bound PVC of a template for a pod; `size`: its requested and real size, if it differs from the
        template."""
        name = f"{entry['metadata']['name']}-{pod}"
        spec = copy.deepcopy(entry["spec"])
        if size:
            spec["resources"]["requests"]["storage"] = size
        self.claims[name] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}",
                "resourceVersion": "30",
                "labels": {"app": NAME},
                **metadata,
            },
            "spec": spec,
            "status": {"phase": "Bound", "capacity": dict(spec["resources"]["requests"])},
        }
        return self

    def retaining(self, *, scaled: str = "Retain", deleted: str = "Retain") -> Self:
        return self.with_spec(
            persistentVolumeClaimRetentionPolicy={"whenScaled": scaled, "whenDeleted": deleted}
        )

    def growing(self, *, expandable: bool | None = True) -> Self:
        """PVCs follow their templates; the class `fast` determines whether volumes can be expanded."""
        self.with_settings(auto_resize_claims=True)
        self.classes = [{"metadata": {"name": "fast", "uid": "uid-fast"}, "allowVolumeExpansion": expandable}]
        return self.with_spec(volumeClaimUpdateStrategy={"type": "OnPodRollingUpdate"})

    def with_status(self, **fields: Any) -> Self:
        self.document["status"].update(fields)
        return self

    def annotated(self, **annotations: str) -> Self:
        result = self.document["metadata"].setdefault("annotations", {})
        result.update(
            {f"apps.kruise.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
        )
        return self

    def terminating(self) -> Self:
        self.document["metadata"]["deletionTimestamp"] = format_time(NOW)
        return self

    def with_settings(self, **fields: bool) -> Self:
        self.settings = StatefulSetSettings(**fields)
        return self

    def at(self, seconds_later: float) -> Self:
        self.now = NOW + seconds_later
        return self

    # pods

    def pod(self, *ordinals: int | str, old: bool = False) -> Self:
        """A pod with each of these ordinals (or other last parts of its name)."""
        for ordinal in ordinals:
            name = f"{NAME}-{ordinal}"
            self.pods[name] = self._pod(name, old=old)
        return self

    def _pod(self, name: str, *, old: bool) -> Document:
        pod_template = self.old_template if old else self.spec["template"]
        born = format_time(NOW - 7200)
        gates = (self.spec["template"]["spec"].get("readinessGates")) or []
        conditions = [
            {"type": gate["conditionType"], "status": "True", "lastTransitionTime": born} for gate in gates
        ]
        image = pod_template["spec"]["containers"][0]["image"]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}",
                "resourceVersion": "50",
                "creationTimestamp": born,
                "labels": {
                    "app": NAME,
                    keys.REVISION_LABEL: name_of(pod_template),
                    keys.STATE_LABEL: "Normal",
                    "statefulset.kubernetes.io/pod-name": name,
                },
                "annotations": {},
                "finalizers": [],
                "ownerReferences": [owner()],
            },
            "spec": {
                "nodeName": "node-1",
                "containers": copy.deepcopy(pod_template["spec"]["containers"]),
                "readinessGates": copy.deepcopy(gates),
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    *conditions,
                    {"type": "ContainersReady", "status": "True", "lastTransitionTime": born},
                    {"type": "Ready", "status": "True", "lastTransitionTime": format_time(NOW - 3600)},
                ],
                "containerStatuses": [
                    {
                        "name": "main",
                        "image": image,
                        "imageID": f"sha256:{image}",
                        "containerID": f"containerd://{name}-1",
                        "restartCount": 0,
                        "ready": True,
                    }
                ],
            },
        }

    def _each(self, ordinals: tuple[int | str, ...], change: Callable[[Document], Any]) -> Self:
        for ordinal in ordinals:
            change(self.pods[f"{NAME}-{ordinal}"])
        return self

    def without(self, *ordinals: int | str) -> Self:
        for ordinal in ordinals:
            del self.pods[f"{NAME}-{ordinal}"]
        return self

    def old(self, *ordinals: int | str) -> Self:
        """Give these pods the older revision."""

        def change(pod: Document) -> None:
            pod["metadata"]["labels"][keys.REVISION_LABEL] = self.old_name
            image = self.old_template["spec"]["containers"][0]["image"]
            pod["spec"]["containers"][0]["image"] = image
            pod["status"]["containerStatuses"][0] |= {"image": image, "imageID": f"sha256:{image}"}

        return self._each(ordinals, change)

    def all_old(self) -> Self:
        self.with_status(currentRevision=self.old_name)
        return self.old(*(name.removeprefix(f"{NAME}-") for name in self.pods))

    def labelled(self, labels: dict[str, str], *ordinals: int | str) -> Self:
        return self._each(ordinals, lambda pod: pod["metadata"]["labels"].update(labels))

    def hooked(self, *ordinals: int | str) -> Self:
        return self.labelled(HOOK, *ordinals)

    def grouped(self, group: str, *ordinals: int | str) -> Self:
        """Put these pods into this PodGroup."""

        def change(pod: Document) -> None:
            pod["spec"]["schedulingGroup"] = {"podGroupName": group}

        return self._each(ordinals, change)

    def marked(self, *ordinals: int | str, value: str = "true") -> Self:
        """Mark these pods for specified deletion."""
        return self.labelled({keys.SPECIFIED_DELETE_LABEL: value}, *ordinals)

    def state(self, state: str, *ordinals: int | str) -> Self:
        return self.labelled({keys.STATE_LABEL: state}, *ordinals)

    def set_condition(self, ordinal: int | str, kind: str, status: str, **fields: Any) -> Self:
        conditions = self.pods[f"{NAME}-{ordinal}"]["status"]["conditions"]
        conditions[:] = [condition for condition in conditions if condition["type"] != kind]
        time = format_time(NOW - 3600)
        conditions.append({"type": kind, "status": status, "lastTransitionTime": time, **fields})
        return self

    def not_ready(self, *ordinals: int | str) -> Self:
        for ordinal in ordinals:
            self.set_condition(ordinal, "Ready", "False")
            for status in self.pods[f"{NAME}-{ordinal}"]["status"].get("containerStatuses") or ():
                status["ready"] = False
        return self

    def ready_for(self, seconds: float, *ordinals: int | str) -> Self:
        for ordinal in ordinals:
            self.set_condition(ordinal, "Ready", "True", lastTransitionTime=format_time(NOW - seconds))
        return self

    def phase(self, phase: str, *ordinals: int | str) -> Self:
        for ordinal in ordinals:
            self.pods[f"{NAME}-{ordinal}"]["status"]["phase"] = phase
            self.not_ready(ordinal)
        return self

    def on_node(self, node: NodeView, *ordinals: int | str) -> Self:
        """Bind these pods to this node."""
        self.nodes.append(node)
        return self._each(ordinals, lambda pod: pod["spec"].update(nodeName=node.name))

    def pending(self, *ordinals: int | str) -> Self:
        def change(pod: Document) -> None:
            del pod["spec"]["nodeName"]
            pod["status"] = {"phase": "Pending", "conditions": []}
            pod["metadata"]["creationTimestamp"] = format_time(NOW - 1)

        return self._each(ordinals, change)

    def deleted(self, *ordinals: int | str) -> Self:
        """Make these pods terminating."""
        time = format_time(NOW)
        return self._each(ordinals, lambda pod: pod["metadata"].update(deletionTimestamp=time))

    def orphaned(self, *ordinals: int | str) -> Self:
        return self._each(ordinals, lambda pod: pod["metadata"].pop("ownerReferences"))

    # results

    def with_revisions(self, *documents: Document) -> Self:
        self.revisions = list(documents)
        return self

    def stored_revisions(self) -> list[Document]:
        """The given revisions; by default the update revision, and before it the old one if a pod or the status
        has it."""
        if self.revisions is not None:
            return self.revisions
        update = revision(self.spec["template"], 2)
        used = {pod["metadata"]["labels"].get(keys.REVISION_LABEL) for pod in self.pods.values()}
        used.add(self.document["status"].get("currentRevision"))
        return [revision(self.old_template, 1), update] if self.old_name in used else [update]

    def view(self) -> StatefulSetView:
        return STATEFUL_SET_VIEWS.project(orjson.dumps(self.document))

    def pod_views(self) -> list[PodView]:
        project = PodProjector()
        return [project(orjson.dumps(pod)) for pod in self.pods.values()]

    def revision_views(self) -> list[RevisionView]:
        return [project_revision(orjson.dumps(revision)) for revision in self.stored_revisions()]

    def claim_views(self) -> list[ClaimView]:
        return [project_claim(orjson.dumps(claim)) for claim in self.claims.values()]

    def snapshot(self) -> StatefulSetSnapshot:
        jobs = self.jobs
        snapshot: StatefulSetSnapshot = snapshot_of(
            KIND,
            self.view(),
            {
                POD_VIEWS: self.pod_views(),
                REVISION_VIEWS: self.revision_views(),
                CLAIM_VIEWS: self.claim_views(),
                NODE_VIEWS: self.nodes,
                STORAGE_CLASS_VIEWS: [project_storage_class(orjson.dumps(class_)) for class_ in self.classes],
                PULL_JOB_VIEWS: None
                if jobs is None
                else [project_pull_job(orjson.dumps(job)) for job in jobs],
            },
            settings=self.settings,
            now=self.now,
        )
        return snapshot

    def plan(self) -> Plan:
        return plan_statefulset(self.snapshot())


def statefulset(
    replicas: int = 3, *, pods: bool = True, parallel: bool = False, image: str = "nginx:1", **rolling: Any
) -> StatefulSetBuilder:
    """A StatefulSet with pods 0, 1, … unless `pods=False`; fields of rollingUpdate as keywords."""
    builder = StatefulSetBuilder(
        {
            "replicas": replicas,
            "selector": copy.deepcopy(SELECTOR),
            "template": template(image),
            "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
        }
    )
    builder.with_rolling(**rolling)
    return builder.pod(*range(replicas)) if pods else builder


def updatable(replicas: int = 3, *, policy: str = "InPlaceIfPossible", **fields: Any) -> StatefulSetBuilder:
    """Like `statefulset`, with a policy for in-place updates, and pods with the readiness gate for it."""
    pods = fields.pop("pods", True)
    builder = statefulset(replicas, pods=False, podUpdatePolicy=policy, **fields)
    gates = {"readinessGates": [{"conditionType": keys.IN_PLACE_READY}]}
    builder.spec["template"]["spec"].update(copy.deepcopy(gates))
    builder.old_template["spec"].update(copy.deepcopy(gates))
    return builder.pod(*range(replicas)) if pods else builder


# what a plan does, by ordinal


def ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def created(plan: Plan) -> list[int]:
    return [ordinal(pod["metadata"]["name"]) for pod in created_pods(plan)]


def created_pods(plan: Plan) -> list[Document]:
    return [
        step.action.body
        for step in plan.steps
        if isinstance(step.action, Create) and step.action.resource == PODS
    ]


def created_claims(plan: Plan) -> list[str]:
    return [
        step.action.key.name
        for step in plan.steps
        if isinstance(step.action, Create) and step.action.resource == PERSISTENT_VOLUME_CLAIMS
    ]


def deleted(plan: Plan) -> list[int]:
    """Ordinals of the deleted pods, in the order of the plan."""
    return [
        ordinal(step.action.key.name)
        for step in plan.steps
        if isinstance(step.action, Delete) and step.action.resource == PODS
    ]


def patches(plan: Plan, resource: Any = PODS) -> dict[str, Document]:
    """Name → body of its last patch."""
    return {
        step.action.key.name: step.action.body
        for step in plan.steps
        if isinstance(step.action, Patch) and step.action.resource == resource
    }


def states(plan: Plan) -> dict[int, str]:
    """Ordinal → lifecycle state that its pod is moved to."""
    return {
        ordinal(name): labels[keys.STATE_LABEL]
        for name, body in patches(plan).items()
        if keys.STATE_LABEL in (labels := (body.get("metadata") or {}).get("labels") or {})
    }


def images(plan: Plan) -> dict[int, str]:
    """Ordinal → image that its pod is changed to in place."""
    return {
        ordinal(name): body["spec"]["containers"][0]["image"]
        for name, body in patches(plan).items()
        if "spec" in body
    }


def left(plan: Plan) -> dict[int, str]:
    return {ordinal(name): why.message for name, why in plan.skipped.items()}


def waiting(plan: Plan, builder: StatefulSetBuilder | None = None) -> str:
    """Reason of the condition Waiting in the plan's status (or the stored one); empty if there is none."""
    status = plan.status if plan.status is not None or builder is None else builder.document["status"]
    conditions = (status or {}).get("conditions") or []
    return next((condition["reason"] for condition in conditions if condition["type"] == "Waiting"), "")
