"""The caches of a manager, and what the writer needs to keep them true to one's own writes.

API server ──▶ Sources.of(views) ──▶ one cache, however many kinds look at it ──▶ snapshots
Writer ──▶ Sources.observers (the answer of a write goes into the caches of its resource at once)
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
    """Caches of one resource, all of which hear of own writes."""

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
    """All caches of one manager. What kinds ask for with `of()` is kept true while `run()` runs.

    `namespace`: only objects of this one (cluster-scoped ones all the same); empty: of all. `pace`: how what is
    heard of pods in a crowd is read; None: all of it at once. `shared`: what there is a cache of in any case.
    `borrowed`: caches that another part of the program keeps true; they are looked up and hear of own writes.
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
        # Of pods only: who makes a claim hears of it while it is being made (`Executor.is_making`).
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
            self.of(views)

    def of(self, views: Views[T]) -> Cache[T]:
        """The cache of these views, run and kept true with the others. Raises ValueError for other views of a
        resource that has some, unless they are apart."""
        known = self._caches.get(views)
        if known is not None:
            return known
        resource = views.resource
        if not views.is_apart and resource in self._by_resource:
            raise ValueError(f"{resource} is seen in another way already")
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
        """Own writes are heard of by all caches of their resource."""
        mine = [cache for views, cache in self._caches.items() if views.resource == resource]
        if mine:
            self._observers[resource] = mine[0] if len(mine) == 1 else _Several(mine)
        else:
            self._observers.pop(resource, None)

    def drop(self, views: Views[Any]) -> None:
        """Watch no longer; nothing may look these up any more."""
        cache = self._caches.pop(views)
        if self._by_resource.get(views.resource) is cache:
            del self._by_resource[views.resource]
        self._note_observers(views.resource)
        task = self._running.pop(views, None)
        if task is not None:
            task.cancel()

    @property
    def caches(self) -> Sequence[Cache[Any]]:
        """All of them, those beside others too."""
        return tuple(self._caches.values())

    @property
    def by_resource(self) -> Mapping[Resource, Cache[Any]]:
        """Every cache under the resource it mirrors, but for those apart."""
        return self._by_resource

    @property
    def observers(self) -> Mapping[Resource, WriteObserver]:
        """Observers of own writes by resource: the caches, those apart too."""
        return self._observers

    @property
    def synced(self) -> bool:
        """True once every cache has taken its first list over."""
        return all(cache.synced for cache in self._by_resource.values())

    async def wait_synced(self, needed: Iterable[Views[Any]] | None = None) -> None:
        """Return when every cache (of `needed`, where given) has taken its first list over."""
        dict_values = (
            self._by_resource.values() if needed is None else [self._caches[views] for views in needed]
        )
        for cache in tuple(dict_values):
            await cache.wait_synced()

    async def redeliver(self, *, every_s: float) -> Never:
        """Tell every object again to who has subscribed, about every `every_s` seconds, until cancelled."""
        while True:
            await asyncio.sleep(every_s * self._rng.uniform(0.9, 1.1))
            for cache in self.caches:
                await cache.redeliver()

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for views, cache in self._caches.items():
                if views not in self._borrowed:
                    self._start(tasks, views, cache)
            await asyncio.Event().wait()  # others may come, also where there is none yet

    def _start(self, tasks: asyncio.TaskGroup, views: Views[Any], cache: Cache[Any]) -> None:
        beside = "beside-" if views.is_apart else ""
        self._running[views] = tasks.create_task(cache.run(), name=f"cache-{beside}{views.resource}")
