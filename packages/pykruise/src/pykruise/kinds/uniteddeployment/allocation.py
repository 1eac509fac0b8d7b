"""Number of pods of each subset.

shares + replicas + mode ──▶ allocate() ──▶ name of the subset → replicas, or AllocationError

    FIXED      without bounds: each subset gets its number or percentage, and subsets without one share the other
               replicas equally; with bounds: each subset gets its minimum, in the order of the spec; then subsets get
               more, up to their maximums
    ADAPTIVE   as FIXED with bounds; a subset whose pods find no nodes keeps as many replicas as it has ready pods, but
               at least its minimum, and gets no more
    RESERVE    as FIXED with bounds; reserved replicas do not count, so other subsets replace them

Pure. With bounds, the order of the subsets is their priority. The equal shares do not depend on the order. Same rules
as OpenKruise's three allocators; comments mark each difference.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pykruise.kube.values.counts import format_count
from pykruise.kube.values.go_text import excerpt

_PERCENT: Final = re.compile(r"[0-9]{1,3}%", re.ASCII)

UNBOUNDED: Final = 1_000_000
"""Maximum of a subset that sets no maximum. OpenKruise uses the same value."""

_NO_END: Final = 2**62


class AllocationError(ValueError):
    """Error when the replicas cannot be divided among the subsets as the spec requires."""


class Mode(StrEnum):
    """Policy for pods for which the scheduler finds no node."""

    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"
    RESERVE = "Reserve"


class SubsetShare(msgspec.Struct, frozen=True, kw_only=True):
    """A subset: its fields in the spec, and the size of its workload."""

    name: str
    replicas: int | str | None = None
    min_replicas: int | str | None = None
    max_replicas: int | str | None = None
    current: int | None = None
    """`spec.replicas` of the subset's workload; None: the subset has no workload."""
    ready: int = 0
    reserved: int = 0
    """Number of reserved pods."""
    is_unschedulable: bool = False
    was_unschedulable: bool = False
    """Whether the stored condition already reported the subset as unschedulable."""


