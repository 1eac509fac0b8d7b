"""Generates CustomResourceDefinitions from types: the structural schema of a msgspec Struct, and the object around
it.

msgspec types + schema() annotations ──▶ build_structural_schema() ──▶ openAPIV3Schema
Version values ──▶ build_definition() ──▶ a CustomResourceDefinition document

Pure. A field without a default is required. Annotations made with `schema()`, `integer()`, `int_or_string()` or
`shaped_like()` add facts that a type cannot express (int64, "any fields", a default of the schema). Descriptions are
the docstrings of the types (kube/schemas/descriptions.py).
"""

import base64
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Meta, inspect

from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.kube.schemas import descriptions
from pykruise.kube.schemas.merged_lists import build_merging_list, build_merging_object, drop_marks

__all__ = [
    "Column",
    "ScalePaths",
    "Version",
    "blank_of",
    "build_definition",
    "build_structural_schema",
    "build_webhook_conversion",
    "int_or_string",
    "integer",
    "merge_like",
    "replace_schema_at",
    "schema",
    "shaped_like",
]

_REQUIRED = "x-required"
_REPLACE = "x-replace"
_LIKE = "x-like"
_OPEN = "x-open"
_MERGED = "x-merged"
"""Keys of this module in `extra_json_schema`; they are never part of the output."""


