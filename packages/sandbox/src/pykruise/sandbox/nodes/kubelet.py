"""The kubelets of all simulated nodes, in one component. They simulate the pods.

pods cache ──change──▶ queue ──▶ _sync_pod: advance() ──▶ status_of() ──▶ PATCH pods/status | DELETE
nodes      ──timer───▶ queue ──▶ status.py: register, renew the Lease, heartbeat
agents     ──────────▶ agents.py: other programs on the nodes, over runtime.py

pod_state.py and pod_status.py decide what happens to a pod; this module only waits and writes. It works with any API
server through a Client: the API server of the sandbox, or of a real control plane without nodes.
"""

import asyncio
import math
import random
from collections.abc import Iterable, Sequence, Set

import msgspec
from msgspec import UNSET

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.control.controller import Controller, skip_measuring
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.program.process import run_beside
from pykruise.kube.resources import CONFIG_MAPS, PODS, SECRETS
from pykruise.sandbox.nodes.agents import MakeAgents, NodeAccess, NodeAgents
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.images import ImageTable, expand_name
from pykruise.sandbox.nodes.pod_life import (
    advance,
    list_awaited_references,
    list_long_pulls,
    list_root_users,
    refusal_of,
    wants_resize,
)
from pykruise.sandbox.nodes.pod_state import (
    ContainerRun,
    KubeletSettings,
    NodeWorld,
    RunState,
    SimulatedPodState,
    add_ephemeral,
    begin,
    list_container_roles,
    lose_power,
    recover,
)
from pykruise.sandbox.nodes.pod_status import build_stopped_status, is_worth_reporting, patch_for, status_of
from pykruise.sandbox.nodes.references import CONFIG_MAP, SECRET, Reference, lack_of
from pykruise.sandbox.nodes.runtime import NodeRuntime
from pykruise.sandbox.nodes.specs import Addresses, NodeSpec, SandboxNodeView
from pykruise.sandbox.nodes.status import NodeRecord, NodeStatusWriter
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView


class KubeletsStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the kubelets."""

    nodes: int
    stopped_nodes: int
    pods: int
    """Number of pods on these nodes."""
    status_writes: int
    removals: int


class Kubelets:
    """All simulated nodes of a cluster.

    `existing`: existing Node objects, as listed; the kubelets use them without another request.
    `pods`: a cache of all pods that another component runs; without it, the kubelets run a cache of their own.
    `recorder`: records failed pulls and crashes, and starts of containers if the settings enable it. `agents`: agents
    on the nodes besides the kubelets. The kubelets work from `run()` until `stop()`.
    """

    def __init__(
        self,
        client: Client,
        *,
        nodes: Sequence[NodeSpec],
        existing: Iterable[Document] = (),
        settings: KubeletSettings | None = None,
        clock: Clock,
        rng: random.Random,
        images: ImageTable | None = None,
        rules: Iterable[Rule] = (),
        pods: Cache[SandboxPodView] | None = None,
        recorder: EventRecorder | None = None,
        agents: MakeAgents | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._world = NodeWorld(
            settings=settings or KubeletSettings(),
            images=images or ImageTable(),
            rules=tuple(rules),
            seed=rng.getrandbits(32),
        )
        self._owns_cache = pods is None
        if pods is None:
            pods = Cache(client, PODS, project=SandboxPodProjector(), clock=clock, rng=rng)
        self.pods = pods
        self.pods.subscribe(self._on_pod)
        self._writer = Writer(client, {PODS: self.pods})
        self._nodes = {spec.name: NodeRecord(spec) for spec in nodes}
        self._requested_stops = set[str]()
        self._states: dict[Key, SimulatedPodState] = {}
        self._addresses = Addresses()
        self._is_registered = asyncio.Event()
        self._node_status = NodeStatusWriter(
            client,
            existing=existing,
            lease_s=self.settings.lease_s,
            heartbeat_s=self.settings.heartbeat_s,
            on_registered=self._note_registered,
        )
        self._status_writes = 0
        self._removals = 0
        # The limit on measured CPU time is off: pods are cheap, and runs with equal seeds must be equal.
        self._pod_queue: WorkQueue[Key] = WorkQueue(cost_factor=0, rng=rng)
        self._node_queue: WorkQueue[str] = WorkQueue(cost_factor=0, rng=rng)
        self._pod_controller = Controller(
            "kubelet",
            self._sync_pod,
            queue=self._pod_queue,
            workers=self.settings.workers,
            clock=clock,
            cpu_time=skip_measuring,
        )
        runtime = NodeRuntime(
            pods=self.pods,
            states=self._states,
            nodes=self._nodes,
            world=lambda: self._world,
            wake=self._wake_pod,
            clock=clock,
        )
        self._recorders: list[EventRecorder] = []
        self.agents: NodeAgents | None = None
        """Agents on the nodes besides the kubelets, if the cluster has some."""
        if agents is not None:
            access = NodeAccess(
                client=client,
                runtime=runtime,
                world=lambda: self._world,
                recorder=self._make_recorder,
                clock=clock,
                rng=rng,
            )
            self.agents = agents(access)
        self._node_controller = Controller(
            "kubelet nodes",
            self._sync_node,
            queue=self._node_queue,
            workers=8,
            clock=clock,
            cpu_time=skip_measuring,
        )

    @property
    def settings(self) -> KubeletSettings:
        """Durations on the nodes."""
        return self._world.settings

    # ── running ──────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Register the nodes and run their pods until `stop()` or cancellation."""
        self._note_registered()
        for name in self._nodes:
            self._node_queue.add(name)
        for pod in self.pods.values():
            self._wake_pod(pod)
        background = [self._node_controller.run()]
        if self._owns_cache:
            background.append(self.pods.run())
        background += [recorder.run() for recorder in self._recorders]
        if self.agents is not None:
            background.append(self.agents.run())
        await run_beside(self._pod_controller.run(), *background)

    async def wait_registered(self) -> None:
        """Return when every node that has power has its Node object."""
        await self._is_registered.wait()

    async def stop(self) -> None:
        """Finish the writes in progress; then `run()` returns."""
        self._node_queue.close()
        self._pod_queue.close()
        if self.agents is not None:
            await self.agents.stop()
        for recorder in self._recorders:
            await recorder.flush(timeout_s=1.0)
        await self._node_controller.stop()
        await self._pod_controller.stop()

    def _make_recorder(self, component: str) -> EventRecorder:
        recorder = EventRecorder(self._client, component, clock=self._clock, rng=self._rng)
        self._recorders.append(recorder)
        return recorder

    def read_stats(self) -> KubeletsStats:
        """The current counts."""
        return KubeletsStats(
            nodes=len(self._nodes),
            stopped_nodes=sum(node.is_stopped for node in self._nodes.values()),
            pods=len(self._states),
            status_writes=self._status_writes,
            removals=self._removals,
        )

    # ── changes of the nodes ─────────────────────────────────────────────────

    def add_node(self, spec: NodeSpec) -> None:
        """Add a node; running kubelets register it immediately. An existing node of this name gets the new spec."""
        self._nodes[spec.name] = NodeRecord(spec)
        self._nodes[spec.name].is_stopped = spec.name in self._requested_stops
        self._node_queue.add(spec.name)
        self._wake_pods_on(spec.name)
        self._wake_agents(spec.name)

    def adopt_node(self, spec: NodeSpec) -> None:
        """Add a node that has a Node object but no kubelet; a known node stays unchanged."""
        if spec.name not in self._nodes:
            self.add_node(spec)

    def follow_node(self, change: Change[SandboxNodeView]) -> None:
        """Stop or start the kubelet of a node as its annotation requests. Nodes that are not simulated are ignored."""
        wanted = change.new is not None and change.new.is_stopped
        if wanted == (change.old is not None and change.old.is_stopped):
            return
        name = change.key.name
        if wanted:
            self._requested_stops.add(name)
        else:
            self._requested_stops.discard(name)
        if name in self._nodes:
            if wanted:
                self.stop_node(name)
            else:
                self.start_node(name)

    def stop_node(self, name: str) -> None:
        """Cut the node's power: nothing is written for it or its pods any more. Raises KeyError for unknown nodes."""
        self._nodes[name].is_stopped = True
        self._note_registered()

    def start_node(self, name: str) -> None:
        """Restore the node's power, and start the containers of its pods again. Raises KeyError for unknown nodes."""
        node = self._nodes[name]
        if node.is_stopped:
            self._restart_containers_on(name)
        node.is_stopped = False
        node.beat_at = 0.0
        self._node_queue.add(name)
        self._wake_pods_on(name)
        self._wake_agents(name)

    def _restart_containers_on(self, node: str) -> None:
        now = self._clock()
        for key, state in self._states.items():
            pod = self.pods.get(key)
            if pod is not None and pod.node_name == node and pod.uid == state.uid:
                self._states[key] = lose_power(state, pod, now)

    def _wake_agents(self, node: str) -> None:
        if self.agents is not None:
            self.agents.wake_node(node)

    def list_images(self, name: str) -> frozenset[str]:
        """Full names of the images on a node, by tag and by digest. Raises KeyError if there is no such node."""
        return frozenset(self._nodes[name].images)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The current scripted failures."""
        return self._world.rules

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Replace the scripted failures; running pods follow immediately."""
        self._world = msgspec.structs.replace(self._world, rules=tuple(rules))
        for pod in self.pods.values():
            self._wake_pod(pod)
        if self.agents is not None:
            self.agents.wake_all()

    def report_pending_after(self, seconds: float) -> None:
        """Change `KubeletSettings.report_pending_after_s`."""
        settings = msgspec.structs.replace(self.settings, report_pending_after_s=seconds)
        self._world = msgspec.structs.replace(self._world, settings=settings)

    def set_images(self, images: ImageTable) -> None:
        """Replace the image table; running containers keep their image id."""
        self._world = msgspec.structs.replace(self._world, images=images)

    # ── pods ─────────────────────────────────────────────────────────────────

    def _on_pod(self, change: Change[SandboxPodView]) -> None:
        if change.new is None:
            self._forget_pod(change.key)
        else:
            self._wake_pod(change.new)

    def _wake_pod(self, pod: SandboxPodView) -> None:
        if pod.node_name in self._nodes:
            self._pod_queue.add(pod.key)

    def _wake_pods_on(self, node: str) -> None:
        for pod in self.pods.values():
            if pod.node_name == node:
                self._pod_queue.add(pod.key)

    def _forget_pod(self, key: Key) -> None:
        state = self._states.pop(key, None)
        if state is not None:
            self._addresses.release(state.ip)

    async def _sync_pod(self, key: Key) -> float | None:
        """Update one pod to the current time, and return when it will change if nothing happens."""
        pod = self.pods.get(key)
        node = self._nodes.get(pod.node_name) if pod is not None else None
        if pod is None or node is None:
            self._forget_pod(key)
            return None
        if node.is_stopped or (pod.is_over and not pod.is_deleting):
            return None
        now = self._clock()
        before = self._find_pod_state(pod, now)
        missing = await self._find_start_problems(pod, before)
        refused = refusal_of(pod, node.spec, self.pods.values()) if wants_resize(before, pod) else None
        state, look_at = advance(
            before, pod, self._world, now, refused=refused, missing=missing, held=node.images
        )
        self._states[key] = state
        if state is not before:
            if self.agents is not None:
                self.agents.note_containers(key, pod.uid)
            for run in state.runs:
                if run.state is RunState.RUNNING:
                    node.images.add(expand_name(run.image))
                    node.images.add(run.image_id)
        try:
            if state.stopping_since is not None:
                return await self._stop_pod(pod, state, look_at=look_at)
            if self._recorder is not None and state is not before:
                self._record_failures(pod, before, state, self._recorder)
                self._record_pulls(pod, before, state, self._recorder, held=node.images)
                if self.settings.records_starts:
                    self._record_starts(pod, before, state, self._recorder)
                if pod.pull_secrets and _has_begun(before, state):
                    await self._record_pull_secrets(pod, self._recorder)
            if is_worth_reporting(pod, state, self._world, now, look_at=look_at):
                wanted = status_of(pod, state, self._world, now, host_ip=node.spec.address)
                await self._write_status(pod, patch_for(pod, wanted))
        except NotFoundError:
            self._forget_pod(key)
            return None
        return self._compute_seconds_until(look_at)

    async def _find_start_problems(self, pod: SandboxPodView, state: SimulatedPodState) -> dict[str, str]:
        """The reasons why containers cannot be created, by container: missing objects, and users that `runAsNonRoot`
        forbids. This is the rule of the kubelet's environment, volumes and security context.
        """
        awaited = list_awaited_references(state, pod)
        objects: dict[tuple[str, str], Document | None] = {}
        missing = dict(list_root_users(state, pod))
        for container, references in awaited.items():
            for reference in references:
                place = (reference.kind, reference.name)
                if place not in objects:
                    objects[place] = await self._read_object(pod.namespace, reference)
                if lack := lack_of(reference, objects[place], namespace=pod.namespace):
                    missing.setdefault(container, lack)
        return missing

    async def _read_object(self, namespace: str, reference: Reference) -> Document | None:
        """Read the object; None when it does not exist."""
        resource = CONFIG_MAPS if reference.kind == CONFIG_MAP else SECRETS
        try:
            return decode(await self._client.get(resource, namespace, reference.name))
        except NotFoundError:
            return None

    def _find_pod_state(self, pod: SandboxPodView, now: Instant) -> SimulatedPodState:
        state = self._states.get(pod.key)
        if state is not None and state.uid == pod.uid:
            return add_ephemeral(state, pod)
        self._forget_pod(pod.key)
        if address := pod.status.pod_ip:
            self._addresses.reserve(address)
            return recover(pod, ip=address, now=now)
        return begin(pod, ip=self._addresses.take(), now=now)

    async def _stop_pod(
        self, pod: SandboxPodView, state: SimulatedPodState, *, look_at: Instant
    ) -> float | None:
        now = self._clock()
        if look_at > now:
            return self._compute_seconds_until(look_at)
        if self.settings.report_stopped and not pod.is_over:
            await self._write_status(pod, patch_for(pod, build_stopped_status(pod, state, now)))
        await self._writer.delete(PODS, pod.key, uid=pod.uid, grace_period_s=0)
        self._removals += 1
        return None

    async def _write_status(self, pod: SandboxPodView, patch: Document | None) -> None:
        if patch is None:
            return
        await self._writer.patch(
            PODS,
            pod.key,
            patch,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
            uid=pod.uid,
        )
        self._status_writes += 1
        if self.settings.reports_resources:
            self._check_resources_kept(pod.key, patch)

    def _check_resources_kept(self, key: Key, patch: Document) -> None:
        """Stop reporting resources to a server that drops them; otherwise each write would cause another write."""
        has_amounts = any("resources" in status for status in patch["status"].get("containerStatuses") or ())
        stored = self.pods.get(key)
        if (
            has_amounts
            and stored is not None
            and all(container.resources is UNSET for container in stored.status.containers)
        ):
            settings = msgspec.structs.replace(self.settings, reports_resources=False)
            self._world = msgspec.structs.replace(self._world, settings=settings)
            for name, state in self._states.items():
                runs = tuple(msgspec.structs.replace(run, resources=None) for run in state.runs)
                self._states[name] = msgspec.structs.replace(state, runs=runs)

    def _compute_seconds_until(self, moment: Instant) -> float | None:
        return None if moment == math.inf else max(0.0, moment - self._clock())

    def _record_failures(
        self,
        pod: SandboxPodView,
        before: SimulatedPodState,
        after: SimulatedPodState,
        recorder: EventRecorder,
    ) -> None:
        """Record events for failures; the status reports successes."""
        if after.unmounted and after.unmounted != before.unmounted:
            recorder.record(
                PODS,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                reason="FailedMount",
                message=f"MountVolume.SetUp failed: {after.unmounted}",
                warning=True,
            )
        for old, new in zip(before.runs, after.runs, strict=True):
            if old is new:
                continue
            for reason, message in _list_failure_events(old, new, pod):
                recorder.record(
                    PODS,
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    reason=reason,
                    message=message,
                    warning=True,
                )

    def _record_pulls(
        self,
        pod: SandboxPodView,
        before: SimulatedPodState,
        after: SimulatedPodState,
        recorder: EventRecorder,
        *,
        held: Set[str],
    ) -> None:
        """Record an event for each container whose image the node begins to pull, if the pull takes long."""
        begun = {
            new.name
            for old, new in zip(before.runs, after.runs, strict=True)
            if new.state is RunState.STARTING and old.state is not RunState.STARTING
        }
        if not begun:
            return
        images = {container.name: container.image for container, _ in list_container_roles(pod)}
        for name in list_long_pulls(after, pod, self._world, held):
            if name in begun:
                recorder.record(
                    PODS,
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    reason="Pulling",
                    message=f'Pulling image "{images[name]}"',
                )

    def _record_starts(
        self,
        pod: SandboxPodView,
        before: SimulatedPodState,
        after: SimulatedPodState,
        recorder: EventRecorder,
    ) -> None:
        """Record an event for each container that has started."""
        for old, new in zip(before.runs, after.runs, strict=True):
            if new.state is RunState.RUNNING and old.state is not RunState.RUNNING:
                recorder.record(
                    PODS,
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    reason="Started",
                    message=f"Started container {new.name}",
                )

    async def _record_pull_secrets(self, pod: SandboxPodView, recorder: EventRecorder) -> None:
        """Record an event for missing pull secrets; images are pulled without them. This is the rule of the kubelet."""
        wanted = [Reference(SECRET, name) for name in pod.pull_secrets]
        missing = [
            reference.name
            for reference in wanted
            if await self._read_object(pod.namespace, reference) is None
        ]
        if missing:
            recorder.record(
                PODS,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                reason="FailedToRetrieveImagePullSecret",
                message=f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed.",
                warning=True,
            )

    # ── nodes ────────────────────────────────────────────────────────────────

    async def _sync_node(self, name: str) -> float | None:
        return await self._node_status.sync(self._nodes[name], self._clock())

    def _note_registered(self) -> None:
        if all(node.uid or node.is_stopped for node in self._nodes.values()):
            self._is_registered.set()


def _has_begun(before: SimulatedPodState, after: SimulatedPodState) -> bool:
    """Whether the pod's first container begins to start."""
    return all(run.state is RunState.BLOCKED for run in before.runs) and any(
        run.state is not RunState.BLOCKED for run in after.runs
    )


def _list_failure_events(
    old: ContainerRun, new: ContainerRun, pod: SandboxPodView
) -> Iterable[tuple[str, str]]:
    if (
        new.state is RunState.PULL_FAILED
        and new.failure is not None
        and new.pull_failures != old.pull_failures
    ):
        yield "Failed", f'Failed to pull image "{new.tried}": {new.failure.message}'
    if new.state is RunState.EXITED and new.crashes > 1 and new.crashes != old.crashes:
        yield (
            "BackOff",
            f"Back-off restarting failed container {new.name} in pod {pod.name}_{pod.namespace}({pod.uid})",
        )
