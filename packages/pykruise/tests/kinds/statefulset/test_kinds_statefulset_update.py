"""Updates: the choice of pods, their order, the number at the same time, and the way; numbers are the
specification's cases."""

import copy
import json
from typing import Any

import pytest

from pykruise.kube.clock import format_time
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from support.statefulset_builder import (
    HOOK,
    NOW,
    StatefulSetBuilder,
    claim_template,
    created,
    created_pods,
    deleted,
    images,
    left,
    patches,
    revision,
    statefulset,
    states,
    template,
    updatable,
    waiting,
)

# ── the partition ────────────────────────────────────────────────────────────


def test_the_partition_counts_pods_that_stay() -> None:
    """statefulset case 34"""
    builder = statefulset(3, partition=2).all_old()
    assert deleted(builder.plan()) == [2]
    # a lost pod is recreated at its revision
    assert revisions(builder.without(0)) == [builder.old_name]
    assert revisions(statefulset(3, partition=2).all_old().without(2)) == [builder.update_name]


def revisions(builder: StatefulSetBuilder) -> list[str]:
    """Revisions of the pods that the plan creates."""
    return [pod["metadata"]["labels"][keys.REVISION_LABEL] for pod in created_pods(builder.plan())]


@pytest.mark.parametrize("partition", [3, 10])
def test_a_partition_of_all_keeps_all_and_the_revision_still_advances(partition: int) -> None:
    """statefulset case 35"""
    builder = statefulset(3, partition=partition).all_old()
    plan = builder.plan()
    assert deleted(plan) == []
    assert plan.status is not None
    assert plan.status["updateRevision"] == builder.update_name
    assert waiting(plan) == "Partition"


def test_the_partition_counts_ranks_not_ordinals() -> None:
    """statefulset case 36"""
    # given pods 0, 2 and 3
    builder = statefulset(3, partition=1).without(1).pod(3).with_spec(reserveOrdinals=[1]).all_old()
    assert deleted(builder.plan()) == [3]
    assert deleted(builder.without(3).pod(3).plan()) == [2]
    plan = builder.without(2).pod(2).plan()
    assert deleted(plan) == []
    assert left(plan)[0] == "the partition keeps it at its revision"


def test_a_raised_partition_takes_no_pod_back() -> None:
    assert statefulset(3, partition=3).all_old().pod(2).plan().stages == ()


# ── the budget ───────────────────────────────────────────────────────────────


def test_pods_are_updated_together_up_to_max_unavailable() -> None:
    """statefulset case 37"""
    # given
    builder = statefulset(6, parallel=True, maxUnavailable=3, minReadySeconds=10).all_old()
    assert deleted(builder.plan()) == [5, 4, 3]
    # when they exist again, but only one of them is ready for minReadySeconds
    builder.pod(3, 4, 5).ready_for(5, 3, 4).ready_for(10, 5)
    # then the next pod is updated, and the plan is due when the others are available
    plan = builder.plan()
    assert deleted(plan) == [2]
    assert plan.requeue_after_s == 5


@pytest.mark.parametrize(("share", "count"), [("10%", 1), ("40%", 2), ("59%", 2), (4, 4)])
def test_a_share_is_rounded_down_and_at_least_one(share: int | str, count: int) -> None:
    """statefulset case 38"""
    assert len(deleted(statefulset(5, parallel=True, maxUnavailable=share).all_old().plan())) == count


def test_a_pod_that_is_down_elsewhere_uses_the_budget_up() -> None:
    """statefulset case 39"""
    plan = statefulset(3, parallel=True).all_old().not_ready(0).plan()
    assert deleted(plan) == []
    assert left(plan)[2] == "waits for its turn: maxUnavailable is used up"
    assert waiting(plan) == "NotReady"


def test_a_pod_that_is_down_itself_costs_nothing() -> None:
    """statefulset case 40"""
    assert deleted(statefulset(3, parallel=True).all_old().not_ready(2).plan()) == [2]


