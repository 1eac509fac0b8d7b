"""A ResourceDistribution and the objects it makes, as caches keep them.

JSON of a ResourceDistribution ──▶ project_distribution() ──▶ DistributionView: typed spec, what each copy has to hold
metadata of a Secret or ConfigMap ──▶ project_copy() ──▶ CopyView: whose it is, and its version
a Secret or ConfigMap, whole ──▶ project_copy(), content_of() ──▶ the same with a digest of its contents

Pure. Contents are known by a digest only: no Secret of another owner, and none at all for longer than a moment, is
in the memory of a manager, but for those that stand in a distribution's own spec.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.resourcedistribution.types import (
    RESOURCE_DISTRIBUTIONS,
    NamespaceList,
    ResourceDistributionSpec,
)
from pykruise.kube.documents import Document, canonical, decode, get_path
from pykruise.kube.resources import CONFIG_MAPS, SECRETS, Resource
from pykruise.kube.selectors import Selector, SelectorError, selector_from
from pykruise.kube.typed_documents import read
from pykruise.plans.views import Views
from pykruise.pods.views import ControllerView

__all__ = [
    "BY_NAME",
    "BY_RESOURCE",
    "COPY_VIEWS",
    "DISTRIBUTED",
    "DISTRIBUTION_VIEWS",
    "CopyView",
    "DistributionView",
    "content_of",
    "project_copy",
    "project_distribution",
    "read_spec",
]

BY_NAME: Final = "name"
"""Index of Secrets and of ConfigMaps: their name, in whichever namespace."""

BY_RESOURCE: Final = "resource"
"""Index of distributions: kind and name of what they distribute."""

DISTRIBUTED: Final[Mapping[str, Resource]] = {one.kind: one for one in (SECRETS, CONFIG_MAPS)}
"""By kind."""


# ── copies, and what has their name ──────────────────────────────────────────


class CopyView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Secret or ConfigMap."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    controller: ControllerView | None = None
    is_deleting: bool = False
    content: str = ""
    """Digest of what it holds; empty: only its metadata is known."""


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    kind: str = ""


_decode_object = msgspec.json.Decoder(_Object).decode


def project_copy(raw: bytes | msgspec.Raw, *, kind: str = "") -> CopyView:
    """The view of a Secret or ConfigMap, whole or its metadata alone. Raises ValueError for what is none.

    `kind`: of an item of a list of whole objects, which does not say it.
    """
    found = _decode_object(raw)
    meta, kind = found.metadata, found.kind or kind
    return CopyView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        controller=_controller(meta.owner_references or ()),
        is_deleting=meta.deletion_timestamp is not None,
        content=content_of(kind, decode(raw)) if kind in DISTRIBUTED else "",
    )


def _controller(owners: tuple[_Owner, ...]) -> ControllerView | None:
    for owner in owners:
        if owner.controller:
            group, _, _ = owner.api_version.rpartition("/")
            return ControllerView(group, owner.kind, owner.name, owner.uid)
    return None


def content_of(kind: str, document: Mapping[str, Any]) -> str:
    """Digest of what a Secret or ConfigMap holds, without its metadata; equal for what an API server stores alike."""
    return hashlib.sha256(canonical(contents(kind, document))).hexdigest()


def contents(kind: str, document: Mapping[str, Any]) -> Document:
    """The fields of a Secret or ConfigMap besides its metadata, as an API server would store them.

    Those that are empty are left out. Unlike OpenKruise, `stringData` is compared as the `data` that it becomes.
    """
    data = dict(document.get("data") or {})
    found: Document = {}
    if kind == SECRETS.kind:
        for name, text in (document.get("stringData") or {}).items():
            data[name] = b64encode(str(text).encode()).decode()
        found["type"] = document.get("type") or "Opaque"
    elif document.get("binaryData"):
        found["binaryData"] = document["binaryData"]
    if data:
        is_binary = kind == SECRETS.kind
        found["data"] = {name: _stored(value, is_binary=is_binary) for name, value in data.items()}
    if document.get("immutable"):
        found["immutable"] = True
    return found


def _stored(value: Any, *, is_binary: bool) -> Any:
    """A value as an API server writes it: nothing for null, and bytes in the usual base64."""
    if value is None:
        return ""
    if not is_binary or not isinstance(value, str):
        return value
    try:
        return b64encode(b64decode(value)).decode()
    except ValueError:
        return value


COPY_VIEWS: Final[Mapping[str, Views[CopyView]]] = {
    resource.kind: Views[CopyView](
        resource=resource,
        projector=lambda: project_copy,
        indexes={BY_NAME: lambda one: (one.name,)},
        is_metadata_only=True,
    )
    for resource in DISTRIBUTED.values()
}
"""By kind. Metadata of all Secrets and all ConfigMaps, since names and owners of others' matter too."""


