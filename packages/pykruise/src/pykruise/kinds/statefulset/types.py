"""The Advanced StatefulSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ StatefulSet ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)

Names, optional fields and defaults are those of the API. A default here is what the absence of the field
means. Templates stay documents.
"""

from enum import StrEnum
from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import (
    ApiObject,
    Count,
    Int32,
    Int64,
    IntOrString,
    PlainCondition,
    Selector,
    Status,
    Typed,
)
from pykruise.pods.api import (
    ClaimTemplates,
    InPlaceUpdateStrategy,
    PodTemplate,
    PriorityStrategy,
)
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.workload.claims import template_name
from pykruise.pods.workload.spec import SpecWithPolicy

ADVANCED_STATEFUL_SETS: Final = Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet")


class ManagementPolicy(StrEnum):
    """How pods come and go."""

    ORDERED_READY = "OrderedReady"
    PARALLEL = "Parallel"


class Retention(StrEnum):
    """Treatment of claims."""

    RETAIN = "Retain"
    DELETE = "Delete"


class ClaimUpdateType(StrEnum):
    """Effect of changed claim templates on existing claims."""

    ON_DELETE = "OnDelete"
    ON_POD_ROLLING_UPDATE = "OnPodRollingUpdate"


class UnorderedUpdate(Typed, frozen=True, kw_only=True):
    """Updates pods in another order than from the highest ordinal down; needs Parallel pod management."""

    priority_strategy: PriorityStrategy | None = None


class RollingUpdate(Typed, frozen=True, kw_only=True):
    """How a rolling update goes."""

    in_place_update_strategy: InPlaceUpdateStrategy | None = None
    max_unavailable: IntOrString | None = None
    """Pods that may be unavailable while updating, as a number or a share of replicas; 1 by default. More than
    1 needs Parallel pod management."""
    min_ready_seconds: Int32 | None = None
    """Seconds that a pod must be ready before it counts as available, from 0 to 300; 0 by default."""
    partition: Int32 | None = None
    """Number of pods that stay at the current revision; 0 by default."""
    paused: bool = False
    """Whether updating is stopped; scaling goes on."""
    pod_update_policy: str = ""
    """ReCreate (the default), InPlaceIfPossible or InPlaceOnly. The latter two need the readiness gate
    InPlaceUpdateReady in the template."""
    unordered_update: UnorderedUpdate | None = None


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """When and how pods are updated."""

    rolling_update: RollingUpdate | None = None
    type: str = ""
    """RollingUpdate (the default), or OnDelete: pods change only when they are deleted by hand."""


class ScaleStrategy(Typed, frozen=True, kw_only=True):
    """How pods come and go."""

    max_unavailable: IntOrString | None = None
    """Pods that may be unavailable while pods are created or repaired, as a number or a share of replicas; no
    limit by default."""


class ClaimRetentionPolicy(Typed, frozen=True, kw_only=True):
    """Treatment of claims when their pod or the set is deleted."""

    when_deleted: str = ""
    """Retain (the default) or Delete, when the set is deleted."""
    when_scaled: str = ""
    """Retain (the default) or Delete, when the set shrinks."""


class ClaimUpdateStrategy(Typed, frozen=True, kw_only=True):
    """Effect of changed claim templates on existing claims."""

    type: str = ""
    """OnDelete (the default): only claims made later follow. OnPodRollingUpdate: claims are expanded pod by pod
    with the update."""


class Ordinals(Typed, frozen=True, kw_only=True):
    """The numbers of the pods."""

    start: Int32 = 0
    """Number of the first pod."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    pod_management_policy: str = ""
    """OrderedReady (the default): one pod after the other. Parallel: all at once. Cannot be changed."""
    replicas: Int32 | None = None
    """Number of pods; 1 by default."""
    revision_history_limit: Int32 | None = None
    """Older revisions that are kept; 10 by default."""
    selector: Selector
    """Labels of the pods. Cannot be changed, and must match the labels of the template."""
    service_name: str = ""
    """Headless service that gives the pods their names in DNS. Cannot be changed."""
    template: PodTemplate
    """The pods, as a core/v1 PodTemplateSpec."""
    update_strategy: UpdateStrategy | None = None
    volume_claim_templates: ClaimTemplates | None = None
    """Claims that each pod gets of its own, as a list of core/v1 PersistentVolumeClaim."""


class StatefulSetSpec(CommonSpec, SpecWithPolicy[RollingUpdate], frozen=True, kw_only=True):
    """Desired state of the StatefulSet."""

    lifecycle: Lifecycle | None = None
    ordinals: Ordinals | None = None
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None
    reserve_ordinals: list[IntOrString] | None = None
    """Numbers that no pod gets: single ones, and ranges as text such as 5-8."""
    scale_strategy: ScaleStrategy | None = None
    volume_claim_update_strategy: ClaimUpdateStrategy | None = None

    @property
    def is_parallel(self) -> bool:
        """Whether pods come and go all at once; else one after the other."""
        return self.pod_management_policy == ManagementPolicy.PARALLEL

    @property
    def is_unordered(self) -> bool:
        """Whether priorities, and not ordinals, say who is updated first."""
        return self.rolling_update is not None and self.rolling_update.unordered_update is not None

    @property
    def claim_names(self) -> list[str]:
        """Names of the claim templates, in their order."""
        return [template_name(template) for template in self.volume_claim_templates or ()]


class ClaimStatus(Typed, frozen=True, kw_only=True):
    """How far claims follow one of the claim templates."""

    compatible_ready_replicas: Count
    """Pods whose claim follows the template and has the size it asks for."""
    compatible_replicas: Count
    """Pods whose claim follows the template."""
    volume_claim_name: str
    """Name of the claim template."""


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have."""

    available_replicas: Count = 0
    """Pods that have been ready for minReadySeconds."""
    collision_count: Int32 | None = None
    """How often the name of a revision was already taken."""
    conditions: list[PlainCondition] | None = None
    """Aspects of the state: FailedCreatePod, FailedUpdatePod, Waiting, SelectorMismatch."""
    current_replicas: Count = 0
    """Pods at the current revision."""
    current_revision: str = ""
    """Revision that pods were at before the update."""
    label_selector: str = ""
    """The selector as text, for autoscalers."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    ready_replicas: Count = 0
    """Pods that are ready."""
    replicas: Count = 0
    """Pods that there are."""
    update_revision: str = ""
    """Revision that pods are updated to."""
    updated_replicas: Count = 0
    """Pods at the update revision."""


class StatefulSetStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the StatefulSet."""

    updated_available_replicas: Int32 = 0
    """Pods at the update revision that are available."""
    updated_ready_replicas: Int32 = 0
    """Pods at the update revision that are ready."""
    volume_claims: list[ClaimStatus] | None = None
    """How far claims follow the claim templates, in their order."""


class StatefulSet(ApiObject, frozen=True, kw_only=True):
    """Pods with numbers, names and claims of their own: updated in parallel, in place or in an order of choice."""

    api_version: str = ADVANCED_STATEFUL_SETS.api_version
    kind: str = ADVANCED_STATEFUL_SETS.kind
    spec: StatefulSetSpec
    status: StatefulSetStatus | None = None
