"""The CustomResourceDefinition of PodProbeMarkers, made from the types: v1alpha1 only."""

from pykruise.kinds.podprobemarker.types import POD_PROBE_MARKERS, PodProbeMarker
from pykruise.kube.crds import Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]


def crd() -> Document:
    """The definition `podprobemarkers.apps.kruise.io`."""
    return definition(
        POD_PROBE_MARKERS, versions=(Version(name="v1alpha1", root=PodProbeMarker, storage=True),)
    )
