"""Why a probe of a pod has not succeeded. Its marker and its node share these reasons.

PodView + the states of its probes ──▶ obstacle_of() ──▶ Reason; None: all have succeeded, or the pod starts

Pure. A failing probe is a valid result: only the author of the marker knows whether it is a problem.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pykruise.kube.clock import Instant, format_time
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.lifecycle.blockers import blocker_of, find_closed_gate, find_next_blocker_time
from pykruise.pods.probes.api import ContainerProbe, NamedProbe, ProbeState
from pykruise.pods.probes.views import FAILED, SUCCEEDED, UNKNOWN, split_name
from pykruise.pods.reasons import REPEATED, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

Probed = tuple[PodView, Sequence[NamedProbe], Sequence[ProbeState]]
"""A pod, the probes requested for it, and the results that the agent reported."""

_NO_CONDITIONS: Final[Mapping[str, str]] = {}

ANSWERS_IN_S: Final = 60.0
"""Maximum seconds that a working agent needs to probe a ready pod."""


def explain_lost_node(node: str) -> Reason:
    """Reason for the pods of a node that does not report: the results of its probes are old."""
    return Reason(
        Code.NODE_LOST,
        f"node {node} does not answer, so the results of its probes are outdated",
        f"bring {node} back, or delete the node: its pods are then replaced",
    )


def list_probed_containers(pod: PodView) -> frozenset[str]:
    """Return the names of the containers that probes can name."""
    return frozenset(container.name for container in (*pod.containers, *pod.sidecars))


def describe_missing_container(probe: ContainerProbe | NamedProbe, containers: Collection[str]) -> str:
    """Describe that the pod with these containers lacks the container of the probe; empty: the container exists."""
    if probe.container_name in containers:
        return ""
    return f"probe {probe.name}: the pod has no container {probe.container_name}"


def obstacle_of(
    pod: PodView,
    probes: Sequence[NamedProbe],
    states: Sequence[ProbeState],
    *,
    now: Instant,
    conditions: Mapping[str, str] = _NO_CONDITIONS,
) -> Reason | None:
    """Obstacle of one pod. `probes`: the requested probes; `states`: the results that the agent reported; `conditions`:
    the condition of the pod that each requested probe sets.
    """
    containers = list_probed_containers(pod)
    for probe in probes if containers else ():
        if words := describe_missing_container(probe, containers):
            remedy = f"correct the container of the probe in PodProbeMarker {split_name(probe.name)[0]}"
            return Reason(Code.PROBE_PORT, words, remedy)
    if (stuck := _find_stuck(pod, now)) is not None:
        return _explain_open_gate(pod, probes, states, conditions, now=now) or stuck
    known = {state.name: state for state in states if state.state}
    failed = [
        known[probe.name] for probe in probes if probe.name in known and known[probe.name].state == FAILED
    ]
    if failed:
        said = "; ".join(
            f"probe {probe_state.name} fails: {probe_state.message or 'the probe has no message'}"
            for probe_state in failed
        )
        return Reason(Code.PROBE_FAILS, said)
    missing = _find_missing(probes, states)
    late = [
        probe.name for probe in missing if (time := _find_late_time(pod, probe)) is not None and now >= time
    ]
    if late:
        words = f"the agent of node {pod.node_name} has not run probe {', '.join(late)}"
        remedy = f"start the agent on node {pod.node_name}, or bring the node back"
        return Reason(Code.NO_AGENT, words, remedy)
    if pod.ready_since is None or not pod.is_ready:
        return None
    delayed = next(
        (
            probe
            for probe in probes
            if (delay_s := probe.probe.initial_delay_seconds) > 0
            and (probe in missing or (_is_unknown(probe, known) and now < pod.ready_since + delay_s))
        ),
        None,
    )
    if delayed is None:
        return None
    delay_s = delayed.probe.initial_delay_seconds
    begins = format_time(pod.ready_since + delay_s)
    words = f"probe {delayed.name} begins at {begins} at the latest (initialDelaySeconds {delay_s})"
    return Reason(Code.STARTING, words)


def _is_unknown(probe: NamedProbe, known: Mapping[str, ProbeState]) -> bool:
    return probe.name in known and known[probe.name].state == UNKNOWN


def _explain_open_gate(
    pod: PodView,
    probes: Sequence[NamedProbe],
    states: Sequence[ProbeState],
    conditions: Mapping[str, str],
    *,
    now: Instant,
) -> Reason | None:
    """Obstacle of a pod with ready containers that is out of service because a probe has not succeeded; None if there
    is no such probe.
    """
    if any(not status.ready for status in pod.container_statuses):
        return None
    closed = find_closed_gate(pod)
    known = {state.name: state for state in states if state.state}
    for name, gate in conditions.items():
        state = known.get(name)
        if gate != closed or (state is not None and state.state == SUCCEEDED):
            continue
        effect = (
            f"it sets the condition {gate}, which is a readiness gate of the pod, so the pod is not ready"
        )
        if state is not None and state.state == FAILED:
            said = state.message or "the probe has no message"
            return Reason(
                Code.READINESS_GATE,
                f"probe {name} fails: {said}; {effect}",
                "correct the problem that the probe reports, or correct the probe in PodProbeMarker"
                f" {split_name(name)[0]}",
            )
        delay_s = max(
            (probe.probe.initial_delay_seconds for probe in probes if probe.name == name), default=0
        )
        if delay_s and pod.created_at is not None and now < pod.created_at + delay_s + ANSWERS_IN_S:
            words = f"probe {name} begins {delay_s} s after the start of its container (initialDelaySeconds)"
            return Reason(Code.STARTING, f"{words}; {effect}")
        return Reason(
            Code.READINESS_GATE,
            f"the agent of node {pod.node_name} has reported no result of probe {name} yet; {effect}",
            f"start the agent on node {pod.node_name}, or bring the node back",
        )
    return None


def _find_stuck(pod: PodView, now: Instant) -> Reason | None:
    """Obstacle of the pod itself that needs a person. While a container does not run, its probes have no results."""
    obstacle = None if pod.is_ready else blocker_of(pod, None, now=now, correction=OF_THE_WORKLOAD)
    return obstacle if obstacle is not None and obstacle.code in REPEATED else None


def obstacles_of(
    probed: Iterable[Probed], *, now: Instant, conditions: Mapping[str, str] = _NO_CONDITIONS
) -> dict[str, Reason]:
    """Obstacles by pod name. `conditions`: see `obstacle_of`."""
    result = (
        (pod.name, obstacle_of(pod, probes, states, now=now, conditions=conditions))
        for pod, probes, states in probed
    )
    return {name: obstacle for name, obstacle in result if obstacle is not None}


def find_next_late_time(probed: Iterable[Probed], *, now: Instant) -> Instant | None:
    """Earliest time at which an agent that has not run all probes of a pod becomes late, or at which the node of a pod
    counts as lost; None if there is no such time.
    """
    probed = tuple(probed)
    times = (
        time
        for pod, probes, states in probed
        for probe in _find_missing(probes, states)
        if (time := _find_late_time(pod, probe)) is not None and time > now
    )
    blocked_at = find_next_blocker_time((pod for pod, _, _ in probed), now=now)
    return min((*times, *(() if blocked_at is None else (blocked_at,))), default=None)


def _find_missing(probes: Sequence[NamedProbe], states: Sequence[ProbeState]) -> list[NamedProbe]:
    known = {state.name for state in states if state.state}
    return [probe for probe in probes if probe.name not in known]


def _find_late_time(pod: PodView, probe: NamedProbe) -> Instant | None:
    """Return the time at which the agent is late with the probe. The delay of the probe counts from the start of the
    container, so it has certainly ended when the pod has been ready for that number of seconds.
    """
    if not pod.is_ready or pod.ready_since is None:
        return None
    return pod.ready_since + probe.probe.initial_delay_seconds + ANSWERS_IN_S
