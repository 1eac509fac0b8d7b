"""The status of an ImagePullJob: counts, the nodes where it failed, and a sentence.

Snapshot + Decision ──▶ status_now(), finished() ──▶ ImagePullJobStatus

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


def status_now(
    snapshot: ImagePullJobSnapshot, targets: Iterable[FanOutTarget], counts: FanOutCounts
) -> ImagePullJobStatus:
    """Current status, before anything is written."""
    return ImagePullJobStatus(
        start_time=snapshot.job.status.start_time or format_time(snapshot.now),
        desired=counts.wanted,
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
        failed_nodes=sorted(target.name for target in targets if target.state is TargetState.FAILED),
        message=_progress(counts),
    )


def _progress(counts: FanOutCounts) -> str:
    if counts.wanted == 0:
        return "job is running, no progress"
    return f"job is running, progress {100 * (counts.succeeded + counts.failed) / counts.wanted:.1f}%"


def finished(
    snapshot: ImagePullJobSnapshot, targets: Sequence[FanOutTarget], decision: FanOutDecision, finish: Finish
) -> ImagePullJobStatus:
    """The last status. After the deadline every node that has not succeeded has failed, each once."""
    status = status_now(snapshot, targets, decision.counts)
    over = msgspec.structs.replace(status, completion_time=format_time(snapshot.now), message=COMPLETED)
    if finish is Finish.COMPLETE:
        return over
    failed = sorted(target.name for target in targets if target.state is not TargetState.SUCCEEDED)
    return msgspec.structs.replace(over, active=0, failed=len(failed), failed_nodes=failed, message=EXCEEDED)
