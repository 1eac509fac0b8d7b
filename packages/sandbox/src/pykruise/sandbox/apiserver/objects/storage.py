"""Storage of objects: shelves of immutable bytes, a history, and one revision that counts all writes.

writes.py ──▶ StorageChange(old, new) ──▶ Storage.commit() ──▶ history, for watches and paged lists

An object is stored once, as canonical JSON in its storage version with its resourceVersion in it, beside the few
facts that selectors need. Stored objects are immutable, so defensive copies are unnecessary.

The state at an earlier revision is computed: the later changes are undone in the current state. This is possible as far
back as the history of the shelf reaches. Older states have been compacted.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol, Self

import msgspec

from pykruise.kube.ids import Key

_FEW: Final = 1_000
"""Maximum number of changes for which inserting into a sorted list is faster than sorting the list again."""

NO_LABELS: Final[Mapping[str, str]] = {}


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One stored object."""

    key: Key
    raw: bytes
    """Canonical JSON (sorted keys) in the storage version, resourceVersion included."""
    revision: int
    uid: str
    labels: Mapping[str, str] = NO_LABELS
    fields: tuple[str, ...] = ()
    """Values of the resource's selectable fields, in the order of `CatalogEntry.selectable`."""
    managed: bytes = b""
    """Field managers (ownership.py); empty when none is known."""

    @property
    def path(self) -> str:
        """Sort key on the shelf."""
        return path_of(self.key)


class StorageChange(msgspec.Struct, frozen=True, gc=False):
    """One committed write. A creation has no `old`, and a removal has no `new`."""

    revision: int
    shelf: str
    old: Stored | None
    new: Stored | None

    @property
    def path(self) -> str:
        """Sort key of the object on the shelf."""
        stored = self.new or self.old
        assert stored is not None
        return stored.path


class Page(msgspec.Struct, frozen=True):
    """A part of a shelf at one revision, in order of namespace and name."""

    items: tuple[Stored, ...]
    revision: int
    following: int = 0
    """Number of objects after this page, whether or not a selector matches them."""


class Compacted(Exception):  # noqa: N818  (names a state of the history)
    """The history does not reach back that far. `oldest` is the first revision that is still known."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the history begins at revision {oldest}")
        self.oldest = oldest


class FutureRevision(Exception):  # noqa: N818
    """The revision has not been reached yet."""


class Storage(Protocol):
    """Operations that the API server needs for its objects. This module implements them in memory, and durable.py with
    a file.
    """

    @property
    def revision(self) -> int:
        """The newest revision. The next commit gets the next number."""
        ...

    def get(self, shelf: str, key: Key) -> Stored | None:
        """Return the current object."""
        ...

    def scan(
        self, shelf: str, *, namespace: str = "", start: str = "", limit: int = 0, revision: int = 0
    ) -> Page:
        """Return objects from `start` on (a path, inclusive), at most `limit` (0: all), as of `revision` (0: now).

        Raises Compacted or FutureRevision.
        """
        ...

    def commit(self, change: StorageChange) -> None:
        """Commit the change. Its revision must be one above the newest, and its `old` must be the current object."""
        ...

    def list_changes_since(self, shelf: str, revision: int) -> list[StorageChange]:
        """Return the changes of a shelf after `revision`, oldest first. Raises Compacted."""
        ...

    def compact(self, revision: int) -> None:
        """Forget the history up to and including `revision`."""
        ...


def path_of(key: Key) -> str:
    """Return `namespace/name` or `name`, which sorts as in a real API server's storage."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


class _Shelf:
    """The objects and the history of one resource."""

    __slots__ = ("bytes_kept", "compacted", "history", "objects", "order")

    def __init__(self, compacted: int) -> None:
        self.objects: dict[str, Stored] = {}
        self.order: list[str] = []
        self.history: deque[StorageChange] = deque()
        self.bytes_kept = 0
        self.compacted = compacted
        """The newest revision whose change is no longer in the history."""

    def forget_oldest(self) -> None:
        change = self.history.popleft()
        self.compacted = change.revision
        self.bytes_kept -= _compute_history_size(change)


