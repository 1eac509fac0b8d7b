"""When an AdvancedCronJob has to make something.

schedule, last tick, now ──▶ due() ──▶ Due: the tick that was missed last, if any, and the next one

Pure. Of several ticks that were missed only the latest counts, however many they are.
"""

from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.values.cron import Every, Schedule, ticks_between

MANY: Final = 100
"""More ticks than this are not missed without a word."""


class DueTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Due times at one instant."""

    missed: Instant | None = None
    """The latest tick that is not served yet and may be."""
    late: Instant | None = None
    """The latest tick that is not served, and is too late by the starting deadline."""
    next: Instant | None = None
    """None: there is none within five years."""
    skips_many: bool = False
    """Whether more than MANY ticks were missed."""


def due(schedule: Schedule, *, last: Instant, now: Instant, deadline_s: int | None) -> DueTimes:
    """`last`: the tick that was served last, or when the object was created. Where clocks were set back that is yet to
    come, and nothing is made a second time."""
    ticks = ticks_between(schedule, last, now, most=MANY + 1)
    due = DueTimes(
        missed=ticks.latest, next=_next(schedule, ticks.latest or last, now), skips_many=ticks.count > MANY
    )
    if ticks.latest is not None and deadline_s is not None and ticks.latest + deadline_s < now:
        return msgspec.structs.replace(due, missed=None, late=ticks.latest)
    return due


def _next(schedule: Schedule, last: Instant, now: Instant) -> Instant | None:
    """Intervals go on from the last tick; fields of the clock know nothing of it."""
    if isinstance(schedule, Every):
        return schedule.next(last)
    return schedule.next(now)
