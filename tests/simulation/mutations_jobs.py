"""Mutations of jobs; see mutations.py."""

from collections.abc import Callable
from typing import Any

import msgspec

from pykruise.kinds.advancedcronjob import plan as cron_plan
from pykruise.kinds.advancedcronjob.due import DueTimes
from pykruise.kinds.advancedcronjob.kind import KIND as CRON_JOB
from pykruise.kinds.advancedcronjob.types import AdvancedCronJobSpec
from pykruise.kinds.broadcastjob import plan as job_plan
from pykruise.kinds.broadcastjob import targets as job_targets
from pykruise.kinds.broadcastjob.kind import KIND as BROADCAST_JOB
from pykruise.kinds.broadcastjob.snapshot import BroadcastJobView
from pykruise.kinds.ephemeraljob import kind as ephemeral_kind
from pykruise.kinds.ephemeraljob import plan as ephemeral_plan
from pykruise.kinds.ephemeraljob.kind import KIND as EPHEMERAL_JOB
from pykruise.kinds.ephemeraljob.snapshot import EphemeralJobView
from pykruise.pods.jobs import fan_out
from pykruise.pods.jobs.fan_out import JobPolicy, OnFailure, TargetState
from simulation.mutating import Change, always

__all__ = ["ADVANCEDCRONJOB", "BROADCASTJOB", "EPHEMERALJOB"]

replace = msgspec.structs.replace


def _policy(change: Callable[[JobPolicy], JobPolicy]) -> Change:
    return job_plan, "policy_of", _afterwards(change)


