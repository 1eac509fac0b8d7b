"""Check that a schema is structural, as CRDs require: every field has one type, outside of allOf, anyOf, oneOf and not.

the schema of a CRD version ──▶ find_offences(), find_bad_defaults() ──▶ causes with paths into the schema
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.values.patterns import PatternError, compile_pattern
from pykruise.sandbox.apiserver.schemas.checks import compile_check
from pykruise.sandbox.apiserver.schemas.paths import Found, Schema


class SchemaLevel(NamedTuple):
    """Position of a node in the schema, and the server's message if a node at this position has no type."""

    name: str
    without_type: str


ROOT: Final = SchemaLevel("root", "must not be empty at the root")
_FIELD: Final = SchemaLevel("field", "must not be empty for specified object fields")
_ITEM: Final = SchemaLevel("item", "must not be empty for specified array items")

_FORBIDDEN_BELOW_JUNCTORS: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = {
    "$ref": "$ref is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "deprecated": "deprecated is not supported",
    "discriminator": "discriminator is not supported",
    "id": "id is not supported",
    "patternProperties": "patternProperties is not supported",
    "readOnly": "readOnly is not supported",
    "writeOnly": "writeOnly is not supported",
    "xml": "xml is not supported",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def find_offences(node: Any, level: SchemaLevel, path: str) -> Iterator[Cause]:
    """Yield the reasons why a schema is not structural, at this node and below."""
    if not isinstance(node, Mapping):
        yield causes.make_invalid_error(path, node, "must be an object")
        return
    yield from _find_unsupported_keywords(node, path)
    kind = node.get("type") or ""
    if kind and kind not in _TYPES:
        yield causes.make_not_supported_error(f"{path}.type", kind, _TYPES)
    open_node = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    any_type = bool(node.get("x-kubernetes-int-or-string"))
    embedded = bool(node.get("x-kubernetes-embedded-resource"))
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield (
            causes.make_invalid_error(f"{path}.type", kind, detail)
            if kind
            else causes.make_required_error(f"{path}.type", detail)
        )
    elif not kind and not any_type and not open_node:
        yield causes.make_required_error(f"{path}.type", level.without_type)
    if level is ROOT and kind and kind != "object":
        yield causes.make_invalid_error(f"{path}.type", kind, "must be object at the root")
    if any_type and open_node:
        detail = "must be false if x-kubernetes-int-or-string is true"
        yield causes.make_invalid_error(f"{path}.x-kubernetes-preserve-unknown-fields", True, detail)
    yield from _find_object_offences(node, level, path)
    if kind == "array" and not isinstance(node.get("items"), Mapping):
        yield causes.make_required_error(f"{path}.items", "must be specified")
    if isinstance(node.get("items"), Mapping):
        yield from find_offences(node["items"], _ITEM, f"{path}.items")
    elif isinstance(node.get("items"), list):
        yield causes.make_forbidden_error(f"{path}.items", "items must be a schema object and not an array")
    yield from _list_offences(node, path)
    yield from _find_junctor_offences(node, path)


def _find_unsupported_keywords(node: Schema, path: str) -> Iterator[Cause]:
    for word, detail in _UNSUPPORTED.items():
        if node.get(word):
            yield causes.make_forbidden_error(f"{path}.{word}", detail)
    if node.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.make_forbidden_error(f"{path}.uniqueItems", detail)
    if node.get("pattern"):
        try:
            compile_pattern(node["pattern"])
        except PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield causes.make_invalid_error(f"{path}.pattern", node["pattern"], detail)


def _find_object_offences(node: Schema, level: SchemaLevel, path: str) -> Iterator[Cause]:
    properties = node.get("properties") or {}
    extra = node.get("additionalProperties")
    for name, sub in properties.items():
        if name == "metadata" and level is ROOT:
            if not _is_plain_metadata(sub):
                detail = (
                    "must not specify anything other than name and generateName, "
                    "but metadata is implicitly specified"
                )
                yield causes.make_forbidden_error(f"{path}.properties[metadata]", detail)
            continue
        yield from find_offences(sub, _FIELD, f"{path}.properties[{name}]")
    if extra is None:
        return
    if properties and extra is not False:
        detail = "additionalProperties and properties are mutual exclusive"
        yield causes.make_forbidden_error(f"{path}.additionalProperties", detail)
    if extra is False:
        yield causes.make_forbidden_error(
            f"{path}.additionalProperties", "additionalProperties cannot be set to false"
        )
    if level is ROOT:
        yield causes.make_forbidden_error(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(extra, Mapping):
        yield from find_offences(extra, _FIELD, f"{path}.additionalProperties")


def _is_plain_metadata(node: Any) -> bool:
    if not isinstance(node, Mapping) or node.get("type") != "object":
        return False
    return set(node.get("properties") or {}) <= {"name", "generateName"}


def _list_offences(node: Schema, path: str) -> Iterator[Cause]:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys")
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield causes.make_not_supported_error(
            f"{path}.x-kubernetes-list-type", kind, ("atomic", "set", "map")
        )
    if kind is not None and node.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield causes.make_invalid_error(f"{path}.type", node.get("type") or "", detail)
    if kind == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield causes.make_required_error(f"{path}.x-kubernetes-list-map-keys", detail)
    if keys and kind != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield (
            causes.make_invalid_error(where, kind, detail)
            if kind
            else causes.make_required_error(where, detail)
        )
    known = (
        (node.get("items") or {}).get("properties") or {} if isinstance(node.get("items"), Mapping) else {}
    )
    for index, key in enumerate(keys or ()):
        if kind == "map" and key not in known:
            detail = "entries must all be names of item properties"
            yield causes.make_invalid_error(f"{path}.x-kubernetes-list-map-keys[{index}]", key, detail)


def _find_junctor_offences(node: Schema, path: str) -> Iterator[Cause]:
    for word, subs in _list_junctors(node):
        if word == "anyOf" and list(subs) == _INT_OR_STRING and node.get("x-kubernetes-int-or-string"):
            continue
        for index, sub in enumerate(subs):
            place = f"{path}.{word}" if word == "not" else f"{path}.{word}[{index}]"
            inner = (
                sub
                if not (word == "allOf" and index == 0 and sub.get("anyOf") == _INT_OR_STRING)
                else {key: value for key, value in sub.items() if key != "anyOf"}
            )
            yield from _find_nested_offences(inner, place)


def _list_junctors(node: Schema) -> Iterator[tuple[str, Sequence[Schema]]]:
    for word in ("allOf", "anyOf", "oneOf"):
        yield word, [sub for sub in node.get(word) or () if isinstance(sub, Mapping)]
    if isinstance(node.get("not"), Mapping):
        yield "not", [node["not"]]


def _find_nested_offences(node: Schema, path: str) -> Iterator[Cause]:
    """Yield the structural keywords below allOf, anyOf, oneOf or not, where only values may be restricted."""
    for word, detail in _FORBIDDEN_BELOW_JUNCTORS:
        if node.get(word):
            yield causes.make_forbidden_error(f"{path}.{word}", detail)
    yield from _find_junctor_offences(node, path)
    if isinstance(node.get("items"), Mapping):
        yield from _find_nested_offences(node["items"], f"{path}.items")
    for name, sub in (node.get("properties") or {}).items():
        if isinstance(sub, Mapping):
            yield from _find_nested_offences(sub, f"{path}.properties[{name}]")
    if "metadata" in (node.get("properties") or {}):
        yield causes.make_forbidden_error(
            f"{path}.properties[metadata]", "must not be specified in a nested context"
        )


def _list_child_nodes(node: Schema, path: str) -> Iterable[tuple[Schema, str]]:
    for name, sub in (node.get("properties") or {}).items():
        yield sub, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), Mapping):
            yield node[word], f"{path}.{word}"


def find_bad_defaults(node: Schema, path: str) -> Iterator[Cause]:
    """Yield the defaults that violate their own schema."""
    if node.get("default") is not None:
        defaults: Found = []
        check = compile_check(node)
        if check:
            check(node["default"], None, defaults)
        for _, cause in defaults:
            place = f"{path}.default" if cause.field in ("", causes.ROOT) else f"{path}.default.{cause.field}"
            yield Cause(reason=cause.reason, message=cause.message, field=place)
    for sub, place in _list_child_nodes(node, path):
        yield from find_bad_defaults(sub, place)
