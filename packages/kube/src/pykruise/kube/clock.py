"""What time it is: the event loop's time, as wall time.

Every part that needs "now" takes a `Clock`; plans take the instant itself. Under test the loop's time is
virtual, so a year of rollouts passes in a second and gives the same result twice.

An instant is a float: seconds since 1970-01-01T00:00:00Z (as Kubernetes means its timestamps).
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from pykruise.kube.remembering import remember

__all__ = ["Clock", "Instant", "format_micro_time", "format_time", "loop_clock", "parse_time", "system_clock"]

Instant = float
"""Seconds since the epoch, UTC."""

Clock = Callable[[], Instant]


def system_clock() -> Instant:
    """Wall time of this machine."""
    return time.time()


def loop_clock(*, start: Instant) -> Clock:
    """A clock that shows `start` now and runs with the event loop (virtual under test)."""
    loop = asyncio.get_running_loop()
    offset = start - loop.time()
    return lambda: loop.time() + offset


def format_time(instant: Instant) -> str:
    """Kubernetes' `metav1.Time`: RFC 3339 in UTC with whole seconds, `2026-01-31T12:00:00Z`."""
    return _second(int(instant))


@remember(entries=256, longest=0)  # within a second, everything that happens gets the same text
def _second(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(instant: Instant) -> str:
    """Kubernetes' `metav1.MicroTime`: RFC 3339 with six decimals, used by Leases and new-style events."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> Instant:
    """The instant of an RFC 3339 timestamp, with or without a fraction, in any offset.

    Raises ValueError for anything else.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; RFC 3339 wants Z or an offset")
    return moment.timestamp()
