"""What a Job does next, decided from its pods.

Job + its pods + now ──▶ tally() ──▶ Tally ──▶ next_step() ──▶ Step ──▶ jobs.py

Pure. Rules: Kubernetes' job controller with pod tracking by finalizers: a pod that has ended is noted in
`status.uncountedTerminatedPods`, then loses its finalizer, then is counted; so each is counted once whatever
breaks in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.sandbox.controllers.base import View
from pykruise.sandbox.pod_view import PodView, instant_of

__all__ = [
    "FINALIZER",
    "INDEX",
    "Step",
    "Tally",
    "index_text",
    "indexes_of",
    "is_finished",
    "next_step",
    "tally",
]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
_BACKOFF_S: Final = 10.0
_BACKOFF_CAP_S: Final = 600.0

Verdict = tuple[str, str]
"""Reason and message."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How a job's pods are."""

    active: tuple[PodView, ...]
    terminating: int
    succeeded: int
    """Counted ones and those about to be."""
    failed: int
    completed: frozenset[int]
    """Indexes of an indexed job that have succeeded."""
    fresh: tuple[PodView, ...]
    """Pods that have ended and are neither noted nor counted yet."""
    ignored: frozenset[str]
    """uids of failed pods that the failure policy does not count."""
    doomed: Verdict | None
    """The failure policy fails the job."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now."""

    create: tuple[int | None, ...] = ()
    """Pods to create: their completion indexes, or None for jobs without."""
    delete: tuple[PodView, ...] = ()
    failing: Verdict | None = None
    succeeding: Verdict | None = None
    suspended: bool = False
    look_in: float | None = None
    """Seconds until something is due by itself."""


