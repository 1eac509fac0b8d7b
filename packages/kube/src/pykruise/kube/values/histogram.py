"""Durations counted in buckets, for metrics without a metrics library.

observe(seconds) ──▶ Histogram ──▶ take_snapshot() ──▶ read_stats() of queues, controllers, transports
"""

from bisect import bisect_left
from typing import Final

import msgspec

__all__ = ["QUEUE_BOUNDS", "RECONCILE_BOUNDS", "WEBHOOK_BOUNDS", "Histogram", "HistogramStats"]

REQUEST_BOUNDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Bounds of the histogram `rest_client_request_duration_seconds` in Kubernetes and controller-runtime."""

RECONCILE_BOUNDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
)  # fmt: skip
"""Bounds of the histogram `controller_runtime_reconcile_time_seconds` in controller-runtime."""

QUEUE_BOUNDS: Final = (
    1e-08, 1e-07, 1e-06, 9.999999999999999e-06, 9.999999999999999e-05, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0,
)  # fmt: skip
"""Bounds of the histograms `workqueue_*_duration_seconds` in controller-runtime, rounding errors included: queries may
select a bucket by its bound.
"""

WEBHOOK_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the histogram `controller_runtime_webhook_latency_seconds` in the controller-runtime of OpenKruise."""


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
