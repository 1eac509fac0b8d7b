"""Agents of simulated nodes: other programs that run beside the kubelets and use the nodes' runtimes.

ClusterSettings.agents ──NodeAccess──▶ NodeAgents ──▶ runtime.py: running containers, images, stops
kubelets ──▶ NodeAgents.wake_node(), .note_containers()

The sandbox has no agents of its own.
"""

import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock
from pykruise.kube.ids import Key
from pykruise.sandbox.nodes.pod_state import NodeWorld
from pykruise.sandbox.nodes.runtime import NodeRuntime
from pykruise.sandbox.running import SandboxComponent


class NodeAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Access of agents to their nodes."""

    client: Client
    runtime: NodeRuntime
    world: Callable[[], NodeWorld]
    """The current durations and scripted failures."""
    recorder: Callable[[str], EventRecorder]
    """Returns a recorder of events for a component; the recorder runs as long as the nodes."""
    clock: Clock
    rng: random.Random


class NodeAgents(SandboxComponent, Protocol):
    """The agents of all nodes, as one component."""

    def wake_node(self, name: str) -> None:
        """Called when the node is new, or has power again."""
        ...

    def wake_all(self) -> None:
        """Called when the scripted failures have changed."""
        ...

    def note_containers(self, key: Key, uid: str) -> None:
        """Called when containers of the pod have started or ended."""
        ...


MakeAgents = Callable[[NodeAccess], NodeAgents]
