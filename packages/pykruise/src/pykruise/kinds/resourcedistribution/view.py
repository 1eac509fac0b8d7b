"""A ResourceDistribution and the objects that it creates, as caches keep them.

JSON of a ResourceDistribution ──▶ project_distribution() ──▶ DistributionView: typed spec, desired contents
Secrets and ConfigMaps ──▶ pods/view/secrets.py

Pure. The contents of a Secret stay in memory only while its digest is computed, unless the Secret is part of a
distribution's spec.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.resourcedistribution.types import (
    RESOURCE_DISTRIBUTIONS,
    NamespaceList,
    ResourceDistributionSpec,
)
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, parse_selector
from pykruise.plans.views import CONFIG_MAP_VIEWS, SECRET_VIEWS
from pykruise.pods.view.pod_view import ControllerView
from pykruise.pods.view.secrets import COPIED, CopyView, content_of, project_copy, read_contents
from pykruise.runtime.views import BY_NAME, Views

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
    "read_contents",
    "read_spec",
]

BY_RESOURCE: Final = "resource"
"""Index of distributions by kind and name of the distributed resource."""

DISTRIBUTED: Final = COPIED
"""Resources that can be distributed, by kind."""

COPY_VIEWS: Final[Mapping[str, Views[CopyView]]] = {
    views.resource.kind: views for views in (SECRET_VIEWS, CONFIG_MAP_VIEWS)
}
"""Views of copies by kind: metadata of all Secrets and ConfigMaps, because objects of other owners can have a copy's
name.
"""


# ── the distribution ─────────────────────────────────────────────────────────


class DistributionView(msgspec.Struct, frozen=True, kw_only=True):
    """A ResourceDistribution."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    is_deleting: bool = False
    stored_status: Document = {}
    spec: ResourceDistributionSpec | None = None
    """None: the spec cannot be read; `problem` gives the reason."""
    problem: str = ""
    included: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    selector: Selector = NOTHING
    """Selects namespaces."""
    resource_hash: str = ""
    """SHA-256 of the text of spec.resource. Each copy has this hash as an annotation."""
    content: str = ""
    """Digest of the desired contents of each copy."""

    @property
    def kind(self) -> str:
        """Kind of the distributed resource; empty: the spec is unreadable."""
        return str(self.spec.resource["kind"]) if self.spec is not None else ""

    @property
    def copy_name(self) -> str:
        """Name of every copy."""
        return str(self.spec.resource["metadata"]["name"]) if self.spec is not None else ""

    def owns(self, controller: ControllerView | None) -> bool:
        """Whether `controller` is this distribution. If a uid is unknown, kind and name decide."""
        if controller is None:
            return False
        if controller.uid and self.uid:
            return controller.uid == self.uid
        return controller.kind == RESOURCE_DISTRIBUTIONS.kind and controller.name == self.name


def read_spec(doc: Mapping[str, Any]) -> tuple[ResourceDistributionSpec | None, str]:
    """Return the typed spec, or None and the problem."""
    return read(doc, ResourceDistributionSpec, path="spec", raw=("resource",))


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    deletion_timestamp: str | None = None


class _RawSpec(msgspec.Struct):
    resource: msgspec.Raw = msgspec.Raw(b"")


class _Distribution(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: Document | None = None


_decode_distribution = msgspec.json.Decoder(_Distribution).decode
_decode_raw_spec = msgspec.json.Decoder(_RawSpec).decode


def project_distribution(raw: bytes | msgspec.Raw) -> DistributionView:
    """Decode a ResourceDistribution into its view. Raises msgspec.DecodeError when the text is not a
    ResourceDistribution.
    """
    distribution = _decode_distribution(raw)
    meta = distribution.metadata
    document = decode(distribution.spec)
    spec, problem = read_spec(document)
    selector = NOTHING
    if spec is not None:
        selector, problem = _read_selector(document)
        problem = problem or _find_resource_problem(spec.resource)
    if problem:
        spec = None
    return DistributionView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        is_deleting=meta.deletion_timestamp is not None,
        stored_status=distribution.status or {},
        spec=spec,
        problem=problem,
        included=names_of(spec.targets.included_namespaces) if spec is not None else frozenset(),
        excluded=names_of(spec.targets.excluded_namespaces) if spec is not None else frozenset(),
        selector=selector,
        resource_hash=hashlib.sha256(_decode_raw_spec(distribution.spec).resource).hexdigest(),
        content=content_of(spec.resource["kind"], spec.resource) if spec is not None else "",
    )


def names_of(listed: NamespaceList | None) -> frozenset[str]:
    """Names of the listed namespaces."""
    return frozenset(item.name for item in (listed.items if listed is not None else None) or ())


def _read_selector(spec: Mapping[str, Any]) -> tuple[Selector, str]:
    """Parse the selector. An empty selector selects nothing."""
    try:
        selector = parse_selector(get_path(spec, "targets", "namespaceSelector"))
    except SelectorError as error:
        return NOTHING, f"spec.targets.namespaceSelector: {error}"
    return (NOTHING if selector.is_empty else selector), ""


def _find_resource_problem(resource: Mapping[str, Any]) -> str:
    if resource.get("apiVersion") != "v1" or resource.get("kind") not in DISTRIBUTED:
        return "spec.resource: it must be a Secret or a ConfigMap (v1)"
    if not get_path(resource, "metadata", "name"):
        return "spec.resource.metadata.name: it must not be empty"
    for field in ("data", "stringData", "binaryData"):
        if not isinstance(resource.get(field) or {}, Mapping):
            return f"spec.resource.{field}: it must be an object"
    return ""


def _index_by_resource(view: DistributionView) -> tuple[tuple[str, str], ...]:
    return () if view.is_deleting else ((view.kind, view.copy_name),)


DISTRIBUTION_VIEWS: Final = Views[DistributionView](
    resource=RESOURCE_DISTRIBUTIONS,
    projector=lambda: project_distribution,
    indexes={BY_RESOURCE: _index_by_resource},
)
