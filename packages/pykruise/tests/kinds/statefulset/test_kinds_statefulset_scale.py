"""The creation and deletion of pods, in order or all together; numbered cases are those of the specification."""

import pytest

from pykruise.pods.view import keys
from pykruise.runtime.actions import Patch
from support.statefulset_builder import (
    created,
    deleted,
    left,
    statefulset,
    states,
    waiting,
)

# ── OrderedReady: up ─────────────────────────────────────────────────────────


def test_only_the_first_of_the_missing_pods_is_created() -> None:
    """statefulset case 1"""
    assert created(statefulset(pods=False).plan()) == [0]


@pytest.mark.parametrize(
    ("ready_for_s", "expected"), [(None, []), (5, []), (10, [1])], ids=["not ready", "not long", "available"]
)
def test_the_second_pod_is_created_when_the_first_is_available(
    ready_for_s: float | None, expected: list[int]
) -> None:
    """statefulset case 1"""
    # given
    builder = statefulset(minReadySeconds=10).without(1, 2)
    builder = builder.not_ready(0) if ready_for_s is None else builder.ready_for(ready_for_s, 0)
    # when
    plan = builder.plan()
    # then
    assert created(plan) == expected
    assert plan.requeue_after_s == (5 if ready_for_s == 5 else None)


def test_a_gap_is_filled_before_anything_else_changes() -> None:
    plan = statefulset(3).without(1).pod(3, 4).all_old().plan()
    assert (created(plan), deleted(plan)) == ([1], [])


def test_a_pod_that_has_failed_is_replaced_and_the_others_stay() -> None:
    """statefulset case 18"""
    # given
    builder = statefulset().phase("Failed", 1)
    # then it is deleted first
    assert deleted(builder.plan()) == [1]
    # and it is created again with the same ordinal
    assert created(builder.without(1).plan()) == [1]


@pytest.mark.parametrize("paused", [True, False], ids=["paused", "maxUnavailable"])
def test_an_old_pod_that_is_replaced_is_not_reported_as_skipped(paused: bool) -> None:
    plan = statefulset(2, parallel=True, paused=paused).all_old().phase("Failed", 0).plan()
    assert deleted(plan) == [0]
    assert left(plan).keys() == {1}


def test_in_order_the_pod_that_is_waited_for_has_its_reason() -> None:
    builder = statefulset(2, minReadySeconds=10)
    assert left(builder.deleted(0).plan()) == {0: "terminates; its successor is created afterwards"}
    plan = builder.pod(0).ready_for(5, 0).plan()
    assert left(plan) == {0: "must be ready for 10 s before the next pod is created"}
    assert left(builder.not_ready(0).plan()) == {0: "is not ready; the other pods wait for it"}
    plan = builder.pod(0).with_hook("preNormal").state("PreparingNormal", 0).plan()
    assert "hook" in left(plan)[0]


def test_a_pod_that_has_ended_waits_for_its_pre_delete_hook() -> None:
    builder = statefulset(2, parallel=True).with_hook("preDelete").hooked(0)
    plan = builder.phase("Failed", 0).state("PreparingDelete", 0).plan()
    assert plan.stages == ()
    assert "hook" in left(plan)[0]


def test_a_failed_pod_that_terminates_is_waited_for() -> None:
    plan = statefulset().without(2).phase("Failed", 1).deleted(1).plan()
    assert (created(plan), deleted(plan)) == ([], [])
    assert waiting(plan) == "Terminating"


# ── OrderedReady: down ───────────────────────────────────────────────────────


def test_surplus_pods_are_deleted_sequentially_from_the_highest_ordinal() -> None:
    plan = statefulset(1).pod(1, 2).plan()
    assert deleted(plan) == [2]
    assert left(plan) == {1: "is surplus, and is deleted after pod web-2"}
    assert deleted(statefulset(1).pod(1, 2).deleted(2).plan()) == []


def test_no_surplus_pod_is_deleted_while_another_pod_is_unavailable() -> None:
    """statefulset case 13"""
    assert deleted(statefulset(1).pod(1, 2).not_ready(0).plan()) == []


