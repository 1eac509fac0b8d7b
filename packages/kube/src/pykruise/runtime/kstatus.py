"""Ready, Reconciling and Stalled: what Flux, Helm and `kubectl wait` read of any object (kstatus' rules).

stored status ──▶ without_kstatus() ──▶ what a kind's view keeps, and the three conditions apart from it
status + Standing ──▶ with_kstatus() ──▶ the status with the three conditions

Pure. A kind's plan knows nothing of them: they are taken off what it reads, and put onto what it reports. Ready is
always there. Of Reconciling and Stalled, which are there only while they are True, it is one exactly while Ready is
False.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document

__all__ = [
    "KSTATUS",
    "READY",
    "RECONCILING",
    "STALLED",
    "Conditions",
    "Standing",
    "unready_since",
    "with_kstatus",
    "without_kstatus",
]

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
KSTATUS: Final = (READY, RECONCILING, STALLED)
"""Types of the conditions."""

Conditions = Sequence[Mapping[str, Any]]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far an object is, as the three conditions say it."""

    is_ready: bool
    is_stalled: bool = False
    """Time alone does not help; only where it is not ready."""
    is_held: bool = False
    """Ready as far as it was asked for: something keeps the rest back, such as a pause."""
    reason: str
    """One word in CamelCase."""
    message: str = ""


def without_kstatus(status: Document) -> tuple[Document, Conditions]:
    """A stored status without the three conditions, and these."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status, ()
    own = [condition for condition in conditions if _is_own(condition)]
    if not own:
        return status, ()
    others = [condition for condition in conditions if not _is_own(condition)]
    kept = {name: value for name, value in status.items() if name != "conditions"}
    return {**kept, "conditions": others} if others else kept, own


def _is_own(condition: Any) -> bool:
    return isinstance(condition, Mapping) and condition.get("type") in KSTATUS


def with_kstatus(
    status: Document,
    stored: Conditions,
    *,
    standing: Standing,
    now: Instant,
    is_generation_said: bool = False,
) -> Document:
    """The status of a kind with the three conditions at the end of its own. `stored`: as they are stored; a condition
    whose status stays keeps its time. `is_generation_said`: each says the generation that the status is about."""
    generation = status.get("observedGeneration") if is_generation_said else None
    about = {} if generation is None else {"observedGeneration": generation}
    plain, _ = without_kstatus(status)
    wanted = [(READY, standing.is_ready)]
    if not standing.is_ready:
        wanted.append((STALLED if standing.is_stalled else RECONCILING, True))
    since = {entry.get("type"): entry for entry in stored}
    own: list[Mapping[str, Any]] = []
    for kind, is_true in wanted:
        old, said = since.get(kind), "True" if is_true else "False"
        kept = old.get("lastTransitionTime") if old is not None and old.get("status") == said else None
        own.append(
            {
                "type": kind,
                "status": said,
                "reason": standing.reason,
                "message": standing.message,
                "lastTransitionTime": kept or format_time(now),
                **about,
            }
        )
    return {**plain, "conditions": [*(plain.get("conditions") or ()), *own]}


def unready_since(stored: Conditions) -> Instant | None:
    """Since when an object has not been ready, as its stored conditions say; None: it is, or they say nothing."""
    for entry in stored:
        if entry.get("type") == READY and entry.get("status") == "False":
            try:
                return parse_time(entry.get("lastTransitionTime") or "")
            except ValueError:
                return None
    return None
