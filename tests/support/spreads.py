"""WorkloadSpreads for tests: builders, and a small API server that knows resourceVersions and conflicts.

server = SpreadServer(spread(subset("a", 3), subset("b")))
placed = await server.replica().create(pod("p1"))
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pykruise.kinds.workloadspread.assignment import Spreading
from pykruise.kinds.workloadspread.pod_steps import SpreadInjection, SpreadRelease
from pykruise.kinds.workloadspread.readers import build_places_patch
from pykruise.kinds.workloadspread.targets import replicas_of
from pykruise.kinds.workloadspread.types import SubsetStatus
from pykruise.kinds.workloadspread.versions import DEFAULT_VERSIONED, UNVERSIONED
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS, SpreadView
from pykruise.kube.clock import parse_time
from pykruise.kube.control.quota import Quota
from pykruise.kube.documents import Document, deep_copy, get_path
from pykruise.kube.errors import ConflictError, ErrorStatus
from pykruise.kube.ids import Key
from pykruise.kube.patches import apply_merge_patch
from pykruise.kube.resources import PODS
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.owners import OwnerReference, controller_of
from pykruise.plans.targets import OwnerMissingError
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import Matched, read_matched
from pykruise.pods.workload.allowed_workloads import WhiteList, WhiteListError
from support.reviews import request

NOW = parse_time("2026-01-31T12:00:00Z")
NAMESPACE = "shop"
CLONE_SET = ("apps.kruise.io/v1beta1", "CloneSet", "web")
DEPLOYMENT = ("apps/v1", "Deployment", "web")
REPLICA_SET = ("apps/v1", "ReplicaSet", "web-h1")
STATEFUL_SET = ("apps/v1", "StatefulSet", "web")

Owner = tuple[str, str, str]


def subset(name: str, most: int | str | None = None, **fields: Any) -> Document:
    """A subset; `fields` are the API's."""
    return {"name": name, **({"maxReplicas": most} if most is not None else {}), **fields}


def zone(name: str) -> Document:
    """A required node term: nodes of this zone."""
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}


def spread(
    *subsets: Document,
    target: Owner = CLONE_SET,
    name: str = "ws",
    status: Document | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """A WorkloadSpread as it is stored; `spec` has further fields."""
    api_version, kind, target_name = target
    metadata: Document = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "WorkloadSpread",
        "metadata": metadata,
        "spec": {
            "targetRef": {"apiVersion": api_version, "kind": kind, "name": target_name},
            "subsets": list(subsets),
            **spec,
        },
        **({"status": status} if status else {}),
    }


def view(document: Document) -> SpreadView:
    """The view of a WorkloadSpread, through the real projection."""
    return SPREAD_VIEWS.project(orjson.dumps(document))


def pod(
    name: str = "",
    *,
    owner: Owner | None = CLONE_SET,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    deleting: bool = False,
    **spec: Any,
) -> Document:
    """A pod as admission gets it; `spec` replaces fields."""
    metadata: Document = {"namespace": NAMESPACE, "labels": dict(labels or {})}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = "web-"
    if annotations:
        metadata["annotations"] = dict(annotations)
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
    pod: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "nginx"}], **spec},
    }
    if phase:
        pod["status"] = {"phase": phase}
    return pod


def reference(owner: Owner) -> Document:
    """A controller reference."""
    api_version, kind, name = owner
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def note(document: Document | None) -> Matched | None:
    """The pod's annotation, or None."""
    text = get_path(document, "metadata", "annotations", MATCHED_SPREAD_ANNOTATION)
    return read_matched(text)


def placed_in(document: Document | None) -> str:
    """The pod's subset; empty: none."""
    matched = note(document)
    return matched.subset if matched is not None else ""


class SpreadServer:
    """Stores WorkloadSpreads and workloads; `replica()` is a webhook replica with its own copy."""

    def __init__(self, *spreads: Document, owners: Sequence[Document] = ()) -> None:
        self.spreads = {spread["metadata"]["name"]: spread for spread in spreads}
        self.objects = {(owner["kind"], owner["metadata"]["name"]): owner for owner in owners}
        self.pods: dict[str, Document] = {}
        self.white_list: WhiteList | WhiteListError = WhiteList()
        self.writes = 0
        self.refused = 0
        self.conflicts_to_come = 0
        self._version = 1
        self._replicas: list[_Replica] = []

    def replica(
        self,
        *,
        is_stale: bool = False,
        versioned: Sequence[str] = tuple(DEFAULT_VERSIONED),
        quota: Quota | None = None,
    ) -> "_Replica":
        """A replica; a stale one keeps its first copy until it explicitly reads again."""
        seed = len(self._replicas)
        replica = _Replica(self, is_stale=is_stale, versioned=versioned, seed=seed, quota=quota)
        self._replicas.append(replica)
        return replica

    def entries(self, name: str = "ws", version: str = UNVERSIONED) -> dict[str, Document]:
        """The stored list of a version, by subset."""
        stored = get_path(self.spreads[name], "status", "versionedSubsetStatuses", version) or []
        return {item["name"]: item for item in stored}

    def missing(self, name: str = "ws", version: str = UNVERSIONED) -> dict[str, int]:
        """Free places by subset."""
        return {key: entry["missingReplicas"] for key, entry in self.entries(name, version).items()}

    def write(self, shown: SpreadView, lists: Mapping[str, Sequence[SubsetStatus]]) -> SpreadView:
        """One status write."""
        stored = self.spreads.get(shown.name)
        assert stored is not None
        self.writes += 1
        if self.conflicts_to_come > 0 or stored["metadata"]["resourceVersion"] != str(shown.resource_version):
            self.conflicts_to_come -= 1
            self.refused += 1
            raise ConflictError(ErrorStatus(status="Failure", code=409, reason="Conflict", message="changed"))
        patch = orjson.loads(orjson.dumps(build_places_patch(lists)))
        changed = apply_merge_patch(stored, patch)
        self._version += 1
        changed["metadata"]["resourceVersion"] = str(self._version)
        self.spreads[shown.name] = changed
        return view(changed)


