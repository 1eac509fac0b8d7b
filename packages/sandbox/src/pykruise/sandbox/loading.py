"""Loads objects of a real cluster into a sandbox, from the output of `kubectl get ... -o yaml`.

YAML or JSON ──▶ read_dump() ──▶ Dump: documents, in the order in which they can be created; nodes to simulate
Dump         ──▶ load() ──▶ POST, PATCH status ──▶ Loaded: number of created objects; omitted objects, with reasons

uids are new in the new cluster, so references to them are mapped: ownerReferences, the volumes of claims, and labels
with uids (on pods of Jobs). A reference to an owner that is not in the dump is removed; otherwise the garbage
collector would delete the dependent. Load before the cluster's components run: a kubelet then finds a pod with its
status, as after a restart, and continues from there.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, deep_copy, get_path
from pykruise.kube.errors import (
    AlreadyExistsError,
    KubeError,
    MethodNotAllowedError,
    NotFoundError,
)
from pykruise.kube.patches.types import PatchType
from pykruise.kube.pod_rules.nodes import ZONE_LABEL
from pykruise.kube.resources import Resource
from pykruise.kube.yaml_documents import read_yaml_documents
from pykruise.sandbox.controllers.node_lifecycle import NOT_READY, UNREACHABLE
from pykruise.sandbox.inventory import discover
from pykruise.sandbox.nodes.specs import NodeSpec, Taint

_FIRST: Final = (
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "Node",
    "PersistentVolumeClaim",
    "PersistentVolume",
)
"""Kinds that other kinds need, in the order of creation. All other kinds follow, owners before dependents."""

_LEFT_OUT: Final = {
    "Event": "it is an event of another cluster",
    "Lease": "the program that renews it does not run in the sandbox",
    "Endpoints": "the sandbox generates it from its Service",
    "EndpointSlice": "the sandbox generates it from its Service",
    "ComponentStatus": "it cannot be created",
    "APIService": "the sandbox has no aggregated API servers",
}
_SERVER_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)
_JOB_LABELS: Final = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


class DumpError(Exception):
    """The file cannot be used. The message is one line with the place."""


class Dump(msgspec.Struct, frozen=True):
    """Content of a file."""

    documents: tuple[Document, ...]
    """Documents in the order in which they can be created."""

    @property
    def nodes(self) -> list[NodeSpec]:
        """The nodes of the dump, as specs for simulated nodes."""
        return [node_spec_of(doc) for doc in self.documents if doc["kind"] == "Node"]


class Loaded(msgspec.Struct, frozen=True):
    """Result of loading."""

    created: int
    left_out: tuple[tuple[str, str], ...]
    """Objects that were not created (`Pod default/web-1`), with the reason."""


def read_dump(path: Path) -> Dump:
    """Read the objects of a YAML or JSON file, which may have several documents and lists.

    Raises DumpError: with line and column for invalid YAML, with the document's number for a document that is not an
    object.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = getattr(err, "strerror", None) or str(err)
        raise DumpError(f"{path}: cannot be read: {reason}") from err
    result: list[Document] = []
    try:
        for number, doc in enumerate(read_yaml_documents(text), start=1):
            result += _list_objects(path, number, doc)
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
        raise DumpError(f"{place}: invalid YAML: {err.problem}") from err
    except yaml.YAMLError as err:
        raise DumpError(f"{path}: invalid YAML: {' '.join(str(err).split())}") from err
    return Dump(tuple(_sort_documents(result)))


def _list_objects(path: Path, number: int, doc: Any) -> Iterator[Document]:
    if doc is None:
        return
    place = f"{path}: document {number}"
    if not isinstance(doc, dict):
        raise DumpError(f"{place}: expected an object, got {type(doc).__name__}")
    if isinstance(doc.get("items"), list) and str(doc.get("kind", "")).endswith("List"):
        for position, item in enumerate(doc["items"]):
            yield _check_object(item, f"{place}: items[{position}]")
        return
    yield _check_object(doc, place)