# ── the distribution ─────────────────────────────────────────────────────────


class DistributionView(msgspec.Struct, frozen=True, kw_only=True):
    """One ResourceDistribution."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    is_deleting: bool = False
    stored_status: Document = {}
    spec: ResourceDistributionSpec | None = None
    """None: it cannot be read; `problem` says why."""
    problem: str = ""
    included: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    selector: Selector | None = None
    """Of namespaces; None: it selects none."""
    resource_hash: str = ""
    """SHA-256 of the text of spec.resource, as copies are annotated with."""
    content: str = ""
    """Digest of what each copy has to hold."""

    @property
    def kind(self) -> str:
        """Of what is distributed; empty: it cannot be read."""
        return str(self.spec.resource["kind"]) if self.spec is not None else ""

    @property
    def copy_name(self) -> str:
        """The name of every copy."""
        return str(self.spec.resource["metadata"]["name"]) if self.spec is not None else ""

    def owns(self, controller: ControllerView | None) -> bool:
        """Whether this is the controller of an object. Where a uid is missing, kind and name decide."""
        if controller is None:
            return False
        if controller.uid and self.uid:
            return controller.uid == self.uid
        return controller.kind == RESOURCE_DISTRIBUTIONS.kind and controller.name == self.name


def read_spec(doc: Mapping[str, Any]) -> tuple[ResourceDistributionSpec | None, str]:
    """The typed spec, or None and what is wrong with it."""
    return read(doc, ResourceDistributionSpec, path="spec", raw=("resource",))


class _RawSpec(msgspec.Struct):
    resource: msgspec.Raw = msgspec.Raw(b"")


class _Distribution(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: Document | None = None


_decode_distribution = msgspec.json.Decoder(_Distribution).decode
_decode_raw_spec = msgspec.json.Decoder(_RawSpec).decode


def project_distribution(raw: bytes | msgspec.Raw) -> DistributionView:
    """A ResourceDistribution's view. Raises msgspec.DecodeError for what is none."""
    found = _decode_distribution(raw)
    meta = found.metadata
    document = decode(found.spec)
    spec, problem = read_spec(document)
    selector: Selector | None = None
    if spec is not None:
        selector, problem = _selector(document)
        problem = problem or _resource_problem(spec.resource)
    is_readable = spec is not None and not problem
    return DistributionView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        is_deleting=meta.deletion_timestamp is not None,
        stored_status=found.status or {},
        spec=spec if is_readable else None,
        problem=problem,
        included=_names(spec.targets.included_namespaces) if spec is not None else frozenset(),
        excluded=_names(spec.targets.excluded_namespaces) if spec is not None else frozenset(),
        selector=selector,
        resource_hash=hashlib.sha256(_decode_raw_spec(found.spec).resource).hexdigest(),
        content=content_of(spec.resource["kind"], spec.resource) if spec is not None and is_readable else "",
    )


def _names(listed: NamespaceList | None) -> frozenset[str]:
    return frozenset(one.name for one in (listed.items if listed is not None else None) or ())


def _selector(spec: Mapping[str, Any]) -> tuple[Selector | None, str]:
    document = get_path(spec, "targets", "namespaceSelector")
    try:
        found = selector_from(document)
    except SelectorError as error:
        return None, f"spec.targets.namespaceSelector: {error}"
    return (None if document is None or found.is_empty else found), ""


def _resource_problem(resource: Mapping[str, Any]) -> str:
    if resource.get("apiVersion") != "v1" or resource.get("kind") not in DISTRIBUTED:
        return "spec.resource: it must be a Secret or a ConfigMap (v1)"
    if not get_path(resource, "metadata", "name"):
        return "spec.resource.metadata.name: it must not be empty"
    for field in ("data", "stringData", "binaryData"):
        if not isinstance(resource.get(field) or {}, Mapping):
            return f"spec.resource.{field}: it must be an object"
    return ""


def _resource_index(view: DistributionView) -> tuple[tuple[str, str], ...]:
    return ((view.kind, view.copy_name),) if view.spec is not None and not view.is_deleting else ()


DISTRIBUTION_VIEWS: Final = Views[DistributionView](
    resource=RESOURCE_DISTRIBUTIONS,
    projector=lambda: project_distribution,
    indexes={BY_RESOURCE: _resource_index},
)
