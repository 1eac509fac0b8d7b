"""Targets that a job starts and stops, and the end of the job."""

from typing import Any

import pytest

from pykruise.pods.jobs.fan_out import (
    HELD,
    FanOutCounts,
    FanOutDecision,
    FanOutTarget,
    Finish,
    JobPolicy,
    JobRun,
    OnFailure,
    TargetHold,
    TargetState,
    decide_fan_out,
    find_wait_reason,
)
from pykruise.pods.reasons import Code
from pykruise.runtime.reasons import Reason

NOW = 1000.0


def of(text: str, *, failures: int = 1) -> list[FanOutTarget]:
    """`a:active b:failed -c d!`: targets with their states (default: pending); a dash marks an unwanted target, an
    exclamation mark a blocked one.
    """
    targets = []
    for word in text.split():
        name, _, state = word.removesuffix("!").partition(":")
        targets.append(
            FanOutTarget(
                name=name.lstrip("-"),
                is_blocked=word.endswith("!"),
                state=TargetState(state or "pending"),
                is_wanted=not name.startswith("-"),
                failures=failures if state in ("failed", "failing") else 0,
            )
        )
    return targets


def decide(
    text: str, *, started: float = NOW, run: JobRun | None = None, failures: int = 1, **policy: Any
) -> FanOutDecision:
    given = run or JobRun(started_at=started)
    return decide_fan_out(of(text, failures=failures), JobPolicy(**policy), given, now=NOW)


def waiting(decision: FanOutDecision) -> dict[str, str]:
    return {name: str(why) for name, why in decision.waiting.items()}


# Starting


@pytest.mark.parametrize(
    ("parallelism", "start", "exceeds"),
    [(None, "a c d", False), (3, "a c", False), (2, "a", False), (1, "", False), (0, "", True)],
)
def test_targets_start_in_order_within_the_parallelism(
    parallelism: int | None, start: str, exceeds: bool
) -> None:
    decision = decide("a b:active c d -e f:succeeded", parallelism=parallelism)
    assert decision.start == tuple(start.split())
    why = "zero" if parallelism == 0 else "parallelism"
    assert waiting(decision) == dict.fromkeys([text for text in "acd" if text not in start], why)
    assert decision.exceeds_parallelism is exceeds
    assert (decision.stop, decision.finish) == ((), None)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a:active! b c", "b"),
        ("a:active! b:active c", ""),
        # blocked targets count for each other
        ("a:active! b!", ""),
        ("b a!", "b"),
        ("a! b!", "a"),
    ],
)
def test_a_blocked_target_does_not_keep_others_from_starting(text: str, start: str) -> None:
    assert decide(text, parallelism=1).start == tuple(start.split())


@pytest.mark.parametrize(
    ("failures", "retries", "is_retried"),
    [(1, 1, True), (2, 1, False), (2, 2, True), (1, 0, False), (0, 1, False)],
)
def test_a_failed_target_is_restarted_as_often_as_the_policy_allows(
    failures: int, retries: int, is_retried: bool
) -> None:
    given: dict[str, Any] = {"failures": failures, "retries": retries}
    decision = decide("a:failed b:active", **given)
    assert decision.start == (("a",) if is_retried else ())
    ended = decide("a:failed b:succeeded", **given)
    assert ended.finish is (None if is_retried else Finish.COMPLETE)
    for on_failure, outcome in ((OnFailure.FAIL, Finish.FAILED_TARGET), (OnFailure.PAUSE, None)):
        judged = decide("a:failed b:active", on_failure=on_failure, **given)
        assert judged.finish is (None if is_retried else outcome)
        assert judged.pause is (on_failure is OnFailure.PAUSE and not is_retried)
        assert judged.start == (("a",) if is_retried else ())


def test_a_target_that_is_not_wanted_is_not_started_again() -> None:
    decision = decide("-a:failed b:active", retries=9)
    assert (decision.start, waiting(decision)) == ((), {})
    assert decide("-a:failed b:active", retries=9, on_failure=OnFailure.FAIL).finish is Finish.FAILED_TARGET


