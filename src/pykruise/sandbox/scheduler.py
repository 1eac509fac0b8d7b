"""The scheduler: gives pods their nodes, in the order in which they come.

pods, nodes (caches) ──▶ Ledger;  pending pod ──▶ queue ──▶ choose() ──▶ POST pods/<name>/binding
                                                                └──▶ condition PodScheduled=False, event

A choice counts in the ledger before it is written, so the next pod sees it; when the write fails it is taken
back. Pods without a place are tried again when a node or a pod changes that could make room.
"""

import asyncio
import random

import msgspec

from pykruise.kube.cache import Cache, Change
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, format_time
from pykruise.kube.controller import Controller, unmeasured
from pykruise.kube.errors import ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.queue import WorkQueue
from pykruise.kube.recorder import EventRecorder
from pykruise.kube.resources import NODES, PODS
from pykruise.kube.writer import Writer
from pykruise.sandbox.nodes import NodeView, project_node
from pykruise.sandbox.pod_view import PodProjector, PodView
from pykruise.sandbox.running import happens_before, run_beside
from pykruise.sandbox.scheduling import Chosen, Ledger, choose

__all__ = ["Scheduler", "SchedulerStats"]

DEFAULT_SCHEDULER = "default-scheduler"

_RETRY_S = 300.0  # without any change that could help: as often as the real one
_WAKE_S = 0.1  # changes that come together wake the waiting pods once ...
_WAKE_PER_POD_S = 0.001  # ... and the longer the queue of them, the later


class SchedulerStats(msgspec.Struct, frozen=True, kw_only=True):
    """How the scheduler is."""

    nodes: int
    waiting: int
    """Pods for which there was no place at the last try."""
    assumed: int
    """Pods whose binding the watch has not shown yet."""
    bound: int
    failed: int
    """Tries that found no place."""


