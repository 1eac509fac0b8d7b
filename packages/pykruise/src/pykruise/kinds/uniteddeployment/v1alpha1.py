"""The UnitedDeployment kind in its older version, v1alpha1: parts of the status have other fields, and a field of the
spec has two names.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written only in the hub version.
"""

from pykruise.kinds.uniteddeployment.types import (
    UNITED_DEPLOYMENTS,
    AdaptiveStrategy,
    CommonStatus,
    ScheduleStrategy,
    Topology,
    UnitedDeploymentSpec,
)
from pykruise.kube.schemas.types import ApiObject, Int32, Typed


class AdaptiveStrategyV1Alpha1(AdaptiveStrategy, frozen=True, kw_only=True):
    """Policy for pods for which the scheduler finds no node in their subset."""

    unschedulable_last_seconds: Int32 | None = None
    """Name of unschedulableDuration in OpenKruise up to 1.8. If both fields are set, unschedulableDuration applies."""


class ScheduleStrategyV1Alpha1(ScheduleStrategy, frozen=True, kw_only=True):
    """Strategy for pods that find no node in their subset."""

    adaptive: AdaptiveStrategyV1Alpha1 | None = None


class TopologyV1Alpha1(Topology, frozen=True, kw_only=True):
    """The subsets, and the division of the pods among them."""

    schedule_strategy: ScheduleStrategyV1Alpha1 | None = None


class UnitedDeploymentSpecV1Alpha1(UnitedDeploymentSpec, frozen=True, kw_only=True):
    """Desired state of the UnitedDeployment."""

    topology: TopologyV1Alpha1 | None = None


class UpdateStatus(Typed, frozen=True, kw_only=True):
    """Progress of the update."""

    current_partitions: dict[str, Int32] | None = None
    """Number of pods that stay at the older revision, by subset."""
    updated_revision: str = ""
    """Revision to which the workloads are updated."""


class UnitedDeploymentStatusV1Alpha1(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the UnitedDeployment."""

    subset_replicas: dict[str, Int32] | None = None
    """Desired number of pods of the workloads, by subset."""
    update_status: UpdateStatus | None = None


class UnitedDeploymentV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """A workload across several groups of nodes: each subset gets its own workload and a share of the pods."""

    api_version: str = f"{UNITED_DEPLOYMENTS.group}/v1alpha1"
    kind: str = UNITED_DEPLOYMENTS.kind
    spec: UnitedDeploymentSpecV1Alpha1 | None = None
    status: UnitedDeploymentStatusV1Alpha1 | None = None
