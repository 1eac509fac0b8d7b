"""Pods of other owners that the selector of a CloneSet matches too."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.selector_overlap import find_overlapping_pods
from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS, CloneSetSettings, CloneSetView
from pykruise.kube.documents import encode
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Memories
from support.cloneset_builder import NAME, NAMESPACE, UID, cloneset
from support.snapshots import snapshot_of
from support.wakes import Woken


def pod(*, owner: str = "rival", **metadata: Any) -> PodView:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": owner,
        "controller": True,
    }
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": "x",
                    "namespace": NAMESPACE,
                    "labels": {"app": "web"},
                    "ownerReferences": [reference] if owner else [],
                    **metadata,
                }
            }
        )
    )


def test_only_active_pods_that_another_owner_manages_count() -> None:
    others = [
        pod(owner=UID),
        pod(owner=""),
        pod(deletionTimestamp="2026-01-31T12:00:00Z"),
    ]
    pods = find_overlapping_pods([*others, pod()], cloneset(2).view())
    assert [pod.controller.name for pod in pods if pod.controller] == ["rival"]


@pytest.mark.parametrize(
    ("reference", "count"),
    [
        ({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": NAME}, 0),
        ({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": NAME}, 0),
        ({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "other"}, 1),
        ({"apiVersion": "example.com/v1", "kind": "CloneSet", "name": NAME}, 1),
        ({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": NAME}, 1),
    ],
)
def test_pods_of_an_earlier_cloneset_of_this_name_do_not_overlap(
    reference: dict[str, str], count: int
) -> None:
    """The earlier CloneSet is deleted, and garbage collection has not deleted its pods yet."""
    item = pod(ownerReferences=[{**reference, "uid": "before", "controller": True}])
    pods = find_overlapping_pods([item], cloneset(2).view())
    assert len(pods) == count


def test_pods_of_another_set_cause_a_condition_and_an_event_and_no_writes() -> None:
    # given
    others = [pod(), pod(), *(pod(owner=name) for name in "dcba")]
    snapshot = msgspec.structs.replace(cloneset(2).snapshot(), overlapping=others)
    # when
    plan = plan_cloneset(snapshot)
    # then
    assert plan.status is not None
    (condition,) = [
        condition for condition in plan.status["conditions"] if condition["type"] == "SelectorOverlap"
    ]
    assert condition["status"] == "True"
    named = ", ".join(f"ReplicaSet {name}" for name in ("a", "b", "c", "d", "rival"))
    assert named in condition["message"]
    assert [(note.reason, note.warning) for note in plan.notes] == [("SelectorOverlap", True)]
    assert not plan.stages
    assert plan.requeue_after_s is None, "their pods say when they go"


class Listening:
    """A CloneSet after a snapshot with these pods. A test adds and deletes pods, and reads the effects."""

    def __init__(self, *pods: PodView, selector: dict[str, Any] | None = None) -> None:
        builder = cloneset(0)
        if selector is not None:
            builder.spec["selector"] = selector
        self.view: CloneSetView = builder.view()
        self.memories = Memories()
        self.pods = {pod.name: pod for pod in pods}
        self.now = builder.now
        self.woken = Woken(
            KIND, {CLONE_SET_VIEWS: [self.view]}, settings=CloneSetSettings(), memories=self.memories
        )
        self.owners()

    def owners(self) -> list[str]:
        """Owners of the overlapping pods in the next snapshot."""
        objects = {POD_VIEWS: self.pods.values()}
        result = snapshot_of(
            KIND, self.view, objects, settings=CloneSetSettings(), now=self.now, memories=self.memories
        )
        return sorted(item.controller.name for item in result.overlapping if item.controller)

    def hears(self, name: str, new: PodView | None) -> bool:
        """Return whether the CloneSet is enqueued when the pod of this name becomes `new`."""
        old = self.pods.pop(name, None)
        if new is not None:
            self.pods[name] = new
        return self.woken.by(POD_VIEWS, old, new) == [NAME]


def test_the_first_and_the_last_pod_of_another_owner_enqueue_the_cloneset() -> None:
    # given
    listening = Listening(pod(name="a", owner=UID))
    # when pods of others come, then
    assert listening.hears("b", pod(name="b"))
    assert not listening.hears("c", pod(name="c")), "the owner is known"
    assert listening.hears("d", pod(name="d", owner="other"))
    assert listening.owners() == ["other", "rival", "rival"]
    # when they go, then
    assert not listening.hears("b", None), "the owner has another one"
    assert listening.hears("c", pod(name="c", deletionTimestamp="2026-01-31T12:00:00Z"))
    assert not listening.hears("c", None), "it did not count any more"
    assert listening.owners() == ["other"]
    assert listening.hears("d", pod(name="d", owner="other", labels={"app": "else"}))
    assert listening.owners() == []


def test_an_overlap_seen_at_the_first_look_ends_with_its_last_pod() -> None:
    # given
    listening = Listening(pod(name="b"), pod(name="c"))
    assert listening.owners() == ["rival", "rival"]
    # when, then
    assert not listening.hears("b", None)
    assert listening.hears("c", None)
    assert listening.owners() == []


def test_a_pod_that_changes_its_owner_enqueues_the_cloneset() -> None:
    listening = Listening(pod(name="b"))
    assert listening.hears("b", pod(name="b", owner="other"))
    assert listening.owners() == ["other"]
    listening.hears("b", pod(name="b", owner=UID))
    assert listening.owners() == []


@pytest.mark.parametrize(
    "item",
    [
        pod(name="b", labels={"app": "else"}),
        pod(name="b", namespace="else"),
        pod(name="b", deletionTimestamp="2026-01-31T12:00:00Z"),
    ],
    ids=["other labels", "another namespace", "terminating"],
)
def test_pods_that_do_not_overlap_enqueue_nothing(item: PodView) -> None:
    assert not Listening().hears("b", item)


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "In", "values": ["else", "web"]},
        {"key": "app", "operator": "Exists"},
        {"key": "tier", "operator": "DoesNotExist"},
    ],
    ids=["one of some values", "any value", "a label that must not be there"],
)
def test_any_selector_is_found_by_the_labels_of_a_pod(expression: dict[str, Any]) -> None:
    assert Listening(selector={"matchExpressions": [expression]}).hears("b", pod(name="b"))


@pytest.mark.parametrize("old", [None, pod(name="b", owner="")], ids=["it comes", "it had no owner"])
def test_a_matching_pod_of_another_owner_enqueues_the_cloneset(old: PodView | None) -> None:
    listening = Listening(*([old] if old else []))
    assert listening.hears("b", pod(name="b"))
    assert listening.owners() == ["rival"]


@pytest.mark.parametrize(
    "selector",
    [{}, {"matchExpressions": [{"key": "a", "operator": "Like"}]}],
    ids=["empty", "it cannot be read"],
)
def test_a_selector_that_selects_nothing_overlaps_with_nothing(selector: dict[str, Any]) -> None:
    listening = Listening(pod(name="b"), selector=selector)
    assert listening.owners() == []
    assert not listening.hears("c", pod(name="c", owner="other"))
    assert listening.owners() == []


def test_pods_enqueue_nothing_before_the_first_snapshot() -> None:
    # given
    woken = Woken(KIND, {CLONE_SET_VIEWS: [cloneset(0).view()]}, settings=CloneSetSettings())
    # when, then
    assert woken.by(POD_VIEWS, None, pod(name="b")) == []


@pytest.mark.parametrize(
    ("old", "new", "is_heard"),
    [
        (None, pod(owner=""), True),
        (None, pod(owner="", labels={"app": "else"}), False),
        (None, pod(owner="", namespace="else"), False),
        (pod(owner="", labels={"app": "else"}), pod(owner=""), True),
        (pod(owner=""), pod(owner="", resourceVersion="8"), False),
        (pod(owner=""), None, False),
    ],
    ids=["comes", "other labels", "another namespace", "gets the labels", "nothing of it", "goes"],
)
def test_a_matching_pod_without_an_owner_enqueues_the_cloneset(
    old: PodView | None, new: PodView | None, is_heard: bool
) -> None:
    listening = Listening(*([old] if old else []))
    assert listening.hears("x", new) is is_heard
