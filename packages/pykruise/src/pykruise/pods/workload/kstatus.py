"""How far a workload is, for the conditions Ready, Reconciling and Stalled (runtime/kstatus.py).

its status + what it waits for ──▶ standing_of(), job_standing_of() ──▶ Standing

Pure. An object is ready when it is as its spec wants it now. One that is paused, or has got as far as its partition
says, is ready, as a built-in StatefulSet is. It is stalled when time alone does not help: a spec that cannot be carried
out, pods that cannot be updated as the strategy wants, a deadline that has passed. An image that cannot be pulled does
not stall it: images come, and progressDeadlineSeconds says how long to wait for them.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.pods.reasons import AT_REST, DEADLINE_EXCEEDED, NOT_WRITTEN, Code
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import Standing
from pykruise.runtime.reasons import Reason

CONVERGED: Final = "Converged"
"""Reason of Ready when nothing is waited for."""

STALLING: Final = frozenset(
    {
        *(Code.REFUSED, Code.INVALID_SPEC, Code.SELECTING_ALL, Code.SELECTOR_CHANGED, Code.CONFLICT),
        *(Code.LIMIT_IS_ZERO, Code.NAME_TOO_LONG, Code.JOB_FAILED),
        *(Code.INJECTION_FAILS, Code.PATCH, Code.BROKEN_UPDATE, Code.BROKEN_UPDATE_STATE),
        *(Code.NOT_IN_PLACE, Code.CANNOT_UPDATE, Code.CLAIM_CANNOT_FOLLOW, Code.RESIZE_INFEASIBLE),
    }
)
"""Codes that only a person can resolve; all others may pass."""


def job_standing_of(status: Document, waiting: Reason | None) -> Standing:
    """Standing of an object whose work ends (`status.completionTime`): after its end nothing changes it any more.

    A job that has succeeded is ready, and a failed one is stalled, as kstatus reads a built-in Job.
    """
    if not status.get("completionTime"):
        return standing_of(status, waiting)
    if str(status.get("phase")).lower() != "failed":
        return Standing(is_ready=True, reason=Code.JOB_OVER)
    failures = [condition for condition in status.get("conditions") or () if _is_job_failure(condition)]
    message = str(failures[-1].get("message") or "") if failures else ""
    return Standing(is_ready=False, is_stalled=True, reason=Code.JOB_FAILED, message=message)


def _is_job_failure(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True" and str(condition.get("type") or "").endswith("Failed")


def standing_of(status: Document, waiting: Reason | None) -> Standing:
    """`waiting`: what the object waits for; None: it has converged."""
    if waiting is None:
        return Standing(is_ready=True, reason=CONVERGED)
    message = waiting.condition_message
    if waiting.code in AT_REST:
        return Standing(is_ready=True, is_held=True, reason=waiting.code, message=message)
    if waiting.code in STALLING:
        return Standing(is_ready=False, is_stalled=True, reason=waiting.code, message=message)
    overdue = next(
        (condition for condition in status.get("conditions") or () if _is_overdue(condition)), None
    )
    if overdue is not None:
        said = f"{overdue.get('message', '')}; {message}"
        return Standing(is_ready=False, is_stalled=True, reason=DEADLINE_EXCEEDED, message=said)
    failed = (
        next((condition for condition in status.get("conditions") or () if _is_failure(condition)), None)
        if waiting.is_wait
        else None
    )
    if failed is not None:
        reason = failed.get("reason") or str(failed.get("type") or "")
        return Standing(is_ready=False, reason=reason, message=failed.get("message", ""))
    return Standing(is_ready=False, reason=waiting.code, message=message)


def _is_overdue(condition: Mapping[str, Any]) -> bool:
    return (
        condition.get("type") == "Progressing"
        and condition.get("status") == "False"
        and condition.get("reason") == DEADLINE_EXCEEDED
    )


def _is_failure(condition: Mapping[str, Any]) -> bool:
    """A write that failed, and has not succeeded since: nearer to the cause than what its object waits for."""
    kind = str(condition.get("type") or "")
    is_not_written = kind == WAITING and condition.get("reason") in NOT_WRITTEN
    return condition.get("status") == "True" and (kind.startswith("Failed") or is_not_written)
