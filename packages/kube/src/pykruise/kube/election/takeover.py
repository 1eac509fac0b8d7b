"""A new leader plans only when it has seen what the leader before it has written.

leader that ends ──versions written, by resource──▶ note on the Lease ──▶ HandOver.run() ──▶ the caches follow to there
leader that was killed, or another program       ──▶ no note          ──▶ ... list once more, consistently
                                                                            └──▶ controllers begin (HandOver.wait)

What a leader leaves includes what was left to it: it may end before the next one's caches have followed that far.

A standby has full caches, but a watch may lag, or be silent for two minutes before that is noticed. Who plans from
such a cache creates pods that exist: CloneSet's names are random, and no precondition stops a creation.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykruise.kube.cache.cache import NOT_SERVED, Cache
from pykruise.kube.election.leases import LeaderElector

__all__ = ["HandOver"]


class HandOver:
    """Handover of one leader's `caches`, which may be added and removed. `run()` beside them; `wait()` before anything
    is planned.
    """

    def __init__(self, caches: Callable[[], Iterable[Cache[Any]]], elector: LeaderElector) -> None:
        self._caches = caches
        self._elector = elector
        self._seen: dict[Cache[Any], asyncio.Event] = {}
        self._listed: dict[Cache[Any], int] = {}
        self._has_begun = asyncio.Event()

    def versions(self) -> Mapping[str, int] | None:
        """Resource to the version that a successor must have seen. What no leader has written is not there.

        None: what leaders before have written is not known, and this one ends before it has found out.
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
            seen.is_set() or (not cache.synced and cache.stats().last_code == NOT_SERVED)
            for cache, seen in self._seen.items()
        )

    async def wait(self, caches: Iterable[Cache[Any]]) -> None:
        """Return when this program leads and these have all that others wrote while they led.

        One that has not been read yet is not waited for: its resource may never be served.
        """
        await self._has_begun.wait()
        for cache in tuple(caches):
            if cache.synced and (seen := self._seen.get(cache)) is not None:
                await seen.wait()

    async def run(self) -> None:
        """From the beginning of the term until all caches have caught up."""
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
