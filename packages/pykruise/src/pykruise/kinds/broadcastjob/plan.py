"""All decisions about a BroadcastJob, as one plan.

BroadcastJobSnapshot ──▶ targets_of() ──▶ decide_fan_out() ──▶ Plan: the job's new state, pods to delete, pods to create

Pure. When a job ends, is paused or resumes, the plan first stores the new state in the status, and then sends the other
writes. A manager that restarts between them finds the new state and the counts in the status.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.broadcastjob.pod_group import BroadcastJobGang, find_gang, find_problem
from pykruise.kinds.broadcastjob.pods import plan_creations, plan_deletion
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
    compute_status,
    document_of,
    finish_status,
)
from pykruise.kinds.broadcastjob.targets import BroadcastJobTargets, restarts_of, targets_of
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJobSpec, BroadcastJobStatus
from pykruise.kinds.broadcastjob.validation import NAME_LABEL
from pykruise.kube.clock import parse_optional_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.pod_groups import LOOK_AGAIN_S as GROUPS_AGAIN_S
from pykruise.plans.pod_groups import drop_groups, keep_groups
from pykruise.plans.pod_writes import stage_of
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_A_JOB
from pykruise.pods.jobs.fan_out import (
    HELD,
    FanOutDecision,
    Finish,
    JobPolicy,
    JobRun,
    OnFailure,
    TargetHold,
    TargetState,
    decide_fan_out,
    explain_pause,
    find_wait_reason,
    make_deadline_remedy,
)
from pykruise.pods.lifecycle.blockers import blockers_of, explain_failure, find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.template.node_placement import summarize_obstacles
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S
from pykruise.pods.workload.waiting import find_pod_wait, find_repeated_wait
from pykruise.runtime.actions import delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason
from pykruise.runtime.status import build_status_patch

_ON_FAILURE: Final = {"": OnFailure.FAIL, "FailFast": OnFailure.FAIL, "Pause": OnFailure.PAUSE}
"""Type of the failure policy → policy; any other type means Continue, as in OpenKruise."""

NAMED: Final = 5
"""Maximum number of failed pods that a remedy names."""
_DEADLINE: Final = "spec.completionPolicy.activeDeadlineSeconds"
_NO_NODE: Final = Reason(
    Code.NOTHING_SELECTED, "the cluster has no node; the job waits for a node", "add a node"
)


def plan_broadcastjob(snapshot: BroadcastJobSnapshot) -> Plan:
    """Plan all writes that this job needs now, its status, and when it is reconciled again."""
    job = snapshot.job
    if job.is_deleting:
        return Plan()
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.job.problem])
    if not job.is_finished and (problem := find_problem(snapshot)):
        return msgspec.structs.replace(make_refused_plan([problem]), requeue_after_s=GROUPS_AGAIN_S)
    targets = targets_of(snapshot)
    try:
        policy = policy_of(snapshot.job.spec, desired=sum(target.is_wanted for target in targets.targets))
    except ValueError as error:
        return make_refused_plan([f"spec.parallelism: {error}"])
    if job.is_finished and not job.status.completion_time:
        policy = msgspec.structs.replace(policy, ttl_s=None)  # the end time is unknown, so the job is kept
    decision = decide_fan_out(targets.targets, policy, _build_run(snapshot), now=snapshot.now)
    if job.is_finished:
        return _plan_after_end(snapshot, targets, decision)
    return _plan_before_end(snapshot, targets, decision, policy)


def policy_of(spec: BroadcastJobSpec, *, desired: int) -> JobPolicy:
    """Build the policy of the whole job from its spec. Raises ValueError for an invalid parallelism."""
    done, failed = spec.completion_policy, spec.failure_policy
    parallelism = spec.parallelism
    if isinstance(parallelism, str):
        # A string is a percentage of the nodes, with or without the percent sign.
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


def _build_run(snapshot: ReadableBroadcastJob) -> JobRun:
    job = snapshot.job
    started_at = parse_optional_time(job.status.start_time)
    finished_at = parse_optional_time(job.status.completion_time) if job.is_finished else None
    if job.is_finished and finished_at is None:
        finished_at = snapshot.now
    return JobRun(
        started_at=snapshot.now if started_at is None else started_at,
        finished_at=finished_at,
        has_failed=job.has_failed,
    )


# After the end of a job


def _plan_after_end(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision
) -> Plan:
    """Delete surplus pods and the pods that a failed job has not stopped yet, and delete the job when its time to live
    has passed.
    """
    job = snapshot.job
    stages = _stop_pods(targets, decision.stop, "the job has failed")
    if decision.delete:
        stages = [*stages, _plan_job_deletion(job)]
    status = None
    waiting = _OVER if decision.requeue_after_s is not None else None
    if job.has_failed:
        remedy = make_deadline_remedy(_DEADLINE) if _was_late(job) else ""
        waiting = Reason(Code.JOB_FAILED, _describe_failure(job), remedy)
    elif job.status.failed:
        pods = format_count(job.status.failed, "pod")
        waiting = Reason(Code.JOB_FAILED, f"the job has ended, and {pods} failed")
    if not job.ends:  # with completion policy Never, a failed job still counts its pods
        status = _build_changed_status(job, compute_status(snapshot, decision.counts, phase=FAILED))
    return Plan(
        stages=tuple(stages),
        status=status,
        requeue_after_s=decision.requeue_after_s,
        waiting=waiting,
        skipped={pod.name: explain_failure(pod) for pod in _find_failed_pods(targets)},
        skipped_nodes=_list_nodes_left_out(job, targets),
    )


_OVER: Final = Reason(Code.JOB_OVER, "the job has ended")


def _describe_failure(job: BroadcastJobView) -> str:
    condition = next(
        (condition for condition in job.status.conditions or () if condition.type == "Failed"), None
    )
    return (condition.message if condition is not None else None) or "the job has failed"


def _was_late(job: BroadcastJobView) -> bool:
    """Whether the job ended at its deadline or later."""
    policy = job.spec.completion_policy if job.spec is not None else None
    deadline_s, status = policy.active_deadline_seconds if policy is not None else None, job.status
    if deadline_s is None or not status.start_time or not status.completion_time:
        return False
    return parse_time(status.completion_time) >= parse_time(status.start_time) + deadline_s


def _plan_job_deletion(job: BroadcastJobView) -> Stage:
    because = "ttlSecondsAfterFinished has passed"
    step = Step(action=delete_object(BROADCAST_JOBS, job), because=because)
    return Stage(purpose=Purpose.DELETE_JOB, chains=(Chain(subject=job.name, steps=(step,)),))


# Before the end of a job


def _plan_before_end(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision, policy: JobPolicy
) -> Plan:
    job = snapshot.job
    if decision.finish is not None:
        return _plan_end(snapshot, targets, decision, decision.finish, policy)
    if decision.pause:
        return _plan_pause(snapshot, targets, decision)
    if policy.is_paused:
        return _plan_paused(snapshot, targets, decision, policy)
    is_resumed = job.status.phase == PAUSED
    status = compute_status(snapshot, decision.counts, phase=RUNNING)
    stages: list[Stage] = []
    if is_resumed:
        stages += _store_status(job, status, notes=(_GOES_ON,), because="spec.paused is false")
    stages += _stop_pods(targets, _drop_left_to_gc(targets, decision.stop))
    gang = find_gang(snapshot, nodes=decision.counts.wanted, parallelism=policy.parallelism)
    hold = gang.hold if gang is not None else None
    now = decision.start[:MOST_AT_ONCE] if hold is None else ()
    if gang is not None:
        stages += _keep_groups(snapshot, gang, creates=bool(now))
    failing = [*_find_failing_pods(targets), *(() if job.ends else _find_ended_failures(targets))]
    if now:
        chains = tuple(plan_creations(snapshot, now, group=gang.group if gang is not None else ""))
        stages.append(Stage(purpose=Purpose.CREATE_PODS, chains=chains, ramp=True))
    return Plan(
        stages=tuple(stages),
        status=None if is_resumed else _build_changed_status(job, status),
        requeue_after_s=0.0
        if hold is None and len(now) < len(decision.start)
        else _find_requeue_s(snapshot, targets, decision),
        waiting=hold
        or find_wait_reason(
            decision,
            nothing_fits=_NO_NODE if decision.counts.wanted else _explain_no_node(targets),
            running=_format_pod_count,
            obstacles=[*_find_obstacles(snapshot, targets), *failing],
        ),
        skipped={pod.name: reason for pod, reason in failing},
        skipped_nodes=_list_skipped_nodes(targets, decision),
        notes=tuple(_list_notes(targets, decision, policy)),
    )


def _keep_groups(snapshot: ReadableBroadcastJob, gang: BroadcastJobGang, *, creates: bool) -> Iterator[Stage]:
    """Yield the writes to the pod groups. They are sent before pods of these groups are created."""
    used = {pod.pod_group for pod in snapshot.pods} | ({gang.group} if creates else set())
    if used - {""}:
        yield from keep_groups(
            snapshot.groups,
            owner=snapshot.job,
            resource=BROADCAST_JOBS,
            used=used,
            min_count=gang.min_count,
            template=snapshot.job.spec.template,
        )
    chains = tuple(drop_groups(snapshot.groups, used=used, is_wanted=True))
    yield from stage_of(Purpose.TIDY_UP, chains)


def _plan_end(
    snapshot: ReadableBroadcastJob,
    targets: BroadcastJobTargets,
    decision: FanOutDecision,
    finish: Finish,
    policy: JobPolicy,
) -> Plan:
    job = snapshot.job
    resumed = [_GOES_ON] if job.status.phase == PAUSED else []
    stopped = _describe_stopped(snapshot, targets, decision, policy) if finish is Finish.DEADLINE else ""
    status = finish_status(snapshot, decision, finish, stopped=stopped)
    note = _END_NOTES[finish]
    told = msgspec.structs.replace(note, message=f"{note.message}; {stopped}") if stopped else note
    return Plan(
        stages=(
            *_store_status(job, status, notes=[*resumed, told], because=note.message),
            *_stop_pods(targets, decision.stop, note.message),
        ),
        requeue_after_s=decision.requeue_after_s,
    )


def _describe_stopped(
    snapshot: ReadableBroadcastJob,
    targets: BroadcastJobTargets,
    decision: FanOutDecision,
    policy: JobPolicy,
) -> str:
    """Describe what prevented the pods from finishing before the deadline. If nothing did, count the pods that still
    ran, and the nodes that got no pod.
    """
    obstacles = [*_find_obstacles(snapshot, targets), *_find_failing_pods(targets)]
    first = find_repeated_wait(obstacles) or find_pod_wait(obstacles)
    if first is not None:
        return first.message
    active = sum(1 for _ in _list_active_pods(targets))
    waited = sum(hold is TargetHold.OVER for hold in decision.waiting.values())
    parts = [format_count(active, "pod still ran", "pods still ran")] if active else []
    if waited:
        is_limited = policy.parallelism is not None and active >= policy.parallelism
        why = f" (spec.parallelism is {snapshot.job.spec.parallelism})" if is_limited else ""
        parts.append(f"{format_count(waited, 'node')} got no pod{why}")
    return ", and ".join(parts)


_GOES_ON: Final = Note(reason="Continue", message="the job continues")
_END_NOTES: Final = {
    Finish.COMPLETE: Note(reason="JobComplete", message="the pods of the job have ended on all nodes"),
    Finish.FAILED_TARGET: Note(reason="failed pod is found", message="failed pod is found", warning=True),
    Finish.DEADLINE: Note(
        reason="DeadlineExceeded", message="the job was active longer than its deadline", warning=True
    ),
}


def _plan_pause(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision
) -> Plan:
    """Pause the job because a pod failed. The status is written before spec.paused. If only spec.paused were set, it
    would look as if a person had paused the job.
    """
    job = snapshot.job
    failed = decision.counts.failed
    message = f"{failed} {'pod has' if failed == 1 else 'pods have'} failed: the job is paused"
    patch = Step(
        action=patch_object(BROADCAST_JOBS, job, {"spec": {"paused": True}}),
        because=message,
        done=Note(reason="Paused", message=message, warning=True),
    )
    stage = Stage(purpose=Purpose.PAUSE_JOB, chains=(Chain(subject=job.name, steps=(patch,)),))
    status = compute_status(snapshot, decision.counts, phase=PAUSED)
    failed_pods = _find_failed_pods(targets)
    return Plan(
        stages=(*_store_status(job, status, notes=(), because=message), stage),
        waiting=_explain_failure_pause(job, failed_pods),
        skipped=_list_pausing_pods(job, failed_pods),
    )


def _plan_paused(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision, policy: JobPolicy
) -> Plan:
    """Plan only the status of a paused job."""
    job = snapshot.job
    status = _build_changed_status(job, compute_status(snapshot, decision.counts, phase=PAUSED))
    failed = _find_failed_pods(targets)
    paused = explain_pause(policy, _build_run(snapshot), field=_DEADLINE, now=snapshot.now)
    if failed and policy.on_failure is OnFailure.PAUSE:
        return Plan(
            status=status,
            waiting=_explain_failure_pause(job, failed),
            skipped=_list_pausing_pods(job, failed),
        )
    return Plan(
        status=status,
        waiting=paused,
        skipped={pod.name: explain_failure(pod) for pod in failed},
        skipped_nodes={
            name: paused if hold is TargetHold.PAUSED else HELD[hold]
            for name, hold in decision.waiting.items()
        },
    )


def _explain_failure_pause(job: BroadcastJobView, failed: Sequence[PodView]) -> Reason:
    """Return why the job is paused: pods failed. A job that is resumed while one of these pods exists pauses again."""
    pods = format_count(len(failed), "failed pod")
    words = (
        f"{pods} paused the job (failurePolicy.type Pause); if the job is resumed while a failed pod exists, it pauses "
        "again"
    )
    return Reason(Code.POD_FAILED, words, _continue_without(job, failed))


def _continue_without(job: BroadcastJobView, failed: Sequence[PodView]) -> str:
    """Return how to resume a job that failed pods paused. The command names the pods. If there are more than NAMED pods
    and all have the phase Failed, it selects them by label and phase.
    """
    if len(failed) > NAMED and all(pod.phase == "Failed" for pod in failed):
        chosen = f"-l {NAME_LABEL}={job.name} --field-selector=status.phase=Failed"
    else:
        chosen = " ".join(pod.name for pod in failed)
    command = f"kubectl delete pod -n {job.namespace} {chosen}"
    return f"delete the failed pods ({command}) and set spec.paused of BroadcastJob {job.name} to false"


def _list_pausing_pods(job: BroadcastJobView, failed: Sequence[PodView]) -> dict[str, Reason]:
    """Name of each pod that pauses the job → why the pod failed, and how a person resumes the job."""
    then = _continue_without(job, failed)
    return {pod.name: _continue_then(explain_failure(pod), then) for pod in failed}


def _continue_then(failure: Reason, then: str) -> Reason:
    return Reason(failure.code, failure.message, f"{failure.remedy}; then {then}", failure.container)


# Writes


def _store_status(
    job: BroadcastJobView, status: BroadcastJobStatus, *, notes: Iterable[Note], because: str
) -> Iterator[Stage]:
    """Yield the stage that writes the status before any other write, and then records the events. Yield nothing if the
    status does not change.
    """
    patch = build_status_patch(
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


def _stop_pods(targets: BroadcastJobTargets, names: Iterable[str], because: str = "") -> list[Stage]:
    """Delete the pods of these targets. `because`: reason for which the job stops the pods that it still wants; empty
    if all of these pods are surplus.
    """
    chains = tuple(plan_deletion(targets.pods[name], targets.why.get(name, because)) for name in names)
    return [Stage(purpose=Purpose.DELETE_PODS, chains=chains, regardless=not because)] if chains else []


def _drop_left_to_gc(targets: BroadcastJobTargets, names: Iterable[str]) -> Iterator[str]:
    """Leave out pods on unknown nodes. If such a node does not exist, Kubernetes deletes its pods. If the node is
    only missing in the cache, its pods are kept.
    """
    return (name for name in names if name not in targets.is_left_to_gc)


def _build_changed_status(job: BroadcastJobView, status: BroadcastJobStatus) -> Document | None:
    """Return the status to write; None if the stored status is the same."""
    document = document_of(status)
    return None if document == job.stored_status else document


# Reasons and events


def _list_notes(targets: BroadcastJobTargets, decision: FanOutDecision, policy: JobPolicy) -> Iterator[Note]:
    if decision.exceeds_parallelism:
        active = format_count(decision.counts.active, "pod is", "pods are")
        message = f"{active} active, but parallelism allows only {policy.parallelism}"
        yield Note(
            reason="TooManyActivePods",
            message=message,
            warning=True,
            again_after_s=LOOK_AGAIN_S,
            same_as="TooManyActivePods",
        )
    for node, pod in targets.duplicates:
        message = f"node {node} has more than one pod of the job: pod {pod.name} is deleted"
        yield Note(
            reason="DuplicatePodCreatedOnSameNode", message=message, warning=True, again_after_s=LOOK_AGAIN_S
        )


def _find_obstacles(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets
) -> list[tuple[PodView, Reason]]:
    """Find what prevents active pods from running."""
    return blockers_of(_list_active_pods(targets), None, now=snapshot.now, correction=OF_A_JOB)


def _list_active_pods(targets: BroadcastJobTargets) -> Iterator[PodView]:
    return (targets.pods[target.name] for target in targets.targets if target.state is TargetState.ACTIVE)


def _find_requeue_s(
    snapshot: ReadableBroadcastJob, targets: BroadcastJobTargets, decision: FanOutDecision
) -> float | None:
    """Return the seconds until the job must be reconciled even without an event: at the time that the decision names,
    or when a pod that does not run must be reported.
    """
    late_at = find_next_blocker_time(_list_active_pods(targets), now=snapshot.now)
    return find_soonest([decision.requeue_after_s, compute_seconds_until(late_at, now=snapshot.now)])


def _find_failed_pods(targets: BroadcastJobTargets) -> list[PodView]:
    """Find pods that have failed, including pods that still run but restarted more often than the limit."""
    return [
        targets.pods[target.name]
        for target in targets.targets
        if target.state in (TargetState.FAILED, TargetState.FAILING) and target.name in targets.pods
    ]


def _find_failing_pods(targets: BroadcastJobTargets) -> list[tuple[PodView, Reason]]:
    """Find pods that still run but restarted more often than the limit, each with the reason. They are left
    unchanged.
    """
    return [
        (targets.pods[target.name], _explain_failing(targets.pods[target.name]))
        for target in targets.targets
        if target.state is TargetState.FAILING and target.is_wanted
    ]


def _explain_failing(pod: PodView) -> Reason:
    failure = explain_failure(pod)
    times = format_count(restarts_of(pod), "time")
    message = (
        f"{failure.message}; the pod counts as failed, because its containers restarted {times}, more often than "
        "restartLimit allows"
    )
    return Reason(Code.POD_FAILED, message, _describe_replacement(failure, pod))


def _find_ended_failures(targets: BroadcastJobTargets) -> list[tuple[PodView, Reason]]:
    """Find pods that have failed, each with the reason. A job that never ends reports them all the time."""
    failed = (
        targets.pods[target.name]
        for target in targets.targets
        if target.state is TargetState.FAILED and target.is_wanted
    )
    return [(pod, _with_replacement(explain_failure(pod), pod)) for pod in failed]


def _with_replacement(failure: Reason, pod: PodView) -> Reason:
    return Reason(failure.code, failure.message, _describe_replacement(failure, pod), failure.container)


def _describe_replacement(failure: Reason, pod: PodView) -> str:
    command = f"kubectl delete pod -n {pod.namespace} {pod.name}"
    return f"{failure.remedy}; then delete the pod ({command}), so that its node gets a new pod"


def _list_skipped_nodes(targets: BroadcastJobTargets, decision: FanOutDecision) -> dict[str, Reason]:
    return {**_list_unfit_nodes(targets), **_list_held_nodes(decision)}


def _list_unfit_nodes(targets: BroadcastJobTargets, *, then: str = "") -> dict[str, Reason]:
    """Node that has no pod and cannot run one → the reason. `then`: last step of the remedy."""
    return {
        node: Reason(Code.UNFIT_NODE, obstacle.because, f"{obstacle.remedy}{then}")
        for node, obstacle in sorted(targets.idle.items(), key=lambda item: item[1].is_mismatch)
    }


def _list_nodes_left_out(job: BroadcastJobView, targets: BroadcastJobTargets) -> dict[str, Reason]:
    """Node that got no pod of a job that has ended → the reason. Empty if a pod of the job no longer exists: then a
    node without a pod perhaps had one.
    """
    kept = sum(target.is_wanted and target.name in targets.pods for target in targets.targets)
    if kept < job.status.desired:
        return {}
    return _list_unfit_nodes(targets, then="; then create the job again, if it must run on this node too")


def _explain_no_node(targets: BroadcastJobTargets) -> Reason:
    """Return why the job has no node: the most frequent reason why its pods cannot run on a node."""
    obstacle = summarize_obstacles(targets.idle.values())
    if obstacle is None:
        return _NO_NODE
    return Reason(Code.NOTHING_SELECTED, f"no node is eligible; {obstacle.because}", obstacle.remedy)


def _list_held_nodes(decision: FanOutDecision) -> dict[str, Reason]:
    return {name: HELD[hold] for name, hold in decision.waiting.items()}


def _format_pod_count(count: int) -> str:
    return format_count(count, "pod has", "pods have")
