"""The NodePodProbe kind, v1alpha1 (its only version): every field, typed.

JSON of the API server ──▶ NodePodProbe ──▶ controller, node agent; and by the same types ──▶ crd.py (its schema)
"""

from typing import Final

import msgspec

from pykruise.kube.api import ApiObject, Probe, Status, Time, Typed
from pykruise.kube.resources import Resource

__all__ = [
    "NODE_POD_PROBES",
    "NamedProbe",
    "NodePodProbe",
    "NodePodProbeSpec",
    "NodePodProbeStatus",
    "PodProbe",
    "PodProbeStatus",
    "ProbeState",
]

NODE_POD_PROBES: Final = Resource(
    "apps.kruise.io", "v1alpha1", "nodepodprobes", "NodePodProbe", namespaced=False
)


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
    """What is to be checked on the node."""

    pod_probes: list[PodProbe] | None = None
    """By pod."""


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
    """What the checks on the node have found."""

    pod_probe_statuses: list[PodProbeStatus] | None = None
    """By pod."""


class NodePodProbe(ApiObject, frozen=True, kw_only=True):
    """Checks that the agent of the node of the same name makes; written by the manager, not by people."""

    api_version: str = NODE_POD_PROBES.api_version
    kind: str = NODE_POD_PROBES.kind
    spec: NodePodProbeSpec | None = None
    status: NodePodProbeStatus | None = None
