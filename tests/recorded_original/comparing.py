"""Differences of two results, and those that are not declared.

surprises(group, recorded, played) ──▶ lines for people; empty: the declared differences are exactly the real ones
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from pykruise.kube.values.quantities import is_same_quantity
from recorded_original.language import Group, Wanted
from recorded_original.playing import Outcome
from recorded_original.scenarios import EVERYWHERE

__all__ = ["differences", "surprises"]

Place = tuple[str, Any, Any]
"""Path in the outcome, what was recorded, what was played."""


def surprises(
    group: Group, recorded: Mapping[str, Outcome], played: Mapping[str, Outcome], *, version: str
) -> list[str]:
    """Differences that no `Wanted` covers, and each `Wanted` that covers none."""
    lines: list[str] = []
    everywhere = [wanted for wanted in EVERYWHERE if version in wanted.versions]
    of_group = [differ for differ in group.differs if version in differ.versions]
    shown = [*of_group, *(wanted for wanted in everywhere if wanted.shown_in == group.kind)]
    idle = {id(wanted): wanted for wanted in shown if wanted.versions[0] == version}
    for scenario in group.scenarios:
        if not scenario.is_played_in(version):
            continue
        if scenario.name not in recorded:
            lines.append(f"{scenario.name}: is not recorded: make record-original")
            continue
        places = list(differences(recorded[scenario.name], played[scenario.name]))
        own = [differ for differ in scenario.differs if version in differ.versions]
        lines += _of_scenario(scenario.name, places, own, [*of_group, *everywhere])
        for wanted in shown:
            if any(_covers(wanted, place) for place in places):
                idle.pop(id(wanted), None)
    known = {scenario.name for scenario in group.scenarios if scenario.is_played_in(version)}
    lines += [f"{name}: is recorded, but there is no such scenario" for name in recorded if name not in known]
    lines += [f"{group.kind}: nothing differs any more: {wanted.why}" for wanted in idle.values()]
    return lines


_BY_ENTRY: Final = ("/labels", "/annotations", "/conditions")


def differences(recorded: Any, played: Any, path: str = "") -> Iterator[Place]:
    """Differences of the two: path, recorded value, played value. Lists of texts are compared as sets, and maps of
    labels, annotations and conditions by their entries where one side has none."""
    if path.endswith(_BY_ENTRY):
        recorded = {} if recorded is _ABSENT else recorded
        played = {} if played is _ABSENT else played
    if isinstance(recorded, Mapping) and isinstance(played, Mapping):
        for name in sorted({*recorded, *played}):
            here = f"{path}/{name}" if path else name
            yield from differences(recorded.get(name, _ABSENT), played.get(name, _ABSENT), here)
    elif isinstance(recorded, list) and isinstance(played, list) and _are_texts(recorded + played):
        for text in sorted({*recorded, *played}):
            if (text in recorded) != (text in played):
                sides = (text, _ABSENT) if text in recorded else (_ABSENT, text)
                yield f"{path}/{text}", *sides
    elif isinstance(recorded, list) and isinstance(played, list) and len(recorded) == len(played):
        for position, (item, other) in enumerate(zip(recorded, played, strict=True)):
            yield from differences(item, other, f"{path}/{position}")
    elif recorded != played:
        yield path, recorded, played


def _are_texts(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _of_scenario(
    name: str, places: list[Place], own: Sequence[Wanted], shared: Sequence[Wanted]
) -> Iterator[str]:
    for place in places:
        path, recorded, played = place
        if not any(_covers(item, place) for item in (*own, *shared)):
            yield f"{name}: {path}\n    recorded: {_short(recorded)}\n    played:   {_short(played)}"
    for wanted in own:
        for pattern in wanted.at:
            if not any(fnmatchcase(path, _escaped(pattern)) for path, *_ in places):
                yield f"{name}: nothing differs any more at {pattern}: {wanted.why}"


def _covers(wanted: Wanted, place: Place) -> bool:
    path, recorded, played = place
    if not _SCOPES[wanted.only](recorded, played):
        return False
    return any(fnmatchcase(path, _escaped(pattern)) for pattern in wanted.at)


def _is_blank(value: Any) -> bool:
    """Whether the value is nothing, empty, or an object of such values."""
    if isinstance(value, Mapping):
        return all(_is_blank(item) for item in value.values())
    return value is _ABSENT or not value


def _escaped(pattern: str) -> str:
    """Only `*` is special: places have brackets of their own."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 600 else f"{text[:600]}…"


def _is_one_quantity(recorded: Any, played: Any) -> bool:
    if not (isinstance(recorded, str) and isinstance(played, str)):
        return False
    try:
        return is_same_quantity(recorded, played)
    except ValueError:
        return False


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT: Final = _Absent()
_SCOPES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "": lambda recorded, played: True,
    "blank": lambda recorded, played: _is_blank(recorded) and _is_blank(played),
    "both": lambda recorded, played: recorded is not _ABSENT and played is not _ABSENT,
    "more": lambda recorded, played: recorded is _ABSENT,
    "written": _is_one_quantity,
}
