"""The number of pods: the pods that are created, deleted and kept."""

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.patches.types import PatchType
from pykruise.pods.view import keys
from support.cloneset_builder import NAME, NAMESPACE, UID, cloneset, revision, template
from support.plan_views import (
    created,
    created_revisions_of_pods,
    deleted,
    left,
    pod_patches,
    reasons,
    replaced,
    states,
    steps_named,
)

# Creating


def test_missing_pods_are_created_complete_and_one_batch_after_another() -> None:
    """cloneset case 20, lifecycle case 1"""
    # given
    builder = cloneset(3, pods=0)
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    pods = created(plan)
    assert len(pods) == 3
    (stage,) = [stage for stage in plan.stages if stage.purpose == "create pods"]
    assert stage.ramp
    assert all(chain.has_random_name for chain in stage.chains)
    first = pods[0]
    instance_id = first["metadata"]["labels"][keys.INSTANCE_ID_LABEL]
    assert first["metadata"]["name"] == f"{NAME}-{instance_id}"
    assert first["metadata"]["namespace"] == NAMESPACE
    assert first["metadata"]["labels"] == {
        "app": NAME,
        keys.REVISION_LABEL: builder.update_revision,
        keys.TEMPLATE_HASH_LABEL: builder.update_revision.split("-")[-1],
        keys.INSTANCE_ID_LABEL: instance_id,
        keys.STATE_LABEL: "PreparingNormal",
    }
    assert first["metadata"]["annotations"] == {keys.STATE_TIME_ANNOTATION: "2026-01-31T12:00:00Z"}
    assert first["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "name": NAME,
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    own = [{"conditionType": keys.IN_PLACE_READY}, {"conditionType": keys.KRUISE_POD_READY}]
    assert first["spec"]["readinessGates"] == own, "the webhook would add the second, if it were asked"
    assert [(container["name"], container["image"]) for container in first["spec"]["containers"]] == [
        ("main", "nginx:1")
    ]


def test_a_gate_that_the_template_has_is_not_added_twice() -> None:
    gates = [{"conditionType": "other"}, {"conditionType": keys.IN_PLACE_READY}]
    builder = cloneset(1, pods=0).with_spec(template=template(readinessGates=gates))
    expected = [*gates, {"conditionType": keys.KRUISE_POD_READY}]
    assert created(plan_cloneset(builder.snapshot()))[0]["spec"]["readinessGates"] == expected


def test_annotations_and_finalizers_of_the_template_are_copied() -> None:
    builder = cloneset(1, pods=0)
    builder.spec["template"]["metadata"] |= {"annotations": {"note": "x"}, "finalizers": ["example.com/f"]}
    metadata = created(plan_cloneset(builder.snapshot()))[0]["metadata"]
    assert metadata["annotations"]["note"] == "x"
    assert metadata["finalizers"] == ["example.com/f"]


def test_the_short_hash_gate_labels_pods_with_the_hash_alone() -> None:
    builder = cloneset(1, pods=0).with_settings(short_hash=True)
    labels = created(plan_cloneset(builder.snapshot()))[0]["metadata"]["labels"]
    assert labels[keys.REVISION_LABEL] == builder.update_revision.split("-")[-1]


def test_pods_labelled_with_full_hashes_are_not_changed_by_the_short_hash_gate() -> None:
    """cloneset case 60"""
    plan = plan_cloneset(cloneset(3).with_settings(short_hash=True).snapshot())
    assert not plan.stages
    assert (plan.status or {})["updatedReplicas"] == 3


def test_ids_of_pods_that_still_exist_are_not_used_again() -> None:
    # given a snapshot and the names that a plan of it picks
    builder = cloneset(3, pods=0)
    names = [
        pod["metadata"]["name"].removeprefix("web-") for pod in created(plan_cloneset(builder.snapshot()))
    ]
    # when a failed pod has one of these names
    builder.add(names[1]).phase("Failed", names[1])
    again = [
        pod["metadata"]["name"].removeprefix("web-") for pod in created(plan_cloneset(builder.snapshot()))
    ]
    # then it is not picked
    assert names[1] not in again
    assert len(set(again)) == 3


def test_the_same_snapshot_gives_the_same_plan() -> None:
    first, second = cloneset(9, pods=0).snapshot(), cloneset(9, pods=0).snapshot()
    assert plan_cloneset(first) == plan_cloneset(second)


def test_creation_stays_within_scale_max_unavailable_and_reports_it() -> None:
    """cloneset case 23"""
    plan = plan_cloneset(cloneset(5, pods=0).with_spec(scaleStrategy={"maxUnavailable": 2}).snapshot())
    assert len(created(plan)) == 2
    assert [(note.reason, note.warning) for note in plan.notes] == [("ScaleUpLimited", True)]


def test_another_pod_is_created_when_one_becomes_available() -> None:
    """cloneset case 23"""
    builder = cloneset(5, pods=2).with_spec(scaleStrategy={"maxUnavailable": 2}).not_ready("a")
    assert len(created(plan_cloneset(builder.snapshot()))) == 1


def test_a_used_up_scale_limit_does_not_stop_updates() -> None:
    """cloneset case 24"""
    # given six wanted pods and three pods, two of which are down, one of an old revision; both block creation
    builder = cloneset(6, pods=3, old=3, max_unavailable="100%", scaleStrategy={"maxUnavailable": 2})
    plan = plan_cloneset(builder.not_ready("a", "b").snapshot())
    # then
    assert not created(plan)
    assert replaced(plan) == {"a", "b", "c"}
    assert reasons(plan) == {"ScaleUpLimited"}


def test_a_missing_old_pod_is_recreated_at_the_old_revision() -> None:
    """cloneset case 33"""
    builder = cloneset(5, pods=4, old=2, partition=3)
    assert created_revisions_of_pods(plan_cloneset(builder.snapshot())) == [builder.old_revision]


def test_missing_pods_are_first_old_up_to_the_partition_then_new() -> None:
    builder = cloneset(5, pods=1, old=1, partition=3)
    assert created_revisions_of_pods(plan_cloneset(builder.snapshot())) == [
        builder.old_revision,
        builder.old_revision,
        builder.update_revision,
        builder.update_revision,
    ]


def test_a_partition_above_replicas_acts_as_replicas() -> None:
    """cloneset case 34"""
    builder = cloneset(2, pods=0, partition=5)
    builder.with_current(builder.old_revision)
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    assert created_revisions_of_pods(plan_cloneset(builder.snapshot())) == [builder.old_revision] * 2


def test_a_failed_pod_is_kept_and_replaced() -> None:
    """cloneset case 43"""
    plan = plan_cloneset(cloneset(3).phase("Failed", "a").snapshot())
    assert len(created(plan)) == 1
    assert deleted(plan) == set()
    assert (plan.status or {})["replicas"] == 2


def test_a_pod_that_no_longer_matches_is_released_and_replaced() -> None:
    """cloneset case 44"""
    plan = plan_cloneset(cloneset(3).labelled({"app": "other"}, "b").snapshot())
    assert [stage.purpose for stage in plan.stages] == ["release pods", "create pods"]
    patch = pod_patches(plan)["b"]
    assert patch.patch_type is PatchType.STRATEGIC
    assert patch.body["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": UID}]
    assert patch.uid == "uid-b"
    assert len(created(plan)) == 1


