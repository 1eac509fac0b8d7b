"""Numbers of pods that subsets get: the tables of the specification, and the meaning of the fields."""

from itertools import permutations
from typing import Any

import pytest

from pykruise.kinds.uniteddeployment.allocation import (
    AllocationError,
    Mode,
    SubsetShare,
    allocate,
    resolve_amount,
)

MARKED = "was unschedulable, and has no reserved pod left"


def fixed(replicas: int | None, *shares: SubsetShare) -> list[int]:
    return list(allocate(shares, replicas=replicas).values())


def share(name: str, *, current: int | None = None, **asks: Any) -> SubsetShare:
    return SubsetShare(name=name, current=current, **asks)


def sized(*current: int | None, **replicas: Any) -> list[SubsetShare]:
    """Subsets t1, t2, … with workloads of these sizes; some subsets specify their replicas."""
    return [
        share(f"t{number}", current=value, replicas=replicas.get(f"t{number}"))
        for number, value in enumerate(current, 1)
    ]


def bounded(least: list[Any], most: list[Any], **more: list[Any]) -> list[SubsetShare]:
    """Subsets with these minimums and maximums; `more`: further fields, a list of values for each."""
    return [
        SubsetShare(
            name=f"t{number + 1}",
            min_replicas=least[number],
            max_replicas=most[number],
            **{name: values[number] for name, values in more.items()},
        )
        for number in range(len(least))
    ]


@pytest.mark.parametrize(
    ("value", "of", "meant"),
    [
        (0, None, 0),
        (7, 3, 7),
        ("50%", 5, 3),
        ("50%", 3, 2),
        ("25%", 1, 0),
        ("49%", 1, 0),
        ("0%", 9, 0),
        ("100%", 9, 9),
        ("100%", 1000, 1000),
    ],
)
def test_a_number_is_itself_and_half_of_a_pod_is_rounded_up(value: Any, of: Any, meant: int) -> None:
    assert resolve_amount(value, of=of) == meant


@pytest.mark.parametrize("value", ["101%", "-1", "1.5%", "3", -1, "", "%", "-5%", True, "٣%"])
def test_an_invalid_amount_is_refused(value: Any) -> None:
    """uniteddeployment case 8"""
    with pytest.raises(ValueError, match=r".+"):
        resolve_amount(value, of=10)


def test_a_percentage_needs_replicas_to_be_a_share_of() -> None:
    with pytest.raises(ValueError, match=r"spec\.replicas"):
        resolve_amount("50%", of=None)


# ── equal parts ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("current", "replicas", "result"),
    [
        ((1, 4, 2, 2), 5, [1, 2, 1, 1]),
        ((1, 4, 2, 2), 17, [4, 5, 4, 4]),
        ((0, 10), 19, [9, 10]),
        ((0, 10), 21, [10, 11]),
        ((None, None, None), 6, [2, 2, 2]),
        ((1, None), 1, [1, 0]),
    ],
)
def test_the_odd_pods_stay_with_the_subsets_that_are_larger(
    current: tuple[int | None, ...], replicas: int, result: list[int]
) -> None:
    """uniteddeployment case 31"""
    assert fixed(replicas, *sized(*current)) == result


def test_subsets_with_specified_replicas_are_allocated_first() -> None:
    assert fixed(27, *sized(1, 4, 2, 2, t1=4, t3=4)) == [4, 10, 4, 9]


@pytest.mark.parametrize(("replicas", "result"), [(3, [1, 1, 1]), (4, [1, 1, 2]), (1, [0, 0, 1])])
def test_percentages_leave_the_rest_to_the_other_subsets(replicas: int, result: list[int]) -> None:
    """uniteddeployment case 32"""
    assert fixed(replicas, *sized(None, None, None, t1="25%", t2="25%")) == result


def test_equal_parts_do_not_depend_on_the_order_of_subsets() -> None:
    shares = sized(1, 4, 2, 2)
    results = [allocate(order, replicas=10) for order in permutations(shares)]
    assert all(result == results[0] for result in results)


def test_whole_percentages_are_rounded_so_that_no_pod_is_lost() -> None:
    """uniteddeployment case 35"""
    assert fixed(3, *sized(2, 2, t1="50%", t2="50%")) == [2, 1]
    assert fixed(1, *sized(2, 2, 2, t1="33%", t2="33%", t3="34%")) == [0, 0, 1]
    assert fixed(300, *sized(2, 2, 2, t1="50%", t2="25%", t3="25%")) == [150, 75, 75]


