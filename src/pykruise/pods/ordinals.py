"""Which numbers the pods of a StatefulSet have.

spec.reserveOrdinals ──▶ reserved_of() ──▶ Reserved
start + replicas + Reserved ──▶ wanted_ordinals()
name of a pod ──▶ split_name() ──▶ its set and its ordinal

Pure. Ranges are kept as ranges: `0-2000000000` costs nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["NO_ORDINAL", "Reserved", "pod_name", "range_of", "reserved_of", "split_name", "wanted_ordinals"]

NO_ORDINAL: Final = -1
"""Of a pod whose name says none."""

_LARGEST: Final = 2**31 - 1
_RANGE: Final = re.compile(r"([0-9]+)-([0-9]+)", re.ASCII)


class Reserved(msgspec.Struct, frozen=True):
    """Ordinals that no pod gets."""

    ranges: tuple[tuple[int, int], ...] = ()
    """First and last of each, ascending, none touching another."""
    problems: tuple[str, ...] = ()
    """`spec.reserveOrdinals[<index>]: <what is wrong>` of entries that say nothing; the others count."""

    def __contains__(self, ordinal: int) -> bool:
        return any(low <= ordinal <= high for low, high in self.ranges)


def range_of(text: str) -> tuple[int, int] | None:
    """The first and last number of `5-8`; None: it is no range. The first may be greater than the last."""
    found = _RANGE.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def reserved_of(entries: Iterable[int | str]) -> Reserved:
    """What `spec.reserveOrdinals` means. A bad entry (admission was bypassed) is left out and told of."""
    found: list[tuple[int, int]] = []
    problems: list[str] = []
    for index, entry in enumerate(entries):
        pair = (entry, entry) if isinstance(entry, int) else range_of(entry)
        if pair is None or pair[0] > pair[1]:
            problems.append(f'spec.reserveOrdinals[{index}]: "{entry}" is no range such as 5-8')
        else:
            found.append(pair)
    return Reserved(tuple(_merged(sorted(found))), tuple(problems))


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def wanted_ordinals(*, start: int, replicas: int, reserved: Reserved) -> list[int]:
    """The ordinals of `replicas` pods, ascending: from `start` on, without the reserved ones.

    Fewer where 32 bits do not reach: such a pod's name would say no ordinal.
    """
    wanted = _wanted(start, replicas, reserved)
    while wanted and wanted[-1] > _LARGEST:
        wanted.pop()
    return wanted


def _wanted(start: int, replicas: int, reserved: Reserved) -> list[int]:
    wanted: list[int] = []
    ordinal = start
    for low, high in reserved.ranges:
        if high < ordinal:
            continue
        free = min(max(low - ordinal, 0), replicas - len(wanted))
        wanted.extend(range(ordinal, ordinal + free))
        if len(wanted) == replicas:
            return wanted
        ordinal = high + 1
    wanted.extend(range(ordinal, ordinal + replicas - len(wanted)))
    return wanted


def split_name(name: str) -> tuple[str, int]:
    """`web-3` is of `web` and has ordinal 3. One that does not fit 32 bits counts as none."""
    parent, dash, digits = name.rpartition("-")
    if not dash or not digits.isdecimal() or not digits.isascii():
        return "", NO_ORDINAL
    ordinal = int(digits)
    return parent, ordinal if ordinal <= _LARGEST else NO_ORDINAL


def pod_name(owner: str, ordinal: int) -> str:
    """`<set>-<ordinal>`."""
    return f"{owner}-{ordinal}"