def schema(
    *,
    format: str = "",
    default: Any = msgspec.UNSET,
    required: bool = False,
    any_object: bool = False,
    any_metadata: bool = False,
    embedded: bool = False,
    enum: Sequence[str] = (),
    pattern: str = "",
    min_length: int | None = None,
    max_length: int | None = None,
    list_type: Literal["", "atomic", "set", "map"] = "",
    list_map_keys: Sequence[str] = (),
    map_type: Literal["", "atomic", "granular"] = "",
    minimum: int | None = None,
) -> Meta:
    """Return an annotation of a field, with facts for its schema that the type cannot express.

    `default` is a default that the API server writes into stored objects. `any_object` leaves the field open (any value
    is accepted, and nothing is pruned); `any_metadata` is for `metadata`, whose fields the API server knows; `embedded`
    is for a whole object of any kind. Only the API server checks `enum` and `pattern`: stored objects that break them
    can still be read.
    """
    extra: dict[str, Any] = {}
    if any_object:
        extra[_REPLACE] = {"x-kubernetes-preserve-unknown-fields": True}
    if any_metadata:
        extra[_REPLACE] = {"type": "object"}
    if embedded:
        extra[_REPLACE] = {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    if format:
        extra["format"] = format
    if enum:
        extra["enum"] = list(enum)
    if pattern:
        extra["pattern"] = pattern
    if min_length is not None:
        extra["minLength"] = min_length
    if max_length is not None:
        extra["maxLength"] = max_length
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
    """Return an annotation for a whole number of 32 or 64 bits. `required`: the field is always written, although it
    has a default.
    """
    return schema(format=format, required=required, minimum=minimum)


def int_or_string() -> Meta:
    """Return an annotation for Kubernetes' IntOrString."""
    return Meta(extra_json_schema={_REPLACE: {"x-kubernetes-int-or-string": True}})


def shaped_like(type_: type, *, is_open: bool = False) -> Meta:
    """Return an annotation with the schema of another type, for a field that is kept as untyped JSON. `is_open`:
    unknown fields are kept.

    The schema is computed only with the enclosing schema, because most programs never need it. `type_` must be
    defined at the top level of a module.
    """
    return Meta(extra_json_schema={_LIKE: [type_.__module__, type_.__qualname__], _OPEN: is_open})


def merge_like(definition: str, field: str = "") -> Meta:
    """Return an annotation for an open field with a Kubernetes type: its lists are merged as in that type.

    With `field` (a list such as `containers` of PodSpec), the annotated field is such a list, and its items are merged
    by the key of that list (kube/schemas/merged_lists.py).
    """
    return Meta(extra_json_schema={_MERGED: [definition, field]})


def build_structural_schema(type_: Any) -> Document:
    """Return the structural schema of a Struct type (or of the type of a field), with descriptions."""
    info = inspect.type_info(type_)
    result, _ = _build_schema(info)
    return _describe(result, "", info)


def replace_schema_at(schema: Document, path: str, part: Mapping[str, Any]) -> Document:
    """Return a copy of an object's schema in which the field at `path` (`spec.template.spec`) has the schema `part`.

    The field's description stays. Raises KeyError when there is no such field.
    """
    step, _, rest = path.partition(".")
    properties = schema["properties"]
    old = properties[step]
    described = {"description": old["description"]} if "description" in old else {}
    new = replace_schema_at(old, rest, part) if rest else {**part, **described}
    return {**schema, "properties": {**properties, step: new}}


def _build_schema(info: inspect.Type) -> tuple[Document, bool]:
    """Return the schema of a type, and whether an annotation makes its field required."""
    if isinstance(info, inspect.Metadata):
        extra = dict(info.extra_json_schema or {})
        required = bool(extra.pop(_REQUIRED, False))
        replaced = extra.pop(_REPLACE, None)
        if (like := extra.pop(_LIKE, None)) is not None:
            module, name = like
            replaced = build_structural_schema(getattr(sys.modules[module], name))
            if extra.pop(_OPEN):
                replaced["x-kubernetes-preserve-unknown-fields"] = True
        if (merged := extra.pop(_MERGED, None)) is not None:
            replaced = _build_merged_schema(*merged, items=info.type)
        inner, inner_required = (dict(replaced), False) if replaced is not None else _build_schema(info.type)
        return {**inner, **extra}, required or inner_required
    if isinstance(info, inspect.UnionType):
        options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
        if len(options) != 1:
            raise TypeError(f"a structural schema cannot express {info}; annotate it with int_or_string()")
        return _build_schema(options[0])
    return _build_basic_schema(info), False


def _build_merged_schema(definition: str, field: str, *, items: inspect.Type) -> Document:
    if not field:
        return build_merging_object(definition)
    merged = build_merging_list(definition, field)
    own, _ = _build_schema(items)
    fields = own.get("items", {}).get("properties", {})
    merged["items"]["properties"] |= fields
    return merged


def _build_basic_schema(info: inspect.Type) -> Document:
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
            return {"type": "array", "items": _describe(_build_schema(item)[0], "", item)}
        case inspect.DictType(value_type=value):
            if isinstance(value, inspect.AnyType):
                return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            return {"type": "object", "additionalProperties": _describe(_build_schema(value)[0], "", value)}
        case inspect.StructType():
            return _build_object_schema(info)
        case inspect.AnyType() | inspect.RawType():
            return {"x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"a structural schema cannot express {info}")


def _build_object_schema(info: inspect.StructType) -> Document:
    properties: Document = {}
    required: list[str] = []
    texts = descriptions.read_field_descriptions(info.cls)
    for field in sorted(info.fields, key=lambda field: field.encode_name):
        result, always = _build_schema(field.type)
        properties[field.encode_name] = _describe(result, texts.get(field.name, ""), field.type)
        if field.required or always:
            required.append(field.encode_name)
    whole: Document = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    return whole


_BLANKS: Final[Mapping[str, Any]] = {"integer": 0, "number": 0, "string": "", "boolean": False}


def blank_of(schema: Mapping[str, Any]) -> Document:
    """Return the smallest object of a structural schema: only its required fields, with empty values."""
    fields: Mapping[str, Any] = schema.get("properties", {})
    return {name: _build_blank_value(fields[name]) for name in schema.get("required", ())}


def _build_blank_value(schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "")
    if kind == "object":
        return blank_of(schema)
    return [] if kind == "array" else _BLANKS.get(kind, "")


def _describe(value: Document, text: str, info: inspect.Type) -> Document:
    """Return the schema with its description: that of the field, or that of its class."""
    text = text or _read_class_description(info)
    return {"description": text, **value} if text else value


def _read_class_description(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            return _read_class_description(inner)
        case inspect.UnionType(types=types):
            return next(filter(None, map(_read_class_description, types)), "")
        case inspect.StructType(cls=cls):
            return descriptions.read_class_description(cls)
    return ""


class Column(msgspec.Struct, frozen=True):
    """A printer column; a column of priority 1 is shown only with `-o wide`."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""

    def to_document(self) -> Document:
        """Return the column as a CRD contains it."""
        doc: Document = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        if self.priority:
            doc["priority"] = self.priority
        if self.description:
            doc["description"] = self.description
        return doc


class ScalePaths(msgspec.Struct, frozen=True):
    """Paths of the values of the scale subresource."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    label_selector: str = ".status.labelSelector"

    def to_document(self) -> Document:
        """Return the scale subresource as a CRD contains it."""
        return {
            "specReplicasPath": self.spec_replicas,
            "statusReplicasPath": self.status_replicas,
            "labelSelectorPath": self.label_selector,
        }


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a kind. `root` is the Struct type of the whole object.

    `embeds` gives schemas to fields that the type leaves open, by path: `spec.template.spec`.
    """

    name: str
    root: Any
    embeds: Mapping[str, Document] = {}
    served: bool = True
    storage: bool = False
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None

    def build_marked_schema(self) -> Document:
        """The schema of the whole object, with marks where Kubernetes' types are (kube/schemas/merged_lists.py)."""
        return _build_root_schema(self.root, self.embeds)

    def to_document(self) -> Document:
        """Return the version as a CRD contains it."""
        subresources: Document = {"status": {}}
        if self.scale:
            subresources["scale"] = self.scale.to_document()
        return {
            "name": self.name,
            "served": self.served,
            "storage": self.storage,
            "schema": {"openAPIV3Schema": drop_marks(self.build_marked_schema())},
            "subresources": subresources,
            "additionalPrinterColumns": [column.to_document() for column in self.columns],
        }


def build_definition(
    resource: Resource,
    *,
    versions: Sequence[Version],
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    conversion: Mapping[str, Any] | None = None,
    singular: str = "",
) -> Document:
    """Return the CustomResourceDefinition of a kind. Without `conversion`, versions differ only in their name."""
    names: Document = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": singular or resource.kind.lower(),
    }
    if short_names:
        names["shortNames"] = list(short_names)
    if categories:
        names["categories"] = list(categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "conversion": dict(conversion) if conversion else {"strategy": "None"},
            "versions": [version.to_document() for version in versions],
        },
    }


def build_webhook_conversion(
    *,
    service: tuple[str, str] = ("", ""),
    url: str = "",
    path: str = "/convert",
    ca_bundle: bytes = b"",
    review_versions: Sequence[str] = ("v1", "v1beta1"),
) -> Document:
    """Return the stanza `spec.conversion` of a CRD whose objects a webhook converts.

    The webhook is behind a `service` (namespace and name, port 443) or, when given, at the base `url`
    (`https://host:9876`). `ca_bundle` is the PEM text of the CA that signed the webhook's certificate; empty: the
    API server uses its own trusted CAs. Raises ValueError when neither a service nor a URL is given.
    """
    client: Document = {}
    if url:
        client["url"] = url.rstrip("/") + path
    else:
        namespace, name = service
        if not namespace or not name:
            raise ValueError("a conversion webhook needs a service (namespace and name) or a url")
        client["service"] = {"namespace": namespace, "name": name, "port": 443, "path": path}
    if ca_bundle:
        client["caBundle"] = base64.b64encode(ca_bundle).decode()
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": list(review_versions)},
    }


def _build_root_schema(root: Any, embeds: Mapping[str, Document]) -> Document:
    """Return the schema of a whole object. It requires no top-level field: the API server checks `apiVersion`, `kind`
    and `metadata`.
    """
    result = build_structural_schema(root)
    result["properties"]["metadata"] = {"type": "object"}
    result.pop("required", None)
    for path, part in embeds.items():
        result = replace_schema_at(result, path, part)
    return result
