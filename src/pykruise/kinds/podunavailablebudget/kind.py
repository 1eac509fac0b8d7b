"""PodUnavailableBudget: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.podunavailablebudget.admission import SPOKE_RULES
from pykruise.kinds.podunavailablebudget.conversion import CONVERSION
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS, PodUnavailableBudget
from pykruise.kinds.podunavailablebudget.v1alpha1 import PodUnavailableBudgetV1Alpha1
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews, allow

__all__ = ["KIND"]

_COLUMNS = (
    Column("Allowed", "integer", ".status.unavailableAllowed"),
    Column("Current", "integer", ".status.currentAvailable"),
    Column("Desired", "integer", ".status.desiredAvailable"),
    Column("Total", "integer", ".status.totalReplicas"),
)

KIND = Kind(
    resource=POD_UNAVAILABLE_BUDGETS,
    versions=(
        Version(name="v1alpha1", root=PodUnavailableBudgetV1Alpha1, columns=_COLUMNS),
        Version(name="v1beta1", root=PodUnavailableBudget, storage=True, columns=_COLUMNS),
    ),
    short_names=("pub",),
    conversion=CONVERSION,
    any_gate=("PodUnavailableBudgetDeleteGate", "PodUnavailableBudgetUpdateGate"),
    reviews=Reviews(validating=lambda *_: allow, spoke=lambda *_: SPOKE_RULES),
)
