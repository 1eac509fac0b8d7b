"""The agents of simulated nodes that report the containers of pods of OpenKruise's workloads, and restart containers
with an outdated environment.

pods (watched) ──▶ queue ──▶ _sync: the containers on the node ──▶ PATCH pods/status: the annotation
                             └── during an in-place update, another environment ──▶ a container is stopped

agent/rules/container_metadata.py decides what is reported, and which containers must be restarted. The environment of
a container follows from the labels and annotations that its pod had when the container was first seen.
"""

from pykruise.agent.rules.container_metadata import (
    NodePod,
    Reported,
    compute_container_hash,
    list_stale_containers,
    needs_report,
    project_pod,
    report_patch,
)
from pykruise.agent.simulated.part import AgentPart
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.sandbox.nodes.agents import NodeAccess
from pykruise.sandbox.nodes.pod_state import ContainerRun, RunState

GATHER_S = 0.1
"""Seconds to wait before a report, because several changes of a pod's status arrive within a short time."""
STOP_GRACE_S = 30.0


class MetadataAgents(AgentPart):
    """The agents of all simulated nodes."""

    def __init__(self, access: NodeAccess) -> None:
        client, clock, rng = access.client, access.clock, access.rng
        self._runs_of = access.runtime.runs_of
        self._stop_container = access.runtime.stop_container
        self._pods = Cache(client, PODS, project=project_pod, clock=clock, rng=rng)
        self._pods.subscribe(self._on_change)
        self._writer = Writer(client, {PODS: self._pods})
        self._started: dict[Key, dict[str, int]] = {}
        """The hash of the environment with which a container was started, by container id."""
        super().__init__("metadata agents", self._pods, clock=clock, rng=rng)

    def note_containers(self, key: Key, uid: str) -> None:
        """Record, for the pod's newly started containers, the environment that its metadata gives now."""
        pod, runs = self._pods.get(key), self._runs_of(key, uid)
        if pod is not None and pod.is_ours and pod.uid == uid:
            known = self._started.get(key, {})
            self._started[key] = {
                run.container_id: known.get(run.container_id, pod.env_hashes.get(name, 0))
                for name, run in (runs or {}).items()
                if run.state is RunState.RUNNING
            }

    def _on_change(self, change: Change[NodePod]) -> None:
        pod = change.new
        if pod is None:
            self._started.pop(change.key, None)
        elif needs_report(pod, with_environment=True):
            self._queue.add_after(change.key, GATHER_S)

    async def _sync(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        runs = self._runs_of(key, pod.uid) if pod is not None else None
        if pod is None or runs is None or not needs_report(pod, with_environment=True):
            return None
        # Containers whose status is outdated are skipped: another change of the pod will follow.
        reported = [
            self._build_entry(pod, runs[name])
            for name, container_id in pod.container_ids.items()
            if name in runs and runs[name].container_id == container_id
        ]
        if reported and {item.name: item for item in reported} != (pod.reported or {}):
            body = report_patch(pod, reported)
            await self._writer.patch_status(PODS, key, body, uid=pod.uid, patch_type=PatchType.STRATEGIC)
        for name in list_stale_containers(pod, reported):
            if runs[name].state is RunState.RUNNING:
                await self._stop_container(key, name, STOP_GRACE_S)
        return None

    def _build_entry(self, pod: NodePod, run: ContainerRun) -> Reported:
        known = (pod.reported or {}).get(run.name)
        if known is not None and known.container_id == run.container_id and known.env_hash:
            return known
        started = self._started.get(Key(pod.namespace, pod.name), {})
        return Reported(
            name=run.name,
            container_id=run.container_id,
            restart_count=run.number - 1,
            plain_hash=compute_container_hash(run.name, run.image),
            env_hash=started.get(run.container_id, pod.env_hashes.get(run.name, 0)),
        )
