"""PodUnavailableBudgets for tests: builders, and a small API server that knows resourceVersions and conflicts.

server = BudgetServer(budget(maxUnavailable=1, status=allowed(1)), pods=[tied("p1")])
refusal = await server.replica().judge(deletion(tied("p1")))
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.pod_steps import BudgetGuard, BudgetTie, make_guarding
from pykruise.kinds.podunavailablebudget.snapshot import (
    COUNTED_VIEWS,
    BudgetSettings,
    BudgetSnapshot,
    read_snapshot,
)
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import (
    ConflictError,
    ConnectionLostError,
    ErrorStatus,
    ForbiddenError,
    NotFoundError,
)
from pykruise.kube.ids import Key
from pykruise.kube.patches import apply_merge_patch
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.owners import OwnerReference
from pykruise.plans.pod_steps import PreventedDisruption, StepReport
from pykruise.plans.targets import TargetView, project_target
from pykruise.plans.views import BUDGET_VIEWS, POD_VIEWS
from pykruise.pods.settings import build_settings
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import EVICTION_REQUESTED_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import BudgetView, build_related_annotations, project_budget
from pykruise.runtime.read import Memories
from support.pod_chains import step_context
from support.reviews import request
from support.snapshots import read_of, taken

NOW = parse_time("2026-01-31T12:00:00Z")
NAMESPACE = "shop"
CLONE_SET = ("apps.kruise.io/v1beta1", "CloneSet", "web")
DEPLOYMENT = ("apps/v1", "Deployment", "web")
BOTH_GATES = Gates.of(PodUnavailableBudgetUpdateGate=True)

Owner = tuple[str, str, str]


def ago(seconds: float) -> str:
    """The time this many seconds before now."""
    return format_time(NOW - seconds)


def budget(
    name: str = "pub",
    *,
    target: Owner | None = None,
    selector: Mapping[str, Any] | None = None,
    status: Document | None = None,
    annotations: Mapping[str, str] | None = None,
    created_s_ago: float = 3600,
    deleting: bool = False,
    **spec: Any,
) -> Document:
    """A budget as it is stored; `spec` has further fields. Without target and selector it selects `app=web`."""
    metadata: Document = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": ago(created_s_ago),
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    if deleting:
        metadata["deletionTimestamp"] = ago(1)
    covered: Document = {"selector": selector or {"matchLabels": {"app": "web"}}}
    if target is not None:
        covered = {"targetRef": dict(zip(("apiVersion", "kind", "name"), target, strict=True))}
    return {
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": metadata,
        "spec": {**covered, **spec},
        **({"status": status} if status is not None else {}),
    }


def allowed(count: int, *, desired: int = 1, **status: Any) -> Document:
    """A status that allows this number of disruptions."""
    return {
        "unavailableAllowed": count,
        "desiredAvailable": desired,
        "currentAvailable": desired + count,
        **status,
    }


def pod(
    name: str,
    *,
    owner: Owner | None = CLONE_SET,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    phase: str = "Running",
    deleting: bool = False,
    image: str = "nginx:1",
    created_s_ago: float = 3600,
    version: int = 1,
    **spec: Any,
) -> Document:
    """A pod that serves; `spec` replaces fields."""
    metadata: Document = {
        "namespace": NAMESPACE,
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": ago(created_s_ago),
        "labels": {"app": "web", **(labels or {})},
        "annotations": dict(annotations or {}),
    }
    if deleting:
        metadata["deletionTimestamp"] = ago(1)
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": image}], "nodeName": "n1", **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "main", "image": image, "imageID": "old", "ready": ready}],
        },
    }


def reference(owner: Owner) -> Document:
    """A controller's entry in ownerReferences."""
    api_version, kind, name = owner
    uid = f"uid-{kind}-{name}"
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def tied(
    name: str, *, to: str = "pub", annotations: Mapping[str, str] | None = None, **fields: Any
) -> Document:
    """A pod of a budget."""
    return pod(name, annotations={**build_related_annotations(to), **(annotations or {})}, **fields)


def view(document: Document) -> BudgetView:
    """A budget's view, through the real projection."""
    return project_budget(orjson.dumps(document))


def pod_view(document: Document) -> PodView:
    """A pod's view, through the real projection."""
    return project_pod(orjson.dumps(document))