def test_the_highest_may_be_the_one_that_is_not_ready() -> None:
    """statefulset case 14"""
    assert deleted(statefulset(1).pod(1, 2).not_ready(2).plan()) == [2]
    assert deleted(statefulset(1).pod(1).plan()) == [1]


def test_two_surplus_pods_that_are_not_ready_block() -> None:
    """statefulset case 15"""
    # given
    builder = statefulset(1).pod(1, 2).not_ready(1, 2)
    # when
    plan = builder.plan()
    # then the waiting pod names the reason
    assert deleted(plan) == []
    assert "web-1 is not healthy" in left(plan)[2]
    # and the deletion continues when the pod is ready, or deleted
    assert deleted(builder.ready_for(60, 2).plan()) == [2]
    assert deleted(builder.without(2).plan()) == [1]


def test_a_surplus_pod_is_deleted_only_when_it_is_available() -> None:
    # given a surplus pod that is ready for 5 of 10 seconds, and a lower one that is down
    plan = statefulset(1, minReadySeconds=10).pod(1, 2).not_ready(1).ready_for(5, 2).plan()
    # then
    assert deleted(plan) == []
    assert plan.requeue_after_s == 5


@pytest.mark.parametrize("on_delete", [False, True], ids=["RollingUpdate", "OnDelete"])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_finished_surplus_pods_are_deleted_even_while_lower_ones_are_unready(
    phase: str, on_delete: bool
) -> None:
    # given two pods that will never be available again
    builder = statefulset(1).pod(1, 2).phase(phase, 1, 2)
    builder = builder.on_delete() if on_delete else builder
    # then they are deleted from the highest down, also above a pod that is only not ready
    assert deleted(builder.plan()) == [2]
    assert deleted(builder.without(2).plan()) == [1]
    assert deleted(statefulset(1).pod(1, 2).not_ready(1).phase(phase, 2).plan()) == [2]


@pytest.mark.parametrize("down", ["Failed", "not ready"])
def test_a_surplus_pod_that_prepares_to_be_deleted_holds_no_higher_one(down: str) -> None:
    # given a lower surplus pod in PreparingDelete, which is not deleted while a higher one exists
    builder = statefulset(1).pod(1, 2).state("PreparingDelete", 1)
    builder = builder.phase("Failed", 2) if down == "Failed" else builder.not_ready(2)
    # then the higher one is deleted first, and then the lower one
    assert deleted(builder.plan()) == [2]
    assert deleted(builder.without(2).plan()) == [1]


def test_a_surplus_pod_alone_that_is_not_ready_for_long_enough_names_no_other_pod() -> None:
    plan = statefulset(1, minReadySeconds=10).pod(1).ready_for(5, 1).plan()
    assert left(plan) == {1: "is surplus, but has not been ready for 10 s yet"}
    assert plan.requeue_after_s == 5


def test_updates_wait_until_the_set_has_its_size() -> None:
    """A set with a scale-down and a rollout scales down first."""
    builder = statefulset(2).pod(2).all_old()
    assert deleted(builder.plan()) == [2]
    assert deleted(builder.without(2).plan()) == [1]


def test_a_hook_holds_the_highest_surplus_pod_and_the_lower_ones_wait() -> None:
    """statefulset case 58: no deadlock, neither while the highest pod waits nor when its hook is removed"""
    # given
    builder = statefulset(1).pod(1, 2).with_hook("preDelete").hooked(0, 1, 2)
    # then the highest prepares
    assert states(builder.plan()) == {2: "PreparingDelete"}
    # and nothing else happens while it has its hook
    builder.state("PreparingDelete", 2)
    plan = builder.plan()
    assert (states(plan), deleted(plan)) == ({}, [])
    assert waiting(plan) == "PreDeleteHook"
    # when the hook is removed, it is deleted
    builder.labelled({"example.com/hook": "off"}, 2)
    assert deleted(builder.plan()) == [2]
    # and then the next one prepares
    assert states(builder.without(2).plan()) == {1: "PreparingDelete"}


def test_a_removed_hook_label_deletes_the_pod() -> None:
    """statefulset case 56"""
    builder = statefulset(2).pod(2).with_hook("preDelete").hooked(2)
    assert states(builder.plan()) == {2: "PreparingDelete"}
    assert deleted(builder.labelled({"example.com/hook": "2"}, 2).plan()) == [2]


