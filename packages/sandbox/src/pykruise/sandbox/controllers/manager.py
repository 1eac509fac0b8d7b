"""Runs all built-in controllers of a cluster over one set of caches.

client, pods, nodes ──▶ Controllers ──▶ caches and event recorders ──▶ every Loop, once all caches are synced
"""

import asyncio
import random
from collections.abc import Collection, Sequence

from pykruise.kube.cache import Cache
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.resources import Resource
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.nodes import NodeView
from pykruise.sandbox.pod_view import PodView
from pykruise.sandbox.running import happens_before, run_beside

__all__ = ["Controllers"]


class Controllers:
    """All built-in controllers, or those of these `names`. Component: `run()` until `stop()`.

    `pods` (with the indexes POD_INDEXES) and `nodes` are caches that somebody else runs.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        pods: Cache[PodView],
        nodes: Cache[NodeView],
        names: Collection[str] | None = None,
    ) -> None:
        self._shared = Shared(client, clock=clock, rng=rng, pods=pods, nodes=nodes)
        kinds = _known() if names is None or names else ()
        if unknown := set(names or ()) - {kind.name for kind in kinds}:
            raise ValueError(f"no such controllers: {', '.join(sorted(unknown))}")
        self._loops = [kind(self._shared) for kind in kinds if names is None or kind.name in names]
        self._stopped = asyncio.Event()

    @property
    def client(self) -> Client:
        """What all their requests go through."""
        return self._shared.client

    def mirror(self, resource: Resource) -> Cache[DocumentView] | None:
        """The mirror of a resource that one of them keeps, for others to read; it runs with them."""
        return self._shared.owned.get(resource)

    async def run(self) -> None:
        """Work until `stop()` or until cancelled."""
        await run_beside(
            self._work(),
            *(cache.run() for cache in self._shared.owned.values()),
            *(recorder.run() for recorder in self._shared.recorders.values()),
        )

    async def _work(self) -> None:
        # A controller that does not know all pods yet would create those it takes for missing.
        if not await happens_before(self._stopped, self.wait_synced()):
            return
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.run(), name=loop.name)

    async def wait_synced(self) -> None:
        """Return when everything there is has been seen."""
        await self._shared.pods.wait_synced()
        await self._shared.nodes.wait_synced()
        for cache in self._shared.owned.values():
            await cache.wait_synced()

    async def stop(self) -> None:
        """Finish the writes under way; `run()` returns."""
        for loop in self._loops:
            loop.queue.close()
        self._stopped.set()
        for loop in self._loops:
            await loop.stop()
        for recorder in self._shared.recorders.values():
            await recorder.flush(timeout_s=1.0)


def _known() -> Sequence[type[Loop]]:
    """Loaded when a cluster runs one of them."""
    from pykruise.sandbox.controllers.known import KINDS

    return KINDS
