"""The node agent on simulated nodes: the same rules as on real nodes, with the sandbox's runtime.

make_simulated_agents(pulls_ahead=True, …) ──▶ ClusterSettings.agents ──▶ a part for each task, covering all nodes
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from pykruise.agent.rules.versions import use_stored_versions
from pykruise.agent.simulated.image_agents import ImageAgents
from pykruise.agent.simulated.metadata_agents import MetadataAgents
from pykruise.agent.simulated.part import AgentPart
from pykruise.agent.simulated.probe_agents import ProbeAgents
from pykruise.agent.simulated.recreate_agents import RecreateAgents
from pykruise.kube.ids import Key
from pykruise.kube.program.process import run_beside
from pykruise.sandbox.nodes.agents import MakeAgents, NodeAccess

__all__ = ["ALL_TASKS", "AgentTasks", "SimulatedAgents", "make_simulated_agents"]

PULLER: Final = "kruise-daemon-imagepuller"
PROBER: Final = "kruise-daemon-podprobe"
"""Component of recorded events, as in OpenKruise's daemon."""


class AgentTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Enabled tasks of the node agent."""

    pulls_ahead: bool = False
    """Whether to pull the images that NodeImages request."""
    pulls_at_once: int = 0
    """Maximum number of images that a node pulls at the same time; 0: no limit."""
    recreates: bool = False
    """Whether to recreate the containers that ContainerRecreateRequests name."""
    probes: bool = False
    """Whether to run the probes that NodePodProbes request."""
    reports_containers: bool = False
    """Whether to report, in an annotation, the containers of pods of OpenKruise's workloads, and to restart containers
    whose environment is outdated.
    """

    @property
    def is_idle(self) -> bool:
        """Whether no task is enabled."""
        return not (self.pulls_ahead or self.recreates or self.probes or self.reports_containers)


ALL_TASKS: Final = AgentTasks(pulls_ahead=True, recreates=True, probes=True, reports_containers=True)


def make_simulated_agents(tasks: AgentTasks = ALL_TASKS) -> MakeAgents | None:
    """Return the value for `ClusterSettings.agents`; None when no task is enabled."""
    return None if tasks.is_idle else partial(SimulatedAgents, tasks)


class SimulatedAgents:
    """The agents of all nodes of a sandbox. They work from `run()` until `stop()`."""

    def __init__(self, tasks: AgentTasks, access: NodeAccess) -> None:
        client = access.client.replace_transport(use_stored_versions(access.client.transport))
        access = msgspec.structs.replace(access, client=client)
        self.images = (
            ImageAgents(access, recorder=access.recorder(PULLER), most_at_once=tasks.pulls_at_once)
            if tasks.pulls_ahead
            else None
        )
        self.recreations = RecreateAgents(access) if tasks.recreates else None
        self.probes = ProbeAgents(access, recorder=access.recorder(PROBER)) if tasks.probes else None
        self.reports = MetadataAgents(access) if tasks.reports_containers else None

    @property
    def parts(self) -> list[AgentPart]:
        """Parts for the enabled tasks."""
        parts = (self.images, self.recreations, self.probes, self.reports)
        return [part for part in parts if part is not None]

    async def run(self) -> None:
        """Work until `stop()` or until cancelled."""
        first, *others = (part.run() for part in self.parts)
        await run_beside(first, *others)

    async def stop(self) -> None:
        """Finish the writes in flight; then `run()` returns."""
        for part in self.parts:
            await part.stop()

    def wake_node(self, name: str) -> None:
        """See `NodeAgents`."""
        self._apply_to_parts(lambda part: part.wake_node(name))

    def wake_all(self) -> None:
        """See `NodeAgents`."""
        self._apply_to_parts(lambda part: part.wake_all())

    def note_containers(self, key: Key, uid: str) -> None:
        """See `NodeAgents`."""
        self._apply_to_parts(lambda part: part.note_containers(key, uid))

    def _apply_to_parts(self, do: Callable[[AgentPart], None]) -> None:
        for part in self.parts:
            do(part)
