"""Where the sandbox answers otherwise than Kubernetes, and why that stays. docs/sandbox.md shows this list.

A difference names a case, a step of it (from 1) and where in the normalised answer it is. It covers what is
below that place and nothing else, and it must be real: the suite fails for one that is gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["DIFFERENCES", "MINORS_DIFFER", "Difference", "MinorsDiffer", "covered", "documented"]


@dataclass(frozen=True)
class Difference:
    """`at`: dotted paths in the answer (`body.message`); one covers what begins with it."""

    case: str
    step: int
    at: tuple[str, ...]
    why: str

    def covers(self, path: str) -> bool:
        """Whether the place is one of these, or below one."""
        return any(path == each or path.startswith(f"{each}.") for each in self.at)


@dataclass(frozen=True)
class MinorsDiffer:
    """Where Kubernetes 1.32 answers otherwise than 1.37, which the sandbox follows. `what` says how."""

    case: str
    steps: tuple[int, ...]
    what: str


DIFFERENCES: tuple[Difference, ...] = ()

MINORS_DIFFER: tuple[MinorsDiffer, ...] = ()


def covered(case: str, step: int) -> tuple[Difference, ...]:
    """The differences listed for a step."""
    return tuple(each for each in DIFFERENCES if (each.case, each.step) == (case, step))


def documented(differences: Iterable[Difference] = DIFFERENCES) -> str:
    """The list as it stands in docs/sandbox.md: a reason, and the cases it is about."""
    reasons: dict[str, dict[str, None]] = {}
    for each in differences:
        reasons.setdefault(each.why, {})[each.case] = None
    return "".join(
        f"- {why}\n" + "".join(f"  - {case}\n" for case in cases) for why, cases in reasons.items()
    )
