"""Built-in kinds have types: what a Kubernetes API server's decoder does to a document of one.

    kube/data/types.json (fields and Go types of every definition) ──▶ decoder_for(definition)   (compiled once)
        and types_before.json, for older minors
    a document as sent ──▶ Decoder.decode() ──▶ the document as the server writes it, and its unknown fields

Decoding is where a real server drops fields it does not know, refuses values of a wrong type, writes
quantities and times in their one canonical form, and leaves out what is empty. The controllers and kubectl
lean on all of that (`resources: {}` and `creationTimestamp: null` in a template included), so it is done
here once, before any rule.

Pure; decoders share nothing mutable and never change the document they are given.
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
from pykruise.kube.values.go_text import quoted
from pykruise.kube.values.quantities import format_quantity

__all__ = [
    "AmountError",
    "BuiltinField",
    "DecodeError",
    "Decoder",
    "decoder_for",
    "fields_of",
    "go_type_of",
    "json_kind",
]


class DecodeError(ValueError):
    """A document that cannot be read as its kind; the message follows `cannot be handled as a Pod: `."""


class AmountError(DecodeError):
    """An amount in it is none."""


class BuiltinField(NamedTuple):
    """One field of a definition, as kube/data/types.json has it."""

    kind: str
    """`string`, `quantity`, …, the name of a definition, `[]` + item, `{}` + value or `*` + target."""
    go_type: str
    """The Go type's own name (`v1.PullPolicy`) where it is not plain; empty otherwise."""
    omits_empty: bool
    """Whether the server leaves the field out when it is empty."""
    omits_zero: bool = False
    """The same of a value that is a struct (Go's `omitzero`)."""


class Decoder:
    """Reads documents of one definition. Make one with `decoder_for`."""

    def __init__(self, definition: str, minor: str = NEWEST_MINOR) -> None:
        self._struct = _struct_decoder(definition, minor)

    def decode(self, doc: Mapping[str, Any]) -> tuple[Document, list[str]]:
        """The canonical document, and the sorted paths of fields the definition does not have (dropped).

        Raises DecodeError when a value has the wrong type.
        """
        unknown: list[str] = []
        try:
            decoded = self._struct(doc, unknown)
        except _Mismatch as error:
            raise DecodeError(error.message()) from None
        return decoded, sorted(unknown)


@cache
def decoder_for(definition: str, minor: str = NEWEST_MINOR) -> Decoder | None:
    """The decoder of a definition such as `io.k8s.api.core.v1.Pod`; None when there are no facts about it."""
    return Decoder(definition, minor) if definition in _definitions(minor) else None


@cache
def fields_of(definition: str, minor: str = NEWEST_MINOR) -> Mapping[str, BuiltinField] | None:
    """The fields of a definition by their JSON names; None when there are no facts about it."""
    codes = _definitions(minor).get(definition)
    return None if codes is None else {name: _field(code) for name, code in codes.items()}


@cache
def _definitions(minor: str) -> Mapping[str, Mapping[str, str]]:
    return read_series("types", minor)


def _field(code: str) -> BuiltinField:
    plain, _, go_type = code.partition("=")
    omits_zero = plain.startswith("0")
    plain = plain.removeprefix("0")
    return BuiltinField(plain.removeprefix("?"), go_type, plain.startswith("?"), omits_zero)


class _Mismatch(Exception):  # noqa: N818  (becomes a DecodeError once its place is known)
    """A value of a wrong type; the place is filled in on the way up."""

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


def json_kind(value: Any) -> str:
    """Go's name for the kind of a JSON value that it cannot decode."""
    return _KINDS.get(type(value), "value")


def _mismatch(value: Any, go_type: str) -> _Mismatch:
    return _Mismatch(json_kind(value), go_type)


class _Zero(NamedTuple):
    """Go's zero value of an absent field, and whether Go writes it."""

    make: Callable[[], Any]
    written: bool


def _plain(kind: type, go_type: str) -> _Decode:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not kind:
            raise _mismatch(value, go_type)
        return value

    return decode


