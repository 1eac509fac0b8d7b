"""Catalog of this API server: every resource in every version, built in or defined by a live CRD.

data/discovery.json ──┐   (and discovery_gated.json)
                      ├──▶ Catalog ──▶ CatalogEntry: read by routing, discovery, OpenAPI, tables and writes
live CRDs (crds.py) ──┘

The entries are frozen. The catalog changes only through `install` and `remove`, and counts its changes in
`revision`, so that data derived from it (discovery, OpenAPI) can be cached until the next change.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, Protocol

import msgspec
import orjson

from pykruise.kube.documents import Document
from pykruise.kube.package_data import read_package_data
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.releases import NEWEST_MINOR, Release, release_of
from pykruise.sandbox.apiserver.custom.conversions import EVENT_FACTS, EVENT_FIELDS, EventConverter
from pykruise.sandbox.apiserver.objects.strategies import Strategy


class ServedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of `kubectl get`. Only custom resources have a `json_path` (`.spec.replicas`)."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""


class ServedScalePaths(msgspec.Struct, frozen=True, kw_only=True):
    """Paths that the scale subresource reads and writes, such as `.spec.replicas`.

    `selector` is a path to a selector in its string form (custom resources), or empty. `selector_of` is a path
    to a LabelSelector object, or to a plain map of labels (built-in workloads), or empty.
    """

    spec_replicas: str
    status_replicas: str
    selector: str = ""
    selector_of: str = ""


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """One subresource as discovery shows it: the group, version and kind of the objects that it reads and writes."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


class Converter(Protocol):
    """Conversion between the storage version and a served one. Asynchronous, because a webhook may do it."""

    async def from_storage(self, docs: Sequence[Document]) -> list[Document]:
        """Convert stored documents to the served version."""
        ...

    async def to_storage(self, docs: Sequence[Document]) -> list[Document]:
        """Convert documents of the served version to the storage version."""
        ...


class Conversions(Protocol):
    """Provides the converters for objects of CRDs."""

    def find_converter(self, crd: Mapping[str, Any], version: str) -> Converter | None:
        """Return the converter between the CRD's storage version and `version`; None if only the apiVersion differs."""
        ...


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version."""

    resource: Resource
    strategy: Strategy
    shelf: str
    """Part of the storage (shelf) with the objects; all versions of a resource share one shelf."""
    storage_version: str
    """Version in which the objects are stored."""
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = {}
    definition: str = ""
    """Key into kube/data/merge_keys.json; empty for custom resources, which have no strategic merge patch."""
    columns: tuple[ServedColumn, ...] = ()
    scale: ServedScalePaths | None = None
    crd: str = ""
    """Name of the CRD that defines the resource; empty when it is built in."""
    schema: Document | None = None
    """`openAPIV3Schema` of a custom resource's version. Shared: never change it."""
    unconditional_update: bool = True
    """Whether a PUT without a resourceVersion is accepted."""
    create_on_update: bool = False
    """Whether a PUT of a missing object creates it."""
    returns_deleted: bool = False
    """Whether DELETE responds with the removed object rather than a Status."""
    selectable: tuple[str, ...] = ()
    """Field paths that field selectors support besides metadata.name and metadata.namespace."""
    converter: "Converter | None" = None
    """Converter between stored documents and this version; None if only the apiVersion differs."""
    served: bool = True
    """Whether clients can use this version. A version that is not served is used only for conversions."""
    terminating: bool = False
    """Whether the resource's CRD is being deleted, so that no object may be created."""
    facts: tuple[str, ...] = ()
    """Field paths of the stored document, in the order of `selectable`. The values are also stored beside the document.
    """
    deprecated: bool = False
    deprecation_warning: str = ""

    @property
    def api_version(self) -> str:
        """`apiVersion` of the objects in this version."""
        return self.resource.api_version

    @property
    def is_custom(self) -> bool:
        """Whether a CRD defines the resource."""
        return bool(self.crd)

    @property
    def storage_api_version(self) -> str:
        """`apiVersion` of the stored objects."""
        group = self.resource.group
        return f"{group}/{self.storage_version}" if group else self.storage_version


