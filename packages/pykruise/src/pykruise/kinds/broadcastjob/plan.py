"""The decision for a BroadcastJob: its table of contents.

Snapshot ──▶ targets_of() ──▶ fan_out() ──▶ Plan: the job's new state, pods that go, pods that come

Pure. A job that ends, is paused or goes on says so first and acts then: a manager that is killed halfway finds its own
word when it comes back, with the counts as they were.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pykruise.kinds.broadcastjob.pods import creations, deletion
from pykruise.kinds.broadcastjob.snapshot import (
    BroadcastJobSnapshot,
    BroadcastJobView,
    ReadableBroadcastJob,
    is_readable,
)
from pykruise.kinds.broadcastjob.status import (
    FAILED,
    PAUSED,
    RUNNING,
    document_of,
    finished,
    status_now,
)
from pykruise.kinds.broadcastjob.targets import BroadcastJobTargets, restarts_of, targets_of
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJobSpec, BroadcastJobStatus
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import counted
from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import refused_plan
from pykruise.pods.corrections import OF_A_JOB
from pykruise.pods.jobs.fan_out import (
    HELD,
    FanOutDecision,
    Finish,
    JobPolicy,
    JobRun,
    OnFailure,
    TargetState,
    fan_out,
    waiting_for,
)
from pykruise.pods.lifecycle.availability import next_late_at
from pykruise.pods.lifecycle.blockers import blockers_of, failed_as
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S
from pykruise.runtime.actions import delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, seconds_until, soonest
from pykruise.runtime.reasons import Reason
from pykruise.runtime.status import status_patch

_ON_FAILURE: Final = {"": OnFailure.FAIL, "FailFast": OnFailure.FAIL, "Pause": OnFailure.PAUSE}
"""Policy of other types: Continue. Rule: the original's."""

_RESUME: Final = "set spec.paused to false"
_NO_NODE: Final = Reason(
    Code.NOTHING_SELECTED,
    "no node fits; the job waits for one",
    "change nodeSelector, affinity or tolerations of spec.template, or label nodes",
)
_RESUME_AFTER_FAILURE: Final = "delete the failed pods and set spec.paused to false"


def plan_broadcastjob(snapshot: BroadcastJobSnapshot) -> Plan:
    """Everything to be written for this job now, its status, and when to look again."""
    job = snapshot.job
    if job.is_deleting:
        return Plan()
    if not is_readable(snapshot):
        return refused_plan(snapshot.refused or [snapshot.job.problem])
    targets = targets_of(snapshot)
    try:
        policy = policy_of(snapshot.job.spec, desired=sum(target.is_wanted for target in targets.targets))
    except ValueError as error:
        return refused_plan([f"spec.parallelism: {error}"])
    if job.is_finished and not job.status.completion_time:
        policy = msgspec.structs.replace(policy, ttl_s=None)  # it does not say since when: it is kept
    decision = fan_out(targets.targets, policy, _run_of(snapshot), now=snapshot.now)
    if job.is_finished:
        return _after_end(snapshot, targets, decision)
    return _before_end(snapshot, targets, decision, policy)


def policy_of(spec: BroadcastJobSpec, *, desired: int) -> JobPolicy:
    """Policy of the whole job in its spec. Raises ValueError for a parallelism that is none."""
    done, failed = spec.completion_policy, spec.failure_policy
    parallelism = spec.parallelism
    if isinstance(parallelism, str):
        # A text is a share of the nodes, with or without the sign.
        share = parallelism if is_percent(parallelism) else f"{parallelism}%"
        parallelism = resolve(share, of=desired, rounding=Rounding.UP)
    if parallelism is not None and parallelism < 0:
        raise ValueError(f"{spec.parallelism} is below 0")
    return JobPolicy(
        parallelism=parallelism,
        on_failure=_ON_FAILURE.get(failed.type if failed else "", OnFailure.CONTINUE),
        is_paused=spec.paused,
        ends=done is None or done.type != "Never",
        deadline_s=done.active_deadline_seconds if done else None,
        ttl_s=done.ttl_seconds_after_finished if done else None,
    )


def _run_of(snapshot: ReadableBroadcastJob) -> JobRun:
    job = snapshot.job
    started_at = _time(job.status.start_time)
    finished_at = _time(job.status.completion_time) if job.is_finished else None
    if job.is_finished and finished_at is None:
        finished_at = snapshot.now
    return JobRun(
        started_at=snapshot.now if started_at is None else started_at,
        finished_at=finished_at,
        has_failed=job.has_failed,
    )


def _time(text: str | None) -> Instant | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


# A job that is over


