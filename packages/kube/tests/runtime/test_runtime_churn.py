"""The brake: reconciles that undo their own work, the delay of the next writes, and what is not churn."""

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.churn import LONGEST_S, ChurnBrake, ChurnHold, hold_back
from pykruise.runtime.plan import Plan, Step, plan_of

KEY = Key("ns", "web")


class Object:
    """An object whose reconciles write, at times that the test sets."""

    def __init__(self, *, entries: int = 8_192) -> None:
        self.now = 0.0
        self.generation = 1
        self.uid = "u"
        self.brake = ChurnBrake(now=lambda: self.now, entries=entries)

    def turn(self, *done: Action, after_s: float = 0.1) -> float | None:
        """Note a reconcile with these writes; return the delay of the next writes."""
        self.now += after_s
        return self.brake.note(CLONE_SETS, KEY, uid=self.uid, generation=self.generation, done=done)

    def hold(self) -> ChurnHold | None:
        return self.brake.hold(CLONE_SETS, KEY, uid=self.uid, generation=self.generation)

    def round(self, number: int, *, after_s: float = 0.1, pods: int = 3) -> float | None:
        """Create pods, and delete them in the next reconcile."""
        names = [f"web-{number}-{pod}" for pod in range(pods)]
        self.turn(*map(created, names), after_s=after_s)
        return self.turn(*map(deleted, names))


def created(name: str) -> Create:
    return Create(resource=PODS, key=Key("ns", name), body={})


def deleted(name: str) -> Delete:
    return Delete(resource=PODS, key=Key("ns", name), uid=name)


def patched(name: str, value: str) -> Patch:
    body = {"metadata": {"labels": {"state": value}}}
    return Patch(resource=PODS, key=Key("ns", name), patch_type=PatchType.MERGE, body=body)


def test_each_wait_doubles_from_the_third_round_that_deletes_new_objects_on() -> None:
    web = Object()
    waits = []
    for number in range(12):
        wait_s = web.round(number)
        waits.append(wait_s)
        web.now += wait_s or 0.0
    assert waits == [None, None, 1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_S]


def test_patches_that_undo_each_other_count_as_the_same_write() -> None:
    web = Object()
    waits = []
    for _ in range(5):
        for value in ("a", "b"):
            wait_s = web.turn(patched("x", value))
            waits.append(wait_s)
            web.now += wait_s or 0.0
    assert waits == [None, None, None, None, None, 1, 2, 4, 8, 16]


def test_a_hold_ends_with_its_time() -> None:
    web = Object()
    for number in range(3):
        web.round(number)
    hold = web.hold()
    assert hold is not None
    assert hold.seconds == 1.0
    # when
    web.now += 1.0
    # then
    assert web.hold() is None


@pytest.mark.parametrize("change", [{"generation": 2}, {"uid": "another"}])
def test_a_changed_spec_or_a_recreated_object_resets_the_churn_detection(change: dict[str, object]) -> None:
    web = Object()
    for number in range(5):
        web.round(number)
    assert web.hold() is not None
    # when
    for name, value in change.items():
        setattr(web, name, value)
    # then
    assert web.hold() is None
    assert web.round(6) is None


def test_a_rollout_that_replaces_young_pods_of_the_previous_spec_is_not_churn() -> None:
    web = Object()
    old = [f"web-old-{pod}" for pod in range(6)]
    web.turn(*map(created, old))
    # when
    web.generation = 2
    waits = [web.turn(deleted(name), created(f"{name}-new"), after_s=0.5) for name in old]
    # then
    assert waits == [None] * 6


def test_a_time_in_which_nothing_is_undone_is_a_new_beginning() -> None:
    web = Object()
    for number in range(4):
        web.round(number)
    # when
    web.now += 40.0
    # then
    assert [web.round(number) for number in range(10, 13)] == [None, None, 1]


def test_a_rollout_that_recreates_ten_thousand_pods_is_never_held() -> None:
    web = Object()
    for first in range(0, 10_000, 100):
        old = [deleted(f"old-{number}") for number in range(first, first + 100)]
        new = [created(f"new-{number}") for number in range(first, first + 100)]
        assert web.turn(*old) is None
        assert web.turn(*new) is None


def test_deleting_few_of_many_new_pods_is_not_churn() -> None:
    """A user may mark them during a rollout, or their node may have been deleted."""
    web = Object()
    for number in range(100):
        web.turn(*(created(f"web-{number}-{pod}") for pod in range(10)))
        assert web.turn(deleted(f"web-{number}-0"), deleted(f"web-{number}-1")) is None


def test_pods_deleted_by_others_are_recreated_without_limit() -> None:
    web = Object()
    assert [web.turn(created("web-0")) for _ in range(100)] == [None] * 100


def test_pods_that_existed_for_a_while_may_be_deleted() -> None:
    """A job that runs each minute and keeps no history does this."""
    web = Object()
    for number in range(100):
        web.turn(created(f"job-{number}"), after_s=25)
        assert web.turn(deleted(f"job-{number}"), after_s=35) is None


def test_objects_that_have_served_their_purpose_may_be_deleted_young() -> None:
    """A schedule of ten seconds that keeps one ended child does this."""
    web = Object()
    for number in range(100):
        web.turn(created(f"job-{number}"), after_s=8)
        over = msgspec.structs.replace(deleted(f"job-{number - 1}"), is_due=True)
        assert web.turn(over, after_s=2) is None


def test_labels_that_follow_a_probe_change_as_often_as_the_probe() -> None:
    web = Object()
    for number in range(200):
        assert web.turn(patched("x", "ab"[number % 2]), after_s=1.0) is None


def test_an_object_with_many_other_writes_may_repeat_some() -> None:
    web = Object()
    for number in range(100):
        others = [patched(f"pod-{number}-{item}", "a") for item in range(3)]
        assert web.turn(patched("owner", "same"), *others) is None


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    web = Object(entries=100)
    for number in range(1_000):
        web.turn(created(f"web-{number}"))
    assert len(web.brake) <= 101
    # when
    web.brake.forget(CLONE_SETS, KEY)
    web.now += 1_000
    web.turn(created("web"))
    # then
    assert len(web.brake) == 2


def test_a_held_back_plan_writes_nothing_and_reports_churning() -> None:
    web = Object()
    for number in range(4):
        web.round(number)
    hold = web.hold()
    assert hold is not None
    plan = msg_plan()
    # when
    held = hold_back(plan, hold)
    # then
    assert not list(held.steps)
    assert held.status == plan.status
    assert held.requeue_after_s == 2.0
    assert held.waiting is not None
    assert held.waiting.code == "Churning"
    assert [note.reason for note in held.notes] == ["Churning"]
    # and a plan that writes nothing is not changed
    assert hold_back(Plan(), hold) == Plan()


def msg_plan() -> Plan:
    return msgspec.structs.replace(
        plan_of("test", Step(action=created("a"), because="it is missing")), status={"replicas": 1}
    )
