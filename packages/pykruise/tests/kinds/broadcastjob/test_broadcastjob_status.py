"""The status of a BroadcastJob when it ends, pauses and continues."""

import msgspec
import pytest

from pykruise.kinds.broadcastjob.shown import SHOWN
from pykruise.plans.progress import Phase
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Patch
from support.broadcast_world import BroadcastWorld

RESUME = "set spec.paused to false"


@pytest.mark.parametrize("ttl", [None, 30])
def test_a_finished_job_is_requeued_for_its_ttl(ttl: int | None) -> None:
    world = BroadcastWorld(1, completionPolicy={"ttlSecondsAfterFinished": ttl}).sync().end()

    plan = world.plan()
    assert plan.requeue_after_s == ttl
    world.carry_out(plan)

    waiting = world.plan().waiting
    assert (waiting.code if waiting else None) == (Code.JOB_OVER if ttl else None)
    assert "Continue" not in world.events


@pytest.mark.parametrize(
    ("phase", "line"),
    [
        ("paused", 'broadcastjob "web" is paused: 1 of 4 pods failed'),
        (
            "running",
            'Waiting for broadcastjob "web" to complete: 2 of 4 pods have succeeded, 1 active, 1 failed...',
        ),
    ],
)
def test_only_a_job_that_is_paused_is_called_paused(phase: str, line: str) -> None:
    status = {"phase": phase, "desired": 4, "active": 1, "succeeded": 2, "failed": 1}
    document = {"metadata": {"name": "web"}, "spec": {}, "status": status}
    progress = msgspec.structs.replace(SHOWN.progress_of(document), phase=Phase.DEGRADED)
    assert SHOWN.line is not None
    assert SHOWN.line(document, progress) == line


def test_a_job_that_never_ends_counts_its_pods_on_when_it_has_failed_case_39() -> None:
    world = BroadcastWorld(2, completionPolicy={"type": "Never"}).sync().run().fail("n1").sync()

    world.join("n9").let_go().sync()

    assert world.status["phase"] == "failed"
    assert world.counts == {"desired": 3, "active": 0, "succeeded": 0, "failed": 1}


def test_a_completed_job_changed_to_never_complete_continues() -> None:
    world = BroadcastWorld(1).sync().end().sync()

    world.spec(completionPolicy={"type": "Never"}).join("n9").sync()

    assert "n9" in world.placed


def test_the_deadline_of_a_job_finished_at_an_unknown_time_has_ended() -> None:
    world = BroadcastWorld(1, completionPolicy={"activeDeadlineSeconds": 60}).sync().end().sync()
    del world.document["status"]["completionTime"]

    plan = world.join("n9").plan()

    assert plan.is_settled
    assert plan.requeue_after_s is None


def test_conditions_of_others_stay_and_one_of_the_same_type_is_replaced() -> None:
    world = BroadcastWorld(1)
    world.document["status"] = {
        "conditions": [{"type": "Mine", "status": "True"}, {"type": "Complete", "status": "False"}]
    }

    world.sync().end().sync()

    conditions = {condition["type"]: condition["status"] for condition in world.status["conditions"]}
    assert (world.condition, conditions) == ("Mine,Complete", {"Mine": "True", "Complete": "True"})


def test_an_unreadable_start_time_counts_as_missing() -> None:
    world = BroadcastWorld(1, completionPolicy={"activeDeadlineSeconds": 60})
    world.document["status"] = {"startTime": "yesterday"}

    assert world.plan().requeue_after_s == 60


def test_the_end_is_stored_before_pods_are_stopped_and_keeps_them_from_being_stopped() -> None:
    plan = BroadcastWorld(3).sync().run().fail("n1").plan()

    first, second = plan.stages
    assert (first.purpose, second.purpose) == (Purpose.REPORT_STATUS, Purpose.DELETE_PODS)
    assert not second.regardless
    assert {step.because for step in plan.steps} == {"failed pod is found"}


