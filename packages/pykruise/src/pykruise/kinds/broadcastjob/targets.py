"""Nodes and pods of a BroadcastJob, as targets of the rule that all jobs follow.

Snapshot ──▶ targets_of() ──▶ Targets: one for every node that gets a pod, one for every pod too many

Pure. A finished pod keeps its node among the targets whatever becomes of the node: it is never run twice. A running pod
whose node does not fit any more is not wanted, and goes.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykruise.kinds.broadcastjob.snapshot import BroadcastJobView, ReadableBroadcastJob
from pykruise.pods.jobs.fan_out import FanOutTarget, TargetState
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import FINISHED, PodView


class BroadcastJobTargets(msgspec.Struct, frozen=True, kw_only=True):
    """All targets, and what their names mean."""

    targets: Sequence[FanOutTarget]
    """Targets in their starting order: nodes by name. A node's target has its name, that of a pod too many
    `pod/<name>`."""
    pods: Mapping[str, PodView]
    """Target to its pod, where it has one."""
    idle: Mapping[str, str]
    """Nodes that get no pod, by name: why."""
    why: Mapping[str, str]
    """Target that needs no pod to the reason."""
    duplicates: Sequence[tuple[str, PodView]] = ()
    """Nodes with an active pod too many."""
    is_left_to_gc: frozenset[str] = frozenset()
    """Targets that are pods on nodes that are not there: Kubernetes deletes them, once it is sure."""


def targets_of(snapshot: ReadableBroadcastJob) -> BroadcastJobTargets:
    """Every node that fits and every pod of the job."""
    job = snapshot.job
    limit = job.spec.failure_policy.restart_limit if job.spec.failure_policy else 0
    gathering = _Gathering(job, limit)
    by_node = _by_node(snapshot.pods)
    for node in snapshot.nodes:
        gathering.add_node(node, by_node.pop(node.name, ()))
    for name, pods in by_node.items():
        gathering.add_nowhere(name, pods)
    return BroadcastJobTargets(
        targets=gathering.targets,
        pods=gathering.pods,
        idle=gathering.idle,
        why=gathering.why,
        duplicates=gathering.duplicates,
        is_left_to_gc=frozenset(gathering.left),
    )


def state_of(pod: PodView, *, restart_limit: int) -> TargetState:
    """How far the pod is. One that restarts more often than the limit allows has failed, though it goes on."""
    if pod.phase == "Succeeded":
        return TargetState.SUCCEEDED
    if pod.phase == "Failed":
        return TargetState.FAILED
    if pod.is_deleting:
        return TargetState.ENDING
    if pod.restart_policy == "OnFailure" and restarts_of(pod) > restart_limit:
        return TargetState.FAILING
    return TargetState.ACTIVE


def restarts_of(pod: PodView) -> int:
    """Restarts of all its containers together."""
    return sum(status.restart_count for status in (*pod.container_statuses, *pod.init_statuses))


class _Gathering:
    """Targets, gathered node by node."""

    def __init__(self, job: BroadcastJobView, restart_limit: int) -> None:
        self._job = job
        self._limit = restart_limit
        self.targets: list[FanOutTarget] = []
        self.pods: dict[str, PodView] = {}
        self.idle: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self.duplicates: list[tuple[str, PodView]] = []
        self.left: list[str] = []

    def add_node(self, node: NodeView, pods: Sequence[PodView]) -> None:
        """A node with the job's pods there."""
        if not pods:
            if obstacle := self._job.obstacle(node):
                self.idle[node.name] = obstacle
            else:
                self.targets.append(FanOutTarget(name=node.name))
            return
        pod, *others = sorted(pods, key=_precedence)
        obstacle = _obstacle(pod, node)
        if obstacle and pod.is_active:
            self.idle[node.name] = obstacle
            self._add_surplus(pod, obstacle)
        else:
            self._add(node.name, pod, is_wanted=True)
        for other in others:
            self._add_surplus(other, f"node {node.name} has the pod {pod.name}")
            if other.is_active:
                self.duplicates.append((node.name, other))

    def add_nowhere(self, node: str, pods: Iterable[PodView]) -> None:
        """Pods whose node is not there, or that say none. One that has failed does not count: it is how Kubernetes
        ends what was for a node that is gone, just before it deletes it."""
        for pod in pods:
            if pod.phase == "Failed":
                continue
            self._add_surplus(pod, f"its node {node} is gone" if node else "it is for no node")
            if pod.node_name:
                self.left.append(_name_of(pod))

    def _add_surplus(self, pod: PodView, why: str) -> None:
        self.why[_name_of(pod)] = why
        self._add(_name_of(pod), pod, is_wanted=False)

    def _add(self, name: str, pod: PodView, *, is_wanted: bool) -> None:
        state = state_of(pod, restart_limit=self._limit)
        self.targets.append(FanOutTarget(name=name, state=state, is_wanted=is_wanted))
        self.pods[name] = pod


def _name_of(pod: PodView) -> str:
    return f"pod/{pod.name}"


def _precedence(pod: PodView) -> tuple[bool, bool, float, str]:
    """Precedence among several pods of a node: the finished pod, else the oldest."""
    return (pod.phase not in FINISHED, pod.is_deleting, pod.created_at or 0.0, pod.name)


def _obstacle(pod: PodView, node: NodeView) -> str:
    """Why the pod may not be on its node (any more); empty: it may. It goes by its own spec: the template may have
    changed since."""
    return pod.asks_of_nodes.obstacle(node) if pod.asks_of_nodes is not None else ""


def _by_node(pods: Iterable[PodView]) -> dict[str, list[PodView]]:
    node: dict[str, list[PodView]] = {}
    for pod in pods:
        node.setdefault(pod.target_node, []).append(pod)
    return node
