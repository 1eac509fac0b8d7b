"""Quantities: exact values, canonical text."""

from fractions import Fraction

import pytest

from pykruise.kube.values.quantities import (
    Family,
    Quantity,
    format_quantity,
    is_same_quantity,
    parse_quantity,
    round_up_to_milli,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1500m", Fraction(3, 2)),
        ("0.1", Fraction(1, 10)),
        ("1Ki", Fraction(1024)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("12e6", Fraction(12_000_000)),
        ("1E3", Fraction(1000)),
        ("2E", Fraction(2 * 10**18)),
        ("1n", Fraction(1, 10**9)),
        ("-5u", Fraction(-5, 10**6)),
        ("+7", Fraction(7)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1e-3", Fraction(1, 1000)),
        (2, Fraction(2)),
        (0.5, Fraction(1, 2)),
    ],
)
def test_a_quantity_is_read_exactly(text: str | int | float, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Mi", "512Ki"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1000k", "1M"),
        ("0.5Ki", "512"),
        ("0.5m", "500u"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1000e3", "1e6"),
        ("1e2", "100"),
        ("1.1Ki", "1126400m"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("16Ei", "9223372036854775807"),
    ],
)
def test_canonical_text_keeps_the_family_and_has_no_fraction(text: str, canonical: str) -> None:
    assert format_quantity(text) == canonical


@pytest.mark.parametrize("text", ["1.500", "1E3", "+1", "1030Mi"])
def test_text_that_kubernetes_keeps_as_written_is_kept(text: str) -> None:
    assert format_quantity(text) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "quantities must match the regular expression"),
        ("1.2.3", "quantities must match the regular expression"),
        ("1 Gi", "quantities must match the regular expression"),
        ("abc", "quantities must match the regular expression"),
        ("1i", "unable to parse quantity's suffix"),
        ("1kk", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999", "unable to parse quantity's suffix"),
        (True, "quantities must match the regular expression"),
        (None, "quantities must match the regular expression"),
        (float("nan"), "quantities must match the regular expression"),
    ],
)
def test_an_invalid_quantity_is_refused_in_kubernetes_words(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_quantity(text)


def test_an_amount_finer_than_a_thousandth_is_rounded_away_from_zero() -> None:
    assert round_up_to_milli("100u") == "1m"
    assert round_up_to_milli("-100u") == "-1m"
    assert round_up_to_milli("1.0001") == "1001m"
    assert round_up_to_milli("0.001Ki") == "1024m"
    assert round_up_to_milli("250m") == "250m"
    assert round_up_to_milli("1.500") == "1.500"


def test_an_amount_finer_than_a_billionth_is_not_lost() -> None:
    assert parse_quantity("0.1n") == Fraction(1, 10**9)
    assert parse_quantity("-0.1n") == Fraction(-1, 10**9)


def test_quantities_compare_by_amount_across_suffixes() -> None:
    # given
    quantity, thousand_milli, two = Quantity.parse("1"), Quantity.parse("1000m"), Quantity.parse("2")
    # then
    assert quantity == thousand_milli
    assert hash(quantity) == hash(thousand_milli)
    assert quantity < two
    assert max(quantity, two) is two
    assert quantity != "1"
    assert is_same_quantity("1Gi", "1024Mi")
    assert not is_same_quantity("1G", "1Gi")


def test_sums_are_written_in_the_family_of_the_first_that_is_not_zero() -> None:
    # given
    gib, million, zero = Quantity.parse("1Gi"), Quantity.parse("1M"), Quantity.parse("0")
    # then
    assert str(gib + gib) == "2Gi"
    assert str(zero + gib) == "1Gi"
    assert str(million + gib) == "1074741824"
    assert str(gib - gib) == "0"
    assert str(-million) == "-1M"
    assert (zero + gib).family is Family.BINARY


def test_whole_and_milli_values_round_away_from_zero() -> None:
    assert Quantity.parse("1.2").whole == 2
    assert Quantity.parse("-1.2").whole == -2
    assert Quantity.parse("100u").milli == 1
    assert Quantity.parse("2").milli == 2000


@pytest.mark.parametrize("text", ["1" * 5_000, "0." + "1" * 5_000, "1" * 3_500 + "e900", "1e" + "9" * 5_000])
def test_quantities_with_too_many_digits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"at most 4000 digits|unable to parse quantity's suffix"):
        Quantity.parse(text)


def test_a_long_invalid_quantity_is_refused_without_backtracking() -> None:
    """The pattern matches in one pass, without backtracking from digits to an exponent."""
    with pytest.raises(ValueError, match="quantities must match"):
        Quantity.parse("1" * 200_000 + "x")
