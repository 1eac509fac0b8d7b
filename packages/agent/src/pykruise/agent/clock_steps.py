"""Detects steps of the wall clock, for example because a time server set it, or because the machine was suspended.

clock() and the time of the event loop, which has no steps ──▶ ClockSteps.read_step_s() ──▶ seconds
"""

import asyncio

from pykruise.kube.clock import Clock

__all__ = ["ClockSteps"]

_LEAST_S = 1.0


class ClockSteps:
    """Measures the steps of `clock`. Create this object in the event loop that uses it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_s = self._compute_offset_s()

    def read_step_s(self) -> float:
        """Return the seconds by which the clock was set forward (negative: back); 0 if it was less than one second."""
        step_s = self._compute_offset_s() - self._offset_s
        if abs(step_s) < _LEAST_S:
            return 0.0
        self._offset_s += step_s
        return step_s

    def _compute_offset_s(self) -> float:
        return self._clock() - asyncio.get_running_loop().time()