class Scheduler:
    """Binds the pods whose `schedulerName` is `name`.

    `pods`, `nodes`: caches that somebody else runs; without them ones of its own are run. Component: `run()`
    until `stop()`. With `tells_success` every binding is an event too, as in a real cluster.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        pods: Cache[PodView] | None = None,
        nodes: Cache[NodeView] | None = None,
        recorder: EventRecorder | None = None,
        name: str = DEFAULT_SCHEDULER,
        workers: int = 32,
        tells_success: bool = False,
    ) -> None:
        self.name = name
        self._client = client
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._tells_success = tells_success
        self._owned: list[Cache[PodView] | Cache[NodeView]] = []
        if pods is None:
            pods = Cache(client, PODS, project=PodProjector(), clock=clock, rng=rng)
            self._owned.append(pods)
        if nodes is None:
            nodes = Cache(client, NODES, project=project_node, clock=clock, rng=rng)
            self._owned.append(nodes)
        self.pods = pods
        self.nodes = nodes
        self._writer = Writer(client, {PODS: pods})
        self.ledger = Ledger()
        self._assumed: dict[Key, str] = {}  # → uid
        self._waiting: dict[Key, None] = {}
        self._wake_timer: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()
        self._bound = 0
        self._failed = 0
        self._queue: WorkQueue[Key] = WorkQueue(cost_factor=0, rng=rng)
        self._controller = Controller(
            "scheduler", self._schedule, queue=self._queue, workers=workers, clock=clock, cpu_time=unmeasured
        )
        pods.subscribe(self._on_pod)
        nodes.subscribe(self._on_node)

    # ── running ──────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Schedule until `stop()` or until cancelled."""
        for node in self.nodes.values():
            self.ledger.set_node(node)
        for pod in self.pods.values():
            self._on_pod(Change(pod.key, None, pod))
        try:
            await run_beside(self._work(), *(cache.run() for cache in self._owned))
        finally:
            if self._wake_timer is not None:
                self._wake_timer.cancel()
                self._wake_timer = None

    async def _work(self) -> None:
        # A pod that is scheduled before all nodes and all other pods are known may go to the wrong place.
        if await happens_before(self._stopped, self._wait_synced()):
            await self._controller.run()

    async def _wait_synced(self) -> None:
        await self.nodes.wait_synced()
        await self.pods.wait_synced()

    async def stop(self) -> None:
        """Finish the bindings under way; `run()` returns."""
        self._queue.close()
        self._stopped.set()
        await self._controller.stop()

    def stats(self) -> SchedulerStats:
        """How it is now."""
        return SchedulerStats(
            nodes=len(self.nodes),
            waiting=len(self._waiting),
            assumed=len(self._assumed),
            bound=self._bound,
            failed=self._failed,
        )

    # ── what the caches tell ─────────────────────────────────────────────────

    def _on_pod(self, change: Change[PodView]) -> None:
        key, pod = change.key, change.new
        if pod is None or pod.is_over:
            self._assumed.pop(key, None)
            self._waiting.pop(key, None)
            self.ledger.unplace(key)
            if change.old is not None and change.old.node_name:
                self._wake_waiting()
        elif pod.node_name:
            self._assumed.pop(key, None)
            self._waiting.pop(key, None)
            self.ledger.place(pod, pod.node_name)
        elif not self._is_mine(pod):
            self._waiting.pop(key, None)
        elif self._assumed.get(key) != pod.uid:
            self._queue.add(key)

    def _on_node(self, change: Change[NodeView]) -> None:
        if change.new is None:
            self.ledger.remove_node(change.key.name)
            return
        self.ledger.set_node(change.new)
        if change.old is None or not change.new.looks_like(change.old):
            self._wake_waiting()

    def _is_mine(self, pod: PodView) -> bool:
        is_asked = pod.scheduler_name in ("", self.name) if self.name == DEFAULT_SCHEDULER else False
        return (
            (is_asked or pod.scheduler_name == self.name)
            and not pod.node_name
            and not pod.is_gated
            and not pod.is_terminating
            and not pod.is_over
        )

    def _wake_waiting(self) -> None:
        if self._waiting and self._wake_timer is None:
            delay_s = _WAKE_S + _WAKE_PER_POD_S * len(self._waiting)
            self._wake_timer = asyncio.get_running_loop().call_later(delay_s, self._wake_now)

    def _wake_now(self) -> None:
        self._wake_timer = None
        for key in self._waiting:
            self._queue.add(key)

    # ── one pod ──────────────────────────────────────────────────────────────

    async def _schedule(self, key: Key) -> float | None:
        pod = self.pods.get(key)
        if pod is None or not self._is_mine(pod) or self._assumed.get(key) == pod.uid:
            return None
        answer = choose(pod, self.ledger, rng=self._rng)
        if isinstance(answer, Chosen):
            await self._bind(pod, answer.node)
            return None
        self._failed += 1
        self._waiting[key] = None
        await self._report(pod, answer.message)
        return _RETRY_S

    async def _bind(self, pod: PodView, node: str) -> None:
        self._waiting.pop(pod.key, None)
        self._assumed[pod.key] = pod.uid
        self.ledger.place(pod, node)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS, pod.namespace, binding, name=pod.name, subresource="binding")
        except NotFoundError:
            self._take_back(pod)
            return
        except ConflictError:
            # It has a node already, or the name belongs to another pod by now: the watch tells which.
            self._take_back(pod)
            raise
        except Exception:
            self._take_back(pod)
            raise
        self._bound += 1
        if self._tells_success:
            self._tell(pod, "Scheduled", f"Successfully assigned {pod.key} to {node}", warning=False)

    def _take_back(self, pod: PodView) -> None:
        if self._assumed.pop(pod.key, None) is not None:
            self.ledger.unplace(pod.key)

    async def _report(self, pod: PodView, message: str) -> None:
        """Say in the pod's status why it waits; once for each reason."""
        known = pod.status.condition("PodScheduled")
        if known is not None and known.status == "False" and known.message == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = format_time(self._clock())
        self._tell(pod, "FailedScheduling", message, warning=True)
        try:
            await self._writer.patch(
                PODS,
                pod.key,
                {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
                uid=pod.uid,
            )
        except NotFoundError:
            self._waiting.pop(pod.key, None)

    def _tell(self, pod: PodView, reason: str, message: str, *, warning: bool) -> None:
        if self._recorder is not None:
            self._recorder.record(
                PODS,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                reason=reason,
                message=message,
                warning=warning,
            )
