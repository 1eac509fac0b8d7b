"""Why a DaemonSet is not (yet) as its spec wants it, in one condition: `Waiting`.

WorkingSet + what the phases left alone ──▶ waiting_of() ──▶ Waiting: reason, words, remedy; or None: converged

Pure. A DaemonSet that has converged (each node that runs a pod has one, of the newest template and available, and
no other node has one that is to go) does not carry the condition; every other does, unless SelectorMismatch says
it. What needs a person comes first, then what the spec itself holds back, then what goes on by itself. What comes
and goes with every pod of a rollout is told in counts, so that it costs no write of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pykruise.kinds.daemonset.node_states import FINISHED, NodeState, is_leaving
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.update import BY_PARTITION, BY_SELECTOR, INVALID_SPEC
from pykruise.kinds.daemonset.working_set import WorkingSet
from pykruise.kube.clock import Instant, format_time
from pykruise.plans.refreshing import BROKEN
from pykruise.pods.obstacles import Obstacle, obstacles_of
from pykruise.pods.views import PodView
from pykruise.pods.waiting import Waiting, waiting_for_pods, waiting_for_strategy

__all__ = ["CORRECT", "is_converged", "waiting_of", "waits_until"]

CORRECT: Final = "correct the field"
RECREATE: Final = "delete the pod, to have it recreated"

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"

_IN_PASSING: Final = frozenset({"Scheduling", "Starting", "UpdatingInPlace"})
"""Obstacles that every pod has for a moment when it is new or updated."""

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What containers wait for that start."""

_UNREADY: Final = frozenset({"NotReady", "ReadinessGate"})

NAMED_AFTER_S: Final = 30.0
"""A pod that is not ready for so long is named; before, that is what every new pod is."""


def is_converged(ws: WorkingSet) -> bool:
    """Whether every node has what it is to have."""
    if ws.strays or ws.outdated:
        return False
    return all(_is_as_wanted(ws, state) for state in ws.nodes)


def _is_as_wanted(ws: WorkingSet, state: NodeState) -> bool:
    if len(state.pods) != 1:
        return False
    pod = state.pods[0]
    if pod.is_deleting or is_leaving(pod) or not ws.is_updated(pod):
        return False
    if state.place is Place.STAY:  # nobody's worry, as long as it is not to go
        return pod.phase not in FINISHED
    return state.place is Place.RUN and ws.is_available(pod)


def waiting_of(
    ws: WorkingSet, *, left: Mapping[str, str], left_nodes: Mapping[str, str], broken: str = ""
) -> Waiting | None:
    """What the DaemonSet waits for; None: it has converged. `left`, `left_nodes`: why the plan leaves pods
    alone, and nodes without a pod. `broken`: updates in place that cannot go on by themselves."""
    if is_converged(ws):
        return None
    obstacles = [pair for pair in _obstacles(ws) if not _passes(ws, *pair)]
    stuck = [pair for pair in obstacles if pair[1].is_stuck]
    needs_somebody = (
        waiting_for_pods([pair for pair in stuck if pair[1].reason != "NotReady"])
        or (Waiting(reason=BROKEN, because=broken, remedy=RECREATE) if broken else None)
        or _of_limits(ws)
        or waiting_for_pods(stuck)
    )
    if needs_somebody is not None:
        return needs_somebody
    updates = _of_updates(ws, left)
    if updates is not None and updates.reason == _UPDATING:
        return updates
    return (
        waiting_for_pods(obstacles)
        or _of_nodes(ws, left_nodes)
        or updates
        or Waiting(reason="Starting", because=_starting(ws))
    )


def waits_until(ws: WorkingSet) -> Instant | None:
    """When time alone changes what it waits for: a pod has then been unready for too long to be left unnamed."""
    times = (
        since + NAMED_AFTER_S
        for state in ws.nodes
        for pod in state.pods
        if not pod.is_ready and not pod.is_deleting and (since := _unready_since(pod)) is not None
    )
    return min((time for time in times if time > ws.now), default=None)


# Pods


def _is_just_starting(ws: WorkingSet, pod: PodView) -> bool:
    """Cheap, as it is asked for every pod that a rollout touches."""
    if pod.is_ready or any(one.waiting not in _STARTING for one in pod.container_statuses):
        return False
    since = _unready_since(pod)
    return since is not None and ws.now < since + NAMED_AFTER_S


def _passes(ws: WorkingSet, pod: PodView, obstacle: Obstacle) -> bool:
    """Whether it is one that a new or updated pod always has for a while."""
    if obstacle.reason not in _UNREADY:
        return obstacle.reason in _IN_PASSING
    since = _unready_since(pod)
    return since is not None and ws.now < since + NAMED_AFTER_S


def _unready_since(pod: PodView) -> Instant | None:
    return pod.created_at if pod.ready_since is None else pod.ready_since


def _obstacles(ws: WorkingSet) -> list[tuple[PodView, Obstacle]]:
    found = {pod.name: (pod, obstacle) for pod, obstacle in _told_by_pods(ws)}
    # What the node or the pod's end says is nearer to the cause.
    found |= {pod.name: (pod, obstacle) for pod, obstacle in _told_by_nodes(ws)}
    return [found[name] for name in sorted(found)]