def test_pods_below_the_partition_cost_too() -> None:
    assert deleted(statefulset(3, parallel=True, partition=1).all_old().not_ready(0).plan()) == []


def test_surplus_pods_cost_nothing() -> None:
    plan = statefulset(2, parallel=True).pod(2).all_old().not_ready(2).plan()
    assert sorted(deleted(plan)) == [1, 2]


def test_a_missing_pod_is_created_and_counts_as_unavailable() -> None:
    plan = statefulset(3, parallel=True).all_old().without(0).plan()
    assert (created(plan), deleted(plan)) == ([0], [])


def test_a_missing_pod_does_not_end_the_pass() -> None:
    plan = statefulset(3, parallel=True, maxUnavailable=2).all_old().without(2).plan()
    assert (created(plan), deleted(plan)) == ([2], [1])


@pytest.mark.parametrize("marked", [False, True], ids=["old", "specified"])
def test_a_pod_created_or_deleted_by_scaling_is_not_deleted_again(marked: bool) -> None:
    def begun() -> StatefulSetBuilder:
        builder = statefulset(3, parallel=True).all_old()
        return builder.marked(0, 1, 2) if marked else builder

    # a finished pod is replaced within scaleStrategy
    plan = begun().phase("Failed", 0, 2).with_spec(scaleStrategy={"maxUnavailable": 1}).plan()
    assert deleted(plan) == [0]
    assert left(plan).keys() == {1}
    # a pod whose labels are repaired is updated later, and a terminating pod needs no deletion
    builder = begun()
    del builder.pods["web-2"]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    assert 2 not in deleted(builder.plan())
    assert 2 not in deleted(begun().deleted(2).plan())
    # and an old pod that is specified for deletion is deleted once
    assert deleted(begun().plan()) == [2]


@pytest.mark.parametrize("fields", [{}, {"paused": True}, {"partition": 4}])
def test_every_remaining_old_pod_has_a_reason(fields: dict[str, Any]) -> None:
    # given P0 updated, P1 terminating
    plan = statefulset(4, parallel=True, **fields).all_old().pod(0).deleted(1).plan()
    assert left(plan).keys() == {2, 3}


def test_a_large_recreation_deletes_a_few_hundred_pods_per_plan() -> None:
    plan = statefulset(258, parallel=True, maxUnavailable="100%").all_old().plan()
    assert deleted(plan) == list(range(257, 1, -1))
    assert plan.requeue_after_s == 0
    assert left(plan) == dict.fromkeys((0, 1), "waits for its turn: other pods are being updated")


# ── the order of pods ────────────────────────────────────────────────────────


def test_pods_with_higher_weights_are_updated_first_and_ordinals_break_ties() -> None:
    """statefulset case 43"""
    # given
    terms = [
        {"weight": 80, "matchSelector": {"matchLabels": {"a": "1"}}},
        {"weight": 20, "matchSelector": {"matchLabels": {"b": "1"}}},
    ]
    builder = statefulset(5, parallel=True).unordered(weightPriority=terms).all_old()
    builder.labelled({"a": "1"}, 1).labelled({"b": "1"}, 0)
    # then
    assert order_of(builder) == [1, 0, 4, 3, 2]


def order_of(builder: StatefulSetBuilder) -> list[int]:
    """The order in which pods are recreated one by one."""
    order: list[int] = []
    while item := deleted(builder.plan()):
        order += item
        labels = {
            key: value for key, value in _labels(builder, item[0]).items() if key in ("a", "b", "order")
        }
        builder.pod(*item).labelled(labels, *item)
    return order


def _labels(builder: StatefulSetBuilder, number: int) -> dict[str, str]:
    labels: dict[str, str] = builder.pods[f"web-{number}"]["metadata"]["labels"]
    return labels


