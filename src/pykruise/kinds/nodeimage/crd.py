"""The CustomResourceDefinition of NodeImages, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.nodeimage.types import NODE_IMAGES, NodeImage
from pykruise.kinds.nodeimage.v1alpha1 import NodeImageV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("DESIRED", "integer", ".status.desired"),
    Column("PULLING", "integer", ".status.pulling"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=NodeImageV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=NodeImage, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `nodeimages.apps.kruise.io`."""
    return definition(NODE_IMAGES, versions=_VERSIONS)
