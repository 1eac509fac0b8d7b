"""The number of wanted pods, and the pods: for a workload that a budget names, or for the owners of its pods.
Numbers are cases of the specification."""

import random
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.plan import plan_budget
from pykruise.kinds.podunavailablebudget.snapshot import (
    COUNTED_VIEWS,
    BudgetSettings,
    BudgetSnapshot,
    read_snapshot,
)
from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.views import BUDGET_VIEWS
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, STATEFUL_KINDS
from pykruise.runtime.assemble import views_of
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Read
from support.budgets import (
    CLONE_SET,
    DEPLOYMENT,
    NOW,
    Owner,
    Stored,
    ago,
    budget,
    pod,
    target_view,
    tied,
    view,
    workload,
    world,
)
from support.snapshots import control_of, listed, read_of, taken

ROLLOUT = ("argoproj.io/v1alpha1", "Rollout", "web")
SETS = [("apps/v1", "ReplicaSet", f"web-{number}") for number in (1, 2)]


def going(document: Document) -> Document:
    document["metadata"]["deletionTimestamp"] = ago(1)
    return document


def white_list(text: str) -> Document:
    return {"kind": "ConfigMap", "metadata": {"name": CONFIGURATION}, "data": {STATEFUL_KINDS: text}}


ROLLOUTS = white_list(orjson.dumps({"workloads": [{"group": "argoproj.io", "kind": "Rollout"}]}).decode())


def scale(
    replicas: Any, selector: Any = "app=web", *, of: Owner = ROLLOUT, **metadata: Any
) -> Mapping[str, Document]:
    uid = f"uid-{of[1]}-{of[2]}"
    return {
        of[2]: {
            "metadata": {"name": of[2], "uid": uid, **metadata},
            "spec": {"replicas": replicas},
            "status": {"selector": selector},
        }
    }


def names(value: BudgetSnapshot) -> list[str]:
    return [pod.name for pod in value.pods]


def targeting(owner: Owner, *pods: Document, live: Stored | None = None, **fields: Any) -> BudgetSnapshot:
    """The snapshot of a budget that targets this workload."""
    return world(budget(target=owner, maxUnavailable=1), pods, live=live, **fields)


# ── workloads that caches have ───────────────────────────────────────────────


def test_pods_of_a_target_are_the_active_ones_that_it_controls() -> None:
    pods = [
        tied("b"),
        tied("a"),
        tied("failed", phase="Failed"),
        tied("going", deleting=True),
        tied("other", owner=("apps.kruise.io/v1beta1", "CloneSet", "other")),
        tied("orphan", owner=None),
    ]
    result = targeting(CLONE_SET, *pods, workloads=[workload(CLONE_SET, 9)])
    assert (names(result), result.total, result.polls_after_s, result.unknown) == (["a", "b"], 9, None, ())


@pytest.mark.parametrize("workloads", [[], [workload(CLONE_SET, 9, deleting=True)], [workload(CLONE_SET, 0)]])
def test_a_missing_terminating_or_empty_target_has_no_pods_cases_30_to_32(
    workloads: Any,
) -> None:
    result = targeting(CLONE_SET, tied("a"), workloads=workloads)
    assert (names(result), result.total) == ([], 0)


def test_pods_of_a_deployment_are_those_of_its_replicasets_case_33() -> None:
    pods = [tied("p1", owner=SETS[0]), tied("p2", owner=SETS[1]), tied("p3", owner=DEPLOYMENT)]
    deployment, first = workload(DEPLOYMENT, 9), workload(SETS[0], 1, of=DEPLOYMENT)
    other = workload(SETS[1], 1, of=DEPLOYMENT)

    def pods_with(*sets: Document) -> list[str]:
        return names(targeting(DEPLOYMENT, *pods, workloads=[deployment, *sets]))

    assert pods_with(first, other) == ["p1", "p2"]
    # but not those of a terminating ReplicaSet, or of one that its selector does not match
    assert pods_with(first, going(workload(SETS[1], 1, of=DEPLOYMENT))) == ["p1"]
    other["metadata"]["labels"] = {"app": "other"}
    assert pods_with(first, other) == ["p1"]
    # and the pods that it owns directly, if it has no ReplicaSet
    assert pods_with() == ["p3"]


