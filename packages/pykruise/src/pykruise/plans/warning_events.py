"""Warning events for what a person has to do: the first time that a condition says so.

stored conditions + those of the plan ──▶ warning_notes() ──▶ a Warning for each reason that is new

Pure; serves every kind. Some look at conditions, others at events. What the spec itself holds back (a pause, a
partition, a hook) is worth no warning, and failed writes have their events with their steps.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.reasons import Code
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.plan import Note

WARNINGS: Final = frozenset(
    {
        *(Code.INVALID_SPEC, Code.CANNOT_UPDATE, Code.BROKEN_UPDATE_STATE),
        *(Code.UNSCHEDULABLE, Code.UNBOUND_CLAIMS, Code.IMAGE_PULL, Code.CONTAINER_FAILS),
        *(Code.RESIZE_INFEASIBLE, Code.RESIZE_DEFERRED),
    }
)
"""Reasons of conditions that are worth an event."""

AGAIN_AFTER_S: Final = 600.0


def warning_notes(
    stored: Sequence[PlainCondition] | None, wanted: Sequence[PlainCondition] | None
) -> tuple[Note, ...]:
    """`wanted` are the conditions that the plan would have. What waits is named by its first pod, and pods
    come and go: another message for the same reason is nothing new there."""
    known = {_identity(condition) for condition in stored or () if condition.status == "True"}
    return tuple(
        Note(
            reason=condition.reason,
            message=condition.message,
            warning=True,
            again_after_s=AGAIN_AFTER_S,
            same_as=condition.reason if condition.type == WAITING else "",
        )
        for condition in wanted or ()
        if condition.status == "True" and condition.reason in WARNINGS and _identity(condition) not in known
    )


def _identity(condition: PlainCondition) -> tuple[str, str, str]:
    return condition.type, condition.reason, "" if condition.type == WAITING else condition.message
