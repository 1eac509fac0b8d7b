"""The WorkloadSpread kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ WorkloadSpread ──▶ injection, plan; and by the same types ──▶ crd.py (its schema)

Names, optional fields and defaults are those of the API. Patches stay documents.
"""

from typing import Annotated, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import (
    AnyObject,
    ApiObject,
    Condition,
    Count,
    Int32,
    Int64,
    IntOrString,
    NodeSelector,
    PreferredSchedulingTerm,
    Selector,
    Status,
    TargetReference,
    Time,
    Toleration,
    Typed,
)

WORKLOAD_SPREADS: Final = Resource("apps.kruise.io", "v1beta1", "workloadspreads", "WorkloadSpread")


class AdaptiveStrategy(Typed, frozen=True, kw_only=True):
    """Policy for pods that find no node in their subset."""

    disable_simulation_schedule: bool = False
    """Accepted and without effect: nothing is simulated."""
    reschedule_critical_seconds: Int32 | None = None
    """Age in seconds at which a pod without a node is deleted, to come again in another subset; never by
    default."""


class ScheduleStrategy(Typed, frozen=True, kw_only=True):
    """Whether subsets are strict."""

    adaptive: AdaptiveStrategy | None = None
    type: Annotated[str, schema(enum=("Adaptive", "Fixed", ""))] = ""
    """Fixed (the default): a pod stays in its subset. Adaptive: it is moved when it finds no node there."""


class TargetFilter(Typed, frozen=True, kw_only=True):
    """Restricts the spread to a part of the workload's pods."""

    replicas_path_list: list[str] | None = None
    """Paths of numbers in the workload, such as spec.tfReplicaSpecs.Worker.replicas. Their sum counts as its
    replicas."""
    selector: Selector | None = None
    """Labels of the pods that are meant; all by default."""


class CommonSubset(Typed, frozen=True, kw_only=True):
    """A group of nodes that takes a part of the pods."""

    max_replicas: IntOrString | None = None
    """How many pods it takes, as a number or a share of the workload's replicas, rounded up; any number by
    default."""
    name: str
    """Name of the subset."""
    patch: AnyObject | None = None
    """A strategic merge patch for the pods of the subset."""
    tolerations: list[Toleration] | None = None
    """Tolerations that pods of the subset get."""


class Subset(CommonSubset, frozen=True, kw_only=True):
    """A group of nodes that takes a part of the pods."""

    preferred_node_selector: list[PreferredSchedulingTerm] | None = None
    """Nodes that pods of the subset go to if they can."""
    required_node_selector: NodeSelector | None = None
    """Nodes that pods of the subset must be on."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    schedule_strategy: ScheduleStrategy | None = None
    target_filter: TargetFilter | None = None
    target_ref: TargetReference
    """The workload whose pods are spread."""


class WorkloadSpreadSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the WorkloadSpread."""

    subsets: list[Subset]
    """Groups of nodes, the first one is filled first."""


class CommonSubsetStatus(Typed, frozen=True, kw_only=True):
    """Observed state of a subset."""

    creating_pods: dict[str, Time] | None = None
    """Pods that were admitted and have not been seen yet, by name, with the time."""
    deleting_pods: dict[str, Time] | None = None
    """Pods whose deletion was admitted and has not been seen yet, by name, with the time."""
    missing_replicas: Count
    """Pods that it would still take; -1 means any number."""
    name: str
    """Name of the subset."""
    replicas: Count
    """Pods that are in it."""


class SubsetStatus(CommonSubsetStatus, frozen=True, kw_only=True):
    """Observed state of a subset."""

    conditions: Annotated[list[Condition], schema(list_type="map", list_map_keys=("type",))] | None = None
    """Aspects of the state; Schedulable is the only one."""


class WorkloadSpreadStatus(Status, frozen=True, kw_only=True):
    """Observed state of the WorkloadSpread."""

    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    spread: str | None = None
    """Where pods are, for people: each subset with its pods and, after a slash, how many it takes."""
    subset_statuses: list[SubsetStatus] | None = None
    """Observed state of each subset, all revisions of the workload together."""
    versioned_subset_statuses: dict[str, list[SubsetStatus]] | None = None
    """Observed state of each subset, by revision of the workload."""


class WorkloadSpread(ApiObject, frozen=True, kw_only=True):
    """Spreads the pods of a workload over groups of nodes, in an order and with limits."""

    api_version: str = WORKLOAD_SPREADS.api_version
    kind: str = WORKLOAD_SPREADS.kind
    spec: WorkloadSpreadSpec
    status: WorkloadSpreadStatus | None = None
