"""The UnitedDeployment kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ UnitedDeployment ──▶ snapshot, plan; the same types ──▶ kind.py (the schema)

Workload specs and patches are untyped JSON: their types are those of other kinds, and kind.py adds the schemas.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from pykruise.kinds.uniteddeployment.allocation import Mode
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import (
    AnyObject,
    ApiObject,
    Count,
    Int32,
    Int64,
    IntOrString,
    NodeSelector,
    PlainCondition,
    Selector,
    Status,
    Time,
    Toleration,
    Typed,
)

UNITED_DEPLOYMENTS: Final = Resource("apps.kruise.io", "v1beta1", "uniteddeployments", "UnitedDeployment")

ADAPTIVE: Final = "Adaptive"
"""Type of the schedule strategy with which other subsets replace pods that find no node."""

MANUAL: Final = "Manual"
"""Type of the update strategy, the only one that admission admits."""

DEFAULT_CRITICAL_S: Final = 30
DEFAULT_UNSCHEDULABLE_S: Final = 300


class WorkloadTemplate(Typed, frozen=True, kw_only=True):
    """Template of the workload of each subset."""

    metadata: AnyObject | None = None
    """Labels and annotations of the workloads."""
    spec: AnyObject
    """Spec of the workloads, without replicas and partition."""


class WorkloadTemplates(Typed, frozen=True, kw_only=True):
    """Template of the workload of each subset. Exactly one template must be set."""

    advanced_stateful_set_template: WorkloadTemplate | None = None
    """A StatefulSet of apps.kruise.io/v1beta1."""
    clone_set_template: WorkloadTemplate | None = None
    """A CloneSet of apps.kruise.io/v1beta1."""
    deployment_template: WorkloadTemplate | None = None
    """A Deployment of apps/v1."""
    stateful_set_template: WorkloadTemplate | None = None
    """A StatefulSet of apps/v1."""


class Subset(Typed, frozen=True, kw_only=True):
    """A group of nodes that runs a part of the pods."""

    max_replicas: IntOrString | None = None
    """Maximum number of pods in the subset, as a number or a percentage of replicas; unlimited by default."""
    min_replicas: IntOrString | None = None
    """Minimum number of pods in the subset, as a number or a percentage of replicas; 0 by default. Every subset gets
    its minimum, in the order of the list, before any subset gets more.
    """
    name: str
    """Name of the subset. It is part of the name of the subset's workload."""
    node_selector_term: NodeSelector | None = None
    """Nodes on which pods of the subset must run. Immutable."""
    patch: AnyObject | None = None
    """A strategic merge patch for the pod template of the subset."""
    replicas: IntOrString | None = None
    """Number of pods in the subset, as a number or a percentage of replicas. Must not be combined with minReplicas or
    maxReplicas.
    """
    tolerations: list[Toleration] | None = None
    """Tolerations that are added to the pods of the subset. Immutable."""


class AdaptiveStrategy(Typed, frozen=True, kw_only=True):
    """Policy for pods for which the scheduler finds no node in their subset."""

    reschedule_critical_seconds: Int32 | None = None
    """Seconds after which a pod without a node counts as unschedulable; 30 by default."""
    reserve_unschedulable_pods: bool = False
    """Whether unschedulable pods are kept as reserved pods while other subsets replace them."""
    unschedulable_duration: Int32 | None = None
    """Seconds during which a subset with unschedulable pods gets no more pods; 300 by default. With reserved pods:
    seconds that a reserved pod must be ready before it counts again.
    """


class ScheduleStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for pods that find no node in their subset."""

    adaptive: AdaptiveStrategy | None = None
    type: Annotated[str, schema(enum=("Adaptive", "Fixed", ""))] = ""
    """Fixed (the default): each subset keeps its pods. Adaptive: other subsets replace pods for which there is no
    node.
    """


class Topology(Typed, frozen=True, kw_only=True):
    """The subsets, and the division of the pods among them."""

    schedule_strategy: ScheduleStrategy | None = None
    subsets: list[Subset] | None = None
    """Ordered groups of nodes."""


class ManualUpdate(Typed, frozen=True, kw_only=True):
    """Progress of the update that is allowed in each subset."""

    partitions: dict[str, Int32] | None = None
    """Number of pods that stay at the older revision, by subset; 0 by default."""


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for updating the workloads."""

    manual_update: ManualUpdate | None = None
    type: Annotated[str, schema(enum=("Manual", ""))] = ""
    """Manual is the only type."""


class UnitedDeploymentSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the UnitedDeployment."""

    replicas: Int32 | None = None
    """Total number of pods in all subsets; 1 by default."""
    revision_history_limit: Int32 | None = None
    """Number of older revisions to keep; 10 by default."""
    selector: Selector
    """Label selector for the workloads. It must match the labels of the template."""
    template: WorkloadTemplates | None = None
    topology: Topology | None = None
    update_strategy: UpdateStrategy | None = None

    @property
    def subsets(self) -> Sequence[Subset]:
        """The subsets in the order of the spec."""
        return (self.topology.subsets or ()) if self.topology is not None else ()

    @property
    def schedule_strategy(self) -> ScheduleStrategy:
        """The strategy for pods that find no node; the default strategy if the spec has none."""
        return (self.topology.schedule_strategy if self.topology is not None else None) or ScheduleStrategy()

    @property
    def mode(self) -> Mode:
        """Mode in which pods that find no node are handled."""
        strategy = self.schedule_strategy
        if strategy.type != ADAPTIVE:
            return Mode.FIXED
        if strategy.adaptive is not None and strategy.adaptive.reserve_unschedulable_pods:
            return Mode.RESERVE
        return Mode.FIXED if self._has_fixed_numbers else Mode.ADAPTIVE

    @property
    def _has_fixed_numbers(self) -> bool:
        """Whether a subset has replicas, and no subset has bounds. Admission rejects such a spec with the type
        Adaptive. OpenKruise 1.8 admits it, and divides the pods as with the type Fixed.
        """
        bounds = any(item.min_replicas is not None or item.max_replicas is not None for item in self.subsets)
        return not bounds and any(item.replicas is not None for item in self.subsets)

    @property
    def critical_s(self) -> int:
        """Seconds after which a pod without a node counts as unschedulable; a negative value counts as 0."""
        adaptive = self.schedule_strategy.adaptive or AdaptiveStrategy()
        given = adaptive.reschedule_critical_seconds
        return max(DEFAULT_CRITICAL_S if given is None else given, 0)

    @property
    def unschedulable_s(self) -> int:
        """Seconds during which an unschedulable subset gets no pods; in reserve mode, seconds that a reserved pod
        must be ready.
        """
        adaptive = self.schedule_strategy.adaptive or AdaptiveStrategy()
        given = adaptive.unschedulable_duration
        return max(DEFAULT_UNSCHEDULABLE_S if given is None else given, 0)

    def partition_of(self, subset: str) -> int:
        """Number of pods of the subset that stay at older revisions; a negative value counts as 0. A type that is not
        Manual has no partitions.
        """
        strategy = self.update_strategy or UpdateStrategy()
        manual = strategy.manual_update if strategy.type in ("", MANUAL) else None
        partitions = (manual.partitions or {}) if manual is not None else {}
        return max(partitions.get(subset, 0), 0)


class UnitedDeploymentCondition(Typed, frozen=True, kw_only=True):
    """An aspect of the state."""

    last_transition_time: Time | None = None
    """Time of the last change of the status."""
    message: str = ""
    """Human-readable details."""
    reason: str = ""
    """Machine-readable reason, in one word."""
    status: str = ""
    """True, False or Unknown."""
    type: str = ""
    """Type of the condition."""


class SubsetStatus(Typed, frozen=True, kw_only=True):
    """Observed state of a subset."""

    conditions: list[PlainCondition] | None = None
    """Aspects of the state; Schedulable is the only one."""
    name: str = ""
    """Name of the subset."""
    partition: Int32 = 0
    """Number of pods that stay at the older revision."""
    ready_replicas: Int32 = 0
    """Number of pods that are ready."""
    replicas: Int32 = 0
    """Desired number of pods of the subset's workload."""
    reserved_pods: Int32 = 0
    """Number of reserved pods."""


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have."""

    collision_count: Int32 | None = None
    """Number of times that the name of a revision was already taken."""
    conditions: list[UnitedDeploymentCondition] | None = None
    """Aspects of the state."""
    current_revision: Annotated[str, schema(required=True)] = ""
    """Revision of the workloads before the update."""
    label_selector: str = ""
    """Selector as a string, for autoscalers."""
    observed_generation: Int64 = 0
    """The metadata.generation for which this status was computed."""
    ready_replicas: Int32 = 0
    """Number of pods that are ready."""
    replicas: Count = 0
    """Number of pods, without reserved ones."""
    reserved_pods: Int32 = 0
    """Number of reserved pods."""
    subset_statuses: list[SubsetStatus] | None = None
    """Observed state of each subset."""
    updated_ready_replicas: Int32 = 0
    """Number of pods at the updated revision that are ready."""
    updated_replicas: Count = 0
    """Number of pods at the updated revision."""


class UnitedDeploymentStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the UnitedDeployment."""

    updated_revision: str = ""
    """Revision to which the workloads are updated."""


class UnitedDeployment(ApiObject, frozen=True, kw_only=True):
    """A workload across several groups of nodes: each subset gets its own workload and a share of the pods."""

    api_version: str = UNITED_DEPLOYMENTS.api_version
    kind: str = UNITED_DEPLOYMENTS.kind
    spec: UnitedDeploymentSpec | None = None
    status: UnitedDeploymentStatus | None = None
