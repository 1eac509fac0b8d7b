"""What a kind brings to the simulator: its rules, checked at every commit, and when it has come to rest.

Commit ──▶ Rules.on_commit() ──▶ Violation(rule, what)          at the end ──▶ Rules.at_rest() ──▶ Violations

A further kind implements `Rules` (and its generator of scripts) and is entered in kinds.py; network, history,
deeds on pods and nodes, shrinking and replaying are the same for all.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from simulation.history import Commit

__all__ = ["Rules", "Violation"]


class Violation(msgspec.Struct, frozen=True):
    """A rule that was broken: which, how, and when (virtual seconds)."""

    rule: str
    what: str
    at: float

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.rule}: {self.what}"


class Rules(Protocol):
    """Rules of one kind, over one simulation."""

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        ...

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Called once all has gone well for long: is everything as it was asked for?"""
        ...
