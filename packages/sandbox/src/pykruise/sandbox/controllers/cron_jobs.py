"""CronJobs: create Jobs on a schedule.

CronJob + its Jobs ──▶ read_snapshot() ──▶ plan_cron_job() ──▶ old Jobs deleted ──▶ a Job created
                                                      ──▶ status: Jobs that started, and that ended

One plan creates a Job, and the next plan records it in the status. Same rules as Kubernetes' cron job
controller. If several times were missed, a Job is created only for the latest one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.ids import Key
from pykruise.kube.resources import CRON_JOBS, JOBS
from pykruise.kube.values.cron import Schedule, ScheduleError, parse_schedule
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import REPORT_STATUS, Note, Plan, Step
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import wake_itself, wake_owner
from pykruise.sandbox.controllers.job_plans import find_true_condition, is_finished
from pykruise.sandbox.controllers.jobs import JOB_VIEWS
from pykruise.sandbox.controllers.pods import make_document_views
from pykruise.sandbox.controllers.steps import (
    CREATE,
    DELETE,
    create_object,
    delete_object,
    make_normal_note,
    make_warning_note,
    run_each,
    run_in_order,
    write_status,
)
from pykruise.sandbox.pod_view import instant_of

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_SLACK_S: Final = 0.1
_MANY: Final = 100


class CronJobDue(msgspec.Struct, frozen=True, kw_only=True):
    """Due times of the schedule."""

    at: Instant | None = None
    """The latest due time that the status does not record yet."""
    missed: int = 0
    """Approximate number of missed times, including `at`."""
    next_s: float | None = None
    """Seconds until the next time."""
    problem: str = ""
    """Error of the schedule; empty when it is valid."""


class CronJobSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one CronJob needs."""

    cron: DocumentView
    jobs: Sequence[DocumentView]
    """Jobs that the CronJob owns."""
    due: CronJobDue
    namesake: DocumentView | None
    """The existing Job with the name of the due Job; it may have another owner."""
    now: Instant


async def read_snapshot(cron: DocumentView, read: Read[Any]) -> CronJobSnapshot:
    """Read a snapshot from caches, without requests."""
    now = read.now()
    due = due_of(cron, now=now)
    namesake = None
    if due.at is not None:
        namesake = read.get(JOB_VIEWS, Key(cron.namespace, format_job_name(cron, due.at)))
    return CronJobSnapshot(
        cron=cron, jobs=read.list_owned(JOB_VIEWS, cron.uid), due=due, namesake=namesake, now=now
    )


def due_of(cron: DocumentView, *, now: Instant) -> CronJobDue:
    """The current due times; none while the CronJob is suspended or being deleted."""
    if cron.is_deleting or cron.spec.get("suspend"):
        return CronJobDue()
    try:
        schedule = parse_schedule(cron.spec["schedule"], zone=cron.spec.get("timeZone") or "")
    except ScheduleError as err:
        return CronJobDue(problem=f'unparseable schedule: "{cron.spec["schedule"]}" : {err}')
    at, missed = find_latest_due(cron, schedule, now=now)
    following = schedule.next(now)
    is_noted = at is not None and format_time(at) == cron.status.get("lastScheduleTime")
    return CronJobDue(
        at=None if is_noted else at,
        missed=missed,
        next_s=None if following is None else following - now + _SLACK_S,
    )


def plan_cron_job(snapshot: CronJobSnapshot) -> Plan:
    """Record Jobs that started and ended, delete old Jobs, and create the Job that is due."""
    cron, due = snapshot.cron, snapshot.due
    status = deep_copy(cron.status)
    ended = list(_note_ends(status, snapshot.jobs))
    gone = _list_outdated_jobs(cron, snapshot.jobs)
    said = list(_list_problem_notes(due))
    start = False
    if due.at is not None:
        if snapshot.namesake is not None:
            if snapshot.namesake.owner_uid == cron.uid:
                _note_start(status, snapshot.namesake, due.at)
        elif cron.spec.get("concurrencyPolicy") == "Forbid" and status.get("active"):
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            said.append(make_normal_note("JobAlreadyActive", text))
        else:
            start = True
            if cron.spec.get("concurrencyPolicy") == "Replace":
                replaced = {item["uid"] for item in status.get("active") or ()}
                gone += [job for job in snapshot.jobs if job.uid in replaced]
    if "active" in status:
        uids = {job.uid for job in gone}
        status["active"] = [item for item in status["active"] if item.get("uid") not in uids]
    # The events of ended Jobs are sent once, with the status that no longer lists these Jobs.
    because = "Jobs have ended"
    noted = write_status(CRON_JOBS, cron, status, because=because, notes=ended) if ended else None
    stages = (
        *run_in_order(REPORT_STATUS, [noted]),
        *run_each(DELETE, [(job.name, _delete_job(job)) for job in gone]),
        *(run_in_order(CREATE, [_create_job(cron, due.at)]) if start and due.at is not None else ()),
    )
    return Plan(
        stages=stages,
        status=None if ended else status,
        notes=() if stages else tuple(said),
        requeue_after_s=due.next_s,
    )


