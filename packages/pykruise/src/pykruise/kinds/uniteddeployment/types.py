"""The UnitedDeployment kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ UnitedDeployment ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)

Workload specs and patches stay documents: they are those of other kinds, whose schemas crd.py is given.
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

DEFAULT_CRITICAL_S: Final = 30
DEFAULT_UNSCHEDULABLE_S: Final = 300


class WorkloadTemplate(Typed, frozen=True, kw_only=True):
    """A workload that each subset gets."""

    metadata: AnyObject | None = None
    """Labels and annotations of the workloads."""
    spec: AnyObject
    """Spec of the workloads, without replicas and partition."""


class WorkloadTemplates(Typed, frozen=True, kw_only=True):
    """The workload that each subset gets. Exactly one of the templates must be given."""

    advanced_stateful_set_template: WorkloadTemplate | None = None
    """A StatefulSet of apps.kruise.io/v1beta1."""
    clone_set_template: WorkloadTemplate | None = None
    """A CloneSet of apps.kruise.io/v1beta1."""
    deployment_template: WorkloadTemplate | None = None
    """A Deployment of apps/v1."""
    stateful_set_template: WorkloadTemplate | None = None
    """A StatefulSet of apps/v1."""


class Subset(Typed, frozen=True, kw_only=True):
    """A group of nodes that takes a part of the pods."""

    max_replicas: IntOrString | None = None
    """Most pods it takes, as a number or a share of replicas; any number by default."""
    min_replicas: IntOrString | None = None
    """Pods it gets before others get more, as a number or a share of replicas; 0 by default."""
    name: str
    """Name of the subset, part of the name of its workload."""
    node_selector_term: NodeSelector | None = None
    """Nodes that pods of the subset must be on. Cannot be changed."""
    patch: AnyObject | None = None
    """A strategic merge patch for the pod template of the subset."""
    replicas: IntOrString | None = None
    """Pods it gets, as a number or a share of replicas. Excludes minReplicas and maxReplicas."""
    tolerations: list[Toleration] | None = None
    """Tolerations that pods of the subset get. Cannot be changed."""


class AdaptiveStrategy(Typed, frozen=True, kw_only=True):
    """Policy for pods that find no node in their subset."""

    reschedule_critical_seconds: Int32 | None = None
    """Seconds after which a pod without a node counts as failed; 30 by default."""
    reserve_unschedulable_pods: bool = False
    """Whether such pods are kept in reserve while other subsets stand in for them."""
    unschedulable_duration: Int32 | None = None
    """Seconds for which a subset with such pods gets no more; 300 by default. With pods in reserve: seconds
    that one of them must be ready before it counts."""


class ScheduleStrategy(Typed, frozen=True, kw_only=True):
    """Whether subsets are strict."""

    adaptive: AdaptiveStrategy | None = None
    type: Annotated[str, schema(enum=("Adaptive", "Fixed", ""))] = ""
    """Fixed (the default): each subset keeps its pods. Adaptive: others take those that find no node."""


class Topology(Typed, frozen=True, kw_only=True):
    """The subsets, and how pods are divided among them."""

    schedule_strategy: ScheduleStrategy | None = None
    subsets: list[Subset] | None = None
    """Groups of nodes, in an order."""


class ManualUpdate(Typed, frozen=True, kw_only=True):
    """How far each subset is updated."""

    partitions: dict[str, Int32] | None = None
    """Pods that stay at the older revision, by subset; 0 by default."""


class UpdateStrategy(Typed, frozen=True, kw_only=True):
    """How the workloads are updated."""

    manual_update: ManualUpdate | None = None
    type: Annotated[str, schema(enum=("Manual", ""))] = ""
    """Manual is the only type."""


class UnitedDeploymentSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the UnitedDeployment."""

    replicas: Int32 | None = None
    """Number of pods in all subsets together; 1 by default."""
    revision_history_limit: Int32 | None = None
    """Older revisions that are kept; 10 by default."""
    selector: Selector
    """Labels of the workloads. Must match the labels of the template."""
    template: WorkloadTemplates | None = None
    topology: Topology | None = None
    update_strategy: UpdateStrategy | None = None

    @property
    def subsets(self) -> Sequence[Subset]:
        """The subsets in their order."""
        return (self.topology.subsets or ()) if self.topology is not None else ()

    @property
    def schedule_strategy(self) -> ScheduleStrategy:
        """The strategy for pods that find no node; the default where none is given."""
        return (self.topology.schedule_strategy if self.topology is not None else None) or ScheduleStrategy()

    @property
    def mode(self) -> Mode:
        """How pods that find no node are treated."""
        strategy = self.schedule_strategy
        if strategy.type != "Adaptive":
            return Mode.FIXED
        is_reserving = strategy.adaptive is not None and strategy.adaptive.reserve_unschedulable_pods
        return Mode.RESERVE if is_reserving else Mode.ADAPTIVE

    @property
    def critical_s(self) -> int:
        """Seconds after which a pod without a node counts as failed; below 0 counts as 0."""
        adaptive = self.schedule_strategy.adaptive or AdaptiveStrategy()
        given = adaptive.reschedule_critical_seconds
        return max(DEFAULT_CRITICAL_S if given is None else given, 0)

    @property
    def unschedulable_s(self) -> int:
        """Seconds for which a subset is passed over; in reserve: that a pod must be ready."""
        adaptive = self.schedule_strategy.adaptive or AdaptiveStrategy()
        given = adaptive.unschedulable_duration
        return max(DEFAULT_UNSCHEDULABLE_S if given is None else given, 0)

    def partition_of(self, subset: str) -> int:
        """Pods of the subset that stay at older revisions; below 0 counts as 0."""
        manual = self.update_strategy.manual_update if self.update_strategy is not None else None
        partitions = (manual.partitions or {}) if manual is not None else {}
        return max(partitions.get(subset, 0), 0)


