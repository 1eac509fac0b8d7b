"""Sets of whole numbers written as ranges: `reserveOrdinals` of StatefulSets, however large the ranges.

pairs ──▶ merge_ranges() ──▶ Ranges ──▶ number in ranges, ranges.count_below(number)

Pure. The cost of a range does not depend on its length; a lookup takes logarithmic time in the number of ranges.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec

__all__ = ["Ranges", "merge_ranges"]


class Ranges(msgspec.Struct, frozen=True):
    """A set of whole numbers. Create it with `merge_ranges`."""

    firsts: tuple[int, ...] = ()
    """First number of each range, ascending."""
    lasts: tuple[int, ...] = ()
    """Last number of each range; no range touches the next one."""
    totals: tuple[int, ...] = ()
    """Cumulative counts: by range, the count of the numbers in it and in all ranges before it."""

    @property
    def pairs(self) -> Iterable[tuple[int, int]]:
        """First and last number of each range, ascending."""
        return zip(self.firsts, self.lasts, strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.firsts, number) - 1
        return place >= 0 and number <= self.lasts[place]

    def iterate_gaps(self, start: int) -> Iterator[tuple[int, int | None]]:
        """Yield the gaps between the ranges from `start` on: first and last number; the last gap has no end (None)."""
        for first, last in self.pairs:
            if last < start:
                continue
            if start < first:
                yield start, first - 1
            start = last + 1
        yield start, None

    def count_below(self, number: int) -> int:
        """Return the count of the set's numbers that are smaller than `number`."""
        place = bisect_right(self.firsts, number - 1) - 1
        if place < 0:
            return 0
        return self.totals[place] - max(self.lasts[place] - (number - 1), 0)


def merge_ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Return the set of all numbers in the pairs (first and last, both included). A pair that ends before it begins
    is empty.
    """
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