def test_a_failing_target_is_not_started_again_and_counts_as_failed() -> None:
    assert decide("a:failing b:active", retries=9).start == ()
    assert decide("a:failing b:active", retries=9, on_failure=OnFailure.FAIL).finish is Finish.FAILED_TARGET
    assert decide("a:failing b:active", retries=9, on_failure=OnFailure.PAUSE).pause


def test_nothing_starts_where_something_still_ends() -> None:
    decision = decide("a:ending -b:ending c", parallelism=1)
    assert (decision.start, waiting(decision), decision.finish) == (("c",), {"a": "ending"}, None)


def test_unwanted_targets_are_stopped_unless_they_are_ending() -> None:
    decision = decide("a:active -b:active -c:failing d:failing -e:ending -f:failed -g")
    assert decision.stop == ("b", "c")


# Pauses


def test_a_paused_job_starts_stops_and_judges_nothing() -> None:
    given: dict[str, Any] = {"is_paused": True, "on_failure": OnFailure.FAIL, "deadline_s": 0}
    decision = decide("a b:failed -c:active d:ending e:active", **given)
    assert (decision.start, decision.stop, decision.finish, decision.pause) == ((), (), None, False)
    assert waiting(decision) == {"a": "paused", "d": "ending"}
    assert decision.counts == FanOutCounts(wanted=4, active=2, failed=1)


def test_a_failure_pauses_the_job_under_the_pause_policy() -> None:
    decision = decide("a b:failed -c:active d:ending", on_failure=OnFailure.PAUSE, deadline_s=0)
    assert (decision.pause, decision.start, decision.stop, decision.finish) == (True, (), (), None)
    assert waiting(decision) == {"a": "paused", "d": "ending"}
    assert decision.counts == FanOutCounts(wanted=3, active=1, failed=1)
    assert not decide("a b:failed").pause
    assert not decide("a b:succeeded", on_failure=OnFailure.PAUSE).pause


# The end


@pytest.mark.parametrize(
    ("text", "policy", "finish"),
    [
        ("a:succeeded b:failed", {}, Finish.COMPLETE),
        ("a:succeeded b:active", {}, None),
        ("a:succeeded b", {}, None),
        ("a:succeeded b:failing", {}, None),
        ("a:succeeded b:ending", {}, None),
        ("a:succeeded -b:active -c", {}, Finish.COMPLETE),
        ("-b:active", {}, None),
        ("", {}, None),
        ("", {"completes_empty": True}, Finish.COMPLETE),
        ("-b", {"completes_empty": True}, Finish.COMPLETE),
        ("a:succeeded", {"ends": False}, None),
        ("a:active", {"ends": False, "deadline_s": 0}, None),
        ("a:failed b:active", {"ends": False, "on_failure": OnFailure.FAIL}, Finish.FAILED_TARGET),
        ("a:failed b:active", {"on_failure": OnFailure.CONTINUE}, None),
        ("a:failed", {"on_failure": OnFailure.FAIL, "deadline_s": 0}, Finish.FAILED_TARGET),
        ("a:active", {"deadline_s": 0}, Finish.DEADLINE),
        ("a:active", {"deadline_s": 1}, None),
        ("a:succeeded", {"deadline_s": 1}, Finish.COMPLETE),
        ("a:succeeded", {"deadline_s": 0}, Finish.DEADLINE),
        ("a:succeeded", {"deadline_s": 0, "completes_late": True}, Finish.COMPLETE),
        ("a:active", {"deadline_s": 0, "completes_late": True}, Finish.DEADLINE),
    ],
)
def test_a_job_ends_when_all_have_ended_or_one_failed_or_time_is_up(
    text: str, policy: dict[str, Any], finish: Finish | None
) -> None:
    result = decide(text, **policy).finish
    assert result is finish
    assert result is None or result.is_failure is (result is not Finish.COMPLETE)


