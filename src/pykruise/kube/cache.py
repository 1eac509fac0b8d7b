"""A mirror of one resource: list + watch, projected values, indexes, and one's own writes at once.

API server ──list, watch──▶ Cache.run() ──▶ store + indexes ──▶ get(), by_index(), values()  (snapshots)
Writer ──observe_written(), observe_deleted()──▶      └──▶ Change ──▶ subscribed handlers    (wake a key)

Each object is decoded once per event, straight from bytes into a small value T by `project`; nothing else of
it is kept. Who plans from the cache sees every finished write of their own: no expectations, no time-outs.

How that is made sure. Three facts about a Kubernetes API server carry it: resourceVersions of a resource are
integers that grow with every write; a watch tells all changes in that order; a uid never comes back.

**Position W.** The highest version that the watch (events, bookmarks) or a list has shown. Everything up to W
has been told, also what is not there any more.

**Own writes** (`observe_written`, version R).
- R <= W: old news; the watch has told this version and perhaps what came after it. Ignored: an object created
  and deleted again before the answer arrived must not come back.
- R > W: put into the store, and remembered as *pending*: key → R. Until the watch reaches R, events and list
  items of that key older than R are ignored, whichever uid they have. That covers late events of the version
  before, of an earlier object of the same name, and of objects that came and went in between.
- With selectors, an answer that does not match them takes the object out instead.
- The event that shows R itself brings nothing new and is not even read.
- When W passes R without an event for that key, the write's result is not in this cache's view: it leaves the
  store again if there is a selector. Without one a server has broken its promise: list again.

**Own deletions** (`observe_deleted`). A DELETE that only marks the object (deletionTimestamp with finalizers
or a grace period) is just a newer version. One that ends it removes it and leaves a *tombstone*: no event and
no item of a list begun before the answer brings that uid back. The watch takes the tombstone away with
DELETED, a list with its version: absent from a list begun after the answer, or absent although known at that
version. uids whose DELETED came lately are remembered (a bounded ring), so an answer that is later than its
event leaves none. Rare tombstones that nothing can confirm (an object that never was in view) go with the
first bookmark after five minutes.

**Lists** (first, or after 410) have a version L and replace what is not newer: cached objects with a version
above L stay, absent ones at or below L are gone (deletions that a gap hid are notified like others). Always
consistent reads; `resourceVersion=0` could be older than a write of one's own. A list below W, or below the
version of a write answered before it began, is stale and is asked for again; if that goes on, the storage of
the cluster was set back (restored from a backup), and what the server says is taken as it is.

**Events** older than or equal to what is held for that key are ignored. DELETED removes only its own uid.
An event behind W that nothing explains (servers never do that) means the order was broken: list again.
An object that cannot be read keeps its last readable value; W moves on, the count `unreadable` tells.

**Pace.** With a pace, what comes in a crowd waits a moment and is read together (event_batching.py). Order is kept, and
whoever asks the cache has all of it read first, so this is as if it had taken that moment longer to arrive.

**Faults.** The stream's normal end: watch again from W. 410 in any form: list. Cut connections, 429, 5xx,
401: wait (exponential with jitter, at most 30 s, Retry-After honoured, reset by progress), then watch from W.
404 (the CRD is not there yet): keep asking; what is known is kept, an error never reads as "nothing there".
"""

import asyncio
import heapq
import logging
import random
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Generic, Never, Protocol, TypeVar

import msgspec

from pykruise.kube.client import Client, WatchEvent
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.documents import Document, decode, get_path, labels_of
from pykruise.kube.errors import (
    ApiError,
    BadRequestError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    RequestTimeoutError,
)
from pykruise.kube.event_batching import Inbox, Pace
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import parse_field_selector, parse_label_selector

__all__ = ["Cache", "CacheStats", "Change", "Projected"]

_log = logging.getLogger(__name__)

IDLE_TIMEOUT_S = 120.0
"""A watch that is silent this long is opened again. A real API server sends a bookmark about once a minute to
who asks for them, so two have been missed; it does not promise them, but opening again costs one request and
loses nothing (it goes on from W), and the server ends every watch after some minutes anyway."""

