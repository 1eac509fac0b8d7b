"""The ResourceDistribution kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ ResourceDistribution ──▶ controller
                      the same types ──▶ kind.py (its schema)

The resource is kept as untyped JSON.
"""

from typing import Annotated, Any, Final

import msgspec

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import ApiObject, Int32, Int64, Selector, Status, Time, Typed

RESOURCE_DISTRIBUTIONS: Final = Resource(
    "apps.kruise.io", "v1beta1", "resourcedistributions", "ResourceDistribution", namespaced=False
)

EmbeddedObject = Annotated[dict[str, Any], schema(embedded=True)]


class NamespaceName(Typed, frozen=True, kw_only=True):
    """A namespace."""

    name: str = ""
    """Name of the namespace."""


class NamespaceList(Typed, frozen=True, kw_only=True):
    """Namespaces by name."""

    items: list[NamespaceName] | None = msgspec.field(name="list", default=None)
    """List of namespaces."""


class CommonTargets(Typed, frozen=True, kw_only=True):
    """Namespaces that get the resource: the fields that all versions have."""

    all_namespaces: bool = False
    """Whether all namespaces get the resource."""
    excluded_namespaces: NamespaceList | None = None
    """Namespaces that do not get the resource. Takes precedence over the other fields."""
    included_namespaces: NamespaceList | None = None
    """Namespaces that get the resource."""


class Targets(CommonTargets, frozen=True, kw_only=True):
    """Namespaces that get the resource."""

    namespace_selector: Selector | None = None
    """Selects namespaces that get the resource. An empty selector selects none."""


class ResourceDistributionSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the distribution."""

    resource: EmbeddedObject
    """Complete Secret or ConfigMap without a namespace."""
    targets: Targets


class CommonCondition(Typed, frozen=True, kw_only=True):
    """Condition that reports the failures of one type: the fields that all versions have."""

    last_transition_time: Time | None = None
    """Time of the last change of the status."""
    reason: str = ""
    """Error message of the failure."""
    status: str
    """True when there are failures of this type."""
    type: str
    """Type of failure."""


class DistributionCondition(CommonCondition, frozen=True, kw_only=True):
    """Condition that reports the failures of one type."""

    failed_namespaces: list[str] | None = None
    """Namespaces with the failure."""


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have."""

    desired: Int32 = 0
    """Number of namespaces that should have the resource."""
    failed: Int32 = 0
    """Number of namespaces in which the resource could not be written."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status describes."""
    succeeded: Int32 = 0
    """Number of namespaces that have the resource."""


class ResourceDistributionStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the distribution."""

    conditions: list[DistributionCondition] | None = None
    """Failures by type."""


class ResourceDistribution(ApiObject, frozen=True, kw_only=True):
    """ResourceDistribution keeps a copy of a Secret or ConfigMap in every target namespace."""

    api_version: str = RESOURCE_DISTRIBUTIONS.api_version
    kind: str = RESOURCE_DISTRIBUTIONS.kind
    spec: ResourceDistributionSpec | None = None
    status: ResourceDistributionStatus | None = None