def _after_end(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision
) -> Plan:
    """Pods that a failed job has not stopped yet go, and at its time the job."""
    job = snapshot.job
    stages = _stop(targets, decision.stop, "the job has failed")
    if decision.delete:
        stages = [*stages, _deletion_of(job)]
    status = None
    waiting = _OVER if decision.requeue_after_s is not None else None
    if job.has_failed:
        waiting = Reason(Code.JOB_FAILED, _how_it_failed(job))
    if not job.ends:  # its counts are those of its pods as they are
        status = _document(job, status_now(snapshot, decision.counts, phase=FAILED))
    return Plan(
        stages=tuple(stages),
        status=status,
        requeue_after_s=decision.requeue_after_s,
        waiting=waiting,
        skipped=_failed_pods(targets),
    )


_OVER: Final = Reason(Code.JOB_OVER, "the job is over")


def _how_it_failed(job: BroadcastJobView) -> str:
    condition = next(
        (condition for condition in job.status.conditions or () if condition.type == "Failed"), None
    )
    return (condition.message if condition is not None else None) or "the job has failed"


def _deletion_of(job: BroadcastJobView) -> Stage:
    because = "ttlSecondsAfterFinished has passed"
    step = Step(action=delete_object(BROADCAST_JOBS, job), because=because)
    return Stage(purpose=Purpose.DELETE_JOB, chains=(Chain(subject=job.name, steps=(step,)),))


# A job that is not


def _before_end(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision, policy: JobPolicy
) -> Plan:
    job = snapshot.job
    if decision.finish is not None:
        return _ending(snapshot, targets, decision, decision.finish)
    if decision.pause:
        return _pausing(snapshot, targets, decision)
    if policy.is_paused:
        return _paused(snapshot, targets, decision, policy)
    is_resumed = job.status.phase == PAUSED
    status = status_now(snapshot, decision.counts, phase=RUNNING)
    stages: list[Stage] = []
    if is_resumed:
        stages += _store_status(job, status, notes=(_GOES_ON,), because="spec.paused is false")
    stages += _stop(targets, _without_left_to_gc(targets, decision.stop), "")
    now = decision.start[:MOST_AT_ONCE]
    if now:
        chains = tuple(creations(snapshot, now))
        stages.append(Stage(purpose=Purpose.CREATE_PODS, chains=chains, ramp=True))
    return Plan(
        stages=tuple(stages),
        status=None if is_resumed else _document(job, status),
        requeue_after_s=0.0 if len(now) < len(decision.start) else _look_again_s(snapshot, targets, decision),
        waiting=waiting_for(
            decision, nothing_fits=_NO_NODE, what="{} pods", obstacles=_obstacles(snapshot, targets)
        ),
        skipped=_skipped_pods(snapshot, targets),
        skipped_nodes=_skipped_nodes(targets, decision),
        notes=tuple(_notes(targets, decision, policy)),
    )


def _ending(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision, finish: Finish
) -> Plan:
    job = snapshot.job
    resumed = [_GOES_ON] if job.status.phase == PAUSED else []
    status = finished(snapshot, decision, finish)
    return Plan(
        stages=(
            *_store_status(
                job, status, notes=[*resumed, _END_NOTES[finish]], because=_END_NOTES[finish].message
            ),
            *_stop(targets, decision.stop, _END_NOTES[finish].message),
        ),
        requeue_after_s=decision.requeue_after_s,
    )


_GOES_ON: Final = Note(reason="Continue", message="the job goes on")
_END_NOTES: Final = {
    Finish.COMPLETE: Note(reason="JobComplete", message="every node has run its pod"),
    Finish.FAILED_TARGET: Note(reason="failed pod is found", message="failed pod is found", warning=True),
    Finish.DEADLINE: Note(
        reason="DeadlineExceeded", message="the job was active longer than its deadline", warning=True
    ),
}


def _pausing(snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision) -> Plan:
    """A failed pod pauses the job. The status is first: a spec that says paused, and nothing else, would look as if a
    person had paused it."""
    job = snapshot.job
    failed = decision.counts.failed
    message = f"{failed} {'pod has' if failed == 1 else 'pods have'} failed: the job is paused"
    patch = Step(
        action=patch_object(BROADCAST_JOBS, job, {"spec": {"paused": True}}),
        because=message,
        done=Note(reason="Paused", message=message, warning=True),
    )
    stage = Stage(purpose=Purpose.PAUSE_JOB, chains=(Chain(subject=job.name, steps=(patch,)),))
    status = status_now(snapshot, decision.counts, phase=PAUSED)
    return Plan(
        stages=(*_store_status(job, status, notes=(), because=message), stage),
        waiting=Reason(Code.PAUSED, message, _RESUME_AFTER_FAILURE),
        skipped=_failed_pods(targets),
        skipped_nodes=_held_nodes(decision),
    )


