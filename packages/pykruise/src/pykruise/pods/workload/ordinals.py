"""Ordinals of a StatefulSet's pods.

spec.reserveOrdinals ──▶ reserved_of() ──▶ Reserved
start + replicas + Reserved ──▶ list_wanted_ordinals(), is_wanted()
name of a pod ──▶ split_name() ──▶ its set and its ordinal

Pure. Ranges are stored as ranges: `0-2000000000` costs nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from pykruise.kube.values.go_text import excerpt
from pykruise.kube.values.ranges import Ranges, merge_ranges

NO_ORDINAL: Final = -1
"""Ordinal of a pod whose name contains none."""

_LARGEST: Final = 2**31 - 1
_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_LONGEST_ORDINAL: Final = 10


class Reserved(msgspec.Struct, frozen=True):
    """Ordinals that no pod gets."""

    ranges: Ranges = Ranges()
    problems: tuple[str, ...] = ()
    """`spec.reserveOrdinals[<index>]: <what is wrong>` of invalid entries; the other entries are used."""


def range_of(text: str) -> tuple[int, int] | None:
    """The first and last number of `5-8`; None if the text is not a range. The first may be greater than the last."""
    match = _RANGE.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def reserved_of(entries: Iterable[int | str]) -> Reserved:
    """Parse `spec.reserveOrdinals`. An invalid entry (admission was bypassed) is left out and reported."""
    result: list[tuple[int, int]] = []
    problems: list[str] = []
    for index, entry in enumerate(entries):
        pair = (entry, entry) if isinstance(entry, int) else range_of(entry)
        if pair is None or pair[0] > pair[1]:
            problems.append(
                f'spec.reserveOrdinals[{index}]: "{excerpt(str(entry))}" is not a range such as 5-8'
            )
        else:
            result.append(pair)
    return Reserved(merge_ranges(result), tuple(problems))


def list_wanted_ordinals(*, start: int, replicas: int, reserved: Reserved) -> list[int]:
    """The ordinals of `replicas` pods in ascending order: from `start` on, without the reserved ordinals.

    The result is shorter when the ordinals exceed 32 bits: such a pod's name would contain no ordinal.
    """
    wanted = _list_wanted(start, replicas, reserved)
    while wanted and wanted[-1] > _LARGEST:
        wanted.pop()
    return wanted


def find_last_wanted_ordinal(*, start: int, replicas: int, reserved: Reserved) -> int | None:
    """The last of `list_wanted_ordinals()`, at the same cost for any number of replicas; None if there is no such
    ordinal.
    """
    missing = replicas
    for first, last in reserved.ranges.iterate_gaps(start):
        if missing <= 0:
            return None
        if last is None or missing <= last - first + 1:
            return min(first + missing - 1, _LARGEST)
        missing -= last - first + 1
    return None


def is_wanted(ordinal: int, *, start: int, replicas: int, reserved: Reserved) -> bool:
    """Whether `list_wanted_ordinals()` contains the ordinal, at the same cost for any number of replicas."""
    ranges = reserved.ranges
    if ordinal < start or ordinal > _LARGEST or ordinal in ranges:
        return False
    return ordinal - start - (ranges.count_below(ordinal) - ranges.count_below(start)) < replicas


def _list_wanted(start: int, replicas: int, reserved: Reserved) -> list[int]:
    wanted: list[int] = []
    for first, last in reserved.ranges.iterate_gaps(start):
        missing = replicas - len(wanted)
        wanted.extend(range(first, first + missing if last is None else min(last + 1, first + missing)))
        if len(wanted) >= replicas:
            break
    return wanted


def split_name(name: str) -> tuple[str, int]:
    """Split `web-3` into the set `web` and the ordinal 3. An ordinal that exceeds 32 bits counts as absent."""
    parent, dash, digits = name.rpartition("-")
    if not dash or not digits.isdecimal() or not digits.isascii():
        return "", NO_ORDINAL
    ordinal = int(digits) if len(digits) <= _LONGEST_ORDINAL else NO_ORDINAL
    return parent, ordinal if ordinal <= _LARGEST else NO_ORDINAL


def format_pod_name(owner: str, ordinal: int) -> str:
    """`<set>-<ordinal>`."""
    return f"{owner}-{ordinal}"