def _afterwards(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that changes the result of the original."""
    return lambda original: lambda *args, **given: change(original(*args, **given))


def _more(policy: JobPolicy) -> JobPolicy:
    return replace(policy, parallelism=None if policy.parallelism is None else policy.parallelism + 1)


def _never_failing(original: Any) -> Any:
    def state_of(pod: Any, **given: Any) -> TargetState:
        state: TargetState = original(pod, **given)
        return TargetState.ACTIVE if state is TargetState.FAILING else state

    return state_of


def _finished_again(original: Any) -> Any:
    """A succeeded pod counts as a pod that must be started."""

    def state_of(pod: Any, **given: Any) -> TargetState:
        state: TargetState = original(pod, **given)
        return TargetState.PENDING if state is TargetState.SUCCEEDED else state

    return state_of


def _deaf_to_nodes(original: Any) -> Any:
    return lambda settings: [wake for wake in original(settings) if wake.on.resource.kind != "Node"]


BROADCASTJOB: dict[str, tuple[Change, ...]] = {
    "BroadcastJob: one pod more than parallelism is created": (_policy(_more),),
    "BroadcastJob: nodes where a pod has finished get another pod": (
        (job_targets, "state_of", _finished_again),
    ),
    "BroadcastJob: unsuitable nodes get pods": (
        (BroadcastJobView, "find_obstacle", lambda _original: lambda _self, _node: ""),
    ),
    "BroadcastJob: it completes while pods run": (
        (
            fan_out,
            "_is_complete",
            lambda _original: (
                lambda targets, _policy: any(target.state is TargetState.SUCCEEDED for target in targets)
            ),
        ),
    ),
    "BroadcastJob: an ended job continues": (
        (BroadcastJobView, "is_finished", lambda _original: property(lambda _self: False)),
    ),
    "BroadcastJob: paused is ignored": (_policy(lambda policy: replace(policy, is_paused=False)),),
    "BroadcastJob: failed pods are ignored": (
        _policy(lambda policy: replace(policy, on_failure=OnFailure.CONTINUE)),
    ),
    "BroadcastJob: restartLimit is ignored": ((job_targets, "state_of", _never_failing),),
    "BroadcastJob: the deadline is ignored": (_policy(lambda policy: replace(policy, deadline_s=None)),),
    "BroadcastJob: the time to live is ignored": (
        _policy(lambda policy: replace(policy, ttl_s=None if policy.ttl_s is None else 0)),
    ),
    "BroadcastJob: a failed job leaves pods running": ((fan_out, "_select_to_stop", always(())),),
    "BroadcastJob: a new node enqueues no job": ((BROADCAST_JOB.control, "wakes", _deaf_to_nodes),),
}


def _by_children_alone(original: Any) -> Any:
    """The last time is the latest time of the existing children, as in OpenKruise."""

    def last_tick(snapshot: Any) -> Any:
        cron = replace(snapshot.cron, status=replace(snapshot.cron.status, last_schedule_time=None))
        return original(replace(snapshot, cron=cron))

    return last_tick


def _earliest_missed_time(_original: Any) -> Any:
    """The earliest time that was missed is served, not the latest."""

    def due(schedule: Any, *, last: float, now: float, deadline_s: int | None) -> DueTimes:
        first = schedule.next(last)
        return DueTimes(missed=first if first is not None and first <= now else None, next=schedule.next(now))

    return due


def _spec(**changes: Any) -> Change:
    """The spec is read with these fields changed."""

    def changed(original: Any) -> Any:
        def plan_cronjob(snapshot: Any) -> Any:
            spec = snapshot.cron.spec
            if spec is None:
                return original(snapshot)
            given = {name: change(spec) for name, change in changes.items()}
            return original(replace(snapshot, cron=replace(snapshot.cron, spec=replace(spec, **given))))

        return plan_cronjob

    return CRON_JOB.control, "plan", changed


def _not_replacing(spec: AdvancedCronJobSpec) -> str:
    return "Allow" if spec.concurrency_policy == "Replace" else spec.concurrency_policy


def _not_forbidding(spec: AdvancedCronJobSpec) -> str:
    return "Allow" if spec.concurrency_policy == "Forbid" else spec.concurrency_policy


ADVANCEDCRONJOB: dict[str, tuple[Change, ...]] = {
    "AdvancedCronJob: only existing children determine the last time": (
        (cron_plan, "find_last_tick", _by_children_alone),
    ),
    "AdvancedCronJob: after a clock was set back, times repeat": (
        (
            cron_plan,
            "find_last_tick",
            lambda original: lambda snapshot: min(original(snapshot) or snapshot.now, snapshot.now - 600.0),
        ),
    ),
    "AdvancedCronJob: every missed time gets a run": ((cron_plan, "find_due_times", _earliest_missed_time),),
    "AdvancedCronJob: missed times get no run": (
        (
            cron_plan,
            "find_due_times",
            lambda original: (
                lambda schedule, **given: (
                    replace(result, missed=None)
                    if (result := original(schedule, **given)).missed is not None
                    and given["now"] - result.missed > 5
                    else result
                )
            ),
        ),
    ),
    "AdvancedCronJob: paused is ignored": (_spec(paused=lambda _spec: False),),
    "AdvancedCronJob: Forbid is ignored": (_spec(concurrency_policy=_not_forbidding),),
    "AdvancedCronJob: Replace is ignored": (_spec(concurrency_policy=_not_replacing),),
    "AdvancedCronJob: the starting deadline is ignored": (
        _spec(starting_deadline_seconds=lambda _spec: None),
    ),
    "AdvancedCronJob: the history keeps one ended child too many": (
        _spec(successful_jobs_history_limit=lambda spec: (spec.successful_jobs_history_limit or 0) + 1),
    ),
    "AdvancedCronJob: the oldest ended child is deleted too early": (
        _spec(failed_jobs_history_limit=lambda _spec: 0),
    ),
    "AdvancedCronJob: an ended child enqueues no job": (
        (
            CRON_JOB.control,
            "wakes",
            lambda original: lambda settings: list(original(settings))[:1],
        ),
    ),
}


def _only_first(original: Any) -> Any:
    """Only the first container is added."""
    return property(lambda job: original.fget(job)[:1])


def _never_over(original: Any) -> Any:
    def plan_job(snapshot: Any) -> Any:
        status = replace(snapshot.job.status, completion_time=None)
        return original(replace(snapshot, job=replace(snapshot.job, status=status)))

    return plan_job


def _alike(*fields: str) -> Callable[[Any], Any]:
    """Only these fields of a pod are compared."""
    return lambda _original: (
        lambda old, new: all(getattr(old, field) == getattr(new, field) for field in fields)
    )


def _policy_of_ephemeral(change: Callable[[JobPolicy], JobPolicy]) -> Change:
    return ephemeral_plan, "_build_policy", _afterwards(change)


EPHEMERALJOB: dict[str, tuple[Change, ...]] = {
    "EphemeralJob: one pod more than parallelism gets containers": (_policy_of_ephemeral(_more),),
    "EphemeralJob: paused is ignored": (
        _policy_of_ephemeral(lambda policy: replace(policy, is_paused=False)),
    ),
    "EphemeralJob: the deadline is ignored": (
        _policy_of_ephemeral(lambda policy: replace(policy, deadline_s=None)),
    ),
    "EphemeralJob: the time to live is ignored": (
        _policy_of_ephemeral(lambda policy: replace(policy, ttl_s=0)),
    ),
    "EphemeralJob: replicas is ignored": (
        (
            ephemeral_plan,
            "_select_targets",
            lambda original: lambda job, spec, pods: original(job, replace(spec, replicas=None), pods),
        ),
    ),
    "EphemeralJob: the youngest pods are first": (
        (
            ephemeral_plan,
            "_select_targets",
            lambda original: lambda job, spec, pods: original(job, spec, pods[::-1]),
        ),
    ),
    "EphemeralJob: pods with containers of other jobs are included": (
        (ephemeral_plan, "_select_targets", lambda _original: lambda _job, _spec, pods: pods),
    ),
    "EphemeralJob: containers get no mark of their job": (
        (ephemeral_plan, "_mark_container", lambda _original: lambda container, _uid: container),
    ),
    "EphemeralJob: a mark in the template is kept": (
        (
            ephemeral_plan,
            "_mark_container",
            lambda _original: (
                lambda container, uid: {
                    **container,
                    "env": [*(container.get("env") or ()), {"name": "KRUISE_EJOB_ID", "value": uid}],
                }
            ),
        ),
    ),
    "EphemeralJob: only the first container is injected": ((EphemeralJobView, "containers", _only_first),),
    "EphemeralJob: it completes while containers run": (
        (
            fan_out,
            "_is_complete",
            lambda _original: (
                lambda targets, _policy: any(target.state is TargetState.SUCCEEDED for target in targets)
            ),
        ),
    ),
    "EphemeralJob: failed containers are not counted": (
        (ephemeral_plan, "_count_states", _afterwards(lambda tally: replace(tally, failed=0))),
    ),
    "EphemeralJob: an ended job continues": ((EPHEMERAL_JOB.control, "plan", _never_over),),
    "EphemeralJob: a status is merged into a later one": (
        (EPHEMERAL_JOB.control, "is_status_shared", lambda _original: False),
    ),
    "EphemeralJob: the finalizer is not removed": ((ephemeral_plan, "_release", always(())),),
    "EphemeralJob: a pod enqueues no job": ((ephemeral_kind, "_find_jobs_of_pod", always(())),),
    "EphemeralJob: an ended container enqueues no job": (
        (ephemeral_kind, "_is_alike", _alike("is_active", "labels")),
    ),
    "EphemeralJob: changed labels of a pod enqueue no job": (
        (ephemeral_kind, "_is_alike", _alike("is_active", "ephemeral")),
    ),
}
