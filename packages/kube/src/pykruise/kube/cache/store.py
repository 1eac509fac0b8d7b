"""The objects of one resource and their indexes. Prevents the watch from undoing writes of this program. Pure.

writes ─────put_written(), put_deleted()─────────────────┐
watch ──────apply_changed(), apply_deleted(), advance()──┼──▶ Store ──▶ get(), list_by_index(), values()  (snapshots)
lists ──────begin_list(), put_listed(), replace()────────┘    └──▶ on_change(Change), after store and indexes changed

A controller that plans from the store sees each of its own finished writes, without expectations or time-outs.

Three properties of a Kubernetes API server make this possible: resourceVersions of a resource are integers that grow
with every write; a watch sends all changes in that order; a uid is never reused.

**Position W.** The highest version that the watch (events, bookmarks) or a list has shown. All changes up to W have
been seen, including deletions.

**Writes of this program** (`put_written`, version R).
- R <= W: the response is old. The watch has already shown this version and perhaps later ones. The response is ignored,
  because an object that was created and deleted before the response arrived must not reappear.
- R > W: the object is put into the store and remembered as *pending*: key → R. Until the watch reaches R, events and
  list items of that key older than R are ignored, whichever uid they have. This covers late events of the previous
  version, of an earlier object of the same name, and of objects that were created and deleted in between.
- With selectors, a response with an object that does not match them removes the object from the store.
- The event that shows R itself brings nothing new and is not even decoded.
- When W passes R without an event for that key, the written object does not belong to this store's view: with a
  selector it is removed from the store. Without a selector the server has broken its guarantee: list again
  (`distrust`).

**Deletions by this program** (`put_deleted`). A DELETE that only marks the object (deletionTimestamp with finalizers or
a grace period) is just a newer version. A DELETE that removes the object removes it here and leaves a *tombstone*: no
event, and no item of a list that began before the response, restores that uid. The watch removes the tombstone with
DELETED. A list removes the tombstone when the list does not contain the object, and either the list began after the
response or the object was known at a version that the list covers. Recently DELETED uids are remembered (a bounded
ring), so a response that arrives after its event leaves no tombstone. The rare tombstones that nothing can confirm (an
object that was never in view) are removed with the first bookmark after five minutes.

**Lists** (the first one, or after 410) have a version L and replace everything that is not newer. Objects with a
version above L stay. Objects at or below L that are not in the list are deleted; so deletions during a gap of the watch
are reported as changes too.

**Events** older than or equal to the stored object of that key are ignored. DELETED removes an object only if the uid
is the same. An unexplained event below W (servers never send one) means that the order was broken: list again.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

import msgspec

from pykruise.kube.ids import Key

__all__ = ["Change", "Entry", "IndexFunction", "IndexValues", "Projected", "Store"]

_TOMBSTONE_S: Final = 300.0
"""Seconds after which a tombstone is removed that neither the watch nor a list can confirm."""

_LAG_S: Final = 120.0
"""Seconds for which a measured lag counts. Without a newer write of this program nothing measures the lag again."""

_MOST_DELETED_UIDS: Final = 1024
"""Uids that are remembered after their DELETED. Only a few responses to deletions arrive after the event."""

_DELETED_UID_S: Final = 600.0
"""Seconds for which these uids are remembered, far longer than a response takes."""


class Projected(Protocol):
    """Fields that every projected value has. `resource_version` is the object's resourceVersion as an integer."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Projected)

IndexFunction = Callable[[T], Iterable[Hashable]]
"""Returns the values under which an index lists a view."""

IndexValues = tuple[tuple[Hashable, ...], ...]
"""The index values of one object: for each index, the values under which the object is found."""

