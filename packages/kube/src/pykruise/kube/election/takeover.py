"""Makes a new leader wait until its caches have all writes of the previous leader.

leader that ends ──versions written, by resource──▶ note on the Lease ──▶ HandOver.run() ──▶ the caches catch up
leader that was killed, or another program       ──▶ no note          ──▶ ... list once more, consistently
                                                                            └──▶ controllers begin (HandOver.wait)

The note of a leader includes the note that it inherited, because the caches of its successor may lack the writes of
earlier leaders too.

A standby has full caches, but a watch may lag, or may be broken for two minutes before the standby notices. A leader
that plans from such a cache would create pods that already exist: CloneSet's names are random, and no precondition
prevents a creation.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykruise.kube.cache.cache import NOT_SERVED, Cache
from pykruise.kube.election.leases import LeaderElector

__all__ = ["HandOver"]


class HandOver:
    """Handover to one leader. Caches may be added to `caches` and removed. Run `run()` at the same time as
    these caches; call `wait()` before planning.
    """

    def __init__(self, caches: Callable[[], Iterable[Cache[Any]]], elector: LeaderElector) -> None:
        self._caches = caches
        self._elector = elector
        self._seen: dict[Cache[Any], asyncio.Event] = {}
        self._listed: dict[Cache[Any], int] = {}
        self._has_begun = asyncio.Event()

    def read_versions(self) -> Mapping[str, int] | None:
        """Return, by resource, the version that a successor must have seen. A resource that no leader has written is
        absent.

        None: the writes of previous leaders are unknown, and this leader ends before its caches have listed all
        objects.
        """
        inherited = self._elector.inherited
        if inherited is None and not self._has_listed_all():
            return None
        versions = dict(inherited or {})
        for cache in self._caches():
            if version := max(cache.answered, self._listed.get(cache, 0)):
                name = str(cache.resource)
                versions[name] = max(versions.get(name, 0), version)
        return versions

    def _has_listed_all(self) -> bool:
        return self._has_begun.is_set() and all(
            seen.is_set() or (not cache.synced and cache.read_stats().last_code == NOT_SERVED)
            for cache, seen in self._seen.items()
        )

    async def wait(self, caches: Iterable[Cache[Any]]) -> None:
        """Return when this program leads and these caches have everything that previous leaders wrote.

        The function does not wait for a cache that is not synced yet, because its resource may never be served.
        """
        await self._has_begun.wait()
        for cache in tuple(caches):
            if cache.synced and (seen := self._seen.get(cache)) is not None:
                await seen.wait()

    async def run(self) -> None:
        """Follow the caches from the beginning of the term until all have caught up."""
        await self._elector.wait_leading()
        self._seen = {cache: asyncio.Event() for cache in self._caches()}
        self._has_begun.set()
        async with asyncio.TaskGroup() as tasks:
            for cache, seen in self._seen.items():
                tasks.create_task(self._catch_up(cache, seen), name=f"catching up with {cache.resource}")

    async def _catch_up(self, cache: Cache[Any], seen: asyncio.Event) -> None:
        await cache.wait_synced()
        written = self._elector.inherited
        if written is None:
            await cache.catch_up()
            self._listed[cache] = cache.changed
        elif version := written.get(str(cache.resource)):
            await cache.catch_up(version)
        seen.set()
