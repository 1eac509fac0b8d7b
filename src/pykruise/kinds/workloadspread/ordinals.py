"""Places of pods of a StatefulSet: by their numbers, without counting.

pod name + subsets + target ──▶ subset_by_ordinal() ──▶ the subset, or None: beyond the last one

Pure. A pod of a StatefulSet comes again under its name, so its number says where it belongs. Numbers that the
StatefulSet leaves out (`reserveOrdinals`, `ordinals.start`) take no place.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.places import is_schedulable
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus
from pykruise.kube.documents import get_path

__all__ = ["Numbering", "numbering_of", "ordinal_of", "subset_by_ordinal"]

_ORDINAL: Final = re.compile(r"-([0-9]{1,18})$", re.ASCII)
_RANGE: Final = re.compile(r"\s*([0-9]{1,10})\s*(?:-\s*([0-9]{1,10})\s*)?", re.ASCII)

Numbering = tuple[int, tuple[tuple[int, int], ...]]
"""The first number, and the ranges of numbers that are left out (both ends belong to them)."""


def ordinal_of(pod_name: str) -> int:
    """The number at the end of the name; -1: there is none."""
    found = _ORDINAL.search(pod_name)
    return int(found[1]) if found else -1


def numbering_of(target: Mapping[str, Any] | None) -> Numbering:
    """Which numbers the StatefulSet gives its pods. `reserveOrdinals` has numbers and ranges such as "3-5"."""
    start = get_path(target, "spec", "ordinals", "start")
    reserved: list[tuple[int, int]] = []
    for one in get_path(target, "spec", "reserveOrdinals") or ():
        if (found := _RANGE.fullmatch(str(one))) is not None:
            reserved.append((int(found[1]), int(found[2] or found[1])))
    return (start if isinstance(start, int) else 0, tuple(reserved))


def rank_of(ordinal: int, numbering: Numbering) -> int:
    """How many pods have smaller numbers when all are there."""
    start, reserved = numbering
    left_out: set[int] = set()
    for first, last in reserved:
        left_out.update(range(max(first, start), min(last, ordinal - 1) + 1))
    return ordinal - start - len(left_out) if ordinal >= 0 else -1


def subset_by_ordinal(
    subsets: Sequence[Subset],
    statuses: Sequence[SubsetStatus],
    *,
    pod_name: str,
    numbering: Numbering = (0, ()),
    replicas: int = 0,
) -> Subset | None:
    """The subset whose numbers the pod's is among. Subsets in which pods find no node are passed over."""
    rank = rank_of(ordinal_of(pod_name), numbering)
    closed = {one.name for one in statuses if not is_schedulable(one)}
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
