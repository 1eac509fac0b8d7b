"""Sets of whole numbers written as ranges: `reserveOrdinals` of StatefulSets, whatever its ranges span.

pairs ──▶ merged() ──▶ Ranges ──▶ number in ranges, ranges.count(between two numbers)

Pure. A range costs the same whether it has one number or a billion; a question costs the logarithm of the number of
ranges.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec

__all__ = ["Ranges", "merged"]


class Ranges(msgspec.Struct, frozen=True):
    """Whole numbers. Make one with `merged`."""

    firsts: tuple[int, ...] = ()
    """First number of each range, ascending."""
    lasts: tuple[int, ...] = ()
    """Last number of each; none touches the next range."""
    totals: tuple[int, ...] = ()
    """How many numbers each range and those before it have."""

    @property
    def pairs(self) -> Iterable[tuple[int, int]]:
        """First and last number of each range, ascending."""
        return zip(self.firsts, self.lasts, strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.firsts, number) - 1
        return place >= 0 and number <= self.lasts[place]

    def gaps_from(self, start: int) -> Iterator[tuple[int, int | None]]:
        """Gaps between the ranges from `start` on: first and last number of each; the last gap has no end (None)."""
        for first, last in self.pairs:
            if last < start:
                continue
            if start < first:
                yield start, first - 1
            start = last + 1
        yield start, None

    def count_below(self, number: int) -> int:
        """How many of them are smaller than `number`."""
        place = bisect_right(self.firsts, number - 1) - 1
        if place < 0:
            return 0
        return self.totals[place] - max(self.lasts[place] - (number - 1), 0)


def merged(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """The numbers of all pairs (first and last, both included). A pair that ends before it begins has none."""
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in sorted(pairs):
        if last < first:
            continue
        if lasts and first <= lasts[-1] + 1:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    sizes = (last - first + 1 for first, last in zip(firsts, lasts, strict=True))
    return Ranges(tuple(firsts), tuple(lasts), tuple(accumulate(sizes)))
