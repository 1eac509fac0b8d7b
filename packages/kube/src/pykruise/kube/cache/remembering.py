"""Table of everything that the program remembers to save work, with the number of entries and the size of the
largest.

@remember(entries=…, longest=…) ──▶ a function that keeps the results of its latest arguments, unless these are too
long
register_limit(what, entries=…, bytes_each=…) ──▶ a line for anything that is remembered differently ──▶ REMEMBERED

A limit on entries alone does not limit memory: texts that users write may be as large as an object. A test compares
the sum of the table with the memory of a manager, and finds code that remembers something without a line in the
table.
"""

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Final, TypeVar

import msgspec

__all__ = ["REMEMBERED", "Remembered", "register_limit", "remember"]

F = TypeVar("F", bound=Callable[..., Any])


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one cache."""

    entries: int
    bytes_each: int
    """Bytes of the largest entry: its key and everything that the entry references."""

    @property
    def bytes_at_most(self) -> int:
        """Upper limit for all entries together, in bytes."""
        return self.entries * self.bytes_each


REMEMBERED: Final[dict[str, Remembered]] = {}
"""Caches by name. A module registers its own when it is imported."""

_ENTRY: Final = 512
"""Bytes of an entry without its texts: table slots and small objects."""
_PER_CHARACTER: Final = 3
"""Bytes for each character of the arguments: they are in the key, and most of them are in the result as well."""


def register_limit(what: str, *, entries: int, bytes_each: int) -> int:
    """Register a limit in the table; returns `entries`, for the code that applies it."""
    REMEMBERED[what] = Remembered(entries=entries, bytes_each=bytes_each)
    return entries


def remember(*, entries: int, longest: int) -> Callable[[F], F]:
    """Decorate a function of texts, and of tuples of texts, to remember the results of its latest arguments. Results
    for arguments with more than `longest` characters together are computed each time.
    """

    def over(function: F) -> F:
        what = f"{function.__module__}.{function.__qualname__}"
        register_limit(what, entries=entries, bytes_each=_ENTRY + _PER_CHARACTER * longest)
        known = lru_cache(maxsize=entries)(function)

        def found(*args: Any, **options: Any) -> Any:
            if sum(map(_count_characters, args)) > longest:
                return function(*args, **options)
            return known(*args, **options)

        update_wrapper(found, function)
        found.cache_info = known.cache_info  # type: ignore[attr-defined]
        found.cache_clear = known.cache_clear  # type: ignore[attr-defined]
        return found  # type: ignore[return-value]

    return over


def _count_characters(argument: Any) -> int:
    if isinstance(argument, str | bytes):
        return len(argument)
    return sum(map(_count_characters, argument)) if isinstance(argument, tuple) else 0