def test_a_resumed_job_reports_it_before_it_creates_pods_case_27() -> None:
    world = BroadcastWorld(2, paused=True).sync().spec(paused=False)

    plan = world.plan()

    assert [stage.purpose for stage in plan.stages] == [Purpose.REPORT_STATUS, Purpose.CREATE_PODS]
    assert plan.status is None
    world.sync()
    assert world.events.count("Continue") == 1


def test_a_job_that_completes_on_resuming_has_both_events_case_28() -> None:
    world = BroadcastWorld(1).sync().spec(paused=True).sync().end().sync().spec(paused=False)

    (step,) = world.plan().steps

    assert step.done is not None
    assert (step.done.reason, [note.reason for note in step.also]) == ("JobComplete", ["Continue"])


def test_a_failed_pod_that_pauses_the_job_is_a_warning_case_19() -> None:
    plan = BroadcastWorld(2, failurePolicy={"type": "Pause"}).sync().run().fail("n1").plan()

    status, pause = plan.steps
    assert (status.done, status.also) == (None, ())
    assert pause.done is not None
    assert (pause.done.reason, pause.done.warning) == ("Paused", True)
    assert isinstance(pause.action, Patch)
    assert plan.waiting is not None
    assert plan.waiting.code == Code.POD_FAILED


@pytest.mark.parametrize(
    ("policy", "fails"), [({"type": "Pause"}, False), ({"type": "Continue"}, True), (None, True)]
)
def test_a_job_that_a_person_has_paused_must_only_be_resumed(
    policy: dict[str, str] | None, fails: bool
) -> None:
    world = BroadcastWorld(2, failurePolicy=policy).sync().run().spec(paused=True)
    if fails:
        world.fail("n1")

    plan = world.plan()

    assert plan.waiting is not None
    assert (plan.waiting.code, plan.waiting.remedy) == (Code.PAUSED, RESUME)


@pytest.mark.parametrize(("deadline_s", "raises_first"), [(0, True), (600, False)])
def test_the_deadline_of_a_paused_job_is_raised_before_the_job_is_resumed(
    deadline_s: int, raises_first: bool
) -> None:
    world = BroadcastWorld(2, completionPolicy={"activeDeadlineSeconds": deadline_s}).spec(paused=True).sync()

    waiting = world.plan().waiting

    assert waiting is not None
    assert "deadline" in waiting.message
    assert waiting.remedy.startswith("raise spec.completionPolicy.activeDeadlineSeconds") is raises_first
    assert waiting.remedy.endswith(RESUME)


@pytest.mark.parametrize(("nodes", "fails", "is_selected"), [(7, 1, False), (7, 5, False), (7, 6, True)])
def test_the_remedy_of_a_job_that_failures_pause_deletes_every_failed_pod(
    nodes: int, fails: int, is_selected: bool
) -> None:
    world = BroadcastWorld(nodes, failurePolicy={"type": "Pause"}).sync().run()
    for number in range(fails):
        world.fail(f"n{number + 1}")

    plan = world.plan()

    assert plan.waiting is not None
    for remedy in (plan.waiting.remedy, *(reason.remedy for reason in plan.skipped.values())):
        assert ("--field-selector=status.phase=Failed" in remedy) == is_selected
        assert all(name in remedy for name in plan.skipped) != is_selected


def test_too_many_active_pods_are_a_warning_case_10() -> None:
    world = BroadcastWorld(3).sync().spec(parallelism=2)

    assert [(note.reason, note.warning) for note in world.plan().notes] == [("TooManyActivePods", True)]


@pytest.mark.parametrize("spec", [{"parallelism": "many"}, {"paused": "maybe"}])
def test_a_spec_that_cannot_be_executed_is_a_warning(spec: dict[str, str]) -> None:
    plan = BroadcastWorld(2, **spec).plan()

    assert not plan.stages
    assert [(note.reason, note.warning) for note in plan.notes] == [(Code.INVALID_SPEC, True)]
    assert plan.waiting is not None
    assert plan.waiting.code == Code.INVALID_SPEC
