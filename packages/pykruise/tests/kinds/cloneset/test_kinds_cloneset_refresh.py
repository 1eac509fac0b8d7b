"""Bringing pods into service: one write for everything that is due."""

import json

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.patches.types import PatchType
from pykruise.pods.view import keys
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset
from support.plan_views import created, deleted, left, pod_patches, replaced, states


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def test_a_terminating_pod_gets_no_conditions() -> None:
    """inplace-update case 56"""
    builder = cloneset(2).fresh("a").deleted("a")
    assert pod_patches(planned(builder)) == {}


def test_a_new_pod_gets_its_conditions_and_its_state_in_one_write() -> None:
    """inplace-update case 44, lifecycle case 2"""
    # given a new pod on a node, with the gate that pod admission adds
    builder = cloneset(2).fresh("a")
    # when
    plan = planned(builder)
    # then
    assert [stage.purpose for stage in plan.stages] == ["refresh pods"]
    assert pod_patches(plan) == {
        "a": Patch(
            resource=pod_patches(plan)["a"].resource,
            key=pod_patches(plan)["a"].key,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
            uid="uid-a",
            body={
                "metadata": {
                    "labels": {keys.STATE_LABEL: "Normal"},
                    "annotations": {keys.STATE_TIME_ANNOTATION: "2026-01-31T12:00:00Z"},
                },
                "status": {
                    "conditions": [
                        {
                            "type": gate,
                            "status": "True",
                            "lastTransitionTime": "2026-01-31T12:00:00Z",
                        }
                        for gate in (keys.IN_PLACE_READY, keys.KRUISE_POD_READY)
                    ]
                },
            },
        )
    }


def test_a_pod_without_a_node_is_not_written_to() -> None:
    """cloneset case 81"""
    builder = cloneset(2).fresh("a").unscheduled("a")
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["a"] == "waits for a node"


def test_a_pod_without_a_node_waits_for_an_existing_hook() -> None:
    builder = cloneset(1).with_hook("preNormal").in_state("PreparingNormal", "a").unscheduled("a")
    assert left(planned(builder))["a"] == "waits for the preNormal hook: finalizer example.com/hook"


def test_a_pod_without_a_node_gets_the_hash_label_that_it_lacks() -> None:
    builder = cloneset(1).fresh("a").unscheduled("a")
    del builder.pods["a"]["metadata"]["labels"][keys.TEMPLATE_HASH_LABEL]
    assert keys.TEMPLATE_HASH_LABEL in pod_patches(planned(builder))["a"].body["metadata"]["labels"]


def test_a_pending_pod_cancels_an_update_that_is_no_longer_wanted() -> None:
    builder = cloneset(1).with_hook("inPlaceUpdate").in_state("PreparingUpdate", "a").unscheduled("a")
    assert states(planned(builder)) == {"a": "Updated"}


def test_a_pending_pod_whose_update_cannot_continue_reports_that() -> None:
    builder = cloneset(1).fresh("a").unscheduled("a").annotated({keys.IN_PLACE_GRACE_ANNOTATION: "{"}, "a")
    assert left(planned(builder))["a"].startswith("its in-place update cannot continue: ")


def test_a_settled_pod_is_not_written_to_again() -> None:
    """inplace-update case 44, lifecycle case 51"""
    assert not planned(cloneset(3)).stages


def test_a_pod_that_waits_for_its_hook_may_become_ready() -> None:
    """cloneset case 80, lifecycle case 3"""
    # given
    builder = cloneset(1).with_hook("preNormal").fresh("a")
    # then it gets the conditions now
    patch = pod_patches(planned(builder))["a"]
    assert "metadata" not in patch.body
    # but it is not available, although it is ready
    builder.add("a").in_state("PreparingNormal", "a")
    plan = planned(builder)
    assert not plan.stages
    assert ((plan.status or {})["readyReplicas"], (plan.status or {})["availableReplicas"]) == (1, 0)
    assert left(plan)["a"] == "waits for the preNormal hook: finalizer example.com/hook"
    # until it has the finalizer
    builder.with_finalizer("example.com/hook", "a")
    plan = planned(builder)
    assert states(plan) == {"a": "Normal"}
    assert pod_patches(plan)["a"].subresource == ""


