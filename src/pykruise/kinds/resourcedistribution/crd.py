"""The CustomResourceDefinition of ResourceDistributions, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS, ResourceDistribution
from pykruise.kinds.resourcedistribution.v1alpha1 import ResourceDistributionV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=ResourceDistributionV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=ResourceDistribution, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `resourcedistributions.apps.kruise.io`."""
    return definition(RESOURCE_DISTRIBUTIONS, versions=_VERSIONS, short_names=("distributor",))
