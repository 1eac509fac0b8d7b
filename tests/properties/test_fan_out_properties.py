"""Invariants of every job that fans out, for any policy, targets and order of events.

A small model carries out decisions: started targets become active, stopped targets end, and targets randomly
succeed, fail, join and leave.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pykruise.pods.jobs.fan_out import (
    FanOutDecision,
    FanOutTarget,
    Finish,
    JobPolicy,
    JobRun,
    OnFailure,
    TargetHold,
    TargetState,
    decide_fan_out,
)

START = 1_000.0

policies = st.builds(
    JobPolicy,
    parallelism=st.none() | st.integers(0, 4),
    on_failure=st.sampled_from(OnFailure),
    retries=st.integers(0, 2),
    is_paused=st.sampled_from([False, False, False, True]),
    ends=st.sampled_from([True, True, False]),
    completes_empty=st.booleans(),
    completes_late=st.booleans(),
    deadline_s=st.none() | st.integers(0, 60),
    ttl_s=st.none() | st.integers(0, 60),
)
runs = st.builds(
    JobRun,
    started_at=st.just(START),
    finished_at=st.none() | st.floats(START, START + 60),
    has_failed=st.booleans(),
)
instants = st.floats(START, START + 200)


@st.composite
def target_lists(draw: st.DrawFn) -> tuple[FanOutTarget, ...]:
    states = draw(st.lists(st.sampled_from(TargetState), max_size=8))
    return tuple(
        FanOutTarget(
            name=f"n{number}",
            state=state,
            is_wanted=draw(st.sampled_from([True, True, True, False])),
            failures=draw(st.integers(1, 3)) if state is TargetState.FAILED else draw(st.integers(0, 1)),
        )
        for number, state in enumerate(states)
    )


@given(target_lists(), policies, runs, instants)
def test_every_target_gets_exactly_one_answer(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    decision = decide_fan_out(targets, policy, run, now=now)

    starts, stops, holds = set(decision.start), set(decision.stop), set(decision.waiting)
    assert not (starts & stops)
    assert not (starts & holds)
    assert not (stops & holds)
    for target in targets:
        if target.is_wanted and target.state in (TargetState.PENDING, TargetState.ENDING):
            assert target.name in starts | holds, "neither started nor held for a reason"
        if target.name in starts:
            assert target.is_wanted
            assert target.state in (TargetState.PENDING, TargetState.FAILED), (
                "started where something is still there"
            )
        if target.name in stops:
            is_surplus = target.state is TargetState.FAILING and not target.is_wanted
            assert target.state is TargetState.ACTIVE or is_surplus, "stopped what is not active"
    assert (starts | stops | holds) <= {item.name for item in targets}


@given(target_lists(), policies, runs, instants)
def test_never_more_than_parallelism_becomes_active(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    decision = decide_fan_out(targets, policy, run, now=now)

    active = sum(target.state is TargetState.ACTIVE for target in targets)
    if policy.parallelism is not None and decision.start:
        assert active + len(decision.start) <= policy.parallelism
    pending = [
        target.name for target in targets if target.name in decision.start or target.name in decision.waiting
    ]
    if decision.start:
        assert list(decision.start) == [name for name in pending if name in decision.start], "in order"


@given(target_lists(), policies, runs, instants)
def test_a_finished_job_stays_finished(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    finished = msgspec.structs.replace(run, finished_at=START)

    decision = decide_fan_out(targets, policy, finished, now=now)

    assert decision.start == ()
    assert decision.finish is None
    assert not decision.pause
    assert set(decision.waiting.values()) <= {TargetHold.OVER, TargetHold.ENDING}
    if decision.delete:
        assert policy.ends
        assert policy.ttl_s is not None
        assert now >= START + policy.ttl_s


@given(target_lists(), policies, runs, instants)
def test_the_same_facts_give_the_same_decision(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    assert decide_fan_out(targets, policy, run, now=now) == decide_fan_out(
        list(targets), policy, run, now=now
    )


@given(target_lists(), policies, runs, instants)
def test_a_job_ends_only_for_a_visible_reason(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    running = msgspec.structs.replace(run, finished_at=None)

    finish = decide_fan_out(targets, policy, running, now=now).finish

    match finish:
        case Finish.COMPLETE:
            wanted = [target for target in targets if target.is_wanted]
            assert wanted or policy.completes_empty
            assert all(target.state in (TargetState.SUCCEEDED, TargetState.FAILED) for target in wanted)
        case Finish.FAILED_TARGET:
            assert policy.on_failure is OnFailure.FAIL
            assert any(target.state in (TargetState.FAILED, TargetState.FAILING) for target in targets)
        case Finish.DEADLINE:
            assert policy.deadline_s is not None
            assert now - START >= policy.deadline_s
    if finish is not None:
        assert not policy.is_paused
        assert policy.ends or finish is Finish.FAILED_TARGET


@given(target_lists(), policies, runs, instants)
def test_a_paused_job_starts_nothing(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    paused = msgspec.structs.replace(policy, is_paused=True)
    running = msgspec.structs.replace(run, finished_at=None)

    decision = decide_fan_out(targets, paused, running, now=now)

    assert (decision.start, decision.stop, decision.finish, decision.pause) == ((), (), None, False)


@given(target_lists(), policies, runs, instants)
def test_nothing_changes_before_the_requeue_time(
    targets: tuple[FanOutTarget, ...], policy: JobPolicy, run: JobRun, now: float
) -> None:
    decision = decide_fan_out(targets, policy, run, now=now)
    after_s = decision.requeue_after_s if decision.requeue_after_s is not None else 10_000.0
    if decision.finish is not None or decision.delete:
        return

    before = decide_fan_out(targets, policy, run, now=now + after_s * 0.99)

    assert _without_times(before) == _without_times(decision)


def _without_times(decision: FanOutDecision) -> dict[str, Any]:
    return {**msgspec.structs.asdict(decision), "requeue_after_s": None}


class Model:
    """Carries out decisions, and changes targets randomly."""

    def __init__(self, count: int) -> None:
        self.targets = {f"n{number}": FanOutTarget(name=f"n{number}") for number in range(count)}
        self.run = JobRun(started_at=START)
        self.now = START

    def carry_out(self, decision: FanOutDecision) -> None:
        for name in decision.start:
            self.set(name, TargetState.ACTIVE)
        for name in decision.stop:
            self.set(name, TargetState.ENDING)
        if decision.finish is not None:
            self.run = msgspec.structs.replace(
                self.run, finished_at=self.now, has_failed=decision.finish.is_failure
            )

    def set(self, name: str, state: TargetState) -> None:
        old = self.targets[name]
        failures = old.failures + (state is TargetState.FAILED)
        self.targets[name] = msgspec.structs.replace(old, state=state, failures=failures)

    def move(self, draw: Sequence[int]) -> None:
        """End active or ending targets according to the drawn numbers."""
        for number, name in zip(draw, sorted(self.targets), strict=False):
            match self.targets[name].state, number:
                case TargetState.ACTIVE, 0:
                    self.set(name, TargetState.FAILED)
                case TargetState.ACTIVE, 1 | 2 | 3:
                    self.set(name, TargetState.SUCCEEDED)
                case TargetState.ENDING, 0 | 1:
                    self.set(name, TargetState.PENDING)


@given(
    policies, st.integers(1, 6), st.lists(st.lists(st.integers(0, 6), min_size=6, max_size=6), max_size=30)
)
def test_every_target_of_a_job_that_is_not_held_gets_an_outcome(
    policy: JobPolicy, count: int, moves: list[list[int]]
) -> None:
    model = Model(count)
    can_go_on = not policy.is_paused and policy.parallelism != 0
    for draw in [*moves, *[[1] * 6] * 20]:  # finally all targets end
        decision = decide_fan_out(model.targets.values(), policy, model.run, now=model.now)
        was_over = model.run.finished_at is not None
        model.carry_out(decision)
        active = sum(target.state is TargetState.ACTIVE for target in model.targets.values())
        assert policy.parallelism is None or active <= policy.parallelism
        if was_over:
            assert not decision.start
        model.move(draw)
        model.now += 1.0
    if not can_go_on:
        return
    states = [target.state for target in model.targets.values()]
    failed = any(state is TargetState.FAILED for state in states)
    if model.run.finished_at is not None and model.run.has_failed:
        assert TargetState.ACTIVE not in states, "a job that failed leaves nothing running"
    elif not (failed and policy.on_failure is OnFailure.PAUSE):
        assert set(states) <= {TargetState.SUCCEEDED, TargetState.FAILED}
        assert (model.run.finished_at is not None) is policy.ends
