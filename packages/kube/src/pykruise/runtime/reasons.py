"""Reason: why something is not (yet) in its requested state. A stable code, a sentence, and the action that a person
can take.

plans, failed writes ──▶ Reason(code, message, remedy) ──▶ status, conditions, events, commands

Pure. Programs use codes and people read sentences, so a new wording changes nothing else. An operator has its own
codes; `WriteFault` has the codes of writes that the API server rejects.
"""

from enum import StrEnum
from typing import Final

import msgspec

__all__ = ["NOTHING", "Reason", "WriteFault"]

NOTHING: Final = "no action is needed"


class WriteFault(StrEnum):
    """Cause of a failed write."""

    QUOTA = "Quota"
    WEBHOOK = "Webhook"
    POLICY = "Policy"
    FORBIDDEN = "Forbidden"
    NAME_TOO_LONG = "NameTooLong"
    WRITE_FAILED = "WriteFailed"
    RESIZE_REFUSED = "ResizeRefused"
    """The API server or an admission plugin rejects the resize of a running pod."""
    DISRUPTION_REFUSED = "DisruptionRefused"
    """A disruption budget does not allow a pod to be taken out of service."""
    CHURNING = "Churning"
    """The writes undo each other and are held back (churn.py)."""


class Reason(msgspec.Struct, frozen=True):
    """The reason why something is not (yet) in its requested state."""

    code: str
    """Code in one word, in CamelCase; usually a member of an operator's StrEnum."""
    message: str
    """Sentence for people; programs do not read it."""
    remedy: str = ""
    """Action that a person must take; empty: none is needed, or the user requested the wait."""
    container: str = ""
    """The container that the reason is about; empty: the reason is not about a container."""

    @property
    def is_wait(self) -> bool:
        """Whether the obstacle ends without the action of a person."""
        return not self.remedy

    @property
    def full_message(self) -> str:
        """The message and the remedy, if there is one."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    @property
    def condition_message(self) -> str:
        """Message of a condition: with the remedy, or with a statement that no action is needed."""
        return f"{self.message}; {self.remedy or NOTHING}"
