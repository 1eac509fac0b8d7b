"""Status writes: only changed fields, and at a limited rate."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.ids import Key
from pykruise.runtime.status import (
    FORGET_S,
    SUSPECTED_S,
    StatusPace,
    UnkeptFields,
    build_status_patch,
    can_wait,
    is_different_in_words_alone,
)

KEY = Key("ns", "web")


def test_an_equal_status_is_not_written() -> None:
    assert (
        build_status_patch(CLONE_SETS, KEY, uid="u", stored={"replicas": 3}, wanted={"replicas": 3}) is None
    )


def test_only_what_differs_is_written_and_what_vanished_is_taken_out() -> None:
    # when
    patch = build_status_patch(
        CLONE_SETS,
        KEY,
        uid="u",
        stored={"replicas": 3, "readyReplicas": 1, "collisionCount": 1},
        wanted={"replicas": 3, "readyReplicas": 2},
    )
    # then
    assert patch is not None
    assert patch.body == {"status": {"readyReplicas": 2, "collisionCount": None}}
    assert patch.subresource == "status"
    assert patch.uid == "u"


def test_a_message_of_any_length_is_written_as_an_excerpt_and_only_once() -> None:
    # given four refusals of a megabyte, and a long selector, which must not be cut
    refusals = " ".join("pods is forbidden: " + "y" * 1_000_000 for _ in range(4))
    wanted = {"labelSelector": "a=b," * 1_000, "conditions": [{"type": "Progressing", "message": refusals}]}
    # when
    patch = build_status_patch(CLONE_SETS, KEY, uid="u", stored={}, wanted=wanted)
    # then
    assert patch is not None
    written = patch.body["status"]  # type: ignore[index, call-overload]  # a merge patch
    assert len(written["conditions"][0]["message"]) <= 1024
    assert written["labelSelector"] == wanted["labelSelector"]
    # and the stored excerpt is not written again
    assert build_status_patch(CLONE_SETS, KEY, uid="u", stored=written, wanted=wanted) is None


def test_a_quiet_status_is_written_immediately_and_a_busy_one_a_few_times_a_second() -> None:
    # given
    pace = StatusPace(burst=2, per_second=4.0)
    # when the status changes without pause
    waits = [pace.wait_s(KEY, now=0.0) for _ in range(3)]
    # then
    assert waits == [0.0, 0.0, 0.25]
    # and after that time it may be written
    assert pace.wait_s(KEY, now=0.25) == 0.0


def test_objects_do_not_take_each_others_turns() -> None:
    # given
    pace = StatusPace(burst=1)
    assert pace.wait_s(KEY, now=0.0) == 0.0
    # then
    assert pace.wait_s(Key("ns", "other"), now=0.0) == 0.0


def test_a_deleted_object_is_forgotten() -> None:
    # given
    pace = StatusPace(burst=1)
    pace.wait_s(KEY, now=0.0)
    # when
    pace.forget(KEY)
    # then the next object of the same name starts with a full burst
    assert pace.wait_s(KEY, now=0.0) == 0.0


def test_a_shared_status_is_written_with_the_resource_version_that_was_read() -> None:
    patch = build_status_patch(
        CLONE_SETS, KEY, uid="u", stored={}, wanted={"replicas": 1}, resource_version="42"
    )
    assert patch is not None
    assert patch.resource_version == "42"


def conditions(**reasons: str) -> dict[str, Any]:
    return {
        "replicas": 1,
        "conditions": [
            {"type": name, "status": "True", "reason": reason, "message": f"about {reason}"}
            for name, reason in reasons.items()
        ],
    }


@pytest.mark.parametrize(
    ("wanted", "waits"),
    [
        (conditions(Failed="a", Own="b", Alarm="c"), True),
        (conditions(Failed="a", Alarm="c"), True),
        (conditions(Failed="a", Own="b", Alarm="d"), False),
        (conditions(Failed="b", Own="b", Alarm="c"), False),
        ({**conditions(Failed="a", Own="b", Alarm="c"), "replicas": 2}, False),
    ],
    ids=["its reason", "it goes", "a reason people act on", "one that clients know", "a counter"],
)
def test_a_change_of_only_unobserved_conditions_can_wait(wanted: dict[str, Any], waits: bool) -> None:
    stored = conditions(Failed="a", Own="a", Alarm="c")
    assert can_wait(stored, wanted, own={"Own", "Alarm"}, urgent={"Alarm"}) is waits
    assert not can_wait(stored, wanted, own=(), urgent=())


@pytest.mark.parametrize(
    ("message", "reason", "is_words"),
    [
        ("request 8: no", "Webhook", True),
        ("request 7: no", "Webhook", False),
        ("request 8: no", "Quota", False),
    ],
    ids=["other words", "the same", "another code"],
)
def test_another_text_for_the_same_failure_does_not_change_the_status(
    message: str, reason: str, is_words: bool
) -> None:
    def status(message: str, reason: str) -> dict[str, Any]:
        return {"replicas": 1, "conditions": [{"type": "Stalled", "reason": reason, "message": message}]}

    assert (
        is_different_in_words_alone(status("request 7: no", "Webhook"), status(message, reason)) is is_words
    )


def test_a_field_that_was_missing_once_is_written_again_and_one_that_always_is_left_out_for_long() -> None:
    # given
    fields = UnkeptFields()
    wanted = {"replicas": 1, "updatedReplicas": 1}
    # when another manager has removed the field in the meantime
    assert fields.learn(wanted, {"replicas": 1}, now=0.0) == SUSPECTED_S
    assert fields.without(wanted, now=1.0) == {"replicas": 1}
    # then it is written again a moment later
    assert fields.without(wanted, now=SUSPECTED_S) == wanted
    # and when it is missing again, the field is left out
    assert fields.learn(wanted, {"replicas": 1}, now=SUSPECTED_S) is None
    assert fields.without(wanted, now=FORGET_S) == {"replicas": 1}
    assert fields.without(wanted, now=FORGET_S + SUSPECTED_S) == wanted


def test_a_field_outside_the_last_write_is_not_checked() -> None:
    fields = UnkeptFields()
    assert fields.learn({"replicas": 2}, {"replicas": 2}, now=0.0) is None
    assert fields.without({"replicas": 2, "updatedReplicas": 1}, now=1.0) == {
        "replicas": 2,
        "updatedReplicas": 1,
    }
