"""Functions that Kubernetes adds to CEL: for strings, lists and quantities, and `format`.

expressions.py ──▶ FUNCTIONS, by name ──▶ called by the CEL library

Pure. A quantity is a map with its amount, because the library has no user-defined values. Two quantities with the same
amount are equal, however they were written. Same rules as Kubernetes' CEL libraries and cel-go's `format`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from pykruise.kube.values.go_text import quote_text
from pykruise.kube.values.patterns import compile_pattern
from pykruise.kube.values.quantities import Quantity

# --- texts and lists ----------------------------------------


def _find(text: str, pattern: str) -> str:
    match = compile_pattern(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    result = [match[0] for match in compile_pattern(pattern).finditer(text)]
    return result if limit < 0 else result[:limit]


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(value <= other for value, other in pairwise(items))


def _find_index(items: Any, item: Any, *start: int) -> int:
    """Index of an item in a list or a string; -1 when it is absent."""
    if isinstance(items, str):
        return items.find(item, *start)
    return next((place for place, each in enumerate(items) if each == item), -1)


def _find_last_index(items: Any, item: Any, *end: int) -> int:
    if isinstance(items, str):
        return items.rfind(item, 0, end[0] + len(item)) if end else items.rfind(item)
    return next((place for place in reversed(range(len(items))) if items[place] == item), -1)


# --- format ----------------------------------------

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([a-zA-Z]))|%")


def _format(text: str, values: Sequence[Any]) -> str:
    """`"%s has %d".format(["a", 1])`: %s, %d, %f, %e, %b, %o, %x and %X. Raises ValueError."""
    left = list(reversed(values))

    def filled(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        if match[2] is None or match[2] not in _VERBS:
            raise ValueError(
                f"could not parse formatting clause: unrecognized formatting clause {match[0]!r}"
            )
        if not left:
            raise ValueError(f"index {len(values)} out of range")
        return _VERBS[match[2]](left.pop(), int(match[1]) if match[1] else 6)

    return _CLAUSE.sub(filled, text)


def _format_value(value: Any, _digits: int = 0) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
        case Mapping():
            return (
                "{"
                + ", ".join(f"{_format_inner(key)}:{_format_inner(value[key])}" for key in sorted(value))
                + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(_format_inner(each) for each in value) + "]"
        case _:
            return str(value)


def _format_inner(value: Any) -> str:
    """Format a value inside a list or map, where strings are quoted."""
    return quote_text(value) if isinstance(value, str) else _format_value(value)


def _check_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("decimal clause can only be used on integers")
    return value


def _to_hex(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    return value.hex() if isinstance(value, bytes) else f"{_check_integer(value):x}"


_VERBS: Final[Mapping[str, Callable[[Any, int], str]]] = {
    "s": _format_value,
    "d": lambda value, _: str(_check_integer(value)),
    "f": lambda value, digits: f"{float(value):.{digits}f}",
    "e": lambda value, digits: f"{float(value):.{digits}e}",
    "b": lambda value, _: f"{int(value) if isinstance(value, bool) else _check_integer(value):b}",
    "o": lambda value, _: f"{_check_integer(value):o}",
    "x": lambda value, _: _to_hex(value),
    "X": lambda value, _: _to_hex(value).upper(),
}

# --- quantities ----------------------------------------

_MARK: Final = "quantity/n"
_NANO: Final = 10**9


def _build_quantity(nano: int) -> dict[str, str]:
    return {_MARK: str(nano)}


def _parse_nano(value: Any) -> int:
    if isinstance(value, Mapping) and set(value) == {_MARK}:
        return int(value[_MARK])
    if isinstance(value, int) and not isinstance(value, bool):
        return value * _NANO
    raise ValueError("no such overload: this is not a quantity")


def _parse_quantity(text: str) -> dict[str, str]:
    return _build_quantity(Quantity.parse(text).nano)


def _is_quantity(text: Any) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return isinstance(text, str)


def _as_integer(value: Any) -> int:
    nano = _parse_nano(value)
    if nano % _NANO:
        raise ValueError("cannot convert value to integer")
    return nano // _NANO


def _compare(item: Any, other: Any) -> int:
    left, right = _parse_nano(item), _parse_nano(other)
    return (left > right) - (left < right)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "find": _find,
    "findAll": _find_all,
    "indexOf": _find_index,
    "isSorted": _is_sorted,
    "lastIndexOf": _find_last_index,
    "format": _format,
    "quantity": _parse_quantity,
    "isQuantity": _is_quantity,
    "isGreaterThan": lambda item, other: _compare(item, other) > 0,
    "isLessThan": lambda item, other: _compare(item, other) < 0,
    "compareTo": _compare,
    "add": lambda item, other: _build_quantity(_parse_nano(item) + _parse_nano(other)),
    "sub": lambda item, other: _build_quantity(_parse_nano(item) - _parse_nano(other)),
    "sign": lambda item: _compare(item, _build_quantity(0)),
    "isInteger": lambda item: not _parse_nano(item) % _NANO,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda item: _parse_nano(item) / _NANO,
}
"""Functions and methods by name; a method gets its receiver as the first argument."""