class Catalog:
    """All entries, by group, version and plural."""

    def __init__(self, entries: Iterable[CatalogEntry] = (), *, minor: str = NEWEST_MINOR) -> None:
        self.minor = minor
        """Minor version of Kubernetes whose kinds the catalog has."""
        self._entries: dict[tuple[str, str, str], CatalogEntry] = {}
        self._versions: dict[str, dict[str, CatalogEntry]] = {}
        self.revision = 0
        self.install(entries)

    def find_entry(self, group: str, version: str, plural: str) -> CatalogEntry | None:
        """The served resource, or None."""
        return self._entries.get((group, version, plural))

    def list_entries(self) -> Iterator[CatalogEntry]:
        """All served resources, built-in resources first, in the order of their discovery."""
        return iter(tuple(self._entries.values()))

    def list_crd_entries(self, name: str) -> tuple[CatalogEntry, ...]:
        """The entries that a CRD defines (one per served version)."""
        return tuple(entry for entry in self._entries.values() if entry.crd == name)

    def find_shelf_entry(self, shelf: str) -> CatalogEntry | None:
        """Return any entry whose objects are on this shelf."""
        return next((entry for entry in self._entries.values() if entry.shelf == shelf), None)

    def versions_of(self, shelf: str) -> Mapping[str, CatalogEntry]:
        """The versions of the objects on this shelf, served or not, by apiVersion."""
        return self._versions.get(shelf, {})

    def serves(self, group: str, version: str) -> bool:
        """Whether this group-version has any resource."""
        return any(known[:2] == (group, version) for known in self._entries)

    def list_groups(self) -> tuple[str, ...]:
        """All groups: the core group (empty) first, then the other built-in groups, then the groups of CRDs by name."""
        builtin = dict.fromkeys(entry.resource.group for entry in self._entries.values() if not entry.crd)
        custom = {entry.resource.group for entry in self._entries.values() if entry.crd} - set(builtin)
        return (*builtin, *sorted(custom))

    def list_versions(self, group: str) -> tuple[str, ...]:
        """The versions of a group, the preferred one first (Kubernetes' version priority)."""
        versions = {
            entry.resource.version for entry in self._entries.values() if entry.resource.group == group
        }
        return tuple(sorted(versions, key=compute_version_priority, reverse=True))

    def list_resources(self, group: str, version: str) -> tuple[CatalogEntry, ...]:
        """The resources of a group-version."""
        return tuple(entry for key, entry in self._entries.items() if key[:2] == (group, version))

    def install(self, entries: Iterable[CatalogEntry]) -> None:
        """Add these entries, and serve those that are marked as served. They replace entries of the same group,
        version and plural.
        """
        for entry in entries:
            resource = entry.resource
            self._versions.setdefault(entry.shelf, {})[entry.api_version] = entry
            if entry.served:
                self._entries[(resource.group, resource.version, resource.plural)] = entry
        self.revision += 1

    def remove(self, crd: str) -> None:
        """Remove all entries that this CRD defines."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry.crd != crd}
        self._versions = {
            shelf: kept
            for shelf, entries in self._versions.items()
            if (kept := {version: entry for version, entry in entries.items() if entry.crd != crd})
        }
        self.revision += 1


_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def compute_version_priority(version: str) -> tuple[int, int, int, tuple[int, ...]]:
    """Sort key: v2 before v1 before v2beta1 before v1alpha1 before anything else (greater is preferred)."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, tuple(-ord(character) for character in version))
    stage = {None: 3, "beta": 2, "alpha": 1}[match[2]]
    return (stage, int(match[1]), int(match[3] or 0), ())


_UNCONDITIONAL_NOT: Final = {
    "customresourcedefinitions",
    "leases",
    "poddisruptionbudgets",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "volumeattachments",
}
_CREATE_ON_UPDATE: Final = {
    "services",
    "leases",
    "endpoints",
    "events",
    "limitranges",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
}
_RETURNS_DELETED: Final = {
    "pods",
    "services",
    "serviceaccounts",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podtemplates",
    "resourcequotas",
    "namespaces",
    "storageclasses",
    "csidrivers",
    "csinodes",
    "volumeattachments",
}
_SELECTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "/pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "/events": EVENT_FACTS,
    "events.k8s.io/events": EVENT_FIELDS,
    "/secrets": ("type",),
    "/namespaces": ("status.phase",),
    "/nodes": ("spec.unschedulable",),
    "/replicationcontrollers": ("status.replicas",),
    "/services": ("spec.clusterIP", "spec.type"),
    "batch/jobs": ("status.successful",),
}
_WORKLOAD_SCALE: Final = ServedScalePaths(
    spec_replicas=".spec.replicas", status_replicas=".status.replicas", selector_of=".spec.selector"
)