def test_a_finished_pod_that_no_longer_matches_is_left() -> None:
    plan = plan_cloneset(cloneset(2, pods=3).labelled({"app": "other"}, "c").phase("Failed", "c").snapshot())
    assert not plan.stages


# Deleting


def test_surplus_pods_are_deleted_within_max_unavailable() -> None:
    """cloneset case 25"""
    plan = plan_cloneset(cloneset(3, pods=5).snapshot())
    assert len(deleted(plan)) == 2


def test_pods_not_ready_for_long_enough_do_not_free_a_budget() -> None:
    """cloneset case 26"""
    builder = cloneset(3, pods=5, minReadySeconds=9999).ready_for(10, *"abcde")
    plan = plan_cloneset(builder.snapshot())
    assert deleted(plan) == set()
    assert set(left(plan).values()) == {"surplus, but maxUnavailable is used up"}
    assert plan.requeue_after_s == 9989


def test_a_specified_pod_is_deleted_before_any_surplus_pod() -> None:
    """cloneset case 27"""
    builder = cloneset(3, pods=5).marked("d")
    assert deleted(plan_cloneset(builder.snapshot())) == {"d"}
    # when it is deleted
    del builder.pods["d"]
    assert len(deleted(plan_cloneset(builder.snapshot()))) == 1