def test_ordered_keys_sort_by_number_with_unlabelled_pods_first() -> None:
    builder = statefulset(4, parallel=True).unordered(orderPriority=[{"orderedKey": "order"}]).all_old()
    builder.labelled({"order": "n-2"}, 0).labelled({"order": "n-10"}, 1).labelled({"order": "n"}, 2)
    assert order_of(builder) == [3, 1, 0, 2]


@pytest.mark.parametrize("gate", [False, True])
def test_updated_pods_fill_the_quota_without_an_order_at_any_position(gate: bool) -> None:
    """statefulset case 44"""
    builder = statefulset(3, parallel=True, partition=2).unordered().all_old().pod(0)
    assert deleted(builder.with_settings(preparing_update_as_update=gate).plan()) == []


def test_the_highest_ordinal_is_updated_first_by_default() -> None:
    assert order_of(statefulset(3, parallel=True).unordered().all_old()) == [2, 1, 0]


def test_a_terminating_pod_of_an_unordered_set_keeps_its_slot_in_the_quota() -> None:
    # given partition 2 of 3: the terminating pod is recreated updated
    builder = statefulset(3, parallel=True, partition=2, maxUnavailable=2).unordered().all_old().deleted(0)
    # then no other pod is deleted
    assert deleted(builder.plan()) == []
    assert revisions(builder.without(0)) == [builder.update_name]


@pytest.mark.parametrize(("gate", "is_new"), [(False, True), (True, False)])
def test_the_gate_counts_pods_in_preparation_as_updated(gate: bool, is_new: bool) -> None:
    """statefulset case 63: with P2 counted as updated, the lost P1 is recreated old"""
    # given partition 1 of 3, P0 updated, P2 preparing, P1 lost
    builder = updatable(3, parallel=True, partition=1).unordered().with_hook("inPlaceUpdate")
    builder.with_settings(preparing_update_as_update=gate)
    builder.all_old().pod(0).state("PreparingUpdate", 2).hooked(2).without(1)
    # then
    assert (revisions(builder) == [builder.update_name]) is is_new


def test_a_lost_pod_recreated_old_does_not_displace_a_preparing_pod() -> None:
    # given partition 1 of 3, P0 preparing, P1 updated, and P2 lost, which is recreated old with the gate
    builder = updatable(3, parallel=True, partition=1).unordered().with_hook("inPlaceUpdate")
    builder.with_settings(preparing_update_as_update=True)
    builder.all_old().pod(1).state("PreparingUpdate", 0).hooked(0).without(2)
    plan = builder.plan()
    # then P0 waits for its hook, and keeps its update
    assert [pod["metadata"]["name"] for pod in created_pods(plan)] == ["web-2"]
    assert revisions(builder) == [builder.old_name]
    assert states(plan) == {}
    assert "hook" in left(plan)[0]


def test_lost_pods_without_an_order_fill_up_what_the_partition_keeps() -> None:
    # given partition 2 of 4, and all pods lost except an updated one
    builder = statefulset(4, parallel=True, partition=2).unordered()
    builder.with_status(currentRevision=builder.old_name).without(0, 1, 2)
    assert revisions(builder) == [builder.old_name, builder.old_name, builder.update_name]


def test_a_lost_pod_recreated_updated_uses_up_the_partition() -> None:
    # given partition 3 of 4, and two lost pods: one is recreated old, the other updated
    builder = statefulset(4, parallel=True, partition=3).unordered(orderPriority=[{"orderedKey": "order"}])
    builder.all_old().with_status(currentRevision=builder.old_name).not_ready(1).without(2, 3)
    # then the unready pod stays
    assert revisions(builder) == [builder.old_name, builder.update_name]
    assert deleted(builder.plan()) == []


# ── no updates ───────────────────────────────────────────────────────────────


