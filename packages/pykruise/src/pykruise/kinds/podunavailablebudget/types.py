"""The PodUnavailableBudget kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ PodUnavailableBudget ──▶ admission of pods, controller; and by the same types ──▶ crd.py
"""

from typing import Annotated, Final

from pykruise.kube.schemas.crds import integer, schema
from pykruise.kube.schemas.types import ApiObject, Count, Int64, IntOrString, Selector, Status, Time, Typed
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS

__all__ = [
    "OPERATIONS",
    "POD_UNAVAILABLE_BUDGETS",
    "BudgetTarget",
    "CommonSpec",
    "PodUnavailableBudget",
    "PodUnavailableBudgetSpec",
    "PodUnavailableBudgetStatus",
]

OPERATIONS: Final = ("DELETE", "UPDATE", "EVICT", "RESIZE")


class BudgetTarget(Typed, frozen=True, kw_only=True):
    """A workload of the same namespace."""

    api_version: str = ""
    """Group and version of the workload."""
    kind: str = ""
    """Kind of the workload."""
    name: str = ""
    """Name of the workload."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    max_unavailable: IntOrString | None = None
    """Pods that may be unavailable, as a number or a share. Goes before minAvailable."""
    min_available: IntOrString | None = None
    """Pods that must be available, as a number or a share."""
    selector: Selector | None = None
    """Labels of the pods. Excludes targetRef; cannot be changed."""
    target_ref: BudgetTarget | None = None
    """The workload whose pods are meant. Excludes selector; cannot be changed."""


class PodUnavailableBudgetSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the budget."""

    ignored_pod_selector: Selector | None = None
    """Labels of pods that are not protected."""
    protect_operations: list[Annotated[str, schema(enum=OPERATIONS)]] | None = None
    """Operations that the budget protects pods against: DELETE, UPDATE (in place), EVICT, RESIZE. The first three by
    default."""
    protect_total_replicas: Annotated[int, integer("int32", minimum=1)] | None = None
    """Number of pods that shares are of, instead of the workload's replicas."""


class PodUnavailableBudgetStatus(Status, frozen=True, kw_only=True):
    """Observed state of the budget."""

    current_available: Count = 0
    """Pods that are available."""
    desired_available: Count = 0
    """Pods that must be available."""
    disrupted_pods: dict[str, Time] | None = None
    """Pods whose deletion was admitted and has not been seen yet, by name, with the time."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status is about."""
    total_replicas: Count = 0
    """Pods that are meant."""
    unavailable_allowed: Count = 0
    """Pods that may still become unavailable."""
    unavailable_pods: dict[str, Time] | None = None
    """Pods whose update was admitted a short time ago, by name, with the time."""


class PodUnavailableBudget(ApiObject, frozen=True, kw_only=True):
    """Limits how many pods may be unavailable at once, whatever takes them out of service."""

    api_version: str = POD_UNAVAILABLE_BUDGETS.api_version
    kind: str = POD_UNAVAILABLE_BUDGETS.kind
    spec: PodUnavailableBudgetSpec | None = None
    status: PodUnavailableBudgetStatus | None = None
