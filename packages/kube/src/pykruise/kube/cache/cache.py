"""A mirror of one resource: list + watch, projected values, indexes, and one's own writes at once.

API server ──list, watch──▶ reflector.py ──▶ ingest.py ──▶ store.py ──▶ get(), by_index(), values()  (snapshots)
Writer ──observe_written(), observe_deleted()──▶  │            └──▶ delivery.py ──Change──▶ subscribed handlers

Each object is decoded once per event, straight from bytes into a small value T by `project`; nothing else of
it is kept. Who plans from the cache sees every finished write of their own: store.py says how that is made sure.
An object that cannot be read keeps its last readable value; the position moves on, the count `unreadable` tells.

**Pace.** With a pace, what comes in a crowd waits a moment and is read together (event_batching.py). Order is kept, and
a question to the cache has all of it read first, so this is as if it had taken that moment longer to arrive.
"""

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, Never, TypeVar

import msgspec

from pykruise.kube.cache.delivery import SLICE, Delivery
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.cache.ingest import Ingest, Project, SelectorView
from pykruise.kube.cache.reflector import IDLE_TIMEOUT_S, Reflector
from pykruise.kube.cache.store import Change, IndexFunction, Projected, Store
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource

__all__ = ["Cache", "CacheStats", "Change", "Projected"]

T = TypeVar("T", bound=Projected)

FOLLOW_S: Final = 5.0
"""How long a watch may take to show what is known to be stored."""
_LOOK_S: Final = 0.02

NOT_SERVED: Final = 404
"""Error codes of an API server for a list of a resource that it does not serve."""

_POLL_S: Final = 0.2


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


