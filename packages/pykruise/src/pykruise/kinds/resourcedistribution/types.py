"""The ResourceDistribution kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ ResourceDistribution ──▶ controller; and by the same types ──▶ crd.py (its schema)

The resource stays a document.
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
    """One namespace."""

    name: str = ""
    """Name of the namespace."""


class NamespaceList(Typed, frozen=True, kw_only=True):
    """Namespaces by name."""

    items: list[NamespaceName] | None = msgspec.field(name="list", default=None)
    """The namespaces."""


class CommonTargets(Typed, frozen=True, kw_only=True):
    """The namespaces that get the resource: the fields that all versions have alike."""

    all_namespaces: bool = False
    """Whether all namespaces get it."""
    excluded_namespaces: NamespaceList | None = None
    """Namespaces that do not get it, whatever else is said."""
    included_namespaces: NamespaceList | None = None
    """Namespaces that get it."""


class Targets(CommonTargets, frozen=True, kw_only=True):
    """The namespaces that get the resource."""

    namespace_selector: Selector | None = None
    """Labels of namespaces that get it. An empty selector selects none."""


class ResourceDistributionSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the distribution."""

    resource: EmbeddedObject
    """A whole Secret or ConfigMap, without a namespace."""
    targets: Targets


class CommonCondition(Typed, frozen=True, kw_only=True):
    """One kind of failure: the fields that all versions have alike."""

    last_transition_time: Time | None = None
    """When the status last changed."""
    reason: str = ""
    """Error that occurred."""
    status: str
    """True when there are such failures."""
    type: str
    """Kind of failure."""


class DistributionCondition(CommonCondition, frozen=True, kw_only=True):
    """One kind of failure."""

    failed_namespaces: list[str] | None = None
    """Namespaces where it happened."""


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions share."""

    desired: Int32 = 0
    """Namespaces that are to have the resource."""
    failed: Int32 = 0
    """Namespaces where writing it failed."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    succeeded: Int32 = 0
    """Namespaces that have the resource."""


class ResourceDistributionStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the distribution."""

    conditions: list[DistributionCondition] | None = None
    """Failures by kind."""


class ResourceDistribution(ApiObject, frozen=True, kw_only=True):
    """Keeps a copy of a Secret or ConfigMap in every namespace that is to have it."""

    api_version: str = RESOURCE_DISTRIBUTIONS.api_version
    kind: str = RESOURCE_DISTRIBUTIONS.kind
    spec: ResourceDistributionSpec | None = None
    status: ResourceDistributionStatus | None = None
