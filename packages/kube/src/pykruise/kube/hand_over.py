"""A new leader plans only when it has seen what the leader before it has written.

leader that ends ──versions written, by resource──▶ note on the Lease ──▶ HandOver.run() ──▶ the caches follow to there
leader that was killed, or another program       ──▶ no note          ──▶ ... list once more, consistently
                                                                            └──▶ controllers begin (HandOver.wait)

A standby has full caches, but a watch may lag, or be silent for two minutes before that is noticed. Who plans from
such a cache creates pods that exist: CloneSet's names are random, and no precondition stops a creation.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from pykruise.kube.cache import Cache
from pykruise.kube.leases import LeaderElector

__all__ = ["HandOver"]


class HandOver:
    """Of one leader's `caches`, which may come and go. `run()` beside them; `wait()` before anything is planned."""

    def __init__(self, caches: Callable[[], Iterable[Cache[Any]]], elector: LeaderElector) -> None:
        self._caches = caches
        self._elector = elector
        self._seen: dict[Cache[Any], asyncio.Event] = {}
        self._has_begun = asyncio.Event()

    def versions(self) -> dict[str, int]:
        """By resource: the version up to which a successor has to see it. What was never written is not there."""
        found: dict[str, int] = {}
        for cache in self._caches():
            if cache.answered:
                name = str(cache.resource)
                found[name] = max(found.get(name, 0), cache.answered)
        return found

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
        elif version := written.get(str(cache.resource)):
            await cache.catch_up(version)
        seen.set()
