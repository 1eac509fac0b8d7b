"""Plans of an EphemeralJob: the numbered cases of its specification, without a cluster."""

from typing import Any

import pytest

from pykruise.kinds.ephemeraljob.plan import FINALIZER
from pykruise.kinds.ephemeraljob.snapshot import EPHEMERAL_JOB_VIEWS
from pykruise.kube.clock import format_time
from pykruise.kube.documents import encode
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Patch
from support.ephemeral_world import NOW, UID, EphemeralWorld, container


def test_pods_are_handled_one_by_one_up_to_replicas_case_32() -> None:
    # given five matching pods, replicas 4 and parallelism 1
    world = EphemeralWorld(5, replicas=4, parallelism=1)
    # when
    for number in range(1, 5):
        world.sync()
        assert world.injected == [f"pod-{item}" for item in range(1, number + 1)]
        world.sync()  # no further container starts before this one has ended
        assert len(world.injected) == number
        world.end(f"pod-{number}")
    world.sync()
    # then
    assert world.counts("match", "succeeded", "failed") == (4, 4, 0)
    assert (world.status["phase"], world.conditions["JobSucceeded"]) == ("Succeeded", "JobSucceeded")
    assert "completionTime" in world.status


def test_containers_carry_the_mark_of_their_job() -> None:
    given = container(env=[{"name": "A", "value": "1"}, {"name": "KRUISE_EJOB_ID", "value": "another"}])
    world = EphemeralWorld(1, containers=[given])
    world.sync()
    (result,) = world.pods["pod-1"]["spec"]["ephemeralContainers"]
    assert result["env"] == [{"name": "A", "value": "1"}, {"name": "KRUISE_EJOB_ID", "value": UID}]
    assert result["image"] == given["image"]


def test_pods_without_the_target_of_a_container_use_up_no_turn_of_others() -> None:
    # given more pods without the target container than one plan handles, and a later pod with it
    world = EphemeralWorld(MOST_AT_ONCE + 1, parallelism=1, containers=[container(targetContainerName="app")])
    world.add_pod("zz")
    world.pods["zz"]["spec"]["containers"][0]["name"] = "app"
    # when
    plan = world.sync()
    # then
    assert world.injected == ["zz"]
    assert plan.skipped["pod-1"].code is Code.REFUSED
    # and without that pod nothing happens, and the plan is not requeued immediately
    del world.pods["zz"]
    plan = world.sync()
    assert (plan.stages, plan.requeue_after_s) == ((), None)


def test_a_job_for_no_pods_reports_that_no_pod_matches() -> None:
    world = EphemeralWorld(1, replicas=0)
    world.sync()
    condition = next(entry for entry in world.status["conditions"] if entry["type"] == "MatchedEmpty")
    assert condition["message"] == "no pod matches the selector"


def test_a_job_without_pods_waits_for_one_case_33() -> None:
    world = EphemeralWorld(0)
    plan = world.sync()
    assert (world.status["phase"], world.conditions["MatchedEmpty"]) == ("Waiting", "MatchEmpty")
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NOTHING_SELECTED
    # when
    world.add_pod("late")
    world.sync()
    # then
    assert world.injected == ["late"]


def test_a_pod_with_an_equally_named_container_of_another_job_is_not_a_target_case_35() -> None:
    world = EphemeralWorld(2)
    other = container(env=[{"name": "KRUISE_EJOB_ID", "value": "another"}])
    world.pods["pod-1"]["spec"]["ephemeralContainers"] = [other]
    world.sync()
    assert world.injected == ["pod-2"]
    assert world.counts("match") == (1,)


def test_a_pod_with_other_ephemeral_containers_is_a_target() -> None:
    world = EphemeralWorld(1)
    world.pods["pod-1"]["spec"]["ephemeralContainers"] = [container("debugger-x7")]
    world.sync()
    assert world.injected == ["pod-1"]