class MemoryStorage:
    """A Storage in the memory of this process.

    `history_events` and `history_bytes` limit the history of each shelf (`history_bytes` does not affect the newest
    `MIN_HISTORY_EVENTS`). Older events are compacted, and watchers and paged lists that lag behind get 410.
    """

    MIN_HISTORY_EVENTS: Final = 1_000

    def __init__(
        self, *, history_events: int = 20_000, history_bytes: int = 64 << 20, first_revision: int = 1
    ) -> None:
        self._history_events = history_events
        self._history_bytes = history_bytes
        self._revision = first_revision
        self._compacted = 0
        self._shelves: dict[str, _Shelf] = {}

    @classmethod
    def restore(cls, objects: Iterable[tuple[str, Stored]], *, revision: int) -> Self:
        """A storage that holds these objects (each with its shelf) and has no history up to `revision`."""
        storage = cls(first_revision=revision)
        storage._compacted = revision
        for name, stored in objects:
            storage._get_shelf(name).objects[stored.path] = stored
        for shelf in storage._shelves.values():
            shelf.order = sorted(shelf.objects)
        return storage

    @property
    def revision(self) -> int:
        return self._revision

    def get(self, shelf: str, key: Key) -> Stored | None:
        result = self._shelves.get(shelf)
        return result.objects.get(path_of(key)) if result else None

    def scan(
        self, shelf: str, *, namespace: str = "", start: str = "", limit: int = 0, revision: int = 0
    ) -> Page:
        if revision > self._revision:
            raise FutureRevision
        result = self._get_shelf(shelf)
        if not result.objects and not result.history:
            return Page((), revision or self._revision)
        past = self._find_states_at(result, revision) if 0 < revision < self._revision else {}
        order, objects = _list_paths_at(result, past), result.objects
        first = max(start, f"{namespace}/") if namespace else start
        begin = bisect_left(order, first) if first else 0
        # "0" is the character after "/", so the range has everything of this namespace and nothing of "namespace-2".
        end = bisect_left(order, f"{namespace}0") if namespace else len(order)
        stop = min(end, begin + limit) if limit else end
        paths = islice(order, begin, stop)
        items = tuple(past.get(path) or objects[path] for path in paths)
        return Page(items, revision or self._revision, max(0, end - stop))

    def commit(self, change: StorageChange) -> None:
        if change.revision != self._revision + 1:
            raise ValueError(f"revision {change.revision} does not follow {self._revision}")
        shelf = self._get_shelf(change.shelf)
        path = change.path
        if change.new is None:
            del shelf.objects[path]
            del shelf.order[bisect_left(shelf.order, path)]
        else:
            if change.old is None:
                insort(shelf.order, path)
            shelf.objects[path] = change.new
        self._revision = change.revision
        shelf.history.append(change)
        shelf.bytes_kept += _compute_history_size(change)
        while len(shelf.history) > self._history_events or (
            shelf.bytes_kept > self._history_bytes and len(shelf.history) > self.MIN_HISTORY_EVENTS
        ):
            shelf.forget_oldest()

    def list_changes_since(self, shelf: str, revision: int) -> list[StorageChange]:
        result = self._get_shelf(shelf)
        if revision < result.compacted:
            raise Compacted(result.compacted + 1)
        return list(_iterate_changes_after(result, revision))[::-1]

    def compact(self, revision: int) -> None:
        revision = min(revision, self._revision)
        self._compacted = max(self._compacted, revision)
        for shelf in self._shelves.values():
            while shelf.history and shelf.history[0].revision <= revision:
                shelf.forget_oldest()
            shelf.compacted = max(shelf.compacted, revision)

    def _get_shelf(self, name: str) -> _Shelf:
        shelf = self._shelves.get(name)
        if shelf is None:
            shelf = self._shelves[name] = _Shelf(self._compacted)
        return shelf

    def _find_states_at(self, shelf: _Shelf, revision: int) -> Mapping[str, Stored | None]:
        """The states at `revision` of the objects that changed after it."""
        if revision < shelf.compacted:
            raise Compacted(shelf.compacted + 1)
        past: dict[str, Stored | None] = {}
        for change in _iterate_changes_after(shelf, revision):
            past[change.path] = change.old
        return past


def _list_paths_at(shelf: _Shelf, past: Mapping[str, Stored | None]) -> list[str]:
    """The sorted paths of all objects at the revision for which `_find_states_at` returned `past`."""
    if not past:
        return shelf.order
    created = [path for path, stored in past.items() if stored is None and path in shelf.objects]
    removed = [path for path, stored in past.items() if stored is not None and path not in shelf.objects]
    if not created and not removed:
        return shelf.order
    if len(created) + len(removed) > _FEW:
        return sorted({*shelf.objects, *removed} - set(created))
    order = shelf.order.copy()
    for path in created:
        del order[bisect_left(order, path)]
    for path in removed:
        insort(order, path)
    return order


def _iterate_changes_after(shelf: _Shelf, revision: int) -> Iterator[StorageChange]:
    """Changes after a revision, newest first."""
    for change in reversed(shelf.history):
        if change.revision <= revision:
            return
        yield change


def _compute_history_size(change: StorageChange) -> int:
    """Bytes that this change in the history keeps in memory: those of the object before the change."""
    return len(change.old.raw) if change.old else 0
