"""Paths in a document and the errors at them: types that all schema checks share.

A check walks a document with the path so far (a linked tuple, which costs almost nothing), and renders the path
only when it reports an error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykruise.kube.errors import Cause

Schema = Mapping[str, Any]
"""A node of an OpenAPI v3 schema, as in a CRD."""


Path = tuple[Any, str | int] | None
"""(path of the parent, property name or list index); None is the root."""

Found = list[tuple[Path, Cause]]
Check = Callable[[Any, Path, Found], None]
"""Appends the errors of a value at a path to the list of errors."""


class MapKey(str):
    """A path step into a map; some of the server's messages show it as `[key]` instead of `.key`."""

    __slots__ = ()


def accept(value: Any, path: Path, result: Found) -> None:
    """A check that accepts every value."""


def steps_of(path: Path) -> list[str | int]:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


def show(path: Path, *, brackets: bool = False) -> str:
    """Format a path: `spec.items[0].name`. With `brackets`, keys of maps are shown as `labels[app]`."""
    text = ""
    for step in steps_of(path):
        if isinstance(step, int) or (brackets and isinstance(step, MapKey)):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def make_identity(value: Any) -> Any:
    """Return a hashable value that is equal for equal JSON values only (true is not 1)."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(make_identity(item) for item in value))
    if isinstance(value, dict):
        return ("dict", frozenset((key, make_identity(item)) for key, item in value.items()))
    return value


def find_repeated(identities: Sequence[Any]) -> list[int]:
    """Indexes at which a value occurs the second time (not the third)."""
    times: dict[Any, int] = {}
    indexes = []
    for index, identity in enumerate(identities):
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:
            indexes.append(index)
    return indexes
