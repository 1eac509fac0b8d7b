"""Lifecycle states, hooks, and the readiness conditions that belong to them."""

import json
from typing import Any

import pytest

from pykruise.pods.lifecycle.readiness import (
    PRE_DELETE_HOOK,
    PRE_UPDATE_HOOK,
    hold_back,
    list_missing_conditions,
    remove_hold,
)
from pykruise.pods.lifecycle.states import (
    Lifecycle,
    LifecycleHook,
    LifecycleState,
    build_state_metadata,
    explain_waiting,
    find_next_state,
    is_all_hooked,
    is_hooked,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from support.cloneset_builder import NOW, cloneset

S = LifecycleState


def pod(
    state: str = "Normal", *, finalizers: str = "", labels: dict[str, str] | None = None, node: bool = True
) -> PodView:
    builder = cloneset(1).in_state(state, "a").labelled(labels or {}, "a")
    for finalizer in finalizers.split():
        builder.with_finalizer(finalizer, "a")
    if not node:
        builder.unscheduled("a")
    return builder.pod_views()[0]


def hook(*finalizers: str, **labels: str) -> LifecycleHook:
    return LifecycleHook(finalizers_handler=list(finalizers), labels_handler=labels)


@pytest.mark.parametrize(
    ("given", "finalizers", "labels", "any_on", "all_on"),
    [
        (hook("f"), "f", {}, True, True),
        (hook("f"), "", {}, False, False),
        (hook("f", "g"), "f", {}, True, False),
        (hook("f", k="v"), "", {"k": "v"}, True, False),
        (hook("f", k="v"), "f", {"k": "v"}, True, True),
        (hook(k="v"), "", {"k": "other"}, False, False),
        (hook(k=""), "", {}, False, False),
        (hook(k=""), "", {"k": ""}, True, True),
        (hook(), "f", {"k": "v"}, False, True),
        (LifecycleHook(finalizers_handler=["f"]), "f", {}, True, True),
        (LifecycleHook(labels_handler={"k": "v"}), "", {"k": "v"}, True, True),
        (LifecycleHook(), "f", {"k": "v"}, False, True),
        (None, "f", {}, False, False),
    ],
)
def test_a_hook_is_on_a_pod_by_any_or_by_all_of_its_handlers(
    given: LifecycleHook | None, finalizers: str, labels: dict[str, str], any_on: bool, all_on: bool
) -> None:
    """lifecycle cases 13, 15, 54"""
    result = pod(finalizers=finalizers, labels=labels)
    assert (is_hooked(given, result), is_all_hooked(given, result)) == (any_on, all_on)


OUT = LifecycleHook(mark_pod_not_ready=True)


@pytest.mark.parametrize(
    ("lifecycle", "expected"),
    [
        (Lifecycle(), False),
        (Lifecycle(pre_delete=hook("f"), in_place_update=hook("f")), False),
        (Lifecycle(pre_delete=OUT), True),
        (Lifecycle(in_place_update=OUT), True),
        (Lifecycle(pre_delete=hook("f"), in_place_update=OUT), True),
        (Lifecycle(pre_normal=OUT), False),
    ],
)
def test_a_hook_with_mark_pod_not_ready_takes_the_waiting_pod_out_of_service(
    lifecycle: Lifecycle, expected: bool
) -> None:
    """lifecycle 2: preNormal's markPodNotReady is without effect"""
    assert lifecycle.marks_not_ready is expected


def turn(
    pod: PodView, lifecycle: Lifecycle | None = None, *, updated: bool = True, complete: bool = False
) -> LifecycleState | None:
    return find_next_state(pod, lifecycle, is_updated=updated, is_update_complete=complete)


BY_LABEL = LifecycleHook(labels_handler={"k": "v"})
BY_FINALIZER = LifecycleHook(finalizers_handler=["f"])
PRE_NORMAL = Lifecycle(pre_normal=hook("f", "g"))
UPDATE_HOOK = Lifecycle(in_place_update=hook("f"))


@pytest.mark.parametrize(
    ("value", "lifecycle", "expected"),
    [
        (pod("PreparingNormal"), None, S.NORMAL),
        (pod("PreparingNormal", node=False), None, None),
        (pod("PreparingNormal"), Lifecycle(pre_delete=hook("f")), S.NORMAL),
        (pod("PreparingNormal", finalizers="f"), PRE_NORMAL, None),
        (pod("PreparingNormal", finalizers="f g"), PRE_NORMAL, S.NORMAL),
        (pod("PreparingNormal", finalizers="f g", node=False), PRE_NORMAL, S.NORMAL),
        (pod("PreparingNormal", node=False), Lifecycle(pre_normal=LifecycleHook()), None),
        (pod("PreparingNormal"), Lifecycle(pre_normal=LifecycleHook()), S.NORMAL),
        (pod("PreparingNormal", labels={"k": "v"}, node=False), Lifecycle(pre_normal=BY_LABEL), S.NORMAL),
        (pod("PreparingNormal"), Lifecycle(pre_normal=BY_LABEL), None),
        (pod("Normal"), None, None),
        (pod(""), None, None),
        (pod("PreparingDelete"), None, None),
        (pod("Foo"), None, None),
        (pod("Updated"), None, S.NORMAL),
        (pod("Updated"), Lifecycle(pre_delete=hook("f")), S.NORMAL),
        (pod("Updated"), UPDATE_HOOK, None),
        (pod("Updated", finalizers="f"), UPDATE_HOOK, S.NORMAL),
        (pod("PreparingUpdate"), None, S.NORMAL),
        (pod("PreparingUpdate"), UPDATE_HOOK, S.UPDATED),
        (pod("PreparingUpdate", finalizers="f"), UPDATE_HOOK, S.NORMAL),
        (pod("Updating"), None, None),
    ],
)
def test_every_state_has_its_next_state(
    value: PodView, lifecycle: Lifecycle | None, expected: LifecycleState | None
) -> None:
    """lifecycle cases 2, 3, 4, 14, 20; cloneset cases 76, 81; an empty preNormal waits for a node (9.2.16)"""
    assert turn(value, lifecycle) is expected


def test_a_pod_that_prepares_an_update_waits_while_it_is_of_the_old_revision() -> None:
    assert turn(pod("PreparingUpdate"), None, updated=False) is None


@pytest.mark.parametrize(
    ("lifecycle", "finalizers", "expected"),
    [
        (None, "", S.NORMAL),
        (Lifecycle(pre_delete=hook("f")), "", S.UPDATED),
        (UPDATE_HOOK, "", S.UPDATED),
        (UPDATE_HOOK, "f", S.NORMAL),
        (Lifecycle(in_place_update=LifecycleHook()), "", S.NORMAL),
    ],
)
def test_a_complete_update_ends_in_normal_or_waits_for_its_hook(
    lifecycle: Lifecycle | None, finalizers: str, expected: LifecycleState
) -> None:
    """lifecycle cases 14, 16, 17, 18, 19"""
    assert turn(pod("Updating", finalizers=finalizers), lifecycle, complete=True) is expected


def test_waiting_pods_report_their_reason() -> None:
    def says(pod: PodView, lifecycle: Lifecycle | None) -> tuple[Code, str]:
        reason = explain_waiting(pod, lifecycle)
        assert reason is not None
        return reason.code, reason.message

    handlers = hook("f", "g", k="v", l="w")
    every = Lifecycle(in_place_update=handlers, pre_delete=handlers, pre_normal=handlers)
    given: dict[str, Any] = {"finalizers": "f x", "labels": {"k": "v", "l": "other", "m": "w"}}
    assert says(pod("PreparingNormal", **given), every) == (
        Code.PRE_NORMAL_HOOK,
        "waits for the preNormal hook: label l=w, finalizer g",
    )
    assert says(pod("Updated", **given), every) == (
        Code.IN_PLACE_UPDATE_HOOK,
        "waits for the inPlaceUpdate hook: label l=w, finalizer g",
    )
    assert says(pod("PreparingUpdate", **given), every) == (
        Code.IN_PLACE_UPDATE_HOOK,
        "waits until the inPlaceUpdate hook is removed from the pod: label k=v, finalizer f",
    )
    assert says(pod("PreparingDelete", **given), every) == (
        Code.PRE_DELETE_HOOK,
        "waits until the preDelete hook is removed from the pod: label k=v, finalizer f",
    )
    assert says(pod("PreparingDelete"), every)[1] == "waits until the preDelete hook is removed from the pod"
    assert says(pod("PreparingDelete"), None) == says(pod("PreparingDelete"), every)
    for lifecycle_hook, name in ((BY_LABEL, "label k=v"), (BY_FINALIZER, "finalizer f")):
        held = pod("PreparingDelete", finalizers="f", labels={"k": "v"})
        assert says(held, Lifecycle(pre_delete=lifecycle_hook))[1].endswith(f": {name}")
        assert says(pod("Updated"), Lifecycle(in_place_update=lifecycle_hook))[1].endswith(f": {name}")
        assert says(pod("PreparingNormal"), Lifecycle(pre_normal=lifecycle_hook))[0] is Code.PRE_NORMAL_HOOK
    empty = Lifecycle(pre_normal=LifecycleHook())
    assert says(pod("PreparingNormal", node=False), None)[0] is Code.SCHEDULING
    assert says(pod("PreparingNormal", node=False), empty)[0] is Code.SCHEDULING
    assert says(pod("PreparingUpdate"), None)[0] is Code.IN_PLACE_UPDATE_HOOK
    assert says(pod("Updating"), None)[0] is Code.UPDATING_IN_PLACE
    assert explain_waiting(pod("Updated"), None) is None
    assert explain_waiting(pod("Normal"), None) is None


def test_a_state_is_written_with_its_time_and_any_value_survives_json() -> None:
    """lifecycle case 53"""
    result = build_state_metadata(S.UPDATED, now=NOW)
    assert json.loads(json.dumps(result)) == {
        "labels": {keys.STATE_LABEL: "Updated"},
        "annotations": {keys.STATE_TIME_ANNOTATION: "2026-01-31T12:00:00Z"},
    }


# Readiness


def gated(message: str | None = None, status: str = "True", **conditions: str) -> PodView:
    """A ready pod with the KruisePodReady gate and, if given, its condition."""
    builder = cloneset(1)
    if message is None:
        builder.set_condition("a", keys.KRUISE_POD_READY, None)
    else:
        builder.set_condition("a", keys.KRUISE_POD_READY, status, message=message)
    for kind, value in conditions.items():
        builder.set_condition("a", kind, value)
    return builder.pod_views()[0]


def entry(key: str, agent: str = "Lifecycle") -> dict[str, str]:
    return {"userAgent": agent, "key": key}


def test_a_pod_without_the_gate_is_not_held_back() -> None:
    """lifecycle case 29, inplace-update case 54"""
    builder = cloneset(1)
    builder.pods["a"]["spec"]["readinessGates"].pop()
    (ungated,) = builder.pod_views()
    assert hold_back(ungated, PRE_DELETE_HOOK, now=NOW) == []


def test_holding_a_pod_back_turns_the_condition_and_readiness() -> None:
    """lifecycle case 28"""
    result = {entry["type"]: entry for entry in hold_back(gated("[]"), PRE_DELETE_HOOK, now=NOW)}
    assert result[keys.KRUISE_POD_READY]["status"] == "False"
    assert json.loads(result[keys.KRUISE_POD_READY]["message"]) == [entry("preDeleteHook")]
    assert result["Ready"]["status"] == "False"
    assert result["Ready"]["reason"] == "ReadinessGatesNotReady"
    assert keys.KRUISE_POD_READY in result["Ready"]["message"]


def test_a_missing_condition_is_set_to_false() -> None:
    result = hold_back(gated(None), PRE_UPDATE_HOOK, now=NOW)
    assert (result[0]["type"], result[0]["status"]) == (keys.KRUISE_POD_READY, "False")


def test_holding_back_twice_writes_once() -> None:
    assert hold_back(gated(json.dumps([entry(PRE_DELETE_HOOK)]), "False"), PRE_DELETE_HOOK, now=NOW) == []


def test_a_wrongly_true_condition_is_corrected() -> None:
    result = hold_back(gated(json.dumps([entry(PRE_DELETE_HOOK)]), "True"), PRE_DELETE_HOOK, now=NOW)
    assert result[0]["status"] == "False"


def test_keys_of_other_writers_stay_sorted_beside_it() -> None:
    message = json.dumps([entry("z", "Zed"), entry("a", "Abe")])
    result = hold_back(gated(message, "False"), PRE_DELETE_HOOK, now=NOW)
    assert json.loads(result[0]["message"]) == [
        entry("a", "Abe"),
        entry(PRE_DELETE_HOOK),
        entry("z", "Zed"),
    ]


def test_removing_a_hold_removes_only_its_own_key() -> None:
    """lifecycle case 30, inplace-update case 53"""
    message = json.dumps([entry("x", "Other"), entry(PRE_UPDATE_HOOK)])
    result = remove_hold(gated(message, "False"), PRE_UPDATE_HOOK, now=NOW)
    assert result[0]["status"] == "False"
    assert json.loads(result[0]["message"]) == [entry("x", "Other")]


def test_removing_the_last_hold_opens_the_gate() -> None:
    result = remove_hold(gated(json.dumps([entry(PRE_UPDATE_HOOK)]), "False"), PRE_UPDATE_HOOK, now=NOW)
    assert (result[0]["status"], result[0]["message"]) == ("True", "[]")


@pytest.mark.parametrize("message", [None, "[]", "nonsense", '{"a":1}', '[{"key":1}]'])
def test_removing_a_missing_hold_writes_nothing(message: str | None) -> None:
    assert remove_hold(gated(message), PRE_UPDATE_HOOK, now=NOW) == []


def test_missing_conditions_are_true_without_reason() -> None:
    """inplace-update case 44"""
    builder = cloneset(1).set_condition("a", keys.IN_PLACE_READY, None)
    assert list_missing_conditions(builder.pod_views()[0], now=NOW) == [
        {"type": keys.IN_PLACE_READY, "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    ]
    assert list_missing_conditions(cloneset(1).pod_views()[0], now=NOW) == []


def test_a_reason_that_must_not_stay_is_nulled() -> None:
    builder = cloneset(1).set_condition("a", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    result: list[dict[str, Any]] = list_missing_conditions(builder.pod_views()[0], now=NOW)
    assert result[0]["reason"] is None
    assert "message" not in result[0]


def test_only_stale_fields_of_a_condition_are_nulled() -> None:
    """The patch would claim a field that it does not need."""
    plain = cloneset(1).set_condition("a", keys.IN_PLACE_READY, "False").pod_views()[0]
    assert list(list_missing_conditions(plain, now=NOW)[0]) == ["type", "status", "lastTransitionTime"]
    told = cloneset(1).set_condition("a", keys.IN_PLACE_READY, "True", message="left over").pod_views()[0]
    assert list_missing_conditions(told, now=NOW)[0] == {
        **list_missing_conditions(plain, now=NOW)[0],
        "message": None,
    }