def test_a_replicaset_has_its_own_pods_and_wants_what_its_deployment_wants() -> None:
    pods = [tied("p1", owner=SETS[0]), tied("p2", owner=SETS[1])]
    sets = [workload(item, 2, of=DEPLOYMENT) for item in SETS]
    result = targeting(SETS[0], *pods, workloads=[workload(DEPLOYMENT, 9), *sets])
    assert (names(result), result.total) == (["p1"], 9)
    # and no pods while the Deployment terminates
    result = targeting(SETS[0], *pods, workloads=[workload(DEPLOYMENT, 9, deleting=True), *sets])
    assert (names(result), result.total) == ([], 0)
    # a ReplicaSet has no pods of other ReplicaSets that it owns
    odd = [workload(SETS[0], 2), workload(SETS[1], 2, of=SETS[0])]
    assert names(targeting(SETS[0], *pods, workloads=odd)) == ["p1"]
    # and a workload of another kind with that name has its own replicas
    clone_set = ("apps.kruise.io/v1beta1", "CloneSet", SETS[0][2])
    result = targeting(clone_set, workloads=[workload(DEPLOYMENT, 9), *sets, workload(clone_set, 3)])
    assert result.total == 3
    # and its own replicas if there is no Deployment
    result = targeting(SETS[0], *pods, workloads=[workload(item, 2) for item in SETS])
    assert (names(result), result.total) == (["p1"], 2)


def test_a_target_of_a_kind_that_is_no_longer_served_counts_as_missing() -> None:
    # given a cache of CloneSets that was filled before their definition was deleted
    shown = view(budget(target=CLONE_SET, maxUnavailable=1))
    mirrors = listed(views_of(control_of(KIND), BudgetSettings()), {BUDGET_VIEWS: [shown]})
    views = COUNTED_VIEWS[GroupKind("apps.kruise.io", "CloneSet")]
    mirrors[views] = Listed(views, [target_view(workload(CLONE_SET, 9))], synced=False)
    read = Read(
        mirrors,
        key=shown.key,
        uid=shown.uid,
        now=lambda: NOW,
        rng=random.Random(1),
        settings=BudgetSettings(),
        live=None,
    )
    # then
    result = taken(read_snapshot(shown, read))
    assert result is not None
    assert result.total == 0


def test_a_selector_counts_a_workload_once_and_only_the_one_that_controls_its_pods_case_29() -> None:
    # given two ReplicaSets of a Deployment, a CloneSet, and pods of a workload that was recreated
    gone = tied("p4", owner=("apps.kruise.io/v1beta1", "CloneSet", "anew"))
    anew = workload(("apps.kruise.io/v1beta1", "CloneSet", "anew"), 5)
    anew["metadata"]["uid"] = "another"
    pods = [
        tied("p1", owner=SETS[0]),
        tied("p2", owner=SETS[1]),
        tied("p3"),
        gone,
        tied("p5", phase="Failed", owner=("apps/v1", "StatefulSet", "web")),
    ]
    workloads = [
        workload(DEPLOYMENT, 9),
        *(workload(item, 4, of=DEPLOYMENT) for item in SETS),
        workload(CLONE_SET, 3),
        anew,
        workload(("apps/v1", "StatefulSet", "web"), 7),
    ]
    # when
    result = world(budget(maxUnavailable=1), pods, workloads)
    # then
    assert (names(result), result.total) == (["p1", "p2", "p3", "p4"], 12)
    assert result.polls_after_s is None


# ── workloads that no cache has ──────────────────────────────────────────────


def test_pods_of_a_workload_that_controls_none_are_selected_by_its_scale_case_35() -> None:
    part = ("argoproj.io/v1alpha1", "Part", "web-1")
    pods = [
        tied("p1", owner=part),
        tied("p2", owner=part, phase="Failed"),
        pod("p3", labels={"app": "other"}),
    ]
    live = Stored([workload(ROLLOUT, 9)], scales=scale(4))
    result = targeting(ROLLOUT, *pods, live=live)
    assert (names(result), result.total, result.polls_after_s) == (["p1"], 4, 10)
    # the scale is enough
    assert "Rollout web" not in live.asked
    # and pods that the workload owns precede its selector
    assert names(targeting(ROLLOUT, *pods, tied("p4", owner=ROLLOUT), live=live)) == ["p4"]


