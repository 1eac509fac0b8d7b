"""Probes as stored: specs of PodProbeMarkers, and the entries of NodePodProbes.

JSON of the API server ──▶ these ──▶ kinds/podprobemarker, kinds/nodepodprobe; and by the same types ──▶ their schemas
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
    """Marks of pods in one state of the probe."""

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
    """The check: exec, httpGet, tcpSocket or grpc."""


class PodProbeMarkerSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the marker."""

    probes: list[ContainerProbe]
    """Checks, each under a name of its own."""
    selector: Selector
    """Labels of the pods. Cannot be changed."""


class PodProbeMarkerStatus(Status, frozen=True, kw_only=True):
    """Observed state of the marker."""

    matched_pods: Int64 = 0
    """Pods that are checked."""
    observed_generation: Int64
    """The metadata.generation that this status is about."""


class NamedProbe(Typed, frozen=True, kw_only=True):
    """A check of one container."""

    container_name: str
    """Name of the container."""
    name: str
    """Name of the PodProbeMarker and of its probe, with # between them."""
    probe: Probe
    """The check."""


class PodProbe(Typed, frozen=True, kw_only=True):
    """Checks of one pod."""

    ip: str = msgspec.field(name="IP")
    """Address of the pod; may be empty."""
    name: str
    """Name of the pod."""
    namespace: str
    """Namespace of the pod."""
    probes: list[NamedProbe] | None = None
    """The checks."""
    uid: str
    """Identity of the pod."""


class NodePodProbeSpec(Typed, frozen=True, kw_only=True):
    """Desired checks on the node."""

    pod_probes: list[PodProbe] | None = None
    """Checks by pod."""


class ProbeState(Typed, frozen=True, kw_only=True):
    """The outcome of one check."""

    last_probe_time: Time | None = None
    """When it was last made."""
    last_transition_time: Time | None = None
    """When its outcome last changed."""
    message: str = ""
    """Details for people."""
    name: str
    """Name of the check."""
    state: str
    """Succeeded, Failed or Unknown."""


class PodProbeStatus(Typed, frozen=True, kw_only=True):
    """Outcomes of the checks of one pod."""

    name: str
    """Name of the pod."""
    namespace: str
    """Namespace of the pod."""
    probe_states: list[ProbeState] | None = None
    """The outcomes."""
    uid: str
    """Identity of the pod."""


class NodePodProbeStatus(Status, frozen=True, kw_only=True):
    """Observed results of the checks on the node."""

    pod_probe_statuses: list[PodProbeStatus] | None = None
    """Results by pod."""