def resolve_amount(value: int | str | None, *, of: int | None) -> int:
    """Resolve a number or percentage of a subset: `resolve_amount("50%", of=5)` is 3, because half a pod is rounded up.

    Raises ValueError for an absent value, a value below 0 or above 100%, a value that is neither a number nor a whole
    percentage, and a percentage of an unknown number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{excerpt(repr(value))} is neither a whole number nor a percentage such as 50%")
    if isinstance(value, int):
        if value < 0:
            raise ValueError("must be greater than or equal to 0")
        return value
    if not _PERCENT.fullmatch(value) or int(value[:-1]) > 100:
        raise ValueError(f'"{excerpt(value)}" is not a whole percentage between 0% and 100%')
    if of is None:
        raise ValueError("a percentage needs spec.replicas")
    return (of * int(value[:-1]) + 50) // 100


def has_bounds(shares: Iterable[SubsetShare]) -> bool:
    """Whether any subset has a minimum or a maximum."""
    return any(share.min_replicas is not None or share.max_replicas is not None for share in shares)


def allocate(
    shares: Sequence[SubsetShare], *, replicas: int | None, mode: Mode = Mode.FIXED
) -> dict[str, int]:
    """Return the replicas by subset, in the order of `shares`. Raises AllocationError when the replicas cannot be
    divided as the shares require.
    """
    count = replicas or 0
    match mode:
        case Mode.RESERVE:
            return _allocate_with_reserve(shares, count)
        case Mode.ADAPTIVE:
            return _fill_bounds([_adapt_bounds(share, replicas) for share in shares], count)
        case Mode.FIXED if has_bounds(shares):
            return _fill_bounds([(share.name, *_compute_bounds(share, replicas)) for share in shares], count)
        case Mode.FIXED:
            return _divide_replicas(shares, replicas)


# ── numbers, percentages and equal parts ─────────────────────────────────


def _divide_replicas(shares: Sequence[SubsetShare], replicas: int | None) -> dict[str, int]:
    specified = {
        share.name: number
        for share in shares
        if (number := _resolve_number(share.replicas, replicas)) is not None
    }
    others = [share for share in shares if share.name not in specified]
    total = sum(specified.values())
    if replicas is None:
        if others:
            raise AllocationError("spec.replicas is not set, and not every subset has replicas")
        return specified
    if _is_whole(shares):
        return _divide_by_fractions(shares, replicas)
    if total > replicas:
        raise AllocationError(
            f"subsets have {format_count(total, 'replica')}, and spec.replicas is {replicas}"
        )
    if shares and not others and total < replicas:
        raise AllocationError(
            f"all subsets together have {format_count(total, 'replica')}, and spec.replicas is {replicas}"
        )
    if not others:
        return specified
    # If the division has a remainder, the currently larger subsets get one more pod each. So no pod moves only because
    # of the order of names.
    others.sort(key=lambda share: (share.current or 0, share.name))
    count = len(others)
    each, odd = divmod(replicas - total, count)
    parts = {share.name: each + (index >= count - odd) for index, share in enumerate(others)}
    return {share.name: (specified | parts)[share.name] for share in shares}


def _resolve_number(value: int | str | None, replicas: int | None) -> int | None:
    """Return the number; None: the value is absent or invalid."""
    try:
        return resolve_amount(value, of=replicas)
    except ValueError:
        return None


def _is_whole(shares: Iterable[SubsetShare]) -> bool:
    """Whether all subsets have percentages that add up to 100%, so that only rounding can cause a difference."""
    total = 0
    for share in shares:
        if not isinstance(share.replicas, str) or not _PERCENT.fullmatch(share.replicas):
            return False
        total += int(share.replicas[:-1])
    return total == 100


def _divide_by_fractions(shares: Sequence[SubsetShare], replicas: int) -> dict[str, int]:
    """Round each percentage down, and give one of the missing pods to each of the subsets with the largest fractions.
    If rounding half up gives the right sum, the result is the same as OpenKruise's. The sum can only be wrong after a
    change through the scale subresource, which no webhook checks; OpenKruise then changes nothing.
    """
    parts = {share.name: divmod(replicas * int(str(share.replicas)[:-1]), 100) for share in shares}
    fractions = {name: whole for name, (whole, _) in parts.items()}
    missing = replicas - sum(fractions.values())
    for name in sorted(parts, key=lambda name: -parts[name][1])[:missing]:
        fractions[name] += 1
    return fractions


# ── minimums and maximums ────────────────────────────────────────────────

_Bounds = tuple[str, int, int]


def _compute_bounds(share: SubsetShare, replicas: int | None) -> tuple[int, int]:
    """Return minimum and maximum. An invalid value counts as absent. Raises AllocationError for a minimum above the
    maximum.
    """
    least = _resolve_number(share.min_replicas, replicas) or 0
    most = _resolve_number(share.max_replicas, replicas)
    if most is None:
        most = max(UNBOUNDED, replicas or 0, least)
    if least > most:
        raise AllocationError(f"subset {share.name}: minReplicas {least} is above maxReplicas {most}")
    return least, most


def _fill_bounds(bounds: Sequence[_Bounds], replicas: int) -> dict[str, int]:
    """Assign the minimums first, then further replicas up to the maximums. Replicas beyond all maximums are not
    assigned.
    """
    result: dict[str, int] = {}
    rest = replicas
    for name, least, _ in bounds:
        result[name] = min(least, rest)
        rest -= result[name]
    for name, least, most in bounds:
        more = max(min(most - least, rest), 0)
        result[name] += more
        rest -= more
    return result


def _adapt_bounds(share: SubsetShare, replicas: int | None) -> _Bounds:
    least, most = _compute_bounds(share, replicas)
    if share.current is None:
        return share.name, least, most
    # Ready pods beyond the replicas of the workload will soon be deleted, or exist only during a rollout. OpenKruise
    # counts these pods too, and therefore takes replicas from another subset until they are deleted.
    running = min(share.ready, share.current)
    if share.is_unschedulable:
        return share.name, max(least, running), min(most, running)
    # Ready pods are not moved.
    return share.name, max(least, min(running, most)), most


# ── pods in reserve ──────────────────────────────────────────────────────


def _allocate_with_reserve(shares: Sequence[SubsetShare], replicas: int) -> dict[str, int]:
    bounds = {share.name: _compute_bounds(share, replicas) for share in shares}
    given = dict.fromkeys(bounds, 0)
    room = {share.name: _compute_working_room(share) for share in shares}
    targets = [(share.name, bounds[share.name][0]) for share in shares]
    targets += [(share.name, _compute_maximum(share, bounds[share.name][1])) for share in shares]
    rest = replicas
    for name, target in targets:
        more = max(0, min(target - given[name], rest))
        given[name] += more
        counted = max(0, min(more, room[name]))
        room[name] -= more
        rest -= counted
    return given


def _compute_working_room(share: SubsetShare) -> int:
    """Number of replicas of the subset that count as working; unlimited unless the subset is or was unschedulable."""
    if share.current is None or not (share.is_unschedulable or share.was_unschedulable):
        return _NO_END
    return share.current - share.reserved


def _compute_maximum(share: SubsetShare, maximum: int) -> int:
    """Return the maximum. The maximum of a subset whose pods find no nodes is its current size."""
    return maximum if share.current is None or not share.is_unschedulable else share.current
