"""The CustomResourceDefinition of Advanced StatefulSets, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, StatefulSet
from pykruise.kinds.statefulset.v1alpha1 import StatefulSetV1Alpha1
from pykruise.kube.crds import Column, ScalePaths, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("DESIRED", "integer", ".spec.replicas"),
    Column("CURRENT", "integer", ".status.replicas"),
    Column("UPDATED", "integer", ".status.updatedReplicas"),
    Column("READY", "integer", ".status.readyReplicas"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
    Column("CONTAINERS", "string", ".spec.template.spec.containers[*].name", priority=1),
    Column("IMAGES", "string", ".spec.template.spec.containers[*].image", priority=1),
)

_VERSIONS = (
    Version(name="v1alpha1", root=StatefulSetV1Alpha1, columns=_COLUMNS, scale=ScalePaths()),
    Version(name="v1beta1", root=StatefulSet, storage=True, columns=_COLUMNS, scale=ScalePaths()),
)


def crd() -> Document:
    """The definition `statefulsets.apps.kruise.io`."""
    return definition(ADVANCED_STATEFUL_SETS, versions=_VERSIONS, short_names=("sts", "asts"))
