"""Builds the controller of a kind: its caches, wakes, queue and reconciler.

Control + settings + KindContext ──▶ build_controller() ──▶ Controller, subscribed to the events that wake it
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventMemory, EventRecorder
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import DEFAULT_WORKERS, Controller
from pykruise.kube.control.queue import BASE_DELAY_S, MAX_DELAY_S, WorkQueue
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.churn import ChurnBrake
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Executor
from pykruise.runtime.named_kinds import FurtherKinds
from pykruise.runtime.plan import Note
from pykruise.runtime.read import Around, Memories, Read
from pykruise.runtime.reconcile import ReconciledOwner, Reconciler, RecordEvent
from pykruise.runtime.rollouts import ChildrenOf, RolloutMeter
from pykruise.runtime.shared_keys import KindKeys, LedKeys, SharedKeys
from pykruise.runtime.sources import Sources
from pykruise.runtime.status import PER_SECOND
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Later, Wake

__all__ = ["KindContext", "Tuning", "build_controller", "views_of"]

Handler = tuple[Cache[Any], Callable[[Change[Any]], None]]
"""A cache and the handler of its changes."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """Concurrency and retry limits of all controllers. Times in seconds."""

    workers: Mapping[str, int] = {}
    """Number of workers by controller name; other controllers have DEFAULT_WORKERS."""
    base_delay_s: float = BASE_DELAY_S
    max_delay_s: float = MAX_DELAY_S
    retries_per_s: float = 0.0
    """Retries per second, over all keys of a queue; 0: no limit."""
    retry_burst: int = 100
    status_per_s: float = PER_SECOND
    """Status writes per second for one object that keeps changing."""


class KindContext:
    """Inputs that an operator gives each kind for building its controller."""

    def __init__(
        self,
        *,
        client: Client,
        sources: Sources,
        executor: Executor,
        events_client: Client,
        clock: Clock,
        rng: random.Random,
        cpu_time: Callable[[], float],
        tuning: Tuning = Tuning(),  # noqa: B008 - frozen
        reports_ready: bool = True,
        shared: SharedKeys | None = None,
        led: LedKeys | None = None,
    ) -> None:
        self.shared = shared
        """The keys of this manager, where several managers share the keys. None: all keys."""
        self.led = led
        """The keys of this manager, where it works only while it leads. None: always, or by slots (`shared`)."""
        self.client = client
        self.sources = sources
        self.executor = executor
        self.clock = clock
        self.rng = rng
        self.cpu_time = cpu_time
        self.tuning = tuning
        self.reports_ready = reports_ready
        """Whether statuses have the conditions Ready, Reconciling and Stalled, for kinds that support them."""
        self.rollouts: dict[str, RolloutMeter] = {}
        """Rollouts and waits by controller name."""
        self.recorders: list[EventRecorder] = []
        self._events_client = events_client
        self._events = EventMemory()
        self.further: list[FurtherKinds] = []
        """Readers of the ConfigMaps that name further kinds; the operator runs them."""
        self.brake = ChurnBrake(now=lambda: asyncio.get_running_loop().time())
        """Holds back the writes of objects whose reconciles undo their own work."""
        self.memories: list[Memories] = []
        """Memories of the controllers."""

    def make_queue(self) -> WorkQueue[Key]:
        """Return a queue that retries as the operator's tuning defines."""
        return WorkQueue(
            base_delay_s=self.tuning.base_delay_s,
            max_delay_s=self.tuning.max_delay_s,
            retries_per_s=self.tuning.retries_per_s,
            retry_burst=self.tuning.retry_burst,
            rng=self.rng,
        )

    def make_controller(
        self, name: str, turn: Callable[[Key], Awaitable[float | None]], *, queue: WorkQueue[Key]
    ) -> Controller[Key]:
        """Return a controller with the number of workers that the operator's tuning sets for `name`."""
        return Controller(
            name,
            turn,
            queue=queue,
            workers=self.tuning.workers.get(name, DEFAULT_WORKERS),
            clock=self.clock,
            cpu_time=self.cpu_time,
        )

    def make_recorder(self, component: str) -> RecordEvent:
        """Return a function that records events in the name of `component`. The operator runs and flushes the
        recorder.
        """
        recorder = EventRecorder(
            self._events_client, component, clock=self.clock, rng=self.rng, memory=self._events
        )
        self.recorders.append(recorder)

        def record(owner: ReconciledOwner, note: Note, count: int) -> None:
            about = note.about or owner
            recorder.record(
                about.resource,
                namespace=about.key.namespace,
                name=about.key.name,
                uid=about.uid,
                reason=note.reason,
                message=note.message,
                warning=note.warning,
                code=note.code,
                count=count,
            )

        return record


def views_of(control: Control, settings: Any) -> tuple[Views[Any], ...]:
    """All views that the kind reads under these settings; its own objects are first."""
    return tuple(dict.fromkeys((control.objects, *control.reads(settings))))