class UnitedDeploymentCondition(Typed, frozen=True, kw_only=True):
    """One aspect of the state."""

    last_transition_time: Time | None = None
    """When the status last changed."""
    message: str = ""
    """Details for people."""
    reason: str = ""
    """Why, in one word for programs."""
    status: str = ""
    """True, False or Unknown."""
    type: str = ""
    """Subject of the condition."""


class SubsetStatus(Typed, frozen=True, kw_only=True):
    """Observed state of a subset."""

    conditions: list[PlainCondition] | None = None
    """Aspects of the state; Schedulable is the only one."""
    name: str = ""
    """Name of the subset."""
    partition: Int32 = 0
    """Pods that stay at the older revision."""
    ready_replicas: Int32 = 0
    """Pods that are ready."""
    replicas: Int32 = 0
    """Pods that its workload is to have."""
    reserved_pods: Int32 = 0
    """Pods in reserve."""


class CommonStatus(Status, frozen=True, kw_only=True):
    """Observed state: the fields that all versions have."""

    collision_count: Int32 | None = None
    """How often the name of a revision was already taken."""
    conditions: list[UnitedDeploymentCondition] | None = None
    """Aspects of the state."""
    current_revision: Annotated[str, schema(required=True)] = ""
    """Revision that the workloads were at before the update."""
    label_selector: str = ""
    """The selector as text, for autoscalers."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    ready_replicas: Int32 = 0
    """Pods that are ready."""
    replicas: Count = 0
    """Pods that there are, without those in reserve."""
    reserved_pods: Int32 = 0
    """Pods in reserve."""
    subset_statuses: list[SubsetStatus] | None = None
    """Observed state of each subset."""
    updated_ready_replicas: Int32 = 0
    """Pods at the updated revision that are ready."""
    updated_replicas: Count = 0
    """Pods at the updated revision."""


class UnitedDeploymentStatus(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the UnitedDeployment."""

    updated_revision: str = ""
    """Revision that the workloads are updated to."""


class UnitedDeployment(ApiObject, frozen=True, kw_only=True):
    """One workload in several groups of nodes: each subset gets a workload of its own and a share of the pods."""

    api_version: str = UNITED_DEPLOYMENTS.api_version
    kind: str = UNITED_DEPLOYMENTS.kind
    spec: UnitedDeploymentSpec | None = None
    status: UnitedDeploymentStatus | None = None
