"""Pods of other owners that the selector of a CloneSet matches too."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.selector_overlap import LOOK_AGAIN_S, overlapping_pods
from pykruise.kube.documents import encode
from pykruise.pods.pod_decoding import project_pod
from pykruise.pods.views import PodView
from support.cloneset_builder import NAME, NAMESPACE, UID, cloneset


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
    found = overlapping_pods([*others, pod()], cloneset(2).view())
    assert [one.controller.name for one in found if one.controller] == ["rival"]


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
    """It was deleted, and garbage collection has not come to them yet."""
    one = pod(ownerReferences=[{**reference, "uid": "before", "controller": True}])
    found = overlapping_pods([one], cloneset(2).view())
    assert len(found) == count


def test_pods_of_another_set_are_reported_by_a_condition_and_an_event_and_nothing_is_touched() -> None:
    # given
    snapshot = msgspec.structs.replace(cloneset(2).snapshot(), overlapping=[pod(), pod(), pod(owner="other")])
    # when
    plan = plan_cloneset(snapshot)
    # then
    assert plan.status is not None
    (condition,) = [one for one in plan.status["conditions"] if one["type"] == "SelectorOverlap"]
    assert condition["status"] == "True"
    assert "ReplicaSet other, ReplicaSet rival" in condition["message"]
    assert [note.reason for note in plan.notes] == ["SelectorOverlap"]
    assert not plan.stages
    assert plan.requeue_after_s == LOOK_AGAIN_S, "others go without a word"
