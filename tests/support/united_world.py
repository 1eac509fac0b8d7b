"""A simulated UnitedDeployment with its workloads and pods: plans are computed and carried out.

world = UnitedWorld("a", "b", replicas=4); world.settle(); world.close("a"); world.pass_time(31).sync()

The real views decode all objects from JSON. `act()` does the work of the workloads' controllers, scheduler and
kubelets: pods are created, deleted, updated as the partition allows, and ready unless their subset is closed.
"""

import copy
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import orjson

from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kinds.uniteddeployment.plan import plan_united
from pykruise.kinds.uniteddeployment.snapshot import (
    REPLICA_SET_VIEWS,
    UNITED_VIEWS,
    UnitedSettings,
    UnitedSnapshot,
    read_snapshot,
)
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    CLONE_SET,
    DEPLOYMENT,
    REVISION_LABEL,
    SUBSET_LABEL,
    TEMPLATES,
    WORKLOAD_VIEWS,
    project_workload,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.targets import project_target
from pykruise.plans.views import POD_VIEWS, REVISION_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.workload.revisions import project_revision
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.views import Views
from support.snapshots import read_of, taken
from support.uniteddeployments import united_document

NOW = parse_time("2026-01-31T12:00:00Z")
UID = "ud-uid"
NAMESPACE, NAME = "shop", "web"

Document = dict[str, Any]


def subset(name: str, **fields: Any) -> Document:
    """A subset as a document."""
    return {"name": name, **fields}


