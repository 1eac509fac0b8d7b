"""The steps that phases of every kind make for a pod."""

from typing import Any

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.plans.phases import delete_steps, skip, stage_of, state_step
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.states import LifecycleHook, LifecycleState
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import ConditionView, PodView
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Chain, Step
from pykruise.runtime.reasons import Reason

NOW = parse_time("2026-01-31T12:00:00Z")
HOOK = LifecycleHook(labels_handler={"hook": "on"})
MARKING = LifecycleHook(labels_handler={"hook": "on"}, mark_pod_not_ready=True)
GATES = (keys.KRUISE_POD_READY,)
HELD = ConditionView(
    keys.KRUISE_POD_READY, "False", message='[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
)


def pod(*, hooked: bool = False, serving: bool = True, **fields: Any) -> PodView:
    return PodView(
        namespace="shop",
        name="a",
        uid="uid-a",
        resource_version=5,
        labels={"hook": "on"} if hooked else {},
        is_serving=serving,
        **fields,
    )


def deletion(pod: PodView, hook: LifecycleHook | None = None) -> tuple[Step | None, Reason | None]:
    steps, waits = delete_steps(pod, hook=hook, now=NOW, because="surplus")
    assert len(steps) <= 1
    return (steps[0] if steps else None), waits


@pytest.mark.parametrize(
    ("item", "hook", "insists"),
    [
        (pod(), None, False),
        (pod(serving=False), None, True),
        (pod(), HOOK, True),
        (pod(state="PreparingDelete"), HOOK, True),
        (pod(hooked=True), None, False),
    ],
    ids=["serving", "not serving", "the hook might come back", "released by its hook", "a label of no hook"],
)
def test_a_pod_that_nothing_holds_is_deleted(
    item: PodView, hook: LifecycleHook | None, insists: bool
) -> None:
    """As it was seen, where another version of it might stay."""
    step, waits = deletion(item, hook)
    assert step is not None
    assert waits is None
    assert isinstance(step.action, Delete)
    assert (step.action.uid, step.action.resource_version) == ("uid-a", "5" if insists else "")
    assert step.failed is not None
    assert step.failed.warning


def prepared(pod: PodView, hook: LifecycleHook) -> tuple[Document, str, str]:
    """Of the one patch: its body, subresource, and the version that it insists on."""
    step, waits = deletion(pod, hook)
    assert step is not None
    assert waits is None
    assert isinstance(step.action, Patch)
    return step.action.body, step.action.subresource, step.action.resource_version


@pytest.mark.parametrize(("serving", "version"), [(True, ""), (False, "5")])
def test_a_pod_that_its_hook_holds_prepares_first(serving: bool, version: str) -> None:
    """A pod that goes because it does not serve must not have become ready meanwhile."""
    body, subresource, insists_on = prepared(pod(hooked=True, serving=serving), HOOK)
    assert body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    assert ("status" in body, subresource, insists_on) == (False, "", version)


@pytest.mark.parametrize("state", ["Normal", "PreparingDelete"])
def test_a_hook_that_takes_pods_out_of_service_does_so_in_the_same_write(state: str) -> None:
    """Also when the pod has prepared before the hook was to do so."""
    body, subresource, insists_on = prepared(pod(hooked=True, state=state, readiness_gates=GATES), MARKING)
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.KRUISE_POD_READY, "False")
    assert body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    assert (subresource, insists_on) == ("status", "5")


@pytest.mark.parametrize(
    ("item", "hook"),
    [
        (pod(hooked=True, state="PreparingDelete", readiness_gates=GATES), HOOK),
        (pod(hooked=True, state="PreparingDelete"), MARKING),
        (pod(hooked=True, state="PreparingDelete", readiness_gates=GATES, conditions=(HELD,)), MARKING),
    ],
    ids=["it takes no pod out of service", "without the readiness gate", "out of service"],
)
def test_a_pod_that_has_prepared_waits_for_its_hook(item: PodView, hook: LifecycleHook) -> None:
    step, waits = deletion(item, hook)
    assert step is None
    assert waits is not None
    assert waits.code == Code.PRE_DELETE_HOOK


def test_a_hook_holds_only_pods_that_have_prepared() -> None:
    step, waits = deletion(pod(hooked=True), HOOK)
    assert (step is not None, waits) == (True, None)


@pytest.mark.parametrize(
    ("conditions", "unchanged", "version", "subresource"),
    [
        ([], False, "", ""),
        ([], True, "5", ""),
        ([{"type": "Ready", "status": "False"}], False, "5", "status"),
    ],
)
def test_a_state_is_set_with_its_conditions_in_one_write(
    conditions: list[Document], unchanged: bool, version: str, subresource: str
) -> None:
    step = state_step(
        pod(), LifecycleState.NORMAL, now=NOW, because="", conditions=conditions, unchanged=unchanged
    )
    assert isinstance(step.action, Patch)
    assert (step.action.resource_version, step.action.subresource) == (version, subresource)
    assert step.action.body.get("status", {"conditions": []}) == {"conditions": conditions}
    assert ("status" in step.action.body) is bool(conditions)


def test_there_is_no_stage_without_a_write() -> None:
    assert stage_of(Purpose.UPDATE_PODS, []) == ()
    (stage,) = stage_of(Purpose.UPDATE_PODS, [Chain(subject="a", steps=())])
    assert stage.purpose == Purpose.UPDATE_PODS


def test_pods_are_left_alone_for_one_reason() -> None:
    reason = Reason(Code.PAUSED, "updates are paused")
    assert skip([pod()], reason) == {"a": reason}