@pytest.mark.parametrize("selector", [None, "", 3, "a in"])
def test_a_scale_that_selects_nothing_has_no_pods(selector: Any) -> None:
    live = Stored([workload(ROLLOUT, 9)], scales=scale(4, selector))
    result = targeting(ROLLOUT, tied("p1", owner=None), live=live)
    assert (names(result), result.total) == ([], 4)


@pytest.mark.parametrize(
    ("scales", "forbidden", "total", "unknown"),
    [
        (scale(4), (), 4, []),
        ({"web": {"metadata": {"uid": "uid-Rollout-web"}}}, (), 0, []),
        (scale(0), (), 0, []),
        # its scale has no number, or may not be read
        (scale("4"), (), 0, ["Rollout web"]),
        ({}, (), 0, ["Rollout web"]),
        ({}, ("Rollout",), 0, ["Rollout web"]),
        # it was recreated, or terminates
        (scale(4, uid="another"), (), 0, []),
        (scale(4, deletionTimestamp=ago(1)), (), 0, []),
    ],
)
def test_the_replica_count_of_an_uncached_owner_is_read_from_its_scale(
    scales: Any, forbidden: Any, total: int, unknown: list[str]
) -> None:
    live = Stored([workload(ROLLOUT, 9)], scales=scales, forbidden=forbidden)
    result = world(budget(maxUnavailable=1), [tied("p1", owner=ROLLOUT)], live=live)
    assert (names(result), result.total, list(result.unknown)) == (["p1"], total, unknown)
    # and it is read again
    assert result.polls_after_s == 10


def test_a_workload_of_an_unserved_kind_has_zero_replicas_and_is_polled() -> None:
    result = targeting(ROLLOUT, tied("p1", owner=ROLLOUT))
    assert (names(result), result.total, result.unknown, result.polls_after_s) == ([], 0, (), 10)
    result = world(budget(maxUnavailable=1), [tied("p1", owner=ROLLOUT)])
    assert (names(result), result.total, result.polls_after_s) == (["p1"], 0, 10)


def test_pods_of_a_target_that_may_not_be_read_are_not_known() -> None:
    live = Stored([workload(ROLLOUT, 9)], forbidden=["Rollout"])
    result = targeting(ROLLOUT, tied("p1", owner=ROLLOUT), live=live)
    assert (names(result), result.total, list(result.unknown)) == ([], 0, ["Rollout web"])
    # and nothing claims that the workload does not exist
    assert not result.is_target_missing
    assert targeting(ROLLOUT, live=Stored([])).is_target_missing


@pytest.mark.parametrize(
    "owner",
    [
        ("batch/v1", "Job", "web"),
        ("v1", "Node", "web"),
        ("apps/v1", "DaemonSet", "web"),
        ("apps.kruise.io/v1beta1", "DaemonSet", "web"),
        ("apps.kruise.io/v1beta1", "BroadcastJob", "web"),
    ],
)
def test_owners_that_never_have_a_replica_count_are_not_read(owner: Owner) -> None:
    """pitfall 15"""
    live = Stored()
    result = world(budget(maxUnavailable=1), [tied("p1", owner=owner)], live=live)
    assert (names(result), result.total, list(result.unknown)) == (["p1"], 0, [f"{owner[1]} web"])
    assert (result.polls_after_s, live.asked) == (None, [])


def test_a_target_without_a_replica_count_has_the_pods_that_it_controls() -> None:
    daemons = ("apps/v1", "DaemonSet", "web")
    live = Stored([{**workload(daemons, 0), "spec": {}}])
    result = targeting(daemons, tied("p1", owner=daemons), tied("p2", owner=None), live=live)
    assert (names(result), result.total, list(result.unknown)) == (["p1"], 0, ["DaemonSet web"])


def test_one_uncached_workload_is_enough_to_poll() -> None:
    live = Stored([workload(ROLLOUT, 9)], scales=scale(4))
    pods = [tied("p1", owner=ROLLOUT), tied("p2")]
    result = world(budget(maxUnavailable=1), pods, [workload(CLONE_SET, 3)], live=live)
    assert (result.total, result.polls_after_s) == (7, 10)


