"""A CloneSet asks PodUnavailableBudgets before it updates a pod."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.snapshot import CloneSetSettings
from pykruise.kube.clock import format_time
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import BUDGET_VIEWS
from pykruise.pods.view import keys
from pykruise.pods.workload.budgets import BudgetView, project_budget
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import NOW, CloneSetBuilder, cloneset
from support.plan_views import condition, deleted, left, replaced, states, steps_named
from support.snapshots import snapshot_of

ANNOTATION = {keys.RELATED_PUB_ANNOTATION: "pub"}


def budget(allowed: int, **fields: Any) -> BudgetView:
    current = {"desiredAvailable": 3, "currentAvailable": 3 + allowed, "unavailableAllowed": allowed}
    status = {**current, **fields.pop("status", {})}
    document = {
        "metadata": {"name": "pub", "namespace": "shop", "uid": "uid-pub", "resourceVersion": "9"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **fields},
        "status": status,
    }
    return project_budget(orjson.dumps(document))


def protected(
    builder: CloneSetBuilder | None = None, *, policy: str = "InPlaceIfPossible"
) -> CloneSetBuilder:
    """Four old pods under the budget, all of which could be updated at the same time."""
    builder = builder or cloneset(4, old=4, max_unavailable="100%").with_rolling(podUpdatePolicy=policy)
    return builder.annotated(ANNOTATION, *builder.pods)


def plan_of(builder: CloneSetBuilder, *budgets: BudgetView, asks: bool = True) -> Plan:
    snapshot = builder.snapshot()
    settings = msgspec.structs.replace(snapshot.settings, asks_budgets=asks)
    result = {budget.name: budget for budget in budgets}
    return plan_cloneset(msgspec.structs.replace(snapshot, budgets=result, settings=settings))


def begun(plan: Plan) -> set[str]:
    return {*states(plan)} | deleted(plan) | replaced(plan)


@pytest.mark.parametrize("asks", [True, False])
def test_budgets_are_read_only_with_the_gate_on(asks: bool) -> None:
    view = cloneset(1).view()
    objects = {BUDGET_VIEWS: [budget(1)]}
    result = snapshot_of(KIND, view, objects, settings=CloneSetSettings(asks_budgets=asks), now=NOW)
    assert [*result.budgets] == ["pub"] * asks


@pytest.mark.parametrize("policy", ["InPlaceIfPossible", "ReCreate"])
def test_a_refused_budget_delays_the_rest_by_a_second_without_error_or_condition(policy: str) -> None:
    """cloneset case 77"""
    # given a budget for two
    plan = plan_of(protected(policy=policy), budget(2))
    # then two pods are updated, after one write that spends for both
    (spent,) = steps_named(plan, Purpose.SPEND_BUDGETS)
    assert isinstance(spent.action, Patch)
    assert spent.action.subresource == "status"
    assert (spent.action.uid, spent.action.resource_version) == ("uid-pub", "9")
    time = format_time(NOW)
    assert spent.action.body["status"] == {
        "unavailableAllowed": 0,
        "currentAvailable": 3,
        "unavailablePods": {"web-a": time, "web-b": time},
    }
    assert begun(plan) == {"a", "b"}
    names = [stage.purpose for stage in plan.stages]
    assert names.index(Purpose.SPEND_BUDGETS) < names.index("update pods")
    assert all("PodUnavailableBudget pub" in left(plan)[pod] for pod in "cd")
    assert plan.requeue_after_s == 1
    assert condition(plan, "FailedUpdate") is None


def test_an_exhausted_budget_blocks_all_updates_and_the_status_reports_it() -> None:
    plan = plan_of(protected(), budget(0))
    assert begun(plan) == set()
    assert not plan.stages
    assert plan.requeue_after_s == 1
    result = condition(plan, "Waiting")
    assert result is not None
    assert "PodUnavailableBudget pub allows no more" in result["message"]


def test_budgets_are_ignored_with_the_gate_off() -> None:
    assert begun(plan_of(protected(), budget(0), asks=False)) == {*"abcd"}


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda builder: builder, None),
        (lambda builder: builder.annotated({keys.NO_PROTECT_ANNOTATION: "true"}, *"abcd"), budget(0)),
        (lambda builder: builder.not_ready(*"abcd"), budget(0)),
        (lambda builder: builder.labelled({"unavailable-pod.kruise.io/x": ""}, *"abcd"), budget(0)),
        (lambda builder: builder, budget(0, status={"desiredAvailable": 0})),
        (lambda builder: builder, budget(0, protectOperations=["DELETE"])),
        (lambda builder: builder, budget(0, ignoredPodSelector={"matchLabels": {"app": "web"}})),
        (
            lambda builder: builder,
            budget(
                0,
                status={
                    "unavailablePods": {f"web-{pod}": format_time(NOW) for pod in "ab"},
                    "disruptedPods": {f"web-{pod}": format_time(NOW) for pod in "cd"},
                },
            ),
        ),
    ],
    ids=[
        "no such budget",
        "exempt",
        "not ready",
        "labelled unavailable",
        "not reconciled yet",
        "operation not protected",
        "ignored",
        "let go before",
    ],
)
def test_updates_that_cost_no_availability_are_not_blocked(change: Any, value: BudgetView | None) -> None:
    """podunavailablebudget 6.7, rules 1 to 7"""
    plan = plan_of(change(protected()), *([value] if value else []))
    assert begun(plan) == {*"abcd"}
    assert not steps_named(plan, Purpose.SPEND_BUDGETS)


def test_the_old_annotation_and_operations_of_v1alpha1_count() -> None:
    # given
    builder = cloneset(4, old=4, max_unavailable="100%").with_rolling(podUpdatePolicy="InPlaceIfPossible")
    builder.annotated({keys.LEGACY_RELATED_PUB_ANNOTATION: "pub"}, *"abcd")
    document = {
        "metadata": {
            "name": "pub",
            "namespace": "shop",
            "annotations": {keys.PROTECT_OPERATIONS_ANNOTATION: "EVICT, UPDATE"},
        },
        "status": {"desiredAvailable": 3, "unavailableAllowed": 1},
    }
    # then
    assert begun(plan_of(builder, project_budget(orjson.dumps(document)))) == {"a"}


def test_a_selector_that_cannot_be_read_refuses() -> None:
    broken = budget(5, ignoredPodSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]})
    plan = plan_of(protected(), broken)
    assert begun(plan) == set()
    assert "ignoredPodSelector" in left(plan)["a"]


def test_maxunavailable_counts_before_the_budget() -> None:
    plan = plan_of(protected().with_rolling(maxUnavailable=1), budget(3))
    assert begun(plan) == {"a"}
    assert "maxUnavailable is used up" in left(plan)["b"]


def test_only_pods_that_begin_now_spend_the_budget() -> None:
    # given two pods more than a plan updates, one of them under another budget
    builder = protected(
        cloneset(12, old=12, max_unavailable="100%").with_rolling(podUpdatePolicy="InPlaceOnly")
    )
    builder.annotated({keys.RELATED_PUB_ANNOTATION: "other"}, "l")
    # when
    plan = plan_of(builder, budget(12), msgspec.structs.replace(budget(12), name="other"))
    # then
    (spent,) = steps_named(plan, Purpose.SPEND_BUDGETS)
    assert isinstance(spent.action, Patch)
    assert spent.action.key.name == "pub"
    assert {*spent.action.body["status"]["unavailablePods"]} == {f"web-{name}" for name in begun(plan)}
    assert len(begun(plan)) == 10


def test_a_pod_marked_for_recreation_is_not_charged_to_the_budget_again() -> None:
    # given one that waits until it may be deleted
    builder = cloneset(4, old=4, max_unavailable=1, minReadySeconds=30).ready_for(10, "a").marked("a")
    # when
    plan = plan_of(protected(builder), budget(0))
    # then the next pod waits for maxUnavailable, and not for the budget
    assert left(plan)["b"] == "waits for its turn: maxUnavailable is used up"
