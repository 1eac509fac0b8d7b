"""Availability of pods, and the time when it changes without an event."""

import pytest

from pykruise.pods.lifecycle.availability import find_available_time, find_next_available_time, is_available
from pykruise.pods.view.names import IdSource, InstanceId, format_pod_name, format_revision_name, shorten_hash
from support.cloneset_builder import NOW, cloneset


@pytest.mark.parametrize(
    ("ready_for", "min_ready_seconds", "available"),
    [(0, 0, True), (29, 30, False), (30, 30, True), (31, 30, True), (5, -1, True)],
)
def test_a_pod_is_available_once_it_was_ready_long_enough(
    ready_for: int, min_ready_seconds: int, available: bool
) -> None:
    pod = cloneset(1).ready_for(ready_for, "a").pod_views()[0]
    assert is_available(pod, min_ready_seconds=min_ready_seconds, now=NOW) is available


def test_a_pod_whose_readiness_has_no_time_is_only_available_without_a_minimum() -> None:
    pod = cloneset(1).set_condition("a", "Ready", "True", lastTransitionTime=None).pod_views()[0]
    assert is_available(pod, min_ready_seconds=0, now=NOW)
    assert not is_available(pod, min_ready_seconds=1, now=NOW)
    assert find_available_time(pod, min_ready_seconds=1) is None


def test_a_preparing_pod_is_not_available_even_if_ready() -> None:
    pod = cloneset(1).in_state("PreparingNormal", "a").pod_views()[0]
    assert not is_available(pod, min_ready_seconds=0, now=NOW)
    assert find_available_time(pod, min_ready_seconds=10) is None


def test_the_next_instant_is_the_earliest_that_still_lies_ahead() -> None:
    pods = cloneset(4).ready_for(10, "a").ready_for(25, "b").ready_for(99, "c").not_ready("d").pod_views()
    assert find_next_available_time(pods, min_ready_seconds=30, now=NOW) == NOW + 5
    assert find_next_available_time(pods, min_ready_seconds=0, now=NOW) is None
    assert find_next_available_time(pods[2:], min_ready_seconds=30, now=NOW) is None
    assert find_next_available_time(pods[:1], min_ready_seconds=10, now=NOW) is None


def test_pods_that_cannot_become_available_by_time_alone_name_no_instant() -> None:
    # given pods that became ready a moment ago, or do not show when
    builder = cloneset(3).ready_for(5, "a", "b").in_state("PreparingNormal", "a").not_ready("b")
    builder.set_condition("c", "Ready", "True", lastTransitionTime=None)
    # then
    assert find_next_available_time(builder.pod_views(), min_ready_seconds=30, now=NOW) is None


def test_a_pod_that_became_ready_in_the_future_is_checked_again_within_a_minute() -> None:
    # given a clock that was set back by an hour after the pod became ready
    pods = cloneset(1).ready_for(-3600, "a").pod_views()
    # then
    assert find_next_available_time(pods, min_ready_seconds=30, now=NOW) == NOW + 60


def test_nothing_is_waited_for_without_a_minimum_even_if_the_clock_of_a_node_is_ahead() -> None:
    pods = cloneset(1).ready_for(-5, "a").pod_views()
    assert find_next_available_time(pods, min_ready_seconds=0, now=NOW) is None
    assert find_next_available_time(pods, min_ready_seconds=1, now=NOW) == NOW + 6


@pytest.mark.parametrize(("min_ready_seconds", "at"), [(30, NOW + 20), (0, NOW - 10), (-1, NOW - 10)])
def test_a_serving_pod_becomes_available_when_it_was_ready_long_enough(
    min_ready_seconds: int, at: float
) -> None:
    pod = cloneset(1).ready_for(10, "a").pod_views()[0]
    assert find_available_time(pod, min_ready_seconds=min_ready_seconds) == at


def test_a_plan_at_the_next_available_time_sees_the_pod_available() -> None:
    pods = cloneset(1).ready_for(10, "a").pod_views()
    then = find_next_available_time(pods, min_ready_seconds=30, now=NOW)
    assert then is not None
    assert is_available(pods[0], min_ready_seconds=30, now=then)


# Pod names


def test_the_same_source_gives_the_same_ids_sorted_and_unused() -> None:
    ids = IdSource(7).draw_ids(50, used=[])
    assert ids == IdSource(7).draw_ids(50, used=[])
    assert ids == sorted(set(ids))
    assert all(len(instance_id) == 5 for instance_id in ids)
    again = IdSource(7).draw_ids(50, used=ids[:10])
    assert not {*again} & {*ids[:10]}
    assert IdSource(8).draw_ids(50, used=[]) != ids


def test_many_ids_drawn_together_are_unique() -> None:
    """Ids of five characters are drawn twice sometimes: with this seed once in 2,000."""
    ids = IdSource(4).draw_ids(2000, used=())
    assert len(set(ids)) == len(ids) == 2000


def test_names_are_joined_with_a_dash_and_long_owner_names_are_cut() -> None:
    assert format_pod_name("web", InstanceId("abcde")) == "web-abcde"
    assert format_revision_name("w" * 300, shorten_hash("x-7c9d")) == "w" * 223 + "-7c9d"
