"""PodProbeMarker: the admission step that writes the probes of a new pod for virtual nodes.

pod ──▶ the PodProbeMarkers of its namespace ──▶ inject() ──▶ the pod with annotations, or unchanged

Every selected pod gets the annotations, because its node is not known yet. Nodes with an agent ignore them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from pykruise.kinds.podprobemarker.injection import MARKERS_ANNOTATION, inject
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.values.cel import Interests, LabelSelection, any_of, build_selection
from pykruise.plans.pod_steps import PodReaders, PodSelection, PodSteps, StepContext, StepError
from pykruise.plans.views import MARKER_VIEWS
from pykruise.pods.probes.views import POD_PROBE_MARKERS, MarkerView
from pykruise.runtime.object_reader import CachedObjects, LiveObjects

_NAMES_MARKERS: Final = (
    f'has(object.metadata.annotations) && "{MARKERS_ANNOTATION}" in object.metadata.annotations'
)
"""CEL expression: the pod names its markers, which then need not select it."""


class MarkerReader(Protocol):
    """Reads markers from a cluster."""

    async def list_in_namespace(self, namespace: str) -> Sequence[MarkerView]:
        """Return the markers of a namespace. Raises KubeError."""
        ...


class ProbeInjection:
    """The step of `/mutate-pod`. Without a reader it changes no pod."""

    def __init__(self, context: StepContext) -> None:
        self._reader: MarkerReader | None = context.reader

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that matches the pods that a PodProbeMarker selects, or that name markers."""
        return any_of((build_selection(interests, POD_PROBE_MARKERS.kind), _NAMES_MARKERS))

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        if self._reader is None:
            return None
        namespace = (pod.get("metadata") or {}).get("namespace") or request.namespace
        try:
            return inject(pod, await self._reader.list_in_namespace(namespace))
        except KubeError as error:
            raise StepError(f"the PodProbeMarkers of the pod cannot be read: {error}") from error


def _list_selections(markers: Iterable[MarkerView]) -> list[LabelSelection]:
    return [
        LabelSelection(selector=marker.selector, namespaces=(marker.namespace,))
        for marker in markers
        if marker.selector is not None
    ]


STEPS: Final = PodSteps(
    name="podprobemarker",
    order=80,
    gates=("EnablePodProbeMarkerOnServerless", "PodProbeMarkerGate"),
    mutate=ProbeInjection,
    reads=PodReaders(
        live=lambda place: LiveObjects(place.client, MARKER_VIEWS),
        cached=lambda place: CachedObjects(place.client(), MARKER_VIEWS, clock=place.clock, rng=place.rng),
    ),
    selects=PodSelection(views=MARKER_VIEWS, pods=_list_selections, announces=()),
    rights=(
        make_right(
            POD_PROBE_MARKERS, *READ, why="PodProbeMarker: to write the probes of pods on virtual nodes"
        ),
    ),
)
