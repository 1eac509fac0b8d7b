"""CronJobs: Jobs made by the clock.

CronJob + its Jobs ──▶ next_step() ──▶ old Jobs deleted ──▶ a Job created ──▶ PATCH status

The decision is a pure function; the loop carries it out and comes back at the next time. Rules: Kubernetes' cron
job controller. Of several times that were missed only the latest is made up for.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from pykruise.kube.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.cron import Schedule, ScheduleError, parse_schedule
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CRON_JOBS, JOBS
from pykruise.runtime.objects import DocumentView, owner_reference_to, project_document
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.controllers.job_plans import condition, is_finished
from pykruise.sandbox.pod_view import instant_of

__all__ = ["CronJobs", "Step", "job_from", "next_step"]

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_SLACK_S: Final = 0.1
_MANY: Final = 100

Told = tuple[str, str, bool]
"""An event: reason, message, whether it is a warning."""


class Step(msgspec.Struct, kw_only=True):
    """What is to be done about a CronJob now."""

    status: Document
    delete: list[DocumentView] = []
    start_at: Instant | None = None
    """A Job is to be made for this time."""
    replaces: list[str] = []
    """Uids of running Jobs that go first."""
    told: list[Told] = []
    look_in: float | None = None


def next_step(cron: DocumentView, jobs: Sequence[DocumentView], *, now: Instant) -> Step:
    """What is to be done. `jobs`: those that the CronJob controls."""
    step = Step(status=deep_copy(cron.status), delete=_outdated(cron, jobs))
    _note_ends(step, jobs)
    if cron.is_deleting or cron.spec.get("suspend"):
        return step
    try:
        schedule = parse_schedule(cron.spec["schedule"], zone=cron.spec.get("timeZone") or "")
    except ScheduleError as err:
        text = f'unparseable schedule: "{cron.spec["schedule"]}" : {err}'
        step.told.append(("UnparseableSchedule", text, True))
        return step
    due, missed = latest_due(cron, schedule, now=now)
    if missed > _MANY:
        text = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        )
        step.told.append(("TooManyMissedTimes", text, True))
    following = schedule.next(now)
    step.look_in = None if following is None else following - now + _SLACK_S
    if due is not None and format_time(due) != cron.status.get("lastScheduleTime"):
        _start(cron, step, due)
    return step


def _start(cron: DocumentView, step: Step, due: Instant) -> None:
    active = step.status.get("active") or []
    policy = cron.spec.get("concurrencyPolicy")
    if any(one.get("name") == job_name(cron, due) for one in active):
        return
    if policy == "Forbid" and active:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        step.told.append(("JobAlreadyActive", text, False))
        return
    if policy == "Replace":
        step.replaces = [one["uid"] for one in active]
    step.start_at = due


def _note_ends(step: Step, jobs: Sequence[DocumentView]) -> None:
    """Take Jobs that ended or went out of the active ones, and note when the last one succeeded."""
    active = {one.get("uid"): one for one in step.status.get("active") or ()}
    known = {job.uid: job for job in jobs}
    for uid, one in list(active.items()):
        job = known.get(str(uid))
        if job is None:
            step.told.append(("MissingJob", f"Active job went missing: {one.get('name')}", False))
            del active[uid]
        elif is_finished(job):
            end = "Complete" if condition(job, "Complete") else "Failed"
            step.told.append(("SawCompletedJob", f"Saw completed job: {job.name}, condition: {end}", False))
            del active[uid]
    times = [job.status["completionTime"] for job in jobs if job.status.get("completionTime")]
    if times:
        latest = max([*times, step.status.get("lastSuccessfulTime") or ""])
        step.status["lastSuccessfulTime"] = latest
    if active or "active" in step.status:
        step.status["active"] = list(active.values())


def _outdated(cron: DocumentView, jobs: Sequence[DocumentView]) -> list[DocumentView]:
    """Finished Jobs beyond the history limits, the oldest first."""
    found: list[DocumentView] = []
    for kind, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended = [job for job in jobs if condition(job, kind) and not job.is_deleting]
        ended.sort(key=lambda job: (job.status.get("startTime") or "9", job.name))
        limit = cron.count("spec", field, default=default)
        found += ended[: max(0, len(ended) - limit)]
    return found


def latest_due(cron: DocumentView, schedule: Schedule, *, now: Instant) -> tuple[Instant | None, int]:
    """The latest time that is due and was not begun in time, and how many there were about."""
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
    # Near its end: the times between are many, and nobody asks for them.
    due, moment = first, schedule.next(max(since, first + (missed - 2) * (second - first)))
    while moment is not None and moment <= now:
        due, moment = moment, schedule.next(moment)
    return due, missed


def job_name(cron: DocumentView, due: Instant) -> str:
    """The name of the Job for a time: the minute is in it, so that none is made twice."""
    return f"{cron.name}-{int(due // 60)}"


def job_from(cron: DocumentView, due: Instant) -> Document:
    """The Job for a time."""
    template: Document = cron.spec.get("jobTemplate") or {}
    metadata: Document = template.get("metadata") or {}
    zone = cron.spec.get("timeZone")
    at = format_time(due)
    if zone:
        at = datetime.fromtimestamp(due, ZoneInfo(zone)).isoformat(timespec="seconds")
    made: Document = {
        "name": job_name(cron, due),
        "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: at},
        "ownerReferences": [owner_reference_to(CRON_JOBS, cron)],
    }
    if labels := metadata.get("labels"):
        made["labels"] = labels
    spec = deep_copy(template.get("spec") or {})
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": made, "spec": spec}


class CronJobs(Loop):
    """Makes the Jobs of every CronJob."""

    name = "cronjobs"
    component = "cronjob-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(CRON_JOBS)
        self.jobs = shared.cache(JOBS)
        self.jobs.subscribe(self._on_job)

    def _on_job(self, change: Change[DocumentView]) -> None:
        for job in (change.old, change.new):
            if job is not None and job.owner_uid:
                for cron in self.cache.by_index("uid", job.owner_uid):
                    self.queue.add(cron.key)

    async def sync(self, key: Key) -> float | None:
        cron = self.cache.get(key)
        if cron is None:
            return None
        jobs = self.jobs.by_index(BY_CONTROLLER, cron.uid)
        step = next_step(cron, jobs, now=self.clock())
        for reason, message, warning in step.told:
            self.tell(CRON_JOBS, cron, reason, message, warning=warning)
        going = [*step.delete, *(job for job in jobs if job.uid in step.replaces)]
        for job in going:
            await self._delete(cron, job)
        gone = {job.uid for job in going}
        if "active" in step.status:
            step.status["active"] = [one for one in step.status["active"] if one.get("uid") not in gone]
        if step.start_at is not None:
            await self._create(cron, step.start_at, step.status)
        with suppress(NotFoundError):
            await self.shared.patch_status(CRON_JOBS, cron, step.status)
        return step.look_in

    async def _create(self, cron: DocumentView, due: Instant, status: Document) -> None:
        try:
            job = project_document(await self.writer.create(JOBS, cron.namespace, job_from(cron, due)))
        except AlreadyExistsError:
            # It was made before, and that was not noted; or it is somebody else's.
            known = self.jobs.get(Key(cron.namespace, job_name(cron, due)))
            if known is None or known.owner_uid != cron.uid:
                return
            job = known
        except ApiError as err:
            self.tell(CRON_JOBS, cron, "FailedCreate", f"Error creating job: {err}", warning=True)
            raise
        else:
            self.tell(CRON_JOBS, cron, "SuccessfulCreate", f"Created job {job.name}")
        reference: dict[str, Any] = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
            "resourceVersion": str(job.resource_version),
        }
        status["active"] = [*(status.get("active") or ()), reference]
        status["lastScheduleTime"] = format_time(due)

    async def _delete(self, cron: DocumentView, job: DocumentView) -> None:
        try:
            await self.writer.delete(JOBS, job.key, uid=job.uid, propagation="Background")
        except NotFoundError:
            return
        self.tell(CRON_JOBS, cron, "SuccessfulDelete", f"Deleted job {job.name}")
