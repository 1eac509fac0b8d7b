"""Parts of API objects that several of our kinds share.

kinds/<kind>/types.py ──▶ these; kube/schemas/types.py has Kubernetes' own
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pykruise.kube.schemas.crds import merged_like, schema
from pykruise.kube.schemas.types import Int32, IntOrString, Selector, Typed

PodTemplate = Annotated[dict[str, Any], merged_like("io.k8s.api.core.v1.PodTemplateSpec")]
"""A `core/v1 PodTemplateSpec`, kept as it is; server-side apply merges its lists as those of a Deployment."""
ClaimTemplates = Annotated[list[dict[str, Any]], schema(any_object=True)]
"""A list of `core/v1 PersistentVolumeClaim`, kept as it is."""


class UpdateType(StrEnum):
    """When pods are updated."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_DELETE = "OnDelete"


class PodUpdatePolicy(StrEnum):
    """How a pod gets to another revision."""

    RECREATE = "ReCreate"
    IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"
    IN_PLACE_ONLY = "InPlaceOnly"


IN_PLACE_POLICIES: Final = (PodUpdatePolicy.IN_PLACE_IF_POSSIBLE, PodUpdatePolicy.IN_PLACE_ONLY)
"""Policies under which pods are changed rather than recreated."""


class InPlaceUpdateStrategy(Typed, frozen=True, kw_only=True):
    """Settings of updates in place."""

    grace_period_seconds: Int32 = 0
    """Seconds between taking a pod out of service and changing its containers."""
    image_pre_download_min_updated_ready_pods: Int32 | None = None
    """Updated and ready pods that there must be before the new images are pulled to the other nodes."""
    image_pre_download_parallelism: IntOrString | None = None
    """Nodes that pull at the same time; 1 by default, a number as text is accepted."""
    image_pre_download_timeout_seconds: Int32 | None = None
    """Seconds that one pull may take."""


class OrderPriorityTerm(Typed, frozen=True, kw_only=True):
    """Pods that carry the label go by the number at the end of its value, the greatest first."""

    ordered_key: str
    """Key of the label."""


class WeightPriorityTerm(Typed, frozen=True, kw_only=True):
    """Pods that match weigh this much more; the heaviest go first."""

    match_selector: Selector
    """The pods."""
    weight: Int32
    """From 0 to 100."""


class PriorityStrategy(Typed, frozen=True, kw_only=True):
    """Which pods are updated first. Only one of the lists may be used."""

    order_priority: list[OrderPriorityTerm] | None = None
    """Order by the values of labels."""
    weight_priority: list[WeightPriorityTerm] | None = None
    """Order by weights."""


class ScatterTerm(Typed, frozen=True, kw_only=True):
    """Pods with this label are spread over the whole rollout instead of following each other."""

    key: str
    """Key of the label."""
    value: Annotated[str, schema(required=True)] = ""
    """Value of the label. Admission adds a missing one as empty."""
