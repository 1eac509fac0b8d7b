"""Plans of a BroadcastJob: the numbered cases of its specification, without a cluster."""

import orjson
import pytest

from pykruise.kinds.broadcastjob.snapshot import BROADCAST_JOB_VIEWS, BroadcastJobSettings
from pykruise.kube.resources import PODS
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Patch
from support.broadcast_world import NAME, NOW, UID, BroadcastWorld, template

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def test_every_node_gets_a_pod_in_growing_batches_case_6() -> None:
    world = BroadcastWorld(5)

    plan = world.plan()
    world.sync()

    (stage,) = [stage for stage in plan.stages if stage.purpose is Purpose.CREATE_PODS]
    assert stage.ramp
    assert world.placed == ["n1", "n2", "n3", "n4", "n5"]
    assert world.counts == {"desired": 5, "active": 5, "succeeded": 0, "failed": 0}
    assert world.status["phase"] == "running"


def test_a_pod_has_the_metadata_of_its_template_and_its_job() -> None:
    labelled = template()
    labelled["metadata"] |= {"annotations": {"a": "b"}, "finalizers": ["x/y"]}
    world = BroadcastWorld(1, template=labelled)

    world.sync()

    (pod,) = world.pods.values()
    metadata = pod["metadata"]
    assert metadata["generateName"] == f"{NAME}-"
    assert metadata["labels"] == {
        "app": "prepull",
        "broadcastjob-name": NAME,
        "broadcastjob-controller-uid": UID,
    }
    assert (metadata["annotations"], metadata["finalizers"]) == ({"a": "b"}, ["x/y"])
    (owner,) = metadata["ownerReferences"]
    assert owner == {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "BroadcastJob",
        "name": NAME,
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert "nodeName" not in pod["spec"]


def test_pods_get_their_node_name_directly_when_the_flag_is_set() -> None:
    world = BroadcastWorld(2)
    world.settings = BroadcastJobSettings(assign_by_scheduler=False)

    world.sync()

    assert sorted(pod["spec"]["nodeName"] for pod in world.pods.values()) == ["n1", "n2"]
    assert all("affinity" not in pod["spec"] for pod in world.pods.values())


def test_never_more_than_parallelism_are_active_case_7() -> None:
    world = BroadcastWorld(5, parallelism=2)

    for _ in range(5):
        world.sync().run()
        active = [n for n in world.placed if world.pod_on(n)["status"]["phase"] == "Running"]
        if active:
            world.end(active[0])
    for _ in range(3):
        world.sync().end()

    assert world.most_active == 2
    assert world.sync().status["phase"] == "completed"
    assert world.counts["succeeded"] == 5


@pytest.mark.parametrize("parallelism", ["50%", "50"])
def test_a_share_is_of_the_nodes_and_rounded_up_case_8(parallelism: str) -> None:
    world = BroadcastWorld(5, parallelism=parallelism).sync()

    assert world.counts["active"] == 3


def test_parallelism_zero_starts_nothing_case_9() -> None:
    world = BroadcastWorld(5, parallelism=0).sync()

    assert not world.pods
    assert (world.status["phase"], world.condition) == ("running", "")
    assert world.plan().skipped_nodes["n1"].code is Code.LIMIT_IS_ZERO


def test_lowering_parallelism_deletes_nothing_case_10() -> None:
    world = BroadcastWorld(5).sync()

    world.spec(parallelism=2).sync(1)

    assert len(world.pods) == 5
    assert "TooManyActivePods" in world.events
    assert "SuccessfulDelete" not in world.events


def test_a_cordoned_node_gets_no_pod_unless_that_is_tolerated_case_11() -> None:
    world = BroadcastWorld(5).cordon("n3").sync()
    tolerant = BroadcastWorld(5, template=template(tolerations=[UNSCHEDULABLE])).cordon("n3").sync()

    assert world.placed == ["n1", "n2", "n4", "n5"]
    assert world.counts["desired"] == 4
    assert world.plan().skipped_nodes["n3"].message == "the node is cordoned"
    assert tolerant.counts["desired"] == 5


def test_a_tainted_node_gets_its_pod_when_the_taint_is_removed_case_12() -> None:
    world = BroadcastWorld(5).taint("n3", "node.kubernetes.io/not-ready").sync()
    assert world.placed == ["n1", "n2", "n4", "n5"]

    world.untaint("n3").sync()

    assert "n3" in world.placed


def test_a_node_without_room_even_when_empty_is_not_desired_case_13() -> None:
    hungry = template(containers=[{"name": "main", "image": "x", "resources": {"requests": {"cpu": "64"}}}])
    too_small = BroadcastWorld(5, template=hungry).sync()
    no_pods = BroadcastWorld(5)
    no_pods.nodes["n2"]["status"]["allocatable"] = {}

    assert too_small.counts["desired"] == 0
    assert no_pods.sync().placed == ["n1", "n3", "n4", "n5"]


def test_the_job_completes_when_all_have_succeeded_case_14() -> None:
    world = BroadcastWorld(5).sync().end().pass_time(10).sync()

    assert (world.status["phase"], world.condition) == ("completed", "Complete")
    assert world.status["completionTime"] == "2026-01-31T12:00:10Z"
    assert world.status["startTime"] == "2026-01-31T12:00:00Z"
    assert world.counts == {"desired": 5, "active": 0, "succeeded": 5, "failed": 0}
    assert world.events.count("JobComplete") == 1


def test_a_completed_job_leaves_new_nodes_alone_case_15() -> None:
    world = BroadcastWorld(2).sync().end().sync().join("n9").sync()
    endless = BroadcastWorld(2, completionPolicy={"type": "Never"}).sync().end().sync().join("n9").sync()

    assert "n9" not in world.placed
    assert "n9" in endless.placed
    assert endless.status["phase"] == "running"


def test_the_job_waits_without_an_eligible_node_case_16() -> None:
    world = BroadcastWorld(1).cordon("n1").sync()
    assert (world.counts["desired"], world.status["phase"], world.condition) == (0, "running", "")

    world.cordon("n1", on=False).sync()

    assert world.placed == ["n1"]


def test_fail_fast_stops_the_others_case_17() -> None:
    world = BroadcastWorld(3).sync().run().fail("n1").sync()

    assert (world.status["phase"], world.condition) == ("failed", "Failed")
    assert world.counts == {"desired": 3, "active": 0, "succeeded": 0, "failed": 3}
    assert world.events.count("failed pod is found") == 1
    assert world.let_go().placed == ["n1"]


def test_continue_completes_with_failures_case_18() -> None:
    world = BroadcastWorld(5, failurePolicy={"type": "Continue"}).sync().end().fail("n2").sync()

    assert (world.status["phase"], world.condition) == ("completed", "Complete")
    assert (world.counts["succeeded"], world.counts["failed"]) == (4, 1)


def test_the_pause_policy_stops_new_pods_with_one_event_case_19() -> None:
    world = BroadcastWorld(3, failurePolicy={"type": "Pause"}, parallelism=2).sync().run().fail("n1")

    world.sync(5).sync(5)

    assert world.status["phase"] == "paused"
    assert world.document["spec"]["paused"] is True
    assert world.pod_on("n2")["status"]["phase"] == "Running"
    assert "n3" not in world.placed
    assert world.events.count("Paused") == 1
    assert "Continue" not in world.events


def test_a_resumed_job_reruns_the_node_whose_failed_pod_was_deleted_case_20() -> None:
    world = BroadcastWorld(2, failurePolicy={"type": "Pause"}).sync().run().fail("n1").sync(5)

    world.delete_pod("n1").spec(paused=False).sync()

    assert world.events.count("Continue") == 1
    assert world.status["phase"] == "running"
    assert world.pod_on("n1")["status"]["phase"] == "Pending"


def test_a_job_that_is_resumed_with_a_failed_pod_pauses_again() -> None:
    world = BroadcastWorld(2, failurePolicy={"type": "Pause"}).sync().run().fail("n1").sync(5)

    world.spec(paused=False).sync(5)

    assert world.document["spec"]["paused"] is True
    assert world.events.count("Paused") == 2


@pytest.mark.parametrize(("counts", "failed"), [((1, 1), 0), ((2, 1), 1)])
def test_restarts_of_a_pod_count_together_case_21(counts: tuple[int, ...], failed: int) -> None:
    policy = {"type": "Continue", "restartLimit": 2}
    world = BroadcastWorld(2, failurePolicy=policy, template=template(restartPolicy="OnFailure"))

    world.sync().restart("n1", *counts).sync()

    assert (world.counts["failed"], world.counts["active"]) == (failed, 2 - failed)
    assert world.status["phase"] == "running", "it goes on restarting, so the job does not end"


def test_the_first_restart_fails_the_pod_without_a_limit_case_22() -> None:
    world = BroadcastWorld(2, template=template(restartPolicy="OnFailure")).sync().restart("n1", 1).sync()

    assert world.status["phase"] == "failed"


def test_a_deadline_fails_the_job_without_another_event_case_23() -> None:
    world = BroadcastWorld(2, completionPolicy={"activeDeadlineSeconds": 60}).sync().run().sync()
    plan = world.plan()
    assert plan.requeue_after_s == pytest.approx(60)

    world.pass_time(60).sync()

    assert world.events.count("DeadlineExceeded") == 1
    assert (world.status["phase"], world.counts["failed"]) == ("failed", 2)
    assert not world.let_go().pods


def test_a_deadline_survives_a_restart_of_the_manager_case_24() -> None:
    world = BroadcastWorld(2, completionPolicy={"activeDeadlineSeconds": 60}).sync().run().pass_time(30)

    assert world.plan().requeue_after_s == pytest.approx(30)


def test_an_active_deadline_of_zero_fails_the_job_immediately() -> None:
    world = BroadcastWorld(2, completionPolicy={"activeDeadlineSeconds": 0}).sync()

    assert (world.status["phase"], world.pods) == ("failed", {})


@pytest.mark.parametrize("ttl", [0, 30])
def test_a_finished_job_is_deleted_after_its_ttl_case_25(ttl: int) -> None:
    policy = {"type": "Always", "ttlSecondsAfterFinished": ttl}
    world = BroadcastWorld(2, completionPolicy=policy).sync().end()
    world.carry_out(world.plan())
    assert not world.is_gone

    if ttl:
        assert world.pass_time(29).sync().is_gone is False
        assert world.plan().requeue_after_s == pytest.approx(1)
    world.pass_time(1).sync()

    assert world.is_gone


def test_an_unfinished_job_is_kept_case_26() -> None:
    world = BroadcastWorld(2, completionPolicy={"ttlSecondsAfterFinished": 0}).sync().pass_time(3600).sync()

    assert not world.is_gone


def test_a_job_that_is_created_paused_waits_case_27() -> None:
    world = BroadcastWorld(2, paused=True).sync()
    assert (world.pods, world.status["phase"]) == ({}, "paused")
    assert world.plan().waiting is not None

    world.spec(paused=False).sync()

    assert world.events[0] == "Continue"
    assert world.placed == ["n1", "n2"]


def test_a_paused_job_completes_when_it_is_resumed_case_28() -> None:
    world = BroadcastWorld(2).sync().spec(paused=True).sync().end().sync()
    assert world.status["phase"] == "paused"

    world.spec(paused=False).sync()

    assert (world.status["phase"], world.condition) == ("completed", "Complete")
    assert sorted(world.events[-2:]) == ["Continue", "JobComplete"]


def test_cordoning_a_node_takes_its_running_pod_away_case_29() -> None:
    world = BroadcastWorld(3).sync().run().cordon("n2").sync().let_go().sync()

    assert world.placed == ["n1", "n3"]
    assert world.counts["desired"] == 2


def test_a_succeeded_pod_is_kept_when_its_node_becomes_unfit_case_30() -> None:
    world = BroadcastWorld(3).sync().run().end("n2").sync()

    world.taint("n2", "node.kubernetes.io/not-ready").sync()

    assert world.placed == ["n1", "n2", "n3"]
    assert (world.counts["succeeded"], world.counts["desired"]) == (1, 3)


def test_a_manually_deleted_pod_is_created_again_case_31() -> None:
    world = BroadcastWorld(1).sync().run().delete_pod("n1", gone=False).sync()
    assert (world.status["phase"], world.counts["active"]) == ("running", 0)

    world.let_go().sync()

    assert world.counts["active"] == 1


def test_a_failed_creation_is_reported_and_stops_the_others_case_32() -> None:
    plan = BroadcastWorld(5).plan()

    (stage,) = plan.stages
    assert stage.ramp, "1, 2, 4 …: what is refused costs one call"
    assert all(step.failed is not None and step.failed.reason == "FailedCreate" for step in plan.steps)


def test_deletions_interrupted_by_a_killed_manager_are_completed_case_35() -> None:
    world = BroadcastWorld(4).sync().run().fail("n1")

    world.carry_out(world.plan(), writes=2)  # the status, and one of three deletions
    world.sync().let_go()

    assert world.placed == ["n1"]
    assert world.counts["failed"] == 4
    assert world.events.count("failed pod is found") == 1


def test_the_event_names_why_a_completed_job_stops_a_surplus_pod() -> None:
    # given a completed job with a second pod on a node, which still runs
    world = BroadcastWorld(2).sync().run().end().sync()
    assert world.status["phase"] == "completed"
    first = world.pod_on("n1")["metadata"]["name"]
    double = orjson.loads(orjson.dumps(world.pod_on("n1")))
    double["metadata"] |= {"name": "double", "uid": "uid-double"}
    double["status"] = {"phase": "Running"}
    world.pods["double"] = double
    # when
    (step,) = world.plan().steps
    # then
    assert step.done is not None
    assert step.done.message == f"deleted pod double: node n1 already has pod {first}"


def test_a_pod_of_the_older_version_is_ours_case_36() -> None:
    world = BroadcastWorld(2).sync()
    for pod in world.pods.values():
        pod["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kruise.io/v1alpha1"

    assert world.sync().counts["active"] == 2
    assert len(world.pods) == 2


def test_a_job_that_is_being_deleted_does_nothing_case_37() -> None:
    world = BroadcastWorld(2)
    world.document["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"

    assert world.plan().is_settled


def test_a_pod_of_another_owner_is_not_counted_case_38() -> None:
    world = BroadcastWorld(1).sync()
    (pod,) = world.pods.values()
    pod["metadata"]["ownerReferences"][0]["uid"] = "another"
    world.seed = 40

    world.sync()

    assert len(world.pods) == 2


def test_a_job_that_never_ends_can_fail_for_good_case_39() -> None:
    world = BroadcastWorld(2, completionPolicy={"type": "Never"}).sync().run().fail("n1").sync()

    world.join("n9").sync()

    assert world.status["phase"] == "failed"
    assert "n9" not in world.placed


def test_a_new_template_is_for_later_pods_alone_case_40() -> None:
    world = BroadcastWorld(3, parallelism=1).sync().run()
    old = world.placed

    world.spec(template=template(nodeSelector={"disk": "ssd"})).sync()

    assert world.placed == old, "the running pod stays, though the new template would not go there"
    assert world.counts["desired"] == 1


# Beyond the numbered cases


def test_two_pods_of_a_node_become_one() -> None:
    world = BroadcastWorld(1).sync().run()
    (pod,) = world.pods.values()
    twin = orjson.loads(orjson.dumps(pod))
    twin["metadata"] |= {"name": f"{NAME}-twin", "uid": "twin", "creationTimestamp": "2026-01-31T12:00:05Z"}
    world.pods[twin["metadata"]["name"]] = twin

    world.sync().let_go()

    assert list(world.pods) == [pod["metadata"]["name"]]
    assert "DuplicatePodCreatedOnSameNode" in world.events


def test_the_finished_one_of_two_pods_counts() -> None:
    world = BroadcastWorld(1).sync().run()
    (pod,) = world.pods.values()
    twin = orjson.loads(orjson.dumps(pod))
    twin["metadata"] |= {"name": f"{NAME}-twin", "uid": "twin", "creationTimestamp": "2026-01-31T12:00:05Z"}
    twin["status"] = {"phase": "Succeeded"}
    world.pods[twin["metadata"]["name"]] = twin

    world.sync().let_go()

    assert list(world.pods) == [f"{NAME}-twin"]


def test_a_pod_on_a_node_that_left_is_left_to_kubernetes_and_not_waited_for() -> None:
    world = BroadcastWorld(2).sync().run().leave("n2").sync()
    assert len(world.pods) == 2
    assert world.counts["desired"] == 1

    world.end("n1").sync()

    assert world.status["phase"] == "completed"


def test_a_pod_that_kubernetes_fails_since_its_node_left_does_not_fail_the_job() -> None:
    world = BroadcastWorld(3).sync().run()
    world.leave("n2").end("n2", phase="Failed").sync()
    assert (world.status["phase"], world.counts["failed"]) == ("running", 0)

    world.end("n1", "n3").sync()

    assert (world.condition, world.counts["desired"]) == ("Complete", 2)


def test_a_pending_pod_of_a_removed_node_is_deleted() -> None:
    world = BroadcastWorld(2).sync().leave("n2").sync().let_go()

    assert world.placed == ["n1"]


@pytest.mark.parametrize("parallelism", ["many", -1])
def test_an_invalid_spec_is_reported_and_nothing_is_written(parallelism: int | str) -> None:
    world = BroadcastWorld(2, parallelism=parallelism)

    plan = world.plan()

    assert not list(plan.steps)
    assert [note.reason for note in plan.notes] == [Code.INVALID_SPEC]


def test_a_job_that_openkruise_finished_is_not_changed() -> None:
    world = BroadcastWorld(3)
    condition = {"type": "Complete", "status": "True", "reason": "Complete", "message": "Job completed, ..."}
    world.document["status"] = {
        "active": 0,
        "failed": 0,
        "desired": 3,
        "succeeded": 3,
        "phase": "completed",
        "conditions": [condition],
        "completionTime": "2026-01-31T11:00:00Z",
    }

    assert world.plan().is_settled


def test_a_finished_job_without_a_completion_time_is_kept() -> None:
    world = BroadcastWorld(1, completionPolicy={"ttlSecondsAfterFinished": 0}).sync(1).end()
    world.carry_out(world.plan())
    del world.document["status"]["completionTime"]

    assert not world.sync().is_gone


def test_a_job_that_was_taken_over_in_the_middle_runs_no_node_twice() -> None:
    world = BroadcastWorld(4, parallelism=2).sync().run().end("n1")
    del world.document["status"]["startTime"]  # another manager may not have written it

    world.sync()

    made = [event for event in world.events if event == "SuccessfulCreate"]
    assert len(made) == 3
    assert world.placed == ["n1", "n2", "n3"]


def test_ten_further_reconciles_write_nothing() -> None:
    world = BroadcastWorld(3).sync().run().sync()

    assert all(world.plan().is_settled for _ in range(10))


def test_a_pause_that_was_cut_off_is_finished() -> None:
    world = BroadcastWorld(2, failurePolicy={"type": "Pause"}).sync().run().fail("n1").sync(0)

    world.carry_out(world.plan(), writes=1)
    assert world.document["spec"].get("paused") is None
    world.sync()

    assert world.document["spec"]["paused"] is True
    assert world.events.count("Paused") == 1


def test_status_and_spec_are_patched_apart() -> None:
    world = BroadcastWorld(2, failurePolicy={"type": "Pause"}).sync().run().fail("n1")

    patches = [step.action for step in world.plan().steps if isinstance(step.action, Patch)]

    assert [patch.subresource for patch in patches] == ["status", ""]
    assert patches[1].body["spec"] == {"paused": True}


def test_a_view_matches_a_pod_by_its_own_placement() -> None:
    view = BROADCAST_JOB_VIEWS.project(orjson.dumps(BroadcastWorld(1).document))

    assert view.requirements.terms is None
    assert view.ends
    assert not view.is_finished


def test_the_pod_of_a_node_has_a_fixed_name_that_prevents_duplicates() -> None:
    world = BroadcastWorld(3)

    snapshot = world.snapshot()
    names, again = (
        [step.action.key.name for step in world.plan().steps if isinstance(step.action, Create)]
        for _ in range(2)
    )

    assert names == again
    assert len(set(names)) == 3
    assert all(name.startswith(f"{NAME}-") for name in names)
    assert snapshot.now == NOW
    assert all(step.action.resource == PODS for step in world.plan().steps)


def test_a_foreign_pod_with_the_same_name_does_not_block_creation() -> None:
    world = BroadcastWorld(1).sync()
    (taken,) = world.pods
    world.pods[taken]["metadata"]["ownerReferences"] = []

    world.sync()

    assert len(world.pods) == 2
    assert world.pods[taken]["metadata"]["ownerReferences"] == []


def test_names_of_pods_are_host_names_also_for_the_longest_name_of_a_job() -> None:
    world = BroadcastWorld(2)
    world.document["metadata"]["name"] = "j" * 63
    world.sync()

    assert {len(name) for name in world.pods} == {63}