def test_workloads_without_a_replica_count_are_named_in_order() -> None:
    daemons = [("apps/v1", "DaemonSet", name) for name in ("z", "a")]
    pods = [tied(f"p{number}", owner=owner) for number, owner in enumerate(daemons)]
    assert world(budget(maxUnavailable=1), pods).unknown == ("DaemonSet a", "DaemonSet z")


# ── kinds like StatefulSets, of the white list ───────────────────────────────


def _listed(replicas: Any = 4, *, text: Document = ROLLOUTS, forbidden: Any = (), **metadata: Any) -> Stored:
    document = workload(ROLLOUT, replicas)
    document["metadata"] |= metadata
    if replicas is None:
        del document["spec"]["replicas"]
    return Stored([document, text], scales=scale(7), forbidden=forbidden)


@pytest.mark.parametrize(
    ("live", "total"),
    [
        (_listed(), 4),
        (_listed(None), 0),
        (_listed("4"), 0),
        (_listed(uid="another"), 0),
        (_listed(deletionTimestamp=ago(1)), 0),
        # it may not be read, but its scale may
        (_listed(forbidden=["Rollout"]), 7),
        # it is not on the list, or the list cannot be read
        (_listed(text=white_list('{"workloads": []}')), 7),
        (_listed(text=white_list("no json")), 7),
        (_listed(forbidden=["ConfigMap"]), 7),
    ],
)
def test_the_replica_count_of_a_whitelisted_workload_is_read_from_its_spec(live: Stored, total: int) -> None:
    result = world(budget(maxUnavailable=1), [tied("p1", owner=ROLLOUT)], live=live)
    assert (names(result), result.total, list(result.unknown)) == (["p1"], total, [])
    assert result.polls_after_s == 10


def test_a_target_of_the_white_list_has_the_pods_that_it_controls() -> None:
    pods = [tied("p1", owner=ROLLOUT), tied("p2", owner=None)]
    result = targeting(ROLLOUT, *pods, live=_listed())
    assert (names(result), result.total) == (["p1"], 4)
    # and none when it is deleted
    gone = Stored([ROLLOUTS])
    result = targeting(ROLLOUT, *pods, live=gone)
    assert (names(result), result.total, result.polls_after_s) == ([], 0, 10)


# ── terminating budgets ──────────────────────────────────────────────────────


def test_a_terminating_budget_reads_nothing() -> None:
    live = Stored([workload(ROLLOUT, 9)], scales=scale(4))
    doc = budget(target=ROLLOUT, maxUnavailable=1, deleting=True)
    result = world(doc, [tied("p1", owner=ROLLOUT)], live=live)
    assert (names(result), live.asked) == ([], [])


def test_a_deleted_budget_is_not_planned() -> None:
    shown = view(budget(maxUnavailable=1))
    read = read_of(KIND, shown, {BUDGET_VIEWS: []}, settings=BudgetSettings(), now=NOW)
    assert taken(read_snapshot(shown, read)) is None


# ── other budgets, the total ─────────────────────────────────────────────────


def test_other_budgets_exclude_terminating_ones() -> None:
    others = [budget("other", maxUnavailable=1), budget("going", maxUnavailable=1, deleting=True)]
    result = world(budget(maxUnavailable=1), [tied("p1", to="going"), tied("p2", to="other")], others=others)
    assert result.others == {"other"}
    # a pod of a terminating budget is taken over
    assert {step.action.key.name for step in plan_budget(result).steps} == {"p1"}


def test_protect_total_replicas_overrides_the_workloads_replicas_case_34() -> None:
    doc = budget(target=CLONE_SET, maxUnavailable=1, protectTotalReplicas=15)
    assert world(doc, [tied("p1")], [workload(CLONE_SET, 9)]).total == 15


def test_a_budget_without_a_selector_that_can_be_read_has_no_pods() -> None:
    wrong = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
    result = world(budget(selector=wrong, maxUnavailable=1), [tied("p1")], [workload(CLONE_SET, 9)])
    assert (names(result), result.total) == ([], 0)
    plan = plan_budget(result)
    assert [(note.reason, note.warning) for note in plan.notes] == [("InvalidSpec", True)]
    # and the status stays as it is
    assert (plan.stages, plan.status) == ((), None)
