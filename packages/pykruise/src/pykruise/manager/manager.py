"""The manager: every kind's controller over one cluster, with the caches and the writer they share.

Client ──▶ Sources (caches) ──▶ controllers (one per kind) ──▶ Executor ──▶ Writer ──▶ Client
                                        └──▶ EventRecorder
Components (webhooks, …) run beside them, in every replica.

`run()` begins with caches and components. The controller of a kind starts when the caches it looks at have seen
the cluster once and no component has a problem any more; a kind that the cluster does not know yet (its CRD is
missing) waits alone and starts when it comes. `stop()` lets plans under way finish their writes. A kill loses
nothing either: all is planned anew from what is stored.

With an elector, several managers share a cluster: all have full caches and serve webhooks, one runs controllers.
A replica that could not work does not stand for election. A new leader works when it has seen what the one before
wrote (kube/hand_over.py). A leader that loses its Lease cannot write any more
from that moment (kube/leases.py), ends its controllers, and `run()` raises: the process ends and starts anew.
"""

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds import kinds as all_kinds
from pykruise.kube.cache import CacheStats
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.controller import Controller, ControllerStats
from pykruise.kube.definitions import Renewal, definitions_of
from pykruise.kube.event_batching import Pace
from pykruise.kube.hand_over import HandOver
from pykruise.kube.ids import Key
from pykruise.kube.leases import FencedTransport, LeaderElector, LeaseLostError
from pykruise.kube.queue import QueueStats
from pykruise.kube.writer import Writer
from pykruise.manager.components import Component
from pykruise.manager.oversight import Oversight
from pykruise.manager.settings import Settings
from pykruise.plans.kind import Kind
from pykruise.plans.views import SHARED
from pykruise.runtime.assemble import KindContext, controller_for, views_of
from pykruise.runtime.execute import Executor
from pykruise.runtime.rollouts import RolloutMeter
from pykruise.runtime.sources import Sources
from pykruise.runtime.views import Views

__all__ = ["Manager", "ManagerStats"]

_log = logging.getLogger(__name__)

_COMPONENT_POLL_S = 0.5
"""How often components are asked, while controllers wait for them."""


class ManagerStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a manager is: its caches by resource, its controllers and queues by name."""

    synced: bool
    caches: dict[str, CacheStats]
    controllers: dict[str, ControllerStats]
    queues: dict[str, QueueStats]


class _RunningKind(msgspec.Struct, frozen=True):
    kind: Kind
    controller: Controller[Key]
    reads: tuple[Views[Any], ...]
    needs: tuple[Views[Any], ...]
    """Of these, whose caches must be full before it works."""


class Manager:
    """Runs the controllers of all kinds against the cluster behind `client`.

    `cpu_time` measures what a plan costs (see kube/controller.py); give a constant where every run must be the
    same. `freeze_heap` takes what lives when the caches are full out of the garbage collector's sight: right for
    a process that is nothing but a manager. `pace`: of pods, see kube/event_batching.py. `kinds` that the settings'
    gates switch off are left out. Without `oversees` nobody looks every other second whether caches follow the cluster,
    nor at CRDs that are stored anew: right where they cannot fail.
    """

    def __init__(
        self,
        client: Client,
        *,
        settings: Settings | None = None,
        components: Sequence[Component] = (),
        kinds: Sequence[Kind] | None = None,
        elector: LeaderElector | None = None,
        clock: Clock = system_clock,
        rng: random.Random | None = None,
        cpu_time: Callable[[], float] = time.thread_time,
        freeze_heap: bool = False,
        pace: Pace | None = None,
        oversees: bool = True,
    ) -> None:
        rng = rng or random.Random()
        settings = settings or Settings()
        self.settings = settings
        if elector is not None:
            client = client.over(FencedTransport(client.transport, elector.term))
        self.elector = elector
        self._sources = Sources(
            client, clock=clock, rng=rng, namespace=settings.watch_namespace, pace=pace, shared=SHARED
        )
        context = KindContext(
            client=client,
            sources=self._sources,
            executor=Executor(
                Writer(client, self._sources.observers), rng=rng, status_per_s=settings.tuning.status_per_s
            ),
            clock=clock,
            rng=rng,
            cpu_time=cpu_time,
            tuning=settings.tuning,
            reports_ready=settings.ready_conditions,
        )
        self._freeze_heap = freeze_heap
        self._oversees = oversees
        self._components = tuple(components)
        self._kinds = tuple(
            _build(kind, context, settings)
            for kind in (all_kinds() if kinds is None else kinds)
            if kind.control is not None and kind.is_enabled(settings.gates.__getitem__)
        )
        self._oversight = Oversight(
            self._sources.by_resource,
            shared=frozenset(views.resource for views in SHARED),
            timeout_s=settings.cache_sync_timeout_s,
        )
        self._definitions = definitions_of(client, clock=clock, rng=rng)
        self._definitions.subscribe(Renewal(lambda: self._sources.caches).on_definition)
        self._hand_over = HandOver(lambda: self._sources.caches, elector) if elector is not None else None
        self._recorders = context.recorders
        self._rollouts = context.rollouts
        self._further = context.further
        self._is_frozen = False
        self._stop = asyncio.Event()

    @property
    def controllers(self) -> Sequence[Controller[Key]]:
        """One per kind."""
        return tuple(running.controller for running in self._kinds)

    @property
    def kinds(self) -> Sequence[Kind]:
        """Those that run here."""
        return tuple(running.kind for running in self._kinds)

    @property
    def components(self) -> Sequence[Component]:
        """What runs beside the controllers."""
        return self._components

    def stats(self) -> ManagerStats:
        """How everything in it is."""
        return ManagerStats(
            synced=self._sources.synced,
            caches={str(resource): cache.stats() for resource, cache in self._sources.by_resource.items()},
            controllers={one.name: one.stats() for one in self.controllers},
            queues={one.name: one.queue.stats() for one in self.controllers},
        )

    @property
    def rollouts(self) -> Mapping[str, RolloutMeter]:
        """By the controller's name: rollouts of the kinds that have such."""
        return self._rollouts

    def objects(self, kind: Kind) -> Sequence[Any]:
        """The objects of a kind that runs here, as it sees them."""
        assert kind.control is not None
        return self._sources.of(kind.control.objects).values()

    def positions(self) -> dict[str, int]:
        """By resource: the version of the cluster that all its caches have followed."""
        found: dict[str, int] = {}
        for cache in self._sources.caches:
            name = str(cache.resource)
            found[name] = min(found.get(name, cache.position), cache.position)
        return found

    def problems(self) -> Sequence[str]:
        """Why it cannot do its work now, one sentence each; empty: it can."""
        return (
            *self.shutdown_problems(),
            *self.cache_problems(),
            *(f"{one.name}: {problem}" for one in self._components for problem in one.problems()),
        )

    def shutdown_problems(self) -> Sequence[str]:
        """Whether it is about to end."""
        return ("it is about to end",) if self._stop.is_set() else ()

    def cache_problems(self) -> Sequence[str]:
        """What is wrong with its picture of the cluster."""
        return self._oversight.problems()

    async def wait_synced(self) -> None:
        """Return when every cache has seen the cluster."""
        await self._sources.wait_synced()

    @property
    def is_leading(self) -> bool:
        """Whether controllers run here: without an elector, always."""
        return self.elector is None or self.elector.is_leading

    async def run(self) -> None:
        """Work until `stop()` or cancellation. Raises LeaseLostError, or what a part of it dies of."""
        try:
            await self._run()
        except BaseExceptionGroup as group:
            lost, others = group.split(LeaseLostError)
            if lost is None or others is not None:
                raise
            raise lost.exceptions[0] from None

    async def _run(self) -> None:
        self._stop.clear()
        if self._freeze_heap:
            gc.collect()
            gc.freeze()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._sources.run(), name="caches"),
            ]
            if self._oversees:
                background.append(tasks.create_task(self._oversight.run(), name="oversight"))
                background.append(tasks.create_task(self._definitions.run(), name="definitions"))
            if self.settings.resync_s is not None:
                again = self._sources.redeliver(every_s=self.settings.resync_s)
                background.append(tasks.create_task(again, name="resync"))
            background += [tasks.create_task(one.run(), name="further kinds") for one in self._further]
            background += [tasks.create_task(recorder.run(), name="events") for recorder in self._recorders]
            background += [tasks.create_task(one.run(), name=one.name) for one in self._components]
            background.append(tasks.create_task(self._stand_for_election(), name="election"))
            if self._hand_over is not None:
                background.append(tasks.create_task(self._hand_over.run(), name="hand-over"))
            work = [tasks.create_task(self._work(one), name=one.kind.name) for one in self._kinds]
            await self._stop.wait()
            lingering = tasks.create_task(asyncio.sleep(self.settings.linger_s if self._components else 0.0))
            grace_s = self.settings.stop_grace_s
            await asyncio.gather(*(one.controller.stop(grace_s=grace_s) for one in self._kinds))
            await asyncio.gather(*(recorder.flush() for recorder in self._recorders))
            if self.elector is not None and self._hand_over is not None and self.elector.is_leading:
                await self.elector.release(self._hand_over.versions())
            await lingering
            await asyncio.gather(*(one.stop() for one in self._components))
            for task in (*work, *background):
                task.cancel()

    def stop(self) -> None:
        """Begin a graceful end: `run()` returns when the writes in flight are done."""
        self._stop.set()

    async def _work(self, running: _RunningKind) -> None:
        """One kind: wait for what it needs, then work."""
        await self._sources.wait_synced(running.needs)
        await self._components_ready()
        if self._hand_over is not None:
            await self._hand_over.wait(self._sources.of(views) for views in running.reads)
        self._freeze()
        _log.info("%s: caches are synced, the controller starts", running.kind.name)
        await running.controller.run()

    async def _stand_for_election(self) -> None:
        """Only once this replica could do the work."""
        if self.elector is not None:
            await self._sources.wait_synced(SHARED)
            await self._components_ready()
            await self.elector.run()

    async def _components_ready(self) -> None:
        while True:
            if not any(one.problems() for one in self._components):
                return
            await asyncio.sleep(_COMPONENT_POLL_S)

    def _freeze(self) -> None:
        if self._freeze_heap and not self._is_frozen:
            self._is_frozen = True
            gc.collect(
                1
            )  # young garbage only: all of it would stop the loop, and most is frozen since `run()`
            gc.freeze()


def _build(kind: Kind, context: KindContext, settings: Settings) -> _RunningKind:
    """The controller of a kind, and the caches that it waits for."""
    own = settings.of(kind)
    assert kind.control is not None
    reads = tuple(dict.fromkeys((*SHARED, *views_of(kind.control, own))))
    needs = tuple(views for views in reads if not views.is_apart)
    return _RunningKind(kind, controller_for(kind.resource, kind.control, context, own), reads, needs)
