"""Types of built-in kinds: decoding of a document as a Kubernetes API server does it.

    kube/data/types.json (fields and Go types of every definition) ──▶ find_decoder(definition)   (compiled once)
        and types_before.json, for older minors
    a document as sent ──▶ Decoder.decode() ──▶ the document as the server writes it, and its unknown fields

When a real server decodes an object, it drops unknown fields, rejects values of a wrong type, writes quantities and
times in their canonical form, and leaves out empty values. The controllers and kubectl rely on all of this (also on
`resources: {}` and `creationTimestamp: null` in a template), so this module does it once, before any rule.

Pure; decoders share nothing mutable and never change their input.
"""

import base64
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from pykruise.kube.cache.remembering import remember
from pykruise.kube.clock import format_micro_time, format_time, parse_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.schemas.fact_series import read_series
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.kube.values.go_text import quote_text
from pykruise.kube.values.quantities import format_quantity

__all__ = [
    "AmountError",
    "BuiltinField",
    "DecodeError",
    "Decoder",
    "collect_definitions_below",
    "definition_of",
    "fields_of",
    "find_decoder",
    "go_type_of",
    "name_json_kind",
]


class DecodeError(ValueError):
    """A document that cannot be read as its kind; the message follows `cannot be handled as a Pod: `."""


class AmountError(DecodeError):
    """The document contains an invalid quantity."""


class BuiltinField(NamedTuple):
    """A field of a definition in kube/data/types.json."""

    kind: str
    """`string`, `quantity`, …, the name of a definition, `[]` + item, `{}` + value or `*` + target."""
    go_type: str
    """The name of the Go type (`v1.PullPolicy`) if it is not a plain one; empty otherwise."""
    omits_empty: bool
    """Whether the server leaves the field out when it is empty."""
    omits_zero: bool = False
    """Whether the server leaves out an empty struct (Go's `omitzero`)."""


class Decoder:
    """Decodes documents of one definition. Create it with `find_decoder`."""

    def __init__(self, definition: str, minor: str = NEWEST_MINOR) -> None:
        self._struct = _make_struct_decoder(definition, minor)

    def decode(self, doc: Mapping[str, Any]) -> tuple[Document, list[str]]:
        """Return the canonical document, and the sorted paths of the unknown fields (dropped).

        Raises DecodeError when a value has the wrong type.
        """
        unknown: list[str] = []
        try:
            decoded = self._struct(doc, unknown)
        except _Mismatch as error:
            raise DecodeError(error.message()) from None
        return decoded, sorted(unknown)


@cache
def find_decoder(definition: str, minor: str = NEWEST_MINOR) -> Decoder | None:
    """Return the decoder of a definition such as `io.k8s.api.core.v1.Pod`; None for an unknown definition."""
    return Decoder(definition, minor) if definition in _read_definitions(minor) else None


@cache
def fields_of(definition: str, minor: str = NEWEST_MINOR) -> Mapping[str, BuiltinField] | None:
    """Return the fields of a definition by their JSON names; None for an unknown definition."""
    codes = _read_definitions(minor).get(definition)
    return None if codes is None else {name: _parse_field(code) for name, code in codes.items()}


def definition_of(kind: str) -> str:
    """Return the definition in a field's kind, without its list, map and pointer: `[]*T` is T."""
    return kind.lstrip("*[]{}")


def collect_definitions_below(definition: str) -> set[str]:
    """Return this definition and all definitions to which its fields refer, directly or indirectly."""
    seen: set[str] = set()
    waiting = [definition]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting += [definition_of(field.kind) for field in (fields_of(current) or {}).values()]
    return seen


@cache
def _read_definitions(minor: str) -> Mapping[str, Mapping[str, str]]:
    return read_series("types", minor)


def _parse_field(code: str) -> BuiltinField:
    plain, _, go_type = code.partition("=")
    omits_zero = plain.startswith("0")
    plain = plain.removeprefix("0")
    return BuiltinField(plain.removeprefix("?"), go_type, plain.startswith("?"), omits_zero)


