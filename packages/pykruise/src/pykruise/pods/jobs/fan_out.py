"""Rule of all jobs that do the same work on many targets: the targets to start and to stop, and the end of the job.

targets (nodes, pods, images, containers) + JobPolicy + JobRun ──▶ decide_fan_out(now=…) ──▶ FanOutDecision:
                                                                            start, stop, waiting, finish

Pure. A kind reports the state of each target and executes the decision. The same targets in the same order give the
same decision. A decision is repeated until its effect is visible: a failed job keeps stopping active targets, so that
a manager that was killed halfway leaves nothing running.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.waiting import find_repeated_wait
from pykruise.runtime.reasons import Reason


class TargetState(StrEnum):
    """Progress of the job on one target."""

    PENDING = "pending"
    """Nothing has been started, or the started run has been removed."""
    ACTIVE = "active"
    """A run has started and has not ended."""
    FAILING = "failing"
    """The run counts as failed but has not ended and may continue forever (a pod beyond its restart limit)."""
    ENDING = "ending"
    """The run is being stopped. It is no longer active, but nothing else starts on the target until the run is deleted.
    """
    SUCCEEDED = "succeeded"
    FAILED = "failed"


_ENDED: Final = (TargetState.SUCCEEDED, TargetState.FAILED)


class FanOutTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target of the job's work."""

    name: str
    """Unique among the targets of a job."""
    state: TargetState = TargetState.PENDING
    is_wanted: bool = True
    """Whether the job still selects the target. If not, a run on the target is stopped, and the job does not wait for
    it.
    """
    failures: int = 0
    """Number of failures so far, including the present one."""
    is_blocked: bool = False
    """Whether nothing can run on the target now. A run on such a target does not keep other targets from starting."""


class OnFailure(StrEnum):
    """Effect of the first failed target on the job."""

    FAIL = "fail"
    """The job fails, and its active targets are stopped."""
    CONTINUE = "continue"
    """No effect: the job completes when all targets have ended, failed or not."""
    PAUSE = "pause"
    """No more targets are started until a person resumes the job. Active targets continue."""


class JobPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Policy of the whole job, from its spec. Times are in seconds; None means no limit."""

    parallelism: int | None = None
    """Number of targets that may be active at the same time; with 0, no target is started."""
    on_failure: OnFailure = OnFailure.CONTINUE
    retries: int = 0
    """Number of times that a failed target is started again. When no retry is left, the target counts as failed."""
    is_paused: bool = False
    """Whether the job is paused: no target is started, stopped or judged. The time until the deadline continues, but
    the job does not end before it is resumed.
    """
    ends: bool = True
    """Whether the job ends. If not (completion policy Never), the job continues with targets that are added later, and
    has no deadline and no time to live.
    """
    completes_empty: bool = False
    """Whether a job without wanted targets is complete. Otherwise such a job waits for a target."""
    completes_late: bool = False
    """Whether a job with only ended targets is complete even after its deadline."""
    deadline_s: int | None = None
    """Seconds from the job's start until it fails; with 0, it fails immediately."""
    ttl_s: int | None = None
    """Seconds from the job's end until it is deleted."""


class JobRun(msgspec.Struct, frozen=True, kw_only=True):
    """State of the job, from its status."""

    started_at: Instant
    """Start of the job; the present time when it has not started yet."""
    finished_at: Instant | None = None
    """Time of the job's end; None if the job has not finished."""
    has_failed: bool = False
    """Whether a finished job has failed."""


class TargetHold(StrEnum):
    """Reason why a pending target is not started."""

    PAUSED = "paused"
    PARALLELISM = "parallelism"
    TURN = "turn"
    """No target is active, and others are started first: the policy does not allow starting all at the same time."""
    ZERO = "zero"
    """The policy allows no active target."""
    ENDING = "ending"
    """The previous run on the target has not been deleted yet."""
    OVER = "over"
    """The job has ended."""


class Finish(StrEnum):
    """Way in which a job ends."""

    COMPLETE = "complete"
    """All wanted targets have ended; some may have failed."""
    FAILED_TARGET = "failed target"
    DEADLINE = "deadline"

    @property
    def is_failure(self) -> bool:
        """Whether this end stops active targets."""
        return self is not Finish.COMPLETE


class FanOutCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of targets before the decision is executed. The number for each state includes unwanted targets."""

    wanted: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    """Includes failing targets."""


class FanOutDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Steps to take now. Names of targets are in the order in which the targets were given."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """Targets to stop because they are unwanted or the job has failed."""
    waiting: Mapping[str, TargetHold] = {}
    """Pending or ending targets of the job that are not started now, each with the reason."""
    finish: Finish | None = None
    """Way in which the job ends now; None if the job does not end now."""
    pause: bool = False
    """Whether a failed target pauses the job. Then the status must record that a person has to resume the job."""
    delete: bool = False
    """Whether the job's time to live has ended."""
    exceeds_parallelism: bool = False
    """Whether more targets are active than parallelism allows. No target is stopped for this reason."""
    requeue_after_s: float | None = None
    """Seconds after which the decision changes without an event; None if it never does."""
    counts: FanOutCounts = FanOutCounts()


def decide_fan_out(
    targets: Iterable[FanOutTarget], policy: JobPolicy, run: JobRun, *, now: Instant
) -> FanOutDecision:
    """Decide about the targets now. Targets are started in the given order.

    A finished job starts nothing and never changes its result. It is deleted when its time to live has ended.
    """
    result = tuple(targets)
    counts = _count_targets(result)
    if run.finished_at is not None:
        return _decide_after_end(result, policy, run, run.finished_at, counts, now=now)
    if policy.is_paused:
        return FanOutDecision(waiting=_find_held_targets(result, policy, TargetHold.PAUSED), counts=counts)
    if policy.on_failure is OnFailure.PAUSE and _has_failure(result, policy):
        return FanOutDecision(
            pause=True, waiting=_find_held_targets(result, policy, TargetHold.PAUSED), counts=counts
        )
    finish = _decide_finish(result, policy, run, now=now)
    if finish is not None:
        return _decide_at_end(result, policy, finish, counts)
    return _decide_running(result, policy, run, counts, now=now)


def _count_targets(targets: Sequence[FanOutTarget]) -> FanOutCounts:
    states = [target.state for target in targets]
    return FanOutCounts(
        wanted=sum(target.is_wanted for target in targets),
        active=states.count(TargetState.ACTIVE),
        succeeded=states.count(TargetState.SUCCEEDED),
        failed=states.count(TargetState.FAILED) + states.count(TargetState.FAILING),
    )


# End of the job