BACKOFF_BASE_S = 0.2
BACKOFF_CAP_S = 30.0
_RETRY_AFTER_CAP_S = 300.0
_HEALTHY_S = 5.0  # a watch that was open this long ends a row of failures
_STALE_LISTS = 5  # that many stale lists in a row: the server's storage was set back
_TOMBSTONE_S = 300.0  # for tombstones that neither the watch nor a list can confirm
_DEPARTED = 1024  # uids remembered after their DELETED; answers to deletions are late by a few at most
_HEAD = 1024  # bytes of an event in which its object's version is looked for
_VERSION = re.compile(rb'"resourceVersion":"([0-9]+)"')
_SLICE = 128  # events or list items handled before other tasks get their turn


class Projected(Protocol):
    """What every projected value has. `resource_version` is the object's, as an integer."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Projected)

Project = Callable[[bytes | msgspec.Raw], T]
IndexFunction = Callable[[T], Iterable[Hashable]]


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """What happened to a key: added (`old` is None), changed, or removed (`new` is None).

    It never mixes two objects: one that replaced another of the same name comes as two changes.
    """

    key: Key
    old: T | None
    new: T | None


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a cache is."""

    synced: bool
    """The first list has been taken over."""
    connected: bool
    """A watch is open."""
    objects: int
    position: int
    """W: everything up to this resourceVersion has been seen."""
    pending: int
    """Own writes that the watch has not reached yet."""
    lag_s: float
    """How long the watch took to show an own write, the last time that was measured; 0: never measured."""
    tombstones: int
    """Own deletions that the watch has not confirmed yet."""
    events: int
    """Events and bookmarks received."""
    ignored: int
    """Events and answers that were older than what was known, or not of this cache."""
    unreadable: int
    """Objects that `project` or an index function refused."""
    relists: int
    """Lists after the first."""
    reconnects: int
    """Watches opened after the first."""
    errors: int
    """Lists and watches that failed."""
    handler_failures: int
    last_event_at: Instant | None
    last_error: str
    """Why there is no watch now; empty while one is open."""
    last_code: int = 0
    """... its HTTP status where the server refused (404: not served, 403: no right); else 0."""


class _Meta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None


