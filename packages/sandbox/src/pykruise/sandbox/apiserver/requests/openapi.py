"""OpenAPI v3: the schemas of all served kinds, for `kubectl explain`, `apply` and field validation.

    path + Catalog ──▶ answer_openapi() ──▶ JSON of /openapi/v3 (the index) or /openapi/v3/<group-version>

Built-in kinds get their fields and types from kube/data/types.json, and their merge keys and list types from
kube/data/merge_keys.json (there are no descriptions). Custom resources have the schema of their CRD, with apiVersion,
kind and metadata added. OpenAPI v2 is an empty document. Pure.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from pykruise.kube.documents import Document
from pykruise.kube.schemas.builtin_types import BuiltinField, fields_of
from pykruise.kube.schemas.fact_series import read_series
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry
from pykruise.sandbox.version import version_of

_ROOT: Final = "/openapi/v3"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_REF: Final = "#/components/schemas/"


def answer_openapi(path: str, catalog: Catalog) -> bytes | None:
    """Return the JSON at an OpenAPI path; None when there is no document."""
    trimmed = path.rstrip("/")
    if trimmed == _ROOT:
        return orjson.dumps(_build_index(catalog))
    match trimmed.removeprefix(f"{_ROOT}/").split("/"):
        case ["api", version]:
            return _build_document(catalog, "", version)
        case ["apis", group, version] if group:
            return _build_document(catalog, group, version)
    return None


V2_MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def answer_openapi_v2(minor: str) -> bytes:
    """Return OpenAPI v2 in protobuf, the only form in which kubectl reads it: a document without definitions.

    kubectl requests it when v3 does not have a kind. If v2 does not have the kind either, kubectl continues and
    reports that the kind does not exist. Without a document it would stop and report that validation is not possible.
    """
    info = _encode_field(1, b"Kubernetes") + _encode_field(2, version_of(minor)["gitVersion"].encode())
    return _encode_field(1, b"2.0") + _encode_field(2, info)


def _encode_field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def _build_index(catalog: Catalog) -> Document:
    paths = {}
    for group in catalog.list_groups():
        for version in catalog.list_versions(group):
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = _compute_digest(catalog.list_resources(group, version), catalog.minor)
            # Clients cache a document as long as its hash stays the same, so the hash must change with the schemas.
            paths[name] = {"serverRelativeURL": f"{_ROOT}/{name}?hash={digest}"}
    return {"paths": paths}


def _compute_digest(entries: Iterable[CatalogEntry], minor: str) -> str:
    digest = hashlib.sha256(version_of(minor)["gitVersion"].encode())
    for entry in entries:
        digest.update(f"{entry.resource} {sorted(entry.subresources)}".encode())
        digest.update(orjson.dumps(entry.schema))
    return digest.hexdigest().upper()


def _build_document(catalog: Catalog, group: str, version: str) -> bytes | None:
    entries = catalog.list_resources(group, version)
    if not entries:
        return None
    paths: Document = {}
    schemas: Document = {}
    for entry in entries:
        paths |= _build_paths(entry)
        schemas |= _build_schemas(entry, catalog.minor)
    _add_referenced(schemas, catalog.minor)
    return orjson.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": version_of(catalog.minor)["gitVersion"]},
            "paths": paths,
            "components": {"schemas": dict(sorted(schemas.items()))},
        }
    )


# --- paths ---

_OPERATIONS: Final = {
    "create": ("post", "post"),
    "delete": ("delete", "delete"),
    "deletecollection": ("delete", "deletecollection"),
    "get": ("get", "get"),
    "list": ("get", "list"),
    "patch": ("patch", "patch"),
    "update": ("put", "put"),
}
_ON_COLLECTION: Final = ("create", "list", "deletecollection")
_ON_OBJECT: Final = ("get", "update", "patch", "delete")
_WRITES: Final = ("create", "update", "patch")
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")


def _build_paths(entry: CatalogEntry) -> Document:
    resource = entry.resource
    collection = resource.format_path("{namespace}" if resource.namespaced else "").replace("%7B", "{")
    collection = collection.replace("%7D", "}")
    paths = {
        collection: _build_path(entry, _ON_COLLECTION, entry.verbs),
        f"{collection}/{{name}}": _build_path(entry, _ON_OBJECT, entry.verbs),
    }
    for subresource in entry.subresources.values():
        operations = _build_path(entry, (*_ON_OBJECT, "create"), subresource.verbs)
        kind = {"group": subresource.group, "kind": subresource.kind, "version": subresource.version}
        for operation in operations.values():
            if isinstance(operation, dict):
                operation["x-kubernetes-group-version-kind"] = kind
        paths[f"{collection}/{{name}}/{subresource.name}"] = operations
    return {path: operations for path, operations in paths.items() if len(operations) > 1}


def _build_path(entry: CatalogEntry, wanted: Sequence[str], verbs: Sequence[str]) -> Document:
    names = ["name"] if "get" in wanted else []
    names += ["namespace"] if entry.resource.namespaced else []
    path: Document = {"parameters": [_build_parameter(name, "path") for name in names]}
    for verb in wanted:
        if verb in verbs:
            method, action = _OPERATIONS[verb]
            path[method] = _build_operation(entry, verb, action)
    return path


def _build_operation(entry: CatalogEntry, verb: str, action: str) -> Document:
    resource = entry.resource
    reference = {"$ref": f"{_REF}{_build_schema_name(entry)}"}
    operation: Document = {
        "operationId": f"{verb}{resource.kind}",
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _build_group_version_kind(entry),
    }
    if verb in _WRITES:
        operation["parameters"] = [_build_parameter(name, "query") for name in _WRITE_PARAMETERS]
        if verb == "patch":
            operation["parameters"].append(_build_parameter("force", "query", kind="boolean"))
        else:
            operation["requestBody"] = {"content": {"*/*": {"schema": reference}}}
    return operation


def _build_parameter(name: str, place: str, *, kind: str = "string") -> Document:
    parameter: Document = {"name": name, "in": place, "schema": {"type": kind, "uniqueItems": True}}
    return {**parameter, "required": True} if place == "path" else parameter


def _build_group_version_kind(entry: CatalogEntry) -> Document:
    resource = entry.resource
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


# --- schemas ---


def _build_schema_name(entry: CatalogEntry) -> str:
    if not entry.is_custom:
        return entry.definition or f"io.k8s.{entry.resource.kind}"
    reversed_group = ".".join(reversed(entry.resource.group.split(".")))
    return f"{reversed_group}.{entry.resource.version}.{entry.resource.kind}"


def _build_schemas(entry: CatalogEntry, minor: str) -> Document:
    name = _build_schema_name(entry)
    schema = dict(_build_custom_schema(entry) if entry.is_custom else _build_definition(name, minor))
    schema["x-kubernetes-group-version-kind"] = [_build_group_version_kind(entry)]
    if "list" not in entry.verbs:
        return {name: schema}
    items = {"type": "array", "items": {"allOf": [{"$ref": f"{_REF}{name}"}], "default": {}}}
    list_schema = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": items,
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{_REF}{_META}.ListMeta"}], "default": {}},
        },
        "x-kubernetes-group-version-kind": [{**_build_group_version_kind(entry), "kind": entry.list_kind}],
    }
    return {name: schema, f"{name}List": list_schema}


def _build_custom_schema(entry: CatalogEntry) -> Document:
    schema = dict(entry.schema or {"type": "object"})
    own = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": f"{_REF}{_META}.ObjectMeta"}]},
    }
    properties = {name: sub for name, sub in (schema.get("properties") or {}).items() if name not in own}
    schema["properties"] = dict(sorted({**properties, **own}.items()))
    return schema


def _build_definition(name: str, minor: str) -> Document:
    for kind, named in _NAMED.items():
        if named == name:
            return dict(_DEFINITIONS_OF_NAMED[kind])
    fields = fields_of(name, minor)
    if fields is None:
        # Only the name of the kind is known (such as ComponentStatus), so any field is allowed.
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    directives = read_series("merge_keys", minor).get(name, {})
    properties = {field: _build_property(facts, directives.get(field, {})) for field, facts in fields.items()}
    schema: Document = {"type": "object", "properties": dict(sorted(properties.items()))}
    required = [field for field, facts in fields.items() if not facts.omits_empty]
    if required:
        schema["required"] = sorted(required)
    return schema


_NAMED: Final[Mapping[str, str]] = {
    "intOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "microtime": f"{_META}.MicroTime",
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "time": f"{_META}.Time",
}
"""Scalars with a definition of their own, which `kubectl explain` shows by name."""

_DEFINITIONS_OF_NAMED: Final[Mapping[str, Document]] = {
    "intOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "time": {"type": "string", "format": "date-time"},
}
_SCALARS: Final[Mapping[str, Document]] = {
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "float64": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "string": {"type": "string"},
}


def _build_property(facts: BuiltinField, directives: Mapping[str, Any]) -> Document:
    schema = _build_kind_schema(facts.kind)
    for directive, extension in _EXTENSIONS.items():
        if directive in directives:
            schema[extension] = directives[directive]
    return schema


_EXTENSIONS: Final = {
    "listMapKeys": "x-kubernetes-list-map-keys",
    "listType": "x-kubernetes-list-type",
    "mapType": "x-kubernetes-map-type",
    "patchMergeKey": "x-kubernetes-patch-merge-key",
    "patchStrategy": "x-kubernetes-patch-strategy",
}


def _build_kind_schema(kind: str) -> Document:
    if kind.startswith("*"):
        return _build_kind_schema(kind[1:])
    if kind.startswith("[]"):
        return {"type": "array", "items": _build_kind_schema(kind[2:])}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _build_kind_schema(kind[2:])}
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if kind in _NAMED:
        return {"allOf": [{"$ref": f"{_REF}{_NAMED[kind]}"}]}
    return {"allOf": [{"$ref": f"{_REF}{kind}"}], "default": {}}


def _add_referenced(schemas: Document, minor: str) -> None:
    """Add every definition to which a schema refers, and recursively the definitions to which these refer."""
    waiting = [name for schema in schemas.values() for name in _find_references(schema)]
    while waiting:
        name = waiting.pop()
        if name not in schemas:
            schemas[name] = _build_definition(name, minor)
            waiting.extend(_find_references(schemas[name]))


def _find_references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _find_references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _find_references(item)
