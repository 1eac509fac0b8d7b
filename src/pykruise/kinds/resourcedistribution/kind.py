"""ResourceDistribution: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.resourcedistribution.admission import SPOKE_RULES, validating
from pykruise.kinds.resourcedistribution.conversion import CONVERSION
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS, ResourceDistribution
from pykruise.kinds.resourcedistribution.v1alpha1 import ResourceDistributionV1Alpha1
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews

__all__ = ["KIND"]

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
)

KIND = Kind(
    resource=RESOURCE_DISTRIBUTIONS,
    versions=(
        Version(name="v1alpha1", root=ResourceDistributionV1Alpha1, columns=_COLUMNS),
        Version(name="v1beta1", root=ResourceDistribution, storage=True, columns=_COLUMNS),
    ),
    short_names=("distributor",),
    conversion=CONVERSION,
    gates=("ResourceDistributionGate",),
    reviews=Reviews(validating=lambda _, lookups: validating(lookups.trial), spoke=lambda *_: SPOKE_RULES),
)
