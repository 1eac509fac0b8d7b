"""A simulated SidecarSet with its pods: plans are carried out on documents, and then the kubelet acts.

world = SidecarWorld(sidecarset("log", container("log"))); world.add(3); world.change(container("log", "log:2"))

The real strategic merge applies patches, so a harmful patch does harm here, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.injection import InjectionSurroundings, inject
from pykruise.kinds.sidecarset.kind import KIND
from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.plan import plan_sidecarset
from pykruise.kinds.sidecarset.snapshot import SidecarSetSettings, SidecarSetSnapshot
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kube.documents import Document, encode
from pykruise.kube.patches import apply_merge_patch, apply_strategic_merge, find_definition
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.plans.views import NAMESPACE_VIEWS, POD_VIEWS, REVISION_VIEWS, NamespaceView
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, project_revision
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan, Step
from support.sidecarsets import NOW, pod
from support.snapshots import snapshot_of

POD = find_definition(PODS) or ""
CREATED = "2026-01-31T12:00:00Z"


class SidecarWorld:
    """One SidecarSet, its pods and its revisions."""

    def __init__(
        self, doc: Document, *, namespace_labels: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.version = 10
        self.generation = 1
        self.status: Document = {}
        self.namespaces = dict(namespace_labels or {})
        self.pods: dict[str, Document] = {}
        self.revisions: dict[str, Document] = {}
        self.doc = add_defaults(doc)
        self.now = NOW

    # ── the SidecarSet ───────────────────────────────────────────────────────

    @property
    def view(self) -> SidecarSetView:
        metadata = {
            "uid": "uid-set",
            "resourceVersion": str(self.version),
            "generation": self.generation,
            **self.doc["metadata"],
        }
        return project_sidecarset(encode({**self.doc, "metadata": metadata, "status": self.status}))

    def change(self, *containers: Document, **spec: Any) -> None:
        """Change fields of the spec, and replace the containers if any are given."""
        given = {**({"containers": list(containers)} if containers else {}), **spec}
        self.doc = add_defaults({**self.doc, "spec": {**self.doc["spec"], **given}})
        self.version += 1
        self.generation += 1

    # ── pods ─────────────────────────────────────────────────────────────────

    def add(self, count: int = 1, **metadata: Any) -> list[str]:
        """Add pods that run, injected with the current spec."""
        names = []
        for _ in range(count):
            name = f"web-{len(self.pods)}"
            labels = {"app": "web", **metadata.get("labels", {})}
            given = {"creationTimestamp": CREATED, "uid": f"uid-{name}", "resourceVersion": "5"}
            new = pod(name=name, metadata={**given, **metadata, "labels": labels})
            result = inject(
                new,
                InjectionSurroundings(sets=[self.view], namespace="shop", namespace_labels={}, now=self.now),
            )
            self.pods[name] = result or new
            self.runs(name)
            names.append(name)
        return names

    def edit(self, name: str, change: Callable[[Document], None]) -> None:
        """Change a pod as another client would."""
        document = orjson.loads(encode(self.pods[name]))
        change(document)
        document["metadata"]["resourceVersion"] = str(int(document["metadata"]["resourceVersion"]) + 1)
        self.pods[name] = document

    def runs(self, name: str, *, ready: bool = True, failing: tuple[str, ...] = ()) -> None:
        """Let the kubelet run every container of the spec; those in `failing` are not ready."""

        def catch_up(document: Document) -> None:
            statuses = [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": f"registry/{container['name']}@sha256:{container['image']}",
                    "ready": ready and container["name"] not in failing,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
                for container in document["spec"]["containers"]
            ]
            conditions = [
                condition
                for condition in (document.get("status") or {}).get("conditions") or ()
                if condition["type"] != "Ready"
            ]
            is_ready = all(status["ready"] for status in statuses)
            conditions.append(
                {"type": "Ready", "status": str(is_ready), "lastTransitionTime": "2026-01-31T11:00:00Z"}
            )
            document["spec"]["nodeName"] = "node-1"
            document["status"] = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}

        self.edit(name, catch_up)

    def run_all(self) -> None:
        for name in self.pods:
            self.runs(name)

    def pod_view(self, name: str) -> PodView:
        return project_pod(encode(self.pods[name]))

    def images(self, name: str) -> dict[str, str]:
        return {container["name"]: container["image"] for container in self.pods[name]["spec"]["containers"]}

    def note(self, name: str, key: str) -> Any:
        """An annotation of a pod, read as JSON."""
        return orjson.loads(self.pods[name]["metadata"]["annotations"][key])

    def condition(self, name: str, kind: str = "SidecarSetUpgradable") -> Document | None:
        result = (self.pods[name].get("status") or {}).get("conditions") or ()
        return next((item for item in result if item["type"] == kind), None)

    # ── plans ────────────────────────────────────────────────────────────────

    def snapshot(self) -> SidecarSetSnapshot:
        snapshot: SidecarSetSnapshot = snapshot_of(
            KIND,
            self.view,
            {
                POD_VIEWS: [self.pod_view(name) for name in self.pods],
                NAMESPACE_VIEWS: [
                    NamespaceView(name=name, uid=f"uid-{name}", resource_version=1, labels=labels)
                    for name, labels in self.namespaces.items()
                ],
                REVISION_VIEWS: self.revision_views(),
            },
            settings=SidecarSetSettings(),
            now=self.now,
        )
        return snapshot

    def managed(self) -> dict[str, ManagedPod]:
        return {pod.pod.name: pod for pod in self.snapshot().pods}

    def revision_views(self) -> list[RevisionView]:
        return [project_revision(encode(revision)) for revision in self.revisions.values()]

    def plan(self) -> Plan:
        return plan_sidecarset(self.snapshot())

    def round(self) -> Plan:
        """Carry out one plan."""
        plan = self.plan()
        self.carry_out(plan)
        return plan

    def settle(self, most: int = 200) -> int:
        """Repeat rounds, each after the kubelet has caught up, until nothing is left to do; return their number."""
        for number in range(most):
            self.run_all()
            if self.round().is_settled:
                return number
        raise AssertionError("it does not settle")

    def carry_out(self, plan: Plan) -> None:
        for step in plan.steps:
            self.carry_out_step(step)
        if plan.status is not None:
            self.status = plan.status

    def carry_out_step(self, step: Step) -> None:
        action = step.action
        match action:
            case Create():
                number = str(100 + len(self.revisions))
                metadata = {"uid": action.key.name, "resourceVersion": number, **action.body["metadata"]}
                self.revisions[action.key.name] = {**action.body, "metadata": metadata}
            case Delete(resource=resource) if resource == CONTROLLER_REVISIONS:
                del self.revisions[action.key.name]
            case Patch(resource=resource) if resource == CONTROLLER_REVISIONS:
                old = self.revisions[action.key.name]
                assert action.patch_type is PatchType.MERGE
                self.revisions[action.key.name] = apply_merge_patch(old, action.body)
            case Patch():
                self._patch_pod(action)
            case _:
                raise AssertionError(f"this world has no such action: {action}")

    def _patch_pod(self, action: Patch) -> None:
        old = self.pods[action.key.name]
        assert action.uid == old["metadata"]["uid"]
        assert action.resource_version == old["metadata"]["resourceVersion"], (
            "another client wrote in between"
        )
        new = apply_strategic_merge(old, action.body, definition=POD)
        if action.subresource == "status":
            new = {**old, "status": new["status"]}
        else:
            new = {**new, "status": old["status"]}
        version = str(int(old["metadata"]["resourceVersion"]) + 1)
        self.pods[action.key.name] = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}


def upgraded(plan: Plan) -> list[str]:
    """Pods (by name) that the plan upgrades, in its order."""
    return [
        chain.subject.partition("/")[2]
        for stage in plan.stages
        if stage.purpose == "upgrade sidecars"
        for chain in stage.chains
    ]
