"""Progress of a workload, for the conditions Ready, Reconciling and Stalled."""

from typing import Any

import pytest

from pykruise.pods.reasons import AT_REST, DEADLINE_EXCEEDED, Code
from pykruise.pods.workload.kstatus import CONVERGED, STALLING, job_standing_of, standing_of
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import Standing
from pykruise.runtime.reasons import NOTHING, Reason

STARTING = Reason(Code.STARTING, "its containers start")
LATE = {"type": "Progressing", "status": "False", "reason": DEADLINE_EXCEEDED, "message": "10 min are over"}
FAILED = {"type": "FailedCreate", "status": "True", "reason": "Quota", "message": "no more pods"}


def waits(conditions: list[dict[str, Any]], waiting: Reason = STARTING) -> Standing:
    return standing_of({"conditions": conditions}, waiting)


PLAIN = Standing(is_ready=False, reason=Code.STARTING, message=f"its containers start; {NOTHING}")


def test_an_object_that_waits_for_nothing_has_converged() -> None:
    assert standing_of({"conditions": [LATE, FAILED]}, None) == Standing(is_ready=True, reason=CONVERGED)


@pytest.mark.parametrize("code", sorted(AT_REST))
def test_a_hold_by_the_spec_is_ready_and_held(code: Code) -> None:
    standing = waits([LATE, FAILED], Reason(code, "as asked", "change it"))
    assert standing == Standing(is_ready=True, is_held=True, reason=code, message="as asked; change it")


@pytest.mark.parametrize("code", sorted(STALLING))
def test_a_reason_that_only_a_person_can_resolve_is_stalled(code: Code) -> None:
    standing = waits([LATE, FAILED], Reason(code, "wrong", "correct it"))
    assert standing == Standing(is_ready=False, is_stalled=True, reason=code, message="wrong; correct it")


def test_a_passed_deadline_is_stalled_and_names_the_waiting_reason() -> None:
    said = f"10 min are over; its containers start; {NOTHING}"
    late = Standing(is_ready=False, is_stalled=True, reason=DEADLINE_EXCEEDED, message=said)
    assert waits([FAILED, LATE]) == late
    assert waits([LATE], Reason(Code.IMAGE_PULL, "no image", "correct it")).is_stalled


@pytest.mark.parametrize(
    "change", [{"type": "Other"}, {"status": "True"}, {"reason": "ReplicaSetUpdated"}, {"reason": None}]
)
def test_a_deadline_that_has_not_passed_stalls_nothing(change: dict[str, Any]) -> None:
    assert waits([LATE | change]) == PLAIN


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (FAILED, "Quota"),
        (FAILED | {"reason": None}, "FailedCreate"),
        (FAILED | {"type": "FailedUpdate"}, "Quota"),
        (FAILED | {"type": WAITING, "reason": Code.QUOTA}, Code.QUOTA),
    ],
)
def test_a_write_that_fails_is_nearer_to_the_cause_than_what_is_waited_for(
    condition: dict[str, Any], reason: str
) -> None:
    standing = Standing(is_ready=False, reason=reason, message="no more pods")
    assert waits([{"type": "Other", "status": "True"}, condition]) == standing
    without = {field: value for field, value in condition.items() if field != "message"}
    assert waits([without]).message == ""


@pytest.mark.parametrize(
    "change",
    [
        {"status": "False"},
        {"type": "Available"},
        {"type": WAITING, "reason": Code.STARTING},
        {"type": "Available", "reason": Code.QUOTA},
    ],
)
def test_a_later_success_of_the_write_clears_the_cause(change: dict[str, str]) -> None:
    assert waits([FAILED | change]) == PLAIN


def test_a_reason_for_a_person_is_reported_even_if_a_write_fails() -> None:
    standing = waits([FAILED], Reason(Code.IMAGE_PULL, "no image", "correct it"))
    assert standing == Standing(is_ready=False, reason=Code.IMAGE_PULL, message="no image; correct it")


ENDED = {"completionTime": "2026-01-31T12:00:00Z"}
JOB_FAILURE = {"type": "JobFailed", "status": "True", "reason": "JobFailed", "message": "containers failed"}


def test_a_job_that_runs_waits_as_any_object_does() -> None:
    assert job_standing_of({"conditions": [JOB_FAILURE]}, STARTING) == PLAIN


@pytest.mark.parametrize("waiting", [None, STARTING, Reason(Code.IMAGE_PULL, "no image", "correct it")])
def test_the_standing_of_a_finished_job_never_changes(waiting: Reason | None) -> None:
    succeeded = job_standing_of({**ENDED, "phase": "Succeeded"}, waiting)
    assert succeeded == Standing(is_ready=True, reason=Code.JOB_OVER)
    complete = {"type": "Complete", "status": "True", "reason": "Complete", "message": "1 pods failed"}
    partly = job_standing_of({**ENDED, "phase": "completed", "failed": 1, "conditions": [complete]}, waiting)
    assert partly == Standing(
        is_ready=False, is_stalled=True, reason=Code.JOB_FAILED, message="1 pods failed"
    )
    failed = job_standing_of({**ENDED, "phase": "failed", "conditions": [JOB_FAILURE]}, waiting)
    assert failed == Standing(
        is_ready=False, is_stalled=True, reason=Code.JOB_FAILED, message="containers failed"
    )
