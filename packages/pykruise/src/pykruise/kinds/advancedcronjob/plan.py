"""All decisions about an AdvancedCronJob, as one plan.

AdvancedCronJobSnapshot ──▶ history ▸ due times ▸ concurrency policy ▸ creation of a child ──▶ Plan

Pure. A tick is a time of the schedule. It is served when its child is created. The name of a child contains its tick,
and the last served tick never decreases. So no tick is served twice, even if a manager is killed, children are deleted,
or clocks are set back.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.advancedcronjob.children import (
    JOB,
    ChildView,
    Ending,
    build_child_document,
    format_child_name,
    is_name_too_long,
)
from pykruise.kinds.advancedcronjob.due import MANY, DueTimes, find_due_times
from pykruise.kinds.advancedcronjob.missed import (
    explain_late_run,
    explain_missed_runs,
    find_missed_runs,
)
from pykruise.kinds.advancedcronjob.snapshot import (
    AdvancedCronJobSnapshot,
    AdvancedCronJobView,
    ReadableAdvancedCronJob,
    is_readable,
    key_of,
)
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS, AdvancedCronJobSpec
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import ObjectReference
from pykruise.kube.values.cron import Schedule, ScheduleError, UnknownZoneError, parse_schedule
from pykruise.plans.insight import DeletedFailure
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import Correction
from pykruise.pods.lifecycle.blockers import blockers_of, find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.waiting import find_repeated_wait
from pykruise.runtime.actions import Create, Delete
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, find_soonest
from pykruise.runtime.reasons import Reason
from pykruise.runtime.status import build_status_patch

_ONCE_S: Final = 366 * 24 * 3600.0
"""An event about a tick is recorded only once within this number of seconds."""

PODS_IN_S: Final = 30.0
"""A Job creates a pod within this number of seconds after its due time, unless the API server rejects the pod."""

_AGAIN_S: Final = 600.0

MOST_LISTED: Final = 100
"""Maximum number of active jobs that the status lists, the oldest first. With concurrencyPolicy Allow, the number of
active jobs is not limited.
"""

_NAME_TOO_LONG: Final = Reason(
    Code.NAME_TOO_LONG,
    "no run can start: the name of the created object contains the scheduled time, and would be too long",
    "create the AdvancedCronJob again with a name of at most 52 characters",
)
_UNNAMEABLE: Final = Note(
    reason=_NAME_TOO_LONG.code,
    message=_NAME_TOO_LONG.full_message,
    warning=True,
    again_after_s=_AGAIN_S,
)


def plan_cronjob(snapshot: AdvancedCronJobSnapshot) -> Plan:
    """Plan all writes for this object, its status, and the next reconcile."""
    cron = snapshot.cron
    if cron.is_deleting:
        return Plan()
    if not is_readable(snapshot) or cron.made is None:
        unset = "spec.template: exactly one of jobTemplate, broadcastJobTemplate, imageListPullJobTemplate must be set"
        return make_refused_plan(snapshot.refused or [cron.problem or unset])
    spec = snapshot.cron.spec
    history = _select_history(snapshot)
    kept = _Plan(snapshot, cron.made, history)
    if spec.paused:
        return kept.plan_wait(Reason(Code.PAUSED, "the schedule is paused", "set spec.paused to false"))
    try:
        schedule = schedule_of(snapshot)
    except ScheduleError as error:
        return kept.plan_wait(_explain_invalid_spec(str(error)), note=_note_unreadable(error))
    if is_name_too_long(cron.made[1], cron.name, snapshot.now):
        return kept.plan_wait(_NAME_TOO_LONG, note=_UNNAMEABLE)
    result = find_due_times(
        schedule,
        last=find_beginning(snapshot),
        now=snapshot.now,
        deadline_s=spec.starting_deadline_seconds,
    )
    kept.next = result.next
    return _serve(snapshot, kept, result)


def schedule_of(snapshot: ReadableAdvancedCronJob) -> Schedule:
    """Return the schedule, in the time zone of the spec or else of the manager. Raises ScheduleError."""
    spec = snapshot.cron.spec
    zone = spec.time_zone if spec.time_zone is not None else snapshot.settings.time_zone
    return parse_schedule(spec.schedule, zone=zone)


def find_last_tick(snapshot: AdvancedCronJobSnapshot) -> Instant | None:
    """Return the latest served tick, from the status and from the children; None if no tick was served."""
    ticks = (snapshot.cron.last_schedule_time, snapshot.latest_made)
    return max((tick for tick in ticks if tick is not None), default=None)


def find_beginning(snapshot: AdvancedCronJobSnapshot) -> Instant:
    """Return the time after which ticks are served: the last served tick (or else the creation time), or the time of
    the last change of the schedule, whichever is later.
    """
    last = find_last_tick(snapshot)
    served = snapshot.cron.created_at if last is None else last
    return served if snapshot.changed_at is None else max(served, snapshot.changed_at)


def _serve(snapshot: ReadableAdvancedCronJob, kept: "_Plan", value: DueTimes) -> Plan:
    """Serve the due times as the concurrency policy requires."""
    cron = snapshot.cron
    if value.late is not None:
        seconds = cron.spec.starting_deadline_seconds
        message = (
            f"the run of {format_time(value.late)} was missed: it could not start within startingDeadlineSeconds "
            f"({seconds} s)"
        )
        return kept.plan_wait(None, note=_note_once("MissSchedule", message, value.late, warning=True))
    if value.missed is None:
        return kept.plan_wait(None)
    active = _select_active(snapshot.children)
    if cron.spec.concurrency_policy == "Forbid" and active:
        message = f"the previous run {active[0].name} is still active, and concurrencyPolicy is Forbid"
        note = _note_once("JobAlreadyActive", message, value.missed)
        until = _describe_last_start(cron.spec, value.missed)
        return kept.plan_wait(Reason(Code.CHILD_ACTIVE, f"{message}{until}"), note=note)
    name = format_child_name(cron.name, value.missed)
    if name in snapshot.others:
        message = f"{name} exists already and does not belong to this AdvancedCronJob: this run is skipped"
        return kept.plan_skip(value.missed, _note_once("FailedCreate", message, value.missed, warning=True))
    notes = []
    if value.skips_many:
        message = f"more than {MANY} runs were missed; only the latest one starts now"
        notes.append(_note_once("TooManyMissedTimes", message, value.missed, warning=True))
    replaced = active if cron.spec.concurrency_policy == "Replace" else []
    return kept.plan_creation(value.missed, replaced, notes)


def _select_active(children: Iterable[ChildView]) -> list[ChildView]:
    return [child for child in children if child.ending is Ending.ACTIVE]


class _Plan:
    """Builds the plan of a snapshot. Every plan deletes the children beyond the history limits."""

    def __init__(
        self, snapshot: ReadableAdvancedCronJob, made: tuple[str, Resource], history: Sequence[ChildView]
    ) -> None:
        self._snapshot = snapshot
        self._field, self._resource = made
        self._history = history
        self.next: Instant | None = None

    def plan_wait(self, why: Reason | None, *, note: Note | None = None) -> Plan:
        """Return a plan that creates nothing."""
        status = self._build_status(find_last_tick(self._snapshot))
        return Plan(
            stages=self._delete_history(),
            status=None if status == self._snapshot.cron.stored_status else status,
            requeue_after_s=find_soonest([self._until_next(), *_until_late(self._snapshot)]),
            waiting=why or self._wait_for_next(),
            skipped=dict(
                (
                    *_find_missed_runs(self._snapshot),
                    *_find_last_failure(self._snapshot),
                    *_find_runs_without_end(self._snapshot),
                    *_find_stuck_jobs(self._snapshot),
                )
            ),
            notes=(note,) if note else (),
        )

    def plan_skip(self, tick: Instant, note: Note) -> Plan:
        """Return a plan that creates nothing, but records the tick as served."""
        return Plan(
            stages=(
                *self._delete_history(),
                *self._record_tick(tick, "another object has the name of this run"),
            ),
            requeue_after_s=self._until_next(),
            notes=(note,),
        )

    def plan_creation(
        self,
        tick: Instant,
        replaced: Sequence[ChildView],
        notes: Iterable[Note],
    ) -> Plan:
        """Return a plan that deletes the replaced children, and then creates a child for the tick."""
        resource = self._resource
        cron = self._snapshot.cron
        template: dict[str, Any] = cron.template[self._field]
        document = build_child_document(
            resource,
            template,
            owner=cron.build_reference(ADVANCED_CRON_JOBS),
            namespace=cron.namespace,
            tick=tick,
        )
        name = document["metadata"]["name"]
        create = Step(
            action=Create(resource=resource, key=Key(cron.namespace, name), body=document),
            because=f"the run was due at {format_time(tick)}",
            done=Note(reason="SuccessfulCreate", message=f"created {resource.kind} {name}"),
            failed=Note(
                reason="FailedCreate", message=f"failed to create {resource.kind} {name}", warning=True
            ),
        )
        going = [child for child in replaced if not child.is_deleting]
        deletions = tuple(_delete_child(child, resource, "concurrencyPolicy is Replace") for child in going)
        return Plan(
            stages=(
                *self._delete_history(),
                *([Stage(purpose=Purpose.REPLACE_JOBS, chains=deletions)] if deletions else []),
                Stage(purpose=Purpose.CREATE_JOBS, chains=(Chain(subject=name, steps=(create,)),)),
                *self._record_tick(tick, f"the run of {format_time(tick)} is recorded"),
            ),
            requeue_after_s=self._until_next(),
            notes=tuple(notes),
        )

    def _record_tick(self, tick: Instant, because: str) -> list[Stage]:
        """Return the stage that writes the tick into the status, after the tick was served."""
        cron = self._snapshot.cron
        patch = build_status_patch(
            ADVANCED_CRON_JOBS,
            cron.key,
            uid=cron.uid,
            stored=cron.stored_status,
            wanted=self._build_status(tick),
            resource_version=str(cron.resource_version),
        )
        if patch is None:
            return []
        step = Step(action=patch, because=because)
        return [Stage(purpose=Purpose.REPORT_STATUS, chains=(Chain(subject=cron.name, steps=(step,)),))]

    def _delete_history(self) -> tuple[Stage, ...]:
        if not self._history:
            return ()
        chains = tuple(
            _delete_child(
                child,
                self._resource,
                "it is beyond the history limit",
                done=_note_failure(self._snapshot, child),
            )
            for child in self._history
        )
        return (Stage(purpose=Purpose.TIDY_UP, chains=chains, is_optional=True),)

    def _build_status(self, last: Instant | None) -> Document:
        cron = self._snapshot.cron
        resource = self._resource
        active = [
            _build_reference(child, resource)
            for child in _select_active(self._snapshot.children)[:MOST_LISTED]
        ]
        return msgspec.structs.replace(
            cron.status,
            type=resource.kind,
            active=active,
            last_schedule_time=None if last is None else format_time(last),
        ).to_document()

    def _until_next(self) -> float | None:
        return None if self.next is None else self.next - self._snapshot.now

    def _wait_for_next(self) -> Reason | None:
        """Return the reason to wait when only the next tick is awaited."""
        if self.next is not None:
            return Reason(
                Code.NEXT_TICK, f"the next run is due at {format_time(self.next)}{self._describe_hold()}"
            )
        return Reason(
            Code.NO_TICK, f"schedule {self._snapshot.cron.spec.schedule} matches no time within five years"
        )

    def _describe_hold(self) -> str:
        """Describe the active run that the next run waits for; empty if it waits for none."""
        active = _select_active(self._snapshot.children)
        if not active or self._snapshot.cron.spec.concurrency_policy != "Forbid":
            return ""
        until = "" if self.next is None else _describe_last_start(self._snapshot.cron.spec, self.next)
        return f", and starts only when {active[0].name} has ended (concurrencyPolicy is Forbid){until}"


def _describe_last_start(spec: AdvancedCronJobSpec, tick: Instant) -> str:
    """Describe until when the run of this time can start; empty if the spec has no deadline, or one that is longer
    than a year.
    """
    seconds = spec.starting_deadline_seconds
    if seconds is None or not 0 <= seconds <= _ONCE_S:
        return ""
    return (
        f"; the run of {format_time(tick)} can start only until {format_time(tick + seconds)}, and is missed after that"
        f" (spec.startingDeadlineSeconds is {seconds})"
    )


def _find_missed_runs(snapshot: ReadableAdvancedCronJob) -> Iterator[tuple[str, Reason]]:
    """Yield a name and the reason why the last run was missed: the name of the run that prevented it, or else the name
    that the missed run would have.
    """
    spec, now = snapshot.cron.spec, snapshot.now
    deadline_s = spec.starting_deadline_seconds
    if deadline_s is None or spec.paused:
        return
    try:
        schedule = schedule_of(snapshot)
    except ScheduleError:
        return
    if spec.concurrency_policy == "Forbid":
        since = snapshot.cron.created_at if snapshot.changed_at is None else snapshot.changed_at
        missed = find_missed_runs(snapshot.children, schedule, since=since, now=now, deadline_s=deadline_s)
        if missed is not None:
            yield missed.child.name, explain_missed_runs(missed, deadline_s=deadline_s)
            return
    late = find_due_times(schedule, last=find_beginning(snapshot), now=now, deadline_s=deadline_s).late
    if late is not None:
        yield format_child_name(snapshot.cron.name, late), explain_late_run(late, deadline_s=deadline_s)


def _find_last_failure(snapshot: ReadableAdvancedCronJob) -> Iterator[tuple[str, Reason]]:
    """Yield the newest ended child if it failed."""
    ended = [child for child in snapshot.children if child.ending is not Ending.ACTIVE]
    last = max(ended, key=lambda child: (child.started_at, child.name), default=None)
    if last is not None and last.has_failed:
        yield (
            last.name,
            Reason(Code.RUN_FAILED, f"{last.kind} {last.name} has failed", "find out why it failed"),
        )


def _find_runs_without_end(snapshot: ReadableAdvancedCronJob) -> Iterator[tuple[str, Reason]]:
    """Yield the active run if concurrencyPolicy Replace seems to delete every run before it ends: an earlier run was
    due, but no run has ended.
    """
    spec, active = snapshot.cron.spec, _select_active(snapshot.children)
    keeps_results = spec.successful_jobs_history_limit != 0
    if spec.concurrency_policy != "Replace" or not keeps_results:
        return
    if not active or len(active) != len(snapshot.children):
        return
    changed_at, created_at = snapshot.changed_at, snapshot.cron.created_at
    first = schedule_of(snapshot).next(created_at if changed_at is None else max(changed_at, created_at))
    child = active[0]
    if first is not None and child.scheduled_at is not None and first < child.scheduled_at:
        yield (
            child.name,
            Reason(
                Code.CHILD_ACTIVE,
                "no run has ended yet: concurrencyPolicy Replace deletes a run that is still active at the next time of"
                " spec.schedule",
                "choose a spec.schedule whose times are further apart than a run lasts, or set concurrencyPolicy to"
                " Forbid or Allow",
            ),
        )


def _find_stuck_jobs(snapshot: ReadableAdvancedCronJob) -> Iterator[tuple[str, Reason]]:
    """Yield Jobs that cannot continue until a person acts, each with the reason."""
    correction = correction_of(snapshot.cron)
    for child in _select_active(snapshot.children):
        if child.is_suspended:
            yield (
                child.name,
                Reason(Code.PAUSED, "it is suspended", f"set suspend of {child.kind} {child.name} to false"),
            )
            continue
        if child.starts_no_pod:
            zero = limit_is_zero("spec.parallelism", "no pod is started")
            yield child.name, Reason(zero.code, zero.message, f"{zero.remedy} of {child.kind} {child.name}")
            continue
        if (late_at := _find_late_time(snapshot, child)) is not None:
            if snapshot.now >= late_at:
                yield child.name, _explain_no_pods(child)
            continue
        waiting = (
            pod for pod in snapshot.job_pods.get(child.uid, ()) if pod.is_active and not pod.is_serving
        )
        obstacles = blockers_of(waiting, None, now=snapshot.now, correction=correction)
        if (obstacle := find_repeated_wait(obstacles)) is not None:
            yield child.name, obstacle


def _find_late_time(snapshot: AdvancedCronJobSnapshot, child: ChildView) -> Instant | None:
    """Return the time from which a Job without pods is late: if it has no pods by then, the API server has probably
    rejected them. None if the Job has pods, or needs no pods now.
    """
    is_begun = child.kind == JOB.kind and bool(child.started_at)
    needs_none = child.is_suspended or child.starts_no_pod or child.is_managed_elsewhere
    if not is_begun or needs_none or snapshot.job_pods.get(child.uid):
        return None
    return child.scheduled_at + PODS_IN_S if child.scheduled_at is not None else None


def _until_late(snapshot: AdvancedCronJobSnapshot) -> Iterator[float]:
    """Yield the seconds until active Jobs without pods are late, and until waiting pods of Jobs are reported."""
    for child in _select_active(snapshot.children):
        stuck_at = find_next_blocker_time(snapshot.job_pods.get(child.uid, ()), now=snapshot.now)
        if stuck_at is not None:
            yield stuck_at - snapshot.now
        late_at = _find_late_time(snapshot, child)
        if late_at is not None and late_at > snapshot.now:
            yield late_at - snapshot.now


def _explain_no_pods(child: ChildView) -> Reason:
    command = f"kubectl describe job -n {child.namespace} {child.name}"
    return Reason(
        Code.WRITE_FAILED,
        f"{child.kind} {child.name} has had no pods since {child.started_at}",
        f"correct the cause that the events of {child.kind} {child.name} report ({command})",
    )


def correction_of(cron: AdvancedCronJobView) -> Correction:
    """Return how a person corrects a child: by creating the AdvancedCronJob again, because the template of a Job or
    BroadcastJob is immutable.
    """
    return Correction(again=f"AdvancedCronJob {cron.name}")


def _select_history(snapshot: ReadableAdvancedCronJob) -> list[ChildView]:
    """Return the finished children beyond the history limits, the oldest first."""
    spec = snapshot.cron.spec
    children: list[ChildView] = []
    for ending, limit in (
        (Ending.FAILED, spec.failed_jobs_history_limit),
        (Ending.SUCCESSFUL, spec.successful_jobs_history_limit),
    ):
        ended = [child for child in snapshot.children if child.ending is ending and not child.is_deleting]
        ended.sort(key=lambda child: (child.started_at, child.name))
        if limit is not None:
            children += ended[: max(len(ended) - limit, 0)]
    return children


def _delete_child(child: ChildView, resource: Resource, because: str, *, done: Note | None = None) -> Chain:
    # At most one child is created for each time of the schedule, so churn.py does not count deletions by a limit or by
    # Replace.
    action = Delete(
        resource=resource, key=key_of(child), uid=child.uid, propagation="Background", is_due=True
    )
    return Chain(subject=child.name, steps=(Step(action=action, because=because, done=done),))


def _note_failure(snapshot: ReadableAdvancedCronJob, child: ChildView) -> Note | None:
    """Return the event about a failed run that is deleted immediately, so that only the event reports the failure. None
    if the run has not failed, or if failed runs are kept.
    """
    if not child.has_failed or snapshot.cron.spec.failed_jobs_history_limit != 0:
        return None
    why = f" ({child.failure})" if child.failure else ""
    message = (
        f"{child.kind} {child.name} has failed{why}, and was deleted because spec.failedJobsHistoryLimit is 0"
    )
    return Note(reason=Code.RUN_FAILED, message=message, warning=True, is_single=True)


def find_deleted_failure(snapshot: AdvancedCronJobSnapshot) -> DeletedFailure | None:
    """Return where a failed run that was deleted at once is reported; None if failed runs are kept."""
    if not is_readable(snapshot) or snapshot.cron.spec.failed_jobs_history_limit != 0:
        return None
    active = {child.scheduled_at for child in _select_active(snapshot.children)}
    ended = [child.scheduled_at for child in snapshot.children if child.ending is not Ending.ACTIVE]
    last = find_last_tick(snapshot)
    known = (*ended, None if last in active else last)
    return DeletedFailure(
        since=max((tick for tick in known if tick is not None), default=snapshot.cron.created_at),
        remedy="set spec.failedJobsHistoryLimit to 1: the next failed run is kept with its pods and logs",
    )


def _build_reference(child: ChildView, resource: Resource) -> ObjectReference:
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=child.namespace,
        name=child.name,
        uid=child.uid,
    )


def _explain_invalid_spec(problem: str) -> Reason:
    return Reason(Code.INVALID_SPEC, problem, "correct the field")


def _note_unreadable(error: ScheduleError) -> Note:
    """Return the event for an unreadable schedule. An unknown time zone is also an error: with another time zone,
    children would be created at wrong times.
    """
    reason = "UnknownTimeZone" if isinstance(error, UnknownZoneError) else "UnparseableSchedule"
    return Note(reason=reason, message=str(error), warning=True, again_after_s=_AGAIN_S)


def _note_once(reason: str, message: str, tick: Instant, *, warning: bool = False) -> Note:
    return Note(
        reason=reason, message=message, warning=warning, again_after_s=_ONCE_S, same_as=format_time(tick)
    )