@pytest.mark.parametrize(
    ("text", "policy", "stop"),
    [
        ("a:active -b:active c d:failing -e:failing f:ending", {"deadline_s": 0}, "a b e"),
        ("a:active -b:active c:failed d f:ending", {"on_failure": OnFailure.FAIL}, "a b"),
        ("a:succeeded -b:active -c:failing", {}, "b c"),
    ],
)
def test_a_job_that_fails_stops_all_and_one_that_is_complete_what_is_not_wanted(
    text: str, policy: dict[str, Any], stop: str
) -> None:
    decision = decide(text, **policy)
    assert (decision.start, decision.stop) == ((), tuple(stop.split()))
    assert {name: why for name, why in waiting(decision).items() if why != "ending"} == {
        word: "over" for word in "cd" if f" {word} " in f" {text} "
    }


def test_the_job_is_requeued_for_its_deadline_or_ttl() -> None:
    assert decide("a:active", started=NOW - 10, deadline_s=30).requeue_after_s == 20
    assert decide("a:active", started=NOW - 10).requeue_after_s is None
    assert decide("a:active", started=NOW - 10, deadline_s=30, ends=False).requeue_after_s is None
    assert decide("a:succeeded", ttl_s=60).requeue_after_s == 60
    assert decide("a:succeeded").requeue_after_s is None
    failed: dict[str, Any] = {"on_failure": OnFailure.FAIL, "ttl_s": 60}
    assert decide("a:failed", ends=False, **failed).requeue_after_s is None
    assert decide("a:failed", **failed).requeue_after_s == 60


@pytest.mark.parametrize(
    ("ago", "policy", "delete", "requeue"),
    [
        (59, {"ttl_s": 60}, False, 1),
        (60, {"ttl_s": 60}, True, None),
        (61, {"ttl_s": 60}, True, None),
        (0, {"ttl_s": 0}, True, None),
        (99, {}, False, None),
        (99, {"ttl_s": 60, "ends": False}, False, None),
    ],
)
@pytest.mark.parametrize("has_failed", [True, False])
def test_a_finished_job_starts_nothing_and_is_deleted_after_its_ttl(
    ago: int, policy: dict[str, Any], delete: bool, requeue: int | None, has_failed: bool
) -> None:
    run = JobRun(started_at=0, finished_at=NOW - ago, has_failed=has_failed)
    decision = decide("a b:active -c:active d:ending", run=run, is_paused=True, deadline_s=0, **policy)
    assert (decision.start, decision.finish, decision.delete, decision.requeue_after_s) == (
        (),
        None,
        delete,
        requeue,
    )
    assert decision.stop == (("b", "c") if has_failed else ("c",))
    assert waiting(decision) == {"a": "over", "d": "ending"}
    assert decision.counts == FanOutCounts(wanted=3, active=2)


# Counts and messages


def test_targets_are_counted_by_their_state() -> None:
    text = "a b:active c:active d:failing e:ending f:succeeded g:failed -h:failed -i:succeeded j:succeeded"
    counts = FanOutCounts(wanted=8, active=2, succeeded=3, failed=3)
    assert decide(text).counts == counts
    assert decide(text, deadline_s=0).counts == counts


NOTHING_FITS = Reason(Code.NO_TARGET, "no node fits")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", NOTHING_FITS),
        ("-a:active", NOTHING_FITS),
        ("a b:active c", HELD[TargetHold.PARALLELISM]),
        ("a:ending b:active", HELD[TargetHold.ENDING]),
        ("a:succeeded", None),
    ],
)
def test_a_job_waits_for_targets_for_a_slot_or_for_an_end(text: str, expected: Reason | None) -> None:
    decision = decide(text, parallelism=1)
    assert find_wait_reason(decision, nothing_fits=NOTHING_FITS, running=str) == expected


def test_a_job_whose_targets_all_run_waits_for_their_end() -> None:
    reason = find_wait_reason(
        decide("a:active b:active"), nothing_fits=NOTHING_FITS, running=lambda count: f"{count} have"
    )
    assert reason is not None
    assert (reason.code, reason.message) == (Code.PODS_ACTIVE, "2 have not ended")
