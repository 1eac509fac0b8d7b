"""The next step of a Job, decided from its pods.

Job + its pods + now ──▶ count_pods() ──▶ JobTally ──▶ decide_next_step() ──▶ JobStep ──▶ jobs.py

Pure; job_policies.py evaluates the policies. Same rules as Kubernetes' job controller with pod tracking by
finalizers: a pod that has ended is first recorded in `status.uncountedTerminatedPods`, then loses its finalizer, and
is then counted. So each pod is counted exactly once, even if the controller crashes between these writes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.job_policies import (
    FINALIZER,
    describe_met_policy,
    find_held_back,
    find_last_end,
    has_failed,
    has_succeeded,
    index_of,
    index_text,
    indexes_of,
    is_counted_per_index,
    judge,
    list_failed_indexes,
)
from pykruise.sandbox.pod_view import SandboxPodView, instant_of

_BACKOFF_S: Final = 10.0
_BACKOFF_CAP_S: Final = 600.0

Verdict = tuple[str, str]
"""Reason and message."""


class JobTally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a job's pods."""

    active: tuple[SandboxPodView, ...]
    terminating: int
    succeeded: int
    """Number of pods that have succeeded, including those that are not counted yet. For an indexed job, the number of
    completed indexes.
    """
    failed: int
    completed: frozenset[int]
    """Indexes of an indexed job that have succeeded."""
    fresh: tuple[SandboxPodView, ...]
    """Pods that have ended and are neither recorded nor counted yet."""
    ignored: frozenset[str]
    """uids of failed pods that the failure policy does not count."""
    doomed: Verdict | None
    """Reason and message if the failure policy makes the job fail."""
    failed_indexes: frozenset[int] = frozenset()
    """Indexes that are not retried any more; empty without `backoffLimitPerIndex`."""
    held: Mapping[int, SandboxPodView] = {}
    """The failed pods that are recorded only after their replacement exists, by index."""


class JobStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next step."""

    create: tuple[int | None, ...] = ()
    """Completion indexes of the pods to create; None for a job without indexes."""
    delete: tuple[SandboxPodView, ...] = ()
    failing: Verdict | None = None
    succeeding: Verdict | None = None
    suspended: bool = False
    look_in: float | None = None
    """Seconds until the next step is due if nothing changes."""


def is_finished(job: DocumentView) -> bool:
    """Whether the job is Complete or Failed."""
    return find_true_condition(job, "Complete") is not None or find_true_condition(job, "Failed") is not None


def find_true_condition(job: DocumentView, kind: str) -> Document | None:
    """Return the job's condition of that type if it is true."""
    return next(
        (
            condition
            for condition in job.status.get("conditions") or ()
            if condition.get("type") == kind and condition.get("status") == "True"
        ),
        None,
    )


# ── counting ─────────────────────────────────────────────────────────────────


def count_pods(job: DocumentView, pods: Sequence[SandboxPodView]) -> JobTally:
    """Count the pods, including those that the status records."""
    noted = job.status.get("uncountedTerminatedPods") or {}
    known = {uid for name in ("succeeded", "failed") for uid in noted.get(name) or ()}
    ended = [pod for pod in pods if has_succeeded(pod) or has_failed(pod, job)]
    fresh = tuple(pod for pod in ended if FINALIZER in pod.finalizers and pod.uid not in known)
    verdicts = {pod.uid: judge(job, pod) for pod in ended if not has_succeeded(pod)}
    ignored = frozenset(uid for uid, verdict in verdicts.items() if not verdict.counts)
    doomed = next((verdict.text for verdict in verdicts.values() if verdict.action == "FailJob"), None)
    fails = sum(not has_succeeded(pod) and pod.uid not in ignored for pod in fresh)
    wins = [pod for pod in fresh if has_succeeded(pod)]
    completed = frozenset(indexes_of(job.status.get("completedIndexes") or "")) | frozenset(
        index
        for pod in ended
        if has_succeeded(pod) and (index := index_of(pod)) is not None and index < _count_completions(job)
    )
    active = tuple(pod for pod in pods if not pod.is_over and not pod.is_deleting)
    is_decided = any(find_true_condition(job, kind) for kind in ("FailureTarget", "SuccessCriteriaMet"))
    failed = list_failed_indexes(job, pods, is_decided=is_decided)
    counted = job.count("status", "succeeded") + len(noted.get("succeeded") or ()) + len(wins)
    return JobTally(
        active=active,
        terminating=sum(pod.is_deleting and not pod.is_over for pod in pods),
        succeeded=len(completed) if is_indexed(job) else counted,
        failed=job.count("status", "failed") + len(noted.get("failed") or ()) + fails,
        completed=completed,
        fresh=fresh,
        ignored=ignored,
        doomed=("PodFailurePolicy", doomed) if doomed is not None else None,
        failed_indexes=failed,
        held=find_held_back(job, pods, active, completed | failed),
    )


