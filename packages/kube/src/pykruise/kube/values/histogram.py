"""Durations counted in buckets, for metrics without a metrics library.

observe(seconds) ──▶ Histogram ──▶ take_snapshot() ──▶ read_stats() of queues, controllers, transports
"""

from bisect import bisect_left
from typing import Final

import msgspec

__all__ = ["Histogram", "HistogramStats"]

REQUEST_BOUNDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Bounds of the histogram `rest_client_request_duration_seconds` in Kubernetes and controller-runtime."""


class HistogramStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a histogram. `counts` has one number for each bound, and one for durations above all bounds."""

    bounds: tuple[float, ...] = REQUEST_BOUNDS
    """Upper bounds in seconds, each inclusive."""
    counts: tuple[int, ...] = (0,) * (len(REQUEST_BOUNDS) + 1)
    sum_s: float = 0.0

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)


class Histogram:
    """Counts durations in seconds."""

    __slots__ = ("_bounds", "_counts", "_sum_s")

    def __init__(self, bounds: tuple[float, ...] = REQUEST_BOUNDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum_s += seconds

    def take_snapshot(self) -> HistogramStats:
        """Return the current counts."""
        return HistogramStats(bounds=self._bounds, counts=tuple(self._counts), sum_s=self._sum_s)