class _Mismatch(Exception):  # noqa: N818  (becomes a DecodeError once its place is known)
    """A value of a wrong type. Enclosing decoders add its place."""

    def __init__(self, text: str, go_type: str) -> None:
        self.found = text
        self.go_type = go_type
        self.struct = ""
        self.path: list[str] = []

    def below(self, struct: str, field: str) -> None:
        self.struct = self.struct or struct
        self.path.append(field)

    def message(self) -> str:
        place = ".".join([self.struct, *reversed(self.path)])
        if not place:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.go_type}"
        return f"json: cannot unmarshal {self.found} into Go struct field {place} of type {self.go_type}"


_Decode = Callable[[Any, list[str]], Any]

_KINDS: Final = {
    bool: "bool",
    dict: "object",
    float: "number",
    int: "number",
    list: "array",
    str: "string",
}


def name_json_kind(value: Any) -> str:
    """Return Go's name for the kind of a JSON value that it cannot decode."""
    return _KINDS.get(type(value), "value")


def _make_mismatch(value: Any, go_type: str) -> _Mismatch:
    return _Mismatch(name_json_kind(value), go_type)


class _Zero(NamedTuple):
    """Go's zero value of an absent field, and whether Go writes it."""

    make: Callable[[], Any]
    written: bool


def _make_plain_decoder(kind: type, go_type: str) -> _Decode:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not kind:
            raise _make_mismatch(value, go_type)
        return value

    return decode


def _make_integer_decoder(bits: int, go_type: str) -> _Decode:
    limit = 1 << (bits - 1)

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is int:
            if -limit <= value < limit:
                return value
            raise _Mismatch(f"number {value}", go_type)
        if type(value) is float:
            raise _Mismatch(f"number {value!r}", go_type)
        raise _make_mismatch(value, go_type)

    return decode


def _decode_number(value: Any, unknown: list[str]) -> Any:
    if type(value) is not int and type(value) is not float:
        raise _make_mismatch(value, "float64")
    return value


