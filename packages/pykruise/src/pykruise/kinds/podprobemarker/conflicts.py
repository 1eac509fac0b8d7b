"""Condition types of pods that another PodProbeMarker sets first.

entries of a NodePodProbe + specs of the namespace's markers ──▶ find_conflicts() ──▶ ProbeConflict of each pod

Pure. The rule of the winner is choose_by_type() in pods/probes/marks.py.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pykruise.pods.probes.api import PodProbe
from pykruise.pods.probes.marks import choose_by_type
from pykruise.pods.probes.views import MarkerView, split_name


class ProbeConflict(msgspec.Struct, frozen=True):
    """A condition type of the marker that shows the probe of another marker."""

    condition_type: str
    probe: str
    """Name of the probe that is not shown."""
    winner: str
    """Name of the marker whose probe is shown."""


def find_conflicts(
    marker: MarkerView, entries: Iterable[PodProbe], others: Mapping[str, MarkerView]
) -> dict[str, ProbeConflict]:
    """Return the first conflict of each pod, by UID. `others`: the other markers of the namespace, by name."""
    types = {
        (known.name, probe.name): probe.pod_condition_type
        for known in (marker, *others.values())
        for probe in (known.spec.probes if known.spec is not None else ())
        if probe.pod_condition_type
    }
    result: dict[str, ProbeConflict] = {}
    for entry in entries:
        if entry.namespace == marker.namespace:
            conflict = next(_find_conflicts_of_pod(marker.name, entry, types), None)
            if conflict is not None:
                result[entry.uid] = conflict
    return result


def _find_conflicts_of_pod(
    marker: str, entry: PodProbe, types: Mapping[tuple[str, str], str]
) -> Iterator[ProbeConflict]:
    names = [split_name(probe.name) for probe in entry.probes or ()]
    first, others = choose_by_type((types.get(name, ""), name) for name in names)
    for condition_type, (owner, name) in others:
        winner, _ = first[condition_type]
        if owner == marker != winner:
            yield ProbeConflict(condition_type, name, winner)


def list_condition_types(marker: MarkerView | None) -> frozenset[str]:
    """Condition types that a marker's probes set."""
    probes = marker.spec.probes if marker is not None and marker.spec is not None else ()
    return frozenset(probe.pod_condition_type for probe in probes if probe.pod_condition_type)
