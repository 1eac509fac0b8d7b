"""The scheduler: assigns pods to nodes, in the order in which the pods appear.

pods, nodes (caches) ──▶ Ledger;  pending pod ──▶ queue ──▶ choose() ──▶ POST pods/<name>/binding
                                                                └──▶ condition PodScheduled=False, event

A choice is in the ledger before it is written, so that the next pod sees it. If the write fails, the choice is
removed. Pods without a node are tried again after a change of a node or a pod that could make room, or of a claim that
they wait for. A pod whose claims wait for their first pod is bound after its claims; meanwhile its place is kept. If
the eviction of pods of lower priority can make room, these pods are deleted, and the pod is nominated for their node.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock, Instant, format_time
from pykruise.kube.control.controller import Controller, skip_measuring
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.errors import ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.program.process import run_beside
from pykruise.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.pods import BY_GROUP
from pykruise.sandbox.controllers.volume_choice import (
    SELECTED_NODE,
    Hopeless,
    PodVolumes,
    VolumeChoiceWorld,
    build_claim_reference,
    is_bound,
    volumes_of,
)
from pykruise.sandbox.nodes.ledger import NodeLedger
from pykruise.sandbox.nodes.specs import SandboxNodeView, project_node
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView
from pykruise.sandbox.running import wait_for_condition
from pykruise.sandbox.scheduling.filters import ChosenNode, NoPlace, choose, explain
from pykruise.sandbox.scheduling.gangs import format_gang_message, read_min_count
from pykruise.sandbox.scheduling.preemption import HELPLESS, NEVER, Budget, NoRoom, PreemptionRoom, make_room

DEFAULT_SCHEDULER = "default-scheduler"

_RETRY_S = 300.0  # interval of retries if nothing changes that could help; same as the real scheduler's
_WAKE_S = 0.1  # changes within this number of seconds enqueue the waiting pods once
_WAKE_PER_POD_S = 0.001  # each waiting pod makes this time longer by this number of seconds
_BIND_VOLUMES_S: Final = 600.0  # longest time that a pod keeps its place while its volumes are bound

_NodeCheck = Callable[[SandboxNodeView], Sequence[str]]


class SchedulerSurroundings(msgspec.Struct, frozen=True):
    """Caches of other objects that scheduling depends on. Other components run these caches."""

    claims: Cache[DocumentView]
    volumes: Cache[DocumentView]
    classes: Cache[DocumentView]
    budgets: Cache[DocumentView] | None = None
    """None if no controller maintains disruption budgets."""


class _Binding(msgspec.Struct, frozen=True):
    """A pod that has its place and waits for its volumes."""

    pod: SandboxPodView
    node: str
    until: Instant


class SchedulerStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the scheduler."""

    nodes: int
    waiting: int
    """Pods without a node at the last attempt."""
    assumed: int
    """Pods whose binding the watch has not reported yet."""
    bound: int
    failed: int
    """Attempts that found no node."""