def _integer(bits: int, go_type: str) -> _Decode:
    limit = 1 << (bits - 1)

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is int:
            if -limit <= value < limit:
                return value
            raise _Mismatch(f"number {value}", go_type)
        if type(value) is float:
            raise _Mismatch(f"number {value!r}", go_type)
        raise _mismatch(value, go_type)

    return decode


def _number(value: Any, unknown: list[str]) -> Any:
    if type(value) is not int and type(value) is not float:
        raise _mismatch(value, "float64")
    return value


def _bytes(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _mismatch(value, "[]uint8")
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


def _time(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _mismatch(value, "string")
    if _CANONICAL_TIME.fullmatch(value):
        return value
    return _parsed(value, _RFC3339, "2006-01-02T15:04:05Z07:00", format_time)


def _micro_time(value: Any, unknown: list[str]) -> Any:
    """Times with exactly six decimals: with any other number of them a real server refuses the object."""
    if type(value) is not str:
        raise _mismatch(value, "string")
    return _parsed(value, _RFC3339_MICRO, "2006-01-02T15:04:05.000000Z07:00", format_micro_time)


def _parsed(value: str, pattern: re.Pattern[str], layout: str, format_instant: Callable[[float], str]) -> str:
    try:
        if pattern.fullmatch(value):
            return format_instant(parse_time(value))
    except ValueError:
        pass
    seconds = _SECONDS.match(value)
    rest, wanted = (value[seconds.end() :], ".000000") if seconds else (value, "2006")
    raise DecodeError(
        f"parsing time {quoted(value)} as {quoted(layout)}: cannot parse {quoted(rest)} as {quoted(wanted)}"
    )


def _quantity(value: Any, unknown: list[str]) -> Any:
    if type(value) not in (str, int, float):
        raise AmountError(_QUANTITY_RULE)
    try:
        return format_quantity(value)
    except ValueError:
        raise AmountError(_QUANTITY_RULE) from None


_QUANTITY_RULE: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def _int_or_string(value: Any, unknown: list[str]) -> Any:
    if type(value) is str:
        return value
    return _INT32(value, unknown)


def _anything(value: Any, unknown: list[str]) -> Any:
    return deep_copy(value)


def _object(value: Any, unknown: list[str]) -> Any:
    if type(value) is not dict:
        raise _mismatch(value, "v1.FieldsV1")
    return deep_copy(value)


_INT32: Final = _integer(32, "int32")
_SCALARS: Final[Mapping[str, tuple[_Decode, _Zero]]] = {
    "any": (_anything, _Zero(lambda: None, True)),
    "bool": (_plain(bool, "bool"), _Zero(bool, False)),
    "bytes": (_bytes, _Zero(lambda: None, False)),
    "float64": (_number, _Zero(int, False)),
    "int32": (_INT32, _Zero(int, False)),
    "int64": (_integer(64, "int64"), _Zero(int, False)),
    "intOrString": (_int_or_string, _Zero(int, True)),
    "microtime": (_micro_time, _Zero(lambda: None, True)),
    "object": (_object, _Zero(lambda: None, True)),
    "quantity": (_quantity, _Zero(lambda: "0", True)),
    "string": (_plain(str, "string"), _Zero(str, False)),
    "time": (_time, _Zero(lambda: None, True)),
}


def _short(definition: str) -> str:
    """`io.k8s.api.core.v1.Pod` is `v1.Pod` in Go's words."""
    package, _, name = definition.rpartition(".")
    return f"{package.rpartition('.')[2]}.{name}"


def go_type_of(kind: str) -> str:
    """The type of a `BuiltinField.kind` as Go writes it."""
    if kind.startswith("[]"):
        return f"[]{go_type_of(kind[2:])}"
    if kind.startswith("{}"):
        return f"map[string]{go_type_of(kind[2:])}"
    if kind.startswith("*"):
        return go_type_of(kind[1:])
    if kind in _SCALARS:
        return {"bytes": "[]uint8", "quantity": "resource.Quantity"}.get(kind, kind)
    return _short(kind)


def _compile(kind: str, go_type: str, minor: str) -> tuple[_Decode, _Zero]:
    """How to read a value of a kind, and what stands for an absent one."""
    if kind.startswith("*"):
        decode, _ = _compile(kind[1:], go_type, minor)
        return decode, _Zero(lambda: None, False)
    if kind.startswith("[]"):
        item, zero = _compile(kind[2:], go_type, minor)
        return _list_decoder(item, zero, go_type_of(kind)), _Zero(lambda: None, False)
    if kind.startswith("{}"):
        item, zero = _compile(kind[2:], "" if go_type.endswith("List") else go_type, minor)
        return _map_decoder(item, zero, go_type or go_type_of(kind)), _Zero(lambda: None, False)
    if kind in _SCALARS:
        decode, zero = _SCALARS[kind]
        if go_type and kind == "string":
            decode = _plain(str, go_type)
        return decode, zero
    struct = _struct_decoder(kind, minor)
    return _remembered(struct) if kind in _REPEATED else struct, _Zero(lambda: struct({}, []), True)


_REPEATED: Final = ("io.k8s.api.core.v1.Container",)
"""Large parts that one object after another repeats word for word: the pods of a workload."""
_MOST_REMEMBERED: Final = 512
_LONGEST_REMEMBERED: Final = 8 * 1024


def _remembered(decode: _Decode) -> _Decode:
    """The decoder that finds what it made of equal values before. What it gives is always fresh."""

    @remember(entries=_MOST_REMEMBERED, longest=_LONGEST_REMEMBERED)
    def known(sent: bytes) -> tuple[bytes, tuple[str, ...]]:
        unknown: list[str] = []
        return orjson.dumps(decode(orjson.loads(sent), unknown)), tuple(unknown)

    def find(value: Any, unknown: list[str]) -> Any:
        try:
            sent = orjson.dumps(value)
        except TypeError:  # YAML knows numbers that JSON does not
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
            raise _mismatch(value, go_type)
        result = []
        for index, each in enumerate(value):
            known = len(unknown)
            result.append(zero.make() if each is None else item(each, unknown))
            if len(unknown) > known:
                unknown[known:] = [f"[{index}]{_joined(path)}" for path in unknown[known:]]
        return result

    return decode


def _map_decoder(item: _Decode, zero: _Zero, go_type: str) -> _Decode:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, go_type)
        result = {}
        for key, each in value.items():
            known = len(unknown)
            result[key] = zero.make() if each is None else item(each, unknown)
            if len(unknown) > known:
                unknown[known:] = [f"{key}{_joined(path)}" for path in unknown[known:]]
        return result

    return decode


def _joined(path: str) -> str:
    return path if path.startswith("[") else f".{path}"


class _Plan(NamedTuple):
    """How a struct's field is read."""

    decode: _Decode
    drops_empty: bool
    """Whether an empty value is as good as none."""
    taken: type | None
    """Values of this type stand as they are."""


_TAKEN: Final[Mapping[str, type]] = {"string": str, "bool": bool}


@cache
def _struct_decoder(definition: str, minor: str) -> _Decode:
    """Compiled on first use, because definitions refer to themselves (a CRD's schema)."""
    name = definition.rpartition(".")[2]
    state: dict[str, Any] = {}

    def build() -> None:
        plans: dict[str, _Plan] = {}
        written: list[tuple[str, Callable[[], Any]]] = []
        for key, field in (fields_of(definition, minor) or {}).items():
            decode, zero = _compile(field.kind, field.go_type, minor)
            drops = field.omits_empty and not zero.written and not field.kind.startswith("*")
            plans[key] = _Plan(decode, drops, _TAKEN.get(field.kind.removeprefix("*")))
            if not field.omits_zero and (zero.written or not field.omits_empty):
                written.append((key, zero.make))
        state["plans"], state["written"] = plans, written

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, _short(definition))
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
                        unknown[known:] = [f"{key}{_joined(path)}" for path in unknown[known:]]
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