def is_indexed(job: DocumentView) -> bool:
    """Whether each pod has its own index."""
    return job.spec.get("completionMode") == "Indexed"


def _count_completions(job: DocumentView) -> int:
    return job.count("spec", "completions", default=2**31)


# ── deciding ─────────────────────────────────────────────────────────────────


def decide_next_step(
    job: DocumentView, pods: Sequence[SandboxPodView], seen: JobTally, *, now: Instant
) -> JobStep:
    """Decide the next step."""
    if (failing := _find_failure(job, seen, now)) is not None:
        return JobStep(delete=seen.active, failing=failing)
    if (succeeding := _find_success(job, seen)) is not None:
        return JobStep(delete=seen.active, succeeding=succeeding)
    if job.spec.get("suspend"):
        return JobStep(delete=seen.active, suspended=True)
    look_in = _compute_seconds_to_deadline(job, now)
    wanted = _count_wanted_active(job, seen)
    surplus = len(seen.active) - wanted
    if surplus > 0:
        ordered = sorted(seen.active, key=lambda pod: (pod.status.phase == "Running", pod.created_at))
        return JobStep(delete=tuple(ordered[:surplus]), look_in=look_in)
    room = wanted - len(seen.active)
    if job.spec.get("podReplacementPolicy") == "Failed":
        room -= seen.terminating
    if room <= 0:
        return JobStep(look_in=look_in)
    create: Sequence[int | None] = [None] * room
    if is_indexed(job):
        create = _choose_next_indexes(job, pods, seen, room)
    if is_counted_per_index(job):
        waits = [_compute_index_backoff_left(seen.held.get(index or 0), now) for index in create]
        create = [index for index, wait_s in zip(create, waits, strict=True) if wait_s <= 0]
        wait_s = min(waits, default=0.0) if not create else 0.0
    else:
        wait_s = _compute_backoff_left(pods, now)
    if wait_s > 0:
        return JobStep(look_in=min(wait_s, look_in) if look_in is not None else wait_s)
    return JobStep(create=tuple(create), look_in=look_in)


def _choose_next_indexes(
    job: DocumentView, pods: Sequence[SandboxPodView], seen: JobTally, room: int
) -> list[int]:
    """The lowest indexes that have not ended and have no pod."""
    replaces_early = job.spec.get("podReplacementPolicy") != "Failed"
    leaving = () if replaces_early else [pod for pod in pods if pod.is_deleting and not pod.is_over]
    taken = seen.completed | seen.failed_indexes | {index_of(pod) for pod in (*seen.active, *leaving)}
    free = (index for index in range(_count_completions(job)) if index not in taken)
    return [index for index, _ in zip(free, range(room), strict=False)]


def _find_failure(job: DocumentView, seen: JobTally, now: Instant) -> Verdict | None:
    if (known := find_true_condition(job, "FailureTarget")) is not None:
        return known["reason"], known["message"]
    if find_true_condition(job, "SuccessCriteriaMet") is not None:
        return None
    if seen.doomed is not None:
        return seen.doomed
    limit = job.count("spec", "backoffLimit", default=6)
    restarts = sum(
        status.restart_count
        for pod in seen.active
        for status in (*pod.status.init_containers, *pod.status.containers)
    )
    restarts_in_place = (job.spec["template"]["spec"].get("restartPolicy")) == "OnFailure"
    if seen.failed > limit or (restarts_in_place and restarts and restarts >= limit):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    due = _compute_seconds_to_deadline(job, now)
    if due is not None and due <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return _find_index_failure(job, seen)


