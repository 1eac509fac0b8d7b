"""Clocks: they show the event loop's time as wall time.

Code that needs "now" takes a `Clock`; plan functions take the instant itself. In tests the loop's time is virtual, so a
year of rollouts passes in a second and gives the same result every time.

An instant is a float: seconds since 1970-01-01T00:00:00Z (the scale of Kubernetes' timestamps).
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from pykruise.kube.cache.remembering import remember

__all__ = [
    "LAST",
    "Clock",
    "Instant",
    "format_micro_time",
    "format_time",
    "make_loop_clock",
    "parse_optional_time",
    "parse_time",
    "read_system_clock",
]

Instant = float
"""Seconds since the epoch, UTC."""

Clock = Callable[[], Instant]
"""Returns the current time, in seconds since 1970 (UTC)."""


def read_system_clock() -> Instant:
    """Wall time of this machine."""
    return time.time()


def make_loop_clock(*, start: Instant) -> Clock:
    """Return a clock that shows `start` now and advances with the event loop (virtual under test)."""
    loop = asyncio.get_running_loop()
    offset = start - loop.time()
    return lambda: loop.time() + offset


LAST: Final = 252_455_616_000.0
"""The first second of the year 9970: later times, stored or computed from stored values, are replaced by this time. The
calendar ends with the year 9999.
"""
_FIRST: Final = -30_610_224_000.0
"""The first second of the year 1000: programs differ in how they write years with fewer digits."""


def format_time(instant: Instant) -> str:
    """Format an instant as Kubernetes' `metav1.Time`: RFC 3339 in UTC with whole seconds, `2026-01-31T12:00:00Z`."""
    return _format_second(int(clamp_to_calendar(instant)))


@remember(entries=256, longest=0)  # all events within a second get the same text
def _format_second(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(instant: Instant) -> str:
    """Format an instant as Kubernetes' `metav1.MicroTime`: RFC 3339 with six decimals, used by Leases and new-style
    events.
    """
    return datetime.fromtimestamp(clamp_to_calendar(instant), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> Instant:
    """Return the instant of an RFC 3339 timestamp, with or without a fraction, in any offset.

    For a time beyond LAST, return LAST: users can store such times, and callers add years to the result. Raises
    ValueError for anything else.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; RFC 3339 wants Z or an offset")
    return min(moment.timestamp(), LAST)


def parse_optional_time(text: str | None) -> Instant | None:
    """Return the instant of a stored timestamp; None if it is absent or cannot be parsed."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def clamp_to_calendar(instant: Instant) -> Instant:
    """Return the instant, or the nearest one within the calendar."""
    return min(max(instant, _FIRST), LAST)
