"""A new leader plans only when it has seen what the leader before it has written.

leader that ends ──versions written, by resource──▶ note on the Lease ──▶ HandOver.run() ──▶ the caches follow to there
leader that was killed, or another program       ──▶ no note          ──▶ ... list once more, consistently
                                                                            └──▶ controllers begin (HandOver.wait)

A standby has full caches, but a watch may lag, or be silent for two minutes before that is noticed. Who plans from
such a cache creates pods that exist: CloneSet's names are random, and no precondition stops a creation.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.kube.cache import Cache
from pykruise.kube.leases import LeaderElector
from pykruise.kube.resources import Resource

__all__ = ["HandOver"]


class HandOver:
    """Of one leader's `caches`, by resource. `run()` beside them; `wait()` before anything is planned."""

    def __init__(self, caches: Mapping[Resource, Cache[Any]], elector: LeaderElector) -> None:
        self._caches = caches
        self._elector = elector
        self._seen = {resource: asyncio.Event() for resource in caches}

    def versions(self) -> dict[str, int]:
        """By resource: the version up to which a successor has to see it. What was never written is not there."""
        return {str(resource): cache.answered for resource, cache in self._caches.items() if cache.answered}

    async def wait(self, resources: Iterable[Resource]) -> None:
        """Return when this program leads and has seen all that others wrote to these while they led."""
        for resource in tuple(resources):
            await self._seen[resource].wait()

    async def run(self) -> None:
        """From the beginning of the term until all caches have caught up; one that never syncs is waited for."""
        await self._elector.wait_leading()
        async with asyncio.TaskGroup() as tasks:
            for resource in self._caches:
                tasks.create_task(self._catch_up(resource), name=f"catching up with {resource}")

    async def _catch_up(self, resource: Resource) -> None:
        cache, written = self._caches[resource], self._elector.inherited
        await cache.wait_synced()
        if written is None:
            await cache.catch_up()
        elif version := written.get(str(resource)):
            await cache.catch_up(version)
        self._seen[resource].set()
