"""The next step of a pod that updates to another revision in place."""

from typing import Any

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.plans.in_place import TurnTarget, find_hook_wait, take_turn
from pykruise.plans.pod_writes import chain_of
from pykruise.pods.in_place import InPlaceSettings, UpdateSpec
from pykruise.pods.lifecycle.states import LifecycleHook
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerFacts
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Patch

NOW = parse_time("2026-01-31T12:00:00Z")
SPEC = UpdateSpec(revision="web-2", images={"main": "nginx:2"})
LABELS = LifecycleHook(labels_handler={"hook": "on"})
FINALIZERS = LifecycleHook(finalizers_handler=["example.com/hook"])
MARKING = LifecycleHook(labels_handler={"hook": "on"}, mark_pod_not_ready=True)


def pod(state: str = "Normal", *, hooked: bool = False, serving: bool = True, **fields: Any) -> PodView:
    return PodView(
        namespace="shop",
        name="a",
        uid="uid-a",
        resource_version=5,
        labels={keys.STATE_LABEL: state, **({"hook": "on"} if hooked else {})},
        state=state,
        is_serving=serving,
        containers=(ContainerFacts(name="main", image="nginx:1"),),
        **fields,
    )


def turn(pod: PodView, hook: LifecycleHook | None) -> tuple[list[Patch], str]:
    """The writes, and the code of the reason why the pod waits."""
    target = TurnTarget(
        revision="web-2",
        labels={keys.REVISION_LABEL: "web-2"},
        hook=hook,
        now=NOW,
        settings=InPlaceSettings(),
    )
    if waits := find_hook_wait(pod, hook):
        return [], waits.code
    steps = chain_of(take_turn(pod, SPEC, target)).steps
    patches = [step.action for step in steps if isinstance(step.action, Patch)]
    assert len(patches) == len(steps)
    return patches, ""


@pytest.mark.parametrize(
    ("item", "hook"),
    [
        (pod(), None),
        (pod(hooked=True), None),
        (pod(), LABELS),
        (pod("PreparingUpdate"), LABELS),
        (pod("PreparingUpdate", hooked=True), None),
        (pod("Updating", hooked=True), LABELS),
        (pod(""), LABELS),
    ],
    ids=[
        "without a hook",
        "a label of no hook",
        "the hook is not on the pod",
        "the hook has let go",
        "the hook is gone from the spec",
        "the hook was asked before this update",
        "never under management",
    ],
)
def test_an_update_that_nothing_holds_begins(item: PodView, hook: LifecycleHook | None) -> None:
    (*_, patch), waits = turn(item, hook)
    assert waits == ""
    assert patch.body["spec"]["containers"] == [{"name": "main", "image": "nginx:2"}]
    assert patch.body["metadata"]["labels"] == {
        keys.REVISION_LABEL: "web-2",
        keys.STATE_LABEL: "Updating",
    }


@pytest.mark.parametrize(
    ("item", "hook", "code"),
    [
        (pod("PreparingUpdate", hooked=True), LABELS, Code.IN_PLACE_UPDATE_HOOK),
        (pod("Updated"), None, Code.UPDATING_IN_PLACE),
    ],
    ids=["its hook holds it", "its last update is about to end"],
)
def test_a_pod_may_wait_for_its_hook_or_its_last_update(
    item: PodView, hook: LifecycleHook | None, code: Code
) -> None:
    assert turn(item, hook) == ([], code)


def prepared(pod: PodView, hook: LifecycleHook) -> Patch:
    (patch,), waits = turn(pod, hook)
    assert waits == ""
    assert patch.body["metadata"]["labels"][keys.STATE_LABEL] == "PreparingUpdate"
    assert "spec" not in patch.body
    return patch


def test_a_pod_with_a_hook_is_prepared_first() -> None:
    patch = prepared(pod(hooked=True), LABELS)
    assert patch.body["metadata"]["labels"].keys() == {keys.STATE_LABEL}
    assert (patch.subresource, patch.resource_version) == ("", "")
    # and a hook that holds pods by a finalizer, too
    patch = prepared(pod(finalizers=("example.com/hook",)), FINALIZERS)
    assert "finalizers" not in patch.body["metadata"]


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (LABELS, {"labels": {"hook": "on"}}),
        (FINALIZERS, {"labels": {}, "finalizers": ["example.com/hook"]}),
    ],
)
@pytest.mark.parametrize("hooked", [True, False])
def test_a_pod_that_is_still_updated_gets_its_hook_again(
    hook: LifecycleHook, expected: Document, hooked: bool
) -> None:
    metadata = prepared(pod("Updated", hooked=hooked), hook).body["metadata"]
    del metadata["annotations"], metadata["labels"][keys.STATE_LABEL]
    assert metadata == expected


def test_a_hook_that_takes_pods_out_of_service_does_so_in_the_same_write() -> None:
    patch = prepared(pod(hooked=True, readiness_gates=(keys.KRUISE_POD_READY,)), MARKING)
    (condition,) = patch.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.KRUISE_POD_READY, "False")
    assert (patch.subresource, patch.resource_version) == ("status", "5")
    # if the pod has the readiness gate for that
    patch = prepared(pod(hooked=True), MARKING)
    assert ("status" in patch.body, patch.subresource, patch.resource_version) == (False, "", "")
    # and the hook demands it
    patch = prepared(pod(hooked=True, readiness_gates=(keys.KRUISE_POD_READY,)), LABELS)
    assert "status" not in patch.body


def test_a_pod_that_is_not_ready_prepares_only_at_the_version_that_was_seen() -> None:
    """It may have become ready since, and would then count against the budget."""
    assert prepared(pod(hooked=True, serving=False), LABELS).resource_version == "5"
