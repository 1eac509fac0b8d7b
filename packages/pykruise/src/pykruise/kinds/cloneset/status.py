"""Status of a CloneSet.

CloneSetWorkingSet + stored status + failures ──▶ status_of() ──▶ CloneSetStatus
conditions ──▶ set_condition(), set_failures() ──▶ conditions

Pure: the status is computed from the snapshot. So the writes of a plan change the status only in the next reconcile.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.cloneset.limits import Mark
from pykruise.kinds.cloneset.types import NO_DEADLINE, CloneSetCondition, CloneSetSpec, CloneSetStatus
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.schemas.types import Time
from pykruise.kube.values.counts import format_count, format_first
from pykruise.kube.values.selectors import parse_selector
from pykruise.plans.failed_resizes import read_refused_since
from pykruise.pods.reasons import NOT_WRITTEN, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import WAITING, condition_of, drop_conditions
from pykruise.runtime.reasons import Reason

__all__ = [
    "FAILED_SCALE",
    "FAILED_UPDATE",
    "PROGRESSING",
    "build_counters",
    "drop_conditions",
    "find_deadline",
    "is_write_refused",
    "resize_refused_since",
    "set_condition",
    "set_failures",
    "set_waiting",
    "status_of",
]

PROGRESSING: Final = "Progressing"
FAILED_SCALE: Final = "FailedScale"
FAILED_UPDATE: Final = "FailedUpdate"

AVAILABLE: Final = "CloneSetAvailable"
PAUSED: Final = "CloneSetPaused"
PARTITION_AVAILABLE: Final = "ProgressPartitionAvailable"
DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
UPDATED: Final = "CloneSetUpdated"


TERMINATING_PODS: Final = "TerminatingPods"
"""Condition that lists terminating pods which must end before their successors are created (pod-replacement-policy)."""

MOST_NAMES: Final = 10
"""Maximum number of pod names in a message."""

SUCCEEDED: Final = "Succeeded"
"""Reason in the condition of a phase that failed earlier and succeeded afterwards."""

Conditions = Sequence[CloneSetCondition]


def build_counters(counts: Mapping[Mark, int]) -> dict[str, Any]:
    """Return the counters of the status, by field. `counts`: number of active pods with each mark."""

    def count_pods(is_counted: Callable[[Mark], bool]) -> int:
        return sum(count for mark, count in counts.items() if is_counted(mark))

    return {
        "replicas": count_pods(lambda _: True),
        "ready_replicas": count_pods(lambda mark: mark.is_ready),
        "available_replicas": count_pods(lambda mark: mark.is_available),
        "updated_replicas": count_pods(lambda mark: mark.is_new),
        "updated_ready_replicas": count_pods(lambda mark: mark.is_new and mark.is_ready),
        "updated_available_replicas": count_pods(lambda mark: mark.is_new and mark.is_available),
    }


def status_of(
    ws: CloneSetWorkingSet,
    *,
    collision_count: int,
    failures: Mapping[str, Reason | None],
    waiting: Reason | None,
    generation: int,
) -> CloneSetStatus:
    """Compute the whole status. `failures`: type of a condition → why its phase failed, or None if the phase succeeded.
    A phase that did not run has no entry.
    """
    stored = ws.snapshot.cloneset.status
    counted = build_counters(ws.counts)
    status = CloneSetStatus(
        **counted,
        observed_generation=generation,
        update_revision=ws.update.name,
        current_revision=_choose_current_revision(ws, counted),
        expected_updated_replicas=ws.limits.replicas - ws.limits.partition,
        collision_count=collision_count,
        label_selector=str(parse_selector(msgspec.to_builtins(ws.spec.selector))),
    )
    # This code runs only if the pods match the selector.
    kept = drop_conditions(stored.conditions or (), SELECTOR_MISMATCH)
    conditions = set_failures(kept, failures, now=ws.now)
    conditions = _set_progressing(conditions, status, stored, ws.spec, now=ws.now)
    conditions = set_waiting(conditions, waiting, now=ws.now)
    conditions = _set_terminating(conditions, ws.occupying or (), now=ws.now)
    return msgspec.structs.replace(status, conditions=list(conditions))


def _choose_current_revision(ws: CloneSetWorkingSet, counted: Mapping[str, int]) -> str:
    """Return the current revision: the update revision becomes current once every pod has it, ready or not.

    With zero replicas this happens immediately, even if a partition is set. After the next scale-out all pods have the
    update revision, as with OpenKruise.
    """
    is_complete = counted["updated_replicas"] == counted["replicas"] == ws.limits.replicas
    return (ws.update if is_complete else ws.current).name


# Conditions


def set_condition(
    conditions: Conditions, kind: str, *, status: str, reason: str, message: str, now: Instant
) -> Conditions:
    """Set a condition and move it to the end of the list. If its status and reason do not change, leave the list
    unchanged.
    """
    old = condition_of(conditions, kind)
    if old is not None and old.status == status and old.reason == reason:
        return conditions
    return _write_condition(conditions, kind, status=status, reason=reason, message=message, now=now)


def _write_condition(
    conditions: Conditions,
    kind: str,
    *,
    status: str = "True",
    reason: str,
    message: str,
    updated_at: Time | None = None,
    now: Instant,
) -> Conditions:
    """Write the condition to the end of the list. If its status does not change, neither does its transition time.
    `updated_at` is the update time, by default now.
    """
    old = condition_of(conditions, kind)
    new = CloneSetCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_update_time=updated_at or format_time(now),
        last_transition_time=old.last_transition_time
        if old is not None and old.status == status
        else format_time(now),
    )
    return [*drop_conditions(conditions, kind), new]


def set_failures(
    conditions: Conditions, failures: Mapping[str, Reason | None], *, now: Instant
) -> Conditions:
    """Set the condition of each failed phase to True with a message, and to False if the phase has succeeded again."""
    for kind, failure in failures.items():
        old = condition_of(conditions, kind)
        failed_before = old if old is not None and old.status == "True" else None
        if failure is None and failed_before is not None:
            conditions = _write_condition(
                conditions, kind, status="False", reason=SUCCEEDED, message="", now=now
            )
        elif failure is not None and (failed_before is None or failed_before.message != failure.full_message):
            conditions = _write_condition(
                conditions, kind, reason=failure.code, message=failure.full_message, now=now
            )
    return conditions


def set_waiting(conditions: Conditions, waiting: Reason | None, *, now: Instant) -> Conditions:
    """Set the condition Waiting while the CloneSet waits for something. If only the message changes, the times of the
    condition do not change.

    After a failure, only a reason with a remedy is reported: "pods are being created" would contradict the failure. If
    a write was rejected and `waiting` has no remedy, Waiting contains the message of the failure.
    """
    failed = next(
        (
            condition
            for condition in conditions
            if condition.type in (FAILED_SCALE, FAILED_UPDATE) and condition.status == "True"
        ),
        None,
    )
    if failed is not None and (waiting is None or not waiting.remedy):
        if failed.reason not in NOT_WRITTEN:
            return drop_conditions(conditions, WAITING)
        return _set_waiting(conditions, failed.reason, failed.message, now=now)
    if waiting is None:
        return drop_conditions(conditions, WAITING)
    return _set_waiting(conditions, waiting.code, waiting.condition_message, now=now)


def _set_waiting(conditions: Conditions, code: str, message: str, *, now: Instant) -> Conditions:
    old = condition_of(conditions, WAITING)
    if old is not None and (old.reason, old.message) == (code, message):
        return conditions
    kept = old.last_update_time if old is not None and old.reason == code else None
    return _write_condition(conditions, WAITING, reason=code, message=message, updated_at=kept, now=now)


def _set_terminating(conditions: Conditions, pods: Sequence[PodView], *, now: Instant) -> Conditions:
    """Report the terminating pods that must end before their successors are created. If there are none, remove the
    condition.
    """
    if not pods:
        return drop_conditions(conditions, TERMINATING_PODS)
    names = sorted(pod.name for pod in pods)
    count = format_count(len(names), "pod terminates and has", "pods terminate and have")
    message = f"{count} not ended: {format_first(names, MOST_NAMES)}"
    old = condition_of(conditions, TERMINATING_PODS)
    if old is not None and old.message == message:
        return conditions
    return _write_condition(conditions, TERMINATING_PODS, reason=Code.TERMINATING, message=message, now=now)


def _set_progressing(
    conditions: Conditions,
    status: CloneSetStatus,
    stored: CloneSetStatus,
    spec: CloneSetSpec,
    *,
    now: Instant,
) -> Conditions:
    deadline_s = spec.progress_deadline_seconds
    if deadline_s is None or deadline_s == NO_DEADLINE:
        return drop_conditions(conditions, PROGRESSING)
    old = condition_of(stored.conditions, PROGRESSING)
    if status.replicas == status.updated_replicas == status.updated_available_replicas == spec.replicas:
        return _set_progressing_true(conditions, AVAILABLE, "CloneSet is available", now=now)
    if spec.is_paused:
        return _set_progressing_true(conditions, PAUSED, "CloneSet is paused", now=now)
    expected = status.expected_updated_replicas
    if expected < spec.replicas and expected <= status.updated_available_replicas:
        message = "CloneSet has been paused due to partition ready"
        return _set_progressing_true(conditions, PARTITION_AVAILABLE, message, now=now)
    is_exceeded = old is not None and old.reason == DEADLINE_EXCEEDED
    if is_exceeded and status.update_revision == stored.update_revision:
        return conditions  # later progress does not change it: pipelines wait for completion or failure
    if _has_progressed(status, stored, old):
        # The deadline starts again now.
        return _write_condition(
            conditions, PROGRESSING, reason=UPDATED, message="CloneSet is progressing", now=now
        )
    due = find_deadline(old, deadline_s)
    if due is not None and due < now:
        return set_condition(
            conditions,
            PROGRESSING,
            status="False",
            reason=DEADLINE_EXCEEDED,
            message=f"CloneSet revision {status.update_revision} has timed out progressing",
            now=now,
        )
    return conditions


def _set_progressing_true(conditions: Conditions, reason: str, message: str, *, now: Instant) -> Conditions:
    return set_condition(conditions, PROGRESSING, status="True", reason=reason, message=message, now=now)


def _has_progressed(status: CloneSetStatus, stored: CloneSetStatus, old: CloneSetCondition | None) -> bool:
    """Whether the revision or a count shows progress since the stored status, or no deadline has started yet."""
    if old is None or old.reason not in (UPDATED, DEADLINE_EXCEEDED):
        return True
    return (
        status.update_revision != stored.update_revision
        or status.updated_replicas != stored.updated_replicas
        or status.ready_replicas > stored.ready_replicas
        or status.available_replicas > stored.available_replicas
    )


def find_progress_overdue(status: CloneSetStatus, spec: CloneSetSpec) -> Instant | None:
    """Return the time at which the status must report that progress is overdue: one second after the deadline."""
    due = find_deadline(condition_of(status.conditions, PROGRESSING), spec.progress_deadline_seconds)
    return None if due is None else due + 1.0


def find_deadline(condition: CloneSetCondition | None, deadline_s: int | None) -> Instant | None:
    """Return the deadline for progress; None if no deadline is running. Without a deadline in the spec there is no
    condition.
    """
    if condition is None or condition.reason != UPDATED or not condition.last_update_time:
        return None
    if deadline_s is None:
        return None
    return parse_time(condition.last_update_time) + deadline_s


def resize_refused_since(ws: CloneSetWorkingSet) -> Instant | None:
    """Return since when the condition reports that the API server rejects a resize; None if it does not report this."""
    return read_refused_since(ws.snapshot.cloneset.status.conditions, FAILED_UPDATE)


def is_write_refused(ws: CloneSetWorkingSet) -> bool:
    """Whether a condition reports that the API server rejected a write of an earlier plan."""
    return any(
        condition.type in (FAILED_SCALE, FAILED_UPDATE)
        and (condition.status, condition.reason in NOT_WRITTEN) == ("True", True)
        for condition in ws.snapshot.cloneset.status.conditions or ()
    )