def test_finished_and_terminating_pods_are_no_targets() -> None:
    world = EphemeralWorld(3)
    world.pods["pod-1"]["status"]["phase"] = "Succeeded"
    world.pods["pod-2"]["metadata"]["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    world.sync()
    assert (world.injected, world.counts("match")) == (["pod-3"], (1,))


def test_the_oldest_pods_are_injected_first_and_equally_old_ones_by_name() -> None:
    # given
    world = EphemeralWorld(0, parallelism=9)
    created = {"d": "12:00:02Z", "b": "12:00:02Z", "c": "12:00:01Z", "a": "12:00:03Z", "e": ""}
    for name, time in created.items():
        world.add_pod(name)
        world.pods[name]["metadata"]["creationTimestamp"] = f"2026-04-30T{time}" if time else None
    # when
    world.sync()
    # then
    assert world.injected == ["e", "c", "b", "d", "a"]


@pytest.mark.parametrize("wanted", [0, -1])
def test_no_pod_is_a_target_with_zero_or_negative_replicas(wanted: int) -> None:
    """-1 was stored before validation refused it"""
    world = EphemeralWorld(2, replicas=wanted)
    world.sync()
    assert (world.injected, world.counts("match"), world.status["phase"]) == ([], (0,), "Waiting")


@pytest.mark.parametrize("wanted", [0, -1])
def test_nothing_starts_without_parallelism(wanted: int) -> None:
    world = EphemeralWorld(2, parallelism=wanted)
    world.sync()
    assert (world.injected, world.counts("match")) == ([], (2,))


def test_a_renamed_container_is_no_longer_counted() -> None:
    # given a pod in which the container has ended
    world = EphemeralWorld(1)
    world.sync()
    world.end("pod-1")
    # when
    world.job["spec"]["template"]["ephemeralContainers"] = [container("other")]
    world.sync()
    # then
    assert (world.injected, world.counts("succeeded")) == (["pod-1", "pod-1"], (0,))


def test_many_pods_are_handled_in_several_turns_without_a_pause() -> None:
    """The first containers start one by one, then twice as many at the same time in each batch"""
    world = EphemeralWorld(MOST_AT_ONCE + 1, parallelism=MOST_AT_ONCE + 1)
    plan = world.sync()
    assert (len(world.injected), plan.requeue_after_s) == (MOST_AT_ONCE, 0.0)
    assert [stage.ramp for stage in plan.stages] == [True]
    # when
    plan = world.sync()
    # then
    assert (len(world.injected), plan.requeue_after_s) == (MOST_AT_ONCE + 1, None)


def test_a_failed_injection_is_a_warning_event() -> None:
    (step,) = EphemeralWorld(1).plan().steps
    assert step.failed is not None
    assert (step.failed.reason, step.failed.warning) == ("CreateFailed", True)


def test_a_job_whose_pods_all_failed_has_failed_case_36() -> None:
    world = EphemeralWorld(2, parallelism=2)
    world.sync()
    for pod in ("pod-1", "pod-2"):
        world.end(pod, code=1)
    world.sync()
    assert (world.status["phase"], world.conditions["JobFailed"]) == ("Failed", "JobFailed")
    assert world.counts("failed") == (2,)


def test_a_program_that_cannot_be_run_counts_as_failed_case_37() -> None:
    world = EphemeralWorld(1)
    world.sync()
    world.report("pod-1", waiting={"reason": "RunContainerError"})
    world.sync()
    assert world.status["phase"] == "Failed"


def test_a_deadline_ends_the_job_and_nothing_more_is_injected_case_38() -> None:
    # given
    world = EphemeralWorld(3, activeDeadlineSeconds=10)
    plan = world.sync()
    assert plan.requeue_after_s == pytest.approx(10)
    world.report("pod-1", running={})
    # when
    world.now += 10
    world.sync()
    world.end("pod-1")
    world.sync()
    # then
    assert (world.status["phase"], world.conditions["JobFailed"]) == ("Failed", "DeadlineExceeded")
    assert world.injected == ["pod-1"]


def test_a_job_without_pods_fails_with_deadline_exceeded() -> None:
    # given
    world = EphemeralWorld(0, activeDeadlineSeconds=10)
    world.sync()
    # when
    world.now += 10
    world.sync()
    # then
    assert (world.status["phase"], world.conditions["JobFailed"]) == ("Failed", "DeadlineExceeded")
    assert world.conditions["MatchedEmpty"] == "MatchEmpty"


def test_a_paused_job_injects_nothing_until_it_is_resumed_case_39() -> None:
    world = EphemeralWorld(2, paused=True)
    world.sync()
    assert (world.injected, world.status["phase"]) == ([], "Paused")
    # when
    world.job["spec"]["paused"] = False
    world.sync()
    # then
    assert world.injected == ["pod-1"]


@pytest.mark.parametrize(("ttl", "kept_s"), [(None, 1800), (0, 0), (60, 60)])
def test_a_finished_job_is_deleted_after_its_ttl_case_40(ttl: int | None, kept_s: int) -> None:
    world = EphemeralWorld(1, ttlSecondsAfterFinished=ttl)
    world.sync()
    world.end("pod-1")
    assert world.sync().requeue_after_s == kept_s
    # when
    if kept_s:
        world.now += kept_s - 1
        assert world.sync().requeue_after_s == pytest.approx(1)
        world.now += 1
    world.sync()
    # then
    assert not world.is_there


def test_openkruises_finalizer_is_removed_and_pods_are_kept_case_41() -> None:
    world = EphemeralWorld(1)
    world.sync()
    world.job["metadata"] |= {"deletionTimestamp": "2026-05-01T12:00:00Z", "finalizers": ["x/y", FINALIZER]}
    world.sync()
    assert world.job["metadata"]["finalizers"] == ["x/y"]
    assert world.injected == ["pod-1"]
    assert not world.plan().stages, "there is nothing more to do for it"


def test_the_finalizer_is_removed_only_at_the_resource_version_that_was_read() -> None:
    world = EphemeralWorld(0)
    world.job["metadata"] |= {"deletionTimestamp": "2026-05-01T12:00:00Z", "finalizers": [FINALIZER]}
    (step,) = world.plan().steps
    assert isinstance(step.action, Patch)
    assert step.action.resource_version == "7"
    world.sync()
    assert world.job["metadata"]["finalizers"] == []


def test_a_success_and_a_failure_make_a_failed_job_case_42() -> None:
    world = EphemeralWorld(2, parallelism=2)
    world.sync()
    world.end("pod-1")
    world.end("pod-2", code=1)
    world.sync()
    assert (world.status["phase"], world.counts("succeeded", "failed")) == ("Failed", (1, 1))


def test_a_pod_whose_kubelet_has_not_answered_yet_counts_against_parallelism() -> None:
    """pitfall h: containers that are injected and wait"""
    world = EphemeralWorld(3, parallelism=2)
    world.sync()
    world.report("pod-1", waiting={"reason": "ContainerCreating"})
    world.sync()
    assert world.injected == ["pod-1", "pod-2"]
    assert world.counts("waiting", "running") == (1, 0)


UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


def test_a_pod_in_which_nothing_can_start_does_not_hold_up_others() -> None:
    # given an oldest pod without a node
    world = EphemeralWorld(4, parallelism=1)
    world.pods["pod-1"]["status"] = {"phase": "Pending", "conditions": [UNSCHEDULED]}
    for name in ("pod-2", "pod-3"):
        world.pods[name]["spec"]["nodeName"] = "node-a"
    # when
    for name in ("pod-2", "pod-3"):
        world.sync()
        assert world.injected[-1] == name
        world.end(name)
    # then it is the last one, and another that is stuck waits until its containers have run
    world.pods["pod-4"]["status"] = {"phase": "Pending", "conditions": [UNSCHEDULED]}
    world.sync()
    assert world.injected == ["pod-2", "pod-3", "pod-1"]
    plan = world.sync()
    assert world.injected == ["pod-2", "pod-3", "pod-1"]
    assert plan.waiting is not None
    assert plan.waiting.code is Code.UNSCHEDULABLE
    # and a pod that gets its node is no longer stuck
    world.pods["pod-4"]["status"] = {"phase": "Running"}
    world.pods["pod-4"]["spec"]["nodeName"] = "node-a"
    world.sync()
    assert world.injected == ["pod-2", "pod-3", "pod-1", "pod-4"]


def test_all_containers_must_succeed() -> None:
    world = EphemeralWorld(1, containers=[container("one"), container("two")])
    world.sync()
    world.end("pod-1", name="one")
    world.report("pod-1", name="two", running={})
    world.sync()
    assert world.status["phase"] == "Running"
    world.end("pod-1", name="two")
    world.sync()
    assert world.status["phase"] == "Succeeded"


def test_more_replicas_than_pods_succeed_with_the_existing_pods() -> None:
    """pitfall h: R is at most the number of targets"""
    world = EphemeralWorld(1, replicas=5)
    world.sync()
    world.end("pod-1")
    world.sync()
    assert world.status["phase"] == "Succeeded"


def test_a_template_without_containers_is_an_error() -> None:
    for is_paused, count in ((False, 1), (True, 1), (False, 0)):
        world = EphemeralWorld(count, containers=[], paused=is_paused)
        plan = world.sync()
        assert (world.status["phase"], world.conditions["JobError"]) == ("Error", "Error")
        assert "completionTime" not in world.status
        assert "MatchedEmpty" not in world.conditions
        assert world.injected == []
        assert plan.waiting is not None
        assert plan.waiting.code is Code.INVALID_SPEC


def test_an_unreadable_selector_changes_no_pod_and_is_reported() -> None:
    # given a job that was stored without the webhook
    world = EphemeralWorld(2)
    world.job["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    # when
    plan = world.sync()
    # then
    assert (world.injected, plan.status) == ([], None)
    assert plan.waiting is not None
    assert (plan.waiting.code, plan.waiting.message) == (
        Code.INVALID_SPEC,
        "spec.selector: it is not a valid label selector",
    )
    (note,) = plan.notes
    assert (note.message, note.warning, note.again_after_s) == (plan.waiting.message, True, 600.0)
    view = EPHEMERAL_JOB_VIEWS.project(encode(world.job))
    assert (view.containers, view.names) == ((), frozenset())


def test_an_end_that_cannot_be_read_counts_as_now() -> None:
    world = EphemeralWorld(1)
    world.job["status"] = {"phase": "Succeeded", "completionTime": "some time ago"}
    assert world.sync().requeue_after_s == 1800
    assert (world.is_there, world.injected) == (True, [])


# ── conditions and phase ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "second", "phase", "said"),
    [
        ({}, {}, "Unknown", {}),
        ({"waiting": {}}, {}, "Unknown", {}),
        ({"waiting": {}}, {"waiting": {}}, "Waiting", {}),
        ({"waiting": {}}, {"running": {}}, "Running", {}),
        ({"terminated": {"exitCode": 1}}, {"running": {}}, "Running", {"JobFailed": "CreateFailed"}),
    ],
)
def test_the_phase_reflects_the_container_states(
    first: Any, second: Any, phase: str, said: dict[str, str]
) -> None:
    """containers 7.2"""
    world = EphemeralWorld(2, parallelism=2)
    world.sync()
    world.report("pod-1", **first)
    world.report("pod-2", **second)
    world.sync()
    assert (world.status["phase"], world.conditions) == (phase, {"Initialized": "Initialized", **said})


def test_a_condition_with_another_reason_is_replaced() -> None:
    # given a job with a failed container in one of two pods
    world = EphemeralWorld(2, parallelism=2)
    world.sync()
    world.end("pod-1", code=1)
    world.sync()
    assert world.conditions["JobFailed"] == "CreateFailed"
    # when the container of the other pod fails too
    world.now += 60
    world.end("pod-2", code=1)
    world.sync()
    # then
    times = {condition["type"]: condition["lastTransitionTime"] for condition in world.status["conditions"]}
    assert world.conditions == {"Initialized": "Initialized", "JobFailed": "JobFailed"}
    assert times == {"Initialized": format_time(NOW), "JobFailed": format_time(NOW + 60)}


def test_an_unchanged_status_is_not_written_again() -> None:
    world = EphemeralWorld(2, parallelism=1)
    world.sync()
    world.report("pod-1", running={})
    world.sync()
    world.now += 60
    assert (world.plan().status, world.plan().stages) == (None, ())
