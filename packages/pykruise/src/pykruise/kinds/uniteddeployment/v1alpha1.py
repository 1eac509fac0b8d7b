"""The UnitedDeployment kind in its older version, v1alpha1: the status says some things otherwise.

types.py ──▶ these ──▶ crd.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS, CommonStatus, UnitedDeploymentSpec
from pykruise.kube.schemas.types import ApiObject, Int32, Typed


class UpdateStatus(Typed, frozen=True, kw_only=True):
    """How far the update is."""

    current_partitions: dict[str, Int32] | None = None
    """Pods that stay at the older revision, by subset."""
    updated_revision: str = ""
    """Revision that the workloads are updated to."""


class UnitedDeploymentStatusV1Alpha1(CommonStatus, frozen=True, kw_only=True):
    """Observed state of the UnitedDeployment."""

    subset_replicas: dict[str, Int32] | None = None
    """Pods that the workloads are to have, by subset."""
    update_status: UpdateStatus | None = None


class UnitedDeploymentV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """One workload in several groups of nodes: each subset gets a workload of its own and a share of the pods."""

    api_version: str = f"{UNITED_DEPLOYMENTS.group}/v1alpha1"
    kind: str = UNITED_DEPLOYMENTS.kind
    spec: UnitedDeploymentSpec | None = None
    status: UnitedDeploymentStatusV1Alpha1 | None = None
