"""Nodes and pods of a BroadcastJob, as targets for the rules that all jobs have in common (pods/jobs/fan_out.py).

BroadcastJobSnapshot ──▶ targets_of() ──▶ BroadcastJobTargets: one per node that gets a pod, one per surplus pod

Pure. A node with a finished pod is always a target, even if the node no longer fits: its pod is never run twice. A
running pod is surplus and is deleted if its node no longer fits.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykruise.kinds.broadcastjob.snapshot import BroadcastJobView, ReadableBroadcastJob
from pykruise.pods.jobs.fan_out import FanOutTarget, TargetState
from pykruise.pods.template.node_placement import NodeObstacle
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import FINISHED, PodView


class BroadcastJobTargets(msgspec.Struct, frozen=True, kw_only=True):
    """All targets, with maps from their names to pods and reasons."""

    targets: Sequence[FanOutTarget]
    """Targets in the order in which their pods are created. The target of a node has the node's name. The target of a
    surplus pod is named `pod/<name>`.
    """
    pods: Mapping[str, PodView]
    """Target → its pod, if it has one."""
    idle: Mapping[str, NodeObstacle]
    """Name of each node that gets no pod → the reason."""
    why: Mapping[str, str]
    """Target that must not have a pod → the reason."""
    duplicates: Sequence[tuple[str, PodView]] = ()
    """Active pods that are surplus because their node has another pod of the job. Each entry is the node and
    the pod.
    """
    is_left_to_gc: frozenset[str] = frozenset()
    """Targets of pods on nodes that do not exist. The garbage collector of Kubernetes deletes these pods."""


def targets_of(snapshot: ReadableBroadcastJob) -> BroadcastJobTargets:
    """Collect every node that fits and every pod of the job."""
    job = snapshot.job
    limit = job.spec.failure_policy.restart_limit if job.spec.failure_policy else 0
    gathering = _Gathering(job, limit)
    by_node = _group_by_node(snapshot.pods)
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
    """Return the state of a pod. FAILING: the pod still runs, but counts as failed, because it restarted more often
    than the limit.
    """
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
    """Return the sum of the restarts of all containers."""
    return sum(status.restart_count for status in (*pod.container_statuses, *pod.init_statuses))


class _Gathering:
    """Targets, collected node by node."""

    def __init__(self, job: BroadcastJobView, restart_limit: int) -> None:
        self._job = job
        self._limit = restart_limit
        self.targets: list[FanOutTarget] = []
        self.pods: dict[str, PodView] = {}
        self.idle: dict[str, NodeObstacle] = {}
        self.why: dict[str, str] = {}
        self.duplicates: list[tuple[str, PodView]] = []
        self.left: list[str] = []

    def add_node(self, node: NodeView, pods: Sequence[PodView]) -> None:
        """Add a node and the job's pods on this node."""
        if not pods:
            if obstacle := self._job.find_obstacle(node):
                self.idle[node.name] = obstacle
            else:
                self.targets.append(FanOutTarget(name=node.name))
            return
        pod, *others = sorted(pods, key=_compute_precedence)
        obstacle = _find_obstacle(pod, node)
        if obstacle and pod.is_active:
            self.idle[node.name] = obstacle
            self._add_surplus(pod, obstacle.because)
        else:
            self._add_target(node.name, pod, is_wanted=True)
        for other in others:
            self._add_surplus(other, f"node {node.name} already has pod {pod.name}")
            if other.is_active:
                self.duplicates.append((node.name, other))

    def add_nowhere(self, node: str, pods: Iterable[PodView]) -> None:
        """Add pods whose node does not exist, and pods without a node. A failed pod is ignored: just before Kubernetes
        deletes the pods of a deleted node, it sets their phase to Failed.
        """
        for pod in pods:
            if pod.phase == "Failed":
                continue
            self._add_surplus(pod, f"its node {node} no longer exists" if node else "its spec names no node")
            if pod.node_name:
                self.left.append(_format_pod_subject(pod))

    def _add_surplus(self, pod: PodView, why: str) -> None:
        self.why[_format_pod_subject(pod)] = why
        self._add_target(_format_pod_subject(pod), pod, is_wanted=False)

    def _add_target(self, name: str, pod: PodView, *, is_wanted: bool) -> None:
        state = state_of(pod, restart_limit=self._limit)
        self.targets.append(FanOutTarget(name=name, state=state, is_wanted=is_wanted))
        self.pods[name] = pod


def _format_pod_subject(pod: PodView) -> str:
    return f"pod/{pod.name}"


def _compute_precedence(pod: PodView) -> tuple[bool, bool, float, str]:
    """Sort key of several pods on a node: first finished pods, then pods that are neither finished nor terminating,
    then terminating pods. The pods of each group are sorted by age, the oldest first.
    """
    return (pod.phase not in FINISHED, pod.is_deleting, pod.created_at or 0.0, pod.name)


def _find_obstacle(pod: PodView, node: NodeView) -> NodeObstacle | None:
    """Return why the pod can no longer run on its node; None if it can. The spec of the pod decides, because the job's
    template may have changed after the pod was created.
    """
    return pod.asks_of_nodes.find_obstacle(node) if pod.asks_of_nodes is not None else None


def _group_by_node(pods: Iterable[PodView]) -> dict[str, list[PodView]]:
    node: dict[str, list[PodView]] = {}
    for pod in pods:
        node.setdefault(pod.target_node, []).append(pod)
    return node
