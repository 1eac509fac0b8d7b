"""Numbered cases of the lifecycle's specification for CloneSet's plans that no other test names."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.documents import Document
from pykruise.kube.patches.schemas import find_definition
from pykruise.kube.patches.strategic import apply_strategic_merge
from pykruise.kube.resources import PODS
from pykruise.pods.view import keys
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset, revision, template
from support.plan_views import condition, deleted, left, marked, pod_patches, states

HOOK = "example.com/hook"
A, B, C = template("nginx:0"), template("nginx:1"), template("nginx:2")


def in_place(replicas: int = 1, *, old: int | None = None, **arguments: Any) -> CloneSetBuilder:
    """A rollout in place to nginx:1; all pods are old by default."""
    count = replicas if old is None else old
    builder = cloneset(replicas, old=count, **{"max_unavailable": 1, **arguments})
    return builder.with_rolling(podUpdatePolicy="InPlaceIfPossible").with_hook("inPlaceUpdate")


def to_c(builder: CloneSetBuilder, *, pods_of: Document) -> CloneSetBuilder:
    """Set the template to C; the pods are of the template `pods_of`."""
    builder.old_template = pods_of
    builder.spec["template"] = C
    builder.with_revisions(revision(A, 1), revision(B, 2), revision(C, 3))
    for short in builder.pods:
        builder.old(short)
        builder.pods[short]["spec"]["containers"] = [
            dict(container) for container in pods_of["spec"]["containers"]
        ]
        builder.pods[short]["status"]["containerStatuses"][0]["image"] = pods_of["spec"]["containers"][0][
            "image"
        ]
    return builder


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def image_given(plan: Plan, short: str) -> str:
    """The image in the last patch of the pod; empty if there is none."""
    containers = (pod_patches(plan)[short].body.get("spec") or {}).get("containers") or []
    return containers[0]["image"] if containers else ""


def test_a_pre_normal_hook_without_handlers_waits_for_a_node_only() -> None:
    """lifecycle case 5, with cloneset 9.2.16: labels written to a pod without a node can race"""
    builder = cloneset(2).with_spec(lifecycle={"preNormal": {}}).fresh("a", "b").unscheduled("b")
    assert states(planned(builder)) == {"a": "Normal"}


def test_a_hooked_pod_prepares_and_keeps_its_image_and_its_revision() -> None:
    """lifecycle case 10"""
    # given
    builder = in_place().with_finalizer(HOOK, "a")
    # when
    plan = planned(builder)
    # then
    assert states(plan) == {"a": "PreparingUpdate"}
    assert image_given(plan, "a") == ""
    assert keys.REVISION_LABEL not in pod_patches(plan)["a"].body["metadata"]["labels"]


def test_a_pod_that_is_still_hooked_is_not_written_to_again() -> None:
    """lifecycle case 11"""
    plan = planned(in_place().with_finalizer(HOOK, "a").in_state("PreparingUpdate", "a"))
    assert pod_patches(plan) == {}
    assert "inPlaceUpdate hook" in left(plan)["a"]


def test_a_released_pod_gets_state_revision_and_image_in_one_write() -> None:
    """lifecycle case 12"""
    builder = in_place().in_state("PreparingUpdate", "a")
    patch = pod_patches(planned(builder))["a"]
    assert patch.subresource == ""
    assert (
        patch.body["metadata"]["labels"]
        | {
            keys.STATE_LABEL: "Updating",
            keys.REVISION_LABEL: builder.update_revision,
        }
        == patch.body["metadata"]["labels"]
    )
    assert patch.body["spec"]["containers"] == [{"name": "main", "image": "nginx:1"}]


def test_a_pod_that_prepares_for_b_is_updated_to_c_immediately() -> None:
    """lifecycle case 21"""
    plan = planned(to_c(in_place().in_state("PreparingUpdate", "a"), pods_of=A))
    assert states(plan) == {"a": "Updating"}
    assert image_given(plan, "a") == "nginx:2"


def test_an_updated_pod_prepares_again_and_gets_its_hook_back_in_the_same_write() -> None:
    """lifecycle case 22"""
    plan = planned(to_c(in_place().in_state("Updated", "a"), pods_of=B))
    assert states(plan) == {"a": "PreparingUpdate"}
    assert pod_patches(plan)["a"].body["metadata"]["finalizers"] == [HOOK]


def test_an_updated_pod_that_cannot_change_in_place_passes_the_pre_delete_hook() -> None:
    """lifecycle case 23"""
    builder = to_c(in_place().in_state("Updated", "a"), pods_of=B)
    builder.spec["template"] = template("nginx:2", hostNetwork=True)
    builder.with_revisions(revision(B, 1), revision(builder.spec["template"], 2))
    builder.with_hook("preDelete", finalizer="example.com/leave").with_finalizer("example.com/leave", "a")
    # when
    assert marked(planned(builder)) == {"a"}
    # then, once it is marked
    plan = planned(builder.marked("a"))
    assert states(plan) == {"a": "PreparingDelete"}
    assert deleted(plan) == set()


def test_a_pod_in_update_restarts_its_update_without_its_hook() -> None:
    """lifecycle case 24"""
    builder = to_c(in_place().with_finalizer(HOOK, "a").in_state("Updating", "a"), pods_of=B)
    plan = planned(builder.not_ready("a"))
    assert states(plan) == {"a": "Updating"}
    assert image_given(plan, "a") == "nginx:2"


def test_a_pod_in_preparation_uses_the_only_unavailable_slot() -> None:
    """lifecycle case 25"""
    builder = in_place(3).with_finalizer(HOOK, "a", "b", "c").in_state("PreparingUpdate", "a")
    assert states(planned(builder)) == {}


def test_a_partition_that_is_raised_holds_the_one_that_prepares_too() -> None:
    """lifecycle case 26; the pod returns to service (test_kinds_cloneset_in_place.py)"""
    plan = planned(in_place(3, partition=3).in_state("PreparingUpdate", "a"))
    assert states(plan) == {"a": "Updated"}
    assert image_given(plan, "a") == ""


def test_state_and_condition_are_written_in_one_patch() -> None:
    """lifecycle case 31"""
    builder = in_place().with_hook("inPlaceUpdate", markPodNotReady=True).with_finalizer(HOOK, "a")
    patch = pod_patches(planned(builder))["a"]
    assert patch.subresource == "status"
    assert patch.resource_version
    assert patch.body["metadata"]["labels"][keys.STATE_LABEL] == "PreparingUpdate"
    kinds = {condition["type"]: condition["status"] for condition in patch.body["status"]["conditions"]}
    assert kinds[keys.KRUISE_POD_READY] == "False"


def test_a_hook_removed_from_the_spec_lets_the_update_begin() -> None:
    """lifecycle case 32"""
    builder = in_place().with_finalizer(HOOK, "a").in_state("PreparingUpdate", "a")
    del builder.spec["lifecycle"]
    assert states(planned(builder)) == {"a": "Updating"}


def test_an_unknown_lifecycle_state_is_reported_and_the_pod_kept() -> None:
    """lifecycle case 34"""
    plan = planned(in_place().in_state("Foo", "a"))
    assert pod_patches(plan) == {}
    result = condition(plan, "FailedUpdate")
    assert result is not None
    assert "'Foo'" in result["message"]


def test_a_pod_that_a_user_deleted_lingers_with_its_finalizer_and_does_not_count() -> None:
    """lifecycle case 43"""
    builder = cloneset(2).with_hook("preDelete").with_finalizer(HOOK, "a").deleted("a")
    plan = planned(builder)
    assert plan.status is not None
    assert plan.status["replicas"] == 1
    assert "a" not in pod_patches(plan)
    assert deleted(plan) == set()


@pytest.mark.parametrize("present", [[], [HOOK], [HOOK, "other.example.com/x"]])
def test_a_restored_finalizer_is_present_once(present: list[str]) -> None:
    """lifecycle case 52"""
    builder = to_c(in_place().in_state("Updated", "a"), pods_of=B)
    builder.pods["a"]["metadata"]["finalizers"] = [name for name in present if name != HOOK]
    patch = pod_patches(planned(builder))["a"]
    pod = {"metadata": {"name": "a", "finalizers": present}}
    merged = apply_strategic_merge(pod, patch.body, definition=find_definition(PODS))
    assert sorted(merged["metadata"]["finalizers"]) == sorted({HOOK, *present})


def test_an_unready_pod_is_prepared_only_at_the_resource_version_that_was_read() -> None:
    """Preparing takes a pod out of service: a serving pod uses the budget, an unready pod must still be unready."""
    # given pods under the hooks, of which one does not serve
    down = in_place(2).with_rolling(maxUnavailable=2).with_finalizer(HOOK, "a", "b").not_ready("a")
    marked_down = cloneset(2).with_hook("preDelete").with_finalizer(HOOK, "a", "b").marked("a", "b")
    # when
    updates = pod_patches(planned(down))
    deletions = pod_patches(planned(marked_down.with_rolling(maxUnavailable=2).not_ready("a")))
    # then
    for patches in (updates, deletions):
        assert patches["a"].resource_version == "50"
        assert patches["b"].resource_version == ""


def test_a_terminating_pod_waits_for_its_hook_and_not_for_a_begun_update() -> None:
    # given a pod whose container does not run its new image yet
    builder = cloneset(2, max_unavailable=1).with_hook("preDelete").with_finalizer(HOOK, "a").marked("a")
    begun = {
        "revision": builder.update_revision,
        "updateTimestamp": "2026-01-31T11:59:50Z",
        "lastContainerStatuses": {"main": {"imageID": "sha256:nginx:0"}},
        "updateImages": True,
    }
    builder.pods["a"]["status"]["containerStatuses"][0] |= {"image": "nginx:0", "imageID": "sha256:nginx:0"}
    builder.in_state("PreparingDelete", "a")
    builder.annotated({keys.IN_PLACE_STATE_ANNOTATION: orjson.dumps(begun).decode()}, "a")
    builder.set_condition("a", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    # then
    reason = left(planned(builder))["a"]
    assert reason.startswith("waits until the preDelete hook is removed from the pod")
