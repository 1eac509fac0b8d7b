"""Which changes of a pod wake its CloneSet while the gate CloneSetEventHandlerOptimization is on."""

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from pykruise.kinds.cloneset.wakes import matters
from pykruise.pods import keys
from pykruise.pods.lifecycle import Lifecycle, LifecycleHook
from pykruise.pods.pod_decoding import project_pod
from pykruise.pods.views import PodView
from support.cloneset_builder import cloneset

Pod = dict[str, Any]

HOOKS = Lifecycle(
    pre_normal=LifecycleHook(finalizers_handler=["example.com/normal"]),
    pre_delete=LifecycleHook(finalizers_handler=["example.com/delete"]),
    in_place_update=LifecycleHook(finalizers_handler=["example.com/update"]),
)


def view(pod: Pod) -> PodView:
    return project_pod(orjson.dumps(pod))


def wakes(change: Callable[[Pod], Any], lifecycle: Lifecycle | None = HOOKS, **state: str) -> bool:
    """Whether this change of a pod wakes."""
    before = cloneset(1).pods["a"]
    before["metadata"]["labels"] |= {keys.STATE_LABEL: state.get("state", "Normal")}
    after = copy.deepcopy(before)
    change(after)
    after["metadata"]["resourceVersion"] = "51"
    return matters(view(before), view(after), lifecycle)


def condition(pod: Pod, kind: str, status: str) -> None:
    found = [one for one in pod["status"]["conditions"] if one["type"] != kind]
    pod["status"]["conditions"] = [*found, {"type": kind, "status": status}]


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["metadata"]["labels"].update(x="y"),
        lambda pod: pod["metadata"].update(generation=7),
        lambda pod: pod["status"].update(phase="Failed"),
        lambda pod: pod["spec"].update(nodeName="other"),
        lambda pod: condition(pod, "Ready", "False"),
        lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-31T12:00:00Z"),
        lambda pod: pod["metadata"].update(ownerReferences=[]),
        lambda pod: pod["metadata"]["finalizers"].append("example.com/normal"),
        lambda pod: pod["metadata"]["finalizers"].append("example.com/delete"),
        lambda pod: pod["metadata"]["finalizers"].append("example.com/update"),
        lambda pod: pod["metadata"]["annotations"].update({keys.DELETION_COST_ANNOTATION: "5"}),
        lambda pod: condition(pod, keys.IN_PLACE_READY, "False"),
    ],
    ids=[
        "a label",
        "generation",
        "it fails",
        "a node",
        "readiness",
        "it terminates",
        "its owner",
        "a finalizer of preNormal",
        "a finalizer of preDelete",
        "a finalizer of inPlaceUpdate",
        "its deletion cost",
        "its own gate",
    ],
)
def test_what_a_decision_reads_wakes(change: Callable[[Pod], Any]) -> None:
    """cloneset cases 80 and 82, lifecycle 9.1.3"""
    assert wakes(change)


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["status"]["containerStatuses"][0].update(
            state={"running": {"startedAt": "2026-01-31T12:00:00Z"}}
        ),
        lambda pod: pod["status"].update(message="something"),
        lambda pod: pod["metadata"]["annotations"].update({"example.com/a": "b"}),
        lambda pod: pod["metadata"]["finalizers"].append("example.com/foreign"),
        lambda pod: condition(pod, "example.com/other", "True"),
    ],
    ids=["a container's state", "a message", "an annotation", "a strange finalizer", "a strange condition"],
)
def test_what_no_decision_reads_wakes_no_set(change: Callable[[Pod], Any]) -> None:
    """cloneset case 82"""
    assert not wakes(change)


def test_without_hooks_finalizers_do_not_count() -> None:
    assert not wakes(lambda pod: pod["metadata"]["finalizers"].append("example.com/normal"), None)


def test_while_a_pod_is_updated_in_place_its_containers_count() -> None:
    def restart(pod: Pod) -> None:
        pod["status"]["containerStatuses"][0]["imageID"] = "sha256:other"

    assert wakes(restart, state="Updating")


def test_a_pod_that_comes_or_goes_wakes() -> None:
    pod = view(cloneset(1).pods["a"])
    assert matters(None, pod, None)
    assert matters(pod, None, None)


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    assert wakes(lambda pod: pod["metadata"].update(uid="another"))


@pytest.mark.parametrize("is_over", [False, True])
def test_an_update_in_place_that_begins_or_ends_wakes(is_over: bool) -> None:
    """By its condition alone: its status, and all else of the pod, may stay the same."""
    over = cloneset(1).annotated({keys.IN_PLACE_STATE_ANNOTATION: '{"revision":"x"}'}, "a").pods["a"]
    under_way = copy.deepcopy(over)
    (gate,) = [one for one in under_way["status"]["conditions"] if one["type"] == keys.IN_PLACE_READY]
    gate["reason"] = "StartInPlaceUpdate"
    before, after = (under_way, over) if is_over else (over, under_way)
    assert matters(view(before), view(after), None)


def test_a_hook_without_finalizers_waits_for_none() -> None:
    by_label = Lifecycle(pre_delete=LifecycleHook(labels_handler={"a": "b"}))
    assert not wakes(lambda pod: pod["metadata"]["finalizers"].append("example.com/delete"), by_label)
    by_both = Lifecycle(pre_delete=HOOKS.pre_delete)
    assert wakes(lambda pod: pod["metadata"]["finalizers"].append("example.com/delete"), by_both)
