"""Cache of one resource: it lists and watches the resource, and shows the writes of this program immediately.

API server ──list, watch──▶ reflector.py ──▶ ingest.py ──▶ store.py ──▶ get(), list_by_index(), values()  (snapshots)
Writer ──observe_written(), observe_deleted()──▶ ingest.py ──▶ store.py ──▶ delivery.py ──Change──▶ subscribed handlers

`project` decodes each object once per event, directly from bytes, into a small value T; the cache keeps nothing else of
the object. A controller that plans from the cache sees each of its own finished writes: store.py explains how this is
ensured. If a new version of an object cannot be read, the cache keeps the last readable value, and `unreadable` counts
this.

**Pace.** With a pace, events that arrive in large numbers wait a moment and are read together (event_batching.py).
Their order is kept, and a read of the cache first processes all waiting events, so the effect is the same as if the
events had arrived that moment later.
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
from pykruise.kube.client.client import PAGE_SIZE, Client
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource

__all__ = ["Cache", "CacheStats", "Change", "Projected"]

T = TypeVar("T", bound=Projected)

FOLLOW_S: Final = 5.0
"""Seconds that a watch may take to show a version that is known to be stored."""
_LOOK_S: Final = 0.02

NOT_SERVED: Final = 404
"""HTTP status with which an API server responds to a list of a resource that it does not serve."""

_POLL_S: Final = 0.2


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a cache. Where no unit is stated, a number is a count since the start."""

    synced: bool
    """Whether the first list has been applied."""
    connected: bool
    """Whether a watch is open."""
    objects: int
    position: int
    """The cache has seen all changes up to this resourceVersion (position W in store.py)."""
    pending: int
    """Writes of this program that the watch has not shown yet."""
    lag_s: float
    """Seconds that the watch takes to show a write of this program (`Store.lag_s`); 0: not measured."""
    tombstones: int
    """Deletions by this program that the watch has not confirmed yet."""
    events: int
    """Events and bookmarks received."""
    ignored: int
    """Events and responses that were older than the known state, or did not belong to this cache."""
    unreadable: int
    """Objects for which `project` or an index function raised an error."""
    relists: int
    """Lists after the first."""
    reconnects: int
    """Watches opened after the first."""
    errors: int
    """Lists and watches that failed."""
    handler_failures: int
    last_event_at: Instant | None
    last_error: str
    """Reason why no watch is open; empty while one is open."""
    last_code: int = 0
    """HTTP status with which the server rejected the list or watch (404: not served, 403: no permission); else 0."""

    @property
    def may_lack_conversion(self) -> bool:
        """Whether the first list fails with a code that may mean: the API server cannot convert the stored objects.

        The API server converts custom resources with a webhook. While the webhook does not respond, the list fails with
        500, or with 429 while the API server initializes the resource.
        """
        return not self.synced and (self.last_code == 429 or self.last_code >= 500)


