"""The PodUnavailableBudget kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ PodUnavailableBudget ──▶ admission of pods, controller
                      the same types ──▶ kind.py (its schema)
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
    """Reference to a workload in the same namespace."""

    api_version: str = ""
    """API group and version of the workload."""
    kind: str = ""
    """Kind of the workload."""
    name: str = ""
    """Name of the workload."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions have."""

    max_unavailable: IntOrString | None = None
    """Maximum number or percentage of pods that may be unavailable. Must not be combined with minAvailable."""
    min_available: IntOrString | None = None
    """Minimum number or percentage of pods that must be available. Must not be combined with maxUnavailable."""
    selector: Selector | None = None
    """Selects the pods that the budget covers. Must not be combined with targetRef. Immutable."""
    target_ref: BudgetTarget | None = None
    """The workload whose pods the budget covers. Must not be combined with selector. Immutable."""


class PodUnavailableBudgetSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the budget."""

    ignored_pod_selector: Selector | None = None
    """Selects pods that are not protected."""
    protect_operations: list[Annotated[str, schema(enum=OPERATIONS)]] | None = None
    """Protected operations: DELETE, UPDATE (in place), EVICT and RESIZE. Defaults to the first three."""
    protect_total_replicas: Annotated[int, integer("int32", minimum=1)] | None = None
    """Total number of pods for percentages, instead of the workload's replicas."""


class PodUnavailableBudgetStatus(Status, frozen=True, kw_only=True):
    """Observed state of the budget."""

    current_available: Count = 0
    """Number of available pods."""
    desired_available: Count = 0
    """Number of pods that must be available."""
    disrupted_pods: dict[str, Time] | None = None
    """Pods whose deletion was admitted but not observed yet: name and time of admission."""
    observed_generation: Int64 = 0
    """The metadata.generation that this status describes."""
    total_replicas: Count = 0
    """Desired number of pods of the covered workloads, or spec.protectTotalReplicas."""
    unavailable_allowed: Count = 0
    """Number of pods that may still become unavailable."""
    unavailable_pods: dict[str, Time] | None = None
    """Pods whose update was admitted a short time ago: name and time of admission."""


class PodUnavailableBudget(ApiObject, frozen=True, kw_only=True):
    """PodUnavailableBudget limits how many pods may be unavailable at the same time, for any cause."""

    api_version: str = POD_UNAVAILABLE_BUDGETS.api_version
    kind: str = POD_UNAVAILABLE_BUDGETS.kind
    spec: PodUnavailableBudgetSpec | None = None
    status: PodUnavailableBudgetStatus | None = None
