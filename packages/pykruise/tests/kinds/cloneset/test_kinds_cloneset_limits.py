"""The arithmetic of a CloneSet, row by row of the specification's table."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.limits import (
    UNLIMITED,
    CloneSetLimits,
    Mark,
    Numbers,
    limits_of,
    numbers_of,
    tally_of,
)
from pykruise.kinds.cloneset.types import (
    CloneSetSpec,
    RollingUpdate,
    ScaleStrategy,
    UpdateStrategy,
)
from pykruise.kube.schemas.types import LabelSelector
from support.cloneset_marks import marks


def spec(
    replicas: int, *, scale_max_unavailable: int | str | None = None, block: bool = True, **rolling: Any
) -> CloneSetSpec:
    return CloneSetSpec(
        replicas=replicas,
        selector=LabelSelector(),
        template={},
        scale_strategy=ScaleStrategy(max_unavailable=scale_max_unavailable),
        update_strategy=UpdateStrategy(rolling_update=RollingUpdate(**rolling) if block else None),
    )


def amount(text: str) -> int | str:
    return text if text.endswith("%") else int(text)


TABLE = """
5,0,1,0        | n n n n nd     | ready_budget 1
5,0,1,0        | n n n n! nd    | ready_budget 0
4,0,1,0        | n n n n!d n!d  | ready_budget 0
5,3,1,0        | 5o             | update 2, update_budget 1
5,4,2,0        | 4n o           | update -3, update_budget 2
5,0,0,1        | nd 4n          | surge 1, create 1
5,0,0,1        | nd 5n          | surge 1, ready_budget 1
5,3,1,1        | 5o             | surge 1, create 1, update 2, update_budget 1
5,3,1,1        | 5o n!          | surge 1, update 1, update_budget 2
5,3,1,1        | 4o od n!       | surge 1, surge_old 1, ready_budget 1, update 1, update_budget 2
5,3,1,1        | 4o n n!        | remove 1, remove_old 1, ready_budget 1
5,99%,3,2      | 5o             | surge 1, create 1, update 1, update_budget 3
5,99%,30%,30%  | 5o             | surge 1, create 1, update 1, update_budget 1
5,1,1,0 equal  | 3o 3n          | remove 1, remove_old 2, ready_budget 2, update 1, update_budget 2
6,0,1,0 scale2 | 2n n!          | create 3, create_now 1
5,0,0,3 paused | 3o             | create 2, surge 0, update 3, update_budget -2
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_worked_values_of_the_specification(row: str) -> None:
    """cloneset section 6.5; `equal`: current and update revision are the same

    One row differs. Two specified pods of five do not serve: with four wanted and one that may be missing, no
    serving pod may go beside them (the original's table says 2, which the simulator showed to break the budget).
    """
    # given
    setting, pods, expected = (part.strip() for part in row.split("|"))
    values, *words = setting.split()
    replicas, partition, max_unavailable, max_surge = map(amount, values.split(","))
    assert isinstance(replicas, int)
    limits, problems = limits_of(
        spec(
            replicas,
            partition=partition,
            max_unavailable=max_unavailable,
            max_surge=max_surge,
            paused="paused" in words,
            scale_max_unavailable=2 if "scale2" in words else None,
        )
    )
    # when
    numbers = numbers_of(tally_of(marks(pods)), limits, may_roll_back="equal" not in words)
    # then
    assert not problems
    wanted = {name: int(value) for name, value in (part.split() for part in expected.split(", "))}
    assert {name: getattr(numbers, name) for name in wanted} == wanted


FORMULAS = """
4,0,2,3 equal scale2      | 2o!d n!d 3o! | surge 3, surge_old 2, create 1, update 3, update_budget 4
2,1,1,1                   | 2o 2op       | surge 1, remove 1, remove_old 3, ready_budget 1, update 1, update_budget 3
4,3,2,0 equal exclude     | op 2np       | create 4, create_old 3, create_now 4
2,2,2,2 scale3            | np nd        | surge 1, surge_old 1, create 1, create_old 3, create_now 1, ready_budget 1, \
update -1, update_budget 2
1,1,2,3 equal             | n!           |
1,1,0,2 exclude           | 3n           | surge 1, surge_old 1, remove 1, ready_budget 2, update -1, update_budget 2
0,0,2,2 scale1            | o!d n!       | remove 1, ready_budget 2, update 1, update_budget 4
1,0,2,3                   | o!d od       | surge 1, ready_budget 2, update 1, update_budget 3
1,0,0,1 equal             | n o n!d      | surge 1, ready_budget 1
4,0,2,1 equal exclude hand| op o!        | create 3, create_now 3, update 1
0,0,1,1                   | n!d          | ready_budget 1
""".replace("\\\n", "")


