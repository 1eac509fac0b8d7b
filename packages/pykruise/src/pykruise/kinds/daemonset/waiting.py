"""Reason why a DaemonSet does not match its spec yet, for the condition `Waiting`.

DaemonSetWorkingSet + pods and nodes that the phases skipped ──▶ waiting_of() ──▶ Reason; None: converged

Pure. A DaemonSet has converged if each node that should run a pod has an available pod of the newest template, and no
other node has a pod to delete. It then has the condition only if no node of the cluster should run a pod. Otherwise it
has the condition, unless SelectorMismatch reports the cause. If there are several reasons, a reason that needs a person
has precedence, then a reason in the spec, then a wait that ends automatically. For the short waits that every pod of a
rollout has, the condition contains only the number of pods, so that it is not written for every pod.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pykruise.kinds.daemonset.node_state import NodeState, is_leaving
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.values.counts import format_count
from pykruise.pods.corrections import end_on_lost_node, read_log
from pykruise.pods.lifecycle.blockers import blockers_of, find_end_blocker, resize_blocker
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.template.node_placement import summarize_obstacles
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.pods.workload.waiting import find_pod_wait, find_strategy_wait
from pykruise.runtime.reasons import Reason

CORRECT: Final = "correct the field"
RECREATE: Final = "delete the pod, so that it is recreated"

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"

_IN_PASSING: Final = frozenset({Code.SCHEDULING, Code.STARTING, Code.UPDATING_IN_PLACE})
"""Codes of the short waits that every new or updated pod has."""

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons in the waiting state of containers that are starting."""

NAMED_AFTER_S: Final = 30.0
"""Seconds for which a pod must be unready until the condition names it. New pods are normally unready for a shorter
time.
"""


def is_converged(ws: DaemonSetWorkingSet) -> bool:
    """Whether every node has the pods that it should have."""
    if ws.strays or ws.outdated:
        return False
    return all(_is_as_wanted(ws, state) for state in ws.nodes)


def _is_as_wanted(ws: DaemonSetWorkingSet, state: NodeState) -> bool:
    if len(state.pods) != 1:
        return False
    pod = state.pods[0]
    if pod.is_deleting or is_leaving(pod) or not ws.is_updated(pod) or pod.uid in ws.infeasible:
        return False
    if state.place is Place.STAY:  # the pod is kept, unless it has finished
        return pod.phase not in FINISHED
    return state.place is Place.RUN and ws.is_available(pod)


def waiting_of(
    ws: DaemonSetWorkingSet,
    *,
    skipped: Mapping[str, Reason],
    skipped_nodes: Mapping[str, Reason],
    broken: Reason | None = None,
) -> Reason | None:
    """Return the reason why the DaemonSet waits; None if it has converged and a node should run a pod.

    `skipped`: name of a pod → why the plan does not change it. `skipped_nodes`: name of a node without a pod → why it
    gets no pod now. `broken`: why in-place updates cannot continue automatically.
    """
    if is_converged(ws):
        return _explain_no_node(ws) if ws.limits.desired == 0 and ws.overview.states else None
    obstacles = [
        pair for pair in _collect_obstacles(ws) if pair[1].code not in _IN_PASSING or not pair[1].is_wait
    ]
    stuck = [pair for pair in obstacles if not pair[1].is_wait]
    needs_action = (
        find_pod_wait([pair for pair in stuck if pair[1].code != Code.NOT_READY])
        or (Reason(broken.code, broken.message, RECREATE) if broken else None)
        or find_pod_wait(stuck)
    )
    if needs_action is not None:
        return needs_action
    updates = _explain_updates(ws, skipped)
    if updates is not None and updates.code == Code.UPDATING:
        return updates
    return (
        find_pod_wait(obstacles)
        or _explain_nodes(ws, skipped_nodes)
        or updates
        or Reason(Code.STARTING, _describe_starting(ws))
    )


def _explain_no_node(ws: DaemonSetWorkingSet) -> Reason:
    """Return why no node should run a pod: the most frequent reason."""
    obstacles = (state.obstacle for state in ws.overview.states.values())
    obstacle = summarize_obstacles(filter(None, obstacles))
    words = "no node is eligible for a pod"
    if obstacle is None:
        return Reason(Code.NO_NODES, words, CODES[Code.NO_NODES].helps)
    return Reason(Code.NO_NODES, f"{words}; {obstacle.because}", obstacle.remedy)


def find_wait_end(ws: DaemonSetWorkingSet) -> Instant | None:
    """Return the next time at which the condition must name an unready pod; None if there is no such time."""
    times = (
        since + NAMED_AFTER_S
        for state in ws.nodes
        for pod in state.pods
        if not pod.is_ready and not pod.is_deleting and (since := _find_unready_since(pod)) is not None
    )
    return min((time for time in times if time > ws.now), default=None)


# Pods


def _is_just_starting(ws: DaemonSetWorkingSet, pod: PodView) -> bool:
    """Whether the pod became unready a short time ago. This check is cheap, because it runs for every pod of a
    rollout.
    """
    if pod.is_ready or any(status.waiting not in _STARTING for status in pod.container_statuses):
        return False
    since = _find_unready_since(pod)
    return since is not None and ws.now < since + NAMED_AFTER_S


def _find_unready_since(pod: PodView) -> Instant | None:
    return pod.created_at if pod.ready_since is None else pod.ready_since


