"""The CustomResourceDefinition of NodePodProbes, made from the types: v1alpha1 only."""

from pykruise.kinds.nodepodprobe.types import NODE_POD_PROBES, NodePodProbe
from pykruise.kube.crds import Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]


def crd() -> Document:
    """The definition `nodepodprobes.apps.kruise.io`."""
    return definition(NODE_POD_PROBES, versions=(Version(name="v1alpha1", root=NodePodProbe, storage=True),))
