"""Annotations of a new pod that give a virtual node the pod's probes.

pod + PodProbeMarkers of its namespace ──▶ inject() ──▶ the pod with two annotations, or None

Pure. OpenKruise does the same. When several probes have the same condition type, or the same container and name, only
the first one is used. Markers are sorted by name, except those that the pod itself names: they keep the pod's order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.pods.probes.api import ContainerProbe
from pykruise.pods.probes.views import MarkerView

PROBES_ANNOTATION: Final = "kruise.io/podprobe"
"""Annotation with the probes as JSON, without marker policies: a virtual node only writes the results as conditions."""
MARKERS_ANNOTATION: Final = "kruise.io/podprobemarker-list"
"""Annotation with the sorted names of the markers whose probes are used. If a new pod already has it, only these
markers are used, whatever their selectors are.
"""


def inject(pod: Mapping[str, Any], markers: Iterable[MarkerView]) -> Document | None:
    """Return the pod with the probes of the markers that it names or that select it; None: no marker has a probe for a
    container of the pod.
    """
    selected = list(_select_probes(_choose_markers(pod, markers), _list_running_containers(pod)))
    if not selected:
        return None
    probes = [probe for _, probe in selected]
    annotations = {
        **annotations_of(pod),
        PROBES_ANNOTATION: orjson.dumps(msgspec.to_builtins(probes)).decode(),
        MARKERS_ANNOTATION: ",".join(sorted({name for name, _ in selected})),
    }
    return {**pod, "metadata": {**(pod.get("metadata") or {}), "annotations": annotations}}


def _choose_markers(pod: Mapping[str, Any], markers: Iterable[MarkerView]) -> list[MarkerView]:
    by_name = {marker.name: marker for marker in markers if not marker.is_deleting}
    if named := annotations_of(pod).get(MARKERS_ANNOTATION):
        return [by_name[name] for name in dict.fromkeys(named.split(",")) if name in by_name]
    labels = labels_of(pod)
    return [marker for _, marker in sorted(by_name.items()) if marker.selects(labels)]


def _list_running_containers(pod: Mapping[str, Any]) -> frozenset[str]:
    """Names of the containers that keep running, including sidecars among the init containers."""
    spec = pod.get("spec") or {}
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    return frozenset(sidecar["name"] for sidecar in (*sidecars, *(spec.get("containers") or ())))


def _select_probes(
    markers: Sequence[MarkerView], containers: frozenset[str]
) -> Iterator[tuple[str, ContainerProbe]]:
    """Yield the probes to use, each with the name of its marker."""
    types: set[str] = set()
    names: set[tuple[str, str]] = set()
    for marker in markers:
        for probe in marker.spec.probes if marker.spec else ():
            type_, name = probe.pod_condition_type, (probe.container_name, probe.name)
            if not type_ or probe.container_name not in containers or type_ in types or name in names:
                continue
            types.add(type_)
            names.add(name)
            yield marker.name, msgspec.structs.replace(probe, marker_policy=None)
