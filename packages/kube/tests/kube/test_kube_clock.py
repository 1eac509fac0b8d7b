"""Times at the ends of the calendar: they can be read, computed with and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.clock import LAST, format_micro_time, format_time, parse_optional_time, parse_time
from pykruise.kube.values.cron import find_ticks, parse_schedule
from support.examples import examples


@given(instant=st.one_of(st.floats(allow_nan=False), st.integers(-(2**63), 2**63).map(float)))
@examples(1)
def test_any_instant_can_be_written_and_what_is_written_can_be_read(instant: float) -> None:
    assert parse_time(format_time(instant)) <= LAST
    assert parse_time(format_micro_time(instant)) <= LAST


def test_the_bound_is_a_year() -> None:
    assert format_time(LAST) == format_time(2.0**63) == "9970-01-01T00:00:00Z"
    assert parse_time("9999-12-31T23:59:59Z") == LAST
    assert parse_time("9969-12-31T23:59:59Z") == LAST - 1


@pytest.mark.parametrize("text", ["* * * * *", "0 0 29 2 *", "@every 1h"])
def test_a_schedule_after_the_end_of_the_calendar_raises_no_error(text: str) -> None:
    schedule = parse_schedule(text, zone="Pacific/Kiritimati")
    ticks = find_ticks(schedule, parse_time("9999-12-31T23:59:59Z"), 2.0**63, most=3)
    assert ticks.latest is None or ticks.latest > LAST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("2026-01-31T12:00:00Z", parse_time("2026-01-31T12:00:00Z")),
    ],
)
def test_an_unreadable_time_is_none(text: str | None, expected: float | None) -> None:
    assert parse_optional_time(text) == expected
