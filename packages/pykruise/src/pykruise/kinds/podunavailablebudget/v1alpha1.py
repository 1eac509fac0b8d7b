"""The PodUnavailableBudget kind in its older version, v1alpha1: some fields are annotations.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written in the hub version only.
"""

from pykruise.kinds.podunavailablebudget.types import (
    POD_UNAVAILABLE_BUDGETS,
    CommonSpec,
    PodUnavailableBudgetStatus,
)
from pykruise.kube.schemas.types import ApiObject


class PodUnavailableBudgetSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the budget."""


class PodUnavailableBudgetV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """PodUnavailableBudget limits how many pods may be unavailable at the same time, for any cause."""

    api_version: str = f"{POD_UNAVAILABLE_BUDGETS.group}/v1alpha1"
    kind: str = POD_UNAVAILABLE_BUDGETS.kind
    spec: PodUnavailableBudgetSpecV1Alpha1 | None = None
    status: PodUnavailableBudgetStatus | None = None