class _Replica:
    """A `SpreadReader` over the server, and the two admission steps that use it."""

    def __init__(
        self,
        server: SpreadServer,
        *,
        is_stale: bool,
        versioned: Sequence[str],
        seed: int,
        quota: Quota | None = None,
    ) -> None:
        self._server = server
        self._copy = deep_copy(server.spreads) if is_stale else None
        rng = random.Random(seed)
        self.spreading = Spreading(self, clock=lambda: NOW, rng=rng, versioned=versioned, quota=quota)
        self._changing = SpreadInjection(self.spreading)
        self._judging = SpreadRelease(self.spreading)
        self.owner_reads = 0
        self.pod_reads: list[str] = []

    async def create(
        self, document: Document, *, namespace: str = NAMESPACE, **fields: Any
    ) -> Document | None:
        """The pod after admission; None: unchanged."""
        return await self._changing.change(document, request(PODS, document, namespace=namespace, **fields))

    async def delete(self, document: Document, **fields: Any) -> None:
        """Admission of its deletion."""
        await self._judging.judge(request(PODS, old=document, operation="DELETE", **fields))

    async def evict(self, name: str, *, dry_run: bool = False) -> None:
        """Admission of its eviction."""
        body: Document = {"kind": "Eviction", "metadata": {"name": name}}
        if dry_run:
            body["deleteOptions"] = {"dryRun": ["All"]}
        asked = request(
            PODS, body, operation="CREATE", name=name, subresource="eviction", namespace=NAMESPACE
        )
        await self._judging.judge(asked)

    async def list_spreads(self, namespace: str) -> Sequence[SpreadView]:
        stored = self._server.spreads if self._copy is None else self._copy
        return [view(item) for item in stored.values() if item["metadata"]["namespace"] == namespace]

    async def find_newest(self, key: Key) -> SpreadView | None:
        stored = self._server.spreads if self._copy is None else self._copy
        result = stored.get(key.name)
        return view(result) if result is not None else None

    async def read_fresh(self, key: Key) -> SpreadView | None:
        await asyncio.sleep(0.001)
        result = self._server.spreads.get(key.name)
        return view(result) if result is not None else None

    async def write(self, shown: SpreadView, lists: Mapping[str, Sequence[SubsetStatus]]) -> SpreadView:
        await asyncio.sleep(0.002)
        return self._server.write(shown, lists)

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        self.owner_reads += 1
        result = self._server.objects.get((owner.kind, owner.name))
        if result is None:
            raise OwnerMissingError(f"{owner.kind} {namespace}/{owner.name} is not there")
        return controller_of(result)

    async def read(self, kind: GroupKind, namespace: str, name: str, *, version: str = "") -> Document | None:
        return self._server.objects.get((kind.kind, name))

    async def read_target(self, shown: SpreadView) -> Document | None:
        result = shown.target
        return self._server.objects.get((result[0].kind, result[1])) if result is not None else None

    async def read_replicas(self, shown: SpreadView) -> int:
        replicas, document = shown.target, await self.read_target(shown)
        if replicas is None or document is None:
            return 0
        return replicas_of(document, replicas[0], paths=shown.replicas_paths) or 0

    async def read_white_list(self) -> WhiteList:
        result = self._server.white_list
        if isinstance(result, WhiteListError):
            raise result
        return result

    async def read_pod(self, namespace: str, name: str) -> Document | None:
        self.pod_reads.append(name)
        return self._server.pods.get(name)


def workload(owner: Owner, *, above: Owner | None = None, **spec: Any) -> Document:
    """A workload, for the server; `above` controls it."""
    api_version, kind, name = owner
    metadata: Document = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    if above is not None:
        metadata["ownerReferences"] = [reference(above)]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