class Scheduler:
    """Binds the pods whose `schedulerName` is `name`.

    `pods`, `nodes`: caches that other components run; without them the scheduler runs its own caches. It works from
    `run()` until `stop()`. With `tells_success` there is an event for every binding, as in a real cluster.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        pods: Cache[SandboxPodView] | None = None,
        nodes: Cache[SandboxNodeView] | None = None,
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
        self._owned: list[Cache[SandboxPodView] | Cache[SandboxNodeView]] = []
        if pods is None:
            pods = Cache(client, PODS, project=SandboxPodProjector(), clock=clock, rng=rng)
            self._owned.append(pods)
        if nodes is None:
            nodes = Cache(client, NODES, project=project_node, clock=clock, rng=rng)
            self._owned.append(nodes)
        self.pods = pods
        self.nodes = nodes
        self._writer = Writer(client, {PODS: pods})
        self.ledger = NodeLedger()
        self._around: SchedulerSurroundings | None = None
        self._world: VolumeChoiceWorld | None = None
        self._groups: Cache[DocumentView] | None = None
        self._assumed: dict[Key, str] = {}  # values: uids of the pods
        self._binding: dict[Key, _Binding] = {}
        self._nominated: dict[Key, SandboxPodView] = {}
        self._waiting: dict[Key, None] = {}
        self._wake_timer: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()
        self._bound = 0
        self._failed = 0
        self._queue: WorkQueue[Key] = WorkQueue(cost_factor=0, rng=rng)
        self._controller = Controller(
            "scheduler",
            self._schedule,
            queue=self._queue,
            workers=workers,
            clock=clock,
            cpu_time=skip_measuring,
        )
        pods.subscribe(self._on_pod)
        nodes.subscribe(self._on_node)

    def respect(self, around: SchedulerSurroundings) -> None:
        """Respect the volumes of claims, and disruption budgets. Without this call, pods do not wait for volumes."""
        self._around = around
        self._world = VolumeChoiceWorld(around.claims, around.volumes, around.classes)
        mirrors: dict[Any, Cache[Any]] = {
            PODS: self.pods,
            PERSISTENT_VOLUME_CLAIMS: around.claims,
            PERSISTENT_VOLUMES: around.volumes,
        }
        self._writer = Writer(self._client, mirrors)
        around.claims.subscribe(self._on_claim)
        around.volumes.subscribe(lambda change: self._wake_waiting())
        around.classes.subscribe(lambda change: self._wake_waiting())

    def respect_groups(self, groups: Cache[DocumentView]) -> None:
        """Bind the pods of a gang only when minCount of them fit. Without this call each pod is scheduled alone."""
        self._groups = groups
        groups.subscribe(lambda change: self._wake_waiting())

    # ── running ──────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Schedule until `stop()` or cancellation."""
        for node in self.nodes.values():
            self.ledger.set_node(node)
        for pod in self.pods.values():
            self._on_pod(Change(pod.key, None, pod))
        try:
            await run_beside(self._run_controller(), *(cache.run() for cache in self._owned))
        finally:
            if self._wake_timer is not None:
                self._wake_timer.cancel()
                self._wake_timer = None

    async def _run_controller(self) -> None:
        # A pod that is scheduled before all nodes and all other pods are known may get the wrong node.
        if await wait_for_condition(self._stopped, self._wait_synced()):
            await self._controller.run()

    async def _wait_synced(self) -> None:
        await self.nodes.wait_synced()
        await self.pods.wait_synced()
        if self._around is not None:
            for cache in (self._around.claims, self._around.volumes, self._around.classes):
                await cache.wait_synced()
        if self._groups is not None:
            await self._groups.wait_synced()

    async def stop(self) -> None:
        """Finish the bindings in progress; then `run()` returns."""
        self._queue.close()
        self._stopped.set()
        await self._controller.stop()

    def read_stats(self) -> SchedulerStats:
        """The current counts."""
        return SchedulerStats(
            nodes=len(self.nodes),
            waiting=len(self._waiting),
            assumed=len(self._assumed),
            bound=self._bound,
            failed=self._failed,
        )

    # ── changes of the caches ────────────────────────────────────────────────

    def _on_pod(self, change: Change[SandboxPodView]) -> None:
        key, pod = change.key, change.new
        self._note_nominated(key, pod)
        if pod is None or pod.is_over:
            self._assumed.pop(key, None)
            self._binding.pop(key, None)
            self._waiting.pop(key, None)
            self.ledger.unplace(key)
            if change.old is not None and change.old.node_name:
                self._wake_waiting()
        elif pod.node_name:
            self._assumed.pop(key, None)
            self._binding.pop(key, None)
            self._waiting.pop(key, None)
            self.ledger.place(pod, pod.node_name)
        elif not self._is_mine(pod):
            self._waiting.pop(key, None)
        elif self._assumed.get(key) != pod.uid:
            self._queue.add(key)

    def _note_nominated(self, key: Key, pod: SandboxPodView | None) -> None:
        if pod is not None and pod.status.nominated_node_name and self._is_mine(pod):
            self._nominated[key] = pod
        else:
            self._nominated.pop(key, None)

    def _on_claim(self, change: Change[DocumentView]) -> None:
        """Enqueue the waiting pods that use the claim."""
        name, namespace = change.key.name, change.key.namespace
        for key in (*self._waiting, *self._binding):
            pod = self.pods.get(key) if key.namespace == namespace else None
            if pod is not None and name in pod.claims:
                self._queue.add(key)

    def _on_node(self, change: Change[SandboxNodeView]) -> None:
        if change.new is None:
            self.ledger.remove_node(change.key.name)
            return
        self.ledger.set_node(change.new)
        if change.old is None or not change.new.is_similar(change.old):
            self._wake_waiting()

    def _is_mine(self, pod: SandboxPodView) -> bool:
        is_asked = pod.scheduler_name in ("", self.name) if self.name == DEFAULT_SCHEDULER else False
        return (
            (is_asked or pod.scheduler_name == self.name)
            and not pod.node_name
            and not pod.is_gated
            and not pod.is_deleting
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
        if pod is None or not self._is_mine(pod):
            return None
        if key in self._binding:
            return await self._continue_binding(pod, self._binding[key])
        if self._assumed.get(key) == pod.uid:
            return None
        if self._groups is not None and pod.pod_group:
            members = self.pods.list_by_index(BY_GROUP, (pod.namespace, pod.pod_group))
            others = [other for other in members if not other.is_over]
            with_node = sum(bool(other.node_name) or other.key in self._assumed for other in others)
            least = read_min_count(self._groups.get(Key(pod.namespace, pod.pod_group)))
            if least > with_node:
                return await self._schedule_gang(pod, others, least=least, with_node=with_node)
        volumes = volumes_of(pod, self._world) if pod.claims and self._world is not None else None
        if isinstance(volumes, Hopeless):
            nodes = len(self.ledger.list_candidates())
            why = f"0/{nodes} nodes are available: {volumes.message}."
            return await self._report_waiting(pod, f"{why} {_describe_no_preemption(pod, nodes)}")
        check = volumes.check if volumes is not None else None
        with self._with_nominated_placed(pod):
            answer = choose(
                pod,
                self.ledger,
                rng=self._rng,
                volumes=check,
                nominated=pod.status.nominated_node_name,
            )
            room = (
                self._find_room(pod, answer, check)
                if isinstance(answer, NoPlace) and answer.hopeful
                else None
            )
        if isinstance(answer, ChosenNode):
            if volumes is not None and volumes.waiting:
                return await self._bind_volumes(pod, answer.node, volumes)
            await self._bind_pod(pod, answer.node)
            return None
        if isinstance(room, PreemptionRoom):
            return await self._preempt(pod, room, answer.message)
        message = answer.message
        if nodes := len(self.ledger.list_candidates()):
            message += (
                f" preemption: {room.message}"
                if room is not None
                else f" {_describe_no_preemption(pod, nodes)}"
            )
        return await self._report_waiting(pod, message)

    async def _schedule_gang(
        self, pod: SandboxPodView, others: Sequence[SandboxPodView], *, least: float, with_node: int
    ) -> float | None:
        """Bind all pods of the group that fit if they are enough for the gang; otherwise bind none. The choice of nodes
        ignores the pods' volumes.
        """
        if len(others) < least:
            self._waiting[pod.key] = None  # the real scheduler does not try the gang, and reports nothing
            return _RETRY_S
        chosen: list[tuple[SandboxPodView, str]] = []
        message = ""
        for other in others:
            if self._is_mine(other) and other.key not in self._assumed:
                answer = choose(other, self.ledger, rng=self._rng)
                if isinstance(answer, ChosenNode):
                    self.ledger.place(other, answer.node)
                    chosen.append((other, answer.node))
                elif other.key == pod.key or not message:
                    message = answer.message
        if with_node + len(chosen) < least:
            for other, _ in chosen:
                self.ledger.unplace(other.key)
            return await self._report_waiting(
                pod, format_gang_message(least, with_node + len(chosen), message)
            )
        for other, _ in chosen:
            self._assumed[other.key] = other.uid
        await asyncio.gather(*(self._bind_pod(other, node) for other, node in chosen))
        has_node = any(other.key == pod.key for other, _ in chosen)
        return None if has_node else await self._report_waiting(pod, message)

    async def _report_waiting(self, pod: SandboxPodView, message: str) -> float:
        """Report why the pod has no node. Return the seconds until the next attempt without a change."""
        self._failed += 1
        self._waiting[pod.key] = None
        await self._write_reason(pod, message)
        return _RETRY_S

    # ── preemption ───────────────────────────────────────────────────────────

    @contextmanager
    def _with_nominated_placed(self, pod: SandboxPodView) -> Iterator[None]:
        """Place nominated pods of at least the same priority in the ledger during this context. They wait for evictions
        on their nodes.
        """
        others = [
            other
            for key, other in self._nominated.items()
            if key != pod.key and other.priority >= pod.priority and key not in self._assumed
        ]
        for other in others:
            self.ledger.place(other, other.status.nominated_node_name)
        try:
            yield
        finally:
            for other in others:
                self.ledger.unplace(other.key)

    def _find_room(
        self, pod: SandboxPodView, answer: NoPlace, volumes: _NodeCheck | None
    ) -> PreemptionRoom | NoRoom:
        return make_room(
            pod, self.ledger, hopeful=answer.hopeful, budgets=self._read_budgets(pod), volumes=volumes
        )

    def _read_budgets(self, pod: SandboxPodView) -> Sequence[Budget]:
        budgets = self._around.budgets if self._around is not None else None
        if budgets is None or min(self.ledger.priorities, default=pod.priority) >= pod.priority:
            return ()
        return [Budget.parse(view.doc) for view in budgets.values()]

    async def _preempt(self, pod: SandboxPodView, room: PreemptionRoom, message: str) -> float:
        """Nominate the pod for the node, and delete the victims. This is the rule of Kubernetes' default preemption."""
        answer = await self._wait_nominated(pod, room.node, message)
        text = f"{self.name}: preempting to accommodate a higher priority pod"
        for victim in room.victims:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": text,
                "lastTransitionTime": format_time(self._clock()),
            }
            with suppress(NotFoundError, ConflictError):
                if victim.status.find_condition("DisruptionTarget") is None:
                    await self._patch_status(victim, {"conditions": [condition]})
                await self._writer.delete(PODS, victim.key, uid=victim.uid)
            self._record_event(
                victim, "Preempted", f"Preempted by pod {pod.uid} on node {room.node}", warning=False
            )
        return answer

    async def _wait_nominated(self, pod: SandboxPodView, node: str, message: str) -> float:
        self._failed += 1
        self._waiting[pod.key] = None
        await self._write_reason(pod, message, nominated=node)
        return _RETRY_S

    # ── volumes ──────────────────────────────────────────────────────────────

    async def _bind_volumes(self, pod: SandboxPodView, node: str, volumes: PodVolumes) -> float | None:
        """Write the volume of each claim, or the node for which it must be created, and keep the pod's place."""
        view = self.ledger.nodes[node].view
        chosen = volumes.plan_binding(view) if view is not None else None
        if chosen is None:
            return 0.0  # the node was deleted a moment ago
        self._waiting.pop(pod.key, None)
        self._assumed[pod.key] = pod.uid
        self.ledger.place(pod, node)
        binding = _Binding(pod, node, self._clock() + _BIND_VOLUMES_S)
        self._binding[pod.key] = binding
        try:
            for claim, volume in chosen:
                if volume is not None:
                    await self._claim_volume(volume, claim)
                elif claim.annotations.get(SELECTED_NODE) != node:
                    await self._select_node(claim, node)
        except (NotFoundError, ConflictError):
            self._undo_placement(pod)  # another write was faster, so choose again from the current state
            return 0.0
        except Exception:
            self._undo_placement(pod)
            raise
        return await self._continue_binding(pod, binding)

    async def _claim_volume(self, volume: DocumentView, claim: DocumentView) -> None:
        patch = {
            "metadata": {
                "uid": volume.uid,
                "resourceVersion": str(volume.resource_version),
                "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
            },
            "spec": {"claimRef": build_claim_reference(claim)},
        }
        await self._writer.patch(
            PERSISTENT_VOLUMES, volume.key, patch, patch_type=PatchType.MERGE, uid=volume.uid
        )

    async def _select_node(self, claim: DocumentView, node: str) -> None:
        patch = {
            "metadata": {
                "uid": claim.uid,
                "resourceVersion": str(claim.resource_version),
                "annotations": {SELECTED_NODE: node},
            }
        }
        await self._writer.patch(
            PERSISTENT_VOLUME_CLAIMS, claim.key, patch, patch_type=PatchType.MERGE, uid=claim.uid
        )

    async def _continue_binding(self, pod: SandboxPodView, binding: _Binding) -> float | None:
        """Bind the pod when all its claims are bound. This is the rule of the plugin VolumeBinding before a binding."""
        if pod.uid != binding.pod.uid:
            self._undo_placement(binding.pod)
            return 0.0
        assert self._world is not None
        claims = [self._world.find_claim(pod, name) for name in pod.claims]
        if all(claim is not None and is_bound(claim) for claim in claims):
            self._binding.pop(pod.key, None)
            await self._bind_pod(pod, binding.node)
            return None
        if any(claim is None or claim.is_deleting for claim in claims):
            self._undo_placement(pod)
            return 0.0
        left_s = binding.until - self._clock()
        if left_s > 0:
            return left_s
        self._undo_placement(pod)
        text = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
        self._failed += 1
        self._waiting[pod.key] = None
        await self._write_reason(pod, text, reason="SchedulerError")
        return _RETRY_S

    # ── writes ───────────────────────────────────────────────────────────────

    async def _bind_pod(self, pod: SandboxPodView, node: str) -> None:
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
            self._undo_placement(pod)
            return
        except ConflictError:
            # The pod already has a node, or another pod has its name now. The watch will show which.
            self._undo_placement(pod)
            raise
        except Exception:
            self._undo_placement(pod)
            raise
        self._bound += 1
        if self._tells_success:
            self._record_event(pod, "Scheduled", f"Successfully assigned {pod.key} to {node}", warning=False)

    def _undo_placement(self, pod: SandboxPodView) -> None:
        self._binding.pop(pod.key, None)
        if self._assumed.pop(pod.key, None) is not None:
            self.ledger.unplace(pod.key)

    async def _write_reason(
        self,
        pod: SandboxPodView,
        message: str,
        *,
        reason: str = "Unschedulable",
        nominated: str | None = None,
    ) -> None:
        """Write the reason for waiting into the pod's status, once per reason, and the nominated node.

        If `nominated` is None, the nomination stays unchanged.
        """
        known = pod.status.find_condition("PodScheduled")
        status: dict[str, Any] = {}
        if nominated is not None and nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated
        if known is not None and known.status == "False" and known.message == message and not status:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
        }
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = format_time(self._clock())
        self._record_event(pod, "FailedScheduling", message, warning=True)
        try:
            await self._patch_status(pod, {"conditions": [condition], **status})
        except NotFoundError:
            self._waiting.pop(pod.key, None)

    async def _patch_status(self, pod: SandboxPodView, status: dict[str, Any]) -> None:
        await self._writer.patch(
            PODS,
            pod.key,
            {"metadata": {"uid": pod.uid}, "status": status},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
            uid=pod.uid,
        )

    def _record_event(self, pod: SandboxPodView, reason: str, message: str, *, warning: bool) -> None:
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


def _describe_no_preemption(pod: SandboxPodView, nodes: int) -> str:
    """Message of a pod for which preemption helps on no node."""
    return f"preemption: {explain(nodes, {HELPLESS: nodes}) if pod.preempts else NEVER}"