def workload(owner: Owner, replicas: int, *, deleting: bool = False, of: Owner | None = None) -> Document:
    """A workload of `app=web`."""
    api_version, kind, name = owner
    metadata: Document = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{kind}-{name}",
        "resourceVersion": "1",
    }
    metadata["labels"] = {"app": "web"}
    if deleting:
        metadata["deletionTimestamp"] = ago(1)
    if of is not None:
        metadata["ownerReferences"] = [reference(of)]
    labels = {"app": "web"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}},
        },
    }


def target_view(document: Document) -> TargetView:
    """A workload's view."""
    return project_target(orjson.dumps(document))


def kind_of(document: Document) -> GroupKind:
    """Group and kind of a workload."""
    return GroupKind(document["apiVersion"].rpartition("/")[0], document["kind"])


def world(
    document: Document,
    pods: Iterable[Document] = (),
    workloads: Sequence[Document] = (),
    *,
    others: Iterable[Document] = (),
    gates: Gates = BOTH_GATES,
    stored: Iterable[Document] | None = None,
    memories: Memories | None = None,
    live: "Stored | None" = None,
) -> BudgetSnapshot:
    """The snapshot of a budget, from the kind's own function. `stored`: pods of the API server, if they differ
    from those of the cache. `live`: an API server with pods and other objects."""
    pods = list(pods)
    objects: dict[Any, list[Any]] = {
        BUDGET_VIEWS: [view(entry) for entry in (document, *others)],
        POD_VIEWS: [pod_view(pod) for pod in pods],
        **{
            views: [target_view(workload) for workload in workloads if kind_of(workload) == kind]
            for kind, views in COUNTED_VIEWS.items()
        },
    }
    settings = build_settings(BudgetSettings, gates=gates.__getitem__)
    live = live or Stored(pods if stored is None else stored)
    given: dict[str, Any] = {"settings": settings, "now": NOW, "live": live, "memories": memories}
    read = read_of(KIND, view(document), objects, **given)
    world = taken(read_snapshot(view(document), read))
    assert world is not None
    return world


class Stored:
    """An API server that serves objects. `scales`: scale subresources of workloads, by name. `forbidden`: kinds
    that cannot be read; their scales can."""

    def __init__(
        self,
        documents: Iterable[Document] = (),
        *,
        scales: Mapping[str, Document] | None = None,
        forbidden: Iterable[str] = (),
    ) -> None:
        self.documents = {
            (document["kind"], document["metadata"]["name"]): document for document in documents
        }
        self.scales = scales or {}
        self.forbidden = frozenset(forbidden)
        self.asked: list[str] = []

    async def get(self, resource: Resource, _: str, name: str, *, subresource: str = "") -> bytes:
        self.asked.append(f"{resource.kind} {name} {subresource}".rstrip())
        if resource.kind in self.forbidden and not subresource:
            raise ForbiddenError(ErrorStatus(status="Failure", code=403, reason="Forbidden", message="no"))
        known = self.scales.get(name) if subresource else self.documents.get((resource.kind, name))
        if known is None:
            raise _not_found()
        return orjson.dumps(known)

    async def get_path(self, path: str) -> bytes:
        """Served resources: those with at least one object."""
        for (kind, _), document in self.documents.items():
            group, _, version = document.get("apiVersion", "").partition("/")
            if path == f"/apis/{group}":
                return orjson.dumps({"preferredVersion": {"version": version}})
            if path == f"/apis/{group}/{version}":
                return orjson.dumps({"resources": [{"name": f"{kind.lower()}s", "kind": kind}]})
        raise _not_found()


def _not_found() -> NotFoundError:
    return NotFoundError(ErrorStatus(status="Failure", code=404, reason="NotFound", message="not found"))


# ── reviews ──────────────────────────────────────────────────────────────────


def deletion(doc: Document, **fields: Any) -> AdmissionRequest:
    """The DELETE of a pod."""
    return request(PODS, old=doc, **fields)


def eviction(name: str, *, options: Document | None = None, **fields: Any) -> AdmissionRequest:
    """The eviction of a pod, which an API server does not show."""
    body: Document = {"metadata": {"name": name, "namespace": NAMESPACE}}
    if options is not None:
        body["deleteOptions"] = options
    return request(PODS, body, operation="CREATE", subresource="eviction", **fields)