def _check_object(doc: Any, place: str) -> Document:
    if not isinstance(doc, dict):
        raise DumpError(f"{place}: expected an object, got {type(doc).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(doc.get(field), str):
            raise DumpError(f"{place}: {field}: required")
    if not isinstance(get_path(doc, "metadata", "name"), str):
        raise DumpError(f"{place}: metadata.name: required")
    return doc


def _sort_documents(documents: Iterable[Document]) -> list[Document]:
    """Sort documents: prerequisites first, owners before their dependents."""
    documents = list(documents)
    by_uid = {doc["metadata"].get("uid"): doc for doc in documents if doc["metadata"].get("uid")}

    def depth(doc: Document, seen: frozenset[str] = frozenset()) -> int:
        owners = [ref.get("uid") for ref in doc["metadata"].get("ownerReferences") or ()]
        known = [by_uid[uid] for uid in owners if uid in by_uid and uid not in seen]
        return 1 + max((depth(owner, seen | {owner["metadata"]["uid"]}) for owner in known), default=0)

    def rank(doc: Document) -> tuple[int, int]:
        first = _FIRST.index(doc["kind"]) if doc["kind"] in _FIRST else len(_FIRST)
        return first, depth(doc)

    return sorted(documents, key=rank)


def node_spec_of(doc: Document) -> NodeSpec:
    """Return the spec of a simulated node with the properties of this Node."""
    labels = dict(get_path(doc, "metadata", "labels", default={}))
    amounts = get_path(doc, "status", "allocatable") or get_path(doc, "status", "capacity", default={})
    addresses = get_path(doc, "status", "addresses", default=[])
    address = next((address["address"] for address in addresses if address.get("type") == "InternalIP"), None)
    taints = [
        Taint(taint["key"], taint["effect"], taint.get("value") or "")
        for taint in get_path(doc, "spec", "taints", default=[])
        if not taint["key"].startswith("node.kubernetes.io/")
    ]
    return NodeSpec(
        name=doc["metadata"]["name"],
        zone=labels.get(ZONE_LABEL, ""),
        cpu=str(amounts.get("cpu", "32")),
        memory=str(amounts.get("memory", "128Gi")),
        pods=int(amounts.get("pods", 110)),
        labels=labels,
        taints=tuple(taints),
        **({"address": address} if address else {}),
    )


# ── creating ─────────────────────────────────────────────────────────────────


async def load(client: Client, dump: Dump) -> Loaded:
    """Create the objects of the dump. Existing objects stay unchanged, and references are mapped to them.

    An object that the API server rejects is omitted and listed in the result; its dependents are created without that
    owner.
    """
    uids: dict[str, str] = {}
    left_out: list[tuple[str, str]] = []
    created = 0
    inventory = await discover(client)
    for doc in dump.documents:
        what = _format_name(doc)
        if (reason := _find_reason_to_leave_out(doc)) is not None:
            left_out.append((what, reason))
            continue
        resource = inventory.find(api_version=doc["apiVersion"], kind=doc["kind"])
        if resource is None:
            inventory = await discover(client)  # a CRD of the dump may serve the resource now
            resource = inventory.find(api_version=doc["apiVersion"], kind=doc["kind"])
        if resource is None:
            left_out.append((what, f"{doc['kind']} of {doc['apiVersion']} is not served: its CRD is missing"))
            continue
        resource = _replace_version(resource, doc["apiVersion"])
        try:
            stored = await _create_object(client, resource, doc, uids)
        except KubeError as err:
            left_out.append((what, " ".join(str(err).split())))
            continue
        created += stored is not None
    return Loaded(created, tuple(left_out))


def _format_name(doc: Document) -> str:
    metadata = doc["metadata"]
    namespace = metadata.get("namespace")
    return (
        f"{doc['kind']} {namespace}/{metadata['name']}" if namespace else f"{doc['kind']} {metadata['name']}"
    )


def _find_reason_to_leave_out(doc: Document) -> str | None:
    if doc["metadata"].get("deletionTimestamp"):
        return "its deletion had already begun"
    return _LEFT_OUT.get(doc["kind"])


def _replace_version(resource: Resource, api_version: str) -> Resource:
    version = api_version.rpartition("/")[2]
    return msgspec.structs.replace(resource, version=version)


async def _create_object(
    client: Client, resource: Resource, doc: Document, uids: dict[str, str]
) -> Document | None:
    """Create one object with its status; None when it exists. Raises KubeError."""
    namespace = (doc["metadata"].get("namespace") or "default") if resource.namespaced else ""
    old_uid = doc["metadata"].get("uid") or ""
    body = prepare_document(doc, uids)
    status = body.pop("status", None)
    try:
        stored = decode(await client.create(resource, namespace, body))
    except AlreadyExistsError:
        there = decode(await client.get(resource, namespace, doc["metadata"]["name"]))
        if old_uid:
            uids[old_uid] = there["metadata"]["uid"]
        return None
    if old_uid:
        uids[old_uid] = stored["metadata"]["uid"]
    if status and resource.kind != "CustomResourceDefinition":
        with suppress(NotFoundError, MethodNotAllowedError):  # a kind without a status subresource
            await client.patch(
                resource,
                namespace,
                stored["metadata"]["name"],
                {"status": status},
                patch_type=PatchType.MERGE,
                subresource="status",
            )
    return stored


def prepare_document(doc: Document, uids: Mapping[str, str]) -> Document:
    """Prepare the document for its creation here. `uids` maps old to new uids of created objects."""
    doc = deep_copy(doc)
    metadata = doc["metadata"]
    for field in _SERVER_FIELDS:
        metadata.pop(field, None)
    owners = [
        {**ref, "uid": uids[ref["uid"]]}
        for ref in metadata.pop("ownerReferences", None) or ()
        if ref.get("uid") in uids
    ]
    if owners:
        metadata["ownerReferences"] = owners
    if metadata.get("labels"):
        metadata["labels"] = {name: uids.get(value, value) for name, value in metadata["labels"].items()}
    spec = doc.get("spec") or {}
    match doc["kind"]:
        case "Job":
            _forget_selector(doc, spec)
        case "Service":
            _forget_addresses(spec)
        case "Node":
            _forget_condition_taints(spec)
        case "PersistentVolume" if spec.get("claimRef"):
            old = spec["claimRef"].get("uid")
            spec["claimRef"] = {
                name: value for name, value in spec["claimRef"].items() if name != "resourceVersion"
            } | ({"uid": uids[old]} if old in uids else {})
        case "Pod":
            spec.pop("priority", None)
        case _:
            pass
    return doc


def _forget_condition_taints(spec: Document) -> None:
    """Remove the taints of a node that was not ready, because they would evict its pods before it becomes ready here.

    If it does not become ready here, node_lifecycle.py adds them again. All other taints are kept.
    """
    taints = spec.pop("taints", None) or ()
    if kept := [taint for taint in taints if taint.get("key") not in (UNREACHABLE, NOT_READY)]:
        spec["taints"] = kept


def _forget_selector(doc: Document, spec: Document) -> None:
    """Remove a Job's selector, because the server generates it from the uid, which is new here."""
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    for labels in (
        doc["metadata"].get("labels"),
        get_path(spec, "template", "metadata", "labels"),
    ):
        for name in _JOB_LABELS:
            (labels or {}).pop(name, None)


def _forget_addresses(spec: Document) -> None:
    """Remove addresses, because the server assigns new addresses: old addresses may be outside this cluster's range."""
    if spec.get("clusterIP") != "None":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.pop(field, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)
    spec.pop("healthCheckNodePort", None)
