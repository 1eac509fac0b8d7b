"""Regular expressions of users: RE2, the language of the original, in time that grows with the text alone.

text of a pattern ──▶ compile_pattern() ──▶ Pattern ──▶ .search(text)

Python's own engine goes back and tries again: with `^(\\w+-?)+$` each further letter of a name doubles its work. RE2
never goes back. It has no look-around and no references to groups, and neither has the original.

The engine is loaded with the first pattern, so that a process that meets none does without its memory.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from pykruise.kube.cache.remembering import remember
from pykruise.kube.values.go_text import excerpt

__all__ = ["Match", "Pattern", "PatternError", "compile_pattern"]

_MOST_MEMORY: Final = 4 * 1024 * 1024
"""Bytes that one pattern may take."""

_MOST_KEPT: Final = 16


class PatternError(ValueError):
    """The text is no pattern; the message says why."""


class Match(Protocol):
    """A place in a text where a pattern matches."""

    def __getitem__(self, group: int) -> str:
        """The text of a group; 0 is all of it."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> Match | None:
        """The first place where it matches."""

    def finditer(self, text: str) -> Iterator[Match]:
        """All places, none over another."""


@remember(entries=_MOST_KEPT, longest=1_024)
def compile_pattern(text: str) -> Pattern:
    """The pattern of a text. Raises PatternError, also for one that takes more than 4 MiB compiled."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise PatternError(excerpt(_message(error))) from error
    return pattern


def _message(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