def is_finished(job: View) -> bool:
    """Whether the job is Complete or Failed."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def condition(job: View, kind: str) -> Document | None:
    """A condition of the job that holds."""
    return next(
        (
            one
            for one in job.status.get("conditions") or ()
            if one.get("type") == kind and one.get("status") == "True"
        ),
        None,
    )


# ── counting ─────────────────────────────────────────────────────────────────


def tally(job: View, pods: Sequence[PodView]) -> Tally:
    """How the pods are, with what is noted in the status."""
    noted = job.status.get("uncountedTerminatedPods") or {}
    known = {uid for name in ("succeeded", "failed") for uid in noted.get(name) or ()}
    ended = [pod for pod in pods if has_succeeded(pod) or has_failed(pod, job)]
    fresh = tuple(pod for pod in ended if FINALIZER in pod.finalizers and pod.uid not in known)
    verdicts = {pod.uid: _policy(job, pod) for pod in ended if not has_succeeded(pod)}
    ignored = frozenset(uid for uid, (action, _) in verdicts.items() if action == "Ignore")
    doomed = next((text for action, text in verdicts.values() if action == "FailJob"), None)
    fails = sum(not has_succeeded(pod) and pod.uid not in ignored for pod in fresh)
    wins = [pod for pod in fresh if has_succeeded(pod)]
    completed = frozenset(indexes_of(job.status.get("completedIndexes") or "")) | frozenset(
        index
        for pod in ended
        if has_succeeded(pod) and (index := index_of(pod)) is not None and index < _completions(job)
    )
    counted = job.count("status", "succeeded") + len(noted.get("succeeded") or ()) + len(wins)
    return Tally(
        active=tuple(pod for pod in pods if not pod.is_over and not pod.is_terminating),
        terminating=sum(pod.is_terminating and not pod.is_over for pod in pods),
        succeeded=len(completed) if is_indexed(job) else counted,
        failed=job.count("status", "failed") + len(noted.get("failed") or ()) + fails,
        completed=completed,
        fresh=fresh,
        ignored=ignored,
        doomed=("PodFailurePolicy", doomed) if doomed is not None else None,
    )


def has_succeeded(pod: PodView) -> bool:
    """Whether all its containers have completed."""
    return pod.status.phase == "Succeeded"


def has_failed(pod: PodView, job: View) -> bool:
    """Whether it counts as failed: one that is deleted before its end does, unless replacements wait for it."""
    if pod.status.phase == "Failed":
        return True
    waits = job.spec.get("podReplacementPolicy") == "Failed"
    return pod.is_terminating and not pod.is_over and not waits


def is_indexed(job: View) -> bool:
    """Whether each pod has a number of its own."""
    return job.spec.get("completionMode") == "Indexed"


def index_of(pod: PodView) -> int | None:
    """The completion index of a pod."""
    text = pod.labels.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def indexes_of(text: str) -> Iterable[int]:
    """`"0-2,5"` is 0, 1, 2, 5."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def index_text(indexes: Iterable[int]) -> str:
    """The other way round."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    # Two in a row are told apart by a comma, as Kubernetes does.
    parts = [
        str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in ranges
    ]
    return ",".join(parts)


def _completions(job: View) -> int:
    return job.count("spec", "completions", default=2**31)


def _policy(job: View, pod: PodView) -> tuple[str, str]:
    """What the failure policy says about a failed pod, and why. Rule: the first rule that matches."""
    for number, rule in enumerate((job.spec.get("podFailurePolicy") or {}).get("rules") or ()):
        if text := _matches(rule, pod, number):
            return rule["action"], text
    return "Count", ""


def _matches(rule: Mapping[str, Any], pod: PodView, number: int) -> str:
    action = rule.get("action")
    if (codes := rule.get("onExitCodes")) is not None:
        for status in (*pod.status.init_containers, *pod.status.containers):
            ended = status.state.terminated
            if ended is None or not ended.exit_code:
                continue
            if codes.get("containerName") not in (None, status.name):
                continue
            if (ended.exit_code in codes["values"]) == (codes["operator"] == "In"):
                return (
                    f"Container {status.name} for pod {pod.namespace}/{pod.name} failed with exit code "
                    f"{ended.exit_code} matching {action} rule at index {number}"
                )
    for pattern in rule.get("onPodConditions") or ():
        found = pod.status.condition(pattern["type"])
        if found is not None and found.status == pattern.get("status", "True"):
            return (
                f"Pod {pod.namespace}/{pod.name} has condition {pattern['type']} matching {action} rule "
                f"at index {number}"
            )
    return ""


# ── deciding ─────────────────────────────────────────────────────────────────


def next_step(job: View, pods: Sequence[PodView], seen: Tally, *, now: Instant) -> Step:
    """What to do now."""
    if (failing := _failing(job, seen, now)) is not None:
        return Step(delete=seen.active, failing=failing)
    if (succeeding := _succeeding(job, seen)) is not None:
        return Step(delete=seen.active, succeeding=succeeding)
    if job.spec.get("suspend"):
        return Step(delete=seen.active, suspended=True)
    look_in = _deadline_in(job, now)
    wanted = _wanted_active(job, seen)
    surplus = len(seen.active) - wanted
    if surplus > 0:
        ordered = sorted(seen.active, key=lambda pod: (pod.status.phase == "Running", pod.created_at))
        return Step(delete=tuple(ordered[:surplus]), look_in=look_in)
    room = wanted - len(seen.active)
    if job.spec.get("podReplacementPolicy") == "Failed":
        room -= seen.terminating
    if room <= 0:
        return Step(look_in=look_in)
    wait_s = _backoff(job, pods, now)
    if wait_s > 0:
        return Step(look_in=min(wait_s, look_in) if look_in is not None else wait_s)
    create: Sequence[int | None] = [None] * room
    if is_indexed(job):
        taken = seen.completed | {index for pod in seen.active if (index := index_of(pod)) is not None}
        free = (index for index in range(_completions(job)) if index not in taken)
        create = [index for index, _ in zip(free, range(room), strict=False)]
    return Step(create=tuple(create), look_in=look_in)


def _failing(job: View, seen: Tally, now: Instant) -> Verdict | None:
    if (known := condition(job, "FailureTarget")) is not None:
        return known["reason"], known["message"]
    if condition(job, "SuccessCriteriaMet") is not None:
        return None
    if seen.doomed is not None:
        return seen.doomed
    limit = job.count("spec", "backoffLimit", default=6)
    restarts = sum(status.restart_count for pod in seen.active for status in pod.status.containers)
    restarts_in_place = (job.spec["template"]["spec"].get("restartPolicy")) == "OnFailure"
    if seen.failed > limit or (restarts_in_place and restarts and restarts >= limit):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    due = _deadline_in(job, now)
    if due is not None and due <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _deadline_in(job: View, now: Instant) -> float | None:
    limit_s, started = job.spec.get("activeDeadlineSeconds"), job.status.get("startTime")
    if limit_s is None or not started or job.spec.get("suspend"):
        return None
    return instant_of(started, default=now) + float(limit_s) - now


def _succeeding(job: View, seen: Tally) -> Verdict | None:
    if (known := condition(job, "SuccessCriteriaMet")) is not None:
        return known["reason"], known["message"]
    completions = job.spec.get("completions")
    if completions is None:
        is_done = seen.succeeded > 0 and not seen.active
    else:
        is_done = seen.succeeded >= completions
    return ("CompletionsReached", "Reached expected number of succeeded pods") if is_done else None


def _wanted_active(job: View, seen: Tally) -> int:
    parallelism = job.count("spec", "parallelism", default=1)
    if job.spec.get("completions") is None:
        # A work queue: once a pod has succeeded, the others finish and no more are started.
        return len(seen.active) if seen.succeeded else parallelism
    return max(0, min(parallelism, _completions(job) - seen.succeeded))


def _backoff(job: View, pods: Sequence[PodView], now: Instant) -> float:
    """How long to wait before failed pods are replaced; doubles with each failure since the last success."""
    won = max((_ended_at(pod) for pod in pods if has_succeeded(pod)), default=0.0)
    lost = [_ended_at(pod) for pod in pods if pod.status.phase == "Failed" and _ended_at(pod) >= won]
    if not lost:
        return 0.0
    return max(lost) + min(_BACKOFF_CAP_S, _BACKOFF_S * 2.0 ** min(len(lost) - 1, 30)) - now


def _ended_at(pod: PodView) -> Instant:
    return max(
        (
            instant_of(status.state.terminated.finished_at, default=0.0)
            for status in pod.status.containers
            if status.state.terminated is not None
        ),
        default=0.0,
    )


# ── status ───────────────────────────────────────────────────────────────────


def job_status(job: View, seen: Tally, step: Step, pods: Sequence[PodView], *, now: Instant) -> Document:
    """The status after this step; pods that have ended are noted, not counted."""
    status = dict(job.status)
    status["conditions"] = [dict(one) for one in job.status.get("conditions") or ()]
    noted = job.status.get("uncountedTerminatedPods") or {}
    won = [*(noted.get("succeeded") or ()), *(pod.uid for pod in seen.fresh if has_succeeded(pod))]
    lost = [
        *(noted.get("failed") or ()),
        *(pod.uid for pod in seen.fresh if not has_succeeded(pod) and pod.uid not in seen.ignored),
    ]
    uncounted = {name: uids for name, uids in (("succeeded", won), ("failed", lost)) if uids}
    ready = sum(
        (found := pod.status.condition("Ready")) is not None and found.status == "True" for pod in seen.active
    )
    status |= {
        "uncountedTerminatedPods": uncounted,
        "active": len(seen.active),
        "ready": ready,
        "terminating": seen.terminating,
    }
    if is_indexed(job):
        status["completedIndexes"] = index_text(seen.completed)
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


def counted(job: View, pods: Sequence[PodView]) -> Document:
    """The status with those noted pods counted that have lost their finalizer."""
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
    """Without what Kubernetes leaves out when it is empty."""
    optional = ("active", "succeeded", "failed", "completedIndexes", "conditions")
    return {name: value for name, value in status.items() if value or name not in optional}


def _set_suspended(job: View, status: Document, step: Step, now: Instant) -> None:
    known = next((one for one in status["conditions"] if one["type"] == "Suspended"), None)
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
    """Set a condition; one that holds already stays as it is."""
    known = next((one for one in conditions if one["type"] == kind), None)
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
