"""The use of maxUnavailable, without surge. Nodes are n1 to n5, and maxUnavailable is 1 by default."""

from typing import Any

import pytest

from pykruise.kube.clock import format_time
from support.daemonset_builder import NOW, DaemonSetBuilder, daemonset
from support.plan_views import deleted


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda item: item.without_pod("n2").on("n2").not_ready("n2"), set()),  # a new pod is not ready
        (lambda item: item.deleted("n2"), set()),  # no active pod on n2
        (lambda item: item.on("n2", called="b"), {"n2"}),  # an old and a new one: manage keeps the first
        (lambda item: item.held("n2"), set()),  # the old pod waits in PreparingDelete
        (lambda item: item.on("n2", called="b").held("b"), set()),  # the new pod waits there
        (lambda item: item.on("n2", called="b").old("b").held("b"), set()),  # one of two old ones
        (
            lambda item: item.without_pod("n2").on("n2").held("n2"),
            set(),
        ),  # a new pod serves, and waits in PreparingDelete
        (
            lambda item: item.without_pod("n1", "n2").on("n1", "n2").not_ready("n1", "n2"),
            set(),
        ),  # more than maxUnavailable
    ],
    ids=[
        "new and not ready",
        "terminating",
        "two pods",
        "in PreparingDelete",
        "new and in PreparingDelete",
        "two old pods",
        "serves in PreparingDelete",
        "two nodes",
    ],
)
def test_a_node_that_is_between_uses_up_the_budget(change: Any, expected: set[str]) -> None:
    builder = daemonset(5).all_old()
    plan = change(builder).plan()
    assert deleted(plan) == expected


def test_a_node_without_an_available_pod_uses_one_unavailable_slot() -> None:
    assert deleted(daemonset(5, maxUnavailable=2).all_old().held("n2").plan()) == {"n5"}


def test_a_new_pod_that_is_leaving_counts_once() -> None:
    """and not twice, although it is unavailable too"""
    builder = daemonset(5, maxUnavailable=2).all_old().with_hook()
    builder.without_pod("n5").on("n5").not_ready("n5").leaving("n5").hooked("n5")
    assert deleted(builder.plan()) == {"n4"}


def test_a_pod_that_an_earlier_rollout_took_out_uses_up_the_budget() -> None:
    """The unready pod is replaced, and no other pod with it."""
    # given a third template while the first pod of the second is not ready yet
    builder = daemonset(5, maxUnavailable=1).all_old()
    builder.without_pod("n5").on("n5", old=True).born(5, "n5").set_condition(
        "n5", "Ready", "False", lastTransitionTime=format_time(NOW - 4)
    )
    assert deleted(builder.plan()) == {"n5"}
    # and the same when it is ready, but not for long enough
    builder.with_spec(minReadySeconds=60).ready_for(4, "n5")
    assert deleted(builder.plan()) == {"n5"}


def unready(builder: DaemonSetBuilder, *, since: float, born: float) -> DaemonSetBuilder:
    """Let the pod of n3 be unready since `since` seconds; it was created `born` seconds ago."""
    changed = format_time(NOW - since)
    return builder.born(born, "n3").set_condition("n3", "Ready", "False", lastTransitionTime=changed)


def without_creation_time(builder: DaemonSetBuilder) -> DaemonSetBuilder:
    del builder.not_ready("n3").pods["n3"]["metadata"]["creationTimestamp"]
    return builder


def ready_but_not_running(builder: DaemonSetBuilder) -> DaemonSetBuilder:
    builder.born(100, "n3").ready_for(90, "n3").pods["n3"]["status"]["phase"] = "Unknown"
    return builder


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda item: item.unscheduled("n3"), True),
        (lambda item: unready(item, since=3600, born=3660), True),
        (lambda item: unready(item, since=3600, born=3661), False),
        (without_creation_time, True),
        (ready_but_not_running, False),
    ],
    ids=["not ready yet", "never ready", "failed later", "its creation is not known", "node lost"],
)
def test_an_unready_old_pod_uses_the_budget_unless_it_was_never_healthy(change: Any, counts: bool) -> None:
    plan = change(daemonset(5).all_old()).plan()
    assert deleted(plan) == ({"n3"} if counts else {"n3", "n5"})


def test_min_ready_seconds_hold_the_next_node_back() -> None:
    builder = daemonset(5).with_spec(minReadySeconds=10).all_old()
    builder.without_pod("n5").on("n5").ready_for(4, "n5")
    plan = builder.plan()
    assert deleted(plan) == set()
    assert plan.requeue_after_s == 6
    assert deleted(builder.at(6).plan()) == {"n4"}


def test_pods_are_updated_sequentially_when_neither_limit_is_set() -> None:
    builder = daemonset(5).all_old()
    assert deleted(builder.plan()) == {"n5"}
