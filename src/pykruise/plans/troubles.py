"""Events for what somebody has to do something about: the first time that a condition says so.

stored conditions + those of the plan ──▶ trouble_notes() ──▶ a Warning for each trouble that is new

Pure; serves every kind. A condition is found by who looks for it, an event by who looks at what happened. What the
spec itself holds back (a pause, a partition, a hook) is no trouble, and failed writes are told by their steps.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from pykruise.plans.plan import Note
from pykruise.pods.waiting import WAITING

__all__ = ["TROUBLES", "trouble_notes"]

TROUBLES: Final = frozenset(
    {
        *("InvalidSpec", "CannotUpdate", "BrokenUpdateState"),
        *("Unschedulable", "UnboundClaims", "ImagePull", "ContainerFails"),
        *("ResizeInfeasible", "ResizeDeferred"),
    }
)
"""Reasons of conditions that are told."""

AGAIN_AFTER_S: Final = 600.0


class Condition(Protocol):
    """What conditions of all kinds have."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def trouble_notes(stored: Sequence[Condition] | None, wanted: Sequence[Condition] | None) -> tuple[Note, ...]:
    """`wanted` are the conditions that the plan would have. What waits is named by its first pod, and pods
    come and go: another message for the same reason is nothing new there."""
    told = {_identity(one) for one in stored or () if one.status == "True"}
    return tuple(
        Note(
            reason=one.reason,
            message=one.message,
            warning=True,
            again_after_s=AGAIN_AFTER_S,
            same_as=one.reason if one.type == WAITING else "",
        )
        for one in wanted or ()
        if one.status == "True" and one.reason in TROUBLES and _identity(one) not in told
    )


def _identity(one: Condition) -> tuple[str, str, str]:
    return one.type, one.reason, "" if one.type == WAITING else one.message
