"""Status of an EphemeralJob.

job + counts of its pods (+ its end) ──▶ status_of() ──▶ EphemeralJobStatus

Pure. The times of a condition change only if its reason or message changes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pykruise.kinds.ephemeraljob.types import EphemeralJobStatus
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.schemas.types import JobCondition
from pykruise.kube.values.counts import format_count

_COUNTS: Final = ("match", "running", "succeeded", "waiting", "failed")
DEADLINE: Final = "DeadlineExceeded"


class EphemeralJobTally(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of pods, by the state of the job's containers in them."""

    match: int = 0
    running: int = 0
    succeeded: int = 0
    waiting: int = 0
    failed: int = 0


def status_of(
    known: EphemeralJobStatus,
    tally: EphemeralJobTally,
    *,
    now: Instant,
    is_paused: bool,
    is_over: bool,
    is_late: bool,
    has_containers: bool,
    unfinished: str = "",
    is_taken: bool = False,
) -> EphemeralJobStatus:
    """Compute the current status. `is_over`: the containers in all pods have finished. `is_late`: the deadline passed
    before they finished. While the job is paused, both are False. `unfinished`: what had not finished at the deadline.
    `is_taken`: all matching pods have a container with one of the job's names that another job or person added.
    """
    phase = _compute_phase(tally, is_over=is_over, is_late=is_late, has_containers=has_containers)
    said = [("Initialized", "Initialized", "the job is accepted")]
    if not has_containers:
        said.append(("JobError", "Error", "spec.template.ephemeralContainers is empty"))
    elif phase == "Succeeded":
        said.append(("JobSucceeded", "JobSucceeded", "containers succeeded in all pods"))
    elif is_late:
        said.append(
            (
                "JobFailed",
                DEADLINE,
                f"the job was active longer than its deadline{unfinished and f': {unfinished}'}",
            )
        )
    elif phase == "Failed":
        said.append(
            (
                "JobFailed",
                "JobFailed",
                f"containers failed in {tally.failed} of {format_count(tally.match, 'pod')}",
            )
        )
    elif tally.failed:
        said.append(
            ("JobFailed", "CreateFailed", f"containers failed in {format_count(tally.failed, 'pod')}")
        )
    if has_containers and not tally.match:
        message = (
            "every pod that the selector matches already has a container with the name of a container of the job"
            if is_taken
            else "no pod matches the selector"
        )
        said.append(("MatchedEmpty", "MatchEmpty", message))
    ends = phase in ("Succeeded", "Failed")
    return msgspec.structs.replace(
        known,
        phase="Paused" if is_paused and has_containers else phase,
        start_time=known.start_time or format_time(now),
        completion_time=format_time(now) if ends else known.completion_time,
        conditions=_replace_conditions(known.conditions or (), said, now),
        **{name: getattr(tally, name) for name in _COUNTS},
    )


def _compute_phase(tally: EphemeralJobTally, *, is_over: bool, is_late: bool, has_containers: bool) -> str:
    """Return the phase. This is OpenKruise's rule, but if containers failed in some pods, the job ends as failed."""
    if not has_containers:
        return "Error"
    if is_over:
        return "Failed" if tally.failed else "Succeeded"
    if is_late:
        return "Failed"
    if tally.running:
        return "Running"
    return "Waiting" if tally.waiting == tally.match else "Unknown"


def _replace_conditions(
    known: Sequence[JobCondition], said: Sequence[tuple[str, str, str]], now: Instant
) -> list[JobCondition]:
    """Return the previous and the new conditions. A new condition replaces the previous condition of its type."""
    conditions = {condition.type: condition for condition in known}
    for kind, reason, message in said:
        before = conditions.get(kind)
        if before is None or (before.reason, before.message) != (reason, message):
            conditions[kind] = JobCondition(
                type=kind,
                status="True",
                reason=reason,
                message=message,
                last_probe_time=format_time(now),
                last_transition_time=format_time(now),
            )
    return list(conditions.values())


def document_of(status: EphemeralJobStatus) -> Document:
    """Return the document to store. It always contains the counts, even if they are 0."""
    return {**{name: getattr(status, name) for name in _COUNTS}, **status.to_document()}
