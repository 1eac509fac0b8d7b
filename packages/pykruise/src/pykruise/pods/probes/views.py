"""PodProbeMarkers and NodePodProbes as decisions see them.

JSON of a PodProbeMarker ──▶ make_marker_projector()    ──▶ MarkerView
JSON of a NodePodProbe   ──▶ project_node_probes() ──▶ NodeProbesView ──▶ kinds/podprobemarker, kinds/nodepodprobe

Pure. On nodes, a marker's probe has the name `<marker>#<probe>`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.selectors import Selector
from pykruise.pods.probes.api import (
    NODE_POD_PROBES,
    POD_PROBE_MARKERS,
    NodePodProbeSpec,
    NodePodProbeStatus,
    PodProbe,
    PodProbeMarkerSpec,
    PodProbeStatus,
)
from pykruise.pods.workload.views import (
    Projector,
    WorkloadView,
    make_spec_reader,
    read_workload_fields,
    selector_of,
)

__all__ = [
    "FAILED",
    "NODE_POD_PROBES",
    "POD_PROBE_MARKERS",
    "RESERVED_TYPES",
    "SUCCEEDED",
    "UNKNOWN",
    "MarkerView",
    "NodeProbesView",
    "list_marker_keys",
    "make_marker_projector",
    "name_of_probe",
    "project_node_probes",
    "read_marker_spec",
    "split_name",
]

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNKNOWN: Final = "Unknown"

RESERVED_TYPES: Final = (
    "PodScheduled",
    "Initialized",
    "Ready",
    "ContainersReady",
    "KruisePodReady",
    "InPlaceUpdateReady",
)
"""Types of pod conditions that a marker must not set, because other components set them."""


class MarkerView(WorkloadView, frozen=True, kw_only=True):
    """A PodProbeMarker."""

    spec: PodProbeMarkerSpec | None
    """The typed spec; None if it cannot be read (`problem` gives the reason)."""
    selector: Selector | None = None
    """Selects the pods; None if the marker selects no pods."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether the marker selects pods with these labels."""
        return self.selector is not None and self.selector.matches(labels)


class NodeProbesView(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePodProbe. It has the same name as its node."""

    namespace: str = ""
    name: str
    uid: str
    """UID; empty if the NodePodProbe does not exist yet."""
    resource_version: int
    generation: int = 0
    is_deleting: bool = False
    pods: Sequence[PodProbe] = ()
    """Requested probes by pod."""
    statuses: Sequence[PodProbeStatus] = ()
    """Results that the agent reported, by pod."""
    problem: str = ""
    """`<path>: <what is wrong>` when the object cannot be read (it bypassed the schema); empty otherwise."""


read_marker_spec: Final = make_spec_reader(PodProbeMarkerSpec)


def _derive_fields(spec: PodProbeMarkerSpec, _: Document) -> dict[str, Selector | None]:
    selector = selector_of(spec.selector)
    return {"selector": None if selector is None or selector.is_empty else selector}


def make_marker_projector() -> Projector[MarkerView]:
    """Projector of PodProbeMarkers into views."""
    return Projector(MarkerView, read_spec=read_marker_spec, derived=_derive_fields)


def project_node_probes(raw: bytes | msgspec.Raw) -> NodeProbesView:
    """Decode a NodePodProbe's JSON text into its view. Raises ValueError when the text is not an object."""
    document = decode(raw)
    fields: Document = read_workload_fields(document)
    spec, wrong_spec = read(document.get("spec") or {}, NodePodProbeSpec, path="spec")
    status, wrong_status = read(document.get("status") or {}, NodePodProbeStatus, path="status")
    return NodeProbesView(
        name=fields["name"],
        uid=fields["uid"],
        resource_version=fields["resource_version"],
        generation=fields["generation"],
        is_deleting=fields["is_deleting"],
        pods=(spec.pod_probes if spec else None) or (),
        statuses=(status.pod_probe_statuses if status else None) or (),
        problem=wrong_spec or wrong_status,
    )


def name_of_probe(marker: str, probe: str) -> str:
    """Name of a marker's probe on nodes."""
    return f"{marker}#{probe}"


def split_name(name: str) -> tuple[str, str]:
    """Split a probe's name on nodes into marker and probe; both are empty when the name has another form.

    A probe that was stored without a name is accepted too: otherwise the marker would not recognize it, and would add
    it again in each reconcile.
    """
    marker, mark, probe = name.partition("#")
    return (marker, probe) if marker and mark else ("", "")


def list_marker_keys(view: NodeProbesView) -> frozenset[Key]:
    """Keys of the markers with probes or results on the node."""
    asked = {Key(pod.namespace, split_name(probe.name)[0]) for pod in view.pods for probe in pod.probes or ()}
    keys = {
        Key(pod.namespace, split_name(state.name)[0])
        for pod in view.statuses
        for state in pod.probe_states or ()
    }
    return frozenset(key for key in asked | keys if key.name)
