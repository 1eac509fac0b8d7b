"""CustomResourceDefinitions: their rules, and how they become served resources.

a CRD is written ──▶ CrdStrategy (defaults, validation, names, conditions) ──▶ stored
                 ──▶ Definitions, in the same step ──▶ Catalog starts or stops serving its versions
a CRD is deleted ──▶ its objects are deleted; after the last of them, the CRD and its resource are removed
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pykruise.kube.documents import Document, decode, deep_copy, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.builtin_types import Decoder, find_decoder
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.catalog import (
    CatalogEntry,
    ServedColumn,
    ServedScalePaths,
    Subresource,
    compute_version_priority,
)
from pykruise.sandbox.apiserver.custom.crd_validation import (
    find_approval_errors,
    find_crd_errors,
    find_immutable_errors,
    find_stored_version_errors,
    is_true,
    name_of_crd_errors,
    versions_of,
)
from pykruise.sandbox.apiserver.custom.schema import StructuralSchema

CRD_SHELF: Final = "customresourcedefinitions.apiextensions.k8s.io"
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUBRESOURCE_VERBS: Final = ("get", "patch", "update")
_CRD: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class CustomStrategy:
    """The rules of a custom resource in one version. They come from its schema."""

    def __init__(
        self,
        resource: Resource,
        schema: StructuralSchema,
        *,
        has_status: bool,
        scale: ServedScalePaths | None = None,
    ) -> None:
        self._resource = resource
        self._schema = schema
        self._has_status = has_status
        self._scale = scale
        self._metadata: Decoder | None = find_decoder(_METADATA)

    def decode(self, doc: Document) -> tuple[Document, list[str]]:
        unknown: list[str] = []
        metadata = doc.get("metadata")
        if metadata is not None and self._metadata is not None:
            read, dropped = self._metadata.decode(metadata)
            if read.get("creationTimestamp", "") is None:
                del read["creationTimestamp"]
            doc["metadata"] = read
            unknown += [f"metadata.{path}" for path in dropped]
        doc, dropped = self._schema.prune(doc)
        return doc, sorted(unknown + dropped)

    def default(self, doc: Document) -> Document:
        return self._schema.default(doc)

    def drop_disabled(self, doc: Document) -> Document:
        return doc

    def default_changed(self, new: Document, old: Document) -> Document:
        return self.default(new)

    def prepare_create(self, doc: Document) -> Document:
        if self._has_status:
            doc.pop("status", None)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return [*self._check_type(doc), *self._schema.validate(doc), *self._check_scale(doc)]

    def prepare_update(self, new: Document, old: Document) -> Document:
        if self._has_status:
            _keep_member(new, old, "status")
        return new

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        """Take only the status from the new document. Everything else, even the metadata, stays unchanged."""
        doc: Document = {member: value for member, value in old.items() if member != "status"}
        # The metadata is copied, because the caller sets the resourceVersion in it.
        doc["metadata"] = dict(old["metadata"])
        if "status" in new:
            doc["status"] = new["status"]
        return doc

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*self._check_type(new), *self._schema.validate(new, old), *self._check_scale(new)]

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        return [*self._check_type(new), *self._schema.validate(new, old), *self._check_scale(new)]

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        ignored = {"metadata", "status"} if self._has_status else {"metadata"}
        members = (new.keys() | old.keys()) - ignored
        return any(not is_same(new.get(member), old.get(member)) for member in members)

    def compute_grace_period(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        return None

    def _check_type(self, doc: Document) -> Iterator[Cause]:
        kind, version = doc.get("kind"), doc.get("apiVersion")
        if kind != self._resource.kind:
            yield causes.make_invalid_error("kind", kind or "", f"must be {self._resource.kind}")
        if version != self._resource.api_version:
            yield causes.make_invalid_error(
                "apiVersion", version or "", f"must be {self._resource.api_version}"
            )

    def _check_scale(self, doc: Document) -> Iterator[Cause]:
        if self._scale is None:
            return
        for path in (self._scale.spec_replicas, self._scale.status_replicas):
            value: Any = doc
            for step in path.strip(".").split("."):
                value = value.get(step) if isinstance(value, dict) else None
            if value is not None and type(value) is not int:
                text = f"{path} accessor error: {value} is of the type {_go_kind(value)}, expected int64"
                yield causes.make_invalid_error(path, 0, text)
            elif value is not None and value < 0:
                yield causes.make_invalid_error(path, value, "should be a non-negative integer")


@lru_cache(maxsize=32)
def read_crd(raw: bytes) -> tuple[Document, tuple[CatalogEntry, ...]]:
    """Return a stored CRD and, once it is established, an entry for each of its versions, the preferred one first.
    The entries have no converters yet.

    Definitions are large, and the servers of one process often have the same definitions, so results are cached. Never
    change them.
    """
    crd = decode(raw)
    return crd, _build_entries(crd)


def _build_entries(crd: Mapping[str, Any]) -> tuple[CatalogEntry, ...]:
    status = crd.get("status") or {}
    if not is_true(status, "Established"):
        return ()
    spec = crd["spec"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    versions = sorted(
        spec["versions"], key=lambda version: compute_version_priority(version["name"]), reverse=True
    )
    return tuple(_build_entry(crd, version, storage) for version in versions)


def _build_entry(crd: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> CatalogEntry:
    spec = crd["spec"]
    names = crd["status"].get("acceptedNames") or spec["names"]
    resource = Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    subresources = version.get("subresources") or {}
    scale = _build_scale_paths(subresources.get("scale"))
    # All versions share one list of values. It has the selectable fields of every version.
    selectable = tuple(
        dict.fromkeys(
            field["jsonPath"].lstrip(".")
            for each in spec["versions"]
            for field in each.get("selectableFields") or ()
            if field.get("jsonPath")
        )
    )
    warning = version.get("deprecationWarning") or ""
    if version.get("deprecated") and not warning:
        warning = f"{resource.api_version} {resource.kind} is deprecated{_recommend_version(spec, version)}"
    return CatalogEntry(
        resource=resource,
        strategy=CustomStrategy(
            resource,
            StructuralSchema.from_crd_schema(schema),
            has_status="status" in subresources,
            scale=scale,
        ),
        shelf=str(resource),
        storage_version=storage,
        singular=names.get("singular") or resource.kind.lower(),
        list_kind=names.get("listKind") or f"{resource.kind}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=_VERBS,
        subresources=_build_subresources(resource, subresources),
        columns=tuple(_build_column(column) for column in version.get("additionalPrinterColumns") or ()),
        scale=scale,
        crd=crd["metadata"]["name"],
        schema=schema,
        unconditional_update=False,
        selectable=selectable,
        facts=selectable,
        served=bool(version.get("served")),
        terminating=bool(crd["metadata"].get("deletionTimestamp")),
        deprecated=bool(version.get("deprecated")),
        deprecation_warning=warning,
    )


def _recommend_version(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """Return the end of a deprecation warning, which recommends the newest version that is served and not deprecated;
    empty if no such version is newer.
    """
    others = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")]
    best = max(others, key=compute_version_priority, default="")
    if not best or compute_version_priority(best) < compute_version_priority(version["name"]):
        return ""
    return f"; use {spec['group']}/{best} {spec['names']['kind']}"


def _build_subresources(resource: Resource, subresources: Mapping[str, Any]) -> dict[str, Subresource]:
    result = {}
    if "status" in subresources:
        result["status"] = Subresource(
            name="status",
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            verbs=_SUBRESOURCE_VERBS,
        )
    if subresources.get("scale"):
        result["scale"] = Subresource(
            name="scale", group="autoscaling", version="v1", kind="Scale", verbs=_SUBRESOURCE_VERBS
        )
    return result


def _build_scale_paths(scale: Mapping[str, Any] | None) -> ServedScalePaths | None:
    if not scale:
        return None
    return ServedScalePaths(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        selector=scale.get("labelSelectorPath") or "",
    )


def _build_column(column: Mapping[str, Any]) -> ServedColumn:
    return ServedColumn(
        name=column["name"],
        type=column["type"],
        format=column.get("format") or "",
        description=column.get("description") or "",
        priority=column.get("priority") or 0,
        json_path=column["jsonPath"],
    )


def _go_kind(value: Any) -> str:
    return {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}.get(
        type(value), "map[string]interface {}"
    )


def _keep_member(new: Document, old: Document, member: str) -> None:
    if member in old:
        new[member] = old[member]
    else:
        new.pop(member, None)


# --- CRDs themselves ----------------------------------------


class CrdStrategy:
    """The rules of CRDs. After a CRD is stored, `settle` sets its accepted names and its conditions."""

    def __init__(self) -> None:
        self._decoder = find_decoder(_CRD)

    def decode(self, doc: Document) -> tuple[Document, list[str]]:
        return self._decoder.decode(doc) if self._decoder is not None else (doc, [])

    def drop_disabled(self, doc: Document) -> Document:
        return doc

    def default(self, doc: Document) -> Document:
        spec = doc.get("spec")
        if not isinstance(spec, dict):
            return doc
        names = spec.get("names")
        if isinstance(names, dict) and isinstance(names.get("kind"), str) and names["kind"]:
            if not names.get("singular"):
                names["singular"] = names["kind"].lower()
            if not names.get("listKind"):
                names["listKind"] = f"{names['kind']}List"
        conversion = spec.get("conversion")
        if not conversion:
            spec["conversion"] = {"strategy": "None"}
        elif isinstance(conversion, dict):
            service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
            if isinstance(service, dict):
                service.setdefault("port", 443)
        return doc

    def default_changed(self, new: Document, old: Document) -> Document:
        return self.default(new)

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        }
        return _with_stored_version(doc)

    def validate_create(self, doc: Document) -> list[Cause]:
        return [*name_of_crd_errors(doc), *find_crd_errors(doc), *find_approval_errors(doc)]

    def prepare_update(self, new: Document, old: Document) -> Document:
        new["status"] = deep_copy(old.get("status") or {})
        return _with_stored_version(new)

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        doc: Document = {**new, "spec": old.get("spec") or {}}
        return doc

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return [*find_crd_errors(new), *find_immutable_errors(new, old), *find_approval_errors(new, old)]

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        return list(find_stored_version_errors(new))

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        return not is_same(new.get("spec"), old.get("spec"))

    def compute_grace_period(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        return None


def _with_stored_version(doc: Document) -> Document:
    """Add the storage version to the versions in which objects may be stored."""
    status = doc["status"]
    for version in versions_of(doc.get("spec") or {}):
        if version.get("storage") and version.get("name") not in (status.get("storedVersions") or ()):
            status["storedVersions"] = [*(status.get("storedVersions") or ()), version.get("name")]
            break
    return doc


def settle(doc: Document, others: Iterable[Document], now: str) -> Document:
    """Accept the names of a stored CRD unless another CRD has them, and establish the CRD. Changes and returns `doc`.

    A real API server's controllers do this moments after the CRD is stored.
    """
    names = (doc.get("spec") or {}).get("names") or {}
    status: Document = doc["status"]
    if status.get("conditions") is None:
        status["conditions"] = []
    taken = _list_names_of_others(doc, others)
    accepted, reason, message = _accept_names(names, status.get("acceptedNames") or {}, taken)
    status["acceptedNames"] = accepted
    set_condition(status, "NamesAccepted", reason == "NoConflicts", reason, message, now)
    if reason == "NoConflicts":
        text = "the initial names have been accepted"
        set_condition(status, "Established", True, "InitialNamesAccepted", text, now, once=True)
    elif not is_true(status, "Established"):
        set_condition(status, "Established", False, "NotAccepted", "not all names are accepted", now)
    return doc


def _accept_names(
    names: Mapping[str, Any], before: Mapping[str, Any], taken: tuple[set[str], set[str]]
) -> tuple[Document, str, str]:
    """The accepted names of a CRD, and the reason and message of its NamesAccepted condition."""
    resources, kinds = taken
    accepted = dict(before)
    reason, message = "NoConflicts", "no conflicts found"
    for member, label, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        wanted = names.get(member)
        listed = wanted if isinstance(wanted, list) else [wanted]
        clash = [name for name in listed if name in used and wanted != before.get(member)]
        if clash:
            reason = label
            message = ", ".join(f"{quote_text(str(name))} is already in use" for name in clash)
        elif wanted:
            accepted[member] = wanted
        else:
            accepted.pop(member, None)
    if names.get("categories"):
        accepted["categories"] = names["categories"]
    else:
        accepted.pop("categories", None)
    return accepted, reason, message


def _list_names_of_others(doc: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    """The names of resources and of kinds that other CRDs of the group have."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"].get("group") == doc["spec"].get("group"):
            names = (other.get("status") or {}).get("acceptedNames") or {}
            resources |= {
                names.get("plural", ""),
                names.get("singular", ""),
                *(names.get("shortNames") or ()),
            }
            kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def set_condition(
    status: Document, kind: str, holds: bool, reason: str, message: str, now: str, *, once: bool = False
) -> None:
    """Set a condition. Its transition time changes only with its status. `once`: do not change a condition that is
    true.
    """
    conditions: list[Document] = status.setdefault("conditions", [])
    value = "True" if holds else "False"
    for condition in conditions:
        if condition.get("type") == kind:
            if once and condition.get("status") == value:
                return
            if condition.get("status") != value:
                condition["lastTransitionTime"] = now
            condition.update(status=value, reason=reason, message=message)
            return
    conditions.append(
        {"type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message}
    )
