"""Pods of a BroadcastJob: those that count, those that are surplus, and new ones."""

import copy
from typing import Any

import pytest

from pykruise.kinds.broadcastjob.snapshot import format_pod_name
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete
from support.broadcast_world import NAME, BroadcastWorld, template


def deletions(world: BroadcastWorld) -> list[tuple[str, str]]:
    """Names of the pods that the plan deletes, with the reasons."""
    return [
        (step.action.key.name, step.because) for step in world.plan().steps if isinstance(step.action, Delete)
    ]


def twin(world: BroadcastWorld, name: str, **metadata: Any) -> dict[str, Any]:
    """A second pod on node n1."""
    twin = copy.deepcopy(world.pod_on("n1"))
    twin["metadata"] |= {"name": f"{NAME}-{name}", "uid": name, **metadata}
    world.pods[twin["metadata"]["name"]] = twin
    return twin


# Several pods of a node


@pytest.mark.parametrize("is_older", [True, False])
@pytest.mark.parametrize("name", ["0-twin", "zzz-twin"])
def test_the_older_of_two_active_pods_of_a_node_stays(is_older: bool, name: str) -> None:
    world = BroadcastWorld(1).sync().run()
    (first,) = world.pods
    twin(world, name, creationTimestamp=f"2026-01-31T{'11:59:59' if is_older else '12:00:01'}Z")

    older, younger = (f"{NAME}-{name}", first) if is_older else (first, f"{NAME}-{name}")
    assert deletions(world) == [(younger, f"node n1 already has pod {older}")]
    (note,) = world.plan().notes
    assert (note.reason, note.warning) == ("DuplicatePodCreatedOnSameNode", True)


def test_a_pod_of_unknown_age_is_the_oldest() -> None:
    world = BroadcastWorld(1).sync().run()
    (first,) = world.pods
    del twin(world, "zzz")["metadata"]["creationTimestamp"]

    assert [name for name, _ in deletions(world)] == [first]


def test_a_pod_that_terminates_is_not_the_one_that_stays() -> None:
    world = BroadcastWorld(1).sync().run().delete_pod("n1", gone=False)
    del twin(world, "zzz", creationTimestamp="2026-01-31T12:00:05Z")["metadata"]["deletionTimestamp"]

    assert deletions(world) == []
    assert not world.plan().notes
    assert world.sync().counts == {"desired": 1, "active": 1, "succeeded": 0, "failed": 0}


def test_a_second_finished_pod_of_a_node_stays_without_a_note() -> None:
    world = BroadcastWorld(2).sync().run().end("n1")
    twin(world, "zzz")

    assert deletions(world) == []
    assert not world.plan().notes


# Restarts


def test_a_pod_that_has_not_restarted_has_not_failed() -> None:
    world = BroadcastWorld(1, template=template(restartPolicy="OnFailure")).sync().restart("n1", 0).sync()
    assert (world.status["phase"], world.counts["active"]) == ("running", 1)


def test_restarts_of_a_pod_that_is_not_to_be_restarted_are_its_nodes_business() -> None:
    """The kubelet restarts the containers of every pod when its node is ready again."""
    world = BroadcastWorld(1).sync().restart("n1", 1).sync()
    assert (world.status["phase"], world.counts["active"]) == ("running", 1)


def test_a_pod_over_its_restart_limit_is_kept_and_reported_while_its_node_fits() -> None:
    world = BroadcastWorld(
        2, failurePolicy={"type": "Continue"}, template=template(restartPolicy="OnFailure")
    )
    world.sync().restart("n1", 1)
    (name,) = (name for name, pod in world.pods.items() if pod is world.pod_on("n1"))
    assert {pod: why.code for pod, why in world.plan().skipped.items()} == {name: Code.POD_FAILED}

    plan = world.cordon("n1").plan()

    assert deletions(world) == [(name, "the node is cordoned")]
    assert plan.skipped == {}
    assert plan.skipped_nodes["n1"].code == Code.UNFIT_NODE


