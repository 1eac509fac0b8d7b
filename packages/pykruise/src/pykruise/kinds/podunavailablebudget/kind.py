"""The PodUnavailableBudget kind, as the rest of the program uses it.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan, simulate (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.podunavailablebudget.admission import build_validating_review
from pykruise.kinds.podunavailablebudget.annotation_rules import SPOKE_RULES
from pykruise.kinds.podunavailablebudget.conversion import CONVERSION
from pykruise.kinds.podunavailablebudget.insight import INSIGHT
from pykruise.kinds.podunavailablebudget.plan import plan_budget
from pykruise.kinds.podunavailablebudget.pod_steps import STEPS
from pykruise.kinds.podunavailablebudget.shown import SHOWN
from pykruise.kinds.podunavailablebudget.snapshot import COUNTED_VIEWS, BudgetSettings, read_snapshot
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS, PodUnavailableBudget
from pykruise.kinds.podunavailablebudget.v1alpha1 import PodUnavailableBudgetV1Alpha1
from pykruise.kinds.podunavailablebudget.validation import find_stored_errors
from pykruise.kinds.podunavailablebudget.wakes import list_wakes
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import CONFIG_MAPS, POD_DISRUPTION_BUDGETS, PODS
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import Kind, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.plans.views import BUDGET_VIEWS, POD_VIEWS
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from pykruise.pods.workload.amounts import Amount
from pykruise.runtime.control import Control

COMPONENT = "podunavailablebudget-controller"

_COLUMNS = (
    Column("Allowed", "integer", ".status.unavailableAllowed"),
    Column("Current", "integer", ".status.currentAvailable"),
    Column("Desired", "integer", ".status.desiredAvailable"),
    Column("Total", "integer", ".status.totalReplicas"),
)

_STORED: Final = StoredSpec(errors=find_stored_errors)

KIND = Kind(
    resource=POD_UNAVAILABLE_BUDGETS,
    versions=make_two_versions(PodUnavailableBudget, PodUnavailableBudgetV1Alpha1, columns=_COLUMNS),
    short_names=("pub",),
    conversion=CONVERSION,
    any_gate=("PodUnavailableBudgetDeleteGate", "PodUnavailableBudgetUpdateGate"),
    amounts=(
        Amount(path=("spec", "maxUnavailable")),
        Amount(path=("spec", "minAvailable")),
    ),
    settings=BudgetSettings,
    reviews=Reviews(
        validating=lambda _, lookups: build_validating_review(lookups.readers.get("podunavailablebudget")),
        spoke=lambda *_: SPOKE_RULES,
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="podunavailablebudget",
            component=COMPONENT,
            objects=BUDGET_VIEWS,
            reads=lambda _: (POD_VIEWS, BUDGET_VIEWS, *COUNTED_VIEWS.values()),
            wakes=list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.budget,
            plan=plan_budget,
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(POD_DISRUPTION_BUDGETS, "create"),),
    rights=(
        *STEPS.rights,
        *(
            make_right(resource, *READ, why="PodUnavailableBudget: to read the workloads of covered pods")
            for resource in TARGET_RESOURCES.values()
        ),
        Right(
            group="*",
            resource="*/scale",
            verbs=("get",),
            why="PodUnavailableBudget: to read the replicas of workloads of other kinds",
        ),
        make_right(
            CONFIG_MAPS,
            *READ,
            names=(CONFIGURATION,),
            in_namespace=True,
            why="PodUnavailableBudget: to read the white list of other kinds",
        ),
        make_right(PODS, "get", why="PodUnavailableBudget: to check whether a pod still exists"),
        make_right(PODS, "patch", why="PodUnavailableBudget: to assign pods to their budget"),
    ),
    insight=INSIGHT,
    shown=SHOWN,
    pods=STEPS,
)