class Cache(Generic[T]):
    """A mirror of one resource. See store.py for what it promises.

    `project` makes a T of an object's JSON; it must copy what it keeps. `indexes` are pure functions from T
    to the values under which it is found (asked again with the same T when it is removed). Both may raise:
    such an object is counted as unreadable. `namespace=""` means all. `idle_timeout_s`: see IDLE_TIMEOUT_S.
    `pace`: how what comes in a crowd is read; None: all of it at once. `metadata_only`: lists and watches bring
    metadata and nothing else; only the answers to own writes are whole.
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
        metadata_only: bool = False,
    ) -> None:
        self.resource = resource
        view = SelectorView(label_selector, field_selector) if label_selector or field_selector else None
        self._delivery: Delivery[T] = Delivery(resource)
        self._store: Store[T] = Store(
            indexes or {}, is_filtered=view is not None, now=_loop_time, on_change=self._delivery.put
        )
        self._ingest = Ingest(
            resource,
            self._store,
            self._delivery,
            project=project,
            namespace=namespace,
            view=view,
            clock=clock,
            pace=pace,
            on_distrust=lambda why: self._reflector.relist(because=why),
        )
        self._reflector = Reflector(
            client,
            resource,
            self._ingest,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            rng=rng,
            idle_timeout_s=idle_timeout_s,
            metadata_only=metadata_only,
        )
        self._inbox = self._ingest.inbox

    # ── reading ──────────────────────────────────────────────────────────────

    def get(self, key: Key) -> T | None:
        """The object of that key, or None when there is none."""
        if self._inbox.waiting:
            self._inbox.empty()
        return self._store.get(key)

    def by_index(self, index: str, value: Hashable) -> Sequence[T]:
        """The objects for which the index function gave `value`; a snapshot that later events do not change.

        O(1) while nothing changed under that value, else a copy of references. Raises KeyError for an index
        this cache does not have.
        """
        if self._inbox.waiting:
            self._inbox.empty()
        return self._store.by_index(index, value)

    def count(self, index: str, value: Hashable) -> int:
        """How many objects `by_index` gives; O(1). Raises KeyError for an index this cache does not have."""
        if self._inbox.waiting:
            self._inbox.empty()
        return self._store.count(index, value)

    def values(self) -> Sequence[T]:
        """All objects; a snapshot."""
        self._inbox.empty()
        return self._store.values()

    def __len__(self) -> int:
        if self._inbox.waiting:
            self._inbox.empty()
        return len(self._store)

    @property
    def synced(self) -> bool:
        """True once the first list has been taken over; stays true."""
        return self._ingest.synced.is_set()

    @property
    def is_connected(self) -> bool:
        """Whether its watch is open: only then does it hold what was stored a moment ago."""
        return self._reflector.is_connected

    async def wait_synced(self) -> None:
        """Return when `synced`."""
        await self._ingest.synced.wait()

    async def wait_served(self) -> bool:
        """Return when `synced`; False as soon as the API server says that it does not serve the resource."""
        # The answer may come only while this waits.
        while not self.synced and self._reflector.last_code != NOT_SERVED:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self.wait_synced()
        return self.synced

    def watch_anew(self) -> None:
        """Open the watch again, from where it is: what serves it has been replaced (kube/cache/definition_watch.py)."""
        self._reflector.watch_anew()

    async def catch_up(self, version: int | None = None) -> None:
        """Return when it has all that was stored up to `version` of the cluster; None: up to this call.

        With a version it is followed by the watch, which shows it promptly where it is that of a write to this
        resource. A watch that does not within FOLLOW_S, or no version, costs a list.
        """
        if version is None or not await self._has_followed(version):
            await self._reflector.list_anew()

    async def _has_followed(self, version: int) -> bool:
        for _ in range(round(FOLLOW_S / _LOOK_S)):
            if self.position >= version:
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    def subscribe(self, handler: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `handler` with every change from now on; returns what ends that.

        Handlers are called one after another, in the order of changes, when store and indexes have them
        (after a list: when all of it is in). One that raises is logged and counted; the others still hear it.
        """
        return self._delivery.subscribe(handler)

    async def redeliver(self) -> None:
        """Give handlers every object once more, as a change from itself to itself, in small portions."""
        self._inbox.empty()
        keys = self._store.keys()
        for start in range(0, len(keys), SLICE):
            for key in keys[start : start + SLICE]:
                held = self._store.get(key)
                if held is not None:
                    self._delivery.put(Change(key, held, held))
            self._delivery.deliver()
            await asyncio.sleep(0)

    @property
    def answered(self) -> int:
        """The highest version that an own write was answered with; 0: there was none."""
        self._inbox.empty()
        return self._store.answered

    @property
    def changed(self) -> int:
        """The version of the latest change it knows of; `position` goes on beyond it where nothing happens."""
        self._inbox.empty()
        return self._store.changed

    @property
    def position(self) -> int:
        """The version of the cluster that has been followed so far."""
        self._inbox.empty()
        return self._store.position

    def stats(self) -> CacheStats:
        """How it is now."""
        self._inbox.empty()
        store, ingest, reflector = self._store, self._ingest, self._reflector
        return CacheStats(
            synced=self.synced,
            connected=reflector.is_connected,
            objects=len(store),
            position=store.position,
            pending=store.pending_count,
            lag_s=store.lag_s,
            tombstones=store.tombstone_count,
            events=ingest.events,
            ignored=store.ignored + ingest.foreign,
            unreadable=ingest.unreadable,
            relists=max(0, reflector.lists - 1),
            reconnects=max(0, reflector.watches - 1),
            errors=reflector.errors,
            handler_failures=self._delivery.failures,
            last_event_at=ingest.last_event_at,
            last_error=reflector.last_error,
            last_code=reflector.last_code,
        )

    async def run(self) -> Never:
        """List and watch until cancelled. Raises RuntimeError when it is running already."""
        await self._reflector.run()

    # ── own writes ───────────────────────────────────────────────────────────

    def observe_written(self, raw: bytes) -> None:
        """The object as a write (or a read of a single object) returned it. Never raises.

        A write that takes the last finalizer off a terminating object ends it; its answer is recognized.
        """
        self._inbox.put(self._ingest.take_written, raw)

    def observe_deleted(self, key: Key, uid: str, raw: bytes) -> None:
        """The answer to a DELETE of the object `uid`; b"" when the server said it is not there. Never raises.

        An object that was only marked (finalizers, a grace period) is taken like any write's answer; all else
        (a Status, an object not marked or with nothing to wait for) means that `uid` is gone for good.
        Without a uid, neither here nor in the answer, it cannot be distinguished from a successor: ignored.
        """
        self._inbox.put(self._ingest.take_deleted, (key, uid, raw))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
