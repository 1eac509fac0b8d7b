"""The WorkloadSpread kind in its older version, v1alpha1: the differences from the hub version.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written only in the hub version.
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
    """A group of nodes that runs a part of the pods."""

    preferred_node_selector_terms: list[PreferredSchedulingTerm] | None = None
    """Nodes on which pods of the subset run if possible."""
    required_node_selector_term: NodeSelector | None = None
    """Nodes on which pods of the subset must run."""


class WorkloadSpreadSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the WorkloadSpread."""

    subsets: list[SubsetV1Alpha1]
    """Groups of nodes in the order in which they are filled."""


class SubsetStatusV1Alpha1(CommonSubsetStatus, frozen=True, kw_only=True):
    """Observed state of a subset."""

    conditions: list[PlainCondition] | None = None
    """Aspects of the state; Schedulable is the only one."""


class WorkloadSpreadStatusV1Alpha1(Status, frozen=True, kw_only=True):
    """Observed state of the WorkloadSpread."""

    observed_generation: Int64 = 0
    """The metadata.generation for which this status was computed."""
    spread: str | None = None
    """Human-readable summary: each subset with its number of pods and, after a slash, its maximum."""
    subset_statuses: list[SubsetStatusV1Alpha1] | None = None
    """Observed state of each subset, for all revisions of the workload together."""
    versioned_subset_statuses: dict[str, list[SubsetStatusV1Alpha1]] | None = None
    """Observed state of each subset, by revision of the workload."""


class WorkloadSpreadV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Spreads the pods of a workload over groups of nodes, in a given order and with limits."""

    api_version: str = f"{WORKLOAD_SPREADS.group}/v1alpha1"
    kind: str = WORKLOAD_SPREADS.kind
    spec: WorkloadSpreadSpecV1Alpha1
    status: WorkloadSpreadStatusV1Alpha1 | None = None