class Cache(Generic[T]):
    """Cache of one resource. See store.py for its guarantees.

    `project` converts an object's JSON to a T; it must copy the parts that it keeps. `indexes` are pure functions from
    T to the values under which the object is found (called again with the same T when the object is removed). `project`
    and index functions may raise; the object is then counted as unreadable. `namespace=""` means all namespaces.
    `idle_timeout_s`: see IDLE_TIMEOUT_S. `pace`: how fast many events are read; None: each event is read immediately.
    `metadata_only`: lists and watches request only metadata; only the responses to writes contain the whole object.
    `page_size`: maximum number of objects in a response to a list; a program with little memory sets a small number.
    Raises SelectorError for a selector that cannot be parsed.

    Only one event loop may use the cache. It can be read at any time. Before `run()` it contains only the writes of
    this program; after `run()` was cancelled it contains the last state, and a later `run()` continues from there.
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
        page_size: int = PAGE_SIZE,
    ) -> None:
        self.resource = resource
        view = SelectorView(label_selector, field_selector) if label_selector or field_selector else None
        self._delivery: Delivery[T] = Delivery(resource)
        self._store: Store[T] = Store(
            indexes or {}, is_filtered=view is not None, now=_read_loop_time, on_change=self._delivery.put
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
            page_size=page_size,
        )
        self._inbox = self._ingest.inbox

    # ── reading ──────────────────────────────────────────────────────────────

    def get(self, key: Key) -> T | None:
        """Return the object with that key, or None."""
        if self._inbox.waiting:
            self._inbox.process_events()
        return self._store.get(key)

    def list_by_index(self, index: str, value: Hashable) -> Sequence[T]:
        """Return the objects for which the index function returned `value`, as a snapshot that later events do not
        change.

        O(1) if nothing has changed under that value since the last call; otherwise the references are copied. Raises
        KeyError for an index that this cache does not have.
        """
        if self._inbox.waiting:
            self._inbox.process_events()
        return self._store.list_by_index(index, value)

    def count(self, index: str, value: Hashable) -> int:
        """Return the number of objects that `list_by_index` returns; O(1). Raises KeyError for an index that this cache
        does not have.
        """
        if self._inbox.waiting:
            self._inbox.process_events()
        return self._store.count(index, value)

    def values(self) -> Sequence[T]:
        """Return a snapshot of all objects."""
        self._inbox.process_events()
        return self._store.values()

    def __len__(self) -> int:
        if self._inbox.waiting:
            self._inbox.process_events()
        return len(self._store)

    @property
    def synced(self) -> bool:
        """Whether the first list has been applied; stays true."""
        return self._ingest.synced.is_set()

    @property
    def is_connected(self) -> bool:
        """Whether the watch is open. Only then does the cache have the objects that were stored a moment ago."""
        return self._reflector.is_connected

    async def wait_synced(self) -> None:
        """Return when `synced`."""
        await self._ingest.synced.wait()

    async def wait_served(self) -> bool:
        """Return True when `synced`; False as soon as the API server reports that it does not serve the resource."""
        # The wait is short, because the API server may report during it that it does not serve the resource.
        while not self.synced and self._reflector.last_code != NOT_SERVED:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self.wait_synced()
        return self.synced

    def watch_anew(self) -> None:
        """Open the watch again from the current position, because the API server has replaced the storage behind it
        (kube/cache/definition_watch.py).
        """
        self._reflector.watch_anew()

    async def catch_up(self, version: int | None = None) -> None:
        """Return when the cache has everything that was stored up to `version` of the cluster; None: up to this call.

        With a version, wait until the watch shows it, which takes only a moment for a version of this resource. If the
        watch does not show it within FOLLOW_S, or if `version` is None, list again.
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
        """Call `handler` with every change from now on; returns a function that ends the subscription.

        Handlers are called sequentially, in the order of changes, after store and indexes are updated (after a list:
        when the whole list is applied). A handler that raises is logged and counted, and the other handlers are still
        called.
        """
        return self._delivery.subscribe(handler)

    async def redeliver(self) -> None:
        """Call handlers once more with every object, as a change from the object to itself, in small portions."""
        self._inbox.process_events()
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
        """The highest version in the responses to writes of this program; 0: there was no write."""
        self._inbox.process_events()
        return self._store.answered

    @property
    def changed(self) -> int:
        """The version of the latest known change; bookmarks can advance `position` beyond it."""
        self._inbox.process_events()
        return self._store.changed

    @property
    def position(self) -> int:
        """The version up to which the cache has followed the cluster."""
        self._inbox.process_events()
        return self._store.position

    def read_stats(self) -> CacheStats:
        """Return the current state."""
        self._inbox.process_events()
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

    # ── writes of this program ───────────────────────────────────────────────

    def observe_written(self, raw: bytes) -> None:
        """Put the object that a write (or a read of a single object) returned into the cache. Never raises.

        If the write removed the last finalizer of a terminating object, the object is deleted from the cache instead.
        """
        self._inbox.put(self._ingest.take_written, raw)

    def observe_deleted(self, key: Key, uid: str, raw: bytes) -> None:
        """Apply the response to a DELETE of the object `uid`; b"": the server reported that it does not exist. Never
        raises.

        An object that is only marked for deletion (it has finalizers or a grace period) is put into the cache, as after
        any write. Any other response (a Status, an object that is not marked for deletion or has nothing to wait for)
        means that `uid` is deleted. If
        neither the caller nor the response names a uid, the object cannot be distinguished from a successor, so the
        call is ignored.
        """
        self._inbox.put(self._ingest.take_deleted, (key, uid, raw))


def _read_loop_time() -> float:
    return asyncio.get_running_loop().time()
