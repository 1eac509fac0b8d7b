"""Marks: the facts about a pod for the decisions of its CloneSet."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.limits import MARKS, Mark
from pykruise.kinds.cloneset.working_set import marks_of
from pykruise.pods.view.pod_view import PodView

NOW = 1_000.0


def mark_of(*, min_ready_seconds: int = 0, to_delete: tuple[str, ...] = (), **fields: Any) -> Mark:
    """The mark of one pod."""
    pod = PodView(namespace="default", name="web-a", uid="uid-a", resource_version=5, **fields)
    (mark,) = marks_of(
        [pod], update="new", to_delete=frozenset(to_delete), min_ready_seconds=min_ready_seconds, now=NOW
    )
    return mark


def facts_of(mark: Mark) -> set[str]:
    """The names of the fields that are true."""
    return {field for field in mark.__struct_fields__ if getattr(mark, field)}


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"revision": "old"}, set()),
        ({"revision": "new"}, {"is_new"}),
        ({"state": "PreparingDelete"}, {"is_pre_deleting"}),
        ({"is_specified_delete": True}, {"is_to_delete"}),
        ({"is_serving": True}, {"is_available"}),
        ({"is_ready": True}, {"is_ready"}),
        ({"revision": "new", "is_serving": True, "is_ready": True}, {"is_new", "is_available", "is_ready"}),
    ],
)
def test_each_fact_of_a_pod_sets_its_own_field_of_the_mark(fields: dict[str, Any], facts: set[str]) -> None:
    assert facts_of(mark_of(**fields)) == facts


def test_each_mark_is_one_object_whose_fields_are_its_key() -> None:
    assert {tuple(getattr(mark, field) for field in mark.__struct_fields__) for mark in MARKS.values()} == {
        *MARKS
    }
    for mark in MARKS.values():
        assert facts_of(mark.as_new()) == facts_of(mark) | {"is_new"}
        assert facts_of(mark.as_specified()) == facts_of(mark) | {"is_to_delete"}
        assert {mark.as_new(), mark.as_specified()} <= {*MARKS.values()}


@pytest.mark.parametrize(
    ("min_ready_seconds", "ready_since", "is_available"),
    [
        (0, None, True),
        (0, NOW, True),
        (1, NOW, False),
        (10, None, False),
        (10, NOW - 9, False),
        (10, NOW - 10, True),
    ],
)
def test_a_pod_is_available_once_it_has_been_ready_for_long_enough(
    min_ready_seconds: int, ready_since: float | None, is_available: bool
) -> None:
    mark = mark_of(
        min_ready_seconds=min_ready_seconds, is_serving=True, is_ready=True, ready_since=ready_since
    )
    assert facts_of(mark) == {"is_ready"} | ({"is_available"} if is_available else set())


def test_pods_to_delete_names_pods() -> None:
    assert facts_of(mark_of(to_delete=("web-a",))) == {"is_to_delete"}
    assert facts_of(mark_of(to_delete=("web-b",))) == set()
