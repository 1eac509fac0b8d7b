"""Versions of an object that a manager may assume to be the current one.

versions by ascending revision + the revision that the manager has read ──▶ versions_since()
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def find_first_since(
    versions: Sequence[Any], known: int, *, revision_of: Callable[[Any], int] = attrgetter("revision")
) -> int:
    """Index of the version at revision `known`, or of the first version."""
    return max(0, bisect_right(versions, known, key=revision_of) - 1)


def versions_since(
    versions: list[T], known: int, *, revision_of: Callable[[Any], int] = attrgetter("revision")
) -> list[T]:
    """The version at revision `known` and all later ones."""
    return versions[find_first_since(versions, known, revision_of=revision_of) :]
