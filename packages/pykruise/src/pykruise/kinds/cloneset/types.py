"""The CloneSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ CloneSet ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)

Names, optional fields and defaults are those of the API. A default here is what the absence of the field
means to the controller; what admission writes into new objects is in defaults.py. Templates stay documents,
so that fields of a newer Kubernetes survive.
"""

from typing import Annotated, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import (
    ApiObject,
    Count,
    Int32,
    Int64,
    IntOrString,
    PlainCondition,
    Selector,
    Status,
    Time,
    Typed,
)
from pykruise.pods.api import (
    ClaimTemplates,
    InPlaceUpdateStrategy,
    PodTemplate,
    PriorityStrategy,
    ScatterTerm,
)
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.workload.spec import SpecWithPolicy

CLONE_SETS: Final = Resource("apps.kruise.io", "v1beta1", "clonesets", "CloneSet")

NO_DEADLINE: Final = 2_147_483_647
"""`progressDeadlineSeconds` of an object that wants no deadline."""

DEFAULT_MAX_UNAVAILABLE: Final = "20%"

SchemaFalse = Annotated[bool, schema(default=False)]
"""False, and the API server writes that into the object."""


class CommonScaleStrategy(Typed, frozen=True, kw_only=True):
    """How pods come and go: the fields that all versions have."""

    max_unavailable: IntOrString | None = None
    """How many pods may be unavailable while the set grows, as a number or a share of replicas; no limit by
    default."""
    pods_to_delete: list[str] | None = None
    """Names of pods to delete before any other. A name is taken off the list when its pod is gone."""


class ScaleStrategy(CommonScaleStrategy, frozen=True, kw_only=True):
    """How pods come and go."""

    enable_pvc_reuse: SchemaFalse = msgspec.field(name="enablePVCReuse", default=False)
    """Whether a new pod takes over the claims, and with them the id, of a pod that was deleted by hand."""
    exclude_preparing_delete: bool = False
    """Whether pods that a preDelete hook holds no longer count as pods of the set."""


class CommonRollingUpdate(Typed, frozen=True, kw_only=True):
    """How a rolling update goes: the fields that all versions have."""

    in_place_update_strategy: InPlaceUpdateStrategy | None = None
    max_surge: IntOrString | None = None
    """Pods above replicas while updating, as a number or a share of replicas, rounded up; 0 by default."""
    max_unavailable: IntOrString | None = None
    """Pods that may be unavailable while updating, as a number or a share of replicas; 20% by default."""
    partition: IntOrString | None = None
    """Pods that stay at older revisions, as a number or a share of replicas; 0 by default."""
    paused: bool = False
    """Whether updating is stopped; scaling goes on."""
    priority_strategy: PriorityStrategy | None = None
    scatter_strategy: list[ScatterTerm] | None = None
    """Pods that are spread over the rollout."""


class RollingUpdate(CommonRollingUpdate, frozen=True, kw_only=True):
    """How a rolling update goes."""

    pod_update_policy: str = ""
    """ReCreate (the default), InPlaceIfPossible or InPlaceOnly."""


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """When and how pods are updated."""

    rolling_update: RollingUpdate | None = None
    type: str = ""
    """RollingUpdate (the default), or OnDelete: pods change only when they are deleted by hand."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    lifecycle: Lifecycle | None = None
    min_ready_seconds: Int32 = 0
    """Seconds that a pod must be ready before it counts as available."""
    progress_deadline_seconds: Int32 | None = None
    """Seconds without progress after which a rollout counts as stuck; 2147483647 or absent means never."""
    replicas: Int32 = 1
    """Number of pods; 1 by default."""
    revision_history_limit: Int32 = 10
    """Older revisions that are kept; 10 by default."""
    selector: Selector
    """Labels of the pods. Cannot be changed, and must match the labels of the template."""
    template: PodTemplate
    """The pods, as a core/v1 PodTemplateSpec."""
    volume_claim_templates: ClaimTemplates | None = None
    """Claims that each pod gets of its own, as a list of core/v1 PersistentVolumeClaim."""


class CloneSetSpec(CommonSpec, SpecWithPolicy[RollingUpdate], frozen=True, kw_only=True):
    """Desired state of the CloneSet."""

    scale_strategy: ScaleStrategy | None = None
    update_strategy: UpdateStrategy | None = None

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The block, when there is one (also under OnDelete)."""
        return self.update_strategy.rolling_update if self.update_strategy else None

    @property
    def reuses_claims(self) -> bool:
        """Whether a new pod takes over the claims, and with them the id, of one that was deleted by hand."""
        return self.scale_strategy is not None and self.scale_strategy.enable_pvc_reuse


class CloneSetCondition(PlainCondition, frozen=True, kw_only=True):
    """One aspect of the state: Progressing, FailedScale or FailedUpdate."""

    last_update_time: Time | None = None
    """When the condition was last written."""


class CloneSetStatus(Status, frozen=True, kw_only=True):
    """Observed state of the CloneSet. Counts are pods that are neither finished nor terminating."""

    available_replicas: Count = 0
    """Pods that have been ready for minReadySeconds."""
    collision_count: Int32 | None = None
    """How often the name of a revision was already taken."""
    conditions: list[CloneSetCondition] | None = None
    """Aspects of the state, one of each type."""
    current_revision: str = ""
    """Revision that pods were at before the update."""
    expected_updated_replicas: Int32 = 0
    """Pods that will be at the update revision when the rollout has gone as far as the partition lets it."""
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
    updated_available_replicas: Int32 = 0
    """Pods at the update revision that are available."""
    updated_ready_replicas: Count = 0
    """Pods at the update revision that are ready."""
    updated_replicas: Count = 0
    """Pods at the update revision."""

    def document(self) -> Document:
        """As it is written. Argo CD's script for CloneSets fails without expectedUpdatedReplicas."""
        return {"expectedUpdatedReplicas": 0, **super().document()}


class CloneSet(ApiObject, frozen=True, kw_only=True):
    """A set of interchangeable pods. You choose which pods a scale-in deletes; updates recreate pods or update them
    in place."""

    api_version: str = CLONE_SETS.api_version
    kind: str = CLONE_SETS.kind
    spec: CloneSetSpec
    status: CloneSetStatus | None = None