def _decide_finish(
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


# Decisions


def _decide_after_end(
    targets: Sequence[FanOutTarget],
    policy: JobPolicy,
    run: JobRun,
    finished_at: Instant,
    counts: FanOutCounts,
    *,
    now: Instant,
) -> FanOutDecision:
    stop = _select_to_stop(targets, all_active=run.has_failed)
    if policy.ttl_s is None or not policy.ends:
        return FanOutDecision(
            stop=stop, waiting=_find_held_targets(targets, policy, TargetHold.OVER), counts=counts
        )
    left = finished_at + policy.ttl_s - now
    return FanOutDecision(
        stop=stop,
        waiting=_find_held_targets(targets, policy, TargetHold.OVER),
        delete=left <= 0,
        requeue_after_s=left if left > 0 else None,
        counts=counts,
    )


def _decide_at_end(
    targets: Sequence[FanOutTarget], policy: JobPolicy, finish: Finish, counts: FanOutCounts
) -> FanOutDecision:
    return FanOutDecision(
        finish=finish,
        stop=_select_to_stop(targets, all_active=finish.is_failure),
        waiting=_find_held_targets(targets, policy, TargetHold.OVER),
        requeue_after_s=policy.ttl_s if policy.ends else None,
        counts=counts,
    )


def _decide_running(
    targets: Sequence[FanOutTarget], policy: JobPolicy, run: JobRun, counts: FanOutCounts, *, now: Instant
) -> FanOutDecision:
    start = _select_to_start(targets, policy, counts)
    is_zero = policy.parallelism is not None and policy.parallelism <= 0
    full = TargetHold.PARALLELISM if counts.active else TargetHold.TURN
    held = _find_held_targets(targets, policy, TargetHold.ZERO if is_zero else full)
    for name in start:
        del held[name]
    return FanOutDecision(
        start=tuple(start),
        stop=_select_to_stop(targets, all_active=False),
        waiting=held,
        exceeds_parallelism=policy.parallelism is not None and counts.active > policy.parallelism,
        requeue_after_s=_compute_seconds_until_deadline(policy, run, now=now),
        counts=counts,
    )


def _select_to_start(targets: Sequence[FanOutTarget], policy: JobPolicy, counts: FanOutCounts) -> list[str]:
    """Select targets up to the parallelism. A run on a blocked target uses up parallelism for other blocked targets
    only. So more runs than the parallelism may be active when blocked targets can run again.
    """
    pending = [target for target in targets if _can_start(target, policy)]
    if policy.parallelism is None:
        return [target.name for target in pending]
    stuck = sum(target.is_blocked and target.state is TargetState.ACTIVE for target in targets)
    selected: list[str] = []
    for target in pending:
        active = counts.active if target.is_blocked else counts.active - stuck
        if active + len(selected) < policy.parallelism:
            selected.append(target.name)
    return selected


def _can_start(target: FanOutTarget, policy: JobPolicy) -> bool:
    return target.is_wanted and (target.state is TargetState.PENDING or _is_retried(target, policy))


def _select_to_stop(targets: Sequence[FanOutTarget], *, all_active: bool) -> tuple[str, ...]:
    """Unwanted targets with a run and, with `all_active`, all active targets. Wanted targets that are failing continue,
    so that people can examine them.
    """
    return tuple(
        target.name
        for target in targets
        if (target.state is TargetState.ACTIVE and (all_active or not target.is_wanted))
        or (target.state is TargetState.FAILING and not target.is_wanted)
    )


def _find_held_targets(
    targets: Sequence[FanOutTarget], policy: JobPolicy, why: TargetHold
) -> dict[str, TargetHold]:
    """Targets that would be started without this reason, and targets with a run that is still ending."""
    return {
        target.name: TargetHold.ENDING if target.state is TargetState.ENDING else why
        for target in targets
        if _can_start(target, policy) or (target.is_wanted and target.state is TargetState.ENDING)
    }


def _compute_seconds_until_deadline(policy: JobPolicy, run: JobRun, *, now: Instant) -> float | None:
    if policy.deadline_s is None or not policy.ends:
        return None
    return run.started_at + policy.deadline_s - now


def make_deadline_remedy(field: str) -> str:
    """Remedy for a job that exceeded its deadline. `field`: path of the deadline."""
    return f"correct what prevented its pods from completing, or raise {field}; then create the job again"


WAITS_FOR_ITS_TURN: Final = Reason(
    Code.PARALLELISM, "waits for its turn: parallelism is used up", CODES[Code.PARALLELISM].helps
)
"""Reason of a target that starts when another one has ended."""

OTHERS_ARE_FIRST: Final = Reason(
    Code.PARALLELISM, "waits for its turn: others are started first", CODES[Code.PARALLELISM].helps
)
"""Reason of a target that starts when another one, which is started now, has ended."""

HELD: Final = {
    TargetHold.PAUSED: Reason(Code.PAUSED, "the job is paused", "set spec.paused to false"),
    TargetHold.PARALLELISM: WAITS_FOR_ITS_TURN,
    TargetHold.TURN: OTHERS_ARE_FIRST,
    TargetHold.ZERO: limit_is_zero("spec.parallelism", "nothing is started"),
    TargetHold.ENDING: Reason(Code.DEPARTING, "its previous pod still exists"),
    TargetHold.OVER: Reason(Code.JOB_OVER, "the job has ended"),
}
"""Reasons of targets that are not started."""


def explain_pause(policy: JobPolicy, run: JobRun, *, field: str, now: Instant) -> Reason:
    """Return why a paused job starts nothing. The deadline continues during a pause, so a job that is resumed after it
    ends at once. `field`: path of the deadline.
    """
    paused, left = HELD[TargetHold.PAUSED], _compute_seconds_until_deadline(policy, run, now=now)
    if left is None:
        return paused
    ends = format_time(now + left)
    if left > 0:
        end = f"its deadline continues, so it ends immediately if it is resumed after {ends} ({field})"
        return Reason(Code.PAUSED, f"{paused.message}; {end}", paused.remedy)
    return Reason(
        Code.PAUSED,
        f"{paused.message}, and its deadline passed at {ends}: it ends as soon as it is resumed",
        f"raise {field}, which counts from status.startTime, to a time in the future, or remove it; then"
        f" {paused.remedy}",
    )


def find_wait_reason(
    decision: FanOutDecision,
    *,
    nothing_fits: Reason,
    running: Callable[[int], str],
    obstacles: Sequence[tuple[PodView, Reason]] = (),
    paused: Reason = HELD[TargetHold.PAUSED],
) -> Reason | None:
    """Reason for which the job waits; None if the job does not wait.

    `running`: turns the number of active targets into subject and verb, such as `2 pods have`. `obstacles`: reasons why
    the job's pods do not run; these come before the job's own limits. `paused`: see `explain_pause`.
    """
    if not decision.counts.wanted:
        return nothing_fits
    if (of_pods := find_repeated_wait(obstacles)) is not None:
        return of_pods
    if decision.waiting:
        hold = next(iter(decision.waiting.values()))
        return paused if hold is TargetHold.PAUSED else HELD[hold]
    if decision.counts.active:
        return Reason(
            Code.PODS_ACTIVE, f"{running(decision.counts.active)} not ended", "wait until they have ended"
        )
    return None
