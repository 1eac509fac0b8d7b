"""Findings of checks."""

from enum import StrEnum

import msgspec


class FindingLevel(StrEnum):
    """Severity of a finding. Only faults cause the exit code 1."""

    OK = "ok"
    UNKNOWN = "unknown"
    """The check could not be run."""
    WARNING = "warning"
    """The checked part works, but perhaps not as expected."""
    FAULT = "fault"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the report."""

    check: str
    level: FindingLevel
    what: str
    fix: str = ""

    def format_line(self) -> str:
        """Return the line of the report: `fault    webhooks: what — fix: how`."""
        how = f" — fix: {self.fix}" if self.fix else ""
        return f"{self.level.value:<8} {self.check}: {self.what}{how}"


def make_fine(check: str, what: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check=check, level=FindingLevel.OK, what=what)


def make_unknown(check: str, what: str, fix: str = "") -> Finding:
    """Return a finding of a check that could not be run."""
    return Finding(check=check, level=FindingLevel.UNKNOWN, what=what, fix=fix)


def make_warning(check: str, what: str, fix: str) -> Finding:
    """Return a finding that the user should know."""
    return Finding(check=check, level=FindingLevel.WARNING, what=what, fix=fix)


def make_fault(check: str, what: str, fix: str) -> Finding:
    """Return a finding that the user must correct."""
    return Finding(check=check, level=FindingLevel.FAULT, what=what, fix=fix)
