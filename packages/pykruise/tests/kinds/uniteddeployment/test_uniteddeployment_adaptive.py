"""Subsets without nodes: pods that move on, and pods in reserve."""

from typing import Any

import pytest

from pykruise.kinds.uniteddeployment.workloads import (
    DEPLOYMENT,
    RESERVED_LABEL,
    REVISION_LABEL,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.resources import PODS
from support.united_world import (
    UnitedWorld,
    adaptive,
    reserve,
    subset,
)
from support.uniteddeployments import template_of

# ── adaptive ─────────────────────────────────────────────────────────────


def test_a_subset_without_nodes_is_passed_over_and_the_next_one_takes_its_pods() -> None:
    """uniteddeployment cases 47 and 51"""
    world = adaptive("a", subset("b", maxReplicas=2), "c", replicas=6).settle()
    world.set_subsets(subset("a", minReplicas=2, maxReplicas=2), subset("b", minReplicas=2), "c").settle()
    sizes = world.sizes()
    world.close("b").evict("b")
    plan = world.plan()
    assert plan.requeue_after_s == 30
    world.pass_time(31).sync()
    assert world.condition("Schedulable", "b") | {"lastTransitionTime": ""} == {
        "type": "Schedulable",
        "status": "False",
        "reason": "reschedule",
        "message": "timeout pending pods found",
        "lastTransitionTime": "",
    }
    assert world.sizes()["b"] == 2, "its minimum stays"
    assert sum(world.sizes().values()) == sum(sizes.values())


def two_zones(**more: Any) -> UnitedWorld:
    """Subset a takes up to four pods, and b takes the rest."""
    return adaptive(subset("a", minReplicas=0, maxReplicas=4), "b", replicas=4, **more).settle()


def test_pods_of_a_closed_zone_move_and_stay_when_its_nodes_return() -> None:
    """uniteddeployment cases 47, 48, 49"""
    world = two_zones()
    assert world.sizes() == {"a": 4, "b": 0}
    # when zone a has no nodes any longer
    world.close("a").evict("a").pass_time(31).settle()
    assert world.sizes() == {"a": 0, "b": 4}
    # then a gets no new pods for a while
    world.open("a").change(replicas=6).settle()
    assert world.sizes() == {"a": 0, "b": 6}
    assert world.plan().requeue_after_s == pytest.approx(300, abs=1)
    # and later only new pods
    world.pass_time(301).settle()
    condition = world.condition("Schedulable", "a")
    assert (condition["status"], condition["reason"]) == ("True", "recover")
    assert condition["message"] == "unschedulable subset recovered after 300.000000 seconds"
    assert world.sizes() == {"a": 0, "b": 6}, "pods that run are not moved"
    assert world.change(replicas=8).settle().sizes() == {"a": 2, "b": 6}


def test_a_zone_that_is_still_unschedulable_after_its_recovery_time_is_closed_again() -> None:
    world = two_zones()
    world.set_subsets(subset("a", minReplicas=1, maxReplicas=4), "b").close("a").evict("a")
    world.pass_time(31).settle()
    first = world.condition("Schedulable", "a")["lastTransitionTime"]
    world.pass_time(301).sync()
    again = world.condition("Schedulable", "a")
    assert again["status"] == "False"
    assert parse_time(again["lastTransitionTime"]) - parse_time(first) == 301


def test_pods_that_wait_for_something_else_are_not_counted() -> None:
    """uniteddeployment case 50"""
    world = two_zones()
    for pod in world.pods_of("a"):
        pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    world.of("a")["status"]["readyReplicas"] = 0
    world.pass_time(60).sync()
    assert world.condition("Schedulable", "a") == {}
    assert world.sizes() == {"a": 4, "b": 0}


def test_after_growing_it_is_requeued() -> None:
    """uniteddeployment case 51"""
    world = two_zones().change(replicas=8)
    assert world.plan().requeue_after_s == 30


def test_negative_seconds_count_as_zero() -> None:
    world = two_zones()
    world.spec["topology"]["scheduleStrategy"]["adaptive"] = {
        "rescheduleCriticalSeconds": -5,
        "unschedulableDuration": -5,
    }
    world.close("a").evict("a").sync()
    assert world.sizes() == {"a": 0, "b": 4}


# ── pods in reserve ──────────────────────────────────────────────────────


def test_every_pod_has_a_reserved_label_and_the_selector_excludes_reserved_pods() -> None:
    """uniteddeployment case 59"""
    world = reserve("a", "b", replicas=2).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 2}
    assert world.status["labelSelector"] == f"app=web,{RESERVED_LABEL}=false"


