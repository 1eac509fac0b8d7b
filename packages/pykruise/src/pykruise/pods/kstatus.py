"""Ready, Reconciling and Stalled: what Flux, Helm and `kubectl wait` read of any object (kstatus' rules).

stored status ──▶ without_kstatus() ──▶ what a kind's view keeps, and the three conditions apart from it
status + what it waits for ──▶ with_kstatus() ──▶ the status with the three conditions

Pure. A kind knows nothing of them: they are taken off what it reads, and put onto what it reports. Ready is always
there. Of Reconciling and Stalled, which are there only while they are True, it is one exactly while Ready is False.

An object is ready when it is as its spec wants it now. One that is paused, or has got as far as its partition says, is
ready, as a built-in StatefulSet is. It is stalled when time alone does not help: a spec that cannot be carried out,
pods that cannot be updated as the strategy wants, a deadline that has passed. An image that cannot be pulled does not
stall it: images come, and progressDeadlineSeconds says how long to wait for them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.reasons import AT_REST, NOT_WRITTEN, Code, Reason
from pykruise.pods.waiting import WAITING

__all__ = [
    "KSTATUS",
    "READY",
    "RECONCILING",
    "STALLED",
    "STALLING",
    "Conditions",
    "with_kstatus",
    "without_kstatus",
]

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
KSTATUS: Final = (READY, RECONCILING, STALLED)
"""Types of the conditions."""

CONVERGED: Final = "Converged"
"""Reason of Ready when nothing is waited for."""

DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"

STALLING: Final = frozenset(
    {
        *(Code.REFUSED, Code.INVALID_SPEC, Code.SELECTING_ALL, Code.SELECTOR_CHANGED, Code.CONFLICT),
        *(Code.INJECTION_FAILS, Code.PATCH, Code.BROKEN_UPDATE, Code.BROKEN_UPDATE_STATE),
        *(Code.NOT_IN_PLACE, Code.CANNOT_UPDATE, Code.CLAIM_CANNOT_FOLLOW, Code.RESIZE_INFEASIBLE),
    }
)
"""What only a person can change; everything else may pass."""

Conditions = Sequence[Mapping[str, Any]]


class _Verdict(msgspec.Struct, frozen=True):
    is_ready: bool
    is_stalled: bool
    reason: str
    message: str


def without_kstatus(status: Document) -> tuple[Document, Conditions]:
    """A stored status without the three conditions, and these."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status, ()
    own = [one for one in conditions if _is_own(one)]
    if not own:
        return status, ()
    others = [one for one in conditions if not _is_own(one)]
    kept = {name: value for name, value in status.items() if name != "conditions"}
    return {**kept, "conditions": others} if others else kept, own


def _is_own(condition: Any) -> bool:
    return isinstance(condition, Mapping) and condition.get("type") in KSTATUS


def with_kstatus(status: Document, stored: Conditions, *, waiting: Reason | None, now: Instant) -> Document:
    """The status of a kind with the three conditions at the end of its own. `stored`: as they are stored; a condition
    whose status stays keeps its time. `waiting`: what the object waits for; None: it has converged."""
    plain, _ = without_kstatus(status)
    others = plain.get("conditions") or ()
    verdict = _judged(others, waiting)
    wanted = [(READY, verdict.is_ready)]
    if not verdict.is_ready:
        wanted.append((STALLED if verdict.is_stalled else RECONCILING, True))
    since = {one.get("type"): one for one in stored}
    own: list[Mapping[str, Any]] = []
    for kind, is_true in wanted:
        old, said = since.get(kind), "True" if is_true else "False"
        kept = old.get("lastTransitionTime") if old is not None and old.get("status") == said else None
        own.append(
            {
                "type": kind,
                "status": said,
                "reason": verdict.reason,
                "message": verdict.message,
                "lastTransitionTime": kept or format_time(now),
            }
        )
    return {**plain, "conditions": [*others, *own]}


def _judged(conditions: Conditions, waiting: Reason | None) -> _Verdict:
    if waiting is None:
        return _Verdict(True, False, CONVERGED, "")
    message = waiting.condition_message
    if waiting.code in AT_REST:
        return _Verdict(True, False, waiting.code, message)
    if waiting.code in STALLING:
        return _Verdict(False, True, waiting.code, message)
    overdue = _first(conditions, _is_overdue)
    if overdue is not None:
        return _Verdict(False, True, DEADLINE_EXCEEDED, f"{overdue.get('message', '')}; {message}")
    failed = _first(conditions, _is_failure) if waiting.is_wait else None
    if failed is not None:
        return _Verdict(False, False, failed.get("reason") or failed["type"], failed.get("message", ""))
    return _Verdict(False, False, waiting.code, message)


def _first(conditions: Conditions, wanted: Any) -> Mapping[str, Any] | None:
    return next((one for one in conditions if wanted(one)), None)


def _is_overdue(condition: Mapping[str, Any]) -> bool:
    return (
        condition["type"] == "Progressing"
        and condition["status"] == "False"
        and condition.get("reason") == DEADLINE_EXCEEDED
    )


def _is_failure(condition: Mapping[str, Any]) -> bool:
    """A write that failed, and has not succeeded since: nearer to the cause than what its object waits for."""
    kind: str = condition["type"]
    is_written = kind != WAITING or condition.get("reason") not in NOT_WRITTEN
    return condition["status"] == "True" and (kind.startswith("Failed") or not is_written)
