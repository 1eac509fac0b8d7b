"""Sets of numbers as ranges: their members, and operations that never list the numbers."""

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.values.ranges import merge_ranges

PAIRS = st.lists(st.tuples(st.integers(-5, 40), st.integers(-5, 40)), max_size=8)


@given(PAIRS)
def test_ranges_hold_what_a_set_of_their_numbers_holds(pairs: list[tuple[int, int]]) -> None:
    # given
    numbers = {number for first, last in pairs for number in range(first, last + 1)}
    # when
    ranges = merge_ranges(pairs)
    # then
    assert {number for number in range(-10, 50) if number in ranges} == numbers
    assert [ranges.count_below(bound) for bound in range(-10, 50)] == [
        sum(number < bound for number in numbers) for bound in range(-10, 50)
    ]


@given(PAIRS, st.integers(-10, 45))
def test_gaps_are_what_the_ranges_leave_out(pairs: list[tuple[int, int]], start: int) -> None:
    # given
    ranges = merge_ranges(pairs)
    # when
    gaps = list(ranges.iterate_gaps(start))
    # then
    free = [number for first, last in gaps for number in range(first, 50 if last is None else last + 1)]
    assert free == [number for number in range(start, 50) if number not in ranges]
    assert gaps[-1][1] is None


def test_adjacent_ranges_are_merged() -> None:
    assert list(merge_ranges([(6, 7), (3, 5), (9, 9), (2, 1)]).pairs) == [(3, 7), (9, 9)]


def test_a_range_costs_the_same_for_any_number_of_values() -> None:
    # given a range that no memory has room for, number by number
    ranges = merge_ranges([(0, 10**30)])
    # then
    assert 10**29 in ranges
    assert ranges.count_below(10**30) == 10**30
    assert list(ranges.iterate_gaps(5)) == [(10**30 + 1, None)]
