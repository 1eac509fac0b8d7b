"""PodProbeMarker: the step that tells virtual nodes what to check in a new pod.

pod ──▶ the PodProbeMarkers of its namespace ──▶ inject() ──▶ the pod, or as it is

Every pod gets the annotations, for its node is not known yet; nodes with an agent pass them over.
"""

from collections.abc import Sequence
from typing import Protocol

from pykruise.admission.pods.steps import StepError
from pykruise.kinds.podprobemarker.injection import inject
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.kube.values.cel import Interests, meant_by
from pykruise.pods.probes.views import POD_PROBE_MARKERS, MarkerView

__all__ = ["MarkerReader", "ProbeInjection"]


class MarkerReader(Protocol):
    """What is asked of a cluster."""

    async def in_namespace(self, namespace: str) -> Sequence[MarkerView]:
        """The markers of a namespace. Raises KubeError."""
        ...


class ProbeInjection:
    """The step of `/mutate-pod`. Without a reader no pod gets anything."""

    name = "podprobemarker"

    def __init__(self, reader: MarkerReader | None) -> None:
        self._reader = reader

    def wanted(self, interests: Interests) -> str:
        """Those that a PodProbeMarker selects."""
        return meant_by(interests, POD_PROBE_MARKERS.kind)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if self._reader is None:
            return None
        namespace = (pod.get("metadata") or {}).get("namespace") or request.namespace
        try:
            return inject(pod, await self._reader.in_namespace(namespace))
        except KubeError as error:
            raise StepError(f"the PodProbeMarkers of the pod cannot be read: {error}") from error