@pytest.mark.parametrize("row", FORMULAS.strip().splitlines())
def test_all_limits_equal_the_formulas_of_the_specification(row: str) -> None:
    """cloneset section 6.5, computed by its formulas; a limit without a value here is 0. `hand`: under OnDelete"""
    # given
    setting, pods, expected = (part.strip() for part in row.split("|"))
    values, *words = setting.split()
    replicas, partition, max_unavailable, max_surge = map(int, values.split(","))
    scale = next((int(word.removeprefix("scale")) for word in words if word.startswith("scale")), UNLIMITED)
    limits = CloneSetLimits(
        replicas=replicas,
        partition=partition,
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        scale_max_unavailable=scale,
    )
    # when
    numbers = numbers_of(
        tally_of(marks(pods)),
        limits,
        may_roll_back="equal" not in words,
        exclude_preparing_delete="exclude" in words,
        surge_for_updates="hand" not in words,
    )
    # then
    assert numbers == Numbers(
        **{name: int(value) for name, value in (part.split() for part in expected.split(", ") if part)}
    )


@pytest.mark.parametrize(
    ("replicas", "partition", "expected"),
    [
        (5, None, 0),
        (5, 3, 3),
        (5, 9, 5),
        (2, 5, 2),
        (4, "99%", 3),
        (4, "100%", 4),
        (1, "99%", 1),
        (2, "99%", 1),
        (5, "50%", 3),
        (8, "12.5%", 1),
        (0, "50%", 0),
        (5, "0%", 0),
    ],
)
def test_a_percentage_below_100_allows_at_least_one_pod_to_be_updated(
    replicas: int, partition: int | str | None, expected: int
) -> None:
    """cloneset cases 34 and 61"""
    assert limits_of(spec(replicas, partition=partition))[0].partition == expected


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        ({}, 2),
        ({"max_surge": 1}, 1),
        ({"max_surge": "10%"}, 1),
        ({"max_unavailable": "12.5%"}, 2),
        ({"max_unavailable": "120%"}, 11),
        ({"max_unavailable": "30%", "max_surge": "30%"}, 2),
        ({"max_unavailable": "30%", "max_surge": "30%", "paused": True}, 3),
        ({"block": False}, 2),
        ({"max_unavailable": -1}, 0),
    ],
)
def test_max_unavailable_is_rounded_up_without_surge_and_down_with_it(
    rolling: dict[str, Any], expected: int
) -> None:
    """cloneset case 12; without a rollingUpdate block the default is rounded up too (9.2.6)"""
    assert limits_of(spec(9, **rolling))[0].max_unavailable == expected


def test_fractions_resolve_as_in_admission() -> None:
    """cloneset case 12"""
    assert limits_of(spec(16, max_unavailable="12.5%"))[0].max_unavailable == 2


def test_surge_is_rounded_up_and_off_while_paused() -> None:
    assert limits_of(spec(9, max_surge="10%"))[0].max_surge == 1
    assert limits_of(spec(9, max_surge="10%", paused=True))[0].max_surge == 0


def test_creation_is_unlimited_by_default() -> None:
    assert limits_of(spec(9))[0].scale_max_unavailable == UNLIMITED
    assert limits_of(spec(9, scale_max_unavailable="10%"))[0].scale_max_unavailable == 1


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"partition": "abc"}, "spec.updateStrategy.rollingUpdate.partition"),
        ({"max_unavailable": "5"}, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ({"max_surge": "x%"}, "spec.updateStrategy.rollingUpdate.maxSurge"),
        ({"scale_max_unavailable": "many"}, "spec.scaleStrategy.maxUnavailable"),
        ({"replicas": -1}, "spec.replicas"),
    ],
)
def test_a_value_that_cannot_be_read_is_a_problem_with_its_path_and_never_a_zero(
    fields: dict[str, Any], path: str
) -> None:
    problems = limits_of(spec(**{"replicas": 5, **fields}))[1]
    assert [problem.field for problem in problems] == [path]


def test_terminating_pods_count_unless_excluded() -> None:
    """cloneset case 42"""
    counts = tally_of({Mark(is_new=True): 4, Mark(is_new=True, is_pre_deleting=True): 1})
    limits = CloneSetLimits(replicas=5, max_unavailable=1)
    assert numbers_of(counts, limits).create == 0
    assert numbers_of(counts, limits, exclude_preparing_delete=True).create == 1


def test_on_delete_never_surges_for_an_update_that_it_does_not_make() -> None:
    counts = tally_of({Mark(is_new=False): 5})
    limits = CloneSetLimits(replicas=5, max_unavailable=1, max_surge=2)
    assert numbers_of(counts, limits, surge_for_updates=False) == Numbers(update=5, update_budget=1)
    assert numbers_of(counts, limits).surge == 2


def test_a_raised_partition_moves_nothing_back_without_the_rollback_gate() -> None:
    """cloneset cases 63 and 64"""
    counts = tally_of({Mark(is_new=True): 2, Mark(is_new=False): 3})
    limits = CloneSetLimits(replicas=5, partition=5, max_unavailable=1)
    assert numbers_of(counts, limits).update == 0
    assert numbers_of(counts, limits, may_roll_back=True).update == -2


def test_more_pods_than_a_cluster_can_have_are_a_problem_and_no_number() -> None:
    assert [str(limit) for limit in limits_of(spec(150_000))[1]] == []
    problems = [str(limit) for limit in limits_of(spec(2_147_483_647))[1]]
    assert problems == ["spec.replicas: 2147483647 is more than the 150000 pods that a cluster can have"]
