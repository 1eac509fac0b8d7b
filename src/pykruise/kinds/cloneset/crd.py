"""The CustomResourceDefinition of CloneSets, made from the types.

types.py, v1alpha1.py ──▶ crd() ──▶ a document for `install`, the sandbox, and the comparison with the original

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSet
from pykruise.kinds.cloneset.v1alpha1 import CloneSetV1Alpha1
from pykruise.kube.crds import Column, ScalePaths, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("DESIRED", "integer", ".spec.replicas"),
    Column("UPDATED", "integer", ".status.updatedReplicas"),
    Column("UPDATED_READY", "integer", ".status.updatedReadyReplicas"),
    Column("UPDATED_AVAILABLE", "integer", ".status.updatedAvailableReplicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    Column("TOTAL", "integer", ".status.replicas"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
    Column("CONTAINERS", "string", ".spec.template.spec.containers[*].name", priority=1),
    Column("IMAGES", "string", ".spec.template.spec.containers[*].image", priority=1),
    Column("SELECTOR", "string", ".status.labelSelector", priority=1),
)

_VERSIONS = (
    Version(name="v1alpha1", root=CloneSetV1Alpha1, columns=_COLUMNS, scale=ScalePaths()),
    Version(name="v1beta1", root=CloneSet, storage=True, columns=_COLUMNS, scale=ScalePaths()),
)


def crd() -> Document:
    """The definition `clonesets.apps.kruise.io`."""
    return definition(CLONE_SETS, versions=_VERSIONS, short_names=("clone",))
