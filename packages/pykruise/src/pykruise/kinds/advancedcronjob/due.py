"""Due times of an AdvancedCronJob. Each time of the schedule is a tick; a tick is served when its job is created.

schedule, last tick, now ──▶ find_due_times() ──▶ DueTimes: the latest missed tick, if any, and the next tick

Pure. If ticks were missed, only the latest of them is served.
"""

from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.values.cron import Every, Schedule, find_ticks

MANY: Final = 100
"""If more ticks than this number were missed, an event reports this."""


class DueTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Due times at one instant."""

    missed: Instant | None = None
    """The latest tick that has not been served and can still be served."""
    late: Instant | None = None
    """The latest tick that has not been served and cannot be served, because its starting deadline has passed."""
    next: Instant | None = None
    """The next tick; None if the schedule has no time within five years."""
    skips_many: bool = False
    """Whether more than MANY ticks were missed."""


def find_due_times(schedule: Schedule, *, last: Instant, now: Instant, deadline_s: int | None) -> DueTimes:
    """Return the due times after `last`: the last served tick, or else the creation time of the object. If the clock
    was set back, `last` is in the future. Then no tick up to `last` is served a second time.
    """
    ticks = find_ticks(schedule, last, now, most=MANY + 1)
    due = DueTimes(
        missed=ticks.latest,
        next=_find_next(schedule, ticks.latest or last, now),
        skips_many=ticks.count > MANY,
    )
    if ticks.latest is not None and deadline_s is not None and ticks.latest + deadline_s < now:
        return msgspec.structs.replace(due, missed=None, late=ticks.latest)
    return due


def _find_next(schedule: Schedule, last: Instant, now: Instant) -> Instant | None:
    """Return the next tick: of an interval, the first after the last tick; of a cron expression, the first
    after now.
    """
    if isinstance(schedule, Every):
        return schedule.next(last)
    return schedule.next(now)
