"""The duration of rollouts and the reasons of their waits, from the states of objects at each look."""

from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.runtime.kstatus import Standing
from pykruise.runtime.rollouts import ChildAtWork, RolloutMeter

WEB = Key("default", "web")
DONE = Standing(is_ready=True, reason="Converged")
HELD = Standing(is_ready=True, is_held=True, reason="Partition")
MOVING = Standing(is_ready=False, reason="Updating")
STALLED = Standing(is_ready=False, is_stalled=True, reason="InvalidSpec")


def counts(meter: RolloutMeter) -> dict[str, tuple[int, float]]:
    return {result: (duration.count, duration.sum_s) for result, duration in meter.durations.items()}


def test_a_rollout_lasts_from_its_first_observation_until_the_object_is_ready() -> None:
    meter = RolloutMeter()
    meter.note(WEB, 1, MOVING, since=None, now=10.0)
    assert meter.waiting == {WEB: "Updating"}
    meter.note(WEB, 1, MOVING, since=None, now=20.0)
    meter.note(WEB, 1, DONE, since=None, now=40.0)
    assert meter.waiting == {}
    meter.note(WEB, 2, MOVING, since=None, now=100.0)
    meter.note(WEB, 2, HELD, since=None, now=105.0)
    assert counts(meter) == {"complete": (1, 30.0), "held": (1, 5.0)}


def test_a_pod_that_fails_after_a_rollout_does_not_start_a_rollout() -> None:
    meter = RolloutMeter()
    meter.note(WEB, 1, DONE, since=None, now=0.0)
    meter.note(WEB, 1, MOVING, since=None, now=10.0)
    assert meter.waiting == {WEB: "Updating"}
    meter.note(WEB, 1, DONE, since=None, now=20.0)
    assert counts(meter) == {}


def test_a_change_during_a_rollout_supersedes_it() -> None:
    meter = RolloutMeter()
    meter.note(WEB, 1, MOVING, since=None, now=0.0)
    meter.note(WEB, 2, MOVING, since=None, now=10.0)
    meter.note(WEB, 2, DONE, since=None, now=15.0)
    assert counts(meter) == {"superseded": (1, 10.0), "complete": (1, 5.0)}


def test_a_stalled_rollout_is_counted_once() -> None:
    meter = RolloutMeter()
    meter.note(WEB, 1, MOVING, since=None, now=0.0)
    meter.note(WEB, 1, STALLED, since=None, now=10.0)
    meter.note(WEB, 1, STALLED, since=None, now=20.0)
    meter.note(WEB, 1, DONE, since=None, now=30.0)
    assert counts(meter) == {"stalled": (1, 10.0)}


def test_a_new_manager_reads_the_start_of_a_rollout_from_the_status() -> None:
    meter = RolloutMeter()
    meter.note(WEB, 3, MOVING, since=50.0, now=100.0)
    meter.note(WEB, 3, DONE, since=None, now=110.0)
    assert counts(meter) == {"complete": (1, 60.0)}


def test_a_deleted_object_leaves_no_record_in_the_rollout_meter() -> None:
    meter = RolloutMeter()
    meter.note(WEB, 1, MOVING, since=None, now=0.0)
    meter.forget(WEB)
    assert meter.waiting == {}
    meter.note(WEB, 1, DONE, since=None, now=10.0)
    assert counts(meter) == {}


def test_children_are_recorded_until_the_object_has_none_or_is_deleted() -> None:
    # given
    meter, child = RolloutMeter(), ChildAtWork(PODS, Key("default", "web-1"))
    # when
    meter.note_children(WEB, [child])
    assert meter.children == {WEB: (child,)}
    meter.note_children(WEB, [])
    # then
    assert meter.children == {}
    meter.note_children(WEB, [child])
    meter.forget(WEB)
    assert meter.children == {}
