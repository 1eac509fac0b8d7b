"""Container runtime of simulated nodes for their agents: running containers, images, and stops.

agents ──▶ NodeRuntime ◀── the kubelets' data: pods, their states, nodes

It has no state of its own: stopping a container changes the state of its pod, from which the kubelet continues.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from pykruise.kube.cache.cache import Cache
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.ids import Key
from pykruise.sandbox.nodes.faults import behaviour_of, find_failed_probe
from pykruise.sandbox.nodes.pod_life import is_ready
from pykruise.sandbox.nodes.pod_state import (
    ContainerRun,
    NodeWorld,
    RunState,
    SimulatedPodState,
    list_container_roles,
    stop_container,
)
from pykruise.sandbox.nodes.status import NodeRecord
from pykruise.sandbox.pod_view import PodContainer, SandboxPodView

_LEAST_GRACE_S = 2.0
"""Shortest grace period of a stopped container. This is the rule of the node agent."""


class ProbeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a probe."""

    container_id: str
    """ID of the newest run of the probed container."""
    is_running: bool
    started_at: Instant
    problem: str
    """Why the probe fails; empty when it succeeds."""


class NodeRuntime:
    """The runtimes of all nodes. `states` is shared with the kubelets; `wake` enqueues a pod again."""

    def __init__(
        self,
        *,
        pods: Cache[SandboxPodView],
        states: dict[Key, SimulatedPodState],
        nodes: Mapping[str, NodeRecord],
        world: Callable[[], NodeWorld],
        wake: Callable[[SandboxPodView], None],
        clock: Clock,
    ) -> None:
        self._pods = pods
        self._states = states
        self._nodes = nodes
        self._world = world
        self._wake = wake
        self._clock = clock

    def images_of(self, name: str) -> set[str] | None:
        """The images on a node; agents add the images that they pull. None if the node is missing or has no power."""
        node = self._nodes.get(name)
        return None if node is None or node.is_stopped else node.images

    def runs_of(self, key: Key, uid: str) -> Mapping[str, ContainerRun] | None:
        """The pod's started containers; None if the pod is on none of these nodes, or if its node has no power."""
        pod = self._pods.get(key)
        node = self._nodes.get(pod.node_name) if pod is not None else None
        state = self._states.get(key)
        if node is None or node.is_stopped or state is None or state.uid != uid:
            return None
        return {run.name: run for run in state.runs if run.number}

    def has_power(self, name: str) -> bool:
        """Whether the node exists and has power."""
        node = self._nodes.get(name)
        return node is not None and not node.is_stopped

    def probe(self, key: Key, uid: str, container: str, probe: str) -> ProbeOutcome | None:
        """Probe the container. The probe succeeds when the container is ready, unless a scripted failure (faults.py)
        makes it fail. Return None if no such container has started.
        """
        pod, state = self._pods.get(key), self._states.get(key)
        if pod is None or state is None or state.uid != uid:
            return None
        for run, (spec, _) in zip(state.runs, list_container_roles(pod), strict=False):
            if run.name == container and run.number:
                return self._probe_outcome(pod, run, spec, probe)
        return None

    def _probe_outcome(
        self, pod: SandboxPodView, run: ContainerRun, container: PodContainer, probe: str
    ) -> ProbeOutcome:
        now = self._clock()
        is_running = run.state is RunState.RUNNING
        problem = find_failed_probe(
            self._world().rules,
            pod,
            probe,
            container=run.name,
            image=run.image,
            run=run.number,
            running_s=now - run.since,
        )
        if not is_running:
            problem = f"Container({run.name}) is Non-running"
        elif problem is None and not is_ready(run, container, pod, self._world(), now):
            problem = "the container is not ready"
        return ProbeOutcome(
            container_id=run.container_id,
            is_running=is_running,
            started_at=run.since,
            problem=problem or "",
        )

    async def stop_container(self, key: Key, name: str, grace_s: float) -> None:
        """Wait for the preStop hook, then stop the container, unless this run of the container has ended meanwhile. The
        kubelet starts the container again.
        """
        pod = self._pods.get(key)
        run = (self.runs_of(key, pod.uid) or {}).get(name) if pod is not None else None
        if pod is None or run is None:
            return
        hook_s = max(
            (role.pre_stop_s for role, _ in list_container_roles(pod) if role.name == name), default=0.0
        )
        rules = self._world().rules
        stop_s = behaviour_of(rules, pod, container=name, image=run.image, run=max(1, run.number)).stop_s
        if stop_s is None:
            stop_s = self._world().settings.stop_s
        await asyncio.sleep(min(hook_s + stop_s, max(grace_s, _LEAST_GRACE_S)))
        still = (self.runs_of(key, pod.uid) or {}).get(name)
        if still is not None and still.number == run.number:
            self._states[key] = stop_container(self._states[key], pod, name, self._clock())
            self._wake(pod)