class UnitedWorld:
    """Subsets by name or as documents; a UnitedDeployment and its results."""

    def __init__(self, *subsets: str | Document, template: str = CLONE_SET, **spec: Any) -> None:
        given = [subset(item) if isinstance(item, str) else item for item in subsets]
        self.template = template
        self.document: Document = united_document(template, given, name=NAME, **spec)
        self.document["metadata"] |= {
            "namespace": NAMESPACE,
            "uid": UID,
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": format_time(NOW),
        }
        self.workloads: dict[tuple[str, str], Document] = {}
        """Workloads by template and name."""
        self.pods: dict[str, Document] = {}
        self.revisions: dict[str, Document] = {}
        self.closed: set[str] = set()
        """Subsets in which new pods find no node."""
        self.broken: set[str] = set()
        """Images with which pods are never ready."""
        self.now = NOW
        self.count = 0
        self.events: list[str] = []
        self.written: list[Action] = []
        self.unserved: set[str] = set()

    # ── what is there ────────────────────────────────────────────────────

    def snapshot(self) -> UnitedSnapshot:
        view = UNITED_VIEWS.project(orjson.dumps(self.document))
        objects: dict[Views[Any], Any] = {
            UNITED_VIEWS: [view],
            POD_VIEWS: [project_pod(orjson.dumps(pod)) for pod in self.pods.values()],
            REVISION_VIEWS: [
                project_revision(orjson.dumps(revision)) for revision in self.revisions.values()
            ],
            REPLICA_SET_VIEWS: [
                project_target(orjson.dumps(_replica_set(workload)))
                for (template, _), workload in self.workloads.items()
                if template == DEPLOYMENT
            ],
        }
        for template, views in WORKLOAD_VIEWS.items():
            objects[views] = (
                None
                if template in self.unserved
                else [
                    project_workload(orjson.dumps(workload), template)
                    for (kind, _), workload in self.workloads.items()
                    if kind == template
                ]
            )
        read = read_of(KIND, view, objects, settings=UnitedSettings(), now=self.now)
        return taken(read_snapshot(view, read))

    def plan(self) -> Plan:
        return plan_united(self.snapshot())

    @property
    def spec(self) -> Document:
        spec: Document = self.document["spec"]
        return spec

    @property
    def status(self) -> Document:
        return self.document.get("status") or {}

    def entry(self, name: str) -> Document:
        """A subset in the status; empty if there is none."""
        return next(
            (status for status in self.status.get("subsetStatuses") or () if status["name"] == name), {}
        )

    def condition(self, kind: str, subset: str = "") -> Document:
        """A condition of the status, or of a subset; empty if there is none."""
        holder = self.entry(subset) if subset else self.status
        return next(
            (condition for condition in holder.get("conditions") or () if condition["type"] == kind), {}
        )

    def of(self, subset: str, template: str = "") -> Document:
        """The workload of a subset. Raises KeyError if there is none, or more than one."""
        result = [
            workload
            for (kind, _), workload in self.workloads.items()
            if kind == (template or self.template) and _subset_of(workload) == subset
        ]
        if len(result) != 1:
            raise KeyError(f"subset {subset} has {len(result)} workloads")
        return result[0]

    def sizes(self, template: str = "") -> dict[str, int]:
        """spec.replicas by subset."""
        sizes = [
            workload for (kind, _), workload in self.workloads.items() if kind == (template or self.template)
        ]
        return {_subset_of(entry): entry["spec"]["replicas"] for entry in sorted(sizes, key=_subset_of)}

    def pods_of(self, subset: str) -> list[Document]:
        """Pods of a subset, by name."""
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"].get(SUBSET_LABEL) == subset]

    def labels(self, key: str, subset: str) -> Counter[str]:
        """Values of a label of the subset's pods."""
        return Counter(pod["metadata"]["labels"].get(key, "") for pod in self.pods_of(subset))

    # ── plans ────────────────────────────────────────────────────────────

    def sync(self, times: int = 6) -> Self:
        """Plan and carry out until nothing is left to do, `times` times at most."""
        for _ in range(times):
            plan = self.plan()
            self.carry_out(plan)
            if plan.is_settled:
                break
        return self

    def settle(self, times: int = 12) -> Self:
        """Carry out plans, and let the workloads act, until nothing changes."""
        for _ in range(times):
            before = orjson.dumps([self.document, list(self.workloads.values()), list(self.pods.values())])
            self.sync().act()
            now = orjson.dumps([self.document, list(self.workloads.values()), list(self.pods.values())])
            if before == now and self.plan().is_settled:
                return self
        raise AssertionError("it does not settle")

    def carry_out(self, plan: Plan, *, writes: int | None = None) -> None:
        """All of the plan's writes, or the first few of them, as if the manager was killed then."""
        self.events += [note.reason for note in plan.notes]
        for number, step in enumerate(plan.steps):
            if writes is not None and number >= writes:
                return
            self.write(step.action)
            self.events += [note.reason for note in step.notes_when_done]
        if plan.status is not None:
            self.document["status"] = {k: v for k, v in plan.status.items() if v is not None}

    def write(self, action: Action) -> None:
        """Store one write as an API server does."""
        self.written.append(action)
        if isinstance(action, Create):
            self._create(action)
        elif isinstance(action, Delete):
            self._delete(action)
        elif action.resource == UNITED_DEPLOYMENTS:
            self.document = apply_merge_patch(self.document, action.body)
        else:
            self._patch(action)

    def _store(self, action: Action) -> tuple[dict[Any, Document], Any]:
        name = action.key.name
        if action.resource == PODS:
            return self.pods, name
        if action.resource == CONTROLLER_REVISIONS:
            return self.revisions, name
        template = next(field for field, template in TEMPLATES.items() if template == action.resource)
        return self.workloads, (template, name)

    def _create(self, action: Create) -> None:
        store, key = self._store(action)
        assert key not in store, f"{key} is there already"
        body = copy.deepcopy(action.body)
        self.count += 1
        body["metadata"] |= {
            "uid": f"uid-{self.count}",
            "resourceVersion": str(self.count),
            "generation": 1,
            "creationTimestamp": format_time(self.now),
        }
        store[key] = body

    def _patch(self, action: Patch) -> None:
        store, key = self._store(action)
        before = store[key]
        assert action.uid in ("", before["metadata"]["uid"])
        after = apply_merge_patch(before, action.body)
        self.count += 1
        after["metadata"]["resourceVersion"] = str(self.count)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] += 1
        store[key] = after

    def _delete(self, action: Delete) -> None:
        store, key = self._store(action)
        gone = store.pop(key)
        assert action.uid == gone["metadata"]["uid"]
        owned = {gone["metadata"]["uid"], f"rs-{gone['metadata']['uid']}"}
        self.pods = {
            name: pod
            for name, pod in self.pods.items()
            if not owned & {ref["uid"] for ref in pod["metadata"]["ownerReferences"]}
        }

    # ── what others do ───────────────────────────────────────────────────

    def act(self) -> Self:
        """The workloads' controllers, the scheduler and the kubelets."""
        for (template, _), workload in self.workloads.items():
            self._scale_and_update(template, workload)
        for pod in self.pods.values():
            self._run(pod)
        for (_, _), workload in self.workloads.items():
            mine = self._owned(workload)
            workload["status"] = {
                "observedGeneration": workload["metadata"]["generation"],
                "replicas": len(mine),
                "readyReplicas": sum(_is_ready(pod) for pod in mine),
            }
        return self

    def _owned(self, workload: Document) -> list[Document]:
        uid = workload["metadata"]["uid"]
        return [
            pod
            for pod in self.pods.values()
            if pod["metadata"]["ownerReferences"][0]["uid"] in (uid, f"rs-{uid}")
        ]

    def _scale_and_update(self, template: str, workload: Document) -> None:
        spec = workload["spec"]
        mine = sorted(self._owned(workload), key=lambda pod: (not _is_ready(pod), pod["metadata"]["name"]))
        # Pods that are not ready go first, then young pods.
        while len(mine) > spec["replicas"]:
            victim = next((pod for pod in mine if not _is_ready(pod)), mine[-1])
            mine.remove(victim)
            del self.pods[victim["metadata"]["name"]]
        strategy = spec.get("updateStrategy") or {}
        partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
        target = spec["template"]["metadata"]["labels"][REVISION_LABEL]
        old = [pod for pod in mine if pod["metadata"]["labels"].get(REVISION_LABEL) != target]
        for pod in old[partition:]:
            mine.remove(pod)
            del self.pods[pod["metadata"]["name"]]
        for _ in range(spec["replicas"] - len(mine)):
            self._make_pod(template, workload)

    def _make_pod(self, template: str, workload: Document) -> None:
        self.count += 1
        name = f"{workload['metadata']['name']}-{self.count}"
        uid = workload["metadata"]["uid"]
        resource = TEMPLATES[template]
        owner = build_owner_reference(
            api_version=resource.api_version,
            kind="ReplicaSet" if template == DEPLOYMENT else resource.kind,
            name=f"{workload['metadata']['name']}-rs"
            if template == DEPLOYMENT
            else workload["metadata"]["name"],
            uid=f"rs-{uid}" if template == DEPLOYMENT else uid,
        )
        made = copy.deepcopy(workload["spec"]["template"])
        self.pods[name] = {
            "metadata": {
                **made["metadata"],
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{self.count}",
                "resourceVersion": str(self.count),
                "creationTimestamp": format_time(self.now),
                "ownerReferences": [owner],
            },
            "spec": made["spec"],
            "status": {"phase": "Pending"},
        }

    def _run(self, pod: Document) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            return
        on_node = "nodeName" in pod["spec"]
        if not on_node and pod["metadata"]["labels"].get(SUBSET_LABEL) in self.closed:
            pod["status"] = {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            }
            return
        pod["spec"]["nodeName"] = "n1"
        ready = "False" if pod["spec"]["containers"][0]["image"] in self.broken else "True"
        result = next(
            (
                condition
                for condition in pod["status"].get("conditions") or ()
                if condition["type"] == "Ready"
            ),
            {"status": ""},
        )
        if result["status"] != ready:
            result = {"type": "Ready", "status": ready, "lastTransitionTime": format_time(self.now)}
        pod["status"] = {"phase": "Running", "conditions": [result]}

    def close(self, *subsets: str) -> Self:
        """Close these subsets: their new pods find no node."""
        self.closed |= set(subsets)
        return self

    def open(self, *subsets: str) -> Self:
        """Open these subsets: their new pods find nodes again."""
        self.closed -= set(subsets)
        return self

    def evict(self, *subsets: str) -> Self:
        """Remove the pods from their nodes; they are recreated."""
        for name in [pod["metadata"]["name"] for subset in subsets for pod in self.pods_of(subset)]:
            del self.pods[name]
        return self.act()

    def change(self, **spec: Any) -> Self:
        """Change fields of the spec."""
        self.document["spec"] |= spec
        self.document["metadata"]["generation"] += 1
        return self

    def set_subsets(self, *subsets: str | Document, **topology: Any) -> Self:
        """Set other subsets; other fields of the topology stay."""
        given = [subset(item) if isinstance(item, str) else item for item in subsets]
        return self.change(topology={**self.spec["topology"], "subsets": given, **topology})

    def set_image(self, image: str) -> Self:
        """Set another image in the template."""
        template = copy.deepcopy(self.spec["template"])
        template[self.template]["spec"]["template"]["spec"]["containers"][0]["image"] = image
        return self.change(template=template)

    def partitions(self, **by_subset: int) -> Self:
        """Set the number of old pods by subset."""
        return self.change(updateStrategy={"type": "Manual", "manualUpdate": {"partitions": by_subset}})

    def pass_time(self, seconds: float) -> Self:
        self.now += seconds
        return self


