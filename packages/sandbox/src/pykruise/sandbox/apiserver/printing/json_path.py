r"""JSONPath as Kubernetes writes it in printer columns: `.status.conditions[?(@.type=="Ready")].status`.

    text ──▶ compile_path() ──▶ a function: document ──▶ list of the matching values (may be empty)

Supported: fields (`.a`, `['a.b']`, `.a\.b`), wildcards (`[*]`, `.*`), indexes and slices, filters with a comparison
or only a path, unions (`['a','b']`, `[0,2]`) and recursive descent (`..a`). Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

Finder = Callable[[Any], list[Any]]
_Step = Callable[[Iterable[Any]], Iterator[Any]]


class JSONPathError(ValueError):
    """An invalid path. The message has the position."""


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Finder:
    """Return the finder of a path such as `.spec.replicas`, with or without `{}` and `$` around it.

    Raises JSONPathError.
    """
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    steps = list(_parse_steps(path.removeprefix("$").removeprefix("@"), text))

    def find(document: Any) -> list[Any]:
        values: Iterable[Any] = [document]
        for step in steps:
            values = step(values)
        return list(values)

    return find


_NAME: Final = re.compile(r"(?:[^.\[\]\\\s]|\\.)+")
_INDEX: Final = re.compile(r"-?\d+")
_SLICE: Final = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_FILTER: Final = re.compile(
    r"(?P<left>(?:'[^']*'|\"[^\"]*\"|[^=!<>'\"])+?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.+)"
)


def _parse_steps(path: str, text: str) -> Iterator[_Step]:
    position = 0
    while position < len(path):
        if path.startswith("..", position):
            yield _descend
            position += 1 if path[position + 2 : position + 3] != "[" else 2
        elif path.startswith(".*", position):
            yield _list_all_values
            position += 2
        elif path[position] == ".":
            match = _NAME.match(path, position + 1)
            if match is None:
                if position + 1 == len(path):
                    return
                raise JSONPathError(f"{text!r}: a field name is missing at position {position + 1}")
            yield _make_field_step(re.sub(r"\\(.)", r"\1", match[0]))
            position = match.end()
        elif path[position] == "[":
            end = _find_closing_bracket(path, position, text)
            yield _parse_bracket(path[position + 1 : end].strip(), text)
            position = end + 1
        else:
            raise JSONPathError(f"{text!r}: unexpected {path[position]!r} at position {position}")


def _find_closing_bracket(path: str, start: int, text: str) -> int:
    depth, quote = 0, ""
    for position in range(start, len(path)):
        char = path[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return position
    raise JSONPathError(f"{text!r}: the bracket at position {start} is not closed")


def _parse_bracket(inside: str, text: str) -> _Step:
    if inside == "*":
        return _list_all_values
    if inside.startswith("?(") and inside.endswith(")"):
        return _parse_filter(inside[2:-1].strip(), text)
    names = _QUOTED.findall(inside)
    if names and re.fullmatch(rf"(?:{_QUOTED.pattern})(?:\s*,\s*(?:{_QUOTED.pattern}))*", inside):
        fields = [re.sub(r"\\(.)", r"\1", single or double) for single, double in names]
        return _make_union_step([_make_field_step(name) for name in fields])
    parts = [part.strip() for part in inside.split(",")]
    if all(_INDEX.fullmatch(part) for part in parts):
        return _make_union_step([_make_index_step(int(part)) for part in parts])
    match = _SLICE.fullmatch(inside)
    if match:
        return _slice_step(*(int(part) if part else None for part in match.groups()))
    raise JSONPathError(f"{text!r}: cannot read [{inside}]")


def _make_field_step(name: str) -> _Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, dict) and name in value:
                yield value[name]

    return step


def _list_all_values(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value


def _descend(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        yield from _descend(_list_all_values([value]))


def _make_index_step(index: int) -> _Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list) and -len(value) <= index < len(value):
                yield value[index]

    return step


def _slice_step(start: int | None, stop: int | None = None, stride: int | None = None) -> _Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list):
                yield from value[start : stop : stride or 1]

    return step


def _make_union_step(steps: Sequence[_Step]) -> _Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            for each in steps:
                yield from each([value])

    return step


def _parse_filter(condition: str, text: str) -> _Step:
    match = _FILTER.fullmatch(condition)
    if match is None:
        if re.search("[=<>]", _QUOTED.sub("", condition)):
            raise JSONPathError(f"{text!r}: cannot read the filter {condition!r}")
        exists = _parse_operand(condition, text)
        return _make_filter_step(lambda item: exists(item) is not _MISSING)
    left, right = _parse_operand(match["left"].strip(), text), _parse_operand(match["right"].strip(), text)
    compare = _COMPARE[match["operator"]]

    def holds(item: Any) -> bool:
        element, other = left(item), right(item)
        if element is _MISSING or other is _MISSING:
            return False
        try:
            return compare(element, other)
        except TypeError:
            return False

    return _make_filter_step(holds)


def _make_filter_step(holds: Callable[[Any], bool]) -> _Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list):
                yield from (item for item in value if holds(item))

    return step


_MISSING: Final = object()
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda item, other: bool(item == other),
    "!=": lambda item, other: bool(item != other),
    "<": lambda item, other: bool(item < other),
    "<=": lambda item, other: bool(item <= other),
    ">": lambda item, other: bool(item > other),
    ">=": lambda item, other: bool(item >= other),
}


def _parse_operand(text: str, whole: str) -> Callable[[Any], Any]:
    """Parse one side of a comparison: `@.path`, a quoted string, a number, true or false."""
    if text.startswith("@"):
        find = compile_path(text)
        return lambda item: next(iter(find(item)), _MISSING)
    match = _QUOTED.fullmatch(text)
    if match:
        literal: Any = match[1] if match[1] is not None else match[2]
    elif text in ("true", "false"):
        literal = text == "true"
    else:
        try:
            literal = float(text) if "." in text else int(text)
        except ValueError:
            raise JSONPathError(f"{whole!r}: cannot read {text!r} in a filter") from None
    return lambda item: literal
