"""Changes of a pod that wake its CloneSet while the gate CloneSetEventHandlerOptimization is on."""

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS, CloneSetSettings
from pykruise.kinds.cloneset.wakes import is_relevant
from pykruise.plans.views import BUDGET_VIEWS, CLAIM_VIEWS, POD_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.lifecycle.states import Lifecycle, LifecycleHook
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.names import InstanceId
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView
from pykruise.runtime.assemble import views_of
from support.cloneset_builder import UID, cloneset
from support.snapshots import control_of
from support.wakes import Woken

Pod = dict[str, Any]

HOOKS = Lifecycle(
    pre_normal=LifecycleHook(finalizers_handler=["example.com/normal"]),
    pre_delete=LifecycleHook(finalizers_handler=["example.com/delete"]),
    in_place_update=LifecycleHook(finalizers_handler=["example.com/update"]),
)


def view(pod: Pod) -> PodView:
    return project_pod(orjson.dumps(pod))


def wakes(change: Callable[[Pod], Any], lifecycle: Lifecycle | None = HOOKS, **state: str) -> bool:
    """Return whether this change of a pod wakes the CloneSet."""
    before = cloneset(1).pods["a"]
    before["metadata"]["labels"] |= {keys.STATE_LABEL: state.get("state", "Normal")}
    after = copy.deepcopy(before)
    change(after)
    after["metadata"]["resourceVersion"] = "51"
    return is_relevant(view(before), view(after), lifecycle)


def condition(pod: Pod, kind: str, status: str) -> None:
    result = [condition for condition in pod["status"]["conditions"] if condition["type"] != kind]
    pod["status"]["conditions"] = [*result, {"type": kind, "status": status}]


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
def test_a_change_of_a_field_that_the_plan_reads_enqueues_the_cloneset(change: Callable[[Pod], Any]) -> None:
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
def test_a_change_that_no_plan_reads_enqueues_nothing(change: Callable[[Pod], Any]) -> None:
    """cloneset case 82"""
    assert not wakes(change)


def test_finalizers_do_not_count_without_hooks() -> None:
    assert not wakes(lambda pod: pod["metadata"]["finalizers"].append("example.com/normal"), None)


def test_while_a_pod_is_updated_in_place_its_containers_count() -> None:
    def restart(pod: Pod) -> None:
        pod["status"]["containerStatuses"][0]["imageID"] = "sha256:other"

    assert wakes(restart, state="Updating")


def test_a_created_or_deleted_pod_enqueues_the_cloneset() -> None:
    pod = view(cloneset(1).pods["a"])
    assert is_relevant(None, pod, None)
    assert is_relevant(pod, None, None)


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    assert wakes(lambda pod: pod["metadata"].update(uid="another"))


@pytest.mark.parametrize("is_over", [False, True])
def test_an_update_in_place_that_begins_or_ends_enqueues_its_cloneset(is_over: bool) -> None:
    """Only the reason of the condition may change: its status and the rest of the pod may stay the same."""
    over = cloneset(1).annotated({keys.IN_PLACE_STATE_ANNOTATION: '{"revision":"x"}'}, "a").pods["a"]
    under_way = copy.deepcopy(over)
    (gate,) = [
        condition
        for condition in under_way["status"]["conditions"]
        if condition["type"] == keys.IN_PLACE_READY
    ]
    gate["reason"] = "StartInPlaceUpdate"
    before, after = (under_way, over) if is_over else (over, under_way)
    assert is_relevant(view(before), view(after), None)


def test_a_hook_without_finalizers_does_not_enqueue_on_finalizers() -> None:
    by_label = Lifecycle(pre_delete=LifecycleHook(labels_handler={"a": "b"}))
    assert not wakes(lambda pod: pod["metadata"]["finalizers"].append("example.com/delete"), by_label)
    by_both = Lifecycle(pre_delete=HOOKS.pre_delete)
    assert wakes(lambda pod: pod["metadata"]["finalizers"].append("example.com/delete"), by_both)


@pytest.mark.parametrize("filters", [False, True])
def test_only_under_its_gate_a_change_that_no_decision_reads_passes(filters: bool) -> None:
    """cloneset case 82"""
    # given
    builder = cloneset(1)
    before = builder.pods["a"]
    after = copy.deepcopy(before)
    after["status"]["message"] = "something"
    woken = Woken(
        KIND, {CLONE_SET_VIEWS: [builder.view()]}, settings=CloneSetSettings(filters_events=filters)
    )
    # then
    assert woken.by(POD_VIEWS, view(before), view(after)) == ([] if filters else ["web"])
    assert woken.by(POD_VIEWS, view(before), None) == ["web"]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_unreadable_or_unknown_cloneset_is_enqueued_by_every_event_of_its_pods(is_there: bool) -> None:
    # given
    builder = cloneset(1)
    builder.spec["replicas"] = "many"
    shown = builder.view()
    assert shown.spec is None
    views = {CLONE_SET_VIEWS: [shown] if is_there else []}
    woken = Woken(KIND, views, settings=CloneSetSettings(filters_events=True))
    # then
    pod = view(builder.pods["a"])
    assert woken.by(POD_VIEWS, pod, pod) == ["web"]


@pytest.mark.parametrize(("pulls", "asks"), [(False, True), (True, False)])
def test_pull_jobs_and_budgets_are_read_only_where_their_gates_are_on(pulls: bool, asks: bool) -> None:
    """cloneset 6.10"""
    read = views_of(control_of(KIND), CloneSetSettings(pre_download=pulls, asks_budgets=asks))
    assert (PULL_JOB_VIEWS in read, BUDGET_VIEWS in read) == (pulls, asks)


def claim(*, owner: str = UID, instance_id: str = "a", version: int = 1) -> ClaimView:
    return ClaimView(
        namespace="shop",
        name="data-web-a",
        uid="u",
        resource_version=version,
        instance_id=InstanceId(instance_id),
        controller_uid=owner,
    )


@pytest.mark.parametrize(
    ("old", "new", "is_making", "is_woken"),
    [
        (None, claim(), False, True),
        (None, claim(), True, False),
        (None, claim(owner="another"), False, False),
        (claim(), None, False, False),
        (claim(), claim(version=2), False, False),
        (claim(), claim(version=2), True, False),
        (claim(), claim(owner="uid-of-a-pod", version=2), False, True),
        (claim(), claim(owner="uid-of-a-pod", version=2), True, True),
        (claim(owner=""), claim(version=2), False, True),
        (claim(), claim(instance_id="b", version=2), False, True),
        (claim(owner="another"), claim(owner="", version=2), False, False),
    ],
    ids=[
        "comes unexpectedly",
        "is made at this moment",
        "of another set",
        "goes",
        "is bound",
        "is bound while it is made",
        "is handed over to a pod",
        "is handed over while it is made",
        "is adopted",
        "gets another id",
        "of another set loses its owner",
    ],
)
def test_a_claim_that_changes_its_owner_or_is_created_unexpectedly_enqueues_its_cloneset(
    old: ClaimView | None, new: ClaimView | None, is_making: bool, is_woken: bool
) -> None:
    """A claim that is created or deleted with its pod does not enqueue the CloneSet a second time."""
    views = {CLONE_SET_VIEWS: [cloneset(1).view()]}
    woken = Woken(KIND, views, settings=CloneSetSettings(), is_making=lambda *_: is_making)
    assert woken.by(CLAIM_VIEWS, old, new) == (["web"] if is_woken else [])
