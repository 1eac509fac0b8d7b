"""Events of type Warning for problems that a person must correct. One is recorded when a condition first reports a
problem.

stored conditions + conditions of the plan ──▶ make_warning_notes() ──▶ a Warning for each new reason or message

Pure; used by every kind. Some users watch conditions, and other users watch events. Waits that the spec requests (a
pause, a partition, a hook) need no warning. Failed writes need none either, because their steps have events.
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
"""Reasons of conditions for which an event is recorded."""

AGAIN_AFTER_S: Final = 600.0


def make_warning_notes(
    stored: Sequence[PlainCondition] | None, wanted: Sequence[PlainCondition] | None
) -> tuple[Note, ...]:
    """Return a warning for each new reason or message. `wanted`: the conditions of the plan. The message of a wait
    names a pod, which changes often. So a wait with a new message and the same reason gives no further warning.
    """
    known = {_read_identity(condition) for condition in stored or () if condition.status == "True"}
    return tuple(
        Note(
            reason=condition.reason,
            message=condition.message,
            warning=True,
            again_after_s=AGAIN_AFTER_S,
            same_as=condition.reason if condition.type == WAITING else "",
        )
        for condition in wanted or ()
        if condition.status == "True"
        and condition.reason in WARNINGS
        and _read_identity(condition) not in known
    )


def _read_identity(condition: PlainCondition) -> tuple[str, str, str]:
    return condition.type, condition.reason, "" if condition.type == WAITING else condition.message