def build_controller(
    resource: Resource,
    control: Control,
    context: KindContext,
    settings: Any = None,
    *,
    blank_status: Mapping[str, Any] = {},
    children: ChildrenOf | None = None,
) -> Controller[Key]:
    """Build the controller of a kind, register its caches and subscribe its wakes. `blank_status`, `children`:
    see Reconciler.
    """
    caches: dict[Views[Any], Any] = {
        views: context.sources.find_cache(views) for views in views_of(control, settings)
    }
    memories = Memories()
    context.memories.append(memories)
    queue = context.make_queue()
    around = Around(
        caches,
        settings=settings,
        memories=memories,
        is_making=context.executor.is_making,
        now=context.clock,
    )
    shared, led = context.shared, context.led
    handler_of = partial(
        _enqueue_handler,
        around=around,
        queue=queue,
        is_ours=partial(shared.is_open, control.name) if shared is not None else None,
        is_open=partial(led.is_open, control.name) if led is not None else None,
    )
    further = None
    if control.further is not None:
        further = FurtherKinds(
            control.further,
            client=context.client,
            sources=context.sources,
            clock=context.clock,
            rng=context.rng,
            namespace=control.further.namespace(settings),
            mirrors=caches,
            on_events=handler_of,
        )
        context.further.append(further)
    wakes = control.wakes(settings)
    while_there = list[Handler]()
    for wake in wakes:
        cache, on_change = caches[wake.on], handler_of(wake)
        if control.wakes_always(wake):
            cache.subscribe(on_change)
        else:
            while_there.append((cache, on_change))
    _subscribe(while_there, objects=caches[control.objects])

    def read_for(view: Any) -> Read[Any]:
        return Read(
            caches,
            key=Key(view.namespace, view.name),
            uid=view.uid,
            now=context.clock,
            rng=context.rng,
            settings=settings,
            live=context.client,
            memories=memories,
            further=further.by_kind if further is not None else None,
        )

    reconciler = Reconciler(
        resource,
        control,
        caches[control.objects],
        read_for=read_for,
        memories=memories,
        executor=context.executor,
        executor_of=partial(shared.executor_of, control.name) if shared is not None else None,
        record=context.make_recorder(control.component),
        rollouts=context.rollouts.setdefault(control.name, RolloutMeter()),
        reports_ready=context.reports_ready,
        brake=context.brake,
        blank_status=blank_status,
        children=children,
    )

    def forget_gone(change: Change[Any]) -> None:
        """Forget a deleted object here, since its deletion is not always enqueued: only some events of pods enqueue the
        pod.
        """
        if change.new is None:
            reconciler.forget(change.key)

    caches[control.objects].subscribe(forget_gone)
    kind = KindKeys(
        control,
        wakes=lambda: (*wakes, *(further.list_wakes() if further is not None else ())),
        mirror_of=caches.get,
        around=around,
        queue=queue,
        known=memories.keys,
        forget=reconciler.forget,
    )
    if led is not None:
        led.add(control.name, kind)
    if shared is None:
        return context.make_controller(control.name, reconciler, queue=queue)
    shared.add(control.name, kind)
    return context.make_controller(control.name, shared.guard_turn(control.name, reconciler), queue=queue)


def _subscribe(handlers: Sequence[Handler], *, objects: Cache[Any]) -> None:
    """Subscribe the handlers to their caches while the kind has at least one of its `objects`.

    Most clusters have objects of a few kinds only. Without this, every other kind would examine each pod event for
    nothing. The first object of a kind is enqueued by its own event, and its reconcile then reads everything.
    """
    ends = list[Callable[[], None]]()

    def follow(_: Change[Any] | None = None) -> None:
        if len(objects) and not ends:
            ends.extend(cache.subscribe(handler) for cache, handler in handlers)
        elif not len(objects):
            for end in ends:
                end()
            ends.clear()

    if handlers:
        objects.subscribe(follow)
        follow()


def _enqueue_handler(
    wake: Wake,
    *,
    around: Around[Any],
    queue: WorkQueue[Key],
    is_ours: Callable[[Key], bool] | None,
    is_open: Callable[[], bool] | None,
) -> Callable[[Change[Any]], None]:
    """Return the handler that enqueues the keys of a wake. `is_ours`: selects the keys of this manager; None: all.
    `is_open`: whether events enqueue keys now; None: always.
    """
    keys_of = wake.keys
    if is_ours is not None:
        all_of, is_wanted = keys_of, is_ours

        def keys_of(change: Change[Any], around: Around[Any]) -> Iterable[Key | Later]:
            for key in all_of(change, around):
                if is_wanted(key.key if isinstance(key, Later) else key):
                    yield key

    def on_change(change: Change[Any]) -> None:
        if is_open is not None and not is_open():
            return
        for key in keys_of(change, around):
            if isinstance(key, Later):
                queue.add_after(key.key, key.seconds)
            else:
                queue.add(key)

    return on_change
