"""The Advanced StatefulSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ StatefulSet ──▶ snapshot, plan; the same types ──▶ kind.py (the schema)

Names, optional fields and defaults are those of the API. A default in this module is the value that the controller
uses when the field is absent. Templates are untyped JSON.
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
from pykruise.pods.workload.claims import read_template_name
from pykruise.pods.workload.spec import SpecWithPolicy

ADVANCED_STATEFUL_SETS: Final = Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet")


class ManagementPolicy(StrEnum):
    """Strategy for creating and deleting pods."""

    ORDERED_READY = "OrderedReady"
    PARALLEL = "Parallel"


class Retention(StrEnum):
    """Policy for claims whose pod or set is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class ClaimUpdateType(StrEnum):
    """Effect of changed claim templates on existing claims."""

    ON_DELETE = "OnDelete"
    ON_POD_ROLLING_UPDATE = "OnPodRollingUpdate"


class UnorderedUpdate(Typed, frozen=True, kw_only=True):
    """Updates pods in an order that does not depend on their ordinals. It requires Parallel pod management."""

    priority_strategy: PriorityStrategy | None = None


class RollingUpdate(Typed, frozen=True, kw_only=True):
    """Parameters of a rolling update."""

    in_place_update_strategy: InPlaceUpdateStrategy | None = None
    max_unavailable: IntOrString | None = None
    """Maximum number of pods that may be unavailable while updating, as a number or a percentage of replicas; 1 by
    default. A value above 1 requires Parallel pod management.
    """
    min_ready_seconds: Int32 | None = None
    """Seconds that a pod must be ready before it counts as available, from 0 to 300; 0 by default."""
    partition: Int32 | None = None
    """Number of pods that stay at the current revision; 0 by default."""
    paused: bool = False
    """Whether updates are paused. Scaling continues."""
    pod_update_policy: str = ""
    """ReCreate (the default), InPlaceIfPossible or InPlaceOnly. The latter two require the readiness gate
    InPlaceUpdateReady in the template.
    """
    unordered_update: UnorderedUpdate | None = None


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for updating pods."""

    rolling_update: RollingUpdate | None = None
    type: str = ""
    """RollingUpdate (the default), or OnDelete: pods change only when they are deleted manually."""


class ScaleStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for creating and deleting pods."""

    max_unavailable: IntOrString | None = None
    """Maximum number of pods that may be unavailable while pods are created or repaired, as a number or a percentage
    of replicas; no limit by default.
    """


class ClaimRetentionPolicy(Typed, frozen=True, kw_only=True):
    """Policy for claims when their pod or the set is deleted."""

    when_deleted: str = ""
    """Policy for claims when the set is deleted: Retain (the default) or Delete."""
    when_scaled: str = ""
    """Policy for claims of surplus pods when the set is scaled in: Retain (the default) or Delete."""


class ClaimUpdateStrategy(Typed, frozen=True, kw_only=True):
    """Effect of changed claim templates on existing claims."""

    type: str = ""
    """OnDelete (the default): only claims created later follow the templates. OnPodRollingUpdate: claims are expanded
    pod by pod during the update.
    """


class Ordinals(Typed, frozen=True, kw_only=True):
    """Ordinals of the pods."""

    start: Int32 = 0
    """Ordinal of the first pod."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    pod_management_policy: str = ""
    """OrderedReady (the default) creates and deletes pods sequentially. Parallel handles all pods at the same time.
    Immutable.
    """
    replicas: Int32 | None = None
    """Number of pods; 1 by default."""
    revision_history_limit: Int32 | None = None
    """Number of older revisions to keep; 10 by default."""
    selector: Selector
    """Label selector for the pods. It is immutable and must match the labels of the template."""
    service_name: str = ""
    """Headless service that gives the pods their DNS names. Immutable."""
    template: PodTemplate
    """Template of the pods, as a core/v1 PodTemplateSpec."""
    update_strategy: UpdateStrategy | None = None
    volume_claim_templates: ClaimTemplates | None = None
    """Templates of the claims that each pod gets, as a list of core/v1 PersistentVolumeClaim."""


class StatefulSetSpec(CommonSpec, SpecWithPolicy[RollingUpdate], frozen=True, kw_only=True):
    """Desired state of the StatefulSet."""

    lifecycle: Lifecycle | None = None
    ordinals: Ordinals | None = None
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None
    reserve_ordinals: list[IntOrString] | None = None
    """Ordinals that no pod gets: single numbers, and ranges as text such as 5-8."""
    scale_strategy: ScaleStrategy | None = None
    volume_claim_update_strategy: ClaimUpdateStrategy | None = None

    @property
    def is_parallel(self) -> bool:
        """Whether pods are created and deleted at the same time instead of sequentially."""
        return self.pod_management_policy == ManagementPolicy.PARALLEL

    @property
    def is_unordered(self) -> bool:
        """Whether the update order does not depend on ordinals."""
        return self.rolling_update is not None and self.rolling_update.unordered_update is not None

    @property
    def claim_names(self) -> list[str]:
        """Names of the claim templates, in the order of the spec."""
        return [read_template_name(template) for template in self.volume_claim_templates or ()]


class ClaimStatus(Typed, frozen=True, kw_only=True):
    """Number of pods whose claims follow a certain claim template."""

    compatible_ready_replicas: Count
    """Number of pods whose claim follows the template and has reached its requested size."""
    compatible_replicas: Count
    """Number of pods whose claim follows the template."""
    volume_claim_name: str
    """Name of the claim template."""


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have."""

    available_replicas: Count = 0
    """Number of pods that have been ready for minReadySeconds."""
    collision_count: Int32 | None = None
    """Number of times that the name of a revision was already taken."""
    conditions: list[PlainCondition] | None = None
    """Aspects of the state: FailedCreatePod, FailedUpdatePod, Waiting, SelectorMismatch."""
    current_replicas: Count = 0
    """Number of pods at the current revision."""
    current_revision: str = ""
    """Revision of the pods before the update."""
    label_selector: str = ""
    """Selector as a string, for autoscalers."""
    observed_generation: Int64 = 0
    """The metadata.generation for which this status was computed."""
    ready_replicas: Count = 0
    """Number of pods that are ready."""
    replicas: Count = 0
    """Number of pods."""
    update_revision: str = ""
    """Revision to which pods are updated."""
    updated_replicas: Count = 0
    """Number of pods at the update revision."""


class StatefulSetStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the StatefulSet."""

    updated_available_replicas: Int32 = 0
    """Number of pods at the update revision that are available."""
    updated_ready_replicas: Int32 = 0
    """Number of pods at the update revision that are ready."""
    volume_claims: list[ClaimStatus] | None = None
    """Number of pods whose claims follow each claim template, in the order of the templates."""


class StatefulSet(ApiObject, frozen=True, kw_only=True):
    """Pods with their own ordinals, names and claims. Updates can run in parallel, in place, or in an order that you
    choose.
    """

    api_version: str = ADVANCED_STATEFUL_SETS.api_version
    kind: str = ADVANCED_STATEFUL_SETS.kind
    spec: StatefulSetSpec
    status: StatefulSetStatus | None = None
