"""Subsets of a StatefulSet's pods: the ordinal of a pod determines its subset, so no pods are counted.

pod name + subsets + target ──▶ find_subset_by_ordinal() ──▶ the subset, or None: beyond the last one

Pure. A pod of a StatefulSet is always created again under its name, so its ordinal determines its subset. Ordinals that
the StatefulSet does not use (`reserveOrdinals`, `ordinals.start`) take no slot.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.slots import is_schedulable
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus
from pykruise.kube.documents import get_path
from pykruise.kube.values.ranges import Ranges, merge_ranges

_ORDINAL: Final = re.compile(r"-([0-9]{1,18})$", re.ASCII)
_RANGE: Final = re.compile(r"\s*([0-9]{1,10})\s*(?:-\s*([0-9]{1,10})\s*)?", re.ASCII)


class Numbering(msgspec.Struct, frozen=True):
    """Ordinals that a StatefulSet gives to its pods."""

    start: int = 0
    """The first ordinal."""
    reserved: Ranges = Ranges()
    """Reserved ordinals, which have no pod."""


PLAIN: Final = Numbering()
"""Ordinals from 0 on, without gaps."""


def ordinal_of(pod_name: str) -> int:
    """Return the number at the end of the name; -1: there is none."""
    match = _ORDINAL.search(pod_name)
    return int(match[1]) if match else -1


def numbering_of(target: Mapping[str, Any] | None) -> Numbering:
    """Return the ordinals that the StatefulSet uses. `reserveOrdinals` contains numbers and ranges such as "3-5"."""
    start = get_path(target, "spec", "ordinals", "start")
    reserved: list[tuple[int, int]] = []
    for ordinal in get_path(target, "spec", "reserveOrdinals") or ():
        if (match := _RANGE.fullmatch(str(ordinal))) is not None:
            reserved.append((int(match[1]), int(match[2] or match[1])))
    return Numbering(start if isinstance(start, int) else 0, merge_ranges(reserved))


def rank_of(ordinal: int, numbering: Numbering) -> int:
    """Return the number of pods with smaller ordinals when all pods exist; negative: the ordinal is below the first
    one.
    """
    start, reserved = numbering.start, numbering.reserved
    return ordinal - start - reserved.count_below(ordinal) + reserved.count_below(start)


def iterate_ordinals_beyond(replicas: int, numbering: Numbering) -> Iterator[int]:
    """Yield, without end and in ascending order, the ordinals of pods beyond the first `replicas`."""
    for first, last in numbering.reserved.iterate_gaps(numbering.start):
        size = replicas if last is None else min(last - first + 1, replicas)
        replicas -= size
        yield from count(first + size) if last is None else range(first + size, last + 1)


def find_subset_by_ordinal(
    subsets: Sequence[Subset],
    statuses: Sequence[SubsetStatus],
    *,
    pod_name: str,
    numbering: Numbering = PLAIN,
    replicas: int = 0,
) -> Subset | None:
    """Return the subset of the pod's ordinal. Closed subsets, in which pods find no node, are skipped."""
    rank = rank_of(ordinal_of(pod_name), numbering)
    closed = {status.name for status in statuses if not is_schedulable(status)}
    places = 0
    for subset in subsets:
        if subset.name in closed:
            continue
        try:
            limit = limit_of(subset, replicas=replicas)
        except LimitError:
            continue
        places += limit
        if limit == ANY_NUMBER or rank < places:
            return subset
    return None