def test_no_surplus_pod_is_deleted_while_specified_pods_wait() -> None:
    builder = cloneset(3, pods=6, max_unavailable=1).marked("a").not_ready("b", "c", "d", "e")
    plan = plan_cloneset(builder.snapshot())
    assert deleted(plan) == set()
    assert left(plan)["a"] == "specified for deletion, but maxUnavailable is used up"


def test_specified_pods_are_deleted_by_name_in_any_list_order() -> None:
    builder = cloneset(2, pods=0).add("b", "a").marked("a", "b")
    assert deleted(plan_cloneset(builder.snapshot())) == {"a"}


def test_a_pod_that_its_hook_holds_takes_no_place_of_a_specified_one() -> None:
    # given two specified pods, one held in PreparingDelete; one more pod may be unavailable
    builder = cloneset(5, max_unavailable=2).with_hook("preDelete").marked("a", "b")
    builder.with_finalizer("example.com/hook", "a").in_state("PreparingDelete", "a")
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert deleted(plan) == {"b"}
    assert left(plan)["a"].startswith("waits until the preDelete hook is removed from the pod: ")


def test_no_surplus_pod_is_deleted_while_a_hook_holds_a_pod_in_preparing_delete() -> None:
    builder = cloneset(1, pods=3).with_hook("preDelete").with_finalizer("example.com/hook", "a")
    builder.in_state("PreparingDelete", "a").not_ready("b")
    assert deleted(plan_cloneset(builder.snapshot())) == set()


def test_a_specified_pod_that_waits_for_the_budget_does_not_stop_updates() -> None:
    builder = cloneset(3, old=1, max_unavailable=1).marked("b").not_ready("a")
    plan = plan_cloneset(builder.snapshot())
    assert replaced(plan) == {"a"}
    assert left(plan)["b"] == "specified for deletion, but maxUnavailable is used up"


def test_the_pod_in_the_fuller_zone_of_the_spread_constraint_is_deleted_first() -> None:
    # given a and c in one zone, and b, which is the newest and would go first, in another
    spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    builder = cloneset(2, pods=3).with_spec(template=template(topologySpreadConstraints=spread))
    builder.pods.clear()
    builder.add("a", "b", "c").born(60, "b")
    for pod, zone in (("a", "one"), ("b", "two"), ("c", "one")):
        builder.on_node(f"node-{pod}", pod, zone=zone)
    # then
    assert deleted(plan_cloneset(builder.snapshot())) <= {"a", "c"}
    assert len(deleted(plan_cloneset(builder.snapshot()))) == 1
    # and without such a constraint, no node is read
    assert builder.with_spec(template=template()).snapshot().nodes == {}


def test_unready_surplus_pods_are_deleted_first_outside_the_budget() -> None:
    """cloneset case 28"""
    builder = cloneset(3, pods=5, max_unavailable=0, max_surge=1).not_ready("d", "e")
    assert deleted(plan_cloneset(builder.snapshot())) == {"d", "e"}


def test_the_deletion_of_an_unready_pod_requires_its_resource_version() -> None:
    plan = plan_cloneset(cloneset(3, pods=5).not_ready("d").snapshot())
    actions = {step.action.key.name: step.action for step in plan.steps}
    assert actions["web-d"].resource_version == "50"  # type: ignore[union-attr]
    others = [action for name, action in actions.items() if name != "web-d"]
    assert [action.resource_version for action in others] == [""]  # type: ignore[union-attr]
    assert all(action.uid for action in actions.values())  # type: ignore[union-attr]


def test_the_deleted_pod_is_old_only_when_old_pods_exceed_the_partition() -> None:
    """cloneset case 32"""
    # given three old pods, as many as the partition keeps, and two new ones
    plan = plan_cloneset(cloneset(4, pods=5, old=3, partition=3).snapshot())
    assert deleted(plan) <= {"d", "e"}
    # and with one old pod too many
    assert deleted(plan_cloneset(cloneset(4, pods=5, old=4, partition=3).snapshot())) <= {*"abcd"}