def wanted_in(actions: Iterable[Action]) -> list[str]:
    """The writes to workloads, as `verb kind`."""
    return [
        f"{type(action).__name__.lower()} {action.resource.kind}"
        for action in actions
        if action.resource in TEMPLATES.values()
    ]


def _subset_of(workload: Document) -> str:
    return str((workload["metadata"].get("labels") or {}).get(SUBSET_LABEL, ""))


def _is_ready(pod: Document) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions") or ()
    )


def _replica_set(deployment: Document) -> Document:
    """The ReplicaSet of a Deployment: the simulated Deployments have one."""
    metadata = deployment["metadata"]
    owner = build_owner_reference(
        api_version="apps/v1", kind="Deployment", name=metadata["name"], uid=metadata["uid"]
    )
    return {
        "metadata": {
            "name": f"{metadata['name']}-rs",
            "namespace": NAMESPACE,
            "uid": f"rs-{metadata['uid']}",
            "resourceVersion": "1",
            "ownerReferences": [owner],
        },
        "spec": deployment["spec"],
    }


ADAPTIVE = {"type": "Adaptive", "adaptive": {"unschedulableDuration": 300}}
RESERVE = {"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": True, "unschedulableDuration": 60}}


def adaptive(*names: Any, strategy: Any = ADAPTIVE, **spec: Any) -> UnitedWorld:
    """A UnitedDeployment that passes over subsets while they have no nodes."""
    world = UnitedWorld(*names, **spec)
    world.spec["topology"]["scheduleStrategy"] = strategy
    return world


def reserve(*names: Any, **spec: Any) -> UnitedWorld:
    """A UnitedDeployment that keeps pods without a node in reserve."""
    return adaptive(*names, strategy=RESERVE, **spec)
