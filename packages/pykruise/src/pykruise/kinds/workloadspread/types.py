"""The WorkloadSpread kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ WorkloadSpread ──▶ injection, plan; the same types ──▶ kind.py (the schema)

Names, optional fields and defaults are those of the API. Patches are kept as untyped JSON.
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
    """Policy for pods for which the scheduler finds no node in their subset."""

    disable_simulation_schedule: bool = False
    """Accepted for compatibility, without effect: scheduling is not simulated."""
    reschedule_critical_seconds: Int32 | None = None
    """Age in seconds at which a pod without a node is deleted, so that it is created again in another subset; never
    by default.
    """


class ScheduleStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for pods that find no node in their subset."""

    adaptive: AdaptiveStrategy | None = None
    type: Annotated[str, schema(enum=("Adaptive", "Fixed", ""))] = ""
    """Fixed (the default): a pod stays in its subset. Adaptive: a pod is moved when it finds no node in its subset."""


class TargetFilter(Typed, frozen=True, kw_only=True):
    """Restricts the spread to a part of the workload's pods."""

    replicas_path_list: list[str] | None = None
    """Paths of numbers in the workload, such as spec.tfReplicaSpecs.Worker.replicas. The sum of these numbers is used
    as the workload's replicas.
    """
    selector: Selector | None = None
    """Label selector for the pods that are spread; all pods by default."""


class CommonSubset(Typed, frozen=True, kw_only=True):
    """A group of nodes that runs a part of the pods."""

    max_replicas: IntOrString | None = None
    """Maximum number of pods in the subset, as a number or a percentage of the workload's replicas, rounded up;
    unlimited by default.
    """
    name: str
    """Name of the subset."""
    patch: AnyObject | None = None
    """A strategic merge patch for the pods of the subset."""
    tolerations: list[Toleration] | None = None
    """Tolerations that pods of the subset get."""


class Subset(CommonSubset, frozen=True, kw_only=True):
    """A group of nodes that runs a part of the pods."""

    preferred_node_selector: list[PreferredSchedulingTerm] | None = None
    """Nodes on which pods of the subset run if possible."""
    required_node_selector: NodeSelector | None = None
    """Nodes on which pods of the subset must run."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    schedule_strategy: ScheduleStrategy | None = None
    target_filter: TargetFilter | None = None
    target_ref: TargetReference
    """The workload whose pods are spread."""


class WorkloadSpreadSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the WorkloadSpread."""

    subsets: list[Subset]
    """Groups of nodes in the order in which they are filled."""


class CommonSubsetStatus(Typed, frozen=True, kw_only=True):
    """Observed state of a subset."""

    creating_pods: dict[str, Time] | None = None
    """Pods that were admitted and that the controller has not seen yet, by name, with the time of admission."""
    deleting_pods: dict[str, Time] | None = None
    """Pods whose deletion was admitted and that the controller has not seen terminating yet, by name, with the time of
    admission.
    """
    missing_replicas: Count
    """Number of pods that the subset can still take; -1 means unlimited."""
    name: str
    """Name of the subset."""
    replicas: Count
    """Number of pods in the subset."""


class SubsetStatus(CommonSubsetStatus, frozen=True, kw_only=True):
    """Observed state of a subset."""

    conditions: Annotated[list[Condition], schema(list_type="map", list_map_keys=("type",))] | None = None
    """Aspects of the state; Schedulable is the only one."""


class WorkloadSpreadStatus(Status, frozen=True, kw_only=True):
    """Observed state of the WorkloadSpread."""

    observed_generation: Int64 = 0
    """The metadata.generation for which this status was computed."""
    spread: str | None = None
    """Human-readable summary: each subset with its number of pods and, after a slash, its maximum."""
    subset_statuses: list[SubsetStatus] | None = None
    """Observed state of each subset, for all revisions of the workload together."""
    versioned_subset_statuses: dict[str, list[SubsetStatus]] | None = None
    """Observed state of each subset, by revision of the workload."""


class WorkloadSpread(ApiObject, frozen=True, kw_only=True):
    """Spreads the pods of a workload over groups of nodes, in a given order and with limits."""

    api_version: str = WORKLOAD_SPREADS.api_version
    kind: str = WORKLOAD_SPREADS.kind
    spec: WorkloadSpreadSpec
    status: WorkloadSpreadStatus | None = None
