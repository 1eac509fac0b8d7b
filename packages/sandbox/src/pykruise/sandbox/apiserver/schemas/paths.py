"""Where in a document, and what was found there: the words that all schema checks share.

A check walks a document with the path so far (a linked tuple, which costs next to nothing) and only
renders it when it has something to say.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykruise.kube.errors import Cause

Schema = Mapping[str, Any]
"""A node of an OpenAPI v3 schema, as a CRD holds it."""


Path = tuple[Any, str | int] | None
"""(path of the parent, property name or list index); None is the root."""

Found = list[tuple[Path, Cause]]
Check = Callable[[Any, Path, Found], None]
"""Adds to what was found whatever is wrong with a value at a path."""


class MapKey(str):
    """A path step into a map: some of the server's messages show it as `[key]` instead of `.key`."""

    __slots__ = ()


def accept(value: Any, path: Path, result: Found) -> None:
    """The check that nothing fails."""


def steps_of(path: Path) -> list[str | int]:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


def show(path: Path, *, brackets: bool = False) -> str:
    """`spec.items[0].name`; with `brackets` the keys of maps as `labels[app]`."""
    text = ""
    for step in steps_of(path):
        if isinstance(step, int) or (brackets and isinstance(step, MapKey)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def identity(value: Any) -> Any:
    """A hashable stand-in that is equal exactly when two JSON values are (true is not 1)."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("dict", frozenset((key, identity(item)) for key, item in value.items()))
    return value


def repeated(identities: Sequence[Any]) -> list[int]:
    """Indexes at which a value is seen the second time (not the third)."""
    times: dict[Any, int] = {}
    indexes = []
    for index, identity in enumerate(identities):
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:
            indexes.append(index)
    return indexes