def _collect_obstacles(ws: DaemonSetWorkingSet) -> list[tuple[PodView, Reason]]:
    obstacles = {pod.name: (pod, obstacle) for pod, obstacle in _list_reasons_of_pods(ws)}
    # The reason from the node, or from the end of the pod, replaces the pod's own reason: it is closer to the cause.
    obstacles |= {pod.name: (pod, obstacle) for pod, obstacle in _list_reasons_of_nodes(ws)}
    return [obstacles[name] for name in sorted(obstacles)]


def _list_reasons_of_pods(ws: DaemonSetWorkingSet) -> list[tuple[PodView, Reason]]:
    """Return unavailable pods with the reasons why they wait. A new pod is included only if a container cannot
    start.
    """
    unavailable = (
        pod
        for state in ws.nodes
        for pod in state.pods
        if not pod.is_deleting
        and (is_leaving(pod) or not (ws.is_available(pod) or _is_just_starting(ws, pod)))
    )
    return blockers_of(
        unavailable, ws.spec.lifecycle, min_ready_seconds=ws.spec.min_ready_seconds, now=ws.now
    )


def _list_reasons_of_nodes(ws: DaemonSetWorkingSet) -> Iterator[tuple[PodView, Reason]]:
    for state in ws.nodes:
        for pod in state.pods:
            if pod.is_deleting:
                kept = find_end_blocker(pod, now=ws.now)
                if reason := _explain_lost_end(state, pod) if state.is_lost else kept:
                    yield pod, reason
            elif pod.phase in FINISHED:
                yield pod, _explain_finished_pod(ws, state.name, pod)
            elif pod.uid in ws.infeasible and (refused := resize_blocker(pod)):
                yield pod, refused
            elif not pod.is_ready and pod.node_name and state.is_lost:
                yield pod, _explain_lost_node(state.name)


def _explain_lost_node(node: str) -> Reason:
    return Reason(
        Code.NODE_LOST,
        f"does not serve, because its node {node} is not ready",
        f"bring {node} back, or delete the node",
    )


def _explain_lost_end(state: NodeState, pod: PodView) -> Reason:
    returns = state.place is Place.RUN
    remedy = end_on_lost_node(state.name, pod.namespace, pod.name, returns=returns)
    return Reason(Code.NODE_LOST, f"must be deleted, but its node {state.name} is not ready", remedy)


def _explain_finished_pod(ws: DaemonSetWorkingSet, node: str, pod: PodView) -> Reason:
    """Return the reason for a finished pod, with the time at which it is replaced."""
    until = ws.snapshot.failed_until.get(node)
    verb = "failed" if pod.phase == "Failed" else "finished"
    when = "is being replaced" if until is None else f"is replaced after {format_time(until)}"
    return Reason(
        Code.POD_FAILED if pod.phase == "Failed" else Code.POD_FINISHED,
        f"has {verb} on node {node}, and {when}",
        f"if that repeats, {read_log(pod.namespace, pod.name)}, and correct spec.template or the node",
    )


def _describe_starting(ws: DaemonSetWorkingSet) -> str:
    count = sum(
        1
        for state in ws.nodes
        if state.place is Place.RUN
        and not ws.is_available(state.pods[0])  # here, every node that should run a pod has a pod
    )
    return f"the pods on {count} of {format_count(ws.limits.desired, 'node')} are starting"


# Nodes


def _explain_nodes(ws: DaemonSetWorkingSet, skipped_nodes: Mapping[str, Reason]) -> Reason | None:
    """Return the reason if nodes lack a pod, or have a pod that must be deleted; otherwise None."""
    missing = [
        state.name
        for state in ws.nodes
        if state.place is Place.RUN and all(pod.is_deleting for pod in state.pods)
    ]
    count = f"{len(missing)} of {format_count(ws.limits.desired, 'node has', 'nodes have')} no pod"
    if missing and all(_is_kept(skipped_nodes.get(node)) for node in missing):
        return Reason(
            Code.PARTITIONED_SCALING,
            f"{count}; because of the partition, {ws.limits.partition} of them get no pod",
            f"lower {_BLOCK}.partition to continue",
        )
    if missing:
        return Reason(Code.CREATING, f"{count} yet, and pods are being created")
    going = len(ws.strays) + sum(len(state.pods) - (state.place is not Place.LEAVE) for state in ws.nodes)
    if going and not (ws.limits.allows_surge and ws.old_pods):
        return Reason(Code.DELETING, f"{format_count(going, 'pod is', 'pods are')} to be deleted")
    return None


def _is_kept(reason: Reason | None) -> bool:
    return reason is not None and reason.code == Code.PARTITIONED_SCALING


# Updates


def _explain_updates(ws: DaemonSetWorkingSet, skipped: Mapping[str, Reason]) -> Reason | None:
    """Return the reason if pods have an older template; otherwise None."""
    old = ws.old_pods
    if not old:
        return None
    count = f"{format_count(len(old), 'pod is', 'pods are')} of an older template"
    held = find_strategy_wait(count, is_on_delete=ws.spec.is_on_delete, is_paused=ws.spec.is_paused)
    if held is not None:
        return held
    codes = {reason.code if (reason := skipped.get(pod.name)) else None for pod in old}
    if codes == {Code.PARTITION}:
        return Reason(
            Code.PARTITION,
            f"{count}; the partition keeps {format_count(ws.limits.partition, 'node')} on older revisions",
            f"lower {_BLOCK}.partition to continue",
        )
    if codes <= {Code.PARTITION, Code.NODE_SELECTOR}:
        return Reason(
            Code.NODE_SELECTOR,
            f"{count} on nodes that rollingUpdate.selector does not select",
            f"label these nodes, or change {_BLOCK}.selector",
        )
    return Reason(Code.UPDATING, f"{count} and being updated")
