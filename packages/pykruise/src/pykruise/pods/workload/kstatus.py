"""Progress of a workload, for the conditions Ready, Reconciling and Stalled (runtime/kstatus.py).

its status + the reason for which it waits ──▶ standing_of(), job_standing_of() ──▶ Standing

Pure. An object is ready when it matches what its spec wants now. A paused object, or one that has reached its
partition, is ready, like a built-in StatefulSet. An object is stalled when time alone does not help (an impossible
spec, pods that cannot be updated with the strategy), and when its deadline has passed. An image that cannot be pulled
does not stall the object: the image may appear later, and progressDeadlineSeconds limits the wait.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.pods.reasons import AT_REST, DEADLINE_EXCEEDED, NOT_WRITTEN, Code
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import Standing
from pykruise.runtime.reasons import Reason

CONVERGED: Final = "Converged"
"""Reason of Ready when the object waits for nothing."""

STALLING: Final = frozenset(
    {
        *(Code.REFUSED, Code.INVALID_SPEC, Code.SELECTING_ALL, Code.SELECTOR_CHANGED, Code.CONFLICT),
        *(Code.LIMIT_IS_ZERO, Code.NAME_TOO_LONG, Code.JOB_FAILED),
        *(Code.INJECTION_FAILS, Code.PATCH, Code.BROKEN_UPDATE, Code.BROKEN_UPDATE_STATE),
        *(Code.NOT_IN_PLACE, Code.CANNOT_UPDATE, Code.CLAIM_CANNOT_FOLLOW, Code.RESIZE_INFEASIBLE),
    }
)
"""Codes that only a person can resolve; all other obstacles may disappear."""


def job_standing_of(status: Document, waiting: Reason | None) -> Standing:
    """Standing of an object whose work ends (`status.completionTime`): after its end, the object does not change.

    A succeeded job is ready. A failed job is stalled, as kstatus reports a failed built-in Job. A job that completed
    although pods failed is also stalled; for a built-in Job, kstatus reports Current in this case.
    """
    if not status.get("completionTime"):
        return standing_of(status, waiting)
    has_failed = str(status.get("phase")).lower() == "failed"
    if not has_failed and not status.get("failed"):
        return Standing(is_ready=True, reason=Code.JOB_OVER)
    kind = "Failed" if has_failed else "Complete"
    ends = [condition for condition in status.get("conditions") or () if _is_end(condition, kind)]
    message = str(ends[-1].get("message") or "") if ends else ""
    return Standing(is_ready=False, is_stalled=True, reason=Code.JOB_FAILED, message=message)


def _is_end(condition: Mapping[str, Any], kind: str) -> bool:
    return condition.get("status") == "True" and str(condition.get("type") or "").endswith(kind)


def standing_of(status: Document, waiting: Reason | None) -> Standing:
    """Standing of an object. `waiting`: reason for which it waits; None if the object has converged."""
    if waiting is None:
        return Standing(is_ready=True, reason=CONVERGED)
    message = waiting.condition_message
    if waiting.code in AT_REST:
        return Standing(is_ready=True, is_held=True, reason=waiting.code, message=message)
    if waiting.code in STALLING:
        return Standing(is_ready=False, is_stalled=True, reason=waiting.code, message=message)
    overdue = find_overdue(status, waiting)
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


def find_overdue(status: Mapping[str, Any], waiting: Reason | None) -> Mapping[str, Any] | None:
    """Return the condition that reports that progressDeadlineSeconds have passed. None if there is none, or if the
    object waits because its spec requests it: with OnDelete, pods of an older template wait for a person.
    """
    if waiting is not None and waiting.code in AT_REST:
        return None
    return next((condition for condition in status.get("conditions") or () if _is_overdue(condition)), None)


def _is_overdue(condition: Mapping[str, Any]) -> bool:
    return (
        condition.get("type") == "Progressing"
        and condition.get("status") == "False"
        and condition.get("reason") == DEADLINE_EXCEEDED
    )


def _is_failure(condition: Mapping[str, Any]) -> bool:
    """Whether the condition reports a failed write that has not succeeded since. Its message is closer to the cause
    than the reason for which the object waits.
    """
    kind = str(condition.get("type") or "")
    is_not_written = kind == WAITING and condition.get("reason") in NOT_WRITTEN
    return condition.get("status") == "True" and (kind.startswith("Failed") or is_not_written)
