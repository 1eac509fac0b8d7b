"""Limits of subsets: maxReplicas as a number of pods.

subset + replicas of the workload ──▶ limit_of() ──▶ a number, or -1 for unlimited

Pure. Percentages are percentages of the workload's replicas, rounded up.
"""

from collections.abc import Iterable
from typing import Final

from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.values.int_or_percent import Rounding, resolve

ANY_NUMBER: Final = -1


class LimitError(ValueError):
    """A maxReplicas that cannot be resolved to a number of pods."""


def limit_of(subset: Subset, *, replicas: int) -> int:
    """Return the limit; ANY_NUMBER when there is none. Raises LimitError for an invalid text or a negative number:
    admission rejects such values, but older objects may contain them.
    """
    if subset.max_replicas is None:
        return ANY_NUMBER
    try:
        limit = resolve(subset.max_replicas, of=replicas, rounding=Rounding.UP)
    except ValueError as error:
        raise LimitError(str(error)) from error
    if limit < 0:
        raise LimitError(f"{subset.max_replicas} is negative")
    return limit


def compute_room(subset: Subset, *, replicas: int) -> int:
    """Return the limit, and 0 for a limit that cannot be resolved."""
    try:
        return limit_of(subset, replicas=replicas)
    except LimitError:
        return 0


def needs_replicas(subsets: Iterable[Subset]) -> bool:
    """Whether any limit is a percentage of the workload's replicas."""
    return any(isinstance(subset.max_replicas, str) for subset in subsets)
