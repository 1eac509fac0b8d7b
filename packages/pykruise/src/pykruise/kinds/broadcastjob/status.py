"""The status of a BroadcastJob: the counts, the phase, and the condition at the end of the job.

BroadcastJobSnapshot + FanOutDecision ──▶ compute_status() ──▶ BroadcastJobStatus        + Finish ──▶ finish_status()

Pure.
"""

from typing import Final

import msgspec

from pykruise.kinds.broadcastjob.snapshot import ReadableBroadcastJob
from pykruise.kinds.broadcastjob.types import BroadcastJobStatus
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.kube.schemas.types import JobCondition
from pykruise.pods.jobs.fan_out import FanOutCounts, FanOutDecision, Finish

RUNNING: Final = "running"
PAUSED: Final = "paused"
COMPLETED: Final = "completed"
FAILED: Final = "failed"

_MESSAGES: Final = {
    Finish.COMPLETE: ("Complete", "Job completed, {succeeded} pods succeeded, {failed} pods failed"),
    Finish.FAILED_TARGET: ("Failed", "Job failed: failed pod is found"),
    Finish.DEADLINE: ("Failed", "Job failed: it was active longer than its deadline"),
}
"""End of a job → type and message of the condition."""

_ALWAYS: Final = ("active", "desired", "failed", "succeeded")


def compute_status(snapshot: ReadableBroadcastJob, counts: FanOutCounts, *, phase: str) -> BroadcastJobStatus:
    """Return the status for the current pods, before this plan's writes."""
    return msgspec.structs.replace(
        snapshot.job.status,
        start_time=snapshot.job.status.start_time or format_time(snapshot.now),
        desired=counts.wanted,
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
        phase=phase,
    )


def finish_status(
    snapshot: ReadableBroadcastJob, decision: FanOutDecision, finish: Finish, *, stopped: str = ""
) -> BroadcastJobStatus:
    """Return the status at the end of the job. Pods that are still active are deleted, so they count as failed.
    `stopped` describes these pods: after their deletion, only the status shows why they did not finish.
    """
    counts = decision.counts
    status = compute_status(snapshot, counts, phase=FAILED if finish.is_failure else COMPLETED)
    failed = counts.failed + counts.active
    now = format_time(snapshot.now)
    kind, message = _MESSAGES[finish]
    condition = JobCondition(
        type=kind,
        status="True",
        reason=kind,
        message=message.format(succeeded=counts.succeeded, failed=failed) + (stopped and f"; {stopped}"),
        last_probe_time=now,
        last_transition_time=now,
    )
    others = [condition for condition in status.conditions or () if condition.type != kind]
    return msgspec.structs.replace(
        status,
        active=0,
        failed=failed,
        completion_time=now,
        conditions=[*others, condition],
    )


def document_of(status: BroadcastJobStatus) -> Document:
    """Return the document to store. It always contains the counts, even if they are 0."""
    counts = {name: getattr(status, name) for name in _ALWAYS}
    return {**counts, **status.to_document()}
