"""The PodProbeMarker kind, v1alpha1 (its only version): every field, typed.

JSON of the API server ──▶ PodProbeMarker ──▶ controller; and by the same types ──▶ crd.py (its schema)
"""

from typing import Final

from pykruise.kube.api import ApiObject, Int64, Probe, Selector, Status, Typed
from pykruise.kube.resources import Resource

__all__ = [
    "POD_PROBE_MARKERS",
    "ContainerProbe",
    "MarkerPolicy",
    "PodProbeMarker",
    "PodProbeMarkerSpec",
    "PodProbeMarkerStatus",
]

POD_PROBE_MARKERS: Final = Resource("apps.kruise.io", "v1alpha1", "podprobemarkers", "PodProbeMarker")


class MarkerPolicy(Typed, frozen=True, kw_only=True):
    """What pods are marked with in one state of the probe."""

    annotations: dict[str, str] | None = None
    """Annotations that pods in this state get."""
    labels: dict[str, str] | None = None
    """Labels that pods in this state get."""
    state: str
    """Succeeded or Failed."""


class ContainerProbe(Typed, frozen=True, kw_only=True):
    """A check of one container, and how its outcome shows on the pod."""

    container_name: str
    """Name of the container."""
    marker_policy: list[MarkerPolicy] | None = None
    """Labels and annotations by outcome."""
    name: str
    """Name of the probe, without #."""
    pod_condition_type: str = ""
    """Type of the pod's condition that shows the outcome."""
    probe: Probe
    """The check: exec, httpGet or tcpSocket."""


class PodProbeMarkerSpec(Typed, frozen=True, kw_only=True):
    """What is wanted."""

    probes: list[ContainerProbe]
    """Checks, each under a name of its own."""
    selector: Selector
    """Labels of the pods. Cannot be changed."""


class PodProbeMarkerStatus(Status, frozen=True, kw_only=True):
    """What is."""

    matched_pods: Int64 = 0
    """Pods that are checked."""
    observed_generation: Int64
    """The metadata.generation that this status is about."""


class PodProbeMarker(ApiObject, frozen=True, kw_only=True):
    """Checks containers, and shows the outcome as conditions, labels and annotations of their pods."""

    api_version: str = POD_PROBE_MARKERS.api_version
    kind: str = POD_PROBE_MARKERS.kind
    spec: PodProbeMarkerSpec | None = None
    status: PodProbeMarkerStatus | None = None