def update(old: Document, new: Document, **fields: Any) -> AdmissionRequest:
    """An update of a pod."""
    return request(PODS, new, old=old, **fields)


class BudgetServer:
    """Stores budgets and pods, and rejects status writes with an old resourceVersion."""

    def __init__(self, *budgets: Document, pods: Iterable[Document] = ()) -> None:
        self.budgets = {budget["metadata"]["name"]: budget for budget in budgets}
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.clonesets: dict[str, Document] = {}
        self.recorded: list[str] = []
        """Names of the pods whose requested eviction was recorded."""
        self.conflicts_to_come = 0
        self.writes_hang = self.writes_fail = False
        self.writes = 0
        self._version = 1

    def status(self, name: str = "pub") -> Document:
        """The stored status of a budget."""
        status: Document = self.budgets[name].get("status") or {}
        return status

    def replica(self, *, gates: Gates = BOTH_GATES, seed: int = 1, is_stale: bool = False) -> "Replica":
        """A webhook replica. `is_stale`: its cache stays as it is now."""
        return Replica(self, gates=gates, seed=seed, is_stale=is_stale)

    async def patch(self, shown: BudgetView, patch: Document) -> BudgetView:
        """A conditional write."""
        await asyncio.sleep(0)
        if self.writes_hang:
            await asyncio.sleep(3600)
        if self.writes_fail:
            raise ConnectionLostError("lost on purpose")
        stored = self.budgets[shown.name]
        self.writes += 1
        if self.conflicts_to_come or str(shown.resource_version) != stored["metadata"]["resourceVersion"]:
            self.conflicts_to_come = max(self.conflicts_to_come - 1, 0)
            raise ConflictError(ErrorStatus(status="Failure", code=409, reason="Conflict", message="changed"))
        changed = apply_merge_patch(stored, orjson.loads(orjson.dumps(patch)))
        self._version += 1
        changed["metadata"]["resourceVersion"] = str(self._version)
        self.budgets[shown.name] = changed
        return view(changed)


class Replica:
    """A `BudgetReader` over the server, and the two admission steps that use it."""

    def __init__(self, server: BudgetServer, *, gates: Gates, seed: int, is_stale: bool) -> None:
        self._server = server
        self._cached = deep_copy(server.budgets) if is_stale else None
        self.prevented: list[PreventedDisruption] = []
        self.asked_for: list[str] = []
        context = step_context(KIND, self, gates=gates, clock=lambda: NOW, report=self._keep, seed=seed)
        self.guarding = make_guarding(context)
        self._guard = BudgetGuard(self.guarding)
        self._tie = BudgetTie(self.guarding)

    def _keep(self, report: StepReport) -> None:
        assert report.prevented is not None
        self.prevented.append(report.prevented)

    async def judge(self, asked: AdmissionRequest) -> ErrorStatus | None:
        """The response of `/validate-pod`."""
        return await self._guard.judge(asked)

    async def tie(self, doc: Document) -> Document:
        """A new pod after `/mutate-pod`."""
        return await self._tie.change(doc, request(PODS, doc)) or doc

    def _known(self) -> Mapping[str, Document]:
        return self._server.budgets if self._cached is None else self._cached

    # ── BudgetReader ─────────────────────────────────────────────────────────

    async def list_in_namespace(self, namespace: str) -> Sequence[BudgetView]:
        return [view(entry) for entry in self._known().values()]

    async def find_newest(self, key: Key) -> BudgetView | None:
        self.asked_for.append(key.name)
        result = self._known().get(key.name)
        return view(result) if result is not None else None

    async def read_fresh(self, key: Key) -> BudgetView | None:
        result = self._server.budgets.get(key.name)
        return view(result) if result is not None else None

    async def patch_status(self, view: BudgetView, patch: Document) -> BudgetView:
        return await self._server.patch(view, patch)

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        return OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="uid-Deployment-web")

    async def read_pod(self, namespace: str, name: str) -> Document | None:
        return self._server.pods.get(name)

    async def read_cloneset(self, namespace: str, name: str) -> Document | None:
        return self._server.clonesets.get(name)

    async def record_eviction(self, pod: Document, record: Document) -> None:
        assert EVICTION_REQUESTED_ANNOTATION in record["metadata"]["annotations"]
        self._server.recorded.append(pod["metadata"]["name"])