def _find_index_failure(job: DocumentView, seen: JobTally) -> Verdict | None:
    failed, most = len(seen.failed_indexes), job.spec.get("maxFailedIndexes")
    if most is not None and failed > most:
        why = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", why
    if failed and failed + len(seen.completed) >= _count_completions(job):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _compute_seconds_to_deadline(job: DocumentView, now: Instant) -> float | None:
    limit_s, started = job.spec.get("activeDeadlineSeconds"), job.status.get("startTime")
    if limit_s is None or not started or job.spec.get("suspend"):
        return None
    return instant_of(started, default=now) + float(limit_s) - now


def _find_success(job: DocumentView, seen: JobTally) -> Verdict | None:
    if (known := find_true_condition(job, "SuccessCriteriaMet")) is not None:
        return known["reason"], known["message"]
    if is_indexed(job) and (rule := describe_met_policy(job, seen.completed)):
        return "SuccessPolicy", rule
    completions = job.spec.get("completions")
    if completions is None:
        is_done = seen.succeeded > 0 and not seen.active
    else:
        is_done = seen.succeeded >= completions
    return ("CompletionsReached", "Reached expected number of succeeded pods") if is_done else None


def _count_wanted_active(job: DocumentView, seen: JobTally) -> int:
    parallelism = job.count("spec", "parallelism", default=1)
    if job.spec.get("completions") is None:
        # A work queue: after the first success no new pods are created, and the running pods finish.
        return len(seen.active) if seen.succeeded else parallelism
    return max(0, min(parallelism, _count_completions(job) - seen.succeeded))


def _compute_backoff_left(pods: Sequence[SandboxPodView], now: Instant) -> float:
    """Seconds until failed pods are replaced. The backoff doubles with each failure since the last success."""
    won = max((find_last_end(pod) for pod in pods if has_succeeded(pod)), default=0.0)
    lost = [find_last_end(pod) for pod in pods if pod.status.phase == "Failed" and find_last_end(pod) >= won]
    return _wait_after(max(lost), len(lost)) - now if lost else 0.0


def _compute_index_backoff_left(failed: SandboxPodView | None, now: Instant) -> float:
    """Seconds until the last failed pod of an index is replaced. Its annotation has the number of earlier failures."""
    return _wait_after(find_last_end(failed), sum(failed.index_failures) + 1) - now if failed else 0.0


def _wait_after(ended: Instant, failures: int) -> Instant:
    return ended + min(_BACKOFF_CAP_S, _BACKOFF_S * 2.0 ** min(failures - 1, 30))


# ── status ───────────────────────────────────────────────────────────────────


def build_job_status(
    job: DocumentView, seen: JobTally, step: JobStep, pods: Sequence[SandboxPodView], *, now: Instant
) -> Document:
    """Build the status after this step. Pods that have ended are recorded, but not counted yet."""
    status = dict(job.status)
    status["conditions"] = [dict(item) for item in job.status.get("conditions") or ()]
    noted = job.status.get("uncountedTerminatedPods") or {}
    unnoted = set(seen.ignored)
    if step.failing is None and step.succeeding is None:
        unnoted |= {pod.uid for pod in seen.held.values()}
    if step.succeeding is not None:
        # After the job has succeeded, pods that are still running do not count as failed.
        unnoted |= {pod.uid for pod in seen.fresh if not pod.is_over}
    won = [*(noted.get("succeeded") or ()), *(pod.uid for pod in seen.fresh if has_succeeded(pod))]
    lost = [
        *(noted.get("failed") or ()),
        *(pod.uid for pod in seen.fresh if not has_succeeded(pod) and pod.uid not in unnoted),
    ]
    if step.failing is not None:
        # After the job has failed, pods that are deleted while they run count as failed, too.
        lost += [pod.uid for pod in pods if _is_cut_short(pod) and pod.uid not in lost]
    uncounted = {name: uids for name, uids in (("succeeded", won), ("failed", lost)) if uids}
    ready = sum(
        (condition := pod.status.find_condition("Ready")) is not None and condition.status == "True"
        for pod in seen.active
    )
    status |= {
        "uncountedTerminatedPods": uncounted,
        "active": len(seen.active),
        "ready": ready,
        "terminating": seen.terminating,
    }
    if is_indexed(job):
        status["completedIndexes"] = index_text(seen.completed)
    if is_counted_per_index(job):
        status["failedIndexes"] = index_text(seen.failed_indexes)
    _set_suspended(job, status, step, now)
    is_over = not seen.active and not seen.terminating and not step.create
    if step.failing is not None:
        put_condition(status["conditions"], "FailureTarget", step.failing, now)
        if is_over and not uncounted:
            put_condition(status["conditions"], "Failed", step.failing, now)
    elif step.succeeding is not None:
        put_condition(status["conditions"], "SuccessCriteriaMet", step.succeeding, now)
        if is_over and not uncounted:
            put_condition(status["conditions"], "Complete", step.succeeding, now)
            status.setdefault("completionTime", format_time(now))
    return tidy(status)