def test_two_pods_to_delete_are_deleted_sequentially() -> None:
    """cloneset case 35"""
    # given
    builder = cloneset(5, max_unavailable=1).to_delete("a", "b")
    # when / then one is deleted
    assert deleted(plan_cloneset(builder.snapshot())) == {"a"}
    # when it is gone, its replacement is created before the other is deleted
    del builder.pods["a"]
    plan = plan_cloneset(builder.snapshot())
    assert (len(created(plan)), deleted(plan)) == (1, set())
    # when the replacement is there but not ready, the other waits
    builder.add("z").not_ready("z")
    assert deleted(plan_cloneset(builder.snapshot())) == set()
    # when the replacement is ready, the other is deleted
    builder.add("z")
    assert deleted(plan_cloneset(builder.snapshot())) == {"b"}


def test_names_without_a_pod_are_removed_from_pods_to_delete_without_other_writes() -> None:
    """cloneset case 36, cloneset section 6.9"""
    # given a CloneSet whose status is stored as it should be
    builder = cloneset(2).to_delete("gone", "b", "terminating")
    builder.add("terminating").deleted("terminating").marked("b").not_ready("a")
    builder.with_rolling(maxUnavailable=0, maxSurge=1)
    builder.with_spec(scaleStrategy={**builder.spec["scaleStrategy"], "maxUnavailable": 0})
    builder.document["status"] = plan_cloneset(builder.snapshot()).status
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert plan.status is None
    (step,) = steps_named(plan, "tidy up")
    assert step.action.body == {"spec": {"scaleStrategy": {"podsToDelete": ["web-b"]}}}  # type: ignore[union-attr]
    assert step.action.resource_version == "100"  # type: ignore[union-attr]
    assert step.action.patch_type is PatchType.MERGE  # type: ignore[union-attr]


def test_a_pods_to_delete_list_without_existing_pods_is_removed() -> None:
    builder = cloneset(2).to_delete("gone")
    builder.document["status"] = plan_cloneset(builder.snapshot()).status
    (step,) = steps_named(plan_cloneset(builder.snapshot()), "tidy up")
    assert step.action.body == {"spec": {"scaleStrategy": {"podsToDelete": None}}}  # type: ignore[union-attr]


def test_the_list_waits_for_the_status_whose_write_moves_the_version() -> None:
    plan = plan_cloneset(cloneset(2).to_delete("gone").snapshot())
    assert plan.status is not None
    assert not plan.stages


def test_a_specified_unready_pod_is_deleted_immediately() -> None:
    """cloneset case 37"""
    builder = cloneset(5, max_unavailable=1).marked("a", "b").not_ready("a", "c")
    plan = plan_cloneset(builder.snapshot())
    assert deleted(plan) == {"a"}
    assert left(plan)["b"] == "specified for deletion, but maxUnavailable is used up"


def test_a_surge_pod_is_created_before_the_specified_pod_is_deleted() -> None:
    """cloneset case 38"""
    # given
    builder = cloneset(5, max_unavailable=0, max_surge=1).marked("a")
    # then a sixth pod is created
    plan = plan_cloneset(builder.snapshot())
    assert (len(created(plan)), deleted(plan)) == (1, set())
    # and must be available
    builder.add("z").not_ready("z")
    assert deleted(plan_cloneset(builder.snapshot())) == set()
    # before the marked pod is deleted
    builder.add("z")
    assert deleted(plan_cloneset(builder.snapshot())) == {"a"}


def test_a_held_pod_prepares_first_and_is_deleted_when_its_hook_is_removed() -> None:
    """cloneset case 40, lifecycle cases 35 and 36"""
    # given two pods, one too many, held by a finalizer
    builder = cloneset(1, pods=2).with_hook("preDelete").not_ready("b")
    builder.with_finalizer("example.com/hook", "a", "b")
    # then it prepares
    plan = plan_cloneset(builder.snapshot())
    assert states(plan) == {"b": "PreparingDelete"}
    assert deleted(plan) == set()
    # and it waits without a further write
    builder.in_state("PreparingDelete", "b")
    plan = plan_cloneset(builder.snapshot())
    assert not plan.stages
    assert left(plan)["b"].startswith("waits until the preDelete hook is removed from the pod: ")
    # and it is deleted when the finalizer is removed
    builder.pods["b"]["metadata"]["finalizers"] = []
    assert deleted(plan_cloneset(builder.snapshot())) == {"b"}


