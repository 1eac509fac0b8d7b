"""The WorkloadSpread kind in its older version, v1alpha1: what differs from the hub version.

types.py ──▶ these ──▶ crd.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.workloadspread.types import (
    WORKLOAD_SPREADS,
    CommonSpec,
    CommonSubset,
    CommonSubsetStatus,
)
from pykruise.kube.schemas.types import (
    ApiObject,
    Int64,
    NodeSelector,
    PlainCondition,
    PreferredSchedulingTerm,
    Status,
)


class SubsetV1Alpha1(CommonSubset, frozen=True, kw_only=True):
    """A group of nodes that takes a part of the pods."""

    preferred_node_selector_terms: list[PreferredSchedulingTerm] | None = None
    """Nodes that pods of the subset go to if they can."""
    required_node_selector_term: NodeSelector | None = None
    """Nodes that pods of the subset must be on."""


class WorkloadSpreadSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the WorkloadSpread."""

    subsets: list[SubsetV1Alpha1]
    """Groups of nodes, the first one is filled first."""


class SubsetStatusV1Alpha1(CommonSubsetStatus, frozen=True, kw_only=True):
    """Observed state of a subset."""

    conditions: list[PlainCondition] | None = None
    """Aspects of the state; Schedulable is the only one."""


class WorkloadSpreadStatusV1Alpha1(Status, frozen=True, kw_only=True):
    """Observed state of the WorkloadSpread."""

    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    spread: str | None = None
    """Where pods are, for people: each subset with its pods and, after a slash, how many it takes."""
    subset_statuses: list[SubsetStatusV1Alpha1] | None = None
    """Observed state of each subset, all revisions of the workload together."""
    versioned_subset_statuses: dict[str, list[SubsetStatusV1Alpha1]] | None = None
    """Observed state of each subset, by revision of the workload."""


class WorkloadSpreadV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Spreads the pods of a workload over groups of nodes, in an order and with limits."""

    api_version: str = f"{WORKLOAD_SPREADS.group}/v1alpha1"
    kind: str = WORKLOAD_SPREADS.kind
    spec: WorkloadSpreadSpecV1Alpha1
    status: WorkloadSpreadStatusV1Alpha1 | None = None