def to_release(
    pods: Sequence[SandboxPodView], seen: JobTally, step: JobStep, status: Document
) -> list[SandboxPodView]:
    """Pods that no longer need their finalizer once this status is written."""
    noted = status.get("uncountedTerminatedPods") or {}
    uids = {uid for name in ("succeeded", "failed") for uid in noted.get(name) or ()}
    is_ending = step.failing is not None or step.succeeding is not None
    held = set() if is_ending else {pod.uid for pod in seen.held.values()}
    return [
        pod
        for pod in pods
        if FINALIZER in pod.finalizers
        and pod.uid not in held
        and (pod.uid in uids or pod.is_over or (is_ending and pod.is_deleting))
    ]


def _is_cut_short(pod: SandboxPodView) -> bool:
    return FINALIZER in pod.finalizers and pod.is_deleting and not pod.is_over


def count_recorded(job: DocumentView, pods: Sequence[SandboxPodView]) -> Document:
    """Return the status in which recorded pods without a finalizer are counted."""
    noted = job.status.get("uncountedTerminatedPods") or {}
    held = {pod.uid for pod in pods if FINALIZER in pod.finalizers}
    status = dict(job.status)
    left: Document = {}
    for name in ("succeeded", "failed"):
        uids = noted.get(name) or ()
        status[name] = int(job.status.get(name) or 0) + sum(uid not in held for uid in uids)
        if waiting := [uid for uid in uids if uid in held]:
            left[name] = waiting
    status["uncountedTerminatedPods"] = left
    if is_indexed(job):
        status["succeeded"] = len(list(indexes_of(job.status.get("completedIndexes") or "")))
    return tidy(status)


def tidy(status: Document) -> Document:
    """Remove empty fields that Kubernetes omits."""
    optional = ("active", "succeeded", "failed", "completedIndexes", "conditions")
    return {name: value for name, value in status.items() if value or name not in optional}


def _set_suspended(job: DocumentView, status: Document, step: JobStep, now: Instant) -> None:
    known = next((condition for condition in status["conditions"] if condition["type"] == "Suspended"), None)
    if step.suspended:
        if known is None or known["status"] != "True":
            put_condition(status["conditions"], "Suspended", ("JobSuspended", "Job suspended"), now)
        status.pop("startTime", None)
        return
    if known is not None and known["status"] == "True":
        resumed = ("JobResumed", "Job resumed")
        put_condition(status["conditions"], "Suspended", resumed, now, status="False")
    if not job.status.get("startTime"):
        status["startTime"] = format_time(now)


def put_condition(
    conditions: list[Document], kind: str, verdict: Verdict, now: Instant, *, status: str = "True"
) -> None:
    """Set a condition. An existing condition with the same status stays unchanged."""
    known = next((condition for condition in conditions if condition["type"] == kind), None)
    if known is not None and known["status"] == status:
        return
    if known is not None:
        conditions.remove(known)
    at = format_time(now)
    reason, message = verdict
    conditions.append(
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": at,
            "lastTransitionTime": at,
        }
    )