def test_paused_updates_no_pod_and_new_pods_are_of_the_new_revision() -> None:
    """statefulset case 41"""
    builder = statefulset(3, paused=True, parallel=True).all_old().with_spec(replicas=5)
    plan = builder.plan()
    assert (created(plan), deleted(plan)) == ([3, 4], [])
    assert revisions(builder) == [builder.update_name] * 2
    # and old ones stay
    plan = builder.with_spec(replicas=3).plan()
    assert plan.stages == ()
    assert left(plan) == dict.fromkeys(range(3), "updates are paused")
    assert waiting(plan) == "Paused"


@pytest.mark.parametrize("strategy", [None, {}, {"type": "RollingUpdate"}])
def test_a_strategy_that_was_never_defaulted_is_a_rolling_update(strategy: dict[str, Any] | None) -> None:
    builder = statefulset(3).with_spec(updateStrategy=strategy).all_old()
    assert deleted(builder.plan()) == [2]


def test_on_delete_updates_no_pod_and_a_lost_pod_is_new() -> None:
    """statefulset case 42"""
    builder = statefulset(3).on_delete().all_old()
    plan = builder.plan()
    assert plan.stages == ()
    assert waiting(plan) == "OnDelete"
    assert left(plan)[0] == "the update strategy is OnDelete: the pod is updated when a person deletes it"
    assert revisions(builder.without(1)) == [builder.update_name]


# ── specified for deletion ───────────────────────────────────────────────────


def test_specified_pods_are_deleted_first_and_count_as_unavailable() -> None:
    """statefulset case 52"""
    # given
    builder = updatable(6, parallel=True, maxUnavailable=3, partition=3).all_old().marked(0)
    plan = builder.plan()
    # then
    assert deleted(plan) == [0]
    assert images(plan) == {5: "nginx:1", 4: "nginx:1"}
    assert left(plan)[3] == "waits for its turn: maxUnavailable is used up"
    # and it is recreated at its revision
    assert revisions(builder.without(0)) == [builder.old_name]


def test_specified_pods_are_deleted_from_the_highest_within_max_unavailable() -> None:
    """statefulset case 53"""
    plan = statefulset(6, parallel=True, maxUnavailable=3).marked(0, 1, 2, 5).plan()
    assert deleted(plan) == [5, 2, 1]
    assert left(plan)[0] == "specified for deletion, but maxUnavailable is used up"


@pytest.mark.parametrize(("down", "expected"), [(0, []), (2, [2])])
def test_a_specified_pod_waits_for_the_budget_unless_it_is_down_itself(
    down: int, expected: list[int]
) -> None:
    """statefulset case 54"""
    assert deleted(statefulset(3, parallel=True).not_ready(down).marked(2).plan()) == expected


def test_ordered_management_deletes_an_unready_specified_pod() -> None:
    """statefulset case 54, OrderedReady: all other pods wait for it"""
    assert deleted(statefulset(3).not_ready(1).marked(1).plan()) == [1]
    assert deleted(statefulset(3).not_ready(1, 2).marked(1, 2).plan()) == [1]
    assert deleted(statefulset(3).not_ready(0).marked(2).plan()) == []


def test_the_specified_delete_label_counts_with_any_value() -> None:
    """statefulset case 55"""
    assert deleted(statefulset(3).marked(1, value="false").plan()) == [1]


@pytest.mark.parametrize("paused", [False, True])
def test_specified_pods_are_deleted_under_on_delete_and_while_paused(paused: bool) -> None:
    builder = statefulset(3, paused=True) if paused else statefulset(3).on_delete()
    assert deleted(builder.marked(1, 2).plan()) == [2]


def test_a_terminating_pod_is_not_deleted_again_and_counts() -> None:
    plan = statefulset(3, parallel=True).marked(1, 2).deleted(2).plan()
    assert deleted(plan) == []


# ── in place ─────────────────────────────────────────────────────────────────


