"""The CustomResourceDefinition of PodUnavailableBudgets, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS, PodUnavailableBudget
from pykruise.kinds.podunavailablebudget.v1alpha1 import PodUnavailableBudgetV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("Allowed", "integer", ".status.unavailableAllowed"),
    Column("Current", "integer", ".status.currentAvailable"),
    Column("Desired", "integer", ".status.desiredAvailable"),
    Column("Total", "integer", ".status.totalReplicas"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=PodUnavailableBudgetV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=PodUnavailableBudget, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `podunavailablebudgets.policy.kruise.io`."""
    return definition(POD_UNAVAILABLE_BUDGETS, versions=_VERSIONS, short_names=("pub",))
