"""Documents: Kubernetes objects as plain JSON values.

bytes of a response ──▶ decode() ──▶ Document (dict) ──▶ patches, selectors, ... ──▶ encode() ──▶ bytes

Pure. A document is the result of `orjson`: dict, list, str, int, float, bool, None. Values that a decision needs are
projected into typed values elsewhere. All other values stay unchanged, so unknown fields are kept.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count

__all__ = [
    "LAST_APPLIED",
    "Document",
    "annotations_of",
    "check_bounds",
    "decode",
    "deep_copy",
    "drop_nulls",
    "encode",
    "encode_canonical",
    "get_path",
    "is_same",
    "key_of",
    "labels_of",
    "rename_members",
]

Document = dict[str, Any]
"""A JSON object: str keys, JSON values."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which kubectl keeps the applied manifest; it is as large as the object."""

MOST_BYTES: Final = 3 * 1024 * 1024
"""Largest object that an API server accepts, in bytes of JSON."""

MOST_CONTAINERS: Final = 100_000
"""Maximum number of lists and objects in one document. An `env` list of 3 MiB contains only about half of this number.
"""


def decode(raw: bytes | msgspec.Raw) -> Document:
    """Return the document of a JSON text (UTF-8).

    Raises ValueError when the text is not JSON, or not an object; the message says what is wrong, and where.
    """
    try:
        value = orjson.loads(memoryview(raw))
    except orjson.JSONDecodeError as err:
        raise ValueError(f"not a JSON document: {err}") from err
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON document: expected an object, got {_describe_json_type(value)}")
    return value


def check_bounds(raw: bytes | msgspec.Raw, *, most_bytes: int = MOST_BYTES) -> bytes | msgspec.Raw:
    """Return the JSON text of a document unchanged if an API server could have sent it and it is cheap to `decode`.

    Raises ValueError with the limit for a text that is too long, or that has too many lists and objects: a text of
    only brackets takes fifty times its size in memory.
    """
    view = bytes(memoryview(raw))
    if len(view) > most_bytes:
        raise ValueError(f"has {format_count(len(view), 'byte')}, but the limit is {most_bytes}")
    if (number := view.count(b"{") + view.count(b"[")) > MOST_CONTAINERS:
        raise ValueError(
            f"has {format_count(number, 'list or object', 'lists and objects')}, but the limit is {MOST_CONTAINERS}"
        )
    return raw


def encode(doc: Mapping[str, Any]) -> bytes:
    """Return the JSON text of a document: compact, UTF-8, keys in their order.

    Raises ValueError when it contains a value that JSON cannot express.
    """
    try:
        return orjson.dumps(doc)
    except orjson.JSONEncodeError as err:
        raise ValueError(f"cannot be written as JSON: {err}") from err


def encode_canonical(doc: Mapping[str, Any]) -> bytes:
    """Return the JSON text with all keys sorted: equal documents give equal bytes, whatever the order of their keys.

    Raises ValueError as `encode` does.
    """
    try:
        return orjson.dumps(doc, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as err:
        raise ValueError(f"cannot be written as JSON: {err}") from err


def key_of(doc: Mapping[str, Any]) -> Key:
    """Return namespace and name of an object; absent parts are empty."""
    metadata = doc.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


def labels_of(doc: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the object's own labels (a view, not a copy); empty without labels."""
    return (doc.get("metadata") or {}).get("labels") or {}


def annotations_of(doc: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the object's annotations (a view, not a copy); empty without annotations."""
    return (doc.get("metadata") or {}).get("annotations") or {}


def drop_nulls(value: Mapping[str, Any] | None) -> Document:
    """Return a new document without null fields: for Kubernetes, a null is an absent field, which gets its default."""
    return {field: item for field, item in (value or {}).items() if item is not None}


def rename_members(value: Any, names: Iterable[str]) -> Any:
    """Return the JSON object with these names for members whose names differ from them only in case; of several such
    members the last one counts. Go reads the members of a struct in this way. A value that is not an object stays
    unchanged.
    """
    if not isinstance(value, Mapping):
        return value
    known = {name.lower(): name for name in names}
    return {known.get(name.lower(), name): item for name, item in value.items()}


def get_path(doc: Any, *path: str | int, default: Any = None) -> Any:
    """Return the value under `path` (field names and list indexes), or `default` where the path ends early.

    `get_path(pod, "spec", "containers", 0, "image")`. A null on the way is treated as an absent field, as in
    Kubernetes; for a null at the end, `default` is returned too.
    """
    value = doc
    for step in path:
        if isinstance(value, Mapping) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return default
    return default if value is None else value


def deep_copy(value: Any) -> Any:
    """Return a copy of a JSON value without shared mutable parts. Mappings become dicts, and tuples become lists."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) in _SCALARS else deep_copy(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [item if type(item) in _SCALARS else deep_copy(item) for item in value]
    if isinstance(value, Mapping):
        return {key: deep_copy(item) for key, item in value.items()}
    return value


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal. Unlike in Python, `true` is not 1; 1 equals 1.0."""
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and is_same(item, right[key]) for key, item in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return bool(left == right)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _describe_json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "a number"