def test_an_image_change_is_applied_in_place_and_keeps_the_rest_of_the_pod() -> None:
    """statefulset case 46"""
    # given
    builder = updatable(3).all_old()
    # when
    plan = builder.plan()
    # then the pod leaves service, and gets image, label and state in one write
    assert deleted(plan) == []
    (not_ready, change) = [step.action for stage in plan.stages for c in stage.chains for step in c.steps]
    assert not_ready.subresource == "status"  # type: ignore[union-attr]  # a patch
    body = change.body  # type: ignore[union-attr]
    assert body["spec"]["containers"][0]["image"] == "nginx:1"
    assert body["metadata"]["labels"][keys.REVISION_LABEL] == builder.update_name
    assert body["metadata"]["labels"][keys.STATE_LABEL] == "Updating"


def test_a_pod_that_cannot_change_in_place_is_recreated() -> None:
    """statefulset case 47"""
    builder = updatable(3)
    builder.old_template["spec"]["containers"][0]["command"] = ["sleep"]
    plan = builder.all_old().plan()
    assert deleted(plan) == [2]
    assert images(plan) == {}
    # and the reason is named, unless it is the policy itself
    (step,) = plan.steps
    assert "command" in step.because
    (step,) = builder.with_rolling(podUpdatePolicy="ReCreate").plan().steps
    assert step.because == f"recreated for revision {builder.update_name}"


def test_in_place_only_recreates_no_pod_and_reports_it() -> None:
    """statefulset case 47"""
    # given a change that slipped past admission
    builder = updatable(3, policy="InPlaceOnly")
    builder.old_template["spec"]["containers"][0]["command"] = ["sleep"]
    plan = builder.all_old().plan()
    # then
    assert plan.stages == ()
    assert {note.reason for note in plan.notes} == {"FailedUpdatePodInPlace"}
    (failed, waits) = plan.status["conditions"]  # type: ignore[index]  # there is a status
    assert (failed["type"], failed["status"]) == ("FailedUpdatePod", "True")
    assert "InPlaceOnly does not allow recreation" in failed["message"]
    assert waits["reason"] == "CannotUpdate"
    result = left(plan)
    assert result[2] in failed["message"]
    assert result[1] == f"waits for its turn: {failed['message']}"


def test_a_pod_that_cannot_be_updated_ends_the_pass_and_is_the_one_named() -> None:
    # given another pod that cannot be updated, and prepares; and one that could be updated
    builder = updatable(3, policy="InPlaceOnly", parallel=True, maxUnavailable=3).with_hook("inPlaceUpdate")
    builder.all_old().labelled({keys.REVISION_LABEL: "web-gone"}, 1, 2).state("PreparingUpdate", 1)
    plan = builder.plan()
    # then
    assert plan.stages == ()
    assert plan.status is not None
    assert "pod web-2" in plan.status["conditions"][0]["message"]


def test_a_pod_in_an_unknown_state_is_skipped_and_counts_as_unavailable() -> None:
    builder = statefulset(3, parallel=True, maxUnavailable=2).all_old().state("Dreaming", 2)
    plan = builder.plan()
    assert deleted(plan) == [1]
    assert left(plan)[2] == "its lifecycle state 'Dreaming' is not known to this version"


def test_a_ready_pod_with_an_incomplete_update_in_place_uses_an_unavailable_slot() -> None:
    # given a pod that serves again, with a container that is still to be updated
    builder = updatable(2, parallel=True).all_old().pod(1)
    state = {
        "revision": builder.update_name,
        "updateTimestamp": format_time(NOW),
        "nextContainerImages": {"main": "nginx:1"},
    }
    annotations = builder.pods["web-1"]["metadata"]["annotations"]
    annotations[keys.IN_PLACE_STATE_ANNOTATION] = json.dumps(state)
    # then
    assert 0 not in images(builder.plan())
    # and no slot once the update is complete, even if another manager left a reason in the condition
    del state["nextContainerImages"]
    annotations[keys.IN_PLACE_STATE_ANNOTATION] = json.dumps(state)
    builder.set_condition(1, keys.IN_PLACE_READY, "True", reason="Done")
    assert images(builder.plan()) == {0: "nginx:1"}


