"""Conditions, labels and annotations of pods that another PodProbeMarker sets too.

entries and results of a NodePodProbe + specs of markers ──▶ find_conflicts() ──▶ ProbeConflict of each pod
results of a NodePodProbe + specs of markers ──▶ find_overwritten_marks() ──▶ OverwrittenMark of each pod

Pure. When several probes set the same condition type, choose_by_type() in pods/probes/marks.py chooses the probe whose
result the condition shows: the first one in the agent's report. So a marker that was created later may win. When
several probes set the same label or annotation, marks_of() in pods/probes/marks.py keeps the value of the last one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pykruise.pods.probes.api import ContainerProbe, MarkerPolicy, PodProbe, PodProbeStatus
from pykruise.pods.probes.marks import choose_by_type
from pykruise.pods.probes.views import MarkerView, split_name


class ProbeConflict(msgspec.Struct, frozen=True):
    """Condition type of one of the marker's probes. The pod's condition shows the result of another marker's probe."""

    condition_type: str
    probe: str
    """Name of the marker's probe, whose result is not shown."""
    winner: str
    """Name of the other marker."""


def find_conflicts(
    marker: MarkerView,
    entries: Iterable[PodProbe],
    others: Mapping[str, MarkerView],
    *,
    results: Iterable[PodProbeStatus] = (),
) -> dict[str, ProbeConflict]:
    """Return the first conflict of each pod, by the pod's UID. `others`: the other markers of the namespace, by name;
    `results`: reports of the node's agent.
    """
    reported = {result.uid: _list_reported(result) for result in results}
    types = {
        (known.name, probe.name): probe.pod_condition_type
        for known in (marker, *others.values())
        for probe in (known.spec.probes if known.spec is not None else ())
        if probe.pod_condition_type
    }
    result: dict[str, ProbeConflict] = {}
    for entry in entries:
        if entry.namespace == marker.namespace:
            names = _sort_probes(entry, reported.get(entry.uid, ()))
            conflict = next(_find_conflicts_of_pod(marker.name, names, types), None)
            if conflict is not None:
                result[entry.uid] = conflict
    return result


def _list_reported(result: PodProbeStatus) -> Sequence[str]:
    return [state.name for state in result.probe_states or () if state.state]


def _sort_probes(entry: PodProbe, reported: Sequence[str]) -> list[tuple[str, str]]:
    """Return the marker and the name of each probe of a pod: first probes with a result in the order of the report,
    then probes without a result.
    """
    requested = [probe.name for probe in entry.probes or ()]
    first = [name for name in reported if name in requested]
    return [split_name(name) for name in dict.fromkeys((*first, *requested))]


def _find_conflicts_of_pod(
    marker: str, names: Iterable[tuple[str, str]], types: Mapping[tuple[str, str], str]
) -> Iterator[ProbeConflict]:
    first, others = choose_by_type((types.get(name, ""), name) for name in names)
    for condition_type, (owner, name) in others:
        winner, _ = first[condition_type]
        if owner == marker != winner:
            yield ProbeConflict(condition_type, name, winner)


class OverwrittenMark(msgspec.Struct, frozen=True):
    """A label or annotation of one of the marker's probes that has the value of another marker's probe."""

    what: str
    """`label` or `annotation`."""
    key: str
    value: str
    """Value that the marker's probe sets."""
    shown: str
    """Value that the other marker's probe sets."""
    winner: str
    """Name of the other marker."""
    winning_probe: str


def find_overwritten_marks(
    marker: MarkerView, others: Mapping[str, MarkerView], *, results: Iterable[PodProbeStatus]
) -> dict[str, OverwrittenMark]:
    """Return the first overwritten mark of each pod, by the pod's UID. `others`: the other markers of the namespace, by
    name; `results`: reports of the node's agent.
    """
    probes = {
        (known.name, probe.name): probe
        for known in (marker, *others.values())
        for probe in (known.spec.probes if known.spec is not None else ())
    }
    reported = (result for result in results if result.namespace == marker.namespace)
    marks = {result.uid: next(_find_overwritten(marker.name, result, probes), None) for result in reported}
    return {uid: mark for uid, mark in marks.items() if mark is not None}


def _find_overwritten(
    marker: str, result: PodProbeStatus, probes: Mapping[tuple[str, str], ContainerProbe]
) -> Iterator[OverwrittenMark]:
    wanted: dict[tuple[str, str], str] = {}
    shown: dict[tuple[str, str], tuple[str, str, str]] = {}
    states = {split_name(state.name): state.state for state in result.probe_states or ()}
    for (owner, name), state in states.items():
        probe = probes.get((owner, name))
        for what, key, value in _list_marks(probe, state) if probe is not None else ():
            shown[what, key] = (value, owner, name)
            if owner == marker:
                wanted[what, key] = value
    for (what, key), value in wanted.items():
        other, winner, name = shown[what, key]
        if winner != marker and other != value:
            yield OverwrittenMark(what, key, value, other, winner, name)


def _list_marks(probe: ContainerProbe, state: str) -> Iterator[tuple[str, str, str]]:
    """Yield the labels and annotations that a probe sets in this state."""
    for policy in probe.marker_policy or ():
        if policy.state == state:
            yield from _list_marks_of_policy(policy)


def _list_marks_of_policy(policy: MarkerPolicy) -> Iterator[tuple[str, str, str]]:
    """Yield the labels and annotations of a policy."""
    for what, marks in (("label", policy.labels), ("annotation", policy.annotations)):
        yield from ((what, key, value) for key, value in (marks or {}).items())


def list_parts(marker: MarkerView | None) -> frozenset[tuple[str, str]]:
    """Parts of pods that a marker's probes set: each with its kind (condition, label or annotation) and its name."""
    probes = marker.spec.probes if marker is not None and marker.spec is not None else ()
    types = {("condition", probe.pod_condition_type) for probe in probes if probe.pod_condition_type}
    marks = {
        (what, key)
        for probe in probes
        for policy in probe.marker_policy or ()
        for what, key, _ in _list_marks_of_policy(policy)
    }
    return frozenset(types | marks)