@pytest.mark.parametrize(
    ("replicas", "shares"),
    [
        (6, sized(4, 4, t1=4, t2=4)),
        (9, sized(4, 4, t1=4, t2=4)),
        (None, sized(4, 4, t1=4)),
        (10, sized(2, 2, t1="40%", t2="50%")),
    ],
)
def test_unsatisfiable_subset_sizes_are_an_error(replicas: int | None, shares: list[SubsetShare]) -> None:
    """uniteddeployment case 36"""
    with pytest.raises(AllocationError, match=r"replicas"):
        allocate(shares, replicas=replicas)


def test_the_subset_sizes_apply_without_total_replicas() -> None:
    assert fixed(None, *sized(None, None, t1=2, t2=3)) == [2, 3]


def test_no_subsets_take_no_replicas() -> None:
    assert fixed(3) == []


def test_an_unreadable_subset_size_counts_as_unspecified() -> None:
    assert fixed(6, *sized(1, 1, t1="many")) == [3, 3]


# ── minimums and maximums ────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("least", "most", "replicas", "result"),
    [
        ([2] * 5, [5, 5, 5, 5, None], 10, [2, 2, 2, 2, 2]),
        ([2] * 5, [5, 5, 5, 5, None], 14, [5, 3, 2, 2, 2]),
        ([2] * 5, [5, 5, 5, 5, None], 5, [2, 2, 1, 0, 0]),
        ([1, 1, 1], [2, 2, None], 7, [2, 2, 3]),
        ([1, 1, 1], [2, 2, None], 1, [1, 0, 0]),
        (["50%", 0], [None, None], 3, [3, 0]),
        ([0, "50%"], [1, None], 3, [1, 2]),
        ([0, "50%"], [1, None], 5, [1, 4]),
        ([0, 0], [2, 2], 9, [2, 2]),
        (["many", 1], [None, None], 1, [0, 1]),
        ([0, 0], ["many", None], 3, [3, 0]),
    ],
)
def test_minimums_first_and_then_up_to_the_maximums(
    least: list[Any], most: list[Any], replicas: int, result: list[int]
) -> None:
    """uniteddeployment case 33"""
    assert fixed(replicas, *bounded(least, most)) == result


def test_a_minimum_in_percent_follows_the_replicas() -> None:
    """uniteddeployment case 34"""
    shares = bounded([0, "50%"], [None, None])
    assert [allocate(shares, replicas=replicas)["t2"] for replicas in (3, 5)] == [2, 3]


@pytest.mark.parametrize("mode", Mode)
def test_subsets_with_bounds_get_no_pods_without_replicas(mode: Mode) -> None:
    assert allocate(bounded([2, 0], [3, None]), replicas=None, mode=mode) == {"t1": 0, "t2": 0}


def test_a_minimum_above_the_maximum_is_an_error() -> None:
    with pytest.raises(AllocationError, match="t1"):
        allocate(bounded([3, 0], [2, None]), replicas=4)


# ── adaptive ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("current", "pending", "least", "most", "replicas", "result"),
    [
        ([5, 5], [5, 0], [3, 0], [5, None], 10, [3, 7]),
        ([5, 5], [4, 0], [3, 0], [5, None], 10, [3, 7]),
        ([5, 5], [3, 0], [3, 0], [5, None], 10, [3, 7]),
        ([2, 2], [0, 0], [1, 0], [2, None], 3, [2, 1]),
        ([1, 3], [1, 0], [1, 0], [2, None], 3, [1, 2]),
        ([2, 2, 0, 0], [0, 2, 0, 0], [0] * 4, [2, None, None, None], 4, [2, 0, 2, 0]),
        ([2, 0, 0, 2], [0] * 4, [0] * 4, [2, None, None, None], 8, [2, 4, 0, 2]),
        ([2, 0, 0, 6], [0] * 4, [0] * 4, [None] * 4, 4, [2, 0, 0, 2]),
    ],
)
def test_a_subset_without_nodes_keeps_its_ready_pods_and_others_get_the_rest(
    current: list[int], pending: list[int], least: list[Any], most: list[Any], replicas: int, result: Any
) -> None:
    """uniteddeployment cases 47 and 49"""
    shares = bounded(
        least,
        most,
        current=current,
        ready=[size - waiting for size, waiting in zip(current, pending, strict=True)],
        is_unschedulable=[waiting > 0 for waiting in pending],
    )
    rest = allocate(shares, replicas=replicas, mode=Mode.ADAPTIVE)
    assert list(rest.values()) == result
    assert sum(rest.values()) == replicas


