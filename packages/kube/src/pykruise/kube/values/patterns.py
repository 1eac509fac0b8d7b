r"""Regular expressions of users: RE2, as in OpenKruise. The time of a search grows linearly with the text.

text of a pattern ──▶ compile_pattern() ──▶ Pattern ──▶ .search(text)

Python's own engine backtracks: with `^(\w+-?)+$` each further letter of a name doubles its work. RE2 never
backtracks. It supports neither look-around nor references to groups; nor does OpenKruise.

The engine is loaded with the first pattern, so that a process without patterns does not use its memory.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from pykruise.kube.cache.remembering import remember
from pykruise.kube.values.go_text import excerpt

__all__ = ["Match", "Pattern", "PatternError", "compile_pattern"]

_MOST_MEMORY: Final = 4 * 1024 * 1024
"""Maximum number of bytes of memory for one pattern."""

_MOST_KEPT: Final = 16


class PatternError(ValueError):
    """The text is not a valid pattern; the message says why."""


class Match(Protocol):
    """A match of a pattern in a text."""

    def __getitem__(self, group: int) -> str:
        """Return the text of a group; 0 is the whole match."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> Match | None:
        """Return the first match."""

    def finditer(self, text: str) -> Iterator[Match]:
        """Return all matches; they do not overlap."""


@remember(entries=_MOST_KEPT, longest=1_024)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. Raises PatternError, also for a pattern that takes more than 4 MiB when it is compiled."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise PatternError(excerpt(_format_message(error))) from error
    return pattern


def _format_message(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