def test_a_grace_period_separates_the_unready_mark_and_the_image_change() -> None:
    """statefulset case 48"""
    # given a grace period in progress
    builder = updatable(1, inPlaceUpdateStrategy={"gracePeriodSeconds": 10}).all_old()
    plan = builder.plan()
    assert images(plan) == {}
    annotations = patches(plan)["web-0"]["metadata"]["annotations"]
    assert keys.IN_PLACE_GRACE_ANNOTATION in annotations
    # when 4 s have passed
    pod = builder.pods["web-0"]["metadata"]
    pod["annotations"] = annotations
    pod["labels"] |= {keys.REVISION_LABEL: builder.update_name, keys.STATE_LABEL: "Updating"}
    builder.set_condition(0, keys.IN_PLACE_READY, "False", lastTransitionTime=format_time(NOW))
    builder.not_ready(0)
    # then the plan is due when the rest has passed
    plan = builder.at(4).plan()
    assert plan.stages == ()
    assert plan.requeue_after_s == 6
    assert waiting(plan) == "GracePeriod"
    # and then it gets its image
    assert images(builder.at(10).plan()) == {0: "nginx:1"}


def test_a_pod_that_was_just_changed_is_not_changed_again_and_counts() -> None:
    """statefulset case 49: the snapshot contains the write, so nothing is expected and nothing is forgotten"""
    builder = updatable(3, parallel=True).all_old().pod(2).state("Updating", 2).not_ready(2)
    builder.set_condition(2, keys.IN_PLACE_READY, "False", lastTransitionTime=format_time(NOW))
    plan = builder.plan()
    assert images(plan) == {}


def test_a_pod_whose_revision_is_forgotten_is_recreated() -> None:
    """statefulset case 50"""
    builder = updatable(3).all_old()
    builder.with_revisions(revision(builder.spec["template"], 2))
    assert deleted(builder.plan()) == [2]


def test_a_large_rollout_begins_a_few_pods_at_a_time() -> None:
    plan = updatable(50, parallel=True, maxUnavailable="100%").all_old().plan()
    assert len(images(plan)) == 32
    assert plan.requeue_after_s == 0


# ── hooks ────────────────────────────────────────────────────────────────────


def hooked_rollout(**fields: Any) -> StatefulSetBuilder:
    names = range(3)
    return updatable(3, **fields).with_hook("inPlaceUpdate").all_old().hooked(*names)


@pytest.mark.parametrize("parallel", [False, True])
def test_the_in_place_hook_precedes_the_change_of_a_pod(parallel: bool) -> None:
    """statefulset case 59: also in order, where all other pods wait for this pod"""
    # given
    builder = hooked_rollout(parallel=parallel)
    assert states(builder.plan()) == {2: "PreparingUpdate"}
    # when it is preparing, it waits
    builder.state("PreparingUpdate", 2)
    plan = builder.plan()
    assert plan.stages == ()
    assert waiting(plan) == "InPlaceUpdateHook"
    # and it is updated without the hook's label
    builder.labelled({"example.com/hook": "off"}, 2)
    assert images(builder.plan()) == {2: "nginx:1"}
    # when the update is complete, it waits until it has the hook's label again
    builder.pod(2).state("Updated", 2)
    assert builder.plan().stages == ()
    # and then the next pod is updated
    assert states(builder.hooked(2).plan()) == {2: "Normal"}
    assert states(builder.state("Normal", 2).plan()) == {1: "PreparingUpdate"}


@pytest.mark.parametrize(("with_hook", "state"), [(False, "Updated"), (True, "Normal")])
def test_a_reverted_rollout_returns_preparing_pods_to_service(with_hook: bool, state: str) -> None:
    """statefulset case 60"""
    builder = updatable(3).with_hook("inPlaceUpdate").hooked(0, 1).state("PreparingUpdate", 2)
    if with_hook:
        builder.hooked(2)
    assert states(builder.plan()) == {2: state}


