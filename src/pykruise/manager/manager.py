"""The manager: every kind's controller over one cluster, with the caches and the writer they share.

Client ──▶ Sources (caches) ──▶ controllers (one per kind) ──▶ Executor ──▶ Writer ──▶ Client
                                        └──▶ EventRecorder

`run()` begins with the caches; nothing is planned before all of them have seen the cluster once. `stop()`
lets plans under way finish their writes. A kill loses nothing either: all is planned anew from what is stored.
"""

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Sequence

import msgspec

from pykruise.kinds.cloneset import controller as cloneset
from pykruise.kube.cache import CacheStats
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.controller import Controller, ControllerStats
from pykruise.kube.ids import Key
from pykruise.kube.queue import QueueStats
from pykruise.kube.writer import Writer
from pykruise.manager.settings import Settings
from pykruise.plans.execute import Executor
from pykruise.plans.reconcile import KindContext
from pykruise.plans.sources import Sources

_log = logging.getLogger(__name__)

STOP_GRACE_S = 30.0
"""How long `stop()` waits for writes in flight."""


class ManagerStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a manager is: its caches by resource, its controllers and queues by name."""

    synced: bool
    caches: dict[str, CacheStats]
    controllers: dict[str, ControllerStats]
    queues: dict[str, QueueStats]


class Manager:
    """Runs the controllers of all kinds against the cluster behind `client`.

    `cpu_time` measures what a plan costs (see kube/controller.py); give a constant where every run must be the
    same. `freeze_heap` takes what lives when the caches are full out of the garbage collector's sight: right for
    a process that is nothing but a manager.
    """

    def __init__(
        self,
        client: Client,
        *,
        settings: Settings | None = None,
        clock: Clock = system_clock,
        rng: random.Random | None = None,
        cpu_time: Callable[[], float] = time.thread_time,
        freeze_heap: bool = False,
    ) -> None:
        rng = rng or random.Random()
        self._sources = Sources(client, clock=clock, rng=rng)
        context = KindContext(
            client=client,
            sources=self._sources,
            executor=Executor(Writer(client, self._sources.by_resource), rng=rng),
            clock=clock,
            rng=rng,
            cpu_time=cpu_time,
        )
        self._freeze_heap = freeze_heap
        settings = settings or Settings()
        self._kinds = (cloneset.build(context, settings=settings.cloneset),)
        self._recorders = context.recorders
        self._stop = asyncio.Event()

    @property
    def controllers(self) -> Sequence[Controller[Key]]:
        """One per kind."""
        return self._kinds

    def stats(self) -> ManagerStats:
        """How everything in it is."""
        return ManagerStats(
            synced=self._sources.synced,
            caches={str(resource): cache.stats() for resource, cache in self._sources.by_resource.items()},
            controllers={kind.name: kind.stats() for kind in self._kinds},
            queues={kind.name: kind.queue.stats() for kind in self._kinds},
        )

    async def wait_synced(self) -> None:
        """Return when every cache has seen the cluster; the controllers work from then on."""
        await self._sources.wait_synced()

    async def run(self) -> None:
        """Work until `stop()` or cancellation. Raises what a part of it dies of."""
        self._stop.clear()
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._sources.run(), name="caches")]
            background += [tasks.create_task(recorder.run(), name="events") for recorder in self._recorders]
            work = tasks.create_task(self._work(), name="controllers")
            await self._stop.wait()
            await asyncio.gather(*(kind.stop(grace_s=STOP_GRACE_S) for kind in self._kinds))
            await asyncio.gather(*(recorder.flush() for recorder in self._recorders))
            for task in (work, *background):
                task.cancel()

    def stop(self) -> None:
        """Begin a graceful end: `run()` returns when the writes in flight are done."""
        self._stop.set()

    async def _work(self) -> None:
        await self._sources.wait_synced()
        if self._freeze_heap:
            gc.collect()
            gc.freeze()
        _log.info("caches are synced, controllers start")
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds:
                tasks.create_task(kind.run(), name=kind.name)
