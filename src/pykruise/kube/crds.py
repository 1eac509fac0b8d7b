"""CustomResourceDefinitions from types: the structural schema of a msgspec Struct, and the object around it.

msgspec types + schema() annotations ──▶ structural_schema() ──▶ openAPIV3Schema
Version values ──▶ definition() ──▶ a CustomResourceDefinition document

Pure. A field without a default is required. What a type cannot say (int64, "any fields", a default of the
schema) is said by an annotation made with `schema()`, `integer()` or `int_or_string()`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Meta, inspect

from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource

__all__ = [
    "Column",
    "ScalePaths",
    "Version",
    "definition",
    "int_or_string",
    "integer",
    "schema",
    "structural_schema",
]

_REQUIRED = "x-required"
_REPLACE = "x-replace"
"""Keys of our own in `extra_json_schema`: never part of the output."""


def schema(
    *,
    format: str = "",
    default: Any = msgspec.UNSET,
    required: bool = False,
    any_object: bool = False,
    any_metadata: bool = False,
    list_type: Literal["", "atomic", "set", "map"] = "",
    list_map_keys: Sequence[str] = (),
    map_type: Literal["", "atomic", "granular"] = "",
    minimum: int | None = None,
) -> Meta:
    """What a type alone does not say about a field.

    `default` is one that the API server writes into stored objects. `any_object` leaves the field open (any
    value, nothing pruned); `any_metadata` is for `metadata`, whose fields the API server knows itself.
    """
    extra: dict[str, Any] = {}
    if any_object:
        extra[_REPLACE] = {"x-kubernetes-preserve-unknown-fields": True}
    if any_metadata:
        extra[_REPLACE] = {"type": "object"}
    if format:
        extra["format"] = format
    if default is not msgspec.UNSET:
        extra["default"] = default
    if list_type:
        extra["x-kubernetes-list-type"] = list_type
    if list_map_keys:
        extra["x-kubernetes-list-map-keys"] = list(list_map_keys)
    if map_type:
        extra["x-kubernetes-map-type"] = map_type
    if minimum is not None:
        extra["minimum"] = minimum
    if required:
        extra[_REQUIRED] = True
    return Meta(extra_json_schema=extra)


def integer(format: Literal["int32", "int64"], *, required: bool = False, minimum: int | None = None) -> Meta:
    """A whole number of that size. `required` although the type has a default: it is always written."""
    return schema(format=format, required=required, minimum=minimum)


def int_or_string() -> Meta:
    """Kubernetes' IntOrString."""
    return Meta(extra_json_schema={_REPLACE: {"x-kubernetes-int-or-string": True}})


def structural_schema(type_: Any) -> Document:
    """The structural schema of a Struct type (or of any type of its fields)."""
    found, _ = _schema_of(inspect.type_info(type_))
    return found


def _schema_of(info: inspect.Type) -> tuple[Document, bool]:
    """The schema of a type, and whether an annotation makes its field required."""
    if isinstance(info, inspect.Metadata):
        extra = dict(info.extra_json_schema or {})
        required = bool(extra.pop(_REQUIRED, False))
        replaced = extra.pop(_REPLACE, None)
        inner, inner_required = (dict(replaced), False) if replaced is not None else _schema_of(info.type)
        return {**inner, **extra}, required or inner_required
    if isinstance(info, inspect.UnionType):
        options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
        if len(options) != 1:
            raise TypeError(f"a structural schema has no form for {info}; annotate it with int_or_string()")
        return _schema_of(options[0])
    return _plain(info), False


def _plain(info: inspect.Type) -> Document:
    match info:
        case inspect.IntType():
            return {"type": "integer"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [member.value for member in cls]}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema_of(item)[0]}
        case inspect.DictType(value_type=value):
            if isinstance(value, inspect.AnyType):
                return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            return {"type": "object", "additionalProperties": _schema_of(value)[0]}
        case inspect.StructType(fields=fields):
            return _object(fields)
        case inspect.AnyType() | inspect.RawType():
            return {"x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"a structural schema has no form for {info}")


def _object(fields: Sequence[inspect.Field]) -> Document:
    properties: Document = {}
    required: list[str] = []
    for field in sorted(fields, key=lambda one: one.encode_name):
        properties[field.encode_name], always = _schema_of(field.type)
        if field.required or always:
            required.append(field.encode_name)
    found: Document = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    return found


class Column(msgspec.Struct, frozen=True):
    """A printer column; priority 1 shows with `-o wide` only."""

    name: str
    type: str
    json_path: str
    priority: int = 0

    def document(self) -> Document:
        """As it stands in a definition."""
        doc: Document = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        if self.priority:
            doc["priority"] = self.priority
        return doc


class ScalePaths(msgspec.Struct, frozen=True):
    """Where the scale subresource finds its values."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    label_selector: str = ".status.labelSelector"

    def document(self) -> Document:
        """As it stands in a definition."""
        return {
            "specReplicasPath": self.spec_replicas,
            "statusReplicasPath": self.status_replicas,
            "labelSelectorPath": self.label_selector,
        }


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a kind. `root` is the Struct type of the whole object."""

    name: str
    root: Any
    served: bool = True
    storage: bool = False
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None

    def document(self) -> Document:
        """As it stands in a definition."""
        subresources: Document = {"status": {}}
        if self.scale:
            subresources["scale"] = self.scale.document()
        return {
            "name": self.name,
            "served": self.served,
            "storage": self.storage,
            "schema": {"openAPIV3Schema": _root(self.root)},
            "subresources": subresources,
            "additionalPrinterColumns": [column.document() for column in self.columns],
        }


def definition(
    resource: Resource,
    *,
    versions: Sequence[Version],
    short_names: Sequence[str] = (),
    conversion: Mapping[str, Any] | None = None,
    singular: str = "",
) -> Document:
    """The CustomResourceDefinition of a kind. Without `conversion`, versions differ in their name only."""
    names: Document = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": singular or resource.kind.lower(),
    }
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "conversion": dict(conversion) if conversion else {"strategy": "None"},
            "versions": [version.document() for version in versions],
        },
    }


def _root(root: Any) -> Document:
    """The schema of a whole object: only `spec` can be required, the API server sees to the rest."""
    found = structural_schema(root)
    found["properties"]["metadata"] = {"type": "object"}
    found.pop("required", None)
    return found
