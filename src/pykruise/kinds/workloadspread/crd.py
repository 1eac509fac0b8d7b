"""The CustomResourceDefinition of WorkloadSpreads, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, WorkloadSpread
from pykruise.kinds.workloadspread.v1alpha1 import WorkloadSpreadV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("WorkloadName", "string", ".spec.targetRef.name"),
    Column("WorkloadKind", "string", ".spec.targetRef.kind"),
    Column(
        "Adaptive",
        "boolean",
        '.spec.scheduleStrategy.type[?(@ == "Adaptive")]',
        description="Whether pods move to another subset when they find no node.",
    ),
    Column("Spread", "string", ".status.spread", description="Pods in each subset, and how many it takes."),
    Column("Age", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=WorkloadSpreadV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=WorkloadSpread, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `workloadspreads.apps.kruise.io`."""
    return definition(WORKLOAD_SPREADS, versions=_VERSIONS, short_names=("ws",))
