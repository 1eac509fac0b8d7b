"""What an EphemeralJob does: the numbered cases of its specification, on paper."""

import pytest

from pykruise.kinds.ephemeraljob.plan import FINALIZER
from pykruise.pods.reasons import Code
from support.ephemeral_world import UID, EphemeralWorld, container


def test_pods_are_handled_one_by_one_up_to_replicas_case_32() -> None:
    # given five pods that match, of which four are wanted, one at a time
    world = EphemeralWorld(5, replicas=4, parallelism=1)
    # when
    for number in range(1, 5):
        world.sync()
        assert world.injected == [f"pod-{one}" for one in range(1, number + 1)]
        world.sync()  # nothing more starts before it has ended
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
    (found,) = world.pods["pod-1"]["spec"]["ephemeralContainers"]
    assert found["env"] == [{"name": "A", "value": "1"}, {"name": "KRUISE_EJOB_ID", "value": UID}]
    assert found["image"] == given["image"]


def test_a_job_without_pods_waits_for_one_case_33() -> None:
    world = EphemeralWorld(0)
    plan = world.sync()
    assert (world.status["phase"], world.conditions["MatchedEmpty"]) == ("Waiting", "MatchEmpty")
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NO_PODS
    # when
    world.add_pod("late")
    world.sync()
    # then
    assert world.injected == ["late"]


def test_a_pod_with_a_container_of_that_name_from_another_job_is_no_target_case_35() -> None:
    world = EphemeralWorld(2)
    other = container(env=[{"name": "KRUISE_EJOB_ID", "value": "another"}])
    world.pods["pod-1"]["spec"]["ephemeralContainers"] = [other]
    world.sync()
    assert world.injected == ["pod-2"]
    assert world.counts("match") == (1,)


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


def test_a_job_that_no_pod_came_for_says_that_its_deadline_has_passed() -> None:
    # given
    world = EphemeralWorld(0, activeDeadlineSeconds=10)
    world.sync()
    # when
    world.now += 10
    world.sync()
    # then
    assert (world.status["phase"], world.conditions["JobFailed"]) == ("Failed", "DeadlineExceeded")
    assert world.conditions["MatchedEmpty"] == "MatchEmpty"


def test_a_paused_job_injects_nothing_and_goes_on_when_it_is_resumed_case_39() -> None:
    world = EphemeralWorld(2, paused=True)
    world.sync()
    assert (world.injected, world.status["phase"]) == ([], "Paused")
    # when
    world.job["spec"]["paused"] = False
    world.sync()
    # then
    assert world.injected == ["pod-1"]


@pytest.mark.parametrize(("ttl", "kept_s"), [(None, 1800), (0, 0), (60, 60)])
def test_a_job_that_is_over_is_deleted_at_its_time_case_40(ttl: int | None, kept_s: int) -> None:
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


def test_the_finalizer_of_the_original_is_taken_off_and_pods_are_left_alone_case_41() -> None:
    world = EphemeralWorld(1)
    world.sync()
    world.job["metadata"] |= {"deletionTimestamp": "2026-05-01T12:00:00Z", "finalizers": ["x/y", FINALIZER]}
    world.sync()
    assert world.job["metadata"]["finalizers"] == ["x/y"]
    assert world.injected == ["pod-1"]


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


def test_of_several_containers_all_have_to_succeed() -> None:
    world = EphemeralWorld(1, containers=[container("one"), container("two")])
    world.sync()
    world.end("pod-1", name="one")
    world.report("pod-1", name="two", running={})
    world.sync()
    assert world.status["phase"] == "Running"
    world.end("pod-1", name="two")
    world.sync()
    assert world.status["phase"] == "Succeeded"


def test_more_replicas_than_pods_end_with_the_pods_that_there_are() -> None:
    """pitfall h: R is at most the number of targets"""
    world = EphemeralWorld(1, replicas=5)
    world.sync()
    world.end("pod-1")
    world.sync()
    assert world.status["phase"] == "Succeeded"


def test_a_template_without_containers_is_an_error() -> None:
    world = EphemeralWorld(1, containers=[])
    world.sync()
    assert (world.status["phase"], world.conditions["JobError"]) == ("Error", "Error")
    assert "completionTime" not in world.status


def test_a_status_that_says_the_same_is_not_written_again() -> None:
    world = EphemeralWorld(2, parallelism=1)
    world.sync()
    world.report("pod-1", running={})
    world.sync()
    world.now += 60
    assert world.plan().status is None
