"""The manager: an operator (runtime/operator.py) of every kind, and the components that run beside it in every replica.

Kind + Settings ──▶ Work ──▶ Operator
Components (webhooks, …), oversight of the caches ──▶ list_problems() ──▶ health
changed CRDs ──▶ Renewal ──▶ the caches of their objects open their watches again

Controllers start, and this replica becomes a candidate for leadership, as soon as no component has a problem. `stop()`
lets running plans finish their writes, and components serve until other replicas have taken over.
"""

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds import GROUPS, blank_status_of
from pykruise.kinds import list_kinds as all_kinds
from pykruise.kube.cache.cache import CacheStats
from pykruise.kube.cache.definition_watch import Renewal, definitions_of
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.cache.remembering import UNUSED_S, forget_unused
from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import LimiterStats
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.control.controller import Controller, ControllerStats
from pykruise.kube.control.queue import QueueStats
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.election.membership import Membership
from pykruise.kube.ids import Key
from pykruise.kube.program.cache_oversight import Oversight
from pykruise.manager.components import ManagerComponent
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import find_children_at_work
from pykruise.plans.kind import Kind
from pykruise.plans.views import SHARED
from pykruise.runtime.operator import Operator, Work
from pykruise.runtime.rollouts import RolloutMeter
from pykruise.runtime.tracing import NO_SPANS, Span

_log = logging.getLogger(__name__)

_COMPONENT_POLL_S = 0.5
"""Seconds between checks of the components while controllers wait for them."""

_YOUNG_GARBAGE = (2_000, 10)
"""Number of new objects before a young collection, and number of young collections before one of the next generation.
"""
_NEVER = 1_000_000_000
_ALL_GARBAGE_S = 600.0
"""Seconds between collections of all objects that are not frozen. Such a collection blocks the event loop."""


class ManagerStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a manager: its caches by resource, its controllers and queues by name."""

    synced: bool
    caches: dict[str, CacheStats]
    controllers: dict[str, ControllerStats]
    queues: dict[str, QueueStats]
    limiter: LimiterStats
    """Stats of the limiter that all requests share."""


class Manager:
    """Runs the controllers of all kinds for the cluster behind `client`.

    `cpu_time` measures the cost of a plan (see kube/control/controller.py); pass a constant where runs must be
    reproducible. `freeze_heap`: whether objects that exist when the caches are filled are excluded from garbage
    collection, for a process that runs only a manager. `pace`: how events of pods are batched, see
    cache/event_batching.py. `kinds`: kinds with disabled gates are left out. `oversees=False` disables the oversight of
    caches and the watch of CRDs, for environments in which caches cannot fail and CRDs do not change. `span` records
    reconciles (runtime/tracing.py).
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
        clock: Clock = read_system_clock,
        rng: random.Random | None = None,
        cpu_time: Callable[[], float] = time.thread_time,
        freeze_heap: bool = False,
        pace: Pace | None = None,
        oversees: bool = True,
        span: Span = NO_SPANS,
        before_renewal: Callable[[str], object] = lambda group: None,
    ) -> None:
        """Create the manager. `before_renewal` is called with the API group of a changed CRD before the watches of its
        objects are opened again.
        """
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
                    settings=settings.read_kind_settings(kind),
                    blank_status=blank_status_of(kind),
                    children=find_children_at_work(kind.insight),
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
            is_ready=self._wait_for_components,
            on_work=self._freeze_objects,
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
            converted=GROUPS,
            install_crds="install it with: pykruise crds | kubectl apply --server-side -f -",
            grant="apply the role that `pykruise install` prints",
        )
        self._definitions = definitions_of(self._operator.client, clock=clock, rng=rng)
        self._definitions.subscribe(
            Renewal(lambda: self._sources.caches, before=before_renewal).handle_definition
        )
        self._stop = asyncio.Event()

    @property
    def elector(self) -> LeaderElector | None:
        """The elector; None: there is no election."""
        return self._operator.elector

    @property
    def membership(self) -> Membership | None:
        """The membership in shared work; None: the leader does all of it."""
        return self._operator.membership

    @property
    def controllers(self) -> Sequence[Controller[Key]]:
        """Controllers, one per kind."""
        return self._operator.controllers

    @property
    def kinds(self) -> Sequence[Kind]:
        """Kinds that run in this manager."""
        return self._kinds

    @property
    def components(self) -> Sequence[ManagerComponent]:
        """Parts that run beside the controllers."""
        return self._components

    def read_stats(self) -> ManagerStats:
        """Return the state of all parts."""
        return ManagerStats(
            synced=self._sources.synced,
            caches={
                str(resource): cache.read_stats() for resource, cache in self._sources.by_resource.items()
            },
            controllers={controller.name: controller.read_stats() for controller in self.controllers},
            queues={controller.name: controller.queue.read_stats() for controller in self.controllers},
            limiter=self._operator.client.limiter.read_stats(),
        )

    @property
    def rollouts(self) -> Mapping[str, RolloutMeter]:
        """Rollouts by controller name, for kinds that have rollouts."""
        return self._operator.rollouts

    def list_objects(self, kind: Kind) -> Sequence[Any]:
        """Return the cached objects of a kind that runs in this manager."""
        assert kind.control is not None
        return self._sources.find_cache(kind.control.objects).values()

    def read_positions(self) -> dict[str, int]:
        """Return for each resource the resourceVersion that all its caches have reached."""
        positions: dict[str, int] = {}
        for cache in self._sources.caches:
            name = str(cache.resource)
            positions[name] = min(positions.get(name, cache.position), cache.position)
        return positions

    def list_problems(self) -> Sequence[str]:
        """Return the reasons why the manager cannot work now, one sentence each; empty: it can work."""
        return (
            *self.shutdown_problems(),
            *self.cache_problems(),
            *(
                f"{component.name}: {problem}"
                for component in self._components
                for problem in component.list_problems()
            ),
        )

    def shutdown_problems(self) -> Sequence[str]:
        """Return a problem if the manager is stopping."""
        return ("the manager is shutting down",) if self._stop.is_set() else ()

    def cache_problems(self) -> Sequence[str]:
        """Problems of the manager's caches."""
        return self._oversight.list_problems()

    async def wait_synced(self) -> None:
        """Wait until every cache has received its first list."""
        await self._sources.wait_synced()

    @property
    def is_leading(self) -> bool:
        """Whether this manager is the leader; without an elector, always."""
        return self._operator.is_leading

    def select_reconciled(self, kind: Kind) -> Callable[[Key], bool]:
        """Return a function that says whether this manager now reconciles an object of a kind that runs in it. Use it
        at once: it does not follow a later change of the leader.
        """
        assert kind.control is not None
        return self._operator.select_reconciled(kind.control.name)

    async def run(self) -> None:
        """Work until `stop()` or cancellation. Raises the error of any part that fails."""
        self._stop.clear()
        if self._freeze_heap:
            gc.collect()
            gc.freeze()
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(item.run(), name=item.name) for item in self._components]
            if self._oversees:
                beside.append(tasks.create_task(self._oversight.run(), name="oversight"))
                beside.append(tasks.create_task(self._definitions.run(), name="definitions"))
            beside.append(tasks.create_task(_forget_unused(), name="forgetting"))
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
        """Begin a graceful end: `run()` returns when running writes are complete."""
        self._stop.set()

    async def _wait_for_components(self) -> None:
        while True:
            if not any(component.list_problems() for component in self._components):
                return
            await asyncio.sleep(_COMPONENT_POLL_S)

    def _freeze_objects(self) -> None:
        if self._freeze_heap and not self._is_frozen:
            self._is_frozen = True
            # Only young objects are collected: a full collection would block the event loop, and most objects are
            # frozen since `run()`.
            gc.collect(1)
            gc.freeze()


async def _forget_unused() -> None:
    """Remove stored results about objects that no longer exist, at regular intervals."""
    while True:
        await asyncio.sleep(UNUSED_S)
        forget_unused()


async def _collect_garbage() -> None:
    """Collect young objects as usual, and all objects every _ALL_GARBAGE_S seconds. Otherwise each large object in
    memory would cause full collections of tens of milliseconds again and again.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_YOUNG_GARBAGE, _NEVER)
    try:
        while True:
            await asyncio.sleep(_ALL_GARBAGE_S)
            gc.collect()
    finally:
        gc.set_threshold(*before)
