"""The rule of all jobs that do one thing to many targets: what starts, what stops, and when the job is over.

targets (nodes, pods, images, containers) + Policy + Run ──▶ fan_out(now=…) ──▶ Decision: start, stop, waiting, finish

Pure. A kind says what state each of its targets is in and carries the decision out. The same targets in the same
order give the same decision, and what has been decided is decided again until it is seen to be done: a job that
has failed goes on stopping what still runs, so that a manager that was killed halfway leaves nothing behind.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.waiting import waiting_for_repeated
from pykruise.runtime.reasons import Reason


class TargetState(StrEnum):
    """How far the job is with one target."""

    PENDING = "pending"
    """Nothing has been started, or what was has been taken away."""
    ACTIVE = "active"
    """It has been started and has not ended."""
    FAILING = "failing"
    """It counts as failed already, but has not ended and may go on for ever (a pod beyond its restart limit)."""
    ENDING = "ending"
    """It is being stopped. It is no longer active, but nothing else starts there before it has gone."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


_ENDED: Final = (TargetState.SUCCEEDED, TargetState.FAILED)


class FanOutTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to which the job does its work."""

    name: str
    """Different for all targets of a job."""
    state: TargetState = TargetState.PENDING
    is_wanted: bool = True
    """False: the job is not for it (any more). What is active there is stopped; it is not waited for."""
    failures: int = 0
    """How often it has failed until now, the present failure included."""


class OnFailure(StrEnum):
    """Policy after the first failed target of a job."""

    FAIL = "fail"
    """The job has failed: the rest is stopped."""
    CONTINUE = "continue"
    """Nothing: the job completes when all have ended, in whatever way."""
    PAUSE = "pause"
    """Nothing more is started until a person says so; what is active goes on."""


class JobPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Policy of the whole job in its spec. Times in seconds; None: no limit."""

    parallelism: int | None = None
    """How many targets may be active at once. 0: none is started."""
    on_failure: OnFailure = OnFailure.CONTINUE
    retries: int = 0
    """How often a target that failed is started anew before it counts as failed."""
    is_paused: bool = False
    """Nothing is started, stopped or judged. The deadline's time runs on all the same."""
    ends: bool = True
    """False (completion policy Never): the job goes on for targets that come later. It has no deadline and no
    time to live."""
    completes_empty: bool = False
    """Whether a job without a single wanted target is complete, or waits for one to come."""
    completes_late: bool = False
    """Whether a job whose targets have all ended is complete even when the deadline has passed."""
    deadline_s: int | None = None
    """Since the job's start. 0: it fails at once."""
    ttl_s: int | None = None
    """From the job's end until it is deleted."""


class JobRun(msgspec.Struct, frozen=True, kw_only=True):
    """State of the job in its status."""

    started_at: Instant
    """The present time for a job that has not started yet."""
    finished_at: Instant | None = None
    """None: it has not."""
    has_failed: bool = False
    """Whether a finished job has failed."""


class TargetHold(StrEnum):
    """Why a target that is pending is not started."""

    PAUSED = "paused"
    PARALLELISM = "parallelism"
    ZERO = "zero"
    """No target may be active at all."""
    ENDING = "ending"
    """The previous run on the target has not been deleted yet."""
    OVER = "over"
    """The job is over."""


class Finish(StrEnum):
    """How a job ends."""

    COMPLETE = "complete"
    """All wanted targets have ended; some may have failed."""
    FAILED_TARGET = "failed target"
    DEADLINE = "deadline"

    @property
    def is_failure(self) -> bool:
        """Whether what is still active is stopped."""
        return self is not Finish.COMPLETE


class FanOutCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Targets before the decision is carried out. Those that are not wanted count by their state, too."""

    wanted: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    """With those that are failing."""


class FanOutDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Steps to take now. Names are those of targets, in the order in which they were given."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """Active ones that have to end, since they are not wanted or the job has failed."""
    waiting: Mapping[str, TargetHold] = {}
    """Pending or ending targets of the job that are not started now, with the reason."""
    finish: Finish | None = None
    """The job ends now, in this way."""
    pause: bool = False
    """A failed target pauses the job: it is to be stored that a person has to resume it."""
    delete: bool = False
    """The job's time to live is over."""
    exceeds_parallelism: bool = False
    """More are active than may be; none is stopped for that."""
    requeue_after_s: float | None = None
    """Seconds until time alone changes something; None: never."""
    counts: FanOutCounts = FanOutCounts()


def fan_out(
    targets: Iterable[FanOutTarget], policy: JobPolicy, run: JobRun, *, now: Instant
) -> FanOutDecision:
    """Decision about the targets now. They are started in the order in which they are given.

    A job that has finished starts nothing and never ends in another way; it is deleted when its time to live is
    over.
    """
    result = tuple(targets)
    counts = _counts(result)
    if run.finished_at is not None:
        return _after_end(result, policy, run, run.finished_at, counts, now=now)
    if policy.is_paused:
        return FanOutDecision(waiting=_held(result, policy, TargetHold.PAUSED), counts=counts)
    if policy.on_failure is OnFailure.PAUSE and _has_failure(result, policy):
        return FanOutDecision(pause=True, waiting=_held(result, policy, TargetHold.PAUSED), counts=counts)
    finish = _finish(result, policy, run, now=now)
    if finish is not None:
        return _at_end(result, policy, finish, counts)
    return _on_the_way(result, policy, run, counts, now=now)


def _counts(targets: Sequence[FanOutTarget]) -> FanOutCounts:
    states = [target.state for target in targets]
    return FanOutCounts(
        wanted=sum(target.is_wanted for target in targets),
        active=states.count(TargetState.ACTIVE),
        succeeded=states.count(TargetState.SUCCEEDED),
        failed=states.count(TargetState.FAILED) + states.count(TargetState.FAILING),
    )


# Whether the job is over


def _finish(
    targets: Sequence[FanOutTarget], policy: JobPolicy, run: JobRun, *, now: Instant
) -> Finish | None:
    if policy.on_failure is OnFailure.FAIL and _has_failure(targets, policy):
        return Finish.FAILED_TARGET
    if not policy.ends:
        return None
    is_late = policy.deadline_s is not None and now >= run.started_at + policy.deadline_s
    is_complete = _is_complete(targets, policy)
    if is_late and not (is_complete and policy.completes_late):
        return Finish.DEADLINE
    return Finish.COMPLETE if is_complete else None


def _has_failure(targets: Sequence[FanOutTarget], policy: JobPolicy) -> bool:
    return any(
        target.state is TargetState.FAILING
        or (target.state is TargetState.FAILED and not _is_retried(target, policy))
        for target in targets
    )


def _is_retried(target: FanOutTarget, policy: JobPolicy) -> bool:
    return target.is_wanted and target.state is TargetState.FAILED and 0 < target.failures <= policy.retries


def _is_complete(targets: Sequence[FanOutTarget], policy: JobPolicy) -> bool:
    wanted = [target for target in targets if target.is_wanted]
    if not wanted:
        return policy.completes_empty
    return all(target.state in _ENDED and not _is_retried(target, policy) for target in wanted)


# What is done


def _after_end(
    targets: Sequence[FanOutTarget],
    policy: JobPolicy,
    run: JobRun,
    finished_at: Instant,
    counts: FanOutCounts,
    *,
    now: Instant,
) -> FanOutDecision:
    stop = _to_stop(targets, all_active=run.has_failed)
    if policy.ttl_s is None or not policy.ends:
        return FanOutDecision(stop=stop, waiting=_held(targets, policy, TargetHold.OVER), counts=counts)
    left = finished_at + policy.ttl_s - now
    return FanOutDecision(
        stop=stop,
        waiting=_held(targets, policy, TargetHold.OVER),
        delete=left <= 0,
        requeue_after_s=left if left > 0 else None,
        counts=counts,
    )