class _Details(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    """What all objects have, and the one thing of a Status that matters here: which uid it is about."""

    kind: str = ""
    metadata: _Meta = _Meta()
    details: _Details | None = None

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def version(self) -> int:
        return int(self.metadata.resource_version)

    @property
    def is_finished(self) -> bool:
        """Terminating with nothing left to wait for: the API server removes it with the very write.

        The grace period must be there and 0: Namespaces have none, and wait for `spec.finalizers`.
        """
        meta = self.metadata
        return bool(
            meta.deletion_timestamp and not meta.finalizers and meta.deletion_grace_period_seconds == 0
        )


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class _Tombstone(msgspec.Struct, frozen=True, gc=False):
    known: int
    """The highest version that the object is known to have had; 0: none."""
    list_number: int
    """How many lists had begun when it was made."""
    made_at: float
    """Loop time."""


class _DistrustError(Exception):
    """The order of events was broken, or a list is older than what is known."""


class _Bucket(Generic[T]):
    """The objects of one index value, and a tuple of them that is made when somebody asks."""

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

    def swap(self, key: Key, old: T | None, new: T | None, values: tuple[Hashable, ...]) -> None:
        """Put `new`, whose values are `values`, in the place of `old`."""
        if old is not None:
            for value in self.values_of(old):
                if value not in values:
                    self._remove(value, key)
        if new is not None:
            for value in values:
                bucket = self.buckets.get(value)
                if bucket is None:
                    bucket = self.buckets[value] = _Bucket()
                bucket.members[key] = new
                bucket.snapshot = None

    def _remove(self, value: Hashable, key: Key) -> None:
        bucket = self.buckets.get(value)
        if bucket is None:
            return
        bucket.members.pop(key, None)
        bucket.snapshot = None
        if not bucket.members:
            del self.buckets[value]


class _View:
    """What selectors let through, for answers that come from elsewhere than list and watch."""

    def __init__(self, label_selector: str, field_selector: str) -> None:
        self._labels = parse_label_selector(label_selector)
        self._fields = parse_field_selector(field_selector)

    def has(self, raw: bytes) -> bool:
        doc = decode(raw)
        return self._labels.matches(labels_of(doc)) and self._fields.matches(lambda path: _field(doc, path))


def _field(doc: Document, path: str) -> str:
    """The value of a field as field selectors see it: `spec.nodeName`; empty when it is not set."""
    value = get_path(doc, *path.split("."), default="")
    return str(value).lower() if isinstance(value, bool) else str(value)


_Values = tuple[tuple[Hashable, ...], ...]
"""Of one object: for each index, the values under which it is found."""


class Cache(Generic[T]):
    """A mirror of one resource. See the module's text for what it promises.

    `project` makes a T of an object's JSON; it must copy what it keeps. `indexes` are pure functions from T
    to the values under which it is found (asked again with the same T when it is removed). Both may raise:
    such an object is counted as unreadable. `namespace=""` means all. `idle_timeout_s`: see IDLE_TIMEOUT_S.
    `pace`: how what comes in a crowd is read; None: all of it at once.
    Raises SelectorError for a selector that cannot be parsed.

    All methods belong to one event loop. Reading is possible at any time, also before `run()` (own writes
    only) and after it was cancelled (the last state); `run()` again goes on where it stopped.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        project: Project[T],
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        clock: Clock,
        rng: random.Random,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        pace: Pace | None = None,
    ) -> None:
        self.resource = resource
        self._client = client
        self._project = project
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._view = _View(label_selector, field_selector) if label_selector or field_selector else None
        self._clock = clock
        self._rng = rng
        self._idle_timeout_s = idle_timeout_s
        self._inbox = Inbox(pace)

        self._objects: dict[Key, T] = {}
        self._indexes = {name: _Index(values_of) for name, values_of in (indexes or {}).items()}
        self._index_list = list(self._indexes.values())

        self._position = 0
        self._answered = 0  # highest version an own write was answered with
        self._pending: dict[Key, int] = {}
        self._pending_order: list[tuple[int, Key]] = []  # heap; entries that `pending` does not have are void
        self._measured: tuple[int, float] | None = None  # an own write, and when its answer came
        self._lag_s = 0.0
        self._tombstones: dict[str, _Tombstone] = {}
        self._departed: dict[str, None] = {}
        self._list_number = 0
        self._stale_lists = 0
        self._must_list = True
        self._distrust = ""  # why what the watch says cannot be relied on any more
        self._end_watch: Callable[[], None] = _nothing

        self._handlers: tuple[Callable[[Change[T]], None], ...] = ()
        self._outbox: deque[Change[T]] = deque()
        self._is_delivering = False

        self._synced = asyncio.Event()
        self._is_running = False
        self._is_connected = False
        self._has_progressed = False
        self._open_s = 0.0
        self._failures = 0
        self._events = 0
        self._ignored = 0
        self._unreadable = 0
        self._lists = 0
        self._watches = 0
        self._errors = 0
        self._handler_failures = 0
        self._last_event_at: Instant | None = None
        self._last_error = ""
        self._last_code = 0
        self._told_error = ""
        self._was_gone = False

    # ── reading ──────────────────────────────────────────────────────────────

    def get(self, key: Key) -> T | None:
        """The object of that key, or None when there is none."""
        if self._inbox.waiting:
            self._inbox.empty()
        return self._objects.get(key)

    def by_index(self, index: str, value: Hashable) -> Sequence[T]:
        """The objects for which the index function gave `value`; a snapshot that later events do not change.

        O(1) while nothing changed under that value, else a copy of references. Raises KeyError for an index
        this cache does not have.
        """
        if self._inbox.waiting:
            self._inbox.empty()
        return self._indexes[index].get(value)

    def values(self) -> Sequence[T]:
        """All objects; a snapshot."""
        self._inbox.empty()
        return tuple(self._objects.values())

    def __len__(self) -> int:
        self._inbox.empty()
        return len(self._objects)

    @property
    def synced(self) -> bool:
        """True once the first list has been taken over; stays true."""
        return self._synced.is_set()

    @property
    def is_connected(self) -> bool:
        """Whether its watch is open: only then does it hold what was stored a moment ago."""
        return self._is_connected

    async def wait_synced(self) -> None:
        """Return when `synced`."""
        await self._synced.wait()

    def subscribe(self, handler: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `handler` with every change from now on; returns what ends that.

        Handlers are called one after another, in the order of changes, when store and indexes have them
        (after a list: when all of it is in). One that raises is logged and counted; the others still hear it.
        """
        self._handlers = (*self._handlers, handler)

        def unsubscribe() -> None:
            self._handlers = tuple(other for other in self._handlers if other is not handler)

        return unsubscribe

    async def redeliver(self) -> None:
        """Tell handlers every object once more, as a change from itself to itself, in small portions."""
        self._inbox.empty()
        keys = tuple(self._objects)
        for start in range(0, len(keys), _SLICE):
            for key in keys[start : start + _SLICE]:
                held = self._objects.get(key)
                if held is not None:
                    self._outbox.append(Change(key, held, held))
            self._deliver()
            await asyncio.sleep(0)

    @property
    def position(self) -> int:
        """The version of the cluster that has been followed so far."""
        self._inbox.empty()
        return self._position

    def stats(self) -> CacheStats:
        """How it is now."""
        self._inbox.empty()
        return CacheStats(
            synced=self.synced,
            connected=self._is_connected,
            objects=len(self._objects),
            position=self._position,
            pending=len(self._pending),
            lag_s=self._lag_s,
            tombstones=len(self._tombstones),
            events=self._events,
            ignored=self._ignored,
            unreadable=self._unreadable,
            relists=max(0, self._lists - 1),
            reconnects=max(0, self._watches - 1),
            errors=self._errors,
            handler_failures=self._handler_failures,
            last_event_at=self._last_event_at,
            last_error=self._last_error,
            last_code=self._last_code,
        )

    # ── own writes ───────────────────────────────────────────────────────────

    def observe_written(self, raw: bytes) -> None:
        """The object as a write (or a read of a single object) returned it. Never raises.

        A write that takes the last finalizer off a terminating object ends it; its answer is recognized.
        """
        self._inbox.put(self._take_written, raw)

    def _take_written(self, raw: bytes) -> None:
        try:
            obj, values = self._read(raw)
            is_finished = b'"deletionTimestamp"' in raw and _decode_envelope(raw).is_finished
        except Exception as error:
            self._note_unreadable(raw, error)
            return
        key = Key(obj.namespace, obj.name)
        if not obj.uid or not self._covers(key):
            self._ignored += 1
        elif is_finished:
            self._bury(key, obj.uid, known=obj.resource_version)
        else:
            self._put_written(key, obj, values, raw)
        self._deliver()

    def observe_deleted(self, key: Key, uid: str, raw: bytes) -> None:
        """The answer to a DELETE of the object `uid`; b"" when the server said it is not there. Never raises.

        An object that was only marked (finalizers, a grace period) is taken like any write's answer; all else
        (a Status, an object not marked or with nothing to wait for) means that `uid` is gone for good.
        Without a uid, neither here nor in the answer, it cannot be told from a successor: ignored.
        """
        self._inbox.put(self._take_deleted, (key, uid, raw))

    def _take_deleted(self, answer: tuple[Key, str, bytes]) -> None:
        key, uid, raw = answer
        if not raw:
            self._bury_covered(key, uid, known=0)
            return
        try:
            envelope = _decode_envelope(raw)
            if envelope.kind == "Status":
                self._bury_covered(key, uid or (envelope.details.uid if envelope.details else ""), known=0)
            elif envelope.metadata.deletion_timestamp is None or envelope.is_finished:
                known = envelope.version if envelope.metadata.resource_version else 0
                self._bury_covered(key, uid or envelope.metadata.uid, known=known)
            else:
                self._take_written(raw)
        except (msgspec.DecodeError, ValueError) as error:
            self._note_unreadable(raw, error)

    def _put_written(self, key: Key, obj: T, values: _Values, raw: bytes) -> None:
        version = obj.resource_version
        self._answered = max(self._answered, version)
        if (
            version <= self._position
            or version <= self._pending.get(key, 0)
            or (self._tombstones and obj.uid in self._tombstones)
        ):
            self._ignored += 1
            return
        if self._view is None or self._view.has(raw):
            self._set(key, obj, values)
        elif key in self._objects:
            self._set(key, None, ())
        self._pending[key] = version
        heapq.heappush(self._pending_order, (version, key))
        if self._measured is None:  # one at a time is enough to know the lag
            self._measured = (version, asyncio.get_running_loop().time())

    def _bury_covered(self, key: Key, uid: str, *, known: int) -> None:
        if uid and self._covers(key):
            self._bury(Key(*key), uid, known=known)
            self._deliver()
        else:
            self._ignored += 1

    def _bury(self, key: Key, uid: str, *, known: int) -> None:
        self._answered = max(self._answered, known)
        old = self._objects.get(key)
        if old is not None and old.uid == uid:
            known = max(known, old.resource_version)
            self._set(key, None, ())
        elif uid in self._tombstones or uid in self._departed or 0 < known <= self._position:
            # Known at a version that lies behind and not held now: its DELETED has been told.
            self._ignored += 1
            return
        self._tombstones[uid] = _Tombstone(known, self._list_number, asyncio.get_running_loop().time())

    def _covers(self, key: Key) -> bool:
        return not self._namespace or key[0] == self._namespace

    # ── watch events ─────────────────────────────────────────────────────────

    def _on_event(self, event: WatchEvent) -> None:
        self._events += 1
        self._last_event_at = self._clock()
        self._has_progressed = True
        self._inbox.put(self._take_event, event)

    def _take_event(self, event: WatchEvent) -> None:
        kind = event.type
        if kind == "MODIFIED" or kind == "ADDED":
            self._on_changed(event.object)
        elif kind == "DELETED":
            self._on_deleted(event.object)
        elif kind == "BOOKMARK":
            self._on_bookmark(event.object)
        else:
            self._note_unreadable(event.object, ValueError(f"unknown event type {kind!r}"))
        self._deliver()
        if self._distrust:
            self._end_watch()
            self._end_watch = _nothing

    def _on_changed(self, raw: msgspec.Raw) -> None:
        if self._pending_order and self._is_echo(raw):
            return
        try:
            obj, values = self._read(raw)
        except Exception as error:
            self._note_unreadable(raw, error)
            self._pass_over(raw)
            return
        key = Key(obj.namespace, obj.name)
        if self._is_news(key, obj):
            self._set(key, obj, values)
        else:
            self._ignored += 1
        if obj.resource_version > self._position:
            self._advance(obj.resource_version)

    def _is_echo(self, raw: msgspec.Raw) -> bool:
        """Whether the event only shows an own write, whose answer is in the store already (or a later one).

        Almost half of the events of a busy manager are of this kind, and need not be read once more: within a
        resource a version is that of one write. The uid is looked for as well, should some text of the object
        look like its version.
        """
        version, key = self._pending_order[0]
        head = memoryview(raw)[:_HEAD]
        found = _VERSION.search(head)
        held = self._objects.get(key)
        if found is None or int(found[1]) != version or held is None or held.resource_version < version:
            return False
        if held.uid.encode() not in bytes(head):
            return False
        self._ignored += 1
        self._confirm(key, version)
        self._advance(version)
        return True

    def _is_news(self, key: Key, obj: T) -> bool:
        version = obj.resource_version
        if self._pending and not self._confirm(key, version):
            return False
        if self._tombstones and obj.uid in self._tombstones:
            return False
        old = self._objects.get(key)
        if old is not None:
            return old.resource_version < version
        if version > self._position:
            return True
        # Told already, and gone since: a repetition. Otherwise it was left out when its turn was.
        if obj.uid not in self._departed:
            self._distrust = f"{key} {version} came after {self._position}"
        return False

    def _on_deleted(self, raw: msgspec.Raw) -> None:
        # The object's version is that of its deletion, so the envelope is enough whatever else is in it.
        try:
            envelope = _decode_envelope(raw)
            version = envelope.version
        except (msgspec.DecodeError, ValueError) as error:
            self._note_unreadable(raw, error)
            return
        key, uid = envelope.key, envelope.metadata.uid
        self._tombstones.pop(uid, None)
        self._depart(uid)
        old = self._objects.get(key)
        if old is None or old.uid != uid or (self._view is not None and version < old.resource_version):
            # With a selector, DELETED may mean that it left the view, and it may have come back since.
            self._ignored += 1
        else:
            self._set(key, None, ())
        if version > self._position:
            self._advance(version)

    def _on_bookmark(self, raw: msgspec.Raw) -> None:
        try:
            version = _decode_envelope(raw).version
        except (msgspec.DecodeError, ValueError) as error:
            self._note_unreadable(raw, error)
            return
        if version > self._position:
            self._advance(version)
        if self._tombstones:
            self._expire_tombstones()

    def _confirm(self, key: Key, version: int) -> bool:
        """False when an own write of that key is newer than what the watch shows; True ends its waiting."""
        pending = self._pending.get(key)
        if pending is None:
            return True
        if version < pending:
            return False
        del self._pending[key]
        return True

    def _advance(self, version: int) -> None:
        """The watch has told everything up to `version`."""
        self._position = version
        if self._measured is not None and self._measured[0] <= version:
            self._lag_s = asyncio.get_running_loop().time() - self._measured[1]
            self._measured = None
        order = self._pending_order
        while order and order[0][0] <= version:
            written, key = heapq.heappop(order)
            if self._pending.get(key) == written:
                del self._pending[key]
                self._end_unconfirmed(key, written)

    def _end_unconfirmed(self, key: Key, written: int) -> None:
        """The watch has passed an own write without showing it: the object is not in its view."""
        old = self._objects.get(key)
        if old is None or old.resource_version != written:
            return
        if self._view is not None:
            self._set(key, None, ())
        else:
            self._distrust = f"{key} {written} was written, and the watch left it out"

    def _pass_over(self, raw: msgspec.Raw) -> None:
        """The version of an object that `project` cannot read counts as told."""
        try:
            envelope = _decode_envelope(raw)
            version = envelope.version
        except (msgspec.DecodeError, ValueError):
            return
        if self._pending:
            self._confirm(envelope.key, version)
        if version > self._position:
            self._advance(version)

    def _depart(self, uid: str) -> None:
        self._departed[uid] = None
        if len(self._departed) > _DEPARTED:
            del self._departed[next(iter(self._departed))]

    def _expire_tombstones(self) -> None:
        before = asyncio.get_running_loop().time() - _TOMBSTONE_S
        for uid in [uid for uid, stone in self._tombstones.items() if stone.made_at < before]:
            del self._tombstones[uid]

    # ── the store ────────────────────────────────────────────────────────────

    def _read(self, raw: bytes | msgspec.Raw) -> tuple[T, _Values]:
        """The object and its index values: what can go wrong goes wrong before the store changes."""
        obj = self._project(raw)
        if not self._index_list:
            return obj, ()
        values = tuple([tuple(index.values_of(obj)) for index in self._index_list])
        hash(values)  # raises for a value that cannot be looked up
        return obj, values

    def _set(self, key: Key, new: T | None, values: _Values) -> None:
        """Put `new` (None: nothing) at `key`, in store and indexes; the next `_deliver` tells handlers."""
        old = self._objects.get(key)
        if new is None:
            self._objects.pop(key, None)
            for index in self._index_list:
                index.swap(key, old, None, ())
        else:
            self._objects[key] = new
            for index, of_index in zip(self._index_list, values, strict=True):
                index.swap(key, old, new, of_index)
        is_other = old is not None and new is not None and old.uid != new.uid
        if old is not None and is_other:
            self._depart(old.uid)
        if not self._handlers:
            return
        if is_other:
            self._outbox.append(Change(key, old, None))
            self._outbox.append(Change(key, None, new))
        else:
            self._outbox.append(Change(key, old, new))

    def _deliver(self, most: int | None = None) -> None:
        """Tell handlers what is in the outbox, or `most` of it."""
        # A handler may make a change itself; it is then heard after the present one, by all.
        if not self._outbox or self._is_delivering:
            return
        self._is_delivering = True
        try:
            told = 0
            while self._outbox and told != most:
                told += 1
                change = self._outbox.popleft()
                for handler in self._handlers:
                    try:
                        handler(change)
                    except Exception:
                        self._handler_failures += 1
                        _log.exception("%s %s: a handler failed", self.resource, change.key)
        finally:
            self._is_delivering = False

    def _note_unreadable(self, raw: bytes | msgspec.Raw, error: Exception) -> None:
        self._unreadable += 1
        _log.warning("%s %s: cannot be read: %s", self.resource, _describe(raw), error)

    # ── list and watch ───────────────────────────────────────────────────────

    async def run(self) -> Never:
        """List and watch until cancelled. Raises RuntimeError when it is running already."""
        if self._is_running:
            raise RuntimeError(f"the cache of {self.resource} is running already")
        self._is_running = True
        try:
            while True:
                wait_s = await self._list_and_watch()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
        finally:
            self._is_running = False

    async def _list_and_watch(self) -> float:
        """List if need be, then watch until that ends; returns the seconds to wait before the next time."""
        self._has_progressed = False
        self._open_s = 0.0
        try:
            if self._must_list or self._distrust:
                await self._list()
            await self._watch()
        except (KubeError, _DistrustError) as error:
            return self._note_failure(error)
        except Exception as error:  # the mirror must not stop because of a bug, in whatever part
            _log.exception("%s: list and watch failed", self.resource)
            return self._note_failure(error)
        if self._has_progressed or self._open_s >= _HEALTHY_S:
            self._failures = 0
            return 0.0
        # A server that ends every watch at once would otherwise be asked without a pause.
        self._failures += 1
        return self._backoff_s()

    def _note_failure(self, error: Exception) -> float:
        self._errors += 1
        self._last_error = f"{type(error).__name__.lstrip('_')}: {error}"
        self._last_code = error.code if isinstance(error, ApiError) else 0
        needs_list = _needs_list(error)
        # Lists are dear: progress between two of them is not enough, it must have lasted.
        if self._open_s >= _HEALTHY_S or (self._has_progressed and not needs_list):
            self._failures = 0
        # A server that is back after an outage has a new history and says 410: it answers, so the waits for
        # it are over. If the list does not help, the second 410 in a row waits longer as ever.
        is_gone = isinstance(error, GoneError)
        if is_gone and not self._was_gone:
            self._failures = 0
        self._was_gone = is_gone
        self._failures += 1
        self._must_list = self._must_list or needs_list
        wait_s = self._backoff_s()
        if isinstance(error, ApiError) and error.retry_after_s:
            wait_s = max(wait_s, min(error.retry_after_s, _RETRY_AFTER_CAP_S))
        _log.log(
            self._level_of_failure(),
            "%s: %s; %s in %.1f s (failure %d)",
            self.resource,
            self._last_error,
            "listing" if self._must_list else f"watching from {self._position}",
            wait_s,
            self._failures,
        )
        return wait_s

    def _level_of_failure(self) -> int:
        """The first may be nothing, the second is told; what stays the same is not told again and again."""
        if self._failures == 1:
            return logging.INFO
        is_told = self._told_error == self._last_error
        self._told_error = self._last_error
        return logging.DEBUG if is_told else logging.WARNING

    def _backoff_s(self) -> float:
        full = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(self._failures - 1, 16))
        return full * self._rng.uniform(0.5, 1.0)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._watches += 1
        async with AsyncExitStack() as stack:
            watch = self._client.watch(
                self.resource,
                self._namespace,
                resource_version=str(self._position),
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                idle_timeout_s=self._idle_timeout_s,
            )
            try:
                async with asyncio.timeout(self._idle_timeout_s):
                    events = await stack.enter_async_context(watch)
            except TimeoutError as err:
                raise RequestTimeoutError(f"no watch within {self._idle_timeout_s:g} s") from err
            opened_at = loop.time()
            self._is_connected = True
            self._last_error = self._told_error = ""
            self._last_code = 0
            try:
                async with asyncio.timeout(None) as scope:
                    self._end_watch = lambda: scope.reschedule(loop.time())
                    await self._follow(events)
            except TimeoutError:
                if not self._distrust:
                    raise
                raise _DistrustError(self._distrust) from None  # found in what had waited
            finally:
                self._end_watch = _nothing
                self._is_connected = False
                self._open_s = loop.time() - opened_at
                self._inbox.empty()

    async def _follow(self, events: AsyncIterator[WatchEvent]) -> None:
        count = 0
        async for event in events:
            self._on_event(event)
            if self._distrust:
                raise _DistrustError(self._distrust)
            # Lines that have arrived already are iterated without ever waiting.
            count += 1
            if count % _SLICE == 0:
                await asyncio.sleep(0)

    async def _list(self) -> None:
        self._inbox.empty()
        self._list_number += 1
        number = self._list_number
        floor = max(self._position, self._answered)
        listed: list[tuple[T, _Values]] = []
        unreadable: set[Key] = set()

        async def read(page: Sequence[msgspec.Raw]) -> None:
            for count, raw in enumerate(page, 1):
                try:
                    listed.append(self._read(raw))
                except Exception as error:
                    self._note_unreadable(raw, error)
                    unreadable.add(_key_in(raw))
                if count % _SLICE == 0:
                    await asyncio.sleep(0)

        text = await self._client.read_list(
            self.resource,
            self._namespace,
            read,
            listed.clear,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        version = int(text)
        self._check_not_stale(version, floor)
        if not self.synced:
            await self._begin_with(listed, number)
        self._inbox.empty()
        # From here on nothing waits: the list is taken over as a whole.
        self._lists += 1
        self._take_over(version, listed, unreadable, number)
        self._must_list = False
        self._distrust = ""
        self._synced.set()
        self._deliver(most=_SLICE)
        while self._outbox:
            await asyncio.sleep(0)
            self._deliver(most=_SLICE)

    async def _begin_with(self, listed: Sequence[tuple[T, _Values]], number: int) -> None:
        """The first list is put in little by little: nobody plans from a cache that is not synced."""
        for count, (obj, values) in enumerate(listed, 1):
            key = Key(obj.namespace, obj.name)
            if self._is_listed_news(key, obj, number):
                self._set(key, obj, values)
            if count % _SLICE == 0:
                await asyncio.sleep(0)

    def _check_not_stale(self, version: int, floor: int) -> None:
        if version >= floor:
            self._stale_lists = 0
            return
        self._stale_lists += 1
        if self._stale_lists < _STALE_LISTS:
            raise _DistrustError(f"the list is of version {version}, older than {floor}, which is known")
        _log.warning(
            "%s: lists keep being of version %d, below %d: taken as a cluster restored from a backup",
            self.resource,
            version,
            floor,
        )
        self._stale_lists = 0
        self._set_back()

    def _set_back(self) -> None:
        """Forget every version: the server's have begun again below them."""
        self._position = 0
        self._answered = 0
        self._pending.clear()
        self._pending_order.clear()
        self._tombstones.clear()
        self._departed.clear()
        for key in list(self._objects):
            self._set(key, None, ())

    def _take_over(
        self, version: int, listed: Sequence[tuple[T, _Values]], unreadable: set[Key], number: int
    ) -> None:
        there: set[Key] = set(unreadable)
        uids: set[str] = set()
        for obj, values in listed:
            key = Key(obj.namespace, obj.name)
            there.add(key)
            uids.add(obj.uid)
            if self._is_listed_news(key, obj, number):
                self._set(key, obj, values)
        for key, old in list(self._objects.items()):
            if key not in there and old.resource_version <= version:
                self._depart(old.uid)
                self._set(key, None, ())
        self._clear_tombstones(version, uids, number)
        self._pending = {key: written for key, written in self._pending.items() if written > version}
        self._pending_order = [(written, key) for key, written in self._pending.items()]
        heapq.heapify(self._pending_order)
        self._position = max(self._position, version)

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
            is_newer_list = stone.list_number < number  # begun after the answer to the deletion
            if uid in listed:
                # Then the deletion was misunderstood; in an older list, DELETED is still to come.
                if is_newer_list:
                    del self._tombstones[uid]
            elif is_newer_list or 0 < stone.known <= version:
                # Known to have been there at or before the list's version, and not in it: DELETED is past.
                del self._tombstones[uid]
                self._depart(uid)


def _nothing() -> None:
    """No watch is open."""


def _needs_list(error: Exception) -> bool:
    """True when watching again from the same position cannot help."""
    match error:
        case GoneError() | NotFoundError() | BadRequestError() | InvalidError() | _DistrustError():
            return True
        case ApiError():
            return any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
        case KubeError():
            return False
        case _:
            return True


def _key_in(raw: bytes | msgspec.Raw) -> Key:
    try:
        return _decode_envelope(raw).key
    except msgspec.DecodeError:
        return Key("", "")


def _describe(raw: bytes | msgspec.Raw) -> str:
    """Key and version of an object that cannot be read, as far as they can be."""
    try:
        envelope = _decode_envelope(raw)
    except msgspec.DecodeError:
        return "(an object without readable metadata)"
    return f"{envelope.key} at version {envelope.metadata.resource_version or '?'}"
