"""Further agents of simulated nodes: programs of others that run beside the kubelets and use the nodes' runtimes.

ClusterSettings.agents ──NodeAccess──▶ NodeAgents ──▶ node_runtime.py: what runs, what is there, stop this
kubelets ──▶ NodeAgents.wake_node(), .note_containers()

The sandbox has none of its own.
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
    """How long things take, and what goes wrong, now."""
    recorder: Callable[[str], EventRecorder]
    """A recorder of events in the name of a component; it runs as long as the nodes."""
    clock: Clock
    rng: random.Random


class NodeAgents(SandboxComponent, Protocol):
    """The agents of all nodes, as one component."""

    def wake_node(self, name: str) -> None:
        """The node is new, or has power again."""
        ...

    def wake_all(self) -> None:
        """Wakes every key, but no failures on purpose."""
        ...

    def note_containers(self, key: Key, uid: str) -> None:
        """Containers of the pod have been started or have ended."""
        ...


MakeAgents = Callable[[NodeAccess], NodeAgents]
