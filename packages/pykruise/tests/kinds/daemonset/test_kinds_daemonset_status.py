"""The status of a DaemonSet."""

from typing import Any

import pytest

from pykruise.kinds.daemonset.waiting import NAMED_AFTER_S
from pykruise.kube.clock import format_time
from pykruise.pods.view import keys
from support.daemonset_builder import NOW, DaemonSetBuilder, daemonset, updatable


def status(builder: DaemonSetBuilder) -> dict[str, Any]:
    status = builder.plan().status
    assert status is not None
    return status


def test_a_converged_daemonset_has_a_complete_status() -> None:
    builder = daemonset(3)
    assert status(builder) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "numberAvailable": 3,
        "updatedNumberScheduled": 3,
        "updateRevision": builder.update_hash,
        "observedGeneration": 3,
    }


def test_an_unchanged_status_is_not_written_again() -> None:
    builder = daemonset(3)
    builder.with_status(**status(builder))
    assert builder.plan().is_settled


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda item: item.without_pod("n1"), {"currentNumberScheduled": 2, "numberUnavailable": 1}),
        (lambda item: item.not_ready("n1"), {"numberReady": 2, "numberAvailable": 2}),
        (lambda item: item.old("n1"), {"updatedNumberScheduled": 2}),
        (lambda item: item.with_spec(minReadySeconds=10).ready_for(5, "n1"), {"numberAvailable": 2}),
        (lambda item: item.taint("n1", "x:NoSchedule"), {"numberMisscheduled": 1, "numberReady": 2}),
        (lambda item: item.deleted("n1"), {"currentNumberScheduled": 3, "numberReady": 3}),
        (lambda item: item.leaving("n1"), {"numberAvailable": 3}),
        (lambda item: item.without_node("n1"), {"desiredNumberScheduled": 2, "numberMisscheduled": 0}),
    ],
    ids=[
        "missing",
        "not ready",
        "old",
        "not ready long",
        "misscheduled",
        "terminating",
        "leaving",
        "no node",
    ],
)
def test_each_counter_counts_nodes(change: Any, expected: dict[str, int]) -> None:
    nodes = status(change(daemonset(3)))
    assert {field: nodes.get(field, 0) for field in expected} == expected


def test_during_surge_the_older_pod_is_the_one_that_counts() -> None:
    builder = daemonset(1).surging().all_old().on("n1", called="new").born(5, "new")
    assert status(builder)["updatedNumberScheduled"] == 0
    builder.without_pod("n1")
    assert status(builder)["updatedNumberScheduled"] == 1


def test_a_pod_in_the_middle_of_an_update_in_place_is_not_available() -> None:
    builder = updatable(2).set_condition("n1", keys.IN_PLACE_READY, "False")
    result = status(builder)
    assert (result["numberReady"], result["numberAvailable"]) == (2, 1)


def test_the_generation_of_old_makes_a_pod_updated() -> None:
    builder = daemonset(3).all_old()
    builder.document["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "7"}
    builder.labelled({"pod-template-generation": "7"}, "n1", "n2")
    builder.labelled({"pod-template-generation": "6"}, "n3")
    assert status(builder)["updatedNumberScheduled"] == 2


def test_a_pod_that_is_not_ready_will_not_be_available_by_time_alone() -> None:
    builder = daemonset(2).with_spec(minReadySeconds=10)
    builder.set_condition("n1", "Ready", "False", lastTransitionTime=format_time(NOW - 4))
    assert builder.plan().requeue_after_s == NAMED_AFTER_S - 4


def test_a_pod_that_is_ready_since_an_unknown_time_is_never_available_by_time_alone() -> None:
    builder = daemonset(2).with_spec(minReadySeconds=10)
    builder.set_condition("n1", "Ready", "True", lastTransitionTime=None)
    plan = builder.plan()
    assert plan.requeue_after_s is None
    assert plan.status is not None
    assert (plan.status["numberReady"], plan.status["numberAvailable"]) == (2, 1)


def test_number_available_is_zero_when_no_node_should_run_a_pod() -> None:
    assert status(daemonset(0))["numberAvailable"] == 0
    assert "numberAvailable" not in status(daemonset(1).not_ready("n1"))


def test_observed_generation_never_decreases() -> None:
    """daemonset case 59: the generation of the plan, but never less than the stored one"""
    assert status(daemonset(1).with_status(observedGeneration=9))["observedGeneration"] == 9


def test_the_set_is_requeued_when_a_pod_becomes_available() -> None:
    plan = daemonset(2).with_spec(minReadySeconds=10).ready_for(4, "n1").plan()
    assert plan.requeue_after_s == 6
    plan = daemonset(2).with_spec(minReadySeconds=1).ready_for(0, "n1").at(0.5).plan()
    assert plan.requeue_after_s == 0.5


def test_conditions_of_others_stay() -> None:
    mine = {"type": "Mine", "status": "True"}
    assert status(daemonset(1).with_status(conditions=[mine]))["conditions"] == [mine]