def test_a_label_of_the_template_satisfies_the_pre_normal_hook_immediately() -> None:
    """lifecycle case 6"""
    builder = cloneset(1, lifecycle={"preNormal": {"labelsHandler": {"app": "web"}}}).fresh("a")
    assert states(planned(builder)) == {"a": "Normal"}


def test_an_undone_condition_is_written_again_on_the_very_version_read() -> None:
    """inplace-update case 51: another writer's stale status may undo a condition"""
    builder = cloneset(1).set_condition("a", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    patch = pod_patches(planned(builder))["a"]
    assert patch.resource_version == "50"
    assert patch.body["status"]["conditions"][0]["reason"] is None


def test_a_pod_without_the_hash_label_gets_it() -> None:
    builder = cloneset(2)
    del builder.pods["b"]["metadata"]["labels"][keys.TEMPLATE_HASH_LABEL]
    patch = pod_patches(planned(builder))["b"]
    assert patch.body == {
        "metadata": {"labels": {keys.TEMPLATE_HASH_LABEL: builder.update_revision.split("-")[-1]}}
    }
    assert patch.subresource == ""


def test_a_pod_of_no_revision_gets_no_hash_label() -> None:
    builder = cloneset(2).paused()
    for label in (keys.REVISION_LABEL, keys.TEMPLATE_HASH_LABEL):
        del builder.pods["b"]["metadata"]["labels"][label]
    assert not planned(builder).stages


@pytest.mark.parametrize(("hooked", "state"), [(False, "Updated"), (True, "Normal")])
def test_a_pod_rolled_back_while_it_prepared_leaves_that_state(hooked: bool, state: str) -> None:
    """cloneset case 76, lifecycle case 20: and no writer holds the pod out of service any longer"""
    # given
    builder = cloneset(2).with_hook("inPlaceUpdate", markPodNotReady=True).in_state("PreparingUpdate", "a")
    if hooked:
        builder.with_finalizer("example.com/hook", "a")
    held = json.dumps([{"userAgent": "Lifecycle", "key": "preUpdateHook"}])
    builder.set_condition("a", keys.KRUISE_POD_READY, "False", message=held)
    # when
    plan = planned(builder)
    # then
    assert states(plan) == {"a": state}
    (result,) = pod_patches(plan)["a"].body["status"]["conditions"]
    assert (result["type"], result["status"], result["message"]) == (keys.KRUISE_POD_READY, "True", "[]")


def test_updated_pods_become_normal_when_the_hook_is_restored_or_removed_from_the_spec() -> None:
    """lifecycle cases 14 and 17"""
    builder = cloneset(2).with_hook("inPlaceUpdate").in_state("Updated", "a", "b")
    builder.with_finalizer("example.com/hook", "a")
    assert states(planned(builder)) == {"a": "Normal"}
    del builder.spec["lifecycle"]
    assert states(planned(builder)) == {"a": "Normal", "b": "Normal"}


def test_on_delete_finishes_updates_that_began() -> None:
    """cloneset case 70 (as far as states go)"""
    builder = cloneset(2).on_delete().in_state("Updated", "a").fresh("b")
    assert states(planned(builder)) == {"a": "Normal", "b": "Normal"}


def test_pods_become_normal_while_others_are_created_or_deleted() -> None:
    # given a scale-up half done
    plan = planned(cloneset(5, pods=2).fresh("a"))
    assert (set(states(plan)), len(created(plan))) == ({"a"}, 3)
    assert [stage.purpose for stage in plan.stages] == ["refresh pods", "create pods"]


def test_a_rolled_back_pod_leaves_its_preparation_while_others_are_created() -> None:
    builder = cloneset(3, pods=2).with_hook("inPlaceUpdate").in_state("PreparingUpdate", "a")
    plan = planned(builder)
    assert (states(plan), len(created(plan))) == ({"a": "Updated"}, 1)


def test_a_pod_to_be_deleted_is_not_refreshed() -> None:
    plan = planned(cloneset(1, pods=3).fresh("a", "b"))
    assert deleted(plan) == {"a", "b"}
    assert pod_patches(plan) == {}
    plan = planned(cloneset(2, old=2, max_unavailable="100%").fresh("a"))
    assert replaced(plan) == {"a", "b"}
    assert states(plan) == {}
