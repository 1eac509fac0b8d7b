"""Table of everything that the program remembers so that it does less work, with the maximum number and size of the
entries.

@remember(entries=…, longest=…) ──▶ a function that keeps the results of its latest arguments, except long arguments
Recent(entries=…, size=…)       ──▶ a map that forgets entries that are no longer used
SharedValues(entries=…)         ──▶ one object for equal values, until no object refers to it any more
register_limit(what, entries=…, bytes_each=…) ──▶ a line for what is remembered in another way   ──▶ REMEMBERED

A limit on the number of entries does not limit memory: texts that users write may be as large as an object. A test
compares the sum of the table with the memory of a manager, and finds code that remembers something without a line in
the table.

A limit does not keep memory constant either. A cache that drops entries only when it is full grows for days with
objects that were deleted long ago. So all caches forget entries that are no longer used, and the manager calls
`forget_unused()` every ten minutes: its memory follows the objects that exist, not their number in the past.
"""

from collections.abc import Callable, Hashable
from functools import update_wrapper
from sys import getrefcount
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import msgspec

__all__ = [
    "REMEMBERED",
    "UNUSED_S",
    "Recent",
    "Remembered",
    "SharedValues",
    "forget_unused",
    "register_limit",
    "remember",
]

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
"""Caches by name. A module registers its caches when it is imported."""

_ENTRY: Final = 512
"""Bytes of an entry without its texts: table slots and small objects."""
_PER_CHARACTER: Final = 3
"""Bytes for each character of the arguments: they are in the key, and most of them are in the result as well."""


def register_limit(what: str, *, entries: int, bytes_each: int) -> int:
    """Register a limit in the table; returns `entries`, for the code that applies it."""
    REMEMBERED[what] = Remembered(entries=entries, bytes_each=bytes_each)
    return entries


class Recent(Generic[K, V]):
    """A map of results that may be forgotten. It keeps entries that are looked up, and forgets the others.

    Entries are in two generations. When the younger generation is full, or `forget_unused()` is called, the older
    generation is dropped and the younger one takes its place; a lookup moves its entry to the younger one. `entries`
    and `size` limit both together; the caller chooses the unit of `size` (`put(size=…)`). Threads may share a map: a
    race loses at most some entries.
    """

    def __init__(self, *, entries: int, size: int = 0) -> None:
        self._most_entries = max(1, entries // 2)
        self._most_size = size // 2
        self._younger: dict[K, tuple[V, int]] = {}
        self._older: dict[K, tuple[V, int]] = {}
        self._size = 0
        """Size of the younger generation."""
        _MAPS.add(self)

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def get(self, key: K, default: V) -> V:
        """Return the value, or `default` for an unknown key."""
        entry = self._younger.get(key)
        if entry is None:
            entry = self._older.pop(key, None)
            if entry is None:
                return default
            self._store(key, entry)
        return entry[0]

    def put(self, key: K, value: V, *, size: int = 0) -> None:
        """Remember a value."""
        self._store(key, (value, size))

    def clear(self) -> None:
        """Forget everything."""
        self._younger, self._older, self._size = {}, {}, 0

    def _store(self, key: K, entry: tuple[V, int]) -> None:
        is_full = len(self._younger) >= self._most_entries
        if is_full or (self._most_size and self._size + entry[1] > self._most_size):
            self.rotate()
        self._size += entry[1]
        self._younger[key] = entry

    def rotate(self) -> None:
        """Forget the entries that were not looked up since the previous call."""
        self._older, self._younger, self._size = self._younger, {}, 0


_MAPS: Final[WeakSet[Recent[Any, Any]]] = WeakSet()
"""All maps of this process."""

UNUSED_S: Final = 600.0
"""Seconds between two calls of `forget_unused` in a program that runs for long."""


def forget_unused() -> None:
    """Forget all entries of all maps that were not looked up since the previous call."""
    for recent in tuple(_MAPS):
        recent.rotate()


_LEAST_SHARED: Final = 1_024
"""Number of shared values up to which nothing is dropped."""


class SharedValues:
    """Table of values that many objects share. `share(key, value)` returns the table's value for this key; if there is
    none, it stores the given value first.

    Call `trim()` from time to time: when the table has doubled, it drops values to which nothing else refers. If more
    than `entries` values are in use, the table is emptied; the objects that use these values keep them.
    """

    def __init__(self, *, entries: int) -> None:
        self.values: dict[Any, Any] = {}
        self.share = self.values.setdefault
        self._entries = entries
        self._room = min(_LEAST_SHARED, entries)

    def __len__(self) -> int:
        return len(self.values)

    def trim(self) -> None:
        """Drop unused values when the table is full."""
        if len(self.values) <= self._room:
            return
        for key in self._find_unused():
            del self.values[key]
        if len(self.values) > self._entries:
            self.values.clear()
        self._room = min(max(_LEAST_SHARED, 2 * len(self.values)), self._entries)

    def _find_unused(self) -> list[Any]:
        """Return the keys of values that only the table refers to."""
        own, paired = object(), object()
        self.values[own] = own
        self.values[_PAIRED] = paired
        del own, paired
        keys = list(self.values)
        references = [getrefcount(self.values[key]) for key in keys]
        # The last two values have no references but those of the table and of this function.
        lone, pair = references[-2:]
        return [
            key
            for key, count in zip(keys, references, strict=True)
            if count <= (lone if key is self.values[key] else pair)
        ]


_PAIRED: Final = object()


def remember(*, entries: int, longest: int) -> Callable[[F], F]:
    """Decorate a function of texts, and of tuples of texts, to remember the results of its latest arguments. Results
    for arguments with more than `longest` characters together are computed each time.
    """

    def over(function: F) -> F:
        what = f"{function.__module__}.{function.__qualname__}"
        register_limit(what, entries=entries, bytes_each=_ENTRY + _PER_CHARACTER * longest)
        known: Recent[Hashable, Any] = Recent(entries=entries)

        def recall(*args: Any, **options: Any) -> Any:
            if sum(map(_count_characters, args)) > longest:
                return function(*args, **options)
            key = (args, *options.items()) if options else args
            result = known.get(key, _UNKNOWN)
            if result is _UNKNOWN:
                result = function(*args, **options)
                known.put(key, result)
            return result

        update_wrapper(recall, function)
        recall.cache_clear = known.clear  # type: ignore[attr-defined]
        return recall  # type: ignore[return-value]

    return over


_UNKNOWN: Final = object()


def _count_characters(argument: Any) -> int:
    if isinstance(argument, str | bytes):
        return len(argument)
    return sum(map(_count_characters, argument)) if isinstance(argument, tuple) else 0
