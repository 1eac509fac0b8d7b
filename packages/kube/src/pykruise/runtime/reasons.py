"""Why something is not (yet) as it was asked for, as a value: a stable code, a sentence, what a person can do.

plans, failed writes ──▶ Reason(code, message, remedy) ──▶ status, conditions, events, commands

Pure. Programs go by codes, people read sentences: rewording a sentence changes nothing else. An operator has codes of
its own; those of writes that the API server refuses are `WriteFault`.
"""

from enum import StrEnum
from typing import Final

import msgspec

__all__ = ["NOTHING", "Reason", "WriteFault"]

NOTHING: Final = "nothing has to be done"


class WriteFault(StrEnum):
    """Obstacle of a write."""

    QUOTA = "Quota"
    WEBHOOK = "Webhook"
    POLICY = "Policy"
    FORBIDDEN = "Forbidden"
    NAME_TOO_LONG = "NameTooLong"
    WRITE_FAILED = "WriteFailed"
    RESIZE_REFUSED = "ResizeRefused"
    """The API server, or its admission, refuses to resize a running pod."""
    CHURNING = "Churning"
    """The writes undo each other, and are held back (churn.py)."""


class Reason(msgspec.Struct, frozen=True):
    """Why one thing is not (yet) as it was asked for."""

    code: str
    """One word in CamelCase, mostly a member of an operator's StrEnum."""
    message: str
    """For people; no program reads it."""
    remedy: str = ""
    """Action of a person that is needed; empty: the wait ends without one, or was requested."""
    container: str = ""
    """The container that it is about, where it is about one."""

    @property
    def is_wait(self) -> bool:
        """Whether it passes by itself."""
        return not self.remedy

    @property
    def full_message(self) -> str:
        """With what has to be done, if anything has."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    @property
    def condition_message(self) -> str:
        """For a condition: with what has to be done, or that nothing has."""
        return f"{self.message}; {self.remedy or NOTHING}"
