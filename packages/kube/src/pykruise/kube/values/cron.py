"""When a cron schedule is due, as Kubernetes' CronJobs read it.

text, zone ──▶ parse_schedule() ──▶ Schedule.next(after) ──▶ the next instant, or None when there is none
                                ──▶ ticks_between()      ──▶ the latest instant of a span, and how many it has

Pure. Five fields (minute, hour, day of the month, month, day of the week) with `*`, `?`, names, ranges, steps and
lists, the words `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually`, and
`@every 1h30m`. Days are those of either day field when both say something, as in every cron; days of the week go
from 0 (Sunday) to 6. What falls into an hour that daylight saving leaves out is left out.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from pykruise.kube.clock import LAST, Instant, within_calendar

__all__ = [
    "Every",
    "Fields",
    "Schedule",
    "ScheduleError",
    "Ticks",
    "UnknownZoneError",
    "parse_schedule",
    "ticks_between",
]

_WORDS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_LONGEST_NUMBER: Final = 9
_NUMBER: Final = r"(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})"
_DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:h|m|s|ms|us|µs|ns))+", re.ASCII)
_PARTS: Final = re.compile(rf"({_NUMBER})(h|ms|m|s|us|µs|ns)", re.ASCII)
_UNITS: Final = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1_000),
    "us": Fraction(1, 1_000_000),
    "µs": Fraction(1, 1_000_000),
    "ns": Fraction(1, 1_000_000_000),
}
_HORIZON_YEARS: Final = 5  # a day that has not come by then (February 30) never comes


class ScheduleError(ValueError):
    """A text that is no schedule."""


class UnknownZoneError(ScheduleError):
    """Its time zone is none."""


class Every(msgspec.Struct, frozen=True):
    """Always so many seconds after the time before."""

    seconds: int

    def next(self, after: Instant) -> Instant | None:
        """The next time; it falls on a whole second."""
        return float(int(after) + self.seconds)


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """At these minutes of these hours of these days."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Whether a day field says nothing: then both must match, else one of them."""
    zone: tzinfo

    def next(self, after: Instant) -> Instant | None:
        """The first time after that instant; None when there is none within five years."""
        moment = float(int(after // 60) * 60 + 60)
        last_year = self._local(moment).year + _HORIZON_YEARS
        while moment < LAST and (local := self._local(moment)).year <= last_year:
            if local.month not in self.months:
                first = local.replace(day=1, hour=0, minute=0, fold=0)
                moment = self._later(moment, (first + timedelta(days=32)).replace(day=1))
            elif not self._is_day(local):
                midnight = local.replace(hour=0, minute=0, fold=0)
                moment = self._later(moment, midnight + timedelta(days=1))
            elif local.hour not in self.hours:
                moment += 3600 - local.minute * 60
            elif local.minute not in self.minutes:
                moment += 60
            else:
                return moment
        return None

    def _local(self, moment: Instant) -> datetime:
        return datetime.fromtimestamp(within_calendar(moment), self.zone)

    @staticmethod
    def _later(moment: Instant, wanted: datetime) -> Instant:
        return max(moment + 60, wanted.timestamp())

    def _is_day(self, local: datetime) -> bool:
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day else (day or weekday)


Schedule = Every | Fields


class Ticks(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a schedule in a span."""

    latest: Instant | None
    """None: there is none."""
    count: int
    """How many there are, as far as was counted."""


def ticks_between(schedule: Schedule, after: Instant, until: Instant, *, most: int) -> Ticks:
    """The times after `after` and not after `until`: the latest, and how many, counted up to `most`.

    It does not walk through all of them: however long the span, it costs about as much as a day of the schedule.
    """
    if isinstance(schedule, Every):
        first = int(after)
        count = max(int(until - first) // schedule.seconds, 0)
        return Ticks(
            latest=float(first + count * schedule.seconds) if count else None, count=min(count, most)
        )
    count, moment = 0, schedule.next(after)
    latest = None
    while moment is not None and moment <= until:
        latest = moment
        count += 1
        if count == most:
            return Ticks(latest=_latest(schedule, moment, until), count=count)
        moment = schedule.next(moment)
    return Ticks(latest=latest, count=count)


def _latest(schedule: Fields, known: Instant, until: Instant) -> Instant:
    """The latest time up to `until`; `known` is one. Looks back from the end, in spans that grow."""
    span = 3600.0
    while until - span > known:
        result = schedule.next(until - span)
        if result is not None and result <= until:
            known = result
            break
        span *= 2
    while (later := schedule.next(known)) is not None and later <= until:
        known = later
    return known


def parse_schedule(text: str, *, zone: str = "") -> Schedule:
    """The schedule of a text, in UTC or in a zone (`Europe/Berlin`; one in the text goes first).

    Raises ScheduleError.
    """
    text = text.strip()
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, _, text = text.partition(" ")
        zone, text = named.partition("=")[2], text.strip()
    if text.startswith("@every "):
        return Every(_seconds(text.removeprefix("@every ")))
    if text.startswith("@"):
        if text not in _WORDS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _WORDS[text]
    fields = text.split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = fields
    days, any_day = _field(day, 1, 31)
    weekdays, any_weekday = _field(weekday, 0, 6, _DAYS)
    return Fields(
        minutes=_field(minute, 0, 59)[0],
        hours=_field(hour, 0, 23)[0],
        days=days,
        months=_field(month, 1, 12, _MONTHS)[0],
        weekdays=weekdays,
        any_day=any_day or any_weekday,
        zone=_zone(zone),
    )


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as err:
        raise UnknownZoneError(f"provided bad location {name}: unknown time zone {name}") from err


def _seconds(text: str) -> int:
    """Whole seconds, at least one. Rule: Go's durations, `1h30m` or `1.5h`."""
    if _DURATION.fullmatch(text.strip()) is None:
        raise ScheduleError(f"failed to parse duration @every {text}")
    total = sum((Fraction(number) * _UNITS[unit] for number, unit in _parts(text)), Fraction(0))
    return max(1, int(total))


def _parts(text: str) -> list[tuple[str, str]]:
    return [(f"0{number}".rstrip("."), unit) for number, unit in _PARTS.findall(text)]


def _field(
    text: str, least: int, most: int, names: Mapping[str, int] | None = None
) -> tuple[frozenset[int], bool]:
    """The values of a field, and whether it says nothing."""
    values: set[int] = set()
    says_nothing = False
    for part in filter(None, text.split(",")):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, None) if slash else 1
        if step < 1:
            raise ScheduleError(f"step of range should be a positive number: {part}")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            low, high = least, most
            says_nothing = says_nothing or step == 1
        else:
            low = _number(first, names)
            # `5/15` goes on to the end.
            high = _number(last, names) if dash else (most if slash else low)
        if low < least:
            raise ScheduleError(f"beginning of range ({low}) below minimum ({least}): {part}")
        if high > most:
            raise ScheduleError(f"end of range ({high}) above maximum ({most}): {part}")
        if low > high:
            raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {part}")
        values.update(range(low, high + 1, step))
    return frozenset(values), says_nothing


def _number(text: str, names: Mapping[str, int] | None) -> int:
    if names is not None and text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if len(text) > _LONGEST_NUMBER:
        raise ScheduleError(f"a number of {len(text)} digits is out of range")
    return int(text)