def test_a_hook_that_takes_pods_out_of_service_does_so_with_the_state() -> None:
    """statefulset case 57"""
    # given
    builder = statefulset(2).pod(2).with_hook("preDelete", markPodNotReady=True).hooked(2)
    builder.pods["web-2"]["spec"]["readinessGates"] = [{"conditionType": keys.KRUISE_POD_READY}]
    builder.set_condition(2, keys.KRUISE_POD_READY, "True")
    # when
    (step,) = builder.plan().steps
    # then one write does both, so that neither happens without the other
    assert step.action.subresource == "status"  # type: ignore[union-attr]  # a patch
    body = step.action.body  # type: ignore[union-attr]
    (condition, ready) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.KRUISE_POD_READY, "False")
    assert condition["message"] == '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
    assert (ready["type"], ready["status"]) == ("Ready", "False")
    assert body["metadata"]["labels"][keys.STATE_LABEL] == "PreparingDelete"


def test_a_pod_that_is_wanted_again_returns_from_preparing_delete() -> None:
    """statefulset case 61"""
    builder = statefulset(3).with_hook("preDelete").hooked(2).state("PreparingDelete", 2)
    assert states(builder.plan()) == {2: "Normal"}


def test_a_pod_that_returns_from_preparing_delete_becomes_ready_again() -> None:
    # given
    builder = statefulset(3).with_hook("preDelete", markPodNotReady=True).hooked(2)
    builder.state("PreparingDelete", 2).not_ready(2)
    builder.pods["web-2"]["spec"]["readinessGates"] = [{"conditionType": keys.KRUISE_POD_READY}]
    message = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
    builder.set_condition(2, keys.KRUISE_POD_READY, "False", message=message)
    # when
    (step,) = builder.plan().steps
    # then
    body = step.action.body  # type: ignore[union-attr]
    assert body["metadata"]["labels"][keys.STATE_LABEL] == "Normal"
    assert body["status"]["conditions"][0]["status"] == "True"
    assert (
        step.because
        == "no reason is left for condition KruisePodReady to be False, and its deletion is no longer wanted"
    )


# ── Parallel ─────────────────────────────────────────────────────────────────


def test_parallel_management_creates_all_pods_together() -> None:
    """statefulset case 2"""
    plan = statefulset(pods=False, parallel=True).plan()
    assert created(plan) == [0, 1, 2]
    assert all(stage.ramp for stage in plan.stages if stage.purpose == "create pods")
    assert all(step.failed is not None and step.failed.warning for step in plan.steps)


def test_the_scale_limit_counts_pods_that_are_not_available() -> None:
    """statefulset case 3"""
    # given
    builder = statefulset(5, pods=False, parallel=True).with_spec(scaleStrategy={"maxUnavailable": 2})
    assert created(builder.plan()) == [0, 1]
    # when the second of them becomes ready
    builder.pod(0, 1).not_ready(0)
    # then exactly one more is created
    plan = builder.plan()
    assert created(plan) == [2]
    assert "ScaleUpLimited" in {note.reason for note in plan.notes}


def test_the_scale_limit_counts_existing_pods() -> None:
    """statefulset case 4"""
    # given
    builder = statefulset(3, parallel=True).with_spec(scaleStrategy={"maxUnavailable": 2}, replicas=10)
    assert created(builder.plan()) == [3, 4]
    # when both are created, but not available
    builder.pod(3, 4).not_ready(3, 4)
    # then
    plan = builder.plan()
    assert created(plan) == []
    # and when one is available
    assert created(builder.ready_for(60, 3).plan()) == [5]


@pytest.mark.parametrize(("share", "made"), [("10%", 1), ("50%", 2), ("100%", 5), (7, 5)])
def test_a_share_of_the_scale_limit_is_rounded_down_and_at_least_one(share: int | str, made: int) -> None:
    builder = statefulset(5, pods=False, parallel=True).with_spec(scaleStrategy={"maxUnavailable": share})
    assert len(created(builder.plan())) == made


