"""The ResourceDistribution kind in its older version, v1alpha1: two fields have other names.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.resourcedistribution.types import (
    RESOURCE_DISTRIBUTIONS,
    CommonCondition,
    CommonStatus,
    CommonTargets,
    EmbeddedObject,
)
from pykruise.kube.schemas.types import ApiObject, Selector, Typed


class TargetsV1Alpha1(CommonTargets, frozen=True, kw_only=True):
    """Namespaces that get the resource."""

    namespace_label_selector: Selector | None = None
    """Selects namespaces that get the resource. An empty selector selects none."""


class ResourceDistributionSpecV1Alpha1(Typed, frozen=True, kw_only=True):
    """Desired state of the distribution."""

    resource: EmbeddedObject
    """Complete Secret or ConfigMap without a namespace."""
    targets: TargetsV1Alpha1


class DistributionConditionV1Alpha1(CommonCondition, frozen=True, kw_only=True):
    """Condition that reports the failures of one type."""

    failed_namespace: list[str] | None = None
    """Namespaces with the failure."""


class ResourceDistributionStatusV1Alpha1(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the distribution."""

    conditions: list[DistributionConditionV1Alpha1] | None = None
    """Failures by type."""


class ResourceDistributionV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """ResourceDistribution keeps a copy of a Secret or ConfigMap in every target namespace."""

    api_version: str = f"{RESOURCE_DISTRIBUTIONS.group}/v1alpha1"
    kind: str = RESOURCE_DISTRIBUTIONS.kind
    spec: ResourceDistributionSpecV1Alpha1 | None = None
    status: ResourceDistributionStatusV1Alpha1 | None = None
