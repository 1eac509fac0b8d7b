"""The Advanced DaemonSet in its hub version, v1beta1: every field, typed; and the constants that only v1alpha1 has.

JSON of the API server ──▶ DaemonSet ──▶ snapshot, plan; the same types ──▶ kind.py (the schema)

Names and optional fields are those of the API. A default in this module is the value that the controller uses if the
field is absent. The defaults that admission writes into new objects are in defaults.py. The template is untyped JSON,
so fields of newer Kubernetes versions are preserved.
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
from pykruise.pods.api import PodTemplate
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.pods.workload.spec import RollingSpec

DAEMON_SETS: Final = Resource("apps.kruise.io", "v1beta1", "daemonsets", "DaemonSet")

DEFAULT_BURST: Final = 250


class RollingUpdateType(StrEnum):
    """Method by which a rolling update changes the pod of a node."""

    STANDARD = "Standard"
    """The pod is recreated. With maxSurge, the old pod is deleted after the new pod is available, otherwise before the
    new pod is created.
    """
    IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"


SURGING: Final = "Surging"
"""Type that only v1alpha1 has: Standard with maxSurge 1."""


class ScaleStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for creating pods on nodes."""

    partitioned_scaling: bool = False
    """Whether the partition also limits the creation of pods on new nodes."""


class RollingUpdate(Typed, frozen=True, kw_only=True):
    """Parameters of a rolling update."""

    max_surge: IntOrString | None = None
    """Maximum number of nodes that can have a new and an old pod at the same time during an update, as a number or a
    percentage of the nodes that should run a pod, rounded up.
    """
    max_unavailable: IntOrString | None = None
    """Maximum number of nodes whose pod can be unavailable during an update, as a number or a percentage of the nodes
    that should run a pod, rounded up. Defaults to 1 if maxSurge is absent too.
    """
    partition: IntOrString | None = None
    """Number of nodes that keep older revisions, as a number or a percentage of the nodes that should run a pod,
    rounded down.
    """
    paused: bool = False
    """Whether updates are paused. Pods are still created on nodes and deleted from nodes."""
    rolling_update_type: str = ""
    """Standard (recreate the pod) or InPlaceIfPossible."""
    selector: Selector | None = None
    """Label selector for nodes. Only pods on matching nodes are updated."""


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for updating pods."""

    rolling_update: RollingUpdate | None = None
    type: str = ""
    """RollingUpdate (the default), or OnDelete: a node gets a pod of the new template only after its pod is deleted
    manually.
    """


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    burst_replicas: IntOrString | None = None
    """Maximum number of pods created at the same time. The same limit applies separately to deletions and to in-place
    updates. Defaults to 250.
    """
    lifecycle: Lifecycle | None = None
    """Lifecycle hooks. Only preDelete has an effect."""
    min_ready_seconds: Int32 = 0
    """Seconds that a pod must be ready before it counts as available."""
    revision_history_limit: Int32 = 10
    """Number of older revisions to keep; 10 by default."""
    selector: Selector
    """Label selector for the pods. It is immutable and must match the labels of the template."""
    template: PodTemplate
    """Template of the pod on each node, as a core/v1 PodTemplateSpec."""
    update_strategy: UpdateStrategy | None = None
    """Strategy for updating pods."""


class DaemonSetSpec(CommonSpec, RollingSpec[RollingUpdate], frozen=True, kw_only=True):
    """Desired state of the DaemonSet."""

    scale_strategy: ScaleStrategy | None = None

    @property
    def policy(self) -> str:
        """The `RollingUpdateType`. Empty means Standard."""
        return self.rolling_update.rolling_update_type if self.rolling_update else ""

    @property
    def is_in_place(self) -> bool:
        """Whether pods are updated in place if possible."""
        return self.policy == RollingUpdateType.IN_PLACE_IF_POSSIBLE

    @property
    def scales_partitioned(self) -> bool:
        """Whether the partition also limits the creation of pods on new nodes."""
        return self.scale_strategy is not None and self.scale_strategy.partitioned_scaling


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have. All counts are numbers of nodes."""

    collision_count: Int32 | None = None
    """Number of times that the name of a new revision was already used by another revision."""
    conditions: list[PlainCondition] | None = None
    """Conditions of the DaemonSet. SelectorMismatch: spec.selector was changed without admission, so the controller
    does nothing. Waiting: why nodes do not have the pods that the spec describes, and what a person can do.
    """
    current_number_scheduled: Count = 0
    """Number of nodes that should run a pod and have one."""
    desired_number_scheduled: Count = 0
    """Number of nodes that should run a pod."""
    number_available: Int32 = 0
    """Number of nodes that should run a pod and whose pod has been ready for minReadySeconds."""
    number_misscheduled: Count = 0
    """Number of nodes that have a pod but should not run one."""
    number_ready: Count = 0
    """Number of nodes that should run a pod and whose pod is ready."""
    number_unavailable: Int32 = 0
    """Number of nodes that should run a pod and have no available pod."""
    observed_generation: Int64 = 0
    """The metadata.generation that the controller observed last."""
    updated_number_scheduled: Count = 0
    """Number of nodes that should run a pod and whose pod has the newest revision."""


class DaemonSetStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the DaemonSet. All counts are numbers of nodes."""

    update_revision: str = ""
    """Hash of the newest revision, as in the labels of the pods."""


class DaemonSet(ApiObject, frozen=True, kw_only=True):
    """Runs one pod on every matching node. Pods are updated in place, or recreated, with or without surge."""

    api_version: str = DAEMON_SETS.api_version
    kind: str = DAEMON_SETS.kind
    spec: DaemonSetSpec
    status: DaemonSetStatus | None = None
