"""The kinds: each folder with a `kind.py` is one kind. This module finds the folders, so no list names them.

shown_of(document), list_all_shown() ──▶ presentation of kinds (shown.py of each folder; these modules load fast)
list_kinds() ──▶ everything that loops over kinds      build_crds() ──▶ the CustomResourceDefinitions of a cluster
find_kind("CloneSet") ──▶ one kind                list_conversions() ──▶ conversion of objects between versions

A folder has the name of its kind in lower case. Its modules are loaded on first use, so code that needs one kind does
not load all kinds.
"""

import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import orjson
from msgspec import structs

from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import Resource
from pykruise.kube.schemas import descriptions
from pykruise.plans.foreign import FOREIGN
from pykruise.plans.shown import Shown

if TYPE_CHECKING:  # a command that only imports shown.py does not load these modules
    from pykruise.kube.client.stored_versions import StoredVersionTransport
    from pykruise.kube.client.transport import Transport
    from pykruise.kube.schemas.conversion import Conversion, Conversions
    from pykruise.plans.kind import Kind

__all__ = [
    "GROUPS",
    "HUB_STORED",
    "RELEASED_STORED",
    "blank_status_of",
    "build_crds",
    "crds_of",
    "find",
    "find_kind",
    "find_shown",
    "find_stored_version",
    "list_all_shown",
    "list_conversions",
    "list_kinds",
    "list_marked_schemas",
    "shown_of",
    "use_stored_versions",
]

GROUPS: Final = ("apps.kruise.io", "policy.kruise.io")
"""API groups of the kinds."""


def list_kinds() -> "Sequence[Kind]":
    """All kinds, sorted by folder."""
    return tuple(_load_kind(folder) for folder in _list_folders())


def find_kind(name: str) -> "Kind":
    """Return the kind with this name, such as `CloneSet`. Raises KeyError if no kind has this name."""
    kind = find(name.lower())
    if kind is None:
        raise KeyError(f"there is no kind {name}")
    return kind


def find(folder: str) -> "Kind | None":
    """Return the kind in this folder, such as `cloneset`; None if no kind has this folder. No other kind is loaded."""
    return _load_kind(folder) if folder in _list_folders() else None


def shown_of(document: Mapping[str, Any]) -> Shown | None:
    """Return the presentation of a document's kind; None if the kind is unknown or has no presentation."""
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    return find_shown(group, str(document.get("kind", "")))


def find_shown(group: str, kind: str) -> Shown | None:
    """Return the presentation of the kind with this group and name. No other kind is loaded."""
    if group not in GROUPS:
        return next((shown for shown in FOREIGN if (shown.group, shown.kind) == (group, kind)), None)
    shown = _load_shown(kind.lower()) if kind.lower() in _list_folders() else None
    return shown if shown is not None and (shown.group, shown.kind) == (group, kind) else None


def list_all_shown() -> Sequence[Shown]:
    """Return the presentations of our kinds and of those in plans/foreign.py, in the order in which tables list the
    kinds.
    """
    own = (_load_shown(folder) for folder in _list_folders())
    return sorted((*(shown for shown in own if shown is not None), *FOREIGN), key=lambda shown: shown.place)


@cache
def _load_shown(folder: str) -> Shown | None:
    name = f"{__name__}.{folder}.shown"
    if find_spec(name) is None:
        return _load_kind(folder).shown
    shown: Shown = import_module(name).SHOWN
    return shown


def _list_folders() -> Sequence[str]:
    return _list_folders_in(tuple(__path__))


@cache
def _list_folders_in(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(path) if module.ispkg))


@cache
def _load_kind(folder: str) -> "Kind":
    kind: Kind = import_module(f"{__name__}.{folder}.kind").KIND
    return kind


HUB_STORED: Final = "v1beta1"
RELEASED_STORED: Final = "v1alpha1"


