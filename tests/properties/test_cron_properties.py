"""Schedules agree with an oracle that works in reverse: from every wall-clock time of a year to its instants.

The schedule under test computes the clock time of instants; the oracle enumerates clock times and computes their
instants. It never parses the text: fields are generated as sets of numbers, and written as text.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.values.cron import find_ticks, parse_schedule
from support.examples import examples

ZONES = (
    *("Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "America/Asuncion", "America/Bogota"),
    *("America/Caracas", "America/Chicago", "America/Denver", "America/Godthab", "America/Havana"),
    *("America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Santiago"),
    *("America/Sao_Paulo", "America/St_Johns", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Dubai"),
    *("Asia/Gaza", "Asia/Jerusalem", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tehran"),
    *("Asia/Tokyo", "Atlantic/Azores", "Australia/Adelaide", "Australia/Lord_Howe", "Australia/Sydney"),
    *("Europe/Berlin", "Europe/Dublin", "Europe/London", "Europe/Moscow", "Pacific/Apia"),
    *("Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati", "UTC"),
)


def some(low: int, high: int, most: int = 3) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(low, high), min_size=1, max_size=most)


class Wanted:
    """A schedule as sets of numbers; None stands for a star."""

    def __init__(
        self,
        minutes: frozenset[int],
        hours: frozenset[int],
        days: frozenset[int] | None = None,
        months: frozenset[int] | None = None,
        weekdays: frozenset[int] | None = None,
    ) -> None:
        self.minutes, self.hours = minutes, hours
        self.days, self.months, self.weekdays = days, months, weekdays

    def __repr__(self) -> str:
        return f"Wanted({self.text})"

    @property
    def text(self) -> str:
        fields = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join("*" if field is None else ",".join(map(str, sorted(field))) for field in fields)

    def is_on(self, day: date) -> bool:
        if self.months is not None and day.month not in self.months:
            return False
        by_day = self.days is None or day.day in self.days
        by_weekday = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        if self.days is None or self.weekdays is None:
            return by_day and by_weekday
        return by_day or by_weekday

    def instants(self, year: int, zone: ZoneInfo) -> list[float]:
        """Every time of the year, by the clocks of the zone."""
        instants: set[float] = set()
        day = date(year, 1, 1)
        while day.year == year:
            if self.is_on(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        instants |= shown_at(datetime.combine(day, time(hour, minute)), zone)
            day += timedelta(days=1)
        return sorted(instants)


def shown_at(wall: datetime, zone: ZoneInfo) -> set[float]:
    """The instants at which the clocks show this time: one, two or none."""
    candidates = {wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1)}
    return {at for at in candidates if datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0) == wall}


schedules = st.builds(
    Wanted,
    some(0, 59),
    some(0, 23),
    st.none() | some(1, 31, 5),
    st.none() | some(1, 12, 6),
    st.none() | some(0, 6),
)
around_changes = st.builds(
    Wanted, some(0, 59, 4), st.frozensets(st.sampled_from([0, 1, 2, 3, 4, 23]), min_size=1, max_size=4)
)


def walked(text: str, zone: str, year: int) -> list[float]:
    schedule = parse_schedule(text, zone=zone)
    here = ZoneInfo(zone)
    moment = datetime(year, 1, 1, tzinfo=here).timestamp() - 1
    result = []
    while (later := schedule.next(moment)) is not None and datetime.fromtimestamp(later, here).year == year:
        result.append(later)
        moment = later
    return result


@pytest.mark.parametrize(
    "zone", [pytest.param(zone, marks=[pytest.mark.exhaustive] * bool(n % 3)) for n, zone in enumerate(ZONES)]
)
def test_a_year_with_both_clock_changes_matches_the_oracle(zone: str) -> None:
    wanted = Wanted(frozenset({0, 30}), frozenset({0, 1, 2, 3, 23}))

    assert walked(wanted.text, zone, 2026) == wanted.instants(2026, ZoneInfo(zone))


@given(around_changes | schedules, st.sampled_from(ZONES), st.integers(1990, 2035))
@examples(0.5)
def test_any_year_of_any_schedule_matches_the_oracle(wanted: Wanted, zone: str, year: int) -> None:
    assert walked(wanted.text, zone, year) == wanted.instants(year, ZoneInfo(zone))


@given(
    around_changes | schedules,
    st.sampled_from(ZONES),
    st.integers(0, 365 * 86400),
    st.integers(0, 40 * 86400),
)
@examples(0.5)
def test_the_latest_time_of_a_span_is_found_without_visiting_all_times(
    wanted: Wanted, zone: str, start_s: int, span_s: int
) -> None:
    after = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + start_s
    until = after + span_s
    here = ZoneInfo(zone)
    among = [at for year in (2025, 2026, 2027) for at in wanted.instants(year, here) if after < at <= until]

    ticks = find_ticks(parse_schedule(wanted.text, zone=zone), after, until, most=10)

    assert ticks.latest == (among[-1] if among else None)
    assert ticks.count == min(len(among), 10)


@given(st.integers(1, 10_000), st.floats(0, 1e6), st.floats(0, 1e6))
def test_intervals_are_counted_from_their_start(seconds: int, after: float, span_s: float) -> None:
    every = parse_schedule(f"@every {seconds}s")
    moments: Sequence[int] = [
        int(after) + number * seconds
        for number in range(1, 2000)
        if int(after) + number * seconds <= int(after) + int(after + span_s - int(after))
    ]

    ticks = find_ticks(every, after, after + span_s, most=1000)

    if len(moments) < 1999:
        assert ticks.latest == (moments[-1] if moments else None)
        assert ticks.count == min(len(moments), 1000)
