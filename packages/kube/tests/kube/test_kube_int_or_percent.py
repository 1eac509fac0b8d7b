"""Int-or-percent fields become whole numbers."""

import pytest

from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve


@pytest.mark.parametrize(
    ("value", "of", "up", "down"),
    [
        ("20%", 10, 2, 2),
        ("12.5%", 10, 2, 1),
        ("0%", 10, 0, 0),
        ("100%", 7, 7, 7),
        ("150%", 3, 5, 4),
        ("50%", 0, 0, 0),
        ("7%", 100, 7, 7),
        ("0.1%", 1000, 1, 1),
        ("33.333%", 3, 1, 0),
        ("-10%", 15, -1, -2),
        ("+5%", 20, 1, 1),
        (".5%", 1000, 5, 5),
        ("99.999999999999999999%", 1, 1, 0),
    ],
)
def test_a_percentage_is_rounded_exactly_once_and_without_floats(
    value: str, of: int, up: int, down: int
) -> None:
    assert resolve(value, of=of, rounding=Rounding.UP) == up
    assert resolve(value, of=of, rounding=Rounding.DOWN) == down


@pytest.mark.parametrize("value", [0, 3, 1000, -2])
def test_a_whole_number_is_returned_unchanged_for_any_total(value: int) -> None:
    assert resolve(value, of=10, rounding=Rounding.UP) == value


@pytest.mark.parametrize(
    "value",
    ["5", "abc%", "%", "", " 5%", "5 %", "5%%", "1e1%", "0x5%", "٥%", "1_0%", True, False, 1.5, None, []],
)
def test_anything_else_is_an_error_that_names_the_value(value: object) -> None:
    with pytest.raises(ValueError, match="neither a whole number nor a percentage such as 50%"):
        resolve(value, of=10, rounding=Rounding.UP)  # type: ignore[arg-type]


def test_only_strings_that_resolve_take_are_percentages() -> None:
    assert is_percent("12.5%")
    assert not is_percent("12.5")
    assert not is_percent(12)
