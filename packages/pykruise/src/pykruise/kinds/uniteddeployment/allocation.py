"""How many pods each subset gets.

shares + replicas + mode ──▶ allocate() ──▶ name of the subset → replicas, or AllocationError

    FIXED      a number or percentage each, and what is left in equal parts; or, with bounds, the minimums in the
               order of the spec, and then up to the maximums
    ADAPTIVE   as with bounds; subsets that find no nodes keep what is ready and get nothing more
    RESERVE    the same; replicas that are reserved do not count, so that others stand in for them

Pure. The order of subsets is a priority where there are bounds, and means nothing where parts are equal. Rule: the
original's three allocators; what is done otherwise is marked as such.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pykruise.kube.values.go_text import excerpt

_PERCENT: Final = re.compile(r"[0-9]{1,3}%", re.ASCII)

UNBOUNDED: Final = 1_000_000
"""The maximum of a subset without one. Rule: the original's."""

_NO_END: Final = 2**62


class AllocationError(ValueError):
    """Error of subsets that do not fit the replicas."""


class Mode(StrEnum):
    """Policy for pods that find no node."""

    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"
    RESERVE = "Reserve"


class SubsetShare(msgspec.Struct, frozen=True, kw_only=True):
    """One subset: what it asks for, and how its workload is."""

    name: str
    replicas: int | str | None = None
    min_replicas: int | str | None = None
    max_replicas: int | str | None = None
    current: int | None = None
    """`spec.replicas` of its workload; None: it has none."""
    ready: int = 0
    reserved: int = 0
    """Pods in reserve."""
    is_unschedulable: bool = False
    was_unschedulable: bool = False
    """Its condition said so before this look."""


def scaled(value: int | str | None, *, of: int | None) -> int:
    """The number that a field of a subset means: `scaled("50%", of=5)` is 3, half of a pod is rounded up.

    Raises ValueError for what is not there, below 0, above 100%, or neither a number nor a whole percentage, and for a
    percentage of an unknown number.
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
    """Whether some subset has a minimum or a maximum."""
    return any(share.min_replicas is not None or share.max_replicas is not None for share in shares)


def allocate(
    shares: Sequence[SubsetShare], *, replicas: int | None, mode: Mode = Mode.FIXED
) -> dict[str, int]:
    """Replicas by subset, in the order of `shares`. Raises AllocationError where they cannot be divided so."""
    count = replicas or 0
    match mode:
        case Mode.RESERVE:
            return _reserving(shares, count)
        case Mode.ADAPTIVE:
            return _bounded([_adapted(share, replicas) for share in shares], count)
        case Mode.FIXED if has_bounds(shares):
            return _bounded([(share.name, *_bounds(share, replicas)) for share in shares], count)
        case Mode.FIXED:
            return _divided(shares, replicas)


# ── numbers, percentages and equal parts ─────────────────────────────────


def _divided(shares: Sequence[SubsetShare], replicas: int | None) -> dict[str, int]:
    specified = {
        share.name: number for share in shares if (number := _number(share.replicas, replicas)) is not None
    }
    others = [share for share in shares if share.name not in specified]
    total = sum(specified.values())
    if replicas is None:
        if others:
            raise AllocationError("spec.replicas is not set, and not every subset has replicas")
        return specified
    if _is_whole(shares):
        return _by_fractions(shares, replicas)
    if total > replicas:
        raise AllocationError(f"subsets have {total} replicas, and spec.replicas is {replicas}")
    if shares and not others and total < replicas:
        raise AllocationError(f"all subsets together have {total} replicas, and spec.replicas is {replicas}")
    if not others:
        return specified
    # Subsets that are larger now get the odd pods: nothing moves because of the order of names.
    others.sort(key=lambda share: (share.current or 0, share.name))
    count = len(others)
    each, odd = divmod(replicas - total, count)
    parts = {share.name: each + (index >= count - odd) for index, share in enumerate(others)}
    return {share.name: (specified | parts)[share.name] for share in shares}


def _number(value: int | str | None, replicas: int | None) -> int | None:
    """None: there is none, or none that can be read."""
    try:
        return scaled(value, of=replicas)
    except ValueError:
        return None


def _is_whole(shares: Iterable[SubsetShare]) -> bool:
    """Whether all subsets have percentages that make up the whole, so that only rounding can be in the way."""
    total = 0
    for share in shares:
        if not isinstance(share.replicas, str) or not _PERCENT.fullmatch(share.replicas):
            return False
        total += int(share.replicas[:-1])
    return total == 100


def _by_fractions(shares: Sequence[SubsetShare], replicas: int) -> dict[str, int]:
    """Rounded down, and the pods that are missing one each by the largest fraction. Where half up gives the right sum,
    this is the same. Where it does not, since the scale subresource, which no webhook sees, has changed the replicas,
    the original does nothing."""
    parts = {share.name: divmod(replicas * int(str(share.replicas)[:-1]), 100) for share in shares}
    fractions = {name: whole for name, (whole, _) in parts.items()}
    missing = replicas - sum(fractions.values())
    for name in sorted(parts, key=lambda name: -parts[name][1])[:missing]:
        fractions[name] += 1
    return fractions


# ── minimums and maximums ────────────────────────────────────────────────

_Bounds = tuple[str, int, int]


def _bounds(share: SubsetShare, replicas: int | None) -> tuple[int, int]:
    """Raises AllocationError for a minimum above the maximum. What cannot be read is no bound."""
    least = _number(share.min_replicas, replicas) or 0
    most = _number(share.max_replicas, replicas)
    if most is None:
        most = max(UNBOUNDED, replicas or 0, least)
    if least > most:
        raise AllocationError(f"subset {share.name}: minReplicas {least} is above maxReplicas {most}")
    return least, most


def _bounded(bounds: Sequence[_Bounds], replicas: int) -> dict[str, int]:
    """The minimums first, then up to the maximums. More than all maximums is left over."""
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


def _adapted(share: SubsetShare, replicas: int | None) -> _Bounds:
    least, most = _bounds(share, replicas)
    if share.current is None:
        return share.name, least, most
    # Ready pods beyond the size of the workload are about to go, or there for a rollout only. The original counts
    # them too: what has been given to another subset is taken back until the pods are gone.
    running = min(share.ready, share.current)
    if share.is_unschedulable:
        return share.name, max(least, running), min(most, running)
    # Pods that run already are not moved.
    return share.name, max(least, min(running, most)), most


# ── pods in reserve ──────────────────────────────────────────────────────


def _reserving(shares: Sequence[SubsetShare], replicas: int) -> dict[str, int]:
    bounds = {share.name: _bounds(share, replicas) for share in shares}
    given = dict.fromkeys(bounds, 0)
    room = {share.name: _working_room(share) for share in shares}
    targets = [(share.name, bounds[share.name][0]) for share in shares]
    targets += [(share.name, _most(share, bounds[share.name][1])) for share in shares]
    rest = replicas
    for name, target in targets:
        more = max(0, min(target - given[name], rest))
        given[name] += more
        counted = max(0, min(more, room[name]))
        room[name] -= more
        rest -= counted
    return given


def _working_room(share: SubsetShare) -> int:
    """How many replicas of it are expected to work."""
    if share.current is None or not (share.is_unschedulable or share.was_unschedulable):
        return _NO_END
    return share.current - share.reserved


def _most(share: SubsetShare, maximum: int) -> int:
    """One that finds no nodes stays as large as it is."""
    return maximum if share.current is None or not share.is_unschedulable else share.current
