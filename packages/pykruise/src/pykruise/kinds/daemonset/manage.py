"""Selection of the nodes that get a pod, and of the pods that are deleted for reasons other than an update.

DaemonSetWorkingSet ──▶ plan_manage() ──▶ PlanPhase

Pure. The phase decides node by node. A node that should run a pod but has no pod gets one. If a node has several pods,
one pod is kept. A finished pod is replaced, after increasing delays. A pod on a node that must not run it is deleted.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kinds.daemonset.node_state import NodeState, is_leaving
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.pods import Going, make_stay_reason, plan_coming_and_going
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet, OldAndNew
from pykruise.kube.clock import Instant
from pykruise.plans.phases import PlanPhase
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason

AFTER_OTHERS: Final = Reason(Code.TURN, "gets its pod after other nodes (burstReplicas)")
LAST_POD_GOES: Final = Reason(Code.DEPARTING, "its previous pod still exists")
BY_PARTITIONED_SCALING: Final = Reason(
    Code.PARTITIONED_SCALING, "the partition allows no more nodes to get a pod (partitionedScaling)"
)


class ManagedNodes:
    """Nodes that need a pod and pods to delete, collected node by node."""

    def __init__(self) -> None:
        self.needing: list[str] = []
        self.going: list[Going] = []
        self.skipped: dict[str, Reason] = {}
        self.skipped_nodes: dict[str, Reason] = {}
        self.notes: list[Note] = []
        self.times: list[Instant] = []


def plan_manage(ws: DaemonSetWorkingSet) -> tuple[PlanPhase, dict[str, Reason]]:
    """Return the phase, and the nodes without a pod that get no pod now, each with the reason."""
    result = ManagedNodes()
    for state in ws.nodes:
        _add_node(ws, state, result)
    for pod in ws.strays:
        if not pod.is_deleting:
            result.going.append(Going(pod, f"its node {pod.wanted_node} no longer exists"))
    nodes = _limit_by_partition(ws, result.needing, result)
    for node in nodes[ws.limits.burst :]:
        result.skipped_nodes[node] = AFTER_OTHERS
    phase = plan_coming_and_going(ws, nodes=nodes, why="should run a pod and has none", going=result.going)
    return PlanPhase(
        decided=phase.decided,
        skipped={**result.skipped, **phase.skipped},
        notes=tuple(result.notes),
        look_at=min(result.times, default=None),
        is_partial=phase.is_partial,
    ), {**ws.overview.idle, **result.skipped_nodes}


def _add_node(ws: DaemonSetWorkingSet, state: NodeState, value: ManagedNodes) -> None:
    """Add the decisions about one node to `value`."""
    node, place = state.name, state.place
    if not state.pods:
        value.needing.append(node)
        return
    if place is Place.LEAVE:
        value.going += [Going(pod, state.because) for pod in state.pods if not pod.is_deleting]
        return
    running, has_finished = _keep_running(ws, state, value)
    if ws.limits.allows_surge:
        _keep_old_and_new(ws, running, value)
    else:
        value.going += [Going(pod, f"node {node} has another pod") for pod in running[1:]]
    if running or place is not Place.RUN:
        return
    # While a finished pod exists, no new pod is created, because the new pod would probably end in the same way. With
    # surge, a node can have at most two pods, including pods in PreparingDelete.
    leaving = sum(not pod.is_deleting for pod in state.pods)
    if ws.limits.allows_surge and not has_finished and leaving < 2:
        value.needing.append(node)
    else:
        value.skipped_nodes[node] = LAST_POD_GOES


def _keep_running(
    ws: DaemonSetWorkingSet, state: NodeState, value: ManagedNodes
) -> tuple[list[PodView], bool]:
    """Return the running pods, and whether a finished pod must be deleted.

    Finished pods and pods in PreparingDelete are added to `value`.
    """
    running: list[PodView] = []
    has_finished = False
    for pod in state.pods:
        if pod.is_deleting:
            continue
        if is_leaving(pod):
            value.going.append(Going(pod, "is in PreparingDelete"))
        elif pod.phase in FINISHED:
            has_finished = True
            _replace_finished(ws, state.name, pod, value)
        else:
            running.append(pod)
    return running, has_finished


def _replace_finished(ws: DaemonSetWorkingSet, node: str, pod: PodView, value: ManagedNodes) -> None:
    """Plan the deletion of a finished pod, so that a new pod can be created.

    The delay of repeated replacements increases. Otherwise, if a kubelet rejects the pod, pods would be deleted and
    created in an endless loop.
    """
    until = ws.snapshot.failed_until.get(node)
    if until is not None:
        value.times.append(until)
        value.skipped[pod.name] = _explain_backoff(pod)
        return
    has_failed = pod.phase == "Failed"
    verb = "failed" if has_failed else "finished"
    value.notes.append(
        Note(
            reason="FailedDaemonPod" if has_failed else "SucceededDaemonPod",
            message=f"pod {pod.name} on node {node} has {verb}; it is deleted and replaced",
            warning=has_failed,
        )
    )
    value.going.append(Going(pod, f"it has {verb}"))


def _explain_backoff(pod: PodView) -> Reason:
    """Return the reason why a finished pod is not replaced yet."""
    message = f"has {pod.phase.lower()} shortly after the previous pod of its node ended; it is replaced after a delay"
    if pod.phase == "Failed":
        return Reason(Code.BACKOFF, message, "find out why the pod fails on its node")
    return Reason(Code.BACKOFF, message, "a DaemonSet's pod must keep running: find out why it ends")


def _keep_old_and_new(ws: DaemonSetWorkingSet, running: Sequence[PodView], value: ManagedNodes) -> None:
    """Keep one new and one old pod of a node (with surge), and delete the old pod after the new pod is available."""
    new = next((pod for pod in running if ws.is_updated(pod)), None)
    old = next((pod for pod in running if not ws.is_updated(pod)), None)
    value.going += [
        Going(pod, "its node has two old pods or two new pods")
        for pod in running
        if pod is not new and pod is not old
    ]
    if new is None or old is None:
        return
    if not old.is_ready:
        value.going.append(Going(old, f"it does not serve, and {new.name} replaces it"))
    elif ws.is_available(new):
        value.going.append(Going(old, f"{new.name} has replaced it"))
    else:
        value.skipped[old.name] = make_stay_reason(new.name)


def _limit_by_partition(ws: DaemonSetWorkingSet, needing: list[str], value: ManagedNodes) -> list[str]:
    """Return the nodes that get a pod now. With partitionedScaling, the partition limits their number."""
    if not ws.spec.scales_partitioned or not needing:
        return needing
    if ws.limits.partition == 0:
        return needing
    desired = ws.limits.desired
    room = max(desired - _count_updated(ws) - min(ws.limits.partition, desired), 0)
    value.skipped_nodes |= dict.fromkeys(needing[room:], BY_PARTITIONED_SCALING)
    return needing[:room]


def _count_updated(ws: DaemonSetWorkingSet) -> int:
    """Count the nodes that should run a pod and have exactly one pod of the update revision."""
    others = (OldAndNew(ws, state) for state in ws.nodes if state.place is Place.RUN)
    return ws.settled + sum(1 for pods in others if pods.is_clear and pods.new is not None)
