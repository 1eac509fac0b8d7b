"""Probes as stored: specs of PodProbeMarkers, and the entries of NodePodProbes.

JSON of the API server ──▶ these types ──▶ kinds/podprobemarker, kinds/nodepodprobe
                           these types ──▶ their schemas
"""

from typing import Final

import msgspec

from pykruise.agent.rules.probe_checks import NODE_POD_PROBES
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import Int64, Probe, Selector, Status, Time, Typed

__all__ = [
    "NODE_POD_PROBES",
    "POD_PROBE_MARKERS",
    "ContainerProbe",
    "MarkerPolicy",
    "NamedProbe",
    "NodePodProbeSpec",
    "NodePodProbeStatus",
    "PodProbe",
    "PodProbeMarkerSpec",
    "PodProbeMarkerStatus",
    "PodProbeStatus",
    "ProbeState",
]

POD_PROBE_MARKERS: Final = Resource("apps.kruise.io", "v1alpha1", "podprobemarkers", "PodProbeMarker")


class MarkerPolicy(Typed, frozen=True, kw_only=True):
    """Marks that pods get in one state of the probe."""

    annotations: dict[str, str] | None = None
    """Annotations that pods in this state get."""
    labels: dict[str, str] | None = None
    """Labels that pods in this state get."""
    state: str
    """Succeeded or Failed."""


class ContainerProbe(Typed, frozen=True, kw_only=True):
    """A probe of one container, and the way its result appears on the pod."""

    container_name: str
    """Name of the container."""
    marker_policy: list[MarkerPolicy] | None = None
    """Labels and annotations for each result."""
    name: str
    """Name of the probe. Must not contain #."""
    pod_condition_type: str = ""
    """Type of the pod condition that shows the result."""
    probe: Probe
    """The probe: exec, httpGet, tcpSocket or grpc."""


class PodProbeMarkerSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the marker."""

    probes: list[ContainerProbe]
    """Probes, each with a unique name."""
    selector: Selector
    """Selects the pods. Immutable."""


class PodProbeMarkerStatus(Status, frozen=True, kw_only=True):
    """Observed state of the marker."""

    matched_pods: Int64 = 0
    """Number of pods that are probed."""
    observed_generation: Int64
    """The metadata.generation that this status describes."""


class NamedProbe(Typed, frozen=True, kw_only=True):
    """A probe of one container."""

    container_name: str
    """Name of the container."""
    name: str
    """Name of the PodProbeMarker and name of its probe, joined by #."""
    probe: Probe
    """The probe."""


class PodProbe(Typed, frozen=True, kw_only=True):
    """Probes of one pod."""

    ip: str = msgspec.field(name="IP")
    """IP address of the pod. May be empty."""
    name: str
    """Name of the pod."""
    namespace: str
    """Namespace of the pod."""
    probes: list[NamedProbe] | None = None
    """Probes of the pod."""
    uid: str
    """UID of the pod."""


class NodePodProbeSpec(Typed, frozen=True, kw_only=True):
    """Desired probes on the node."""

    pod_probes: list[PodProbe] | None = None
    """Probes by pod."""


class ProbeState(Typed, frozen=True, kw_only=True):
    """Result of one probe."""

    last_probe_time: Time | None = None
    """Time of the last probe."""
    last_transition_time: Time | None = None
    """Time of the last change of the result."""
    message: str = ""
    """Human-readable details."""
    name: str
    """Name of the probe."""
    state: str
    """Succeeded, Failed or Unknown."""


class PodProbeStatus(Typed, frozen=True, kw_only=True):
    """Results of the probes of one pod."""

    name: str
    """Name of the pod."""
    namespace: str
    """Namespace of the pod."""
    probe_states: list[ProbeState] | None = None
    """Results of the probes."""
    uid: str
    """UID of the pod."""


class NodePodProbeStatus(Status, frozen=True, kw_only=True):
    """Observed results of the probes on the node."""

    pod_probe_statuses: list[PodProbeStatus] | None = None
    """Results by pod."""
