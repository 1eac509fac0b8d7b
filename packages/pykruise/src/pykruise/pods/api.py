"""Parts of API objects that several of our kinds share.

kinds/<kind>/types.py ──▶ these types; kube/schemas/types.py has Kubernetes' own
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pykruise.kube.schemas.crds import merge_like, schema
from pykruise.kube.schemas.types import Int32, IntOrString, Selector, Typed

PodTemplate = Annotated[dict[str, Any], merge_like("io.k8s.api.core.v1.PodTemplateSpec")]
"""A `core/v1 PodTemplateSpec`, stored without changes. Server-side apply merges its lists like the lists of a
Deployment.
"""
ClaimTemplates = Annotated[list[dict[str, Any]], schema(any_object=True)]
"""A list of `core/v1 PersistentVolumeClaim`, stored without changes."""


class UpdateType(StrEnum):
    """Strategy type: pods are updated automatically, or only when they are deleted."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_DELETE = "OnDelete"


class PodUpdatePolicy(StrEnum):
    """Method by which a pod gets another revision."""

    RECREATE = "ReCreate"
    IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"
    IN_PLACE_ONLY = "InPlaceOnly"


IN_PLACE_POLICIES: Final = (PodUpdatePolicy.IN_PLACE_IF_POSSIBLE, PodUpdatePolicy.IN_PLACE_ONLY)
"""Policies that change pods instead of recreating them."""


class InPlaceUpdateStrategy(Typed, frozen=True, kw_only=True):
    """Settings of in-place updates."""

    grace_period_seconds: Int32 = 0
    """Seconds between taking a pod out of service and changing its containers."""
    image_pre_download_min_updated_ready_pods: Int32 | None = None
    """Number of updated and ready pods that must exist before the new images are pulled on the other nodes."""
    image_pre_download_parallelism: IntOrString | None = None
    """Number of nodes that pull at the same time. Defaults to 1. May be a number as text."""
    image_pre_download_timeout_seconds: Int32 | None = None
    """Timeout of one pull in seconds."""


class OrderPriorityTerm(Typed, frozen=True, kw_only=True):
    """Pods are updated in the order of the number at the end of the label's value, the greatest number first."""

    ordered_key: str
    """Key of the label."""


class WeightPriorityTerm(Typed, frozen=True, kw_only=True):
    """Adds the weight to pods that match the selector. The pods with the greatest weight are updated first."""

    match_selector: Selector
    """Selects the pods."""
    weight: Int32
    """Weight from 0 to 100."""


class PriorityStrategy(Typed, frozen=True, kw_only=True):
    """Order in which pods are updated. Only one of the lists may be used."""

    order_priority: list[OrderPriorityTerm] | None = None
    """Orders pods by the values of labels."""
    weight_priority: list[WeightPriorityTerm] | None = None
    """Orders pods by weights."""


class ScatterTerm(Typed, frozen=True, kw_only=True):
    """Pods with this label are spread over the whole rollout instead of being updated one after another."""

    key: str
    """Key of the label."""
    value: Annotated[str, schema(required=True)] = ""
    """Value of the label. Admission sets a missing value to the empty string."""