def list_builtin_entries(
    strategy_for: Callable[[Resource], Strategy], *, release: Release | None = None
) -> tuple[CatalogEntry, ...]:
    """Entries that Kubernetes serves without CRDs in this release, from data/discovery.json and data/tables.json."""
    served = release or release_of(NEWEST_MINOR)
    columns = _read_tables()
    catalog_entries: list[CatalogEntry] = []
    gated = [resources for gate, resources in _read_gated().items() if served.has(gate)]
    for group_version, every in chain.from_iterable(part.items() for part in (_read_discovery(), *gated)):
        listed = [item for item in every if _is_served(item["name"], served)]
        group, _, version = group_version.rpartition("/")
        for item in listed:
            if "/" not in item["name"]:
                subresources = {
                    subresource.name: subresource
                    for subresource in (
                        _build_subresource(other, group, version)
                        for other in listed
                        if other["name"].startswith(f"{item['name']}/")
                    )
                }
                catalog_entries.append(
                    _build_entry(item, group, version, subresources, columns, strategy_for)
                )
    return tuple(catalog_entries)


def _build_entry(
    item: Mapping[str, Any],
    group: str,
    version: str,
    subresources: Mapping[str, Subresource],
    columns: Mapping[str, tuple[ServedColumn, ...]],
    strategy_for: Callable[[Resource], Strategy],
) -> CatalogEntry:
    resource = Resource(group, version, item["name"], item["kind"], namespaced=item["namespaced"])
    selectable = _SELECTABLE.get(f"{group}/{resource.plural}", ())
    is_new_event = group == "events.k8s.io"
    return CatalogEntry(
        resource=resource,
        strategy=strategy_for(resource),
        shelf="events" if is_new_event else str(resource),
        storage_version=version,
        converter=EventConverter() if is_new_event else None,
        singular=item["singularName"],
        list_kind=f"{item['kind']}List",
        short_names=tuple(item.get("shortNames", ())),
        categories=tuple(item.get("categories", ())),
        verbs=tuple(item["verbs"]),
        subresources=subresources,
        definition=item.get("definition") or "",
        columns=columns.get(f"{resource.api_version}/{resource.plural}", ()),
        scale=_WORKLOAD_SCALE if "scale" in subresources else None,
        unconditional_update=resource.plural not in _UNCONDITIONAL_NOT,
        create_on_update=resource.plural in _CREATE_ON_UPDATE,
        returns_deleted=resource.plural in _RETURNS_DELETED,
        selectable=selectable,
        facts=EVENT_FACTS if is_new_event else selectable,
    )


def _build_subresource(item: Mapping[str, Any], group: str, version: str) -> Subresource:
    return Subresource(
        name=item["name"].partition("/")[2],
        group=item.get("group", group),
        version=item.get("version", version),
        kind=item["kind"],
        verbs=tuple(item["verbs"]),
    )


FIRST_WITH_RESIZE: Final = "1.32"
"""First minor version that serves pods/resize. Kubernetes 1.32 serves it only with the feature gate
InPlacePodVerticalScaling, which is on in a sandbox of 1.32.
"""
_FIRST_SERVED: Final[Mapping[str, str]] = {
    "pods/resize": FIRST_WITH_RESIZE,
    "podgroups": "1.37",
    "validatingadmissionpolicies": "1.30",
    "validatingadmissionpolicybindings": "1.30",
    "workloads": "1.37",
}
"""The first minor version that serves a resource, by resource. Resources that all versions serve are not here."""


def _is_served(name: str, release: Release) -> bool:
    first = _FIRST_SERVED.get(name) or _FIRST_SERVED.get(name.partition("/")[0]) or release.minor
    return release.is_at_least(first)


@cache
def _read_discovery() -> Mapping[str, list[dict[str, Any]]]:
    discovery: Mapping[str, list[dict[str, Any]]] = orjson.loads(_read_data("discovery.json"))
    return discovery


@cache
def _read_gated() -> Mapping[str, Mapping[str, list[dict[str, Any]]]]:
    """Resources that are served only with a feature gate, by the name of the gate."""
    gated: Mapping[str, Mapping[str, list[dict[str, Any]]]] = orjson.loads(_read_data("discovery_gated.json"))
    return gated


@cache
def _read_tables() -> Mapping[str, tuple[ServedColumn, ...]]:
    result = orjson.loads(_read_data("tables.json"))
    return {name: tuple(msgspec.convert(columns, list[ServedColumn])) for name, columns in result.items()}


def _read_data(name: str) -> bytes:
    return read_package_data("pykruise.sandbox", name)
