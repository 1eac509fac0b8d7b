"""Ready, Reconciling and Stalled: the conditions that Flux, Helm and `kubectl wait` read of any object (kstatus).

stored status ──▶ split_kstatus() ──▶ the status that a kind's view keeps, and the three conditions separately
status + Standing ──▶ add_kstatus() ──▶ the status with the three conditions

Pure. The plan of a kind does not know these conditions: they are removed from the status that it reads and added to
the status that it reports. Ready always exists. Reconciling and Stalled exist only while they are True, and exactly
one of the two exists while Ready is False.
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
    "add_kstatus",
    "read_unready_since",
    "split_kstatus",
]

READY: Final = "Ready"
"""Type of the condition of an object that is as its spec requires."""
RECONCILING: Final = "Reconciling"
"""Type of the condition of an object that the controller still changes."""
STALLED: Final = "Stalled"
"""Type of the condition of an object that cannot make progress."""
KSTATUS: Final = (READY, RECONCILING, STALLED)
"""Types of the three conditions."""

Conditions = Sequence[Mapping[str, Any]]
"""Conditions of a status, as documents."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an object, as the three conditions report it."""

    is_ready: bool
    is_stalled: bool = False
    """Whether the object cannot continue without help; never true while it is ready."""
    is_held: bool = False
    """Whether the object is ready only as far as its spec allows now: a pause or a partition, for example, holds back
    other pods.
    """
    reason: str
    """Reason in one word, in CamelCase."""
    message: str = ""


def split_kstatus(status: Document) -> tuple[Document, Conditions]:
    """Split a stored status into the status without the three conditions, and these conditions."""
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


def add_kstatus(
    status: Document,
    stored: Conditions,
    *,
    standing: Standing,
    now: Instant,
    is_generation_said: bool = False,
) -> Document:
    """Return a kind's status with the three conditions after its own. `stored`: the stored three conditions; a
    condition whose status does not change keeps its time. `is_generation_said`: each condition has the status'
    observedGeneration.
    """
    generation = status.get("observedGeneration") if is_generation_said else None
    about = {} if generation is None else {"observedGeneration": generation}
    plain, _ = split_kstatus(status)
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


def read_unready_since(stored: Conditions) -> Instant | None:
    """Time since which an object has not been ready, from its stored conditions; None: it is ready, or has no such
    condition.
    """
    for entry in stored:
        if entry.get("type") == READY and entry.get("status") == "False":
            try:
                return parse_time(entry.get("lastTransitionTime") or "")
            except ValueError:
                return None
    return None
