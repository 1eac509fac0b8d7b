"""Runs all built-in controllers of a cluster over one set of caches.

client, pods, nodes ──▶ Controllers ──▶ caches and event recorders ──▶ every Loop, once all caches are synced
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pykruise.kube.cache import Cache
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.controller import unmeasured
from pykruise.kube.resources import Resource
from pykruise.kube.writer import Writer
from pykruise.runtime.assemble import KindContext, Tuning, controller_for
from pykruise.runtime.execute import Executor
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.sources import Sources
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS
from pykruise.sandbox.nodes import NodeView
from pykruise.sandbox.pod_view import PodView
from pykruise.sandbox.running import happens_before, run_beside

if TYPE_CHECKING:
    from pykruise.runtime.operator import Work
    from pykruise.sandbox.controllers.base import Loop

__all__ = ["Controllers"]

_AT_ONCE = 1e9
"""Statuses are written as often as they change, as Kubernetes does it."""


class Controllers:
    """All built-in controllers, or those of these `names`. Component: `run()` until `stop()`.

    `pods` (of POD_VIEWS) and `nodes` (of NODE_VIEWS) are caches that the cluster runs.
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
        from pykruise.sandbox.controllers.base import Shared

        self.client = client
        self._sources = Sources(client, clock=clock, rng=rng, borrowed={POD_VIEWS: pods, NODE_VIEWS: nodes})
        loops, works = _known() if names is None or names else ((), ())
        there = {kind.name for kind in loops} | {work.control.name for work in works}
        if unknown := set(names or ()) - there:
            raise ValueError(f"no such controllers: {', '.join(sorted(unknown))}")
        self._context = KindContext(
            client=client,
            sources=self._sources,
            executor=Executor(Writer(client, self._sources.observers), rng=rng, status_per_s=_AT_ONCE),
            clock=clock,
            rng=rng,
            cpu_time=unmeasured,
            tuning=Tuning(workers=dict.fromkeys(there, 5), status_per_s=_AT_ONCE),
            reports_ready=False,
        )
        self._shared = Shared(self._context)
        self._loops = [kind(self._shared) for kind in loops if names is None or kind.name in names]
        self._controllers = [
            controller_for(work.resource, work.control, self._context)
            for work in works
            if names is None or work.control.name in names
        ]
        self._stopped = asyncio.Event()

    def mirror(self, resource: Resource) -> Cache[DocumentView] | None:
        """The mirror of a resource that one of them keeps, for others to read; it runs with them."""
        return self._sources.by_resource.get(resource)

    async def run(self) -> None:
        """Work until `stop()` or until cancelled."""
        await run_beside(
            self._work(),
            self._sources.run(),
            *(recorder.run() for recorder in self._shared.recorders.values()),
            *(recorder.run() for recorder in self._context.recorders),
        )

    async def _work(self) -> None:
        # A controller that does not know all pods yet would create those it takes for missing.
        if not await happens_before(self._stopped, self.wait_synced()):
            return
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.run(), name=loop.name)
            for one in self._controllers:
                group.create_task(one.run(), name=one.name)

    async def wait_synced(self) -> None:
        """Return when everything there is has been seen."""
        await self._sources.wait_synced()

    async def stop(self) -> None:
        """Finish the writes under way; `run()` returns."""
        for loop in self._loops:
            loop.queue.close()
        self._stopped.set()
        for loop in self._loops:
            await loop.stop()
        for one in self._controllers:
            await one.stop()
        for recorder in (*self._shared.recorders.values(), *self._context.recorders):
            await recorder.flush(timeout_s=1.0)


def _known() -> "tuple[Sequence[type[Loop]], Sequence[Work]]":
    """Loaded when a cluster runs one of them."""
    from pykruise.sandbox.controllers.known import KINDS, WORK

    return KINDS, WORK