def test_a_subset_without_a_workload_can_take_pods() -> None:
    shares = bounded([0, 0], [None, None], current=[4, None], ready=[1, 0], is_unschedulable=[True, False])
    assert allocate(shares, replicas=4, mode=Mode.ADAPTIVE) == {"t1": 1, "t2": 3}


def test_a_pod_that_becomes_ready_after_its_replica_moved_does_not_move_it_back() -> None:
    # given
    before = bounded([0, 0], [None, None], current=[0, 1], ready=[0, 0])
    moved = allocate(before, replicas=1, mode=Mode.ADAPTIVE)
    assert moved == {"t1": 1, "t2": 0}
    # when
    after = bounded([0, 0], [None, None], current=list(moved.values()), ready=[0, 1])
    # then
    assert allocate(after, replicas=1, mode=Mode.ADAPTIVE) == moved


@pytest.mark.parametrize("is_unschedulable", [False, True])
def test_pods_that_a_rollout_has_beyond_the_size_keep_no_place(is_unschedulable: bool) -> None:
    # given
    shares = bounded(
        [0, 0], [2, None], current=[2, 2], ready=[1, 3], is_unschedulable=[False, is_unschedulable]
    )
    # when
    result = allocate(shares, replicas=4, mode=Mode.ADAPTIVE)
    # then
    assert result == {"t1": 2, "t2": 2}


# ── pods in reserve ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("current", "reserved", "least", "most", "replicas", "result"),
    [
        ([2, 2, 2, 2], [0, 2, 2, 0], [1] * 4, [2, 2, 2, None], 8, [2, 2, 2, 6]),
        ([2, 2, 2, 6], [0, 1, 1, 0], [1] * 4, [2, 2, 2, None], 8, [2, 2, 2, 4]),
        ([2, 2, 2, 4], [0, MARKED, 1, 0], [1] * 4, [2, 2, 2, None], 8, [2, 2, 2, 3]),
        ([2, 2, 2, 6], [0, 1, 1, 0], [2] * 4, [4, 4, 4, None], 16, [4, 2, 2, 10]),
        ([4, 2, 2, 10], [0, MARKED, MARKED, 0], [2] * 4, [4, 4, 4, None], 16, [4, 4, 4, 8]),
        ([2, 0, 0], [2, 0, 0], [0] * 3, [None] * 3, 2, [2, 2, 0]),
        ([2, 2, 4], [4, MARKED, 0], [0] * 3, [None] * 3, 4, [2, 4, 2]),
        ([2, 2, 1], [0, 1, 0], [0] * 3, [None] * 3, 2, [2, 0, 0]),
        ([1, 1, 2], [MARKED, 1, 0], [1, 1, 0], [None] * 3, 2, [2, 1, 1]),
    ],
)
def test_pods_in_reserve_have_substitutes(
    current: list[int], reserved: list[Any], least: list[Any], most: list[Any], replicas: int, result: Any
) -> None:
    """uniteddeployment cases 52 to 54"""
    shares = bounded(
        least,
        most,
        current=current,
        reserved=[0 if item is MARKED else item for item in reserved],
        is_unschedulable=[item is not MARKED and item > 0 for item in reserved],
        was_unschedulable=[item is MARKED or item > 0 for item in reserved],
    )
    assert list(allocate(shares, replicas=replicas, mode=Mode.RESERVE).values()) == result


def test_a_raised_minimum_of_a_subset_without_nodes_is_kept() -> None:
    shares = bounded(
        [3, 0], [None, None], current=[1, 4], reserved=[1, 0], is_unschedulable=[True, False], ready=[0, 4]
    )
    assert allocate(shares, replicas=5, mode=Mode.RESERVE) == {"t1": 3, "t2": 5}
