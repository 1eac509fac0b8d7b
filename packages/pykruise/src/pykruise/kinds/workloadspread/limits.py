"""How many pods a subset takes: maxReplicas as a number.

subset + replicas of the workload ──▶ limit_of() ──▶ a number, or -1 for any number

Pure. Percentages are of the workload's replicas and rounded up.
"""

from collections.abc import Iterable
from typing import Final

from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.values.int_or_percent import Rounding, resolve

ANY_NUMBER: Final = -1


class LimitError(ValueError):
    """A maxReplicas that means no number of pods."""


def limit_of(subset: Subset, *, replicas: int) -> int:
    """The limit; ANY_NUMBER without one. Raises LimitError for a text or a negative number that was stored although
    admission refuses it."""
    if subset.max_replicas is None:
        return ANY_NUMBER
    try:
        limit = resolve(subset.max_replicas, of=replicas, rounding=Rounding.UP)
    except ValueError as error:
        raise LimitError(str(error)) from error
    if limit < 0:
        raise LimitError(f"{subset.max_replicas} is negative")
    return limit


def room_in(subset: Subset, *, replicas: int) -> int:
    """The same; a limit that means no number is full."""
    try:
        return limit_of(subset, replicas=replicas)
    except LimitError:
        return 0


def depends_on_replicas(subsets: Iterable[Subset]) -> bool:
    """Whether some limit is a share of the workload's replicas."""
    return any(isinstance(subset.max_replicas, str) for subset in subsets)
