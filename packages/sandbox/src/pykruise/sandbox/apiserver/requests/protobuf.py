r"""Decoder for Kubernetes' protobuf, in which kubectl and other Go clients send built-in kinds.

    body that begins with "k8s\0" ──▶ to_document() ──▶ the same object as a JSON document

No encoder is needed, because clients that send protobuf accept JSON responses. data/protobuf.json has the field
numbers; the types are the same as in JSON (kube/data/types.json). Pure.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import orjson

from pykruise.kube.clock import format_micro_time, format_time
from pykruise.kube.documents import Document
from pykruise.kube.package_data import read_package_data
from pykruise.kube.schemas.builtin_types import BuiltinField, fields_of

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"


class ProtobufError(ValueError):
    """A body that is not Kubernetes protobuf of a known kind."""


def to_document(body: bytes) -> Document:
    """Decode the document in a protobuf body. Raises ProtobufError."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message: the prefix is missing")
    try:
        envelope = dict(_read_members(body[len(_MAGIC) :]))
        type_meta = dict(_read_members(_require_bytes(envelope.get(1, b""))))
        api_version = _require_bytes(type_meta.get(1, b"")).decode()
        kind = _require_bytes(type_meta.get(2, b"")).decode()
        document = _read_message(_find_definition(api_version, kind), _require_bytes(envelope.get(2, b"")))
    except (UnicodeDecodeError, IndexError, struct.error, RecursionError) as err:
        raise ProtobufError(f"the protobuf message is malformed: {err}") from err
    return {"kind": kind, "apiVersion": api_version, **document}


def _find_definition(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    candidates = [f"io.k8s.api.{(group or 'core').partition('.')[0]}.{version}.{kind}"]
    if group == "apiextensions.k8s.io":
        candidates = [f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"]
    # Options of a request exist in every group, in the group's version or in v1.
    candidates.append(f"{_META}.{kind}")
    for name in candidates:
        if name in _read_field_numbers():
            return name
    raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')


@cache
def _read_field_numbers() -> Mapping[str, Mapping[int, str]]:
    result = orjson.loads(read_package_data("pykruise.sandbox", "protobuf.json"))
    return {
        definition: {int(number): name for number, name in fields.items()}
        for definition, fields in result.items()
    }


# --- the wire format ---


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ProtobufError("the protobuf message is malformed: a number is too long")


def _read_members(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers with their raw values: varints as numbers, all others as bytes."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _read_varint(data, position)
            yield number, value
            continue
        if wire == 2:
            length, position = _read_varint(data, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ProtobufError(f"the protobuf message is malformed: wire type {wire}")
        if position + length > len(data):
            raise ProtobufError("the protobuf message is malformed: it ends early")
        yield number, data[position : position + length]
        position += length


def _require_bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ProtobufError("the protobuf message is malformed: a number instead of bytes")


def _to_signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("the protobuf message is malformed: bytes instead of a number")
    return value - (1 << 64) if value >= 1 << 63 else value


# --- messages ---


def _read_message(definition: str, data: bytes) -> Document:
    document: Document = {}
    _read_into(document, definition, data, fields_of(definition) or {})
    return document


def _read_into(document: Document, definition: str, data: bytes, kinds: Mapping[str, BuiltinField]) -> None:
    numbers = _read_field_numbers().get(definition, {})
    for number, value in _read_members(data):
        name = numbers.get(number)
        if name is None:
            continue  # a field of a newer client
        if name.startswith("<"):
            # Fields that JSON shows inline are a separate message here (a volume's source).
            _read_into(document, name[1:], _require_bytes(value), kinds)
        elif name in kinds:
            _put_field(document, name, kinds[name].kind.lstrip("*"), value)


def _put_field(document: Document, name: str, kind: str, value: int | bytes) -> None:
    if kind.startswith("[]"):
        document.setdefault(name, []).append(_read_value(kind[2:].lstrip("*"), value))
    elif kind.startswith("{}"):
        entry = dict(_read_members(_require_bytes(value)))
        key = _require_bytes(entry.get(1, b"")).decode()
        inner = kind[2:].lstrip("*")
        document.setdefault(name, {})[key] = _map_value(inner, entry.get(2))
    else:
        document[name] = _read_value(kind, value)


def _map_value(kind: str, value: int | bytes | None) -> Any:
    if kind.startswith("[]"):
        # A map of lists has a message around each list (ExtraValue).
        items = _read_members(_require_bytes(value)) if value is not None else ()
        return [_read_value(kind[2:], item) for _, item in items]
    return _read_value(kind, b"" if value is None else value)


def _read_value(kind: str, value: int | bytes) -> Any:
    match kind:
        case "string":
            return _require_bytes(value).decode()
        case "int32" | "int64":
            return _to_signed(value)
        case "bool":
            return bool(value)
        case "float64":
            return struct.unpack("<d", _require_bytes(value))[0]
        case "bytes":
            return base64.b64encode(_require_bytes(value)).decode()
        case "time" | "microtime":
            return _read_time(_require_bytes(value), micro=kind == "microtime")
        case "quantity":
            return _require_bytes(dict(_read_members(_require_bytes(value))).get(1, b"0")).decode()
        case "intOrString":
            return _decode_int_or_string(_require_bytes(value))
        case "any" | "object":
            return _decode_json(_require_bytes(value))
    return _read_message(kind, _require_bytes(value))


def _read_time(data: bytes, *, micro: bool) -> str | None:
    members = dict(_read_members(data))
    seconds, nanos = _to_signed(members.get(1, 0)), _to_signed(members.get(2, 0))
    if not members:
        return None
    return format_micro_time(seconds + nanos / 1e9) if micro else format_time(seconds)


def _decode_int_or_string(data: bytes) -> int | str:
    members = dict(_read_members(data))
    if members.get(1, 0) == 1:
        return _require_bytes(members.get(3, b"")).decode()
    return _to_signed(members.get(2, 0))


def _decode_json(data: bytes) -> Any:
    """Decode a free-form value: JSON text in a message with one field."""
    raw = _require_bytes(dict(_read_members(data)).get(1, b"null"))
    try:
        return orjson.loads(raw or b"null")
    except orjson.JSONDecodeError as err:
        raise ProtobufError(f"the protobuf message contains a value that is not JSON: {err}") from err
