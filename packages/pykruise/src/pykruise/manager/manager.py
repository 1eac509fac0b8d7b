"""The manager: an operator (runtime/operator.py) of every kind, and what runs beside it in every replica.

Kind + Settings ──▶ Work ──▶ Operator
Components (webhooks, …), oversight of the caches, and of definitions that are stored anew ──▶ problems() ──▶ health

Controllers start, and this replica stands for election, when no component has a problem any more. `stop()` lets plans
under way finish their writes, and components serve until others have taken over.
"""

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds import blank_status_of
from pykruise.kinds import kinds as all_kinds
from pykruise.kube.cache.cache import CacheStats
from pykruise.kube.cache.definition_watch import Renewal, definitions_of
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import LimiterStats
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.control.controller import Controller, ControllerStats
from pykruise.kube.control.queue import QueueStats
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.election.membership import Membership
from pykruise.kube.ids import Key
from pykruise.manager.cache_oversight import Oversight
from pykruise.manager.components import ManagerComponent
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import children_at_work
from pykruise.plans.kind import Kind
from pykruise.plans.views import SHARED
from pykruise.runtime.operator import Operator, Work
from pykruise.runtime.rollouts import RolloutMeter
from pykruise.runtime.tracing import NO_SPANS, Span

_log = logging.getLogger(__name__)

_COMPONENT_POLL_S = 0.5
"""How often components are asked, while controllers wait for them."""

_YOUNG_GARBAGE = (2_000, 10)
"""Objects that are new, and collections of these, before they are looked at."""
_NEVER = 1_000_000_000
_ALL_GARBAGE_S = 600.0
"""Between two looks at all that lives and is not frozen: the loop stands still meanwhile."""


class ManagerStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a manager is: its caches by resource, its controllers and queues by name."""

    synced: bool
    caches: dict[str, CacheStats]
    controllers: dict[str, ControllerStats]
    queues: dict[str, QueueStats]
    limiter: LimiterStats
    """Stats of the limiter that all of them share."""


class Manager:
    """Runs the controllers of all kinds against the cluster behind `client`.

    `cpu_time` measures what a plan costs (see kube/control/controller.py); give a constant where every run must be the
    same. `freeze_heap` takes what lives when the caches are full out of the garbage collector's sight: right for
    a process that is nothing but a manager. `pace`: of pods, see cache/event_batching.py. `kinds` that the settings'
    gates switch off are left out. Without `oversees` nothing checks now and then whether caches follow the cluster,
    nor at CRDs that are stored anew: right where they cannot fail. `span` records turns (runtime/tracing.py).
    """

    def __init__(
        self,
        client: Client,
        *,
        settings: ManagerSettings | None = None,
        components: Sequence[ManagerComponent] = (),
        kinds: Sequence[Kind] | None = None,
        elector: LeaderElector | None = None,
        membership: Membership | None = None,
        clock: Clock = system_clock,
        rng: random.Random | None = None,
        cpu_time: Callable[[], float] = time.thread_time,
        freeze_heap: bool = False,
        pace: Pace | None = None,
        oversees: bool = True,
        span: Span = NO_SPANS,
        before_renewal: Callable[[str], object] = lambda group: None,
    ) -> None:
        """`before_renewal`: called with the API group of a definition that changed, before its objects are read
        again."""
        rng = rng or random.Random()
        self.settings = settings = settings or ManagerSettings()
        self._kinds = tuple(
            kind
            for kind in (all_kinds() if kinds is None else kinds)
            if kind.control is not None and kind.is_enabled(settings.gates.__getitem__)
        )
        self._operator = Operator(
            client,
            [
                Work(
                    resource=kind.resource,
                    control=kind.control,
                    settings=settings.of(kind),
                    blank_status=blank_status_of(kind),
                    children=children_at_work(kind.insight),
                )
                for kind in self._kinds
                if kind.control is not None
            ],
            elector=elector,
            membership=membership,
            shared=SHARED,
            namespace=settings.watch_namespace,
            resync_s=settings.resync_s,
            stop_grace_s=settings.stop_grace_s,
            is_ready=self._components_ready,
            on_work=self._freeze,
            tuning=settings.tuning,
            reports_ready=settings.ready_conditions,
            span=span,
            clock=clock,
            rng=rng,
            cpu_time=cpu_time,
            pace=pace,
        )
        self._sources = self._operator.sources
        self._freeze_heap = freeze_heap
        self._is_frozen = False
        self._oversees = oversees
        self._components = tuple(components)
        self._oversight = Oversight(
            self._sources.by_resource,
            shared=frozenset(views.resource for views in SHARED),
            timeout_s=settings.cache_sync_timeout_s,
        )
        self._definitions = definitions_of(self._operator.client, clock=clock, rng=rng)
        self._definitions.subscribe(
            Renewal(lambda: self._sources.caches, before=before_renewal).on_definition
        )
        self._stop = asyncio.Event()

    @property
    def elector(self) -> LeaderElector | None:
        """Takes part in the election; None: there is none."""
        return self._operator.elector

    @property
    def membership(self) -> Membership | None:
        """Takes part in shared work; None: the leader does all of it."""
        return self._operator.membership

    @property
    def controllers(self) -> Sequence[Controller[Key]]:
        """One per kind."""
        return self._operator.controllers

    @property
    def kinds(self) -> Sequence[Kind]:
        """Kinds that run here."""
        return self._kinds

    @property
    def components(self) -> Sequence[ManagerComponent]:
        """Parts that run besides the controllers."""
        return self._components

    def stats(self) -> ManagerStats:
        """How everything in it is."""
        return ManagerStats(
            synced=self._sources.synced,
            caches={str(resource): cache.stats() for resource, cache in self._sources.by_resource.items()},
            controllers={controller.name: controller.stats() for controller in self.controllers},
            queues={controller.name: controller.queue.stats() for controller in self.controllers},
            limiter=self._operator.client.limiter.stats(),
        )

    @property
    def rollouts(self) -> Mapping[str, RolloutMeter]:
        """Rollouts by controller name, for kinds that have rollouts."""
        return self._operator.rollouts

    def objects(self, kind: Kind) -> Sequence[Any]:
        """The objects of a kind that runs here, as it sees them."""
        assert kind.control is not None
        return self._sources.of(kind.control.objects).values()

    def positions(self) -> dict[str, int]:
        """Resource to the version of the cluster that all its caches have reached."""
        positions: dict[str, int] = {}
        for cache in self._sources.caches:
            name = str(cache.resource)
            positions[name] = min(positions.get(name, cache.position), cache.position)
        return positions

    def problems(self) -> Sequence[str]:
        """Why it cannot do its work now, one sentence each; empty: it can."""
        return (
            *self.shutdown_problems(),
            *self.cache_problems(),
            *(
                f"{component.name}: {problem}"
                for component in self._components
                for problem in component.problems()
            ),
        )

    def shutdown_problems(self) -> Sequence[str]:
        """Whether it is about to end."""
        return ("it is about to end",) if self._stop.is_set() else ()

    def cache_problems(self) -> Sequence[str]:
        """Problems of its caches."""
        return self._oversight.problems()

    async def wait_synced(self) -> None:
        """Return when every cache has seen the cluster."""
        await self._sources.wait_synced()

    @property
    def is_leading(self) -> bool:
        """Whether controllers run here: without an elector, always."""
        return self._operator.is_leading

    async def run(self) -> None:
        """Work until `stop()` or cancellation. Raises what a part of it dies of."""
        self._stop.clear()
        if self._freeze_heap:
            gc.collect()
            gc.freeze()
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(item.run(), name=item.name) for item in self._components]
            if self._oversees:
                beside.append(tasks.create_task(self._oversight.run(), name="oversight"))
                beside.append(tasks.create_task(self._definitions.run(), name="definitions"))
            if self._freeze_heap:
                beside.append(tasks.create_task(_collect_garbage(), name="garbage"))
            work = tasks.create_task(self._operator.run(), name="operator")
            await self._stop.wait()
            for component in self._components:
                component.retire()
            lingering = tasks.create_task(asyncio.sleep(self.settings.linger_s if self._components else 0.0))
            self._operator.stop()
            await work
            await lingering
            await asyncio.gather(*(item.stop() for item in self._components))
            for task in beside:
                task.cancel()

    def stop(self) -> None:
        """Begin a graceful end: `run()` returns when the writes in flight are done."""
        self._stop.set()

    async def _components_ready(self) -> None:
        while True:
            if not any(component.problems() for component in self._components):
                return
            await asyncio.sleep(_COMPONENT_POLL_S)

    def _freeze(self) -> None:
        if self._freeze_heap and not self._is_frozen:
            self._is_frozen = True
            gc.collect(
                1
            )  # young garbage only: all of it would stop the loop, and most is frozen since `run()`
            gc.freeze()


async def _collect_garbage() -> None:
    """Young garbage as it comes, all of it now and then. A large object in memory would else have everything looked
    at again and again, for tens of milliseconds each time."""
    before = gc.get_threshold()
    gc.set_threshold(*_YOUNG_GARBAGE, _NEVER)
    try:
        while True:
            await asyncio.sleep(_ALL_GARBAGE_S)
            gc.collect()
    finally:
        gc.set_threshold(*before)