def _list_problem_notes(due: CronJobDue) -> Iterator[Note]:
    if due.problem:
        yield make_warning_note("UnparseableSchedule", due.problem)
    if due.missed > _MANY:
        yield make_warning_note(
            "TooManyMissedTimes",
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        )


def _note_ends(status: Document, jobs: Sequence[DocumentView]) -> Iterator[Note]:
    """Remove Jobs that have ended or are deleted from the list of active Jobs, and record the last successful time."""
    active = {item.get("uid"): item for item in status.get("active") or ()}
    known = {job.uid: job for job in jobs}
    for uid, value in list(active.items()):
        job = known.get(str(uid))
        if job is None:
            yield make_normal_note("MissingJob", f"Active job went missing: {value.get('name')}")
            del active[uid]
        elif is_finished(job):
            end = "Complete" if find_true_condition(job, "Complete") else "Failed"
            yield make_normal_note("SawCompletedJob", f"Saw completed job: {job.name}, condition: {end}")
            del active[uid]
    times = [job.status["completionTime"] for job in jobs if job.status.get("completionTime")]
    if times:
        status["lastSuccessfulTime"] = max([*times, status.get("lastSuccessfulTime") or ""])
    if active or "active" in status:
        status["active"] = list(active.values())


def _note_start(status: Document, job: DocumentView, due: Instant) -> None:
    """Add a Job to the list of active Jobs, and record its scheduled time."""
    reference = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "resourceVersion": str(job.resource_version),
    }
    if all(item.get("uid") != job.uid for item in status.get("active") or ()):
        status["active"] = [*(status.get("active") or ()), reference]
    status["lastScheduleTime"] = format_time(due)


def _list_outdated_jobs(cron: DocumentView, jobs: Sequence[DocumentView]) -> list[DocumentView]:
    """Finished Jobs beyond the history limits, the oldest first."""
    result: list[DocumentView] = []
    for kind, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended = [job for job in jobs if find_true_condition(job, kind) and not job.is_deleting]
        ended.sort(key=lambda job: (job.status.get("startTime") or "9", job.name))
        limit = cron.count("spec", field, default=default)
        result += ended[: max(0, len(ended) - limit)]
    return result


def find_latest_due(cron: DocumentView, schedule: Schedule, *, now: Instant) -> tuple[Instant | None, int]:
    """Return the latest due time that is not recorded yet and within the deadline, and the approximate number of such
    times.
    """
    since = instant_of(cron.status.get("lastScheduleTime") or cron.created_at, default=now)
    deadline_s = cron.spec.get("startingDeadlineSeconds")
    if deadline_s is not None:
        since = max(since, now - deadline_s)
    first = schedule.next(since)
    if first is None or first > now:
        return None, 0
    second = schedule.next(first)
    if second is None or second > now:
        return first, 1
    missed = int((now - first) // (second - first)) + 1
    # Start near the end of the interval, because only the latest time is needed.
    due, moment = first, schedule.next(max(since, first + (missed - 2) * (second - first)))
    while moment is not None and moment <= now:
        due, moment = moment, schedule.next(moment)
    return due, missed


def format_job_name(cron: DocumentView, due: Instant) -> str:
    """Name of the Job for a scheduled time. It contains this time in minutes, so that no Job is created twice."""
    return f"{cron.name}-{int(due // 60)}"


def build_job(cron: DocumentView, due: Instant) -> Document:
    """Build the Job for a scheduled time."""
    template: Document = cron.spec.get("jobTemplate") or {}
    metadata: Document = template.get("metadata") or {}
    zone = cron.spec.get("timeZone")
    at = format_time(due)
    if zone:
        at = datetime.fromtimestamp(due, ZoneInfo(zone)).isoformat(timespec="seconds")
    made: Document = {
        "name": format_job_name(cron, due),
        "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: at},
        "ownerReferences": [build_owner_reference_to(CRON_JOBS, cron)],
    }
    if labels := metadata.get("labels"):
        made["labels"] = labels
    spec = deep_copy(template.get("spec") or {})
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": made, "spec": spec}


def _create_job(cron: DocumentView, due: Instant) -> Step:
    return create_object(
        JOBS,
        cron.namespace,
        build_job(cron, due),
        because="its time is due",
        done=make_normal_note("SuccessfulCreate", f"Created job {format_job_name(cron, due)}"),
        failed=make_warning_note("FailedCreate", "Error creating job"),
    )


def _delete_job(job: DocumentView) -> Step:
    done = make_normal_note("SuccessfulDelete", f"Deleted job {job.name}")
    because = "more Jobs have ended than the history limit allows, or a new Job replaces it"
    return delete_object(JOBS, job, because=because, propagation="Background", done=done)


CRON_JOB_VIEWS: Final = make_document_views(CRON_JOBS)

WORK: Final = Work(
    resource=CRON_JOBS,
    control=Control(
        name="cronjobs",
        component="cronjob-controller",
        objects=CRON_JOB_VIEWS,
        reads=lambda _: (JOB_VIEWS,),
        wakes=lambda _: (wake_itself(CRON_JOB_VIEWS), wake_owner(JOB_VIEWS, CRON_JOBS)),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.cron,
        plan=plan_cron_job,
    ),
)
