"""Condition types of pods that another PodProbeMarker sets first.

entries and results of a NodePodProbe + specs of the namespace's markers ──▶ find_conflicts() ──▶ ProbeConflict of
                                                                                                each pod

Pure. When several probes set the same condition type, choose_by_type() in pods/probes/marks.py chooses the probe whose
result the condition shows: the first one in the agent's report. So a marker that was created later may win.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pykruise.pods.probes.api import PodProbe, PodProbeStatus
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


def list_condition_types(marker: MarkerView | None) -> frozenset[str]:
    """Condition types that a marker's probes set."""
    probes = marker.spec.probes if marker is not None and marker.spec is not None else ()
    return frozenset(probe.pod_condition_type for probe in probes if probe.pod_condition_type)