def test_parallel_management_deletes_all_surplus_pods_together() -> None:
    """statefulset case 16"""
    # given
    builder = statefulset(0, parallel=True).pod(0, 1, 2).all_old()
    assert deleted(builder.plan()) == [2, 1, 0]
    # when they are gone
    status = builder.without(0, 1, 2).plan().status
    # then
    assert status is not None
    assert status["replicas"] == 0
    assert status["currentRevision"] == status["updateRevision"]


def test_a_failed_pod_that_does_not_terminate_blocks_no_other_pod() -> None:
    """statefulset case 19"""
    plan = statefulset(parallel=True).phase("Failed", 0).deleted(0).without(1).plan()
    assert created(plan) == [1]


def test_a_finished_pod_is_replaced_at_any_scale_limit() -> None:
    """statefulset case 20"""
    builder = statefulset(parallel=True).with_spec(scaleStrategy={"maxUnavailable": 1}).phase("Succeeded", 1)
    assert deleted(builder.plan()) == [1]
    assert created(builder.without(1).plan()) == [1]


def test_a_pod_that_terminates_and_is_not_ready_costs_one_not_two() -> None:
    builder = statefulset(3, parallel=True).with_spec(scaleStrategy={"maxUnavailable": 2})
    plan = builder.not_ready(0).deleted(0).without(2).plan()
    assert created(plan) == [2]


def test_surplus_pods_are_deleted_even_when_the_missing_ones_cannot_be_created() -> None:
    """Moved ordinals while a quota is used up: neither may wait for the other."""
    plan = statefulset(3, parallel=True).with_spec(reserveOrdinals=[1]).plan()
    assert (created(plan), deleted(plan)) == ([3], [1])
    assert [stage.regardless for stage in plan.stages if stage.purpose == "delete surplus pods"] == [True]


def test_a_rejected_write_to_one_pod_does_not_prevent_writes_to_others() -> None:
    # given a pod to refresh, and a missing pod
    plan = statefulset(3, parallel=True).state("Updated", 0).without(2).plan()
    # then only the stages that prepare pods must succeed first
    stages = {stage.purpose: (stage.regardless, stage.only_after) for stage in plan.stages}
    assert stages == {"refresh pods": (True, ()), "create pods": (True, ())}


@pytest.mark.parametrize(
    ("missing", "failed", "is_limited"),
    [((0,), (), False), ((0, 1), (), True), ((0,), (1,), True), ((), (2,), False)],
)
def test_the_scale_limit_is_an_event_when_it_keeps_pods_from_being_made(
    missing: tuple[int, ...], failed: tuple[int, ...], is_limited: bool
) -> None:
    builder = statefulset(3, parallel=True).with_spec(scaleStrategy={"maxUnavailable": 1})
    plan = builder.without(*missing).phase("Failed", *failed).plan()
    assert ("ScaleUpLimited" in {note.reason for note in plan.notes}) is is_limited


def test_a_large_set_is_scaled_a_few_hundred_pods_at_a_time() -> None:
    # given missing pods, and others that have ended
    builder = statefulset(258, parallel=True).without(*range(129)).phase("Failed", *range(129, 258))
    plan = builder.plan()
    assert len(created(plan)) + len(deleted(plan)) == 256
    assert plan.requeue_after_s == 0
    # and surplus pods are handled likewise
    plan = statefulset(258, parallel=True).with_spec(replicas=0).plan()
    assert (len(deleted(plan)), plan.requeue_after_s) == (256, 0)


def test_surplus_pods_that_terminate_or_wait_for_their_hook_do_not_delay_the_deletion_of_others() -> None:
    # given more such pods than one plan deletes, above two others
    builder = statefulset(260, parallel=True).with_spec(replicas=0).deleted(*range(2, 131))
    builder.with_hook("preDelete").hooked(*range(131, 260)).state("PreparingDelete", *range(131, 260))
    # then
    plan = builder.plan()
    assert (deleted(plan), states(plan)) == ([1, 0], {})
    assert len(left(plan)) == 258


def test_surplus_pods_that_terminate_are_not_deleted_again() -> None:
    plan = statefulset(0, parallel=True).pod(0, 1).deleted(1).plan()
    assert deleted(plan) == [0]
    assert left(plan) == {1: "terminates"}
    assert all(stage.ramp for stage in plan.stages)