def test_a_hook_that_marks_takes_the_pod_out_of_service_in_the_same_write() -> None:
    # given
    builder = cloneset(1, pods=2).with_hook("preDelete", markPodNotReady=True)
    for name in "ab":
        builder.with_finalizer("example.com/hook", name)
        builder.set_condition(name, keys.KRUISE_POD_READY, "True", message="[]")
    # when
    (patch,) = pod_patches(plan_cloneset(builder.snapshot())).values()
    # then
    assert patch.subresource == "status"
    assert patch.resource_version == "50"
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    types = {condition["type"]: condition["status"] for condition in patch.body["status"]["conditions"]}
    assert types == {keys.KRUISE_POD_READY: "False", "Ready": "False"}


def test_a_deletion_that_is_no_longer_wanted_is_reverted() -> None:
    """cloneset case 41, lifecycle case 38"""
    builder = cloneset(5).with_hook("preDelete").with_finalizer("example.com/hook", "e")
    plan = plan_cloneset(builder.in_state("PreparingDelete", "e").snapshot())
    assert states(plan) == {"e": "PreparingNormal"}
    assert not created(plan)


@pytest.mark.parametrize("removed", ["the field", "the hook"])
def test_a_deletion_that_is_no_longer_wanted_does_not_leave_the_pod_unready(removed: str) -> None:
    """lifecycle 9.1.16"""
    # given a pod that the hook made not ready, and a spec whose hook no longer does this
    builder = cloneset(2).in_state("PreparingDelete", "b").with_finalizer("example.com/hook", "b")
    if removed == "the field":
        builder.with_hook("preDelete")
    held = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
    builder.set_condition("b", keys.KRUISE_POD_READY, "False", message=held)
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert states(plan) == {"b": "PreparingNormal"}
    patch = pod_patches(plan)["b"]
    assert (patch.subresource, patch.resource_version) == ("status", "50")
    (condition,) = patch.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.KRUISE_POD_READY, "True")


def test_no_preparing_pod_is_kept_while_others_are_surplus_too() -> None:
    builder = cloneset(1, pods=4).with_hook("preDelete")
    for name in "cd":
        builder.with_finalizer("example.com/hook", name).in_state("PreparingDelete", name)
    assert states(plan_cloneset(builder.snapshot())) == {}


def test_a_deletion_that_marked_the_pod_unready_is_not_reverted() -> None:
    """cloneset case 41, lifecycle case 39"""
    builder = cloneset(5).with_hook("preDelete", markPodNotReady=True)
    builder.with_finalizer("example.com/hook", "e").in_state("PreparingDelete", "e")
    held = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
    builder.set_condition("e", keys.KRUISE_POD_READY, "False", message=held)
    assert states(plan_cloneset(builder.snapshot())) == {}
    builder.pods["e"]["metadata"]["finalizers"] = []
    assert deleted(plan_cloneset(builder.snapshot())) == {"e"}


def test_a_preparing_specified_pod_is_replaced_after_its_deletion_or_earlier_if_excluded() -> None:
    """cloneset case 42, lifecycle case 40"""
    # given
    builder = cloneset(5).with_hook("preDelete").with_finalizer("example.com/hook", "e")
    builder.in_state("PreparingDelete", "e").marked("e")
    # then no pod is created and no pod returns
    plan = plan_cloneset(builder.snapshot())
    assert not plan.stages
    # but with exclusion the replacement is created immediately, by the field or by the flag
    builder.with_settings(exclude_preparing_delete=True)
    assert len(created(plan_cloneset(builder.snapshot()))) == 1
    builder.with_settings().with_spec(scaleStrategy={"excludePreparingDelete": True})
    assert len(created(plan_cloneset(builder.snapshot()))) == 1