Entry = tuple[T, IndexValues]
"""A view with the values under which each index lists it."""


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Change of a key: added (`old` is None), changed, or removed (`new` is None).

    A change never mixes two objects: when an object replaces another of the same name, two changes are reported.
    """

    key: Key
    old: T | None
    new: T | None

    @property
    def latest(self) -> T:
        """The object as it is now or, when it was removed, its last state."""
        return self.new if self.new is not None else cast(T, self.old)  # a change has at least one of the two


class _Tombstone(msgspec.Struct, frozen=True, gc=False):
    known: int
    """The highest version that the object is known to have had; 0: none."""
    list_number: int
    """Number of lists that had begun when the tombstone was created."""
    made_at: float


class _Bucket(Generic[T]):
    """The objects of one index value, and a tuple of them that is built on demand."""

    __slots__ = ("members", "snapshot")

    def __init__(self) -> None:
        self.members: dict[Key, T] = {}
        self.snapshot: tuple[T, ...] | None = None


class _Index(Generic[T]):
    __slots__ = ("buckets", "values_of")

    def __init__(self, values_of: IndexFunction[T]) -> None:
        self.values_of = values_of
        self.buckets: dict[Hashable, _Bucket[T]] = {}

    def get(self, value: Hashable) -> tuple[T, ...]:
        bucket = self.buckets.get(value)
        if bucket is None:
            return ()
        if bucket.snapshot is None:
            bucket.snapshot = tuple(bucket.members.values())
        return bucket.snapshot

    def count(self, value: Hashable) -> int:
        bucket = self.buckets.get(value)
        return 0 if bucket is None else len(bucket.members)

    def swap(self, key: Key, old: T | None, new: T | None, values: tuple[Hashable, ...]) -> None:
        """Replace `old` by `new`, whose index values are `values`."""
        if old is not None:
            for value in self.values_of(old):
                if value not in values:
                    self._remove_value(value, key)
        if new is not None:
            for value in values:
                bucket = self.buckets.get(value)
                if bucket is None:
                    bucket = self.buckets[value] = _Bucket()
                bucket.members[key] = new
                bucket.snapshot = None

    def _remove_value(self, value: Hashable, key: Key) -> None:
        bucket = self.buckets.get(value)
        if bucket is None:
            return
        bucket.members.pop(key, None)
        bucket.snapshot = None
        if not bucket.members:
            del self.buckets[value]


class Store(Generic[T]):
    """Objects by key. See the module's text for the guarantees.

    `is_filtered`: its lists and watches have selectors. `now` returns seconds of a clock that never decreases.
    `on_change` must not change the store.
    """

    def __init__(
        self,
        indexes: Mapping[str, IndexFunction[T]],
        *,
        is_filtered: bool,
        now: Callable[[], float],
        on_change: Callable[[Change[T]], None],
    ) -> None:
        self.position = 0
        """Position W."""
        self.changed = 0
        """The version of the latest known change. A watch that has reached this version has shown all these changes."""
        self._sets = 0
        self.ignored = 0
        """Events and responses that were older than the known state."""
        self.distrust = ""
        """Reason why the watch cannot be trusted until a list replaces everything; empty: the watch can be trusted."""
        self._is_filtered = is_filtered
        self._now = now
        self._on_change = on_change
        self._objects: dict[Key, T] = {}
        self._indexes = {name: _Index(values_of) for name, values_of in indexes.items()}
        self._index_list = list(self._indexes.values())
        self.answered = 0
        """The highest version in the responses to writes of this program."""
        self._pending: dict[Key, int] = {}
        self._pending_order: list[tuple[int, Key]] = []  # heap; entries that are not in `pending` are invalid
        self._measured: tuple[int, float] | None = None  # version of a write, time of its response
        self._lag: tuple[float, float] | None = None  # seconds, time of the measurement
        self._tombstones: dict[str, _Tombstone] = {}
        self._deleted_uids: dict[str, float] = {}
        """Deleted UIDs and the times of their deletions, in this order."""
        self._list_number = 0

    # ── reading ──────────────────────────────────────────────────────────────

    def get(self, key: Key) -> T | None:
        """Return the object with that key, or None."""
        return self._objects.get(key)

    def list_by_index(self, index: str, value: Hashable) -> tuple[T, ...]:
        """Return the objects for which the index function returned `value`, as a snapshot. Raises KeyError for an
        unknown index.
        """
        return self._indexes[index].get(value)

    def count(self, index: str, value: Hashable) -> int:
        """Return the number of objects that `list_by_index` returns. Raises KeyError for an unknown index."""
        return self._indexes[index].count(value)

    def values(self) -> tuple[T, ...]:
        """Return a snapshot of all objects."""
        return tuple(self._objects.values())

    def keys(self) -> tuple[Key, ...]:
        """Return a snapshot of the keys of all objects."""
        return tuple(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def pending_count(self) -> int:
        """Writes of this program that the watch has not reached yet."""
        return len(self._pending)

    @property
    def lag_s(self) -> float:
        """Seconds that the watch takes to show a write of this program: the last measurement, if it is younger than two
        minutes. If a write is not shown yet and has waited longer, its wait. 0: not measured.
        """
        if self._measured is None and self._lag is None:
            return 0.0  # stats can be read without an event loop, but not its clock
        now = self._now()
        waited_s = now - self._measured[1] if self._measured is not None else 0.0
        if self._lag is None or now - self._lag[1] >= _LAG_S:
            return waited_s
        return max(self._lag[0], waited_s)

    @property
    def tombstone_count(self) -> int:
        """Deletions by this program that the watch has not confirmed yet."""
        return len(self._tombstones)

    @property
    def floor(self) -> int:
        """A list below this version is stale."""
        return max(self.position, self.answered)

    def index_values(self, obj: T) -> IndexValues:
        """Return the index values of `obj`. Raises the errors of index functions, and TypeError for values without a
        hash.
        """
        if not self._index_list:
            return ()
        values = tuple([tuple(index.values_of(obj)) for index in self._index_list])
        hash(values)
        return values

    # ── writes of this program ───────────────────────────────────────────────

    def put_written(self, key: Key, obj: T, values: IndexValues, *, matches: bool) -> None:
        """Put the object in the response to a write into the store. `matches`: whether the selectors match it."""
        version = obj.resource_version
        self.answered = max(self.answered, version)
        if (
            version <= self.position
            or version <= self._pending.get(key, 0)
            or (self._tombstones and obj.uid in self._tombstones)
        ):
            self.ignored += 1
            return
        if matches:
            self._set(key, obj, values)
        elif key in self._objects:
            self._set(key, None, ())
        self._pending[key] = version
        heapq.heappush(self._pending_order, (version, key))
        if self._measured is None:  # one measurement at a time is enough to know the lag
            self._measured = (version, self._now())

    def put_deleted(self, key: Key, uid: str, *, known: int) -> None:
        """Remove the object `uid` after the response to a deletion by this program. `known`: a version that the object
        is known to have had; 0: none.
        """
        self.answered = max(self.answered, known)
        old = self._objects.get(key)
        if old is not None and old.uid == uid:
            known = max(known, old.resource_version)
            self._set(key, None, ())
        elif uid in self._tombstones or uid in self._deleted_uids or 0 < known <= self.position:
            # The known version has been passed and the object is not stored, so its event DELETED has been seen.
            self.ignored += 1
            return
        self._tombstones[uid] = _Tombstone(known, self._list_number, self._now())

    # ── watch events ─────────────────────────────────────────────────────────

    def find_next_pending(self) -> tuple[int, T] | None:
        """Return the write of this program that the watch should show next: its version, and the object if this or a
        later version is stored.

        An event of exactly that version brings nothing new: within a resource each version belongs to one write.
        """
        if not self._pending_order:
            return None
        version, key = self._pending_order[0]
        held = self._objects.get(key)
        if held is None or held.resource_version < version:
            return None
        return version, held

    def confirm_pending(self) -> None:
        """Note that the watch has shown the write that `find_next_pending` returns."""
        version, key = self._pending_order[0]
        self.ignored += 1
        self._confirm_write(key, version)
        self.advance(version)

    def apply_changed(self, key: Key, obj: T, values: IndexValues) -> None:
        """Apply ADDED or MODIFIED."""
        if self._is_news(key, obj):
            self._set(key, obj, values)
        else:
            self.ignored += 1
        if obj.resource_version > self.position:
            self.advance(obj.resource_version)

    def apply_deleted(self, key: Key, uid: str, version: int) -> None:
        """Apply DELETED; `version` is the version of the deletion."""
        self._tombstones.pop(uid, None)
        self._remember_deleted(uid)
        old = self._objects.get(key)
        if old is None or old.uid != uid or (self._is_filtered and version < old.resource_version):
            # With a selector, DELETED may mean that the object left the view, and it may have returned since.
            self.ignored += 1
        else:
            self._set(key, None, ())
        if version > self.position:
            self.advance(version)

    def apply_unreadable(self, key: Key, version: int) -> None:
        """Apply ADDED or MODIFIED of an object that cannot be read: its version counts as seen, the stored object
        stays.
        """
        if self._pending:
            self._confirm_write(key, version)
        if version > self.position:
            self.advance(version)

    def apply_bookmark(self, version: int) -> None:
        """Apply BOOKMARK."""
        if version > self.position:
            changed = self.changed
            self.advance(version)
            self.changed = changed  # a bookmark is not a change
        if self._tombstones:
            before = self._now() - _TOMBSTONE_S
            for uid in [uid for uid, stone in self._tombstones.items() if stone.made_at < before]:
                del self._tombstones[uid]

    def advance(self, version: int) -> None:
        """Set the position: the watch has shown everything up to `version`."""
        self.position = self.changed = version
        self._end_measurement()
        order = self._pending_order
        while order and order[0][0] <= version:
            written, key = heapq.heappop(order)
            if self._pending.get(key) == written:
                del self._pending[key]
                self._end_unconfirmed(key, written)

    def _end_measurement(self) -> None:
        """End the measurement of the lag if the position has reached its write."""
        if self._measured is not None and self._measured[0] <= self.position:
            now = self._now()
            self._lag = (now - self._measured[1], now)
            self._measured = None

    def _is_news(self, key: Key, obj: T) -> bool:
        version = obj.resource_version
        if self._pending and not self._confirm_write(key, version):
            return False
        if self._tombstones and obj.uid in self._tombstones:
            return False
        old = self._objects.get(key)
        if old is not None:
            return old.resource_version < version
        if version > self.position:
            return True
        # An event of a deleted uid is a repetition. Any other event came too late: the order was broken.
        if obj.uid not in self._deleted_uids:
            self.distrust = f"the watch delivered {key} with resourceVersion {version} after {self.position}"
        return False

    def _confirm_write(self, key: Key, version: int) -> bool:
        """Whether no newer write of this program to that key is pending. Confirms a pending write up to `version`."""
        pending = self._pending.get(key)
        if pending is None:
            return True
        if version < pending:
            return False
        del self._pending[key]
        return True

    def _end_unconfirmed(self, key: Key, written: int) -> None:
        """Handle a write of this program that the watch has passed without showing it: the object is not in the store's
        view.
        """
        old = self._objects.get(key)
        if old is None or old.resource_version != written:
            return
        if self._is_filtered:
            self._set(key, None, ())
        else:
            self.distrust = f"the watch did not deliver the write of {key} with resourceVersion {written}"

    # ── lists ────────────────────────────────────────────────────────────────

    def begin_list(self) -> int:
        """Begin a list and return its number."""
        self._list_number += 1
        return self._list_number

    def put_listed(self, key: Key, obj: T, values: IndexValues, *, number: int) -> None:
        """Put one item of a list whose version is not older than `floor`."""
        if self._is_listed_news(key, obj, number):
            self._set(key, obj, values)

    def replace(
        self, version: int, listed: Sequence[Entry[T]], unreadable: Iterable[Key], *, number: int
    ) -> None:
        """Replace the objects by a whole list. `unreadable`: keys of items that could not be read; their stored
        objects stay.
        """
        sets = self._sets
        seen: set[Key] = set(unreadable)
        uids: set[str] = set()
        for obj, values in listed:
            key = Key(obj.namespace, obj.name)
            seen.add(key)
            uids.add(obj.uid)
            self.put_listed(key, obj, values, number=number)
        for key, old in list(self._objects.items()):
            if key not in seen and old.resource_version <= version:
                self._remember_deleted(old.uid)
                self._set(key, None, ())
        self._clear_tombstones(version, uids, number)
        self._pending = {key: written for key, written in self._pending.items() if written > version}
        self._pending_order = [(written, key) for key, written in self._pending.items()]
        heapq.heapify(self._pending_order)
        # A change that the watch missed, or a deletion before the first list, may have any version up to this one.
        if self._sets != sets or not self.position:
            self.changed = max(self.changed, version)
        self.position = max(self.position, version)
        self._end_measurement()
        self.distrust = ""

    def reset(self) -> None:
        """Forget every version and object: the server's versions have started again below the known ones."""
        self.position = self.changed = 0
        self.answered = 0
        self._measured = None
        self._pending.clear()
        self._pending_order.clear()
        self._tombstones.clear()
        self._deleted_uids.clear()
        for key in list(self._objects):
            self._set(key, None, ())

    def _is_listed_news(self, key: Key, obj: T, number: int) -> bool:
        if obj.resource_version < self._pending.get(key, 0):
            return False
        stone = self._tombstones.get(obj.uid)
        if stone is not None and stone.list_number >= number:
            return False
        old = self._objects.get(key)
        return old is None or old.resource_version < obj.resource_version

    def _clear_tombstones(self, version: int, listed: set[str], number: int) -> None:
        for uid, stone in list(self._tombstones.items()):
            is_newer_list = stone.list_number < number  # the list began after the response to the deletion
            if uid in listed:
                # If the list is newer, the object still exists. If the list is older, DELETED will still arrive.
                if is_newer_list:
                    del self._tombstones[uid]
            elif is_newer_list or 0 < stone.known <= version:
                # The list does not contain the object, although it began later or covers a version that the object had:
                # the watch will not send DELETED any more.
                del self._tombstones[uid]
                self._remember_deleted(uid)

    # ── changing ─────────────────────────────────────────────────────────────

    def _set(self, key: Key, new: T | None, values: IndexValues) -> None:
        """Put `new` at `key`, or remove the key when it is None, in objects and indexes."""
        self._sets += 1
        old = self._objects.get(key)
        if new is None:
            self._objects.pop(key, None)
            for index in self._index_list:
                index.swap(key, old, None, ())
        else:
            self._objects[key] = new
            for index, of_index in zip(self._index_list, values, strict=True):
                index.swap(key, old, new, of_index)
        if old is not None and new is not None and old.uid != new.uid:
            self._remember_deleted(old.uid)
            self._on_change(Change(key, old, None))
            self._on_change(Change(key, None, new))
        else:
            self._on_change(Change(key, old, new))

    def _remember_deleted(self, uid: str) -> None:
        now = self._now()
        self._deleted_uids.setdefault(uid, now)
        while self._deleted_uids:
            oldest, deleted_at = next(iter(self._deleted_uids.items()))
            if len(self._deleted_uids) <= _MOST_DELETED_UIDS and now - deleted_at < _DELETED_UID_S:
                break
            del self._deleted_uids[oldest]
