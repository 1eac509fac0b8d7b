"""Updates: the choice of pods, the number at the same time, and the way."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.pods.view import keys
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset, revision
from support.plan_views import (
    created,
    created_revisions_of_pods,
    deleted,
    left,
    marked,
    pod_patches,
    replaced,
    states,
    steps_named,
)

RECREATED = "SuccessfulUpdatePodReCreate"


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


@pytest.mark.parametrize(
    ("replicas", "partition", "updated"), [(4, "99%", 1), (4, "100%", 0), (1, "99%", 0), (4, 0, 4), (4, 9, 0)]
)
def test_the_partition_bounds_how_many_pods_are_updated(
    replicas: int, partition: int | str, updated: int
) -> None:
    """cloneset case 61"""
    builder = cloneset(replicas, old=replicas, partition=partition, max_unavailable="100%")
    assert len(replaced(planned(builder))) == updated


def test_pods_are_updated_one_after_another_until_the_partition_is_reached() -> None:
    """cloneset case 62"""
    # given
    builder = cloneset(5, old=5, partition=3, max_unavailable=1)
    plan = planned(builder)
    assert len(replaced(plan)) == 1
    assert (plan.status or {})["expectedUpdatedReplicas"] == 2
    # when one is new but not ready, no other pod is updated
    builder.add("a").not_ready("a")
    assert not planned(builder).stages
    # when it is ready, the next pod is updated
    builder.add("a")
    assert replaced(planned(builder)) == {"b"}
    # when two are new, it is done
    builder.add("b")
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["c"] == "the partition allows no more pods to be updated"


@pytest.mark.parametrize(("partition", "back"), [(4, {"d"}), (5, {"d", "e"})])
def test_a_raised_partition_takes_pods_back_only_with_the_gate(partition: int, back: set[str]) -> None:
    """cloneset case 63"""
    builder = cloneset(5, old=3, partition=partition, max_unavailable="100%")
    assert not planned(builder).stages
    plan = planned(builder.with_settings(partition_rollback=True))
    assert replaced(plan) == back
    assert {step.because.split(";")[0] for step in steps_named(plan, "update pods")} == {
        f"recreated for revision {builder.old_revision}"
    }


def test_nothing_is_rolled_back_when_current_and_update_revision_are_equal() -> None:
    """cloneset case 64"""
    builder = cloneset(5, partition=3, max_unavailable=5).with_settings(partition_rollback=True)
    assert not planned(builder).stages


def test_pods_that_are_down_are_updated_first_but_no_more_than_allowed_in_the_target() -> None:
    """cloneset case 65"""
    # given five old pods that are down
    builder = cloneset(5, old=5, max_unavailable=2).not_ready(*"abcde")
    assert len(replaced(planned(builder))) == 2
    # when two are of the new revision and still down, no other pod is updated
    builder.add("a", "b").not_ready("a", "b")
    assert not planned(builder).stages


def test_nothing_is_updated_while_the_budget_is_used_up_by_others() -> None:
    """cloneset case 66"""
    builder = cloneset(5, old=4, max_unavailable=1).not_ready("e")
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["a"] == "waits for its turn: maxUnavailable is used up"


@pytest.mark.parametrize(
    ("down", "before_others", "updated"), [("ab", "ac", {"a"}), ("d", "ab", {"a"})], ids=["two", "one"]
)
def test_a_pod_that_is_down_uses_the_budget_up_wherever_it_is_in_the_order(
    down: str, before_others: str, updated: set[str]
) -> None:
    # given maxUnavailable 2, and a priority that puts an available pod before an unavailable one
    builder = cloneset(4, old=4, max_unavailable=2).not_ready(*down).labelled({"foo": "x"}, *before_others)
    terms = [{"weight": 1, "matchSelector": {"matchLabels": {"foo": "x"}}}]
    builder.with_rolling(priorityStrategy={"weightPriority": terms})
    # then
    assert replaced(planned(builder)) == updated


def test_one_pod_that_is_down_is_updated_although_missing_pods_use_the_budget_up() -> None:
    # given two pods that only a corrected template may repair, and a missing one that is not created meanwhile
    limited: dict[str, Any] = {"max_unavailable": 1, "scaleStrategy": {"maxUnavailable": 1}}
    builder = cloneset(6, pods=5, old=5, **limited).not_ready("a", "b")
    # then
    assert replaced(planned(builder)) == {"a"}
    # and the next one when that update is complete
    assert replaced(planned(builder.labelled({keys.REVISION_LABEL: builder.update_revision}, "a"))) == set()


def test_a_fifth_of_the_pods_is_updated_in_parallel_without_a_rolling_update_block() -> None:
    builder = cloneset(10, old=10)
    builder.spec["updateStrategy"] = {}
    assert replaced(planned(builder)) == {"a", "b"}


def test_on_delete_changes_no_pod() -> None:
    """cloneset case 69"""
    # given
    builder = cloneset(5, old=5).on_delete()
    plan = planned(builder)
    assert not plan.stages
    assert (plan.status or {})["expectedUpdatedReplicas"] == 5
    assert "OnDelete" in left(plan)["a"]
    # when a user deletes one, its replacement has the new revision
    builder.deleted("a")
    assert created_revisions_of_pods(planned(builder)) == [builder.update_revision]


def test_on_delete_still_deletes_a_marked_pod_of_few() -> None:
    """9.2.6: the default of 20% is rounded up"""
    assert deleted(planned(cloneset(3, old=3).on_delete().marked("a"))) == {"a"}


def test_a_paused_cloneset_updates_nothing_and_reports_it() -> None:
    plan = planned(cloneset(5, old=5, max_unavailable="100%").paused())
    assert not plan.stages
    assert set(left(plan).values()) == {"updates are paused"}


def test_a_paused_cloneset_still_sets_pods_to_normal() -> None:
    """cloneset case 68, lifecycle case 33"""
    plan = planned(cloneset(5, old=4).paused().fresh("e"))
    assert states(plan) == {"e": "Normal"}


def test_priority_by_weight_decides_which_pod_is_first() -> None:
    """cloneset case 71"""
    builder = cloneset(3, old=3, max_unavailable=1).labelled({"foo": "x"}, "c").labelled({"bar": "x"}, "b")
    terms = [
        {"weight": 20, "matchSelector": {"matchLabels": {"foo": "x"}}},
        {"weight": 10, "matchSelector": {"matchLabels": {"bar": "x"}}},
    ]
    builder.with_rolling(priorityStrategy={"weightPriority": terms})
    assert replaced(planned(builder)) == {"c"}


def test_priority_by_ordered_keys_takes_pods_without_a_key_first() -> None:
    """cloneset case 72"""
    builder = cloneset(4, old=4, max_unavailable=2).labelled({"k1": "o-5"}, "a")
    builder.labelled({"k1": "o-10"}, "b").labelled({"k2": "o-20"}, "c")
    builder.with_rolling(priorityStrategy={"orderPriority": [{"orderedKey": "k1"}, {"orderedKey": "k2"}]})
    assert replaced(planned(builder)) == {"d", "b"}


def test_scattered_pods_are_not_updated_together() -> None:
    """cloneset case 73"""
    builder = cloneset(10, old=10, max_unavailable=1).labelled({"foo": "bar"}, "h", "i", "j")
    builder.with_rolling(scatterStrategy=[{"key": "foo", "value": "bar"}])
    assert replaced(planned(builder)) == {"h"}


def test_a_preparing_pod_is_updated_before_all_others() -> None:
    """cloneset case 74, lifecycle case 27"""
    builder = cloneset(5, old=5, max_unavailable=1).in_state("PreparingUpdate", "e").restarts(9, "a")
    assert replaced(planned(builder)) == {"e"}


def test_terminating_pods_and_pods_in_grace_are_not_updated() -> None:
    """cloneset case 75, lifecycle case 37"""
    builder = cloneset(4, old=4, max_unavailable="100%").with_hook("preDelete")
    builder.with_finalizer("example.com/hook", "a").in_state("PreparingDelete", "a").marked("a")
    builder.annotated({keys.IN_PLACE_GRACE_ANNOTATION: '{"revision":"x"}'}, "b", "d")
    # but a pod whose update is complete has no grace period left
    builder.in_state("Updated", "d")
    assert replaced(planned(builder)) == {"c", "d"}


def test_a_pod_within_the_budget_is_deleted_without_a_mark() -> None:
    plan = planned(cloneset(5, old=5, max_unavailable=2))
    assert (deleted(plan), marked(plan)) == ({"a", "b"}, set())
    (step, _) = steps_named(plan, "update pods")
    assert [note.reason for note in step.notes_when_done] == ["SuccessfulDelete", RECREATED]
    assert [note.reason for note in step.notes_when_failed] == ["FailedDelete", "FailedUpdatePodReCreate"]


def test_replacing_a_pod_for_an_update_has_the_events_of_the_original() -> None:
    # given
    builder = cloneset(5, old=5, max_unavailable=1)
    held = cloneset(5, old=5, max_unavailable=1).with_hook("preDelete")
    held.with_finalizer("example.com/hook", *"abcde")
    # when one is deleted, and one is marked
    for stage in (builder, held):
        (step,) = steps_named(planned(stage), "update pods")
        done = next(note for note in step.notes_when_done if note.reason == RECREATED)
        failed = next(note for note in step.notes_when_failed if note.reason == "FailedUpdatePodReCreate")
        # then
        revision = stage.update_revision
        assert (done.warning, failed.warning) == (False, True)
        assert (
            done.message == f"successfully patch pod web-a specified-delete for update(revision {revision})"
        )
        assert failed.message == f"failed to patch pod specified-delete web-a for update(revision {revision})"


def test_a_pod_deleted_for_another_reason_has_no_update_event() -> None:
    plan = planned(cloneset(2, pods=3, old=3).marked("a"))
    reasons = [note.reason for step in plan.steps for note in step.notes_when_done]
    assert deleted(plan) == {"a"}
    assert reasons == ["SuccessfulDelete"]


def test_surge_pods_are_created_before_old_pods_are_marked_and_deleted() -> None:
    # given five old pods and one surge pod that is ready
    builder = cloneset(5, pods=6, old=5, max_unavailable=0, max_surge=1)
    plan = planned(builder)
    # then one old pod is deleted, and another one is surplus later
    assert len(replaced(plan)) == 1
    surplus = "is deleted once a pod of the newest revision is available in its place (maxSurge)"
    assert left(plan)["e"] == surplus
    # and without the surge pod, that is created first
    del builder.pods["f"]
    plan = planned(builder)
    assert (created_revisions_of_pods(plan), replaced(plan)) == ([builder.update_revision], set())


def test_a_held_pod_is_marked_and_passes_the_pre_delete_hook() -> None:
    """cloneset case 40, lifecycle case 41"""
    # given
    builder = cloneset(2, old=2, max_unavailable=1).with_hook("preDelete")
    builder.with_finalizer("example.com/hook", "a", "b")
    # then it is marked
    plan = planned(builder)
    assert (marked(plan), deleted(plan)) == ({"a"}, set())
    assert pod_patches(plan)["a"].body == {"metadata": {"labels": {keys.SPECIFIED_DELETE_LABEL: "true"}}}
    (step,) = steps_named(plan, "update pods")
    assert [note.reason for note in step.notes_when_done] == [RECREATED]
    # and then prepares
    builder.marked("a")
    assert states(planned(builder)) == {"a": "PreparingDelete"}
    # and then a return to the old template does not keep it
    builder.in_state("PreparingDelete", "a")
    assert not planned(builder).stages


def test_a_marked_pod_is_not_marked_again() -> None:
    """9.2.10"""
    builder = cloneset(3, old=3, max_unavailable=1).marked("a").with_hook("preDelete")
    builder.with_finalizer("example.com/hook", "a").in_state("PreparingDelete", "a")
    plan = planned(builder)
    assert marked(plan) == set()


def test_a_marked_pod_that_waits_for_the_budget_is_left_to_the_scale_phase() -> None:
    # given a pod that serves but is not available yet
    builder = cloneset(4, old=4, max_unavailable=1, minReadySeconds=30).ready_for(10, "a").marked("a")
    # then it is neither marked again nor deleted
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["a"] == "specified for deletion, but maxUnavailable is used up"


def test_a_pod_is_only_marked_where_a_missing_one_would_be_created_first() -> None:
    # given a missing pod that is not created while another is down
    limited: dict[str, Any] = {"max_unavailable": 2, "scaleStrategy": {"maxUnavailable": 1}}
    builder = cloneset(5, pods=4, old=4, **limited).not_ready("a")
    # when the unavailable one is recreated
    plan = planned(builder)
    # then it is marked, so that it no longer counts
    assert (marked(plan), deleted(plan)) == ({"a"}, set())
    plan = planned(builder.marked("a"))
    assert (len(created(plan)), deleted(plan)) == (1, set())


def test_a_pod_of_a_forgotten_revision_is_old() -> None:
    """cloneset case 79"""
    builder = cloneset(2, max_unavailable=1).labelled({keys.REVISION_LABEL: "web-forgotten"}, "b")
    assert replaced(planned(builder)) == {"b"}


def test_taking_over_objects_of_another_manager_changes_nothing() -> None:
    """cloneset case 59, cloneset case 60"""
    # given a revision whose data hold what a typed client writes, and pods with full names
    builder = cloneset(3)
    stored = revision(builder.spec["template"], 5)
    template = stored["data"]["spec"]["template"]
    assert template["metadata"]["creationTimestamp"] is None
    assert template["spec"]["containers"][0]["resources"] == {}
    builder.with_revisions(stored)
    # when
    plan = planned(builder)
    # then
    assert not plan.stages
    assert (plan.status or {})["updateRevision"] == stored["metadata"]["name"]


def test_an_equal_revision_with_another_hash_is_used_with_its_name() -> None:
    # given a revision as an older library would have written it: other bytes, other name, same meaning
    builder = cloneset(2)
    stored = revision(builder.spec["template"], 5, name="web-otherhash")
    del stored["data"]["spec"]["template"]["metadata"]["creationTimestamp"]
    builder.with_revisions(stored).labelled({keys.REVISION_LABEL: "web-otherhash"}, "a", "b")
    assert not planned(builder).stages


def test_a_pod_within_the_budget_is_deleted_without_waiting_for_more_surge() -> None:
    plan = planned(cloneset(5, pods=6, old=5, partition=3, max_unavailable=1, max_surge=2))
    assert (deleted(plan), marked(plan)) == ({"a"}, set())


def test_more_surge_never_creates_more_pods_than_need_an_update() -> None:
    plan = planned(cloneset(5, old=5, partition=4, max_unavailable=1, max_surge=3))
    assert len(created(plan)) == 1
