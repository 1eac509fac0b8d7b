"""What is true of a pod when its CloneSet decides, as bits."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.working_set import Mark, marks_of
from pykruise.pods.view.pod_view import PodView

NOW = 1_000.0


def marks(*, min_ready_seconds: int = 0, to_delete: tuple[str, ...] = (), **fields: Any) -> int:
    """Of one pod."""
    pod = PodView(namespace="default", name="web-a", uid="uid-a", resource_version=5, **fields)
    (marks,) = marks_of(
        [pod], update="new", to_delete=frozenset(to_delete), min_ready_seconds=min_ready_seconds, now=NOW
    )
    return marks


@pytest.mark.parametrize(
    ("fields", "mark"),
    [
        ({"revision": "old"}, 0),
        ({"revision": "new"}, Mark.NEW),
        ({"state": "PreparingDelete"}, Mark.PRE_DELETING),
        ({"is_specified_delete": True}, Mark.TO_DELETE),
        ({"is_serving": True}, Mark.AVAILABLE),
        ({"is_ready": True}, Mark.READY),
        ({"revision": "new", "is_serving": True, "is_ready": True}, Mark.NEW | Mark.AVAILABLE | Mark.READY),
    ],
)
def test_each_thing_that_counts_is_a_bit_of_its_own(fields: dict[str, Any], mark: int) -> None:
    assert marks(**fields) == mark


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
    number = marks(
        min_ready_seconds=min_ready_seconds, is_serving=True, is_ready=True, ready_since=ready_since
    )
    assert number == Mark.READY | (Mark.AVAILABLE if is_available else 0)


def test_pods_to_delete_names_pods() -> None:
    assert (marks(to_delete=("web-a",)), marks(to_delete=("web-b",))) == (Mark.TO_DELETE, 0)
