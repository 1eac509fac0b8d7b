"""Events that wake a budget. The table is that of the specification."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.snapshot import COUNTED_VIEWS, BudgetSettings
from pykruise.kinds.podunavailablebudget.wakes import list_wakes
from pykruise.kube.cache.cache import Change
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.plans.views import BUDGET_VIEWS, POD_VIEWS
from pykruise.runtime.assemble import views_of
from pykruise.runtime.read import Around, Memories
from pykruise.runtime.wakes import Later
from support.budgets import (
    CLONE_SET,
    DEPLOYMENT,
    NAMESPACE,
    ago,
    allowed,
    budget,
    kind_of,
    pod,
    pod_view,
    target_view,
    tied,
    view,
    workload,
)
from support.snapshots import control_of, listed

KEY = Key(NAMESPACE, "pub")
SELECTING = budget(maxUnavailable=1, status=allowed(1))


def woken(
    old: Document | None,
    new: Document | None,
    *,
    budgets: Sequence[Document] = (SELECTING,),
    workloads: Sequence[Document] = (),
) -> list[Key | Later]:
    """Keys that a change of a pod or a workload enqueues."""
    settings = BudgetSettings()
    some = old or new
    assert some is not None
    views, seen = _views_of(some)
    objects: dict[Any, list[Any]] = {
        BUDGET_VIEWS: [view(budget) for budget in budgets],
        **{
            each: [target_view(workload) for workload in workloads if kind_of(workload) == kind]
            for kind, each in COUNTED_VIEWS.items()
        },
    }
    around: Any = Around(
        listed(views_of(control_of(KIND), settings), objects),
        settings=settings,
        memories=Memories(),
        is_making=lambda *_: False,
        now=lambda: 0.0,
    )
    meta = some["metadata"]
    change: Any = Change(
        Key(meta["namespace"], meta["name"]),
        seen(old) if old is not None else None,
        seen(new) if new is not None else None,
    )
    return [key for wake in list_wakes(settings) if wake.on is views for key in wake.keys(change, around)]


def _views_of(document: Document) -> tuple[Any, Any]:
    match document["kind"]:
        case "Pod":
            return POD_VIEWS, pod_view
        case "PodUnavailableBudget":
            return BUDGET_VIEWS, view
    return COUNTED_VIEWS[kind_of(document)], target_view


@pytest.mark.parametrize(
    ("new", "is_about_others"),
    [
        (None, True),
        (budget("loose", maxUnavailable=1, deleting=True), True),
        (budget("loose", maxUnavailable=1, selector={"matchLabels": {"app": "db"}}), True),
        (budget("loose", maxUnavailable=1, target=CLONE_SET), True),
        (budget("loose", maxUnavailable=2, status=allowed(1)), False),
    ],
)
def test_a_budget_that_covers_its_pods_no_longer_enqueues_the_other_budgets(
    new: Document | None, *, is_about_others: bool
) -> None:
    old = budget("loose", maxUnavailable=1)
    own = [] if new is None else [new]
    expected = [KEY] if is_about_others else []
    woken_keys = woken(old, new, budgets=[SELECTING, *own])
    assert [key for key in woken_keys if key != Key(NAMESPACE, "loose")] == expected


def test_a_new_pod_enqueues_the_budget_in_its_annotation_or_selecting_it() -> None:
    assert woken(None, tied("p1")) == [KEY]
    assert woken(None, pod("p1")) == [KEY]
    assert woken(None, pod("p1", labels={"app": "other"})) == []
    assert woken(None, pod("p1"), budgets=[]) == []
    # the budget in its annotation counts, with any labels
    assert woken(None, tied("p1", labels={"app": "other"})) == [KEY]


def test_a_new_pod_of_a_rollout_enqueues_the_budget_of_its_deployment() -> None:
    replica_set = ("apps/v1", "ReplicaSet", "web-1")
    targeting = budget(target=DEPLOYMENT, maxUnavailable=1)
    adopted = ("apps/v1", "ReplicaSet", "adopted")
    known = [workload(DEPLOYMENT, 1), *(workload(each, 1, of=DEPLOYMENT) for each in (replica_set, adopted))]
    assert woken(None, pod("p1", owner=adopted), budgets=[targeting], workloads=known) == [KEY]
    assert woken(None, pod("p1", owner=replica_set), budgets=[targeting], workloads=known) == [KEY]
    assert woken(None, pod("p1", owner=CLONE_SET), budgets=[targeting], workloads=known) == []
    assert woken(None, pod("p1", owner=None), budgets=[targeting], workloads=known) == []


REPLICA_SET = ("apps/v1", "ReplicaSet", "web-1")
OTHER = ("apps/v1", "Deployment", "web-1-other")


@pytest.mark.parametrize(
    ("target", "owner", "above", "is_about"),
    [
        (CLONE_SET, CLONE_SET, None, True),
        (DEPLOYMENT, REPLICA_SET, DEPLOYMENT, True),
        # the ReplicaSet itself
        (REPLICA_SET, REPLICA_SET, DEPLOYMENT, True),
        # a ReplicaSet without a controller, or another Deployment
        (DEPLOYMENT, REPLICA_SET, None, False),
        (DEPLOYMENT, REPLICA_SET, OTHER, False),
        # another workload of the Deployment's name, or of the ReplicaSet's
        (CLONE_SET, REPLICA_SET, DEPLOYMENT, False),
        (DEPLOYMENT, ("apps.kruise.io/v1beta1", "CloneSet", "web-1"), DEPLOYMENT, False),
        (CLONE_SET, DEPLOYMENT, None, False),
        (CLONE_SET, ("apps.kruise.io/v1beta1", "CloneSet", "other"), None, False),
    ],
)
def test_a_pod_enqueues_the_budget_that_targets_its_workload(
    target: Any, owner: Any, above: Any, *, is_about: bool
) -> None:
    """section 6.2"""
    targeting = budget(target=target, maxUnavailable=1)
    known = [workload(DEPLOYMENT, 1), workload(REPLICA_SET, 1, of=above)]
    result = woken(None, pod("p1", owner=owner), budgets=[targeting], workloads=known)
    assert result == ([KEY] if is_about else [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (tied("p1", ready=False), tied("p1")),
        (tied("p1"), tied("p1", ready=False)),
        (tied("p1"), tied("p1", labels={"unavailable-pod.kruise.io/drain": "true"})),
        (tied("p1"), tied("p1", phase="Failed")),
        # a failed pod no longer counts for the total
        (tied("p1", ready=False), tied("p1", ready=False, phase="Failed")),
    ],
)
def test_a_pod_that_becomes_or_stops_being_ready_enqueues_its_budget_immediately(
    old: Document, new: Document
) -> None:
    assert woken(old, new) == [KEY]


def test_a_released_or_adopted_pod_enqueues_its_budget() -> None:
    assert woken(tied("p1"), tied("p1", owner=None)) == [KEY]
    assert woken(tied("p1", owner=None), tied("p1")) == [KEY]


def test_other_changes_of_a_pod_enqueue_no_budget() -> None:
    assert woken(tied("p1"), tied("p1", annotations={"a": "b"})) == []
    assert woken(tied("p1", ready=False), tied("p1", ready=False, phase="Pending")) == []


def test_an_allowed_deletion_enqueues_the_budget_later_and_any_other_immediately() -> None:
    # given a budget that has allowed the deletion
    recorded = budget(maxUnavailable=1, status=allowed(0, disruptedPods={"p1": ago(1)}))
    (later,) = woken(tied("p1"), tied("p1", deleting=True), budgets=[recorded])
    assert later == Later(KEY, 5.0)
    # and a budget without a record of the deletion
    assert woken(tied("p1"), tied("p1", deleting=True)) == [KEY]
    assert woken(tied("p1"), None) == [KEY]
    # and a pod without a budget, or with a deleted one
    assert woken(pod("p1"), pod("p1", deleting=True)) == [KEY]
    assert woken(tied("p1", to="gone"), None) == [KEY]
    # and a pod that was terminating before
    assert woken(tied("p1", deleting=True), None) == []


@pytest.mark.parametrize("covered", [{"target": CLONE_SET}, {}])
def test_a_created_deleted_or_scaled_workload_enqueues_its_budget(covered: Any) -> None:
    budgets = [budget(maxUnavailable=1, **covered)]
    four, five = workload(CLONE_SET, 4), workload(CLONE_SET, 5)
    assert woken(None, four, budgets=budgets) == [KEY]
    assert woken(four, None, budgets=budgets) == [KEY]
    assert woken(four, five, budgets=budgets) == [KEY]
    assert woken(four, four, budgets=budgets) == []
    other = [budget(maxUnavailable=1, target=DEPLOYMENT)]
    assert woken(four, five, budgets=other) == []


def test_a_workload_of_other_pods_enqueues_no_budget() -> None:
    four, five = workload(CLONE_SET, 4), workload(CLONE_SET, 5)
    other = budget(maxUnavailable=1, selector={"matchLabels": {"app": "other"}})
    assert woken(four, five, budgets=[other]) == []
    # if both a target and a selector are stored, the target counts
    both = budget(maxUnavailable=1, target=DEPLOYMENT)
    both["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    assert woken(four, five, budgets=[both]) == []


def test_a_replaced_or_terminating_workload_enqueues_its_budget() -> None:
    four = workload(CLONE_SET, 4)
    another = {**four, "metadata": {**four["metadata"], "uid": "another"}}
    assert woken(four, another) == [KEY]
    assert woken(four, workload(CLONE_SET, 4, deleting=True)) == [KEY]
