"""Durations in the notation of Go programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.values.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("2m0s", 120), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400), ("0", 0), ("-5s", -5)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "abc", "5 s", "s", "--5s", "5s1", "1d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_formatted_duration_is_parsed_to_the_same_value(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