def test_a_released_pod_is_deleted_even_if_it_blocks_its_replacement() -> None:
    """lifecycle case 50 (9.2.9)"""
    # given creation limited to one unavailable pod, and a prepared pod that its hook has released
    builder = cloneset(3, scaleStrategy={"maxUnavailable": 1, "excludePreparingDelete": True})
    builder.with_hook("preDelete").in_state("PreparingDelete", "c").marked("c")
    # then it is deleted
    plan = plan_cloneset(builder.snapshot())
    assert deleted(plan) == {"c"}
    # and then its replacement is created
    del builder.pods["c"]
    assert len(created(plan_cloneset(builder.snapshot()))) == 1


def test_removing_the_lifecycle_deletes_pods_that_waited_for_a_hook() -> None:
    """lifecycle case 42"""
    builder = cloneset(4, pods=5).in_state("PreparingDelete", "e").with_finalizer("example.com/hook", "e")
    assert deleted(plan_cloneset(builder.snapshot())) == {"e"}


def test_pods_in_preparing_update_count_as_new_while_scaling_when_the_gate_is_on() -> None:
    """lifecycle case 56"""
    # given as many old pods as the partition keeps, one of them in PreparingUpdate
    builder = cloneset(5, pods=4, old=3, partition=3).in_state("PreparingUpdate", "a")
    assert created_revisions_of_pods(plan_cloneset(builder.snapshot())) == [builder.update_revision]
    builder.with_settings(preparing_update_as_update=True)
    assert created_revisions_of_pods(plan_cloneset(builder.snapshot())) == [builder.old_revision]
    # and without that state, the pod counts as old
    builder.in_state("Normal", "a")
    assert created_revisions_of_pods(plan_cloneset(builder.snapshot())) == [builder.update_revision]


@pytest.mark.parametrize("excludes", [False, True])
def test_a_held_pod_is_replaced_immediately_only_with_exclude_preparing_delete(excludes: bool) -> None:
    strategy = {"maxUnavailable": 3, "excludePreparingDelete": excludes}
    builder = cloneset(3, scaleStrategy=strategy).with_hook("preDelete").in_state("PreparingDelete", "c")
    builder.with_finalizer("example.com/hook", "c").marked("c")
    assert len(created(plan_cloneset(builder.snapshot()))) == excludes


def test_paused_only_stops_updates() -> None:
    """cloneset case 67"""
    # given five old and three surged new pods
    builder = cloneset(5, pods=8, old=5, partition=0, max_unavailable=0, max_surge=3)
    builder.not_ready("f", "g", "h").paused()
    # then the surge is reduced: old pods are deleted as new ones become available
    assert deleted(plan_cloneset(builder.snapshot())) == set()
    builder.set_condition("f", "Ready", "True")
    assert len(deleted(plan_cloneset(builder.snapshot()))) == 1
    for name in "gh":
        builder.set_condition(name, "Ready", "True")
    gone = deleted(plan_cloneset(builder.snapshot()))
    assert (len(gone), gone <= {*"abcde"}) == (3, True)


# Events


def test_created_and_deleted_pods_have_success_and_failure_events() -> None:
    plan = plan_cloneset(cloneset(1, pods=0).snapshot())
    (step,) = steps_named(plan, "create pods")
    assert step.done is not None
    assert step.failed is not None
    assert (step.done.reason, step.failed.reason, step.failed.warning) == (
        "SuccessfulCreate",
        "FailedCreate",
        True,
    )
    (step, _) = steps_named(plan_cloneset(cloneset(1, pods=3).snapshot()), "delete pods")
    assert step.done is not None
    assert step.failed is not None
    assert (step.done.reason, step.failed.reason) == ("SuccessfulDelete", "FailedDelete")


@pytest.mark.parametrize("replicas", [0, 1, 7])
def test_scaling_ends_with_as_many_as_wanted(replicas: int) -> None:
    plan = plan_cloneset(cloneset(replicas, pods=3, max_unavailable="100%").snapshot())
    assert 3 + len(created(plan)) - len(deleted(plan)) == replicas
    assert plan.requeue_after_s is None


def test_pods_released_from_preparing_delete_are_deleted_in_a_separate_plan() -> None:
    """cloneset 6.6: the specified pod is deleted in the next plan"""
    builder = cloneset(3, pods=5, max_unavailable=3).in_state("PreparingDelete", "a").marked("b")
    assert deleted(plan_cloneset(builder.snapshot())) == {"a"}
