"""The condition of a workload that waits, and its reason."""

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import (
    condition_of,
    drop_conditions,
    find_pod_wait,
    find_strategy_wait,
    set_condition,
    set_waiting,
)
from pykruise.runtime.reasons import Reason

NOW = parse_time("2026-01-31T12:00:00Z")
BEFORE = "2026-01-31T11:00:00Z"
WAITS = Reason(Code.IMAGE_PULL, "cannot pull its image", "look at the registry")


def pod(name: str) -> PodView:
    return PodView(namespace="shop", name=name, uid=name, resource_version=1)


def condition(kind: str, status: str = "True", reason: str = "") -> PlainCondition:
    return PlainCondition(type=kind, status=status, reason=reason, last_transition_time=BEFORE)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([Code.IMAGE_PULL], "pod a: cannot pull its image"),
        ([Code.IMAGE_PULL, Code.UNSCHEDULABLE], "pod a: cannot pull its image"),
        (
            [Code.IMAGE_PULL, Code.UNSCHEDULABLE, Code.IMAGE_PULL, Code.IMAGE_PULL],
            "pod a (and 2 more): cannot pull its image",
        ),
    ],
)
def test_the_first_pod_is_named_and_other_blocked_pods_are_counted(codes: list[Code], message: str) -> None:
    obstacles = [
        (pod(name), Reason(code, "cannot pull its image", f"remedy of {name}"))
        for name, code in zip("abcd", codes, strict=False)
    ]
    assert find_pod_wait(obstacles) == Reason(Code.IMAGE_PULL, message, "remedy of a")


def test_no_pod_is_waited_for_without_obstacles() -> None:
    assert find_pod_wait([]) is None


@pytest.mark.parametrize(
    ("is_on_delete", "is_paused", "code"),
    [(False, False, None), (True, False, "OnDelete"), (False, True, "Paused"), (True, True, "OnDelete")],
)
def test_a_strategy_may_keep_old_pods(is_on_delete: bool, is_paused: bool, code: str | None) -> None:
    reason = find_strategy_wait("2 pods are old", is_on_delete=is_on_delete, is_paused=is_paused)
    assert (reason.code if reason else None) == code
    assert reason is None or reason.message.startswith("2 pods are old, and ")


def test_the_waiting_condition_exists_only_while_something_is_awaited() -> None:
    # given
    others = [condition("FailedScale"), condition("FailedUpdate", "False")]
    # when
    waiting = set_waiting(others, WAITS, now=NOW)
    # then
    assert waiting[:2] == others
    assert (waiting[2].type, waiting[2].status, waiting[2].reason) == ("Waiting", "True", "ImagePull")
    assert waiting[2].message == WAITS.condition_message
    assert waiting[2].last_transition_time == "2026-01-31T12:00:00Z"
    assert set_waiting(waiting, None, now=NOW) == others


@pytest.mark.parametrize(
    ("before", "since"),
    [
        ([], "2026-01-31T12:00:00Z"),
        ([condition("Other")], "2026-01-31T12:00:00Z"),
        ([condition("Failed", "False")], "2026-01-31T12:00:00Z"),
        ([condition("Failed", "True", "Other")], BEFORE),
    ],
    ids=["new", "another one is there", "its status turns", "only its words change"],
)
def test_a_condition_has_the_transition_time_of_its_status(before: list[PlainCondition], since: str) -> None:
    conditions = set_condition(before, "Failed", reason="Quota", message="why", now=NOW)
    assert [condition for condition in conditions if condition.type != "Failed"] == [
        condition for condition in before if condition.type != "Failed"
    ]
    assert condition_of(conditions, "Failed") == PlainCondition(
        type="Failed", status="True", reason="Quota", message="why", last_transition_time=since
    )


def test_conditions_are_found_and_left_out_by_their_type() -> None:
    conditions = [condition("A"), condition("B"), condition("C")]
    assert condition_of(conditions, "B") is conditions[1]
    assert condition_of(conditions, "D") is None
    assert condition_of(None, "A") is None
    assert drop_conditions(conditions, "A", "C") == [conditions[1]]
