"""The caches of a manager, and the observers with which the writer puts the results of its writes into them.

API server ──▶ Sources.find_cache(views) ──▶ one cache, however many kinds read it ──▶ snapshots
Writer ──▶ Sources.observers (the response of a write enters the caches of its resource immediately)
"""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Never, TypeVar

from pykruise.kube.cache.cache import Cache, Projected
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.cache.writer import WriteObserver
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from pykruise.runtime.views import Views

__all__ = ["Sources"]


class _Several:
    """Several caches of one resource, which all observe the writes of this program."""

    def __init__(self, caches: Sequence[Cache[Any]]) -> None:
        self._caches = caches

    def observe_written(self, raw: bytes) -> None:
        """See WriteObserver."""
        for cache in self._caches:
            cache.observe_written(raw)

    def observe_deleted(self, key: Key, uid: str, raw: bytes) -> None:
        """See WriteObserver."""
        for cache in self._caches:
            cache.observe_deleted(key, uid, raw)


T = TypeVar("T", bound=Projected)


class Sources:
    """All caches of one manager. `run()` maintains the caches that kinds have requested with `find_cache()`.

    `namespace`: only objects of this namespace, and all cluster-scoped objects; empty: objects of all namespaces.
    `pace`: how bursts of pod events are delivered; None: all events immediately. `shared`: views that always have a
    cache. `borrowed`: caches that another part of the program maintains; they can be read, and they observe this
    program's writes.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        namespace: str = "",
        pace: Pace | None = None,
        shared: Iterable[Views[Any]] = (),
        borrowed: Mapping[Views[Any], Cache[Any]] | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._rng = rng
        # Only pods have a pace: the event of a new claim must arrive while its creation is in progress
        # (`Executor.is_making`).
        self._paces = {PODS: pace}
        self._borrowed = dict(borrowed or {})
        self._caches: dict[Views[Any], Cache[Any]] = dict(self._borrowed)
        self._by_resource = {views.resource: cache for views, cache in self._borrowed.items()}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[Views[Any], asyncio.Task[None]] = {}
        self._observers: dict[Resource, WriteObserver] = {}
        for resource in self._by_resource:
            self._note_observers(resource)
        for views in shared:
            self.find_cache(views)

    def find_cache(self, views: Views[T]) -> Cache[T]:
        """Return the cache of these views, which `run()` maintains. Raises ValueError if the resource already has a
        cache with other views, unless the requested views are `is_apart`."""
        known = self._caches.get(views)
        if known is not None:
            return known
        resource = views.resource
        if not views.is_apart and resource in self._by_resource:
            raise ValueError(f"{resource} already has a cache with other views")
        cache = self._caches[views] = Cache(
            self._client,
            resource,
            project=views.projector(),
            indexes=views.indexes,
            namespace=self._namespace if resource.namespaced else "",
            clock=self._clock,
            rng=self._rng,
            pace=None if views.is_apart else self._paces.get(resource),
            metadata_only=views.is_metadata_only,
        )
        if not views.is_apart:
            self._by_resource[resource] = cache
        self._note_observers(resource)
        if self._tasks is not None:
            self._start(self._tasks, views, cache)
        return cache

    def _note_observers(self, resource: Resource) -> None:
        """Let all caches of the resource observe the writes of this program."""
        mine = [cache for views, cache in self._caches.items() if views.resource == resource]
        if mine:
            self._observers[resource] = mine[0] if len(mine) == 1 else _Several(mine)
        else:
            self._observers.pop(resource, None)

    def drop(self, views: Views[Any]) -> None:
        """Stop the watch of these views. No code may read them afterwards."""
        cache = self._caches.pop(views)
        if self._by_resource.get(views.resource) is cache:
            del self._by_resource[views.resource]
        self._note_observers(views.resource)
        task = self._running.pop(views, None)
        if task is not None:
            task.cancel()

    @property
    def caches(self) -> Sequence[Cache[Any]]:
        """All caches, including those that are `is_apart`."""
        return tuple(self._caches.values())

    @property
    def by_resource(self) -> Mapping[Resource, Cache[Any]]:
        """Caches by resource, without those that are `is_apart`."""
        return self._by_resource

    @property
    def observers(self) -> Mapping[Resource, WriteObserver]:
        """Observers of this program's writes by resource: all caches, including those that are `is_apart`."""
        return self._observers

    @property
    def synced(self) -> bool:
        """Whether every cache in `by_resource` has received its first list."""
        return all(cache.synced for cache in self._by_resource.values())

    async def wait_synced(self, needed: Iterable[Views[Any]] | None = None) -> None:
        """Wait until every cache of `needed` has received its first list; None: every cache in `by_resource`."""
        dict_values = (
            self._by_resource.values() if needed is None else [self._caches[views] for views in needed]
        )
        for cache in tuple(dict_values):
            await cache.wait_synced()

    async def redeliver(self, *, every_s: float) -> Never:
        """Deliver every object to the subscribers again, about every `every_s` seconds, until cancelled."""
        while True:
            await asyncio.sleep(every_s * self._rng.uniform(0.9, 1.1))
            for cache in self.caches:
                await cache.redeliver()

    async def run(self) -> None:
        """Maintain the caches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for views, cache in self._caches.items():
                if views not in self._borrowed:
                    self._start(tasks, views, cache)
            await asyncio.Event().wait()  # caches may be added later, even if there is none yet

    def _start(self, tasks: asyncio.TaskGroup, views: Views[Any], cache: Cache[Any]) -> None:
        beside = "beside-" if views.is_apart else ""
        self._running[views] = tasks.create_task(cache.run(), name=f"cache-{beside}{views.resource}")