def test_a_pod_that_failed_by_its_restarts_counts_once_when_the_job_ends() -> None:
    """also when it is stopped because its node no longer fits"""
    policy = {"type": "Continue"}
    world = BroadcastWorld(2, failurePolicy=policy, template=template(restartPolicy="OnFailure"))
    world.sync().run().restart("n1", 1).end("n2").cordon("n1").sync(1)

    assert world.status["phase"] == "completed"
    assert world.counts == {"desired": 1, "active": 0, "succeeded": 1, "failed": 1}


# Pods without their node


def test_pods_without_a_node_are_deleted_in_order_with_their_reason() -> None:
    world = BroadcastWorld(3).sync()
    names = {node: world.pod_on(node)["metadata"]["name"] for node in world.placed}
    world.pods = dict(sorted(world.pods.items(), reverse=True))
    del world.pods[names["n3"]]["spec"]["affinity"]
    world.leave("n2").leave("n1").leave("n3")

    assert deletions(world) == sorted(
        [
            (names["n1"], "its node n1 no longer exists"),
            (names["n2"], "its node n2 no longer exists"),
            (names["n3"], "its spec names no node"),
        ]
    )


def test_a_pod_that_ran_on_a_node_that_left_is_not_deleted() -> None:
    world = BroadcastWorld(2).sync().run().leave("n2")
    assert deletions(world) == []
    assert world.sync().counts == {"desired": 1, "active": 2, "succeeded": 0, "failed": 0}


def test_a_pod_failed_by_garbage_collection_does_not_fail_the_job() -> None:
    """A finalizer keeps the pod, and the pod garbage collector has set its phase to Failed."""
    world = BroadcastWorld(2).sync().leave("n2").sync()
    assert world.pod_on("n2")["metadata"]["deletionTimestamp"]

    world.pod_on("n2")["status"] = {"phase": "Failed"}

    assert world.sync().status["phase"] == "running"
    assert world.counts["failed"] == 0


# New pods


def test_nodes_get_their_pods_in_the_order_of_their_names() -> None:
    world = BroadcastWorld(3, parallelism=1)
    world.nodes = dict(reversed(world.nodes.items()))

    assert world.sync().placed == ["n1"]


@pytest.mark.parametrize("short", [{}, {"metadata": None, "spec": None}, {"metadata": {"labels": None}}])
def test_a_template_that_lacks_almost_everything_is_for_the_api_server_to_refuse(
    short: dict[str, Any],
) -> None:
    world = BroadcastWorld(1, template=short)

    (step,) = world.plan().steps

    assert isinstance(step.action, Create)
    assert set(step.action.body["metadata"]["labels"]) == {
        "broadcastjob-name",
        "broadcastjob-controller-uid",
    }
    assert step.failed is not None
    assert (step.failed.reason, step.failed.warning) == ("FailedCreate", True)


def test_a_pods_name_follows_from_job_and_node_and_from_names_that_are_taken() -> None:
    world = BroadcastWorld(1)
    job = world.snapshot().job
    taken = [format_pod_name(job, "n1", number) for number in range(3)]
    assert len(set(taken)) == 3

    for name in taken:
        (step,) = world.plan().steps
        assert step.action.key.name == name
        other = BroadcastWorld(1).sync().pod_on("n1")
        other["metadata"] |= {"name": name, "uid": name, "ownerReferences": []}
        world.pods[name] = other


def test_a_pod_is_deleted_only_at_the_version_that_was_seen() -> None:
    """The pod may have ended since then."""
    plan = BroadcastWorld(3).sync().run().cordon("n2").plan()

    (stage,) = plan.stages
    ((step,),) = (chain.steps for chain in stage.chains)
    assert stage.regardless, "a pod that cannot be deleted keeps no node from getting its own"
    assert isinstance(step.action, Delete)
    assert step.action.resource_version == "1"
    assert step.failed is not None
    assert (step.failed.reason, step.failed.warning) == ("FailedDelete", True)


def test_pods_that_fail_for_the_same_reason_share_one_event() -> None:
    (stage,) = BroadcastWorld(3).plan().stages
    assert all(chain.has_random_name for chain in stage.chains)


def test_a_plan_creates_at_most_256_pods_and_the_next_plan_the_rest() -> None:
    world = BroadcastWorld(257)

    plan = world.plan()

    assert len(list(plan.steps)) == 256
    assert plan.requeue_after_s == 0.0
    assert BroadcastWorld(256).plan().requeue_after_s is None