def find_stored_version(kind: "Kind", layout: str) -> str:
    """Return the version in which the kind is stored. With `layout` "v1beta1", all kinds are stored in their hub
    version. With "v1alpha1", they are stored as in releases of OpenKruise (which store Advanced StatefulSets in
    v1beta1).
    """
    has_older = kind.conversion is not None and layout == RELEASED_STORED
    return kind.released_in if has_older else kind.resource.version


def build_crds(conversion: Mapping[str, Any] | None = None, *, layout: str = HUB_STORED) -> list[Document]:
    """Return the CustomResourceDefinitions of all kinds, sorted by name. `layout`: see `find_stored_version`.

    `conversion` becomes `spec.conversion` of kinds with two versions (schemas/crds.py: `build_webhook_conversion`).
    Without `conversion`, the API server changes only the apiVersion, and loses fields that the versions name
    differently.
    """
    made = [_build_crd(folder, described=True) for folder in _list_folders()]
    crds: list[Document] = [orjson.loads(data) for data in made if data is not None]
    for crd in crds:
        wanted = find_stored_version(find_kind(crd["spec"]["names"]["kind"]), layout)
        for version in crd["spec"]["versions"]:
            version["storage"] = version["name"] == wanted
        if conversion is not None and len(crd["spec"]["versions"]) > 1:
            crd["spec"]["conversion"] = deep_copy(dict(conversion))
    return sorted(crds, key=lambda crd: str(crd["metadata"]["name"]))


def crds_of(resources: Iterable[Resource], *, described: bool = True) -> list[Document]:
    """Return the CustomResourceDefinitions of these resources. They are built faster if `described` is False."""
    folders = sorted({resource.kind.lower() for resource in resources})
    made = [_build_crd(folder, described=described) for folder in folders]
    return [orjson.loads(data) for data in made if data is not None]


@cache
def _build_crd(folder: str, *, described: bool) -> bytes | None:
    """Return the definition as JSON. Every caller decodes its own copy, which is cheap."""
    with nullcontext() if described else descriptions.leave_out_descriptions():
        crd = _load_kind(folder).build_crd(_build_spec_schema)
    return None if crd is None else orjson.dumps(crd)


def _build_spec_schema(name: str) -> Document:
    """Return the schema of a kind's spec, for kinds that embed it. Kinds do not import each other, so they get this
    function as an argument.
    """
    from pykruise.kube.schemas.crds import build_structural_schema

    return build_structural_schema(find_kind(name).spec_type)


def list_marked_schemas() -> Iterator[tuple[Resource, Document]]:
    """Yield each version of each kind with the schema of its objects. Marks in the schema show where it uses types of
    Kubernetes.
    """
    with descriptions.leave_out_descriptions():
        for kind in list_kinds():
            versions = kind.versions(_build_spec_schema) if callable(kind.versions) else kind.versions
            for version in versions:
                yield structs.replace(kind.resource, version=version.name), version.build_marked_schema()


def blank_status_of(kind: "Kind") -> Document:
    """Return the status of an object of this kind that no controller has reconciled yet: only its required fields."""
    with descriptions.leave_out_descriptions():  # reading them would take 5 MB of memory
        return kind.build_blank_status(_build_spec_schema)


def list_conversions() -> "Conversions":
    """Return the conversions of every kind with two versions, by group and kind."""
    return _TABLE


class _Table(Mapping[tuple[str, str], "Conversion"]):
    """Conversions of all kinds. A kind is loaded only when its conversion is needed."""

    def __getitem__(self, key: tuple[str, str]) -> "Conversion":
        group, name = key
        conversion = find_kind(name).conversion
        if conversion is None or conversion.resource.group != group:
            raise KeyError(key)
        return conversion

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return (
            (kind.resource.group, kind.resource.kind) for kind in list_kinds() if kind.conversion is not None
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


_TABLE: Final = _Table()


def use_stored_versions(transport: "Transport") -> "StoredVersionTransport":
    """Return a transport for programs that know only the hub versions. The cluster may store older versions."""
    from pykruise.kube.client.stored_versions import StoredVersionTransport

    return StoredVersionTransport(transport, _TABLE, groups=GROUPS)
