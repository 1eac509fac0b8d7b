"""Everything that the program remembers to save work, in one table: how many entries, and how large the largest.

@remember(entries=…, longest=…) ──▶ a function that knows the results of its latest arguments, none of them too long
remembers(what, entries=…, bytes_each=…) ──▶ a line for what is remembered in another way      ──▶ REMEMBERED

A bound on entries alone bounds no memory: what users write may be as large as an object. A test sums the table against
the memory that a manager has, and finds what remembers without a line in it.
"""

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Final, TypeVar

import msgspec

__all__ = ["REMEMBERED", "Remembered", "remember", "remembers"]

F = TypeVar("F", bound=Callable[..., Any])


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one cache."""

    entries: int
    bytes_each: int
    """Bytes of the largest entry: its key and everything that the entry references."""

    @property
    def bytes_at_most(self) -> int:
        """All of it."""
        return self.entries * self.bytes_each


REMEMBERED: Final[dict[str, Remembered]] = {}
"""Caches by name; a module registers its own when it is loaded."""

_ENTRY: Final = 512
"""Bytes of an entry without its texts: places in tables, and small objects."""
_PER_CHARACTER: Final = 3
"""Bytes for each character of the arguments: they are in the key, and most of them in the result as well."""


def remembers(what: str, *, entries: int, bytes_each: int) -> int:
    """Say that so much is remembered; returns `entries`, for whoever keeps to it."""
    REMEMBERED[what] = Remembered(entries=entries, bytes_each=bytes_each)
    return entries


def remember(*, entries: int, longest: int) -> Callable[[F], F]:
    """A function of texts, and of tuples of them, that remembers the results of its latest arguments. Those with more
    than `longest` characters together are worked out each time."""

    def over(function: F) -> F:
        what = f"{function.__module__}.{function.__qualname__}"
        remembers(what, entries=entries, bytes_each=_ENTRY + _PER_CHARACTER * longest)
        known = lru_cache(maxsize=entries)(function)

        def found(*args: Any, **options: Any) -> Any:
            if sum(map(_size, args)) > longest:
                return function(*args, **options)
            return known(*args, **options)

        update_wrapper(found, function)
        found.cache_info = known.cache_info  # type: ignore[attr-defined]
        found.cache_clear = known.cache_clear  # type: ignore[attr-defined]
        return found  # type: ignore[return-value]

    return over


def _size(argument: Any) -> int:
    if isinstance(argument, str | bytes):
        return len(argument)
    return sum(map(_size, argument)) if isinstance(argument, tuple) else 0
