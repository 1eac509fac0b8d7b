"""The PodProbeMarker kind, v1alpha1 (its only version). Its spec and status are in pods/probes/api.py, because other
modules use them too.

JSON of the API server ──▶ PodProbeMarker ──▶ its schema; for decisions see pods/probes/views.py
"""

from pykruise.kube.schemas.types import ApiObject
from pykruise.pods.probes.api import POD_PROBE_MARKERS, PodProbeMarkerSpec, PodProbeMarkerStatus

__all__ = ["POD_PROBE_MARKERS", "PodProbeMarker"]


class PodProbeMarker(ApiObject, frozen=True, kw_only=True):
    """Probes containers, and writes the results to their pods as conditions, labels and annotations."""

    api_version: str = POD_PROBE_MARKERS.api_version
    kind: str = POD_PROBE_MARKERS.kind
    spec: PodProbeMarkerSpec | None = None
    status: PodProbeMarkerStatus | None = None
