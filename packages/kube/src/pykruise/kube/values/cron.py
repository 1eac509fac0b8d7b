"""Times of a cron schedule, as Kubernetes' CronJobs read it.

text, zone ──▶ parse_schedule() ──▶ Schedule.next(after) ──▶ the next instant, or None when there is none
                                ──▶ find_ticks()      ──▶ the latest instant in a span, and the number of instants

Pure. Schedules have five fields (minute, hour, day of the month, month, day of the week) with `*`, `?`, names,
ranges, steps and lists, or are one of the words `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`,
`@annually` and `@every 1h30m`. When both day fields are restricted, a day must match one of them, as in every cron;
days of the week are numbered from 0 (Sunday) to 6. Times in an hour that daylight saving time skips are skipped.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from typing import Final

import msgspec

from pykruise.kube.clock import LAST, Instant, clamp_to_calendar
from pykruise.kube.values.counts import format_count

__all__ = [
    "Every",
    "Fields",
    "Schedule",
    "ScheduleError",
    "Ticks",
    "UnknownZoneError",
    "find_ticks",
    "parse_schedule",
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
_HORIZON_YEARS: Final = 5  # a date that has not occurred by then (February 30) never occurs


class ScheduleError(ValueError):
    """The text is not a valid schedule."""


class UnknownZoneError(ScheduleError):
    """The schedule's time zone is unknown."""


class Every(msgspec.Struct, frozen=True):
    """A schedule with a fixed number of seconds between times."""

    seconds: int

    def next(self, after: Instant) -> Instant | None:
        """Return the next time, which is a whole second."""
        return float(int(after) + self.seconds)


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule at these minutes of these hours of these days."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Whether a day field matches every day. If so, a day must match both fields, otherwise at least one of them."""
    zone: tzinfo

    def next(self, after: Instant) -> Instant | None:
        """Return the first time after that instant; None when there is none within five years."""
        moment = float(int(after // 60) * 60 + 60)
        last_year = self._to_local(moment).year + _HORIZON_YEARS
        while moment < LAST and (local := self._to_local(moment)).year <= last_year:
            if local.month not in self.months:
                first = local.replace(day=1, hour=0, minute=0, fold=0)
                moment = self._move_to(moment, (first + timedelta(days=32)).replace(day=1))
            elif not self._is_day(local):
                midnight = local.replace(hour=0, minute=0, fold=0)
                moment = self._move_to(moment, midnight + timedelta(days=1))
            elif local.hour not in self.hours:
                moment += 3600 - local.minute * 60
            elif local.minute not in self.minutes:
                moment += 60
            else:
                return moment
        return None

    def _to_local(self, moment: Instant) -> datetime:
        return datetime.fromtimestamp(clamp_to_calendar(moment), self.zone)

    @staticmethod
    def _move_to(moment: Instant, wanted: datetime) -> Instant:
        return max(moment + 60, wanted.timestamp())

    def _is_day(self, local: datetime) -> bool:
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day else (day or weekday)


Schedule = Every | Fields
"""A parsed schedule."""


class Ticks(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a schedule in a span."""

    latest: Instant | None
    """The latest time; None: there is none."""
    count: int
    """Number of times, as far as they were counted."""


def find_ticks(schedule: Schedule, after: Instant, until: Instant, *, most: int) -> Ticks:
    """Return the latest time after `after` and not after `until`, and the number of such times, counted up to `most`.

    It does not compute all times: for any length of the span, the cost is about that of one day of the schedule.
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
            return Ticks(latest=_find_latest(schedule, moment, until), count=count)
        moment = schedule.next(moment)
    return Ticks(latest=latest, count=count)


def _find_latest(schedule: Fields, known: Instant, until: Instant) -> Instant:
    """Return the latest time up to `until`; `known` is such a time. Searches backwards from the end, in growing
    spans.
    """
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
    """Return the schedule of a text, in UTC or in a zone (`Europe/Berlin`; a zone in the text takes precedence).

    Raises ScheduleError.
    """
    text = text.strip()
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, _, text = text.partition(" ")
        zone, text = named.partition("=")[2], text.strip()
    if text.startswith("@every "):
        return Every(_parse_seconds(text.removeprefix("@every ")))
    if text.startswith("@"):
        if text not in _WORDS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _WORDS[text]
    fields = text.split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = fields
    days, any_day = _parse_field(day, 1, 31)
    weekdays, any_weekday = _parse_field(weekday, 0, 6, _DAYS)
    return Fields(
        minutes=_parse_field(minute, 0, 59)[0],
        hours=_parse_field(hour, 0, 23)[0],
        days=days,
        months=_parse_field(month, 1, 12, _MONTHS)[0],
        weekdays=weekdays,
        any_day=any_day or any_weekday,
        zone=_find_zone(zone),
    )


def _find_zone(name: str) -> tzinfo:
    if not name:
        return UTC
    from zoneinfo import ZoneInfo  # loads 1 MB of Python's build settings, which few managers need

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as err:
        raise UnknownZoneError(f"provided bad location {name}: unknown time zone {name}") from err


def _parse_seconds(text: str) -> int:
    """Parse a duration such as `1h30m` or `1.5h` into whole seconds, at least one. This is Go's rule."""
    if _DURATION.fullmatch(text.strip()) is None:
        raise ScheduleError(f"failed to parse duration @every {text}")
    total = sum((Fraction(number) * _UNITS[unit] for number, unit in _split_duration(text)), Fraction(0))
    return max(1, int(total))


def _split_duration(text: str) -> list[tuple[str, str]]:
    return [(f"0{number}".rstrip("."), unit) for number, unit in _PARTS.findall(text)]


def _parse_field(
    text: str, least: int, most: int, names: Mapping[str, int] | None = None
) -> tuple[frozenset[int], bool]:
    """Return the values of a field, and whether it matches every value."""
    values: set[int] = set()
    says_nothing = False
    for part in filter(None, text.split(",")):
        span, slash, step_text = part.partition("/")
        step = _parse_number(step_text, None) if slash else 1
        if step < 1:
            raise ScheduleError(f"step of range should be a positive number: {part}")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            low, high = least, most
            says_nothing = says_nothing or step == 1
        else:
            low = _parse_number(first, names)
            # `5/15` continues to the end.
            high = _parse_number(last, names) if dash else (most if slash else low)
        if low < least:
            raise ScheduleError(f"beginning of range ({low}) below minimum ({least}): {part}")
        if high > most:
            raise ScheduleError(f"end of range ({high}) above maximum ({most}): {part}")
        if low > high:
            raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {part}")
        values.update(range(low, high + 1, step))
    return frozenset(values), says_nothing


def _parse_number(text: str, names: Mapping[str, int] | None) -> int:
    if names is not None and text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if len(text) > _LONGEST_NUMBER:
        raise ScheduleError(f"a number of {format_count(len(text), 'digit')} is out of range")
    return int(text)