@pytest.mark.parametrize("fields", [{"partition": 3}, {"paused": True}])
def test_a_pod_that_prepares_for_a_cancelled_update_returns_to_service(fields: dict[str, Any]) -> None:
    builder = hooked_rollout(**fields).state("PreparingUpdate", 2)
    assert states(builder.plan()) == {2: "Normal"}


def test_a_terminating_pod_does_not_end_the_pass() -> None:
    """Updates in place skip the pod, and continue with the next one."""
    # given a pod that waits for its preDelete hook, specified for deletion
    builder = updatable(3, parallel=True, maxUnavailable=2).with_hook("preDelete").all_old()
    builder.hooked(2).state("PreparingDelete", 2).marked(2)
    # then
    plan = builder.plan()
    assert images(plan) == {1: "nginx:1"}
    # and it does not return
    assert 2 not in states(plan)


def test_a_recreation_waits_for_the_pre_delete_hook() -> None:
    # given
    builder = statefulset(3).with_hook("preDelete").all_old().hooked(0, 1, 2)
    assert states(builder.plan()) == {2: "PreparingDelete"}
    # when it waits, it does not return, and no other pod is deleted
    builder.state("PreparingDelete", 2)
    assert builder.plan().stages == ()
    # and without the hook it is deleted
    assert deleted(builder.labelled({"example.com/hook": "off"}, 2).plan()) == [2]


def test_a_preparing_pod_is_deleted_although_the_first_in_order_waits() -> None:
    # given a pod that prepared for an earlier template, and another old pod that is first in the order
    builder = statefulset(2, parallel=True).with_hook("preDelete").all_old().hooked(0, 1)
    builder.state("PreparingDelete", 0)
    assert builder.plan().stages == ()
    # then no other pod prepares, and the preparing pod is deleted when its hook is removed
    assert deleted(builder.labelled({"example.com/hook": "off"}, 0).plan()) == [0]


def test_a_preparing_pod_that_is_first_in_order_is_deleted_once() -> None:
    builder = statefulset(2, parallel=True).with_hook("preDelete").all_old().hooked(0)
    assert deleted(builder.state("PreparingDelete", 1).plan()) == [1]


def test_a_pod_whose_resize_is_rejected_too_long_waits_for_its_hook_without_a_return_to_service() -> None:
    # given pods to resize, and the API server has rejected this for an hour
    builder = updatable(2, pods=False).with_settings(in_place_vertical_scaling=True).with_hook("preDelete")
    builder.old_template = copy.deepcopy(builder.spec["template"])
    for pod_template, cpu in ((builder.old_template, "100m"), (builder.spec["template"], "200m")):
        pod_template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    builder.pod(0, 1, old=True).with_status(currentRevision=builder.old_name)
    rejected = {
        "type": "FailedUpdatePod",
        "status": "True",
        "reason": Code.RESIZE_REFUSED,
        "lastTransitionTime": format_time(NOW - 3600),
    }
    builder.with_status(conditions=[rejected])
    # when no hook delays the deletion, the pod is deleted
    assert deleted(builder.plan()) == [1]
    # when a hook does, the pod is first specified for deletion
    plan = builder.hooked(0, 1).plan()
    assert patches(plan)["web-1"]["metadata"]["labels"] == {keys.SPECIFIED_DELETE_LABEL: "true"}
    assert [note.reason for step in plan.steps if (note := step.done)] == [Code.RESIZE_INFEASIBLE]
    # and waits in PreparingDelete, although no condition reports a rejected resize any more
    assert states(builder.marked(1).plan()) == {1: "PreparingDelete"}
    plan = builder.state("PreparingDelete", 1).plan()
    assert plan.stages == ()
    assert plan.status is not None
    builder.document["status"] = plan.status
    assert "FailedUpdatePod" not in [condition["type"] for condition in plan.status["conditions"]]
    assert builder.plan().stages == ()