def _told_by_pods(ws: WorkingSet) -> list[tuple[PodView, Obstacle]]:
    """Of pods that are not available; of new ones only when a container says that it cannot start."""
    unavailable = (
        pod
        for state in ws.nodes
        for pod in state.pods
        if not pod.is_deleting
        and (is_leaving(pod) or not (ws.is_available(pod) or _is_just_starting(ws, pod)))
    )
    return obstacles_of(
        unavailable, ws.spec.lifecycle, min_ready_seconds=ws.spec.min_ready_seconds, now=ws.now
    )


def _told_by_nodes(ws: WorkingSet) -> Iterator[tuple[PodView, Obstacle]]:
    for state in ws.nodes:
        for pod in state.pods:
            if pod.is_deleting:
                if pod.finalizers or state.is_lost:
                    yield pod, _of_ending(state, pod)
            elif pod.phase in FINISHED:
                yield pod, _of_finished(ws, state.name, pod)
            elif not pod.is_ready and pod.node_name and state.is_lost:
                yield pod, _of_lost(state.name)


def _of_lost(node: str) -> Obstacle:
    return Obstacle(
        reason="NodeNotReady",
        because=f"does not serve, as its node {node} is not ready",
        remedy=f"bring node {node} back, or delete it",
    )


def _of_ending(state: NodeState, pod: PodView) -> Obstacle:
    if state.is_lost:
        remedy = f"bring node {state.name} back, or delete it, or the pod with --grace-period=0 --force"
        because = f"is to go, but its node {state.name} is not ready"
        return Obstacle(reason="NodeNotReady", because=because, remedy=remedy)
    names = ", ".join(pod.finalizers)
    return Obstacle(
        reason="Terminating",
        because=f"is to go, but finalizers hold it: {names}",
        remedy="have them taken off by whoever set them",
    )


def _of_finished(ws: WorkingSet, node: str, pod: PodView) -> Obstacle:
    """A pod that ended is replaced, but not in a circle."""
    until = ws.snapshot.failed_until.get(node)
    verb = "failed" if pod.phase == "Failed" else "finished"
    when = f"is replaced after {format_time(until)}" if until and until > ws.now else "is being replaced"
    return Obstacle(
        reason=f"Pod{verb.capitalize()}",
        because=f"has {verb} on node {node}, and {when}",
        remedy="if that repeats, read the pod's events and logs, and correct spec.template or the node",
    )


def _starting(ws: WorkingSet) -> str:
    count = sum(
        1
        for state in ws.nodes
        if state.place is Place.RUN and not (state.pods and ws.is_available(state.pods[0]))
    )
    return f"pods of {count} of {ws.limits.desired} nodes are starting"


# Limits and nodes


def _of_limits(ws: WorkingSet) -> Waiting | None:
    if not ws.limits.problems:
        return None
    because = f"nothing is updated: {'; '.join(ws.limits.problems)}"
    return Waiting(reason=INVALID_SPEC, because=because, remedy=CORRECT)


def _of_nodes(ws: WorkingSet, left_nodes: Mapping[str, str]) -> Waiting | None:
    """Nodes without the pod that they are to have, or with one that they are not to have."""
    missing = [
        state.name
        for state in ws.nodes
        if state.place is Place.RUN and all(pod.is_deleting for pod in state.pods)
    ]
    count = f"{len(missing)} of {ws.limits.desired} nodes have no pod"
    if missing and all("(partitionedScaling)" in left_nodes.get(node, "") for node in missing):
        return Waiting(
            reason="PartitionedScaling",
            because=f"{count}; the partition keeps {ws.limits.partition} of them so",
            remedy=f"lower {_BLOCK}.partition to go on",
        )
    if missing:
        return Waiting(reason="Creating", because=f"{count} and get one")
    going = sum(1 for pod in ws.strays if not pod.is_deleting) + sum(
        len(state.pods) - (state.place is not Place.LEAVE) for state in ws.nodes if state.pods
    )
    if going and not (ws.limits.allows_surge and ws.old_pods):
        return Waiting(reason="Deleting", because=f"{going} pods are to go")
    return None


# Updates

_UPDATING: Final = "Updating"


def _of_updates(ws: WorkingSet, left: Mapping[str, str]) -> Waiting | None:
    """Pods that are not of the newest template."""
    old = ws.old_pods
    if not old:
        return None
    count = f"{len(old)} pods are of an older template"
    held = waiting_for_strategy(count, is_on_delete=ws.spec.is_on_delete, is_paused=ws.spec.is_paused)
    if held is not None:
        return held
    reasons = {left.get(pod.name, "") for pod in old}
    if reasons == {BY_PARTITION}:
        return Waiting(
            reason="Partition",
            because=f"{count}; the partition keeps {ws.limits.partition} nodes there",
            remedy=f"lower {_BLOCK}.partition to go on",
        )
    if reasons <= {BY_PARTITION, BY_SELECTOR}:
        return Waiting(
            reason="NodeSelector",
            because=f"{count} on nodes that rollingUpdate.selector does not select",
            remedy=f"label these nodes, or change {_BLOCK}.selector",
        )
    return Waiting(reason=_UPDATING, because=f"{count} and being updated")