def _at_end(
    targets: Sequence[FanOutTarget], policy: JobPolicy, finish: Finish, counts: FanOutCounts
) -> FanOutDecision:
    return FanOutDecision(
        finish=finish,
        stop=_to_stop(targets, all_active=finish.is_failure),
        waiting=_held(targets, policy, TargetHold.OVER),
        requeue_after_s=policy.ttl_s if policy.ends else None,
        counts=counts,
    )


def _on_the_way(
    targets: Sequence[FanOutTarget], policy: JobPolicy, run: JobRun, counts: FanOutCounts, *, now: Instant
) -> FanOutDecision:
    pending = [target.name for target in targets if _can_start(target, policy)]
    room = len(pending) if policy.parallelism is None else max(policy.parallelism - counts.active, 0)
    is_zero = policy.parallelism is not None and policy.parallelism <= 0
    held = _held(targets, policy, TargetHold.ZERO if is_zero else TargetHold.PARALLELISM)
    for name in pending[:room]:
        del held[name]
    return FanOutDecision(
        start=tuple(pending[:room]),
        stop=_to_stop(targets, all_active=False),
        waiting=held,
        exceeds_parallelism=policy.parallelism is not None and counts.active > policy.parallelism,
        requeue_after_s=_until_deadline(policy, run, now=now),
        counts=counts,
    )


def _can_start(target: FanOutTarget, policy: JobPolicy) -> bool:
    return target.is_wanted and (target.state is TargetState.PENDING or _is_retried(target, policy))


def _to_stop(targets: Sequence[FanOutTarget], *, all_active: bool) -> tuple[str, ...]:
    """Active targets that are not wanted, or all active ones. What is failing is left for people to look at, unless it
    is not wanted.
    """
    return tuple(
        target.name
        for target in targets
        if (target.state is TargetState.ACTIVE and (all_active or not target.is_wanted))
        or (target.state is TargetState.FAILING and not target.is_wanted)
    )


def _held(targets: Sequence[FanOutTarget], policy: JobPolicy, why: TargetHold) -> dict[str, TargetHold]:
    """All that could be started but for this reason, and those where something still ends."""
    return {
        target.name: TargetHold.ENDING if target.state is TargetState.ENDING else why
        for target in targets
        if _can_start(target, policy) or (target.is_wanted and target.state is TargetState.ENDING)
    }


def _until_deadline(policy: JobPolicy, run: JobRun, *, now: Instant) -> float | None:
    if policy.deadline_s is None or not policy.ends:
        return None
    return run.started_at + policy.deadline_s - now


HELD: Final = {
    TargetHold.PAUSED: Reason(Code.PAUSED, "the job is paused", "set spec.paused to false"),
    TargetHold.PARALLELISM: Reason(Code.PARALLELISM, "waits for its turn: parallelism is used up"),
    TargetHold.ZERO: limit_is_zero("spec.parallelism", "nothing is started"),
    TargetHold.ENDING: Reason(Code.DEPARTING, "its last pod still exists"),
    TargetHold.OVER: Reason(Code.JOB_OVER, "the job is over"),
}
"""Codes of targets that are not started."""


def waiting_for(
    decision: FanOutDecision,
    *,
    nothing_fits: Reason,
    what: str,
    obstacles: Sequence[tuple[PodView, Reason]] = (),
) -> Reason | None:
    """Reason for which the job waits; None: none. `what`: things that run, in the plural and with `{}` for how many.
    `obstacles`: of its pods, the reasons why they do not run; those come before the job's own limits.
    """
    if not decision.counts.wanted:
        return nothing_fits
    if (of_pods := waiting_for_repeated(obstacles)) is not None:
        return of_pods
    if decision.waiting:
        return HELD[next(iter(decision.waiting.values()))]
    if decision.counts.active:
        return Reason(Code.PODS_ACTIVE, f"{what.format(decision.counts.active)} have not ended")
    return None