def test_a_reverted_recreation_returns_the_pod_to_normal() -> None:
    builder = statefulset(3).with_hook("preDelete").hooked(0, 1, 2).state("PreparingDelete", 2)
    assert states(builder.plan()) == {2: "Normal"}


def test_a_pod_in_preparing_delete_that_can_change_in_place_returns_to_normal_first() -> None:
    builder = updatable(3, parallel=True, maxUnavailable=2).with_hook("preDelete").all_old()
    plan = builder.hooked(2).state("PreparingDelete", 2).plan()
    assert states(plan)[2] == "Normal"
    assert 2 not in left(plan)
    # and it uses a slot until its turn
    assert images(plan) == {1: "nginx:1"}
    # and likewise if only its policy prevents a recreation
    builder = updatable(3, policy="InPlaceOnly").with_hook("preDelete")
    builder.old_template["spec"]["containers"][0]["command"] = ["sleep"]
    plan = builder.all_old().hooked(2).state("PreparingDelete", 2).plan()
    assert states(plan) == {2: "Normal"}


@pytest.mark.parametrize("hook", ["off", "1"])
def test_the_hook_returns_for_the_next_update_while_the_last_one_ends(hook: str) -> None:
    # given a pod in Updated when another template comes
    builder = hooked_rollout().state("Updated", 2)
    builder.labelled({"example.com/hook": hook}, 2)
    # when
    (step,) = builder.plan().steps
    body = step.action.body  # type: ignore[union-attr]  # a patch
    # then it has to be released by the hook once more
    assert body["metadata"]["labels"][keys.STATE_LABEL] == "PreparingUpdate"
    assert HOOK.items() <= body["metadata"]["labels"].items()


# ── in order ─────────────────────────────────────────────────────────────────


def test_ordered_management_updates_nothing_while_a_pod_is_unready_and_names_the_remedy() -> None:
    plan = statefulset(3).all_old().not_ready(1).plan()
    assert plan.stages == ()
    (condition,) = plan.status["conditions"]  # type: ignore[index]
    assert condition["reason"] == "NotReady"
    assert "kubectl delete pod web-1" in condition["message"]


def test_a_pod_that_lacks_a_new_volume_keeps_running_until_it_is_recreated() -> None:
    """statefulset case 76"""
    # given a claim template that was added
    builder = statefulset(2).with_claims(claim_template(), claim_template("logs"), there=False)
    builder.with_claims(claim_template()).spec["volumeClaimTemplates"].append(claim_template("logs"))
    # when
    plan = builder.plan()
    # then no pod is restarted, none fails, and an event reports it
    assert plan.stages == ()
    (note,) = plan.notes
    assert (note.reason, note.warning) == ("ClaimsNotMounted", True)
    # and a pod that is created later mounts it
    (pod,) = created_pods(builder.without(1).plan())
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["data", "logs"]


def test_an_orphan_is_adopted_before_it_is_known_what_it_mounts() -> None:
    builder = statefulset(1).with_claims(claim_template()).orphaned(0)
    assert builder.plan().notes == ()


@pytest.mark.parametrize(("count", "has_more"), [(10, False), (11, True)])
def test_pods_that_lack_a_volume_are_named_ten_at_most(count: int, has_more: bool) -> None:
    builder = statefulset(count, parallel=True).with_spec(volumeClaimTemplates=[claim_template()])
    (note,) = builder.plan().notes
    assert note.message.endswith(", web-9, …" if has_more else ", web-9")


def test_a_new_template_is_stored_as_a_revision_before_its_pods_are_created() -> None:
    # given
    builder = statefulset(1, pods=False).with_spec(template=template("nginx:9")).with_revisions()
    plan = builder.plan()
    # then
    assert [stage.purpose for stage in plan.stages] == ["store revision", "create pods"]
