"""Ordinals of StatefulSets' pods: those that exist, and the next ones."""

from itertools import islice
from typing import Any

import pytest

from pykruise.kinds.workloadspread.ordinals import iterate_ordinals_beyond, numbering_of, ordinal_of, rank_of


@pytest.mark.parametrize(
    ("name", "number"), [("web-0", 0), ("a-1-12", 12), ("web", -1), ("web-x", -1), ("web-1x", -1), ("", -1)]
)
def test_the_number_of_a_pod_is_at_the_end_of_its_name(name: str, number: int) -> None:
    assert ordinal_of(name) == number


@pytest.mark.parametrize(
    ("spec", "replicas", "following"),
    [
        ({}, 0, [0, 1, 2]),
        ({}, 3, [3, 4, 5]),
        ({"reserveOrdinals": []}, 3, [3, 4, 5]),
        ({"ordinals": {"start": 10}}, 3, [13, 14, 15]),
        # three of 0, 1, 4, 5, 8, ...
        ({"reserveOrdinals": ["2-3", 6, "7"]}, 3, [5, 8, 9]),
        ({"reserveOrdinals": ["2-3", 6, "7"]}, 1, [1, 4, 5]),
        ({"reserveOrdinals": ["2-3", 6, "7"]}, 4, [8, 9, 10]),
        # three of 2, 5, 6, ...
        ({"reserveOrdinals": [" 3 - 4 ", 0], "ordinals": {"start": 2}}, 3, [7, 8, 9]),
        # unreadable values are ignored
        ({"reserveOrdinals": ["x", None, {}], "ordinals": {"start": "x"}}, 1, [1, 2, 3]),
        ({"reserveOrdinals": None, "ordinals": None}, 1, [1, 2, 3]),
    ],
)
def test_reserved_ordinals_are_not_among_the_next_ones_lift_10(
    spec: Any, replicas: int, following: list[int]
) -> None:
    numbering = numbering_of({"spec": spec})
    result = list(islice(iterate_ordinals_beyond(replicas, numbering), 3))
    assert result == following
    # and exactly `replicas` pods have smaller ordinals
    assert [rank_of(item, numbering) for item in result] == [replicas, replicas + 1, replicas + 2]


def test_a_missing_stateful_set_starts_its_ordinals_at_0() -> None:
    assert list(islice(iterate_ordinals_beyond(1, numbering_of(None)), 2)) == [1, 2]
