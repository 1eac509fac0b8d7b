"""Invariants of all quantities, selectors, percentages and encoded names."""

import random
from fractions import Fraction
from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.values.field_selectors import escape_field_value, parse_field_selector
from pykruise.kube.values.hashing import ALPHABET, draw_suffix, encode_safely, hash_fnv32, hash_fnv32a
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.kube.values.quantities import Quantity, parse_quantity, round_up_to_milli
from pykruise.kube.values.selectors import SelectorError, parse_label_selector, parse_selector

suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E3", "e-3", "e2", "e-1"]
)
quantity_texts = st.builds(
    lambda sign, digits, fraction, suffix: f"{sign}{digits}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**6),
    st.one_of(st.just(""), st.integers(0, 9999).map(lambda digits: f".{digits}")),
    suffixes,
)


@given(quantity_texts)
def test_canonical_text_is_equal_and_canonical(text: str) -> None:
    # given
    quantity = Quantity.parse(text)
    # when
    again = Quantity.parse(str(quantity))
    # then
    assert again == quantity
    assert str(again) == str(quantity)


@given(quantity_texts, quantity_texts)
def test_quantities_are_ordered_and_added_as_their_amounts(left: str, right: str) -> None:
    # given
    quantity, other = Quantity.parse(left), Quantity.parse(right)
    # then
    assert (quantity < other) == (quantity.amount < other.amount)
    assert (quantity + other).amount == quantity.amount + other.amount
    assert parse_quantity(str(quantity - other)) == quantity.amount - other.amount


@given(quantity_texts)
def test_rounding_up_to_milli_loses_less_than_a_thousandth_and_never_shrinks(text: str) -> None:
    # given
    exact, rounded = parse_quantity(text), parse_quantity(round_up_to_milli(text))
    # then
    assert abs(exact) <= abs(rounded) < abs(exact) + Fraction(1, 1000)
    assert (rounded * 1000).denominator == 1


@given(st.integers(-300, 300), st.integers(0, 999), st.integers(0, 100_000))
def test_a_percentage_is_the_exact_share_rounded_once(percent: int, thousandths: int, of: int) -> None:
    # given
    text = f"{percent}.{thousandths:03}%"
    exact = Fraction(text[:-1]) * of / 100
    # then
    assert resolve(text, of=of, rounding=Rounding.UP) == ceil(exact)
    assert resolve(text, of=of, rounding=Rounding.DOWN) == floor(exact)


label_keys = st.sampled_from(["a", "b", "x.io/c", "in", "notin"])
label_values = st.sampled_from(["", "1", "7", "v", "in", "w.x_y-z"])
requirements = st.one_of(
    label_keys,
    label_keys.map(lambda key: f"!{key}"),
    st.builds(
        lambda key, op, value: f"{key}{op}{value}",
        label_keys,
        st.sampled_from(["=", "==", "!="]),
        label_values,
    ),
    st.builds(lambda key, op, n: f"{key}{op}{n}", label_keys, st.sampled_from("><"), st.integers(0, 9)),
    st.builds(
        lambda key, op, values: f"{key} {op} ({','.join(values)})",
        label_keys,
        st.sampled_from(["in", "notin"]),
        st.lists(label_values, max_size=3),
    ),
)
label_sets = st.dictionaries(label_keys, label_values, max_size=4)


@given(st.lists(requirements, max_size=4), label_sets)
def test_canonical_selectors_read_back_and_select_the_same(parts: list[str], labels: dict[str, str]) -> None:
    # given
    selector = parse_label_selector(" , ".join(parts))
    # when
    again = parse_label_selector(str(selector))
    # then
    assert str(again) == str(selector)
    assert again.matches(labels) == selector.matches(labels)
    assert selector.matches(labels) == all(parse_label_selector(part).matches(labels) for part in parts)


@given(st.text(alphabet="ab=!(),<> \tin-/\0é", max_size=12))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except SelectorError:
        return
    assert str(parse_label_selector(str(selector))) == str(selector)


@given(label_sets, label_sets)
def test_match_labels_select_objects_with_all_of_the_labels(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    assert parse_selector({"matchLabels": wanted}).matches(labels) == (wanted.items() <= labels.items())


@given(st.dictionaries(st.sampled_from(["metadata.name", "status.phase"]), st.text(max_size=6), min_size=1))
def test_any_value_can_be_escaped_into_a_field_selector(fields: dict[str, str]) -> None:
    # given
    selector = parse_field_selector(
        ",".join(f"{name}={escape_field_value(value)}" for name, value in fields.items())
    )
    # then
    assert selector.matches(lambda name: fields.get(name, ""))
    assert {term.field: term.value for term in selector.requirements} == fields
    assert parse_field_selector(str(selector)) == selector


@given(st.binary(max_size=64))
def test_hashes_are_32_bits_and_differ_only_by_their_order_of_steps(data: bytes) -> None:
    # given
    item = one_a = 2166136261
    for byte in data:
        item = ((item * 16777619) % 2**32) ^ byte
        one_a = ((one_a ^ byte) * 16777619) % 2**32
    # then
    assert (hash_fnv32(data), hash_fnv32a(data)) == (item, one_a)


@given(st.binary(max_size=32), st.integers(0, 2**32), st.integers(0, 12))
def test_encoded_and_random_text_is_safe_in_names(data: bytes, seed: int, length: int) -> None:
    assert len(encode_safely(data)) == len(data)
    assert set(encode_safely(data)) <= set(ALPHABET)
    assert len(draw_suffix(random.Random(seed), length)) == length