def test_pods_without_a_node_have_substitutes_until_they_have_been_ready_for_long_enough() -> None:
    """uniteddeployment cases 52 and 53"""
    world = reserve("a", "b", replicas=2).settle()
    assert world.sizes() == {"a": 2, "b": 0}
    world.close("a").evict("a").pass_time(31).settle()
    # then the pods stay, and b has substitutes
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}
    assert world.sizes() == {"a": 2, "b": 2}
    assert (world.status["replicas"], world.status["reservedPods"]) == (2, 2)
    assert world.entry("a")["reservedPods"] == 2
    assert world.condition("Schedulable", "a")["message"] == "reserved pods found"
    assert world.plan().waiting is not None
    # when one of them gets its node
    lucky = world.pods_of("a")[0]
    lucky["spec"]["nodeName"] = "n1"
    world.act().sync()
    assert world.sizes() == {"a": 2, "b": 2}, "not before it was ready for a while"
    world.pass_time(61).settle()
    assert lucky["metadata"]["labels"][RESERVED_LABEL] == "false" or world.labels(RESERVED_LABEL, "a") == {
        "true": 1,
        "false": 1,
    }
    assert world.sizes() == {"a": 2, "b": 1}


def test_a_recovered_subset_that_grows_begins_with_pods_in_reserve() -> None:
    """uniteddeployment case 54"""
    world = reserve(subset("a", minReplicas=0, maxReplicas=4), "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).settle()
    assert world.sizes() == {"a": 2, "b": 2}
    world.change(replicas=4).settle()
    assert world.sizes() == {"a": 2, "b": 4}
    # when the nodes are back, and the pods of a have been ready for long enough
    world.open("a").act().sync().pass_time(61).sync()
    # then a grows, its new pods are in reserve, and the substitutes stay
    assert world.sizes()["a"] == 4
    assert world.condition("Schedulable", "a")["status"] == "False"
    world.act().sync()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 2, "true": 2}
    assert world.sizes() == {"a": 4, "b": 2}
    # until the new pods, too, are ready for long enough
    world.pass_time(61).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 4}
    assert world.sizes() == {"a": 4, "b": 0}
    assert world.condition("Schedulable", "a")["status"] == "True", "it grows no more"


def test_pods_of_a_new_subset_begin_in_reserve() -> None:
    """uniteddeployment case 55"""
    world = reserve(subset("a", maxReplicas=2), "b", replicas=4).settle()
    world.set_subsets(subset("a", maxReplicas=2), subset("c", minReplicas=2), "b").sync()
    assert world.condition("Schedulable", "c")["status"] == "False"
    world.act().sync()
    assert set(world.labels(RESERVED_LABEL, "c")) == {"true"}
    assert world.sizes()["b"] == 2, "until then no subset gives up a working pod for them"
    world.pass_time(61).settle()
    assert world.sizes() == {"a": 2, "b": 0, "c": 2}


def test_reserved_pods_do_not_block_an_update() -> None:
    """uniteddeployment case 56"""
    world = reserve("a", "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).settle()
    block = world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]
    assert block["maxUnavailable"] == 2
    assert "maxUnavailable" not in world.of("b")["spec"]["updateStrategy"]["rollingUpdate"]
    # at least one pod at a time, while the pods are ready, but have not been ready for long enough
    world.open("a").act().sync()
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}
    assert world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 1
    # and later maxUnavailable is that of the template again
    world.pass_time(61).settle()
    assert "maxUnavailable" not in world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]


def test_an_update_completes_without_the_reserved_pods() -> None:
    world = reserve("a", "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).settle()
    before = world.status["currentRevision"]
    world.set_image("nginx:2").settle()
    assert world.status["currentRevision"] == world.status["updatedRevision"] != before
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}


def test_a_deployment_that_recreates_gets_no_rolling_update() -> None:
    template = template_of(DEPLOYMENT, strategy={"type": "Recreate"})
    world = reserve("a", "b", replicas=2, template=DEPLOYMENT)
    world.spec["template"] = template
    world.settle().close("a").evict("a").pass_time(31).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}
    assert world.of("a")["spec"]["strategy"] == {"type": "Recreate"}


def test_pods_that_a_partition_keeps_are_not_in_reserve_for_it() -> None:
    """uniteddeployment case 57"""
    world = reserve("a", "b", replicas=4).settle()
    world.partitions(a=2).set_image("nginx:2").settle()
    assert len(world.labels(REVISION_LABEL, "a")) == 2
    world.pass_time(3600).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 4}


def test_pods_whose_update_takes_too_long_are_in_reserve() -> None:
    world = reserve("a", "b", replicas=4).settle()
    world.partitions(a=2).set_image("nginx:2").settle()
    # the partition is 0, and the workload does not update its pods
    world.partitions(a=0)
    world.sync()
    assert world.plan().requeue_after_s is not None
    world.pass_time(31).sync()
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2, "false": 2}
    assert world.sizes() == {"a": 4, "b": 2}
    block = world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]
    assert block["maxUnavailable"] == 2, "the two that are late, though they are ready"


def test_terminating_pods_are_not_in_reserve() -> None:
    """uniteddeployment case 58"""
    world = reserve("a", "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).sync()
    for pod in world.pods_of("a"):
        pod["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.sync()
    assert world.entry("a").get("reservedPods", 0) == 0


def test_pods_are_only_written_to_in_reserve_mode() -> None:
    for world in (UnitedWorld("a", "b", replicas=4).settle(), two_zones()):
        world.close("a").evict("a").pass_time(31).settle()
        assert all(action.resource != PODS for action in world.written)
