"""An operator: controllers of any kinds for one cluster, with shared caches and a shared writer.

Client ──▶ Sources (caches) ──▶ controllers (one for each Work) ──▶ Executor ──▶ Writer ──▶ Client
                                └──▶ EventRecorder

`run()` starts the caches first. A controller starts when the caches that it reads are synced. A kind that the API
server does not serve yet (its CRD is missing) delays no other kind, and starts once it is served. `stop()` lets running
plans finish their writes, then releases the Lease, so that a successor can start, and then writes the pending events.
A killed process loses nothing either: everything is planned again from the stored objects.

With an elector, several operators share a cluster: all have full caches, and one runs controllers. An operator that
could not work is no candidate for election. A new leader works once its caches show the writes of the previous one
(takeover.py), and begins with all objects of its caches. A leader that loses its Lease cannot write from that moment
(leases.py). It ends its controllers, empties their queues, forgets its memories of objects, and becomes a candidate
again. An operator that does not lead has empty queues (shared_keys.py).

With a membership, several operators work at the same time (membership.py): all run their controllers, each on the
keys of the slots that it holds (shared_keys.py).
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from pykruise.kube.cache.cache import Cache
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.control.controller import Controller
from pykruise.kube.control.retried_task import run_in_own_task
from pykruise.kube.election.leases import Fence, FencedTransport, LeaderElector, LeaseLostError
from pykruise.kube.election.membership import HeldSlot, Membership
from pykruise.kube.election.takeover import HandOver
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.assemble import KindContext, Tuning, build_controller, views_of
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Executor
from pykruise.runtime.rollouts import ChildrenOf, RolloutMeter
from pykruise.runtime.shared_keys import LedKeys, Share, SharedKeys
from pykruise.runtime.sources import Sources
from pykruise.runtime.tracing import NO_SPANS, Span
from pykruise.runtime.views import Views

__all__ = ["EVENTS_S", "RELEASE_S", "Operator", "Work"]

_log = logging.getLogger(__name__)

STOP_GRACE_S = 10.0
"""Seconds that a running reconcile may take to finish when the operator stops."""

RELEASE_S = 10.0
"""Maximum seconds for the release of Leases when the operator stops. A Lease that is not released expires."""

EVENTS_S = 1.0
"""Seconds for the pending events after the Leases have been released, even if all earlier steps took their maximum. If
the earlier steps took less, the events may take up to MOST_EVENTS_S.
"""

MOST_EVENTS_S = 5.0


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Defines which objects of one kind are reconciled, and how."""

    resource: Resource
    control: Control
    settings: Any = None
    """Settings that the control's functions receive."""
    blank_status: Mapping[str, Any] = {}
    """Initial status while nothing is known yet (reconcile.py)."""
    children: ChildrenOf | None = None
    """Children of an object whose waits count as the object's own (rollouts.py)."""


class _Running(msgspec.Struct, frozen=True):
    name: str
    controller: Controller[Key]
    reads: tuple[Views[Any], ...]
    needs: tuple[Views[Any], ...]
    """Caches that must be synced before this kind's controller starts, besides those that all kinds need."""
    at_start: Sequence[Key]


class _EventFence:
    """A fence that permits events while `term` holds, and while the fence is open: at the end of the operator, after
    the release of the Lease. The last events report what the operator did before.
    """

    def __init__(self, term: Fence) -> None:
        self._term = term
        self.is_open = False

    def holds(self) -> bool:
        return self.is_open or self._term.holds()

    def write_time_s(self) -> float:
        return MOST_EVENTS_S if self.is_open else self._term.write_time_s()


async def _at_once() -> None:
    """Return immediately: there is nothing else to wait for."""


