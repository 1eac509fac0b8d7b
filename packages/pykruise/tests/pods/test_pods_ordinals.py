"""Ordinals of pods; numbers of cases are those of the specification."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pykruise.pods.workload.ordinals import is_wanted, list_wanted_ordinals, reserved_of, split_name
from support.statefulset_builder import created, statefulset


@pytest.mark.parametrize(
    ("reserved", "start", "replicas", "expected"),
    [
        ([], 0, 3, [0, 1, 2]),
        ([1], 0, 4, [0, 2, 3, 4]),  # statefulset case 5
        (["2-5", 7], 0, 4, [0, 1, 6, 8]),  # statefulset case 6
        ([0, 4], 2, 3, [2, 3, 5]),  # statefulset case 7
        ([0, 2, 3, 4, 5], 2, 3, [6, 7, 8]),  # statefulset case 7
        (["0-2000000000"], 0, 2, [2000000001, 2000000002]),
        (["3-5", "4-8", "9-9", 2], 0, 4, [0, 1, 10, 11]),
        ([7], 0, 3, [0, 1, 2]),  # statefulset case 11
        ([0], 0, 0, []),
        (["0-1"], 1, 1, [2]),
        ([], 2147483646, 3, [2147483646, 2147483647]),
    ],
)
def test_wanted_ordinals_exclude_the_reserved_ones(
    reserved: list[int | str], start: int, replicas: int, expected: list[int]
) -> None:
    """statefulset case 5, 6, 7 and 11"""
    assert list_wanted_ordinals(start=start, replicas=replicas, reserved=reserved_of(reserved)) == expected


def test_an_ordinal_beyond_32_bits_is_never_wanted() -> None:
    """statefulset case 21: the ordinal could not be read from the name of such a pod"""
    given: dict[str, Any] = {"start": 2**31 - 2, "replicas": 9, "reserved": reserved_of([])}
    assert [is_wanted(2**31 + more, **given) for more in (-3, -2, -1, 0)] == [False, True, True, False]


def test_the_plan_makes_just_these() -> None:
    """statefulset case 5 and 7"""
    assert created(statefulset(4, pods=False, parallel=True).with_spec(reserveOrdinals=[1]).plan()) == [
        0,
        2,
        3,
        4,
    ]
    started = statefulset(3, pods=False, parallel=True).with_spec(
        reserveOrdinals=[0, 4], ordinals={"start": 2}
    )
    assert created(started.with_settings(start_ordinal=True).plan()) == [2, 3, 5]


def test_pods_start_at_zero_without_the_gate() -> None:
    """statefulset case 8"""
    builder = statefulset(3, pods=False, parallel=True).with_spec(ordinals={"start": 5})
    assert created(builder.plan()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-3", ("web", 3)),
        ("web-a-10", ("web-a", 10)),
        ("web", ("", -1)),
        ("web-x", ("", -1)),
        ("3", ("", -1)),
        ("web-٣", ("", -1)),
        ("web-4294967296", ("web", -1)),  # statefulset case 21
        ("web-00000000001", ("web", -1)),
        ("web-0000000001", ("web", 1)),
        ("web-2147483647", ("web", 2147483647)),
    ],
)
def test_a_pod_name_is_split_into_its_owner_and_ordinal(name: str, expected: tuple[str, int]) -> None:
    """statefulset case 21"""
    assert split_name(name) == expected


def test_invalid_reserved_ordinals_are_reported_and_the_others_count() -> None:
    reserved = reserved_of(["5-2", "a-b", "3-3", 9])
    assert list(reserved.ranges.pairs) == [(3, 3), (9, 9)]
    assert [problem.partition(":")[0] for problem in reserved.problems] == [
        "spec.reserveOrdinals[0]",
        "spec.reserveOrdinals[1]",
    ]


@given(
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=5),
)
def test_is_wanted_agrees_with_the_list_of_wanted_ordinals(
    start: int, replicas: int, pairs: list[tuple[int, int]]
) -> None:
    reserved = reserved_of([f"{first}-{first + more}" for first, more in pairs])
    wanted = list_wanted_ordinals(start=start, replicas=replicas, reserved=reserved)
    result = [n for n in range(100) if is_wanted(n, start=start, replicas=replicas, reserved=reserved)]
    assert result == wanted