# ── ordinals ─────────────────────────────────────────────────────────────────


def test_a_reserved_ordinals_pod_is_deleted_after_its_replacement_is_available() -> None:
    """statefulset case 9"""
    # given
    builder = statefulset(3).with_spec(reserveOrdinals=[1])
    plan = builder.plan()
    assert (created(plan), deleted(plan)) == ([3], [])
    assert deleted(builder.pod(3).not_ready(3).plan()) == []
    assert deleted(builder.ready_for(60, 3).plan()) == [1]
    assert builder.without(1).plan().stages == ()


def test_reserving_a_number_while_scaling_down_takes_just_that_pod() -> None:
    """statefulset case 10"""
    builder = statefulset(3).with_spec(reserveOrdinals=[1], replicas=2)
    plan = builder.plan()
    assert (created(plan), deleted(plan)) == ([], [1])
    assert builder.without(1).plan().stages == ()


def test_reserving_a_number_beyond_changes_nothing() -> None:
    """statefulset case 11"""
    assert statefulset(3).with_spec(reserveOrdinals=[7]).plan().stages == ()


def test_a_released_ordinal_is_filled_before_the_highest_pod_is_deleted() -> None:
    """statefulset case 12"""
    # given
    builder = statefulset(3).without(1).pod(3)
    plan = builder.plan()
    assert (created(plan), deleted(plan)) == ([1], [])
    assert deleted(builder.pod(1).not_ready(1).plan()) == []
    assert deleted(builder.ready_for(60, 1).plan()) == [3]


def test_another_start_makes_pods_above_and_takes_those_below() -> None:
    """statefulset case 17"""
    builder = statefulset(3, parallel=True).with_settings(start_ordinal=True).with_spec(ordinals={"start": 2})
    plan = builder.plan()
    assert (created(plan), deleted(plan)) == ([3, 4], [1, 0])


@pytest.mark.parametrize(
    ("gate", "ordinals", "expected"),
    [
        (True, {"start": 5}, [5, 6]),
        (True, {"start": 0}, [0, 1]),
        (True, {"start": -3}, [0, 1]),
        (True, None, [0, 1]),
        (False, {"start": 5}, [0, 1]),
    ],
)
def test_the_first_number_has_a_gate_and_is_not_below_zero(
    gate: bool, ordinals: dict[str, int] | None, expected: list[int]
) -> None:
    """statefulset case 8"""
    builder = statefulset(2, pods=False, parallel=True).with_spec(ordinals=ordinals)
    assert created(builder.with_settings(start_ordinal=gate).plan()) == expected


def test_pods_without_a_number_are_ignored() -> None:
    """statefulset case 21"""
    # given a pod whose name the set would not give, and one whose ordinal is too large
    plan = statefulset(3).pod("x", "4294967296").plan()
    # then the first is released, and the second is neither counted nor deleted
    assert [(stage.purpose, [chain.subject for chain in stage.chains]) for stage in plan.stages] == [
        ("release pods", ["web-x"])
    ]
    assert plan.status is not None
    assert plan.status["replicas"] == 3


def test_a_pod_with_a_padded_ordinal_is_not_the_real_pod() -> None:
    plan = statefulset(3).without(1).pod("01").plan()
    assert created(plan) == [1]


# ── repaired pods, and unchanged ones ────────────────────────────────────────


def test_a_pod_that_lost_the_label_with_its_name_gets_it_back() -> None:
    builder = statefulset(1)
    del builder.pods["web-0"]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    (stage,) = builder.plan().stages
    assert stage.is_optional
    (step,) = builder.plan().steps
    assert isinstance(step.action, Patch)
    assert step.action.body["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert step.failed is not None
    assert step.failed.warning
    # unless it terminates
    assert builder.deleted(0).plan().stages == ()


def test_a_terminating_statefulset_writes_nothing() -> None:
    """statefulset case 31"""
    plan = statefulset(5).pod(7).without(1).phase("Failed", 2).terminating().plan()
    assert plan.stages == ()
    assert plan.status is not None
    assert plan.status["replicas"] == 5
