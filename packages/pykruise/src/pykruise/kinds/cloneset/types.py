"""The CloneSet kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ CloneSet ──▶ snapshot, plan; the same types ──▶ kind.py (the schema)

Names and optional fields are those of the API. A default in this module is the value that the controller uses if the
field is absent. The defaults that admission writes into new objects are in defaults.py. Templates are untyped JSON, so
fields of newer Kubernetes versions are preserved.
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
"""Value of `progressDeadlineSeconds` for "no deadline"."""

DEFAULT_MAX_UNAVAILABLE: Final = "20%"

SchemaFalse = Annotated[bool, schema(default=False)]
"""False. The API server writes this default into the object."""


class CommonScaleStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for scaling: the fields that all versions have."""

    max_unavailable: IntOrString | None = None
    """Maximum number of pods that can be unavailable while pods are created, as a number or a percentage of replicas;
    no limit by default.
    """
    pods_to_delete: list[str] | None = None
    """Names of pods to delete before any surplus pod. The controller removes the names of pods that no longer exist."""


class ScaleStrategy(CommonScaleStrategy, frozen=True, kw_only=True):
    """Strategy for creating and deleting pods."""

    enable_pvc_reuse: SchemaFalse = msgspec.field(name="enablePVCReuse", default=False)
    """Whether a new pod takes over the PersistentVolumeClaims and the instance id of a manually deleted pod."""
    exclude_preparing_delete: bool = False
    """Whether pods that wait for a preDelete hook before their deletion no longer count as pods of the CloneSet."""


class CommonRollingUpdate(Typed, frozen=True, kw_only=True):
    """Parameters of a rolling update: the fields that all versions have."""

    in_place_update_strategy: InPlaceUpdateStrategy | None = None
    max_surge: IntOrString | None = None
    """Maximum number of pods above replicas during an update, as a number or a percentage of replicas, rounded up; 0 by
    default.
    """
    max_unavailable: IntOrString | None = None
    """Maximum number of pods that can be unavailable during an update, as a number or a percentage of replicas; 20% by
    default.
    """
    partition: IntOrString | None = None
    """Number of pods that keep older revisions, as a number or a percentage of replicas; 0 by default."""
    paused: bool = False
    """Whether updates are paused. Pods are still created and deleted for scaling."""
    priority_strategy: PriorityStrategy | None = None
    scatter_strategy: list[ScatterTerm] | None = None
    """Labels of pods. Pods with one of these labels are not updated one after the other, but spread over the
    rollout.
    """


class RollingUpdate(CommonRollingUpdate, frozen=True, kw_only=True):
    """Parameters of a rolling update."""

    pod_update_policy: str = ""
    """ReCreate (the default), InPlaceIfPossible or InPlaceOnly."""


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for updating pods."""

    rolling_update: RollingUpdate | None = None
    type: str = ""
    """RollingUpdate (the default), or OnDelete: a pod gets the new template only after it is deleted manually."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    lifecycle: Lifecycle | None = None
    min_ready_seconds: Int32 = 0
    """Seconds that a pod must be ready before it counts as available."""
    progress_deadline_seconds: Int32 | None = None
    """Seconds without progress after which the rollout counts as failed. If absent or 2147483647, there is no
    deadline.
    """
    replicas: Int32 = 1
    """Number of pods; 1 by default."""
    revision_history_limit: Int32 = 10
    """Number of older revisions to keep; 10 by default."""
    selector: Selector
    """Label selector for the pods. It is immutable and must match the labels of the template."""
    template: PodTemplate
    """Template of the pods, as a core/v1 PodTemplateSpec."""
    volume_claim_templates: ClaimTemplates | None = None
    """Templates of the PersistentVolumeClaims that each pod gets, as a list of core/v1 PersistentVolumeClaim."""


class CloneSetSpec(CommonSpec, SpecWithPolicy[RollingUpdate], frozen=True, kw_only=True):
    """Desired state of the CloneSet."""

    scale_strategy: ScaleStrategy | None = None
    update_strategy: UpdateStrategy | None = None

    @property
    def rolling_update(self) -> RollingUpdate | None:
        """The field `rollingUpdate` if present (also under OnDelete)."""
        return self.update_strategy.rolling_update if self.update_strategy else None

    @property
    def reuses_claims(self) -> bool:
        """Whether a new pod takes over the PersistentVolumeClaims and the instance id of a manually deleted pod."""
        return self.scale_strategy is not None and self.scale_strategy.enable_pvc_reuse


class CloneSetCondition(PlainCondition, frozen=True, kw_only=True):
    """A condition of the CloneSet, such as Progressing, FailedScale or FailedUpdate."""

    last_update_time: Time | None = None
    """Time of the last write of the condition."""


class CloneSetStatus(Status, frozen=True, kw_only=True):
    """Observed state of the CloneSet. Finished and terminating pods are not counted."""

    available_replicas: Count = 0
    """Number of pods that have been ready for minReadySeconds."""
    collision_count: Int32 | None = None
    """Number of times that the name of a new revision was already used by another revision."""
    conditions: list[CloneSetCondition] | None = None
    """Conditions of the CloneSet, one of each type."""
    current_revision: str = ""
    """Revision of the pods before the update."""
    expected_updated_replicas: Int32 = 0
    """Number of pods that should have the update revision: replicas minus the partition."""
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
    updated_available_replicas: Int32 = 0
    """Number of pods at the update revision that are available."""
    updated_ready_replicas: Count = 0
    """Number of pods at the update revision that are ready."""
    updated_replicas: Count = 0
    """Number of pods at the update revision."""

    def to_document(self) -> Document:
        """Return the status to write. expectedUpdatedReplicas is always present, because Argo CD's script for CloneSets
        fails if this field is absent.
        """
        return {"expectedUpdatedReplicas": 0, **super().to_document()}


class CloneSet(ApiObject, frozen=True, kw_only=True):
    """A set of interchangeable pods. The user can choose which pods a scale-in deletes. Updates recreate pods or update
    them in place.
    """

    api_version: str = CLONE_SETS.api_version
    kind: str = CLONE_SETS.kind
    spec: CloneSetSpec
    status: CloneSetStatus | None = None