def _paused(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision, policy: JobPolicy
) -> Plan:
    """Nothing is done but to say how things are."""
    has_failed = decision.counts.failed > 0 and policy.on_failure is OnFailure.PAUSE
    remedy = _RESUME_AFTER_FAILURE if has_failed else _RESUME
    return Plan(
        status=_document(snapshot.job, status_now(snapshot, decision.counts, phase=PAUSED)),
        waiting=Reason(Code.PAUSED, "the job is paused", remedy),
        skipped=_failed_pods(targets),
        skipped_nodes=_held_nodes(decision),
    )


# Writes


def _store_status(
    job: BroadcastJobView, status: BroadcastJobStatus, *, notes: Iterable[Note], because: str
) -> Iterator[Stage]:
    """The status, before anything else is done, with the events to record once it is stored; nothing when it is
    stored already."""
    patch = status_patch(
        BROADCAST_JOBS,
        job.key,
        uid=job.uid,
        stored=job.stored_status,
        wanted=document_of(status),
        resource_version=str(job.resource_version),
    )
    if patch is None:
        return
    events = tuple(notes)
    step = Step(action=patch, because=because, done=events[-1] if events else None, also=events[:-1])
    yield Stage(purpose=Purpose.REPORT_STATUS, chains=(Chain(subject=job.name, steps=(step,)),))


def _stop(targets: BroadcastJobTargets, names: Iterable[str], because: str) -> list[Stage]:
    chains = tuple(deletion(targets.pods[name], because or targets.why[name]) for name in names)
    return [Stage(purpose=Purpose.DELETE_PODS, chains=chains, regardless=not because)] if chains else []


def _without_left_to_gc(targets: BroadcastJobTargets, names: Iterable[str]) -> Iterator[str]:
    """Without pods on nodes that are not there, which go by themselves: the node may just not be known here yet."""
    return (name for name in names if name not in targets.is_left_to_gc)


def _document(job: BroadcastJobView, status: BroadcastJobStatus) -> Document | None:
    """The status to write; None: it is stored like that already."""
    document = document_of(status)
    return None if document == job.stored_status else document


# Reasons and events


def _notes(targets: BroadcastJobTargets, decision: FanOutDecision, policy: JobPolicy) -> Iterator[Note]:
    if decision.exceeds_parallelism:
        active = counted(decision.counts.active, "pod is", "pods are")
        message = f"{active} active, and parallelism is {policy.parallelism}"
        yield Note(
            reason="TooManyActivePods",
            message=message,
            warning=True,
            again_after_s=LOOK_AGAIN_S,
            same_as="TooManyActivePods",
        )
    for node, pod in targets.duplicates:
        message = f"node {node} has another pod of the job: {pod.name} is deleted"
        yield Note(
            reason="DuplicatePodCreatedOnSameNode", message=message, warning=True, again_after_s=LOOK_AGAIN_S
        )


def _obstacles(snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets) -> list[tuple[PodView, Reason]]:
    """Obstacles of pods that must run."""
    return blockers_of(_active_pods(targets), None, now=snapshot.now, correction=OF_A_JOB)


def _active_pods(targets: BroadcastJobTargets) -> Iterator[PodView]:
    return (targets.pods[target.name] for target in targets.targets if target.state is TargetState.ACTIVE)


def _look_again_s(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision
) -> float | None:
    """Seconds until time alone changes the plan: the decision's, or when a pod is late with its start."""
    late_at = next_late_at(_active_pods(targets), now=snapshot.now)
    return soonest([decision.requeue_after_s, seconds_until(late_at, now=snapshot.now)])


def _failed_pods(targets: BroadcastJobTargets) -> dict[str, Reason]:
    """How pods failed, by name."""
    return {
        targets.pods[target.name].name: failed_as(targets.pods[target.name])
        for target in targets.targets
        if target.state in (TargetState.FAILED, TargetState.FAILING) and target.name in targets.pods
    }


def _skipped_pods(snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets) -> dict[str, Reason]:
    """Pods that have failed and are left as they are, with what that means."""
    pods: dict[str, Reason] = {}
    for target in targets.targets:
        if target.state is TargetState.FAILING and target.is_wanted:
            pod = targets.pods[target.name]
            message = f"its containers restarted {restarts_of(pod)} times, beyond restartLimit: it has failed"
            pods[pod.name] = Reason(Code.POD_FAILED, message, "delete the pod to have its node run again")
    return pods


def _skipped_nodes(targets: BroadcastJobTargets, decision: FanOutDecision) -> dict[str, Reason]:
    idle = {node: Reason(Code.UNFIT_NODE, why) for node, why in targets.idle.items()}
    return {**idle, **_held_nodes(decision)}


def _held_nodes(decision: FanOutDecision) -> dict[str, Reason]:
    return {name: HELD[hold] for name, hold in decision.waiting.items()}
