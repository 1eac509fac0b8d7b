"""Updates with maxSurge: a node gets its new pod beside the old one. Nodes are n1 to n5; maxSurge is 1 by default."""

import pytest

from pykruise.pods.reasons import Code
from support.daemonset_builder import NOW, DaemonSetBuilder, created_on, daemonset
from support.plan_views import deleted, left


def surging(amount: int | str = 1) -> DaemonSetBuilder:
    """A DaemonSet with maxSurge, whose pods are all old."""
    return daemonset(5).surging(amount).all_old()


def beside(builder: DaemonSetBuilder, short: str) -> DaemonSetBuilder:
    """Add a new pod that is not ready yet beside the old one."""
    return builder.on(short, called=f"{short}-new").born(5, f"{short}-new").not_ready(f"{short}-new")


def test_an_old_pod_is_deleted_when_its_surge_pod_is_available() -> None:
    """daemonset case 48"""
    builder = daemonset(5).surging().all_old().with_spec(minReadySeconds=10)
    plan = builder.plan()
    assert created_on(plan) == ["n5"]
    codes = {name: reason.code for name, reason in plan.skipped.items()}
    assert codes == {"web-n5": Code.TURN, **{f"web-n{number}": Code.BUDGET for number in range(1, 5)}}
    # when the new pod is ready
    builder.on("n5", called="new").born(5, "new").ready_for(4, "new")
    plan = builder.plan()
    assert not plan.stages
    assert plan.requeue_after_s == 6
    assert left(plan)["n5"] == "stays until web-new is available"
    # and is ready for minReadySeconds
    builder.at(6)
    assert deleted(builder.plan()) == {"n5"}


def test_an_old_unready_pod_is_replaced_regardless_of_the_surge_budget() -> None:
    """daemonset case 49"""
    builder = daemonset(5).surging().all_old().on("n5", called="new").born(5, "new").not_ready("new", "n2")
    assert created_on(builder.plan()) == ["n2"]


def test_a_surging_pod_that_never_gets_ready_holds_the_rollout_at_one() -> None:
    """daemonset case 50"""
    builder = daemonset(5).surging().all_old().on("n5", called="new").born(5, "new").not_ready("new")
    plan = builder.plan()
    assert not plan.stages
    assert left(plan)["n4"] == "waits for its turn: maxSurge is used up"


@pytest.mark.parametrize(("amount", "expected"), [(1, []), (2, ["n4"]), (3, ["n4", "n3"])])
def test_an_unavailable_new_pod_uses_one_surge_slot(amount: int, expected: list[str]) -> None:
    assert created_on(beside(surging(amount), "n5").plan()) == expected


def test_an_exceeded_surge_creates_no_further_pod() -> None:
    assert created_on(beside(beside(surging(), "n5"), "n4").plan()) == []


def test_an_unready_old_pod_is_deleted_once_its_successor_exists() -> None:
    builder = daemonset(5).surging().all_old().on("n5", called="new").born(5, "new").not_ready("new", "n5")
    assert deleted(builder.plan()) == {"n5"}


def test_while_paused_a_surge_in_flight_is_still_finished() -> None:
    builder = daemonset(5, paused=True).surging().all_old().on("n5", called="new").born(5, "new")
    assert deleted(builder.plan()) == {"n5"}
    # and until then the old pod stays
    assert builder.not_ready("new").plan().skipped["web-n5"].code == Code.TURN


@pytest.mark.parametrize("amount", [1, "10%"])
def test_under_surge_a_node_gets_its_pod_while_the_last_one_terminates(amount: int | str) -> None:
    assert created_on(daemonset(5).surging(amount).deleted("n3").plan()) == ["n3"]


def test_surge_creates_nothing_on_a_node_that_must_not_get_a_pod() -> None:
    builder = daemonset(5).surging().all_old().taint("n5", "x:NoSchedule")
    plan = builder.plan()
    assert created_on(plan) == ["n4"]
    assert "x:NoSchedule" in left(plan)["n5"]


def test_one_old_and_one_new_of_three_pods_on_a_node_stay() -> None:
    builder = daemonset(1).surging().all_old().on("n1", called="new").born(5, "new").not_ready("new")
    builder.on("n1", called="more").born(4, "more")
    assert deleted(builder.plan()) == {"more"}


def test_a_node_with_two_old_pods_gets_no_surge_pod_before_one_is_deleted() -> None:
    """daemonset 6.8.4: the node uses one surge slot"""
    builder = surging(2).on("n2", called="b").old("b")
    assert created_on(builder.held("b").plan()) == ["n5"]


def test_a_terminating_old_pod_uses_no_surge_slot() -> None:
    """daemonset 6.8.4"""
    assert created_on(beside(surging(), "n5").held("n5").plan()) == ["n4"]


def test_a_terminating_new_pod_uses_its_surge_slot_and_the_old_pod_stays() -> None:
    """daemonset 6.8.4"""
    plan = surging().on("n5", called="b").held("b").plan()
    assert (created_on(plan), deleted(plan)) == ([], set())
    assert plan.skipped["web-n5"].code == Code.TURN


def test_a_failed_old_pod_is_deleted_immediately_when_its_successor_is_available() -> None:
    """daemonset 6.8.4: the backoff is only for a replacement, and the successor exists already"""
    builder = surging().phase("Failed", "n5").on("n5", called="new").born(5, "new")
    builder.failed_until = {"n5": NOW + 60}
    assert deleted(builder.plan()) == {"n5"}


@pytest.mark.parametrize(("partition", "code"), [(4, Code.TURN), (5, Code.PARTITION)])
def test_settled_nodes_use_the_slots_of_the_partition_by_name(partition: int, code: str) -> None:
    """daemonset 6.8.2: ordered by name, before and after nodes whose update has just begun"""
    builder = surging().on("n5", called="b").held("b").with_rolling(partition=partition)
    builder.without_pod("n3", "n4").on("n3", "n4")
    assert builder.plan().skipped["web-n5"].code == code


def test_a_surge_in_flight_uses_the_slot_that_the_partition_leaves() -> None:
    """daemonset 6.8.2"""
    assert created_on(beside(surging(2).with_rolling(partition=4), "n1").plan()) == []