def _decode_bytes(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _make_mismatch(value, "[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    wrong = _NOT_BASE64.search(text)
    if wrong or len(text) % 4:
        position = wrong.start() if wrong else len(text) - len(text) % 4
        raise DecodeError(f"illegal base64 data at input byte {position}")
    return base64.b64encode(base64.b64decode(text)).decode()


_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=]|=(?=[^=])|=(?==.)(?!=$)")
_CANONICAL_TIME: Final = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
_SECONDS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_RFC3339: Final = re.compile(_SECONDS.pattern + r"(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_RFC3339_MICRO: Final = re.compile(_SECONDS.pattern + r"\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


def _decode_time(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _make_mismatch(value, "string")
    if _CANONICAL_TIME.fullmatch(value):
        return value
    return _reformat_time(value, _RFC3339, "2006-01-02T15:04:05Z07:00", format_time)


def _decode_micro_time(value: Any, unknown: list[str]) -> Any:
    """Decode a time with exactly six decimals: a real server rejects the object with any other number of decimals."""
    if type(value) is not str:
        raise _make_mismatch(value, "string")
    return _reformat_time(value, _RFC3339_MICRO, "2006-01-02T15:04:05.000000Z07:00", format_micro_time)


def _reformat_time(
    value: str, pattern: re.Pattern[str], layout: str, format_instant: Callable[[float], str]
) -> str:
    try:
        if pattern.fullmatch(value):
            return format_instant(parse_time(value))
    except ValueError:
        pass
    seconds = _SECONDS.match(value)
    rest, wanted = (value[seconds.end() :], ".000000") if seconds else (value, "2006")
    raise DecodeError(
        f"parsing time {quote_text(value)} as {quote_text(layout)}: cannot parse {quote_text(rest)} as "
        f"{quote_text(wanted)}"
    )


def _decode_quantity(value: Any, unknown: list[str]) -> Any:
    if type(value) not in (str, int, float):
        raise AmountError(_QUANTITY_RULE)
    try:
        return format_quantity(value)
    except ValueError:
        raise AmountError(_QUANTITY_RULE) from None


_QUANTITY_RULE: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def _decode_int_or_string(value: Any, unknown: list[str]) -> Any:
    if type(value) is str:
        return value
    return _INT32(value, unknown)


def _decode_anything(value: Any, unknown: list[str]) -> Any:
    return deep_copy(value)


def _decode_object(value: Any, unknown: list[str]) -> Any:
    if type(value) is not dict:
        raise _make_mismatch(value, "v1.FieldsV1")
    return deep_copy(value)


_INT32: Final = _make_integer_decoder(32, "int32")
_SCALARS: Final[Mapping[str, tuple[_Decode, _Zero]]] = {
    "any": (_decode_anything, _Zero(lambda: None, True)),
    "bool": (_make_plain_decoder(bool, "bool"), _Zero(bool, False)),
    "bytes": (_decode_bytes, _Zero(lambda: None, False)),
    "float64": (_decode_number, _Zero(int, False)),
    "int32": (_INT32, _Zero(int, False)),
    "int64": (_make_integer_decoder(64, "int64"), _Zero(int, False)),
    "intOrString": (_decode_int_or_string, _Zero(int, True)),
    "microtime": (_decode_micro_time, _Zero(lambda: None, True)),
    "object": (_decode_object, _Zero(lambda: None, True)),
    "quantity": (_decode_quantity, _Zero(lambda: "0", True)),
    "string": (_make_plain_decoder(str, "string"), _Zero(str, False)),
    "time": (_decode_time, _Zero(lambda: None, True)),
}


def _format_short_name(definition: str) -> str:
    """Return Go's short name: `io.k8s.api.core.v1.Pod` is `v1.Pod`."""
    package, _, name = definition.rpartition(".")
    return f"{package.rpartition('.')[2]}.{name}"


def go_type_of(kind: str) -> str:
    """Return the type of a `BuiltinField.kind` as Go writes it."""
    if kind.startswith("[]"):
        return f"[]{go_type_of(kind[2:])}"
    if kind.startswith("{}"):
        return f"map[string]{go_type_of(kind[2:])}"
    if kind.startswith("*"):
        return go_type_of(kind[1:])
    if kind in _SCALARS:
        return {"bytes": "[]uint8", "quantity": "resource.Quantity"}.get(kind, kind)
    return _format_short_name(kind)


def _compile_decoder(kind: str, go_type: str, minor: str) -> tuple[_Decode, _Zero]:
    """Return the decoder for a value of a kind, and the zero value for an absent one."""
    if kind.startswith("*"):
        decode, _ = _compile_decoder(kind[1:], go_type, minor)
        return decode, _Zero(lambda: None, False)
    if kind.startswith("[]"):
        item, zero = _compile_decoder(kind[2:], go_type, minor)
        return _list_decoder(item, zero, go_type_of(kind)), _Zero(lambda: None, False)
    if kind.startswith("{}"):
        item, zero = _compile_decoder(kind[2:], "" if go_type.endswith("List") else go_type, minor)
        return _map_decoder(item, zero, go_type or go_type_of(kind)), _Zero(lambda: None, False)
    if kind in _SCALARS:
        decode, zero = _SCALARS[kind]
        if go_type and kind == "string":
            decode = _make_plain_decoder(str, go_type)
        return decode, zero
    struct = _make_struct_decoder(kind, minor)
    return _remember_results(struct) if kind in _REPEATED else struct, _Zero(lambda: struct({}, []), True)


_REPEATED: Final = ("io.k8s.api.core.v1.Container",)
"""Definitions of large values that are often equal, such as the containers of a workload's pods."""
_MOST_REMEMBERED: Final = 512
_LONGEST_REMEMBERED: Final = 8 * 1024


def _remember_results(decode: _Decode) -> _Decode:
    """Return a decoder that remembers its results for equal values. Each result is a new copy."""

    @remember(entries=_MOST_REMEMBERED, longest=_LONGEST_REMEMBERED)
    def known(sent: bytes) -> tuple[bytes, tuple[str, ...]]:
        unknown: list[str] = []
        return orjson.dumps(decode(orjson.loads(sent), unknown)), tuple(unknown)

    def find(value: Any, unknown: list[str]) -> Any:
        try:
            sent = orjson.dumps(value)
        except TypeError:  # YAML has numbers that JSON does not have
            return decode(value, unknown)
        if len(sent) > _LONGEST_REMEMBERED:
            return decode(value, unknown)
        made, left_out = known(sent)
        unknown += left_out
        return orjson.loads(made)

    return find


def _list_decoder(item: _Decode, zero: _Zero, go_type: str) -> _Decode:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _make_mismatch(value, go_type)
        result = []
        for index, each in enumerate(value):
            known = len(unknown)
            result.append(zero.make() if each is None else item(each, unknown))
            if len(unknown) > known:
                unknown[known:] = [f"[{index}]{_join_path(path)}" for path in unknown[known:]]
        return result

    return decode


def _map_decoder(item: _Decode, zero: _Zero, go_type: str) -> _Decode:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _make_mismatch(value, go_type)
        result = {}
        for key, each in value.items():
            known = len(unknown)
            result[key] = zero.make() if each is None else item(each, unknown)
            if len(unknown) > known:
                unknown[known:] = [f"{key}{_join_path(path)}" for path in unknown[known:]]
        return result

    return decode


def _join_path(path: str) -> str:
    return path if path.startswith("[") else f".{path}"


class _Plan(NamedTuple):
    """Decoding rule of a struct's field."""

    decode: _Decode
    drops_empty: bool
    """Whether an empty value counts as absent."""
    taken: type | None
    """Type of values that are kept unchanged; None: all values are decoded."""


_TAKEN: Final[Mapping[str, type]] = {"string": str, "bool": bool}


@cache
def _make_struct_decoder(definition: str, minor: str) -> _Decode:
    """Return the decoder of a struct. It is compiled on first use, because definitions may contain themselves (a
    CRD's schema).
    """
    name = definition.rpartition(".")[2]
    state: dict[str, Any] = {}

    def build() -> None:
        plans: dict[str, _Plan] = {}
        written: list[tuple[str, Callable[[], Any]]] = []
        for key, field in (fields_of(definition, minor) or {}).items():
            decode, zero = _compile_decoder(field.kind, field.go_type, minor)
            drops = field.omits_empty and not zero.written and not field.kind.startswith("*")
            plans[key] = _Plan(decode, drops, _TAKEN.get(field.kind.removeprefix("*")))
            if not field.omits_zero and (zero.written or not field.omits_empty):
                written.append((key, zero.make))
        state["plans"], state["written"] = plans, written

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _make_mismatch(value, _format_short_name(definition))
        if not state:
            build()
        plans: dict[str, _Plan] = state["plans"]
        result: Document = {}
        key = ""
        try:
            for key, each in value.items():
                plan = plans.get(key)
                if plan is None:
                    unknown.append(key)
                    continue
                if each is None:
                    continue
                read, drops_empty, taken = plan
                if type(each) is taken:
                    item = each
                else:
                    known = len(unknown)
                    item = read(each, unknown)
                    if len(unknown) > known:
                        unknown[known:] = [f"{key}{_join_path(path)}" for path in unknown[known:]]
                if item or not drops_empty:
                    result[key] = item
        except _Mismatch as error:
            error.below(name, key)
            raise
        for key, zero in state["written"]:
            if key not in result:
                result[key] = zero()
        return result

    return decode