class Operator:
    """Runs the controllers of `work` against the cluster behind `client`.

    `shared`: views that always have a cache, and that all work waits for. `borrowed`: caches that another part of the
    program maintains. `is_ready` returns when nothing else prevents work. `cpu_time` measures the cost of a reconcile
    (kube/control/controller.py). `namespace`: only objects of this namespace; empty: of all namespaces. `resync_s`:
    interval at which every object is delivered again, even if nothing has changed; None: never. `reports_ready`:
    statuses have the conditions of kstatus.py where a Control can compute them. `pace`: for events of pods, see
    kube/cache/event_batching.py. `on_work` is called when a controller is about to start. `span` records reconciles
    and writes (tracing.py). Raises ValueError for two works of one name.
    """

    def __init__(
        self,
        client: Client,
        work: Sequence[Work],
        *,
        elector: LeaderElector | None = None,
        membership: Membership | None = None,
        shared: Sequence[Views[Any]] = (),
        borrowed: Mapping[Views[Any], Cache[Any]] | None = None,
        namespace: str = "",
        resync_s: float | None = None,
        stop_grace_s: float = STOP_GRACE_S,
        is_ready: Callable[[], Awaitable[None]] = _at_once,
        on_work: Callable[[], None] = lambda: None,
        tuning: Tuning = Tuning(),  # noqa: B008 - frozen
        reports_ready: bool = True,
        span: Span = NO_SPANS,
        clock: Clock = read_system_clock,
        rng: random.Random | None = None,
        cpu_time: Callable[[], float] = time.thread_time,
        pace: Pace | None = None,
    ) -> None:
        rng = rng or random.Random()
        plain = client
        events_client = plain
        self._event_fence: _EventFence | None = None
        elector = membership.leader if membership is not None else elector
        if elector is not None:
            term = membership.term if membership is not None else elector.term
            client = plain.replace_transport(FencedTransport(plain.transport, term))
            self._event_fence = _EventFence(term)
            events_client = plain.replace_transport(FencedTransport(plain.transport, self._event_fence))
        self.client = client
        """Client whose writes fail while this operator neither leads nor is a member."""
        self.elector = elector
        self.membership = membership
        self._shared = tuple(dict.fromkeys(shared))
        self._resync_s = resync_s
        self._stop_grace_s = stop_grace_s
        self._is_ready = is_ready
        self._on_work = on_work
        self.sources = Sources(
            client, clock=clock, rng=rng, namespace=namespace, pace=pace, shared=shared, borrowed=borrowed
        )
        executor = Executor(
            Writer(client, self.sources.observers), rng=rng, status_per_s=tuning.status_per_s, span=span
        )

        def executor_over(fence: Fence) -> Executor:
            fenced = plain.replace_transport(FencedTransport(plain.transport, fence))
            return executor.replace_writer(Writer(fenced, self.sources.observers))

        self.shared_keys = (
            SharedKeys(keying=membership.keying, executor_over=executor_over)
            if membership is not None
            else None
        )
        self._led_keys = LedKeys() if elector is not None and membership is None else None
        self._context = KindContext(
            client=client,
            sources=self.sources,
            executor=executor,
            events_client=events_client,
            clock=clock,
            rng=rng,
            cpu_time=cpu_time,
            tuning=tuning,
            reports_ready=reports_ready,
            shared=self.shared_keys,
            led=self._led_keys,
        )
        names = Counter(item.control.name for item in work)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"two works have the name {twice[0]!r}: give each another name")
        self._running = tuple(self._build(item) for item in work)
        self._hand_over: HandOver | None = None
        self._stop = asyncio.Event()

    def _build(self, work: Work) -> _Running:
        reads = tuple(dict.fromkeys((*self._shared, *views_of(work.control, work.settings))))
        waited = set(self._shared)
        needs = tuple(views for views in reads if not views.is_apart and views not in waited)
        controller = build_controller(
            work.resource,
            work.control,
            self._context,
            work.settings,
            blank_status=work.blank_status,
            children=work.children,
        )
        return _Running(work.control.name, controller, reads, needs, work.control.at_start)

    @property
    def controllers(self) -> Sequence[Controller[Key]]:
        """Controllers, one for each work."""
        return tuple(running.controller for running in self._running)

    @property
    def rollouts(self) -> Mapping[str, RolloutMeter]:
        """Waits by controller name, and rollouts if the Control computes the Standing of its objects."""
        return self._context.rollouts

    @property
    def is_leading(self) -> bool:
        """Whether this operator is the leader; without an elector, always."""
        return self.elector is None or self.elector.is_leading

    def select_reconciled(self, name: str) -> Callable[[Key], bool]:
        """Return a function that says whether this operator now reconciles a key for the controller `name`: it leads
        or, when operators share the work, holds the key's slot. Use it at once: it does not follow a later change of
        the leader.
        """
        if self.shared_keys is not None:
            return partial(self.shared_keys.is_open, name)
        leads = self.is_leading
        return lambda _: leads

    @property
    def is_stopping(self) -> bool:
        """Whether `stop()` has been called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Begin a graceful end: `run()` returns when running writes are complete."""
        self._stop.set()

    async def run(self) -> None:
        """Work until `stop()` or cancellation. Raises the error of any part that fails."""
        self._stop.clear()
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self.sources.run(), name="caches")]
            if self._resync_s is not None:
                again = self.sources.redeliver(every_s=self._resync_s)
                background.append(tasks.create_task(again, name="resync"))
            background += [
                tasks.create_task(further_kinds.run(), name="further kinds")
                for further_kinds in self._context.further
            ]
            background += [
                tasks.create_task(recorder.run(), name="events") for recorder in self._context.recorders
            ]
            serving = self._serve_terms() if self.membership is None else self._serve_slots(self.membership)
            terms = tasks.create_task(serving, name="terms")
            await self._stop.wait()
            now = asyncio.get_running_loop().time
            latest = now() + self._stop_grace_s + RELEASE_S + EVENTS_S
            if self.membership is not None:
                self.membership.retire()
            stops = (running.controller.stop(grace_s=self._stop_grace_s) for running in self._running)
            have_ended = all(await asyncio.gather(*stops))
            await self._release_leases(have_ended=have_ended)
            if self._led_keys is not None:
                self._led_keys.close()
            terms.cancel()  # so that this operator takes no Lease while it writes events
            await self._write_last_events(within_s=min(MOST_EVENTS_S, latest - now()))
            for task in background:
                task.cancel()

    async def _release_leases(self, *, have_ended: bool) -> None:
        """Release the Leases that this operator holds. `have_ended`: whether no reconcile had to be cancelled."""
        try:
            async with asyncio.timeout(RELEASE_S):
                if self.membership is not None:
                    await self.membership.leave()
                elif self.elector is not None and self._hand_over is not None and self.elector.is_leading:
                    await self.elector.release(self._hand_over.read_versions() if have_ended else None)
        except TimeoutError:
            _log.warning("the release of Leases took more than %g s; those that are left expire", RELEASE_S)

    async def _write_last_events(self, *, within_s: float) -> None:
        if self._event_fence is not None:
            self._event_fence.is_open = True
        recorders = self._context.recorders
        await asyncio.gather(*(recorder.flush(timeout_s=within_s) for recorder in recorders))
        if self._event_fence is not None:
            self._event_fence.is_open = False

    async def _serve_terms(self) -> None:
        """Lead whenever this operator holds the Lease; without an elector, lead once for the whole run."""
        while True:
            try:
                await run_in_own_task(self._serve_term())
                return
            except* LeaseLostError as lost:
                _log.error("this program is no longer the leader: %s", lost.exceptions[0])
            # Others write meanwhile, so no decision may use memories of objects.
            if self._led_keys is not None:
                self._led_keys.close()
            for memories in self._context.memories:
                memories.clear()
            self._context.brake.clear()
            for meter in self.rollouts.values():
                meter.clear()

    async def _serve_term(self) -> None:
        await self.sources.wait_synced(self._shared)
        await self._is_ready()
        async with asyncio.TaskGroup() as term:
            if self.elector is not None:
                self._hand_over = HandOver(lambda: self.sources.caches, self.elector)
                term.create_task(self.elector.run(), name="election")
                term.create_task(self._hand_over.run(), name="hand-over")
            for running in self._running:
                term.create_task(self._run_controller(running, self._hand_over), name=running.name)

    # ── shared work ──────────────────────────────────────────────────────────

    async def _serve_slots(self, membership: Membership) -> None:
        """Take part in shared work: controllers run, and each slot that this operator holds gives them keys."""
        await self.sources.wait_synced(self._shared)
        await self._is_ready()
        async with asyncio.TaskGroup() as tasks:
            for running in self._running:
                tasks.create_task(self._run_controller(running, None), name=running.name)
            await membership.run(self._serve_slot)

    async def _serve_slot(self, slot: HeldSlot) -> Mapping[str, int] | None:
        assert self.shared_keys is not None  # a membership exists
        share = self.shared_keys.take(slot.number, slot.fence)
        hand_over = HandOver(lambda: self.sources.caches, slot.elector)
        try:
            async with asyncio.TaskGroup() as tasks:
                catching_up = [tasks.create_task(hand_over.run(), name=f"hand-over-{slot.number}")]
                for running in self._running:
                    opening = self._open(running, self.shared_keys, share, hand_over)
                    catching_up.append(tasks.create_task(opening, name=f"{running.name}-{slot.number}"))
                await slot.leaving.wait()
                for task in catching_up:
                    task.cancel()
            await share.close(grace_s=self._stop_grace_s)
            return hand_over.read_versions() if share.is_clean else None
        finally:
            self.shared_keys.drop(share)

    async def _open(self, running: _Running, keys: SharedKeys, share: Share, hand_over: HandOver) -> None:
        """Open one slot for one controller once the caches are synced and show the previous holder's writes."""
        await self.sources.wait_synced(running.needs)
        await hand_over.wait(self.sources.find_cache(views) for views in running.reads)
        await keys.open(share, running.name)

    async def _run_controller(self, running: _Running, hand_over: HandOver | None) -> None:
        """Run one controller once its caches are synced and show the previous leader's writes."""
        await self.sources.wait_synced(running.needs)
        await self._is_ready()
        if hand_over is not None:
            await hand_over.wait(self.sources.find_cache(views) for views in running.reads)
        self._on_work()
        _log.info("%s: caches are synced, the controller starts", running.name)
        if self._led_keys is not None:
            await self._led_keys.open(running.name)
        else:
            for key in running.at_start:
                running.controller.queue.add(key)
        if not self.is_stopping:
            await running.controller.run()
