"""The CustomResourceDefinition of SidecarSets, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.sidecarset.types import SIDECAR_SETS, SidecarSet
from pykruise.kinds.sidecarset.v1alpha1 import SidecarSetV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("MATCHED", "integer", ".status.matchedPods"),
    Column("UPDATED", "integer", ".status.updatedPods"),
    Column("READY", "integer", ".status.readyPods"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=SidecarSetV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=SidecarSet, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `sidecarsets.apps.kruise.io`."""
    return definition(SIDECAR_SETS, versions=_VERSIONS)
