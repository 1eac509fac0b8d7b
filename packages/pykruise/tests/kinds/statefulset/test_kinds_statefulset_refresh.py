"""Pods that return to service: one write for all due changes; numbers are the specification's cases."""

import json

import pytest

from pykruise.kube.clock import format_time
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from support.statefulset_builder import (
    NOW,
    StatefulSetBuilder,
    deleted,
    images,
    statefulset,
    states,
    updatable,
    waiting,
)


def held(builder: StatefulSetBuilder, ordinal: int, key: str) -> StatefulSetBuilder:
    """Let the pod be held out of service by this key."""
    builder.not_ready(ordinal)
    builder.pods[f"web-{ordinal}"]["spec"]["readinessGates"] = [{"conditionType": keys.KRUISE_POD_READY}]
    message = json.dumps([{"userAgent": "Lifecycle", "key": key}])
    return builder.set_condition(ordinal, keys.KRUISE_POD_READY, "False", message=message)


def update_state(builder: StatefulSetBuilder, ordinal: int, **fields: object) -> StatefulSetBuilder:
    """Let the pod have the record of an update in place."""
    state = {"revision": builder.update_name, "updateTimestamp": format_time(NOW), **fields}
    annotations = builder.pods[f"web-{ordinal}"]["metadata"]["annotations"]
    annotations[keys.IN_PLACE_STATE_ANNOTATION] = json.dumps(state)
    return builder


@pytest.mark.parametrize("key", ["preUpdateHook", "preDeleteHook"])
def test_the_hooks_unready_mark_is_removed_on_every_way_back_to_normal(key: str) -> None:
    """The mark would keep the pod out of service for ever."""
    # given a pod in Normal on which another manager has left the mark
    (step,) = held(statefulset(3), 2, key).plan().steps
    # then
    assert step.action.body["status"]["conditions"][0]["status"] == "True"  # type: ignore[union-attr]


def test_a_pod_that_waits_for_its_hook_stays_out_of_service() -> None:
    # given a pod that prepares for its update, held by the hook
    builder = updatable(1).with_hook("inPlaceUpdate", markPodNotReady=True).all_old()
    plan = held(builder.hooked(0).state("PreparingUpdate", 0), 0, "preUpdateHook").plan()
    # then
    assert plan.stages == ()
    assert waiting(plan) == "InPlaceUpdateHook"


@pytest.mark.parametrize(("hooked", "state"), [(None, "Normal"), (False, "Updated"), (True, "Normal")])
def test_an_update_in_place_that_is_done_ends_in_one_write(hooked: bool | None, state: str) -> None:
    """statefulset cases 46 and 59"""
    # given a pod whose containers run the new image, and that is out of service
    builder = update_state(updatable(1), 0).state("Updating", 0).not_ready(0)
    builder.set_condition(0, keys.IN_PLACE_READY, "False")
    if hooked is not None:
        builder.with_hook("inPlaceUpdate")
    if hooked:
        builder.hooked(0)
    # when
    plan = builder.plan()
    # then
    (step,) = plan.steps
    conditions = step.action.body["status"]["conditions"]  # type: ignore[union-attr]  # a patch
    assert [(condition["type"], condition["status"]) for condition in conditions] == [
        (keys.IN_PLACE_READY, "True")
    ]
    assert states(plan) == {0: state}
    assert (
        step.because
        == f"no reason is left for condition InPlaceUpdateReady to be False, and its state can change to {state}"
    )


def test_an_in_place_update_continues_while_the_pod_is_ready() -> None:
    # given a container that is still to be updated
    builder = updatable(1)
    builder.pods["web-0"]["spec"]["containers"][0]["image"] = "nginx:0"
    builder.pods["web-0"]["status"]["containerStatuses"][0] |= {"image": "nginx:0"}
    # then
    assert images(update_state(builder, 0, nextContainerImages={"main": "nginx:1"}).plan()) == {0: "nginx:1"}


def test_a_pod_that_lost_a_condition_gets_it_before_the_kubelet_takes_it_out_of_service() -> None:
    builder = updatable(1)
    conditions = builder.pods["web-0"]["status"]["conditions"]
    conditions[:] = [condition for condition in conditions if condition["type"] != keys.IN_PLACE_READY]
    (step,) = builder.plan().steps
    (condition,) = step.action.body["status"]["conditions"]  # type: ignore[union-attr]  # a patch
    assert (condition["type"], condition["status"]) == (keys.IN_PLACE_READY, "True")


def test_a_pod_to_be_deleted_is_not_brought_into_service() -> None:
    # given a terminating pod, and a surplus pod that this plan deletes
    assert statefulset(2, parallel=True).state("Updated", 1).deleted(1).plan().stages == ()
    plan = statefulset(1).pod(1).state("Updated", 1).plan()
    assert (deleted(plan), states(plan)) == ([1], {})


@pytest.mark.parametrize("parallel", [False, True])
def test_a_broken_in_place_update_is_reported_in_the_status_and_for_its_pod(parallel: bool) -> None:
    # given an annotation that cannot be read
    builder = updatable(2, parallel=parallel).state("Updating", 1)
    builder.pods["web-1"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = "{"
    plan = builder.plan()
    # then
    assert plan.status is not None
    assert [condition["type"] for condition in plan.status["conditions"]] == ["FailedUpdatePod", "Waiting"]
    assert waiting(plan) == "CannotUpdate"
    assert plan.skipped["web-1"].code == Code.BROKEN_UPDATE
