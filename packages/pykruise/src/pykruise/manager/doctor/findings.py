"""Findings of checks."""

from enum import StrEnum

import msgspec


class FindingLevel(StrEnum):
    """How bad it is. Only faults make the exit code 1."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be looked at."""
    WARNING = "warning"
    """It works, but not as one may think."""
    FAULT = "fault"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    check: str
    level: FindingLevel
    what: str
    fix: str = ""

    def line(self) -> str:
        """`fault    webhooks: what — fix: how`."""
        how = f" — fix: {self.fix}" if self.fix else ""
        return f"{self.level.value:<8} {self.check}: {self.what}{how}"


def fine(check: str, what: str) -> Finding:
    """Nothing to do."""
    return Finding(check=check, level=FindingLevel.OK, what=what)


def unknown(check: str, what: str, fix: str = "") -> Finding:
    """It could not be looked at."""
    return Finding(check=check, level=FindingLevel.UNKNOWN, what=what, fix=fix)


def warning(check: str, what: str, fix: str) -> Finding:
    """Something to know."""
    return Finding(check=check, level=FindingLevel.WARNING, what=what, fix=fix)


def fault(check: str, what: str, fix: str) -> Finding:
    """Something to put right."""
    return Finding(check=check, level=FindingLevel.FAULT, what=what, fix=fix)
