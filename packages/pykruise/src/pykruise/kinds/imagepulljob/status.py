"""The status of an ImagePullJob: counts, the failed nodes, and a message.

ImagePullJobSnapshot + FanOutDecision ──▶ compute_status(), finish_status() ──▶ ImagePullJobStatus

Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSnapshot
from pykruise.kube.clock import format_time
from pykruise.pods.images.api import ImagePullJobStatus
from pykruise.pods.jobs.fan_out import FanOutCounts, FanOutDecision, FanOutTarget, Finish, TargetState

COMPLETED: Final = "job has completed"
EXCEEDED: Final = "job exceeds activeDeadlineSeconds"


def compute_status(
    snapshot: ImagePullJobSnapshot, targets: Iterable[FanOutTarget], counts: FanOutCounts
) -> ImagePullJobStatus:
    """Return the status for the current state of the nodes, before this plan's writes."""
    return ImagePullJobStatus(
        start_time=snapshot.job.status.start_time or format_time(snapshot.now),
        desired=counts.wanted,
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
        failed_nodes=sorted(target.name for target in targets if target.state is TargetState.FAILED),
        message=_format_progress(counts),
    )


def _format_progress(counts: FanOutCounts) -> str:
    if counts.wanted == 0:
        return "job is running, no progress"
    return f"job is running, progress {100 * (counts.succeeded + counts.failed) / counts.wanted:.1f}%"


def finish_status(
    snapshot: ImagePullJobSnapshot, targets: Sequence[FanOutTarget], decision: FanOutDecision, finish: Finish
) -> ImagePullJobStatus:
    """Return the status at the end of the job. After the deadline, every node that has not succeeded counts as
    failed.
    """
    status = compute_status(snapshot, targets, decision.counts)
    over = msgspec.structs.replace(status, completion_time=format_time(snapshot.now), message=COMPLETED)
    if finish is Finish.COMPLETE:
        return over
    failed = sorted(target.name for target in targets if target.state is not TargetState.SUCCEEDED)
    return msgspec.structs.replace(over, active=0, failed=len(failed), failed_nodes=failed, message=EXCEEDED)
