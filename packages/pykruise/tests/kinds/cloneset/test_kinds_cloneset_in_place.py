"""Updates in place in a CloneSet's plans: the choice of pods, hooks, progress and end."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.status import FAILED_UPDATE
from pykruise.plans.in_place import BEGUN_AT_ONCE
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.pods.view import keys
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import NOW, CloneSetBuilder, cloneset, revision, template
from support.plan_views import condition, created, deleted, left, marked, replaced, states, steps_named

HOOK = "example.com/hook"


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def in_place(
    replicas: int = 3, *, old: int | None = None, policy: str = "InPlaceIfPossible", **fields: Any
) -> CloneSetBuilder:
    fields.setdefault("max_unavailable", 1)
    builder = cloneset(replicas, old=replicas if old is None else old, **fields)
    return builder.with_rolling(podUpdatePolicy=policy)


def writes(plan: Plan, stage: str = "update pods") -> list[Patch]:
    patches = []
    for step in steps_named(plan, stage):
        assert isinstance(step.action, Patch)
        patches.append(step.action)
    return patches


def updating(
    builder: CloneSetBuilder, name: str = "a", *, image_id: str = "", **state: Any
) -> CloneSetBuilder:
    """A pod that is being updated in place: of the update revision, out of service, with an older image before."""
    document = {
        "revision": builder.update_revision,
        "updateTimestamp": "2026-01-31T11:59:50Z",
        "lastContainerStatuses": {"main": {"imageID": image_id or "sha256:nginx:0"}},
        "updateImages": True,
        **state,
    }
    builder.annotated({keys.IN_PLACE_STATE_ANNOTATION: orjson.dumps(document).decode()}, name)
    builder.in_state("Updating", name)
    return builder.set_condition(name, keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")


# The choice of pods, and the writes


@pytest.mark.parametrize("policy", ["InPlaceIfPossible", "InPlaceOnly"])
def test_a_new_image_takes_the_pod_out_of_service_and_then_changes_it(policy: str) -> None:
    # when
    plan = planned(in_place(policy=policy))
    # then
    first, second = writes(plan)
    assert (first.subresource, second.subresource) == ("status", "")
    assert first.body["status"]["conditions"][0]["status"] == "False"
    assert second.body["spec"] == {"containers": [{"name": "main", "image": "nginx:1"}]}
    # and the same write sets the revision of the pod
    labels = second.body["metadata"]["labels"]
    update = in_place().update_revision
    assert labels == {
        keys.REVISION_LABEL: update,
        keys.TEMPLATE_HASH_LABEL: update.rpartition("-")[2],
        keys.STATE_LABEL: "Updating",
    }
    annotations = second.body["metadata"]["annotations"]
    assert annotations[keys.STATE_TIME_ANNOTATION] == "2026-01-31T12:00:00Z"
    assert orjson.loads(annotations[keys.IN_PLACE_STATE_ANNOTATION])["revision"] == update
    # and no write requires a resource version that the previous write has changed
    assert [patch.resource_version for patch in (first, second)] == ["", ""]
    assert {patch.uid for patch in (first, second)} == {"uid-a"}


def test_the_last_write_of_an_update_emits_its_only_event() -> None:
    first, second = steps_named(planned(in_place()), "update pods")
    assert first.done is None
    assert second.done is not None
    assert second.done.reason == "SuccessfulUpdatePodInPlace"
    assert {step.failed.reason for step in (first, second) if step.failed} == {"FailedUpdatePodInPlace"}


def test_the_revision_label_is_only_the_hash_with_the_short_hash_gate() -> None:
    builder = in_place().with_settings(short_hash=True)
    metadata = writes(planned(builder))[-1].body["metadata"]
    assert metadata["labels"][keys.REVISION_LABEL] == builder.update_revision.rpartition("-")[2]
    # but programs compare the annotation with status.updateRevision
    state = orjson.loads(metadata["annotations"][keys.IN_PLACE_STATE_ANNOTATION])
    assert state["revision"] == builder.update_revision
    builder.with_rolling(inPlaceUpdateStrategy={"gracePeriodSeconds": 20})
    annotations = writes(planned(builder))[-1].body["metadata"]["annotations"]
    assert orjson.loads(annotations[keys.IN_PLACE_GRACE_ANNOTATION])["revision"] == builder.update_revision


def test_a_pod_that_cannot_change_in_place_is_recreated_with_the_changed_path_as_reason() -> None:
    builder = in_place()
    builder.spec["template"] = template("nginx:1", hostNetwork=True)
    plan = planned(builder.add("a", "b", "c", old=True))
    assert deleted(plan) == {"a"}
    (step,) = steps_named(plan, "update pods")
    assert "spec.hostNetwork was added; in place only images" in step.because


@pytest.mark.parametrize(("policy", "is_recreated"), [("InPlaceIfPossible", True), ("InPlaceOnly", False)])
def test_changed_claim_templates_prevent_an_update_in_place_with_the_gate(
    policy: str, is_recreated: bool
) -> None:
    # given revisions that were stored with different claim templates
    builder = in_place(1, policy=policy).with_settings(recreate_on_claim_change=True)
    hashes = [{keys.CLAIM_TEMPLATES_HASH_ANNOTATION: literal} for literal in ("before", "now")]
    builder.with_revisions(
        revision(builder.old_template, 1, annotations=hashes[0]),
        revision(builder.spec["template"], 2, annotations=hashes[1]),
    )
    # then
    plan = planned(builder)
    assert deleted(plan) == ({"a"} if is_recreated else set())
    assert states(plan) == ({} if is_recreated else {"a": "Updating"})


def test_in_place_only_keeps_pods_that_cannot_change_and_reports_why() -> None:
    """cloneset case 78"""
    # given
    builder = in_place(policy="InPlaceOnly")
    builder.spec["template"] = template("nginx:1", hostNetwork=True)
    plan = planned(builder.add("a", "b", "c", old=True))
    # then
    assert not plan.stages
    result = condition(plan, FAILED_UPDATE)
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "CannotUpdate")
    assert "pod web-a (and 2 more)" in result["message"]
    assert "spec.hostNetwork was added" in result["message"]
    assert "spec.hostNetwork was added" in left(plan)["c"]
    # and the failure ends once there is nothing to update
    builder.document["status"] = plan.status
    builder.spec["template"] = builder.old_template
    result = condition(planned(builder), FAILED_UPDATE)
    assert result is not None
    assert result["status"] == "False"


def test_a_pod_that_cannot_be_updated_blocks_no_other_pod() -> None:
    # given that the first pod in the order is of an unknown revision
    builder = in_place(policy="InPlaceOnly").labelled({keys.REVISION_LABEL: "web-forgotten"}, "a")
    builder.restarts(9, "a")
    plan = planned(builder)
    # then
    assert replaced(plan) == {"b"}
    assert "was created from is unknown" in left(plan)["a"]
    result = condition(plan, FAILED_UPDATE)
    assert result is not None
    assert result["message"].startswith("pod web-a: ")


def test_a_pod_that_cannot_be_updated_takes_no_place_of_the_partition() -> None:
    # given room for one updated pod, and that the first pod in the order cannot be updated
    builder = in_place(policy="InPlaceOnly", partition=2).labelled(
        {keys.REVISION_LABEL: "web-forgotten"}, "a"
    )
    plan = planned(builder.restarts(9, "a"))
    # then
    assert replaced(plan) == {"b"}
    assert condition(plan, FAILED_UPDATE) is None


@pytest.mark.parametrize("specify", [CloneSetBuilder.marked, CloneSetBuilder.to_delete])
def test_a_pod_that_is_specified_for_deletion_is_not_updated_while_it_waits(
    specify: Callable[[CloneSetBuilder, str], CloneSetBuilder],
) -> None:
    # given a pod that serves but is not available yet, so that it may not be deleted now
    builder = in_place(4, max_unavailable=1, minReadySeconds=30).ready_for(10, "a")
    # then it stays as it is, for the label and for podsToDelete
    plan = planned(specify(builder, "a"))
    assert not plan.stages
    assert left(plan)["a"] == "specified for deletion, but maxUnavailable is used up"


def test_a_pod_of_a_forgotten_revision_is_recreated() -> None:
    """cloneset case 79"""
    builder = in_place(2, old=0).labelled({keys.REVISION_LABEL: "web-forgotten"}, "b")
    plan = planned(builder)
    assert deleted(plan) == {"b"}
    assert "was created from is unknown" in steps_named(plan, "update pods")[0].because


def test_a_pod_in_an_unknown_state_is_not_changed() -> None:
    """lifecycle: not allowed in this state"""
    plan = planned(in_place(1).in_state("SomethingNew", "a"))
    assert not plan.stages
    assert "'SomethingNew' is not known" in left(plan)["a"]
    assert condition(plan, FAILED_UPDATE) is not None


def test_pods_of_different_revisions_are_updated_in_their_own_way_within_one_budget() -> None:
    # given one pod that can change in place and one that cannot
    builder = in_place(3, max_unavailable=2).labelled({keys.REVISION_LABEL: "web-forgotten"}, "b")
    plan = planned(builder)
    # then
    assert replaced(plan) == {"a", "b"}
    assert deleted(plan) == {"b"}
    assert states(plan) == {"a": "Updating"}


@pytest.mark.parametrize(
    ("in_place_ones", "recreated_ones", "begun"), [(11, 1, 10 + 1), (1, MOST_AT_ONCE + 1, 1 + MOST_AT_ONCE)]
)
def test_a_plan_with_more_updates_than_its_limit_is_requeued_immediately(
    in_place_ones: int, recreated_ones: int, begun: int
) -> None:
    # given
    builder = in_place(in_place_ones + recreated_ones, max_unavailable="100%")
    builder.labelled({keys.REVISION_LABEL: "web-forgotten"}, *[*builder.pods][in_place_ones:])
    # when
    plan = planned(builder)
    # then
    assert len(replaced(plan)) == begun
    assert plan.requeue_after_s == 0


def test_pods_that_are_recreated_for_different_reasons_share_one_budget() -> None:
    # given two pods that serve but are not available yet, and maxUnavailable 3
    builder = in_place(5, max_unavailable=3, minReadySeconds=30)
    builder.spec["template"] = template("nginx:1", hostNetwork=True)
    builder.labelled({keys.REVISION_LABEL: "web-forgotten"}, "a").ready_for(10, "a", "b")
    # when
    plan = planned(builder)
    # then one more serving pod may be deleted now
    assert (deleted(plan), marked(plan)) == ({"a"}, {"b", "c"})


def test_max_unavailable_and_partition_bound_updates_in_place_too() -> None:
    plan = planned(in_place(6, max_unavailable="50%", partition=2))
    assert len(replaced(plan)) == 3
    assert set(left(plan).values()) == {
        "the partition allows no more pods to be updated",
        "waits for its turn: maxUnavailable is used up",
    }


@pytest.mark.parametrize(("pods", "begun"), [(20, 10), (960, 15), (3000, BEGUN_AT_ONCE)])
def test_no_more_updates_begin_together_than_can_finish_soon(pods: int, begun: int) -> None:
    plan = planned(in_place(pods, max_unavailable="100%"))
    assert len(replaced(plan)) == begun
    assert plan.requeue_after_s == 0
    # and each of the others says that it waits for its turn
    assert replaced(plan).isdisjoint(left(plan))
    assert len(left(plan)) == pods - begun
    assert {reason.code for reason in plan.skipped.values()} == {"Turn"}


@pytest.mark.parametrize(("pods", "is_partial"), [(10, False), (11, True)])
def test_all_updates_begin_together_up_to_the_limit(pods: int, is_partial: bool) -> None:
    plan = planned(in_place(pods, max_unavailable="100%"))
    assert (len(replaced(plan)), plan.requeue_after_s) == (10, 0 if is_partial else None)


def test_a_pod_blocked_by_its_hook_takes_no_slot_and_reports_the_hook() -> None:
    # given eleven pods, two of which are held by their hook, and so out of service
    builder = in_place(11, max_unavailable="100%").with_hook("inPlaceUpdate")
    builder.in_state("PreparingUpdate", "a", "b").with_finalizer(HOOK, "a", "b")
    plan = planned(builder)
    # then all others are updated, and no update is left for the next plan
    assert replaced(plan) == {*"cdefghijk"}
    assert plan.requeue_after_s is None
    assert {reason.code for reason in plan.skipped.values()} == {"InPlaceUpdateHook"}


def test_pods_without_a_slot_report_what_else_they_wait_for() -> None:
    # given more pods than can be updated at the same time, all of them chosen before
    names = "abcdefghijklmn"
    builder = (
        in_place(14, max_unavailable="100%").with_hook("inPlaceUpdate").in_state("PreparingUpdate", *names)
    )
    # and one of the last is blocked by its hook
    plan = planned(builder.with_finalizer(HOOK, "l"))
    # then
    assert replaced(plan) == {*"abcdefghij"}
    assert {name.removeprefix("web-"): reason.code for name, reason in plan.skipped.items()} == {
        "k": "Turn",
        "l": "InPlaceUpdateHook",
        "m": "Turn",
        "n": "Turn",
    }


def test_a_pod_marked_for_deletion_is_not_updated_before() -> None:
    builder = in_place(3, max_unavailable=0, max_surge=1).with_hook("preDelete").marked("a")
    builder.with_finalizer(HOOK, "a").in_state("PreparingDelete", "a")
    assert "a" not in replaced(planned(builder))


def test_a_partition_that_is_raised_takes_pods_back_in_place_with_the_gate() -> None:
    builder = in_place(4, old=2, partition=4, max_unavailable="100%").with_settings(partition_rollback=True)
    plan = planned(builder)
    assert states(plan) == {"c": "Updating", "d": "Updating"}
    assert writes(plan)[-1].body["spec"]["containers"][0]["image"] == "nginx:0"


def test_a_pod_that_prepares_a_rollback_waits_for_its_hook() -> None:
    # given a pod of the update revision that should go back to the current revision
    builder = (
        in_place(2, old=1, partition=2).with_settings(partition_rollback=True).with_hook("inPlaceUpdate")
    )
    builder.with_finalizer(HOOK, "b").in_state("PreparingUpdate", "b")
    # then it stays as it is
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["b"].startswith("waits until the inPlaceUpdate hook is removed from the pod: ")
    # and it is rolled back when its hook is removed
    builder.pods["b"]["metadata"]["finalizers"] = []
    assert states(planned(builder)) == {"b": "Updating"}


@pytest.mark.parametrize("enabled", [False, True])
def test_cpu_changes_in_place_only_behind_its_gate(enabled: bool) -> None:
    # given two templates that differ in a request
    builder = in_place(1).with_settings(in_place_vertical_scaling=enabled)
    for pod_template, cpu in ((builder.old_template, "1"), (builder.spec["template"], "2")):
        main = pod_template["spec"]["containers"][0]
        main |= {"image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}
    builder.add("a", old=True)
    # when
    plan = planned(builder)
    # then
    if not enabled:
        assert deleted(plan) == {"a"}
        return
    resize, pod = writes(plan)
    assert (resize.subresource, pod.subresource) == ("resize", "")
    amounts = {"requests": {"cpu": "2"}}
    assert resize.body == {"spec": {"containers": [{"name": "main", "resources": amounts}]}}


# Hooks


def test_a_held_pod_prepares_first() -> None:
    """lifecycle case 13"""
    builder = in_place().with_hook("inPlaceUpdate").with_finalizer(HOOK, "a")
    plan = planned(builder)
    assert states(plan) == {"a": "PreparingUpdate"}
    (patch,) = writes(plan)
    assert "spec" not in patch.body
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingUpdate"}


def test_mark_pod_not_ready_takes_the_pod_out_of_service_in_the_same_write() -> None:
    builder = in_place(1).with_hook("inPlaceUpdate", markPodNotReady=True).with_finalizer(HOOK, "a")
    (patch,) = writes(planned(builder))
    assert patch.subresource == "status"
    assert patch.resource_version == "50"
    conditions = {condition["type"]: condition for condition in patch.body["status"]["conditions"]}
    assert conditions[keys.KRUISE_POD_READY]["status"] == "False"
    assert "preUpdateHook" in conditions[keys.KRUISE_POD_READY]["message"]
    assert conditions["Ready"]["status"] == "False"
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingUpdate"}


def test_a_preparing_pod_waits_for_its_hook_and_is_then_updated_first() -> None:
    """cloneset case 74"""
    # given
    builder = in_place().with_hook("inPlaceUpdate").in_state("PreparingUpdate", "c").with_finalizer(HOOK, "c")
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["c"].startswith("waits until the inPlaceUpdate hook is removed from the pod: ")
    # when its hook is removed
    builder.pods["c"]["metadata"]["finalizers"] = []
    # then
    assert states(planned(builder)) == {"c": "Updating"}


@pytest.mark.parametrize("how", ["paused", "partition", "OnDelete"])
@pytest.mark.parametrize("hook", ["on the pod", "taken off"])
def test_a_preparing_pod_whose_update_is_cancelled_returns_to_service(how: str, hook: str) -> None:
    """lifecycle case 26, and better: the pod is not updated, and returns to service"""
    # given
    builder = in_place(2, partition=2 if how == "partition" else None).with_hook("inPlaceUpdate")
    builder.in_state("PreparingUpdate", "b")
    if how == "paused":
        builder.paused()
    if how == "OnDelete":
        builder.on_delete()
    if hook == "on the pod":
        builder.with_finalizer(HOOK, "b")
    # when
    plan = planned(builder)
    # then
    assert states(plan) == {"b": "Normal" if hook == "on the pod" else "Updated"}
    assert writes(plan) == []


def test_a_preparing_pod_that_waits_for_max_unavailable_reports_that_it_is_out_of_service() -> None:
    # given two preparing pods, and no room for another unavailable pod
    builder = in_place(3, max_unavailable=1).in_state("PreparingUpdate", "a", "b")
    # when
    plan = planned(builder)
    # then
    waiting = [why for why in left(plan).values() if "stays out of service" in why]
    assert waiting == [
        "waits for its turn: maxUnavailable is used up; the pod was chosen earlier, and stays out of service in "
        "PreparingUpdate"
    ]


def test_an_updated_pod_prepares_for_the_next_update_with_its_hook_restored() -> None:
    """lifecycle: Updated, selected for another update"""
    # given a pod that waits for its hook when the next template comes
    hook = {"labelsHandler": {"example.com/in-service": "true"}}
    builder = in_place(1).with_hook("inPlaceUpdate", **hook).in_state("Updated", "a")
    # then
    (patch,) = writes(planned(builder))
    assert patch.body["metadata"]["labels"] == {
        keys.STATE_LABEL: "PreparingUpdate",
        "example.com/in-service": "true",
    }
    assert patch.body["metadata"]["finalizers"] == [HOOK]


def test_an_updated_pod_without_a_hook_becomes_normal_first() -> None:
    builder = in_place(1).in_state("Updated", "a")
    plan = planned(builder)
    assert states(plan) == {"a": "Normal"}
    assert replaced(plan) == set()
    assert plan.skipped["web-a"].code == "UpdatingInPlace"


def test_a_pod_in_update_is_updated_again_without_its_hook() -> None:
    """lifecycle: Updating, selected again"""
    builder = updating(in_place(1).with_hook("inPlaceUpdate").with_finalizer(HOOK, "a"))
    assert states(planned(builder)) == {"a": "Updating"}


@pytest.mark.parametrize(("hooked", "state"), [(False, "Updated"), (True, "Normal")])
def test_a_pod_rolled_back_while_it_prepared_is_not_updated(hooked: bool, state: str) -> None:
    """cloneset case 76"""
    builder = in_place(2, old=0).with_hook("inPlaceUpdate").in_state("PreparingUpdate", "a")
    if hooked:
        builder.with_finalizer(HOOK, "a")
    assert states(planned(builder)) == {"a": state}


# Going on, and the end


@pytest.mark.parametrize("how", ["rolling", "paused", "OnDelete"])
def test_the_end_of_an_update_writes_conditions_and_state_in_one_patch(how: str) -> None:
    """cloneset case 68, cloneset case 70"""
    # given a pod whose container runs the new image
    builder = updating(in_place(2, old=0))
    if how == "paused":
        builder.paused()
    elif how == "OnDelete":
        builder.on_delete()
    # when
    (patch,) = writes(planned(builder), "refresh pods")
    # then
    assert patch.subresource == "status"
    assert patch.resource_version == "50"
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "Normal"}
    (gate,) = patch.body["status"]["conditions"]
    assert (gate["type"], gate["status"], gate["reason"]) == (keys.IN_PLACE_READY, "True", None)


def test_an_updated_pod_that_waits_for_its_hook_serves_traffic() -> None:
    builder = updating(in_place(2, old=0).with_hook("inPlaceUpdate", markPodNotReady=True))
    held = '[{"userAgent":"Lifecycle","key":"preUpdateHook"}]'
    builder.set_condition("a", keys.KRUISE_POD_READY, "False", message=held)
    (patch,) = writes(planned(builder), "refresh pods")
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "Updated"}
    assert {condition["type"]: condition["status"] for condition in patch.body["status"]["conditions"]} == {
        keys.IN_PLACE_READY: "True",
        keys.KRUISE_POD_READY: "True",
    }


def test_a_pod_that_still_runs_the_old_image_reports_it_with_the_start_time() -> None:
    builder = updating(in_place(2, old=0), image_id="sha256:nginx:1")
    builder.pods["a"]["status"]["containerStatuses"][0]["image"] = "nginx:0"
    plan = planned(builder)
    assert not plan.stages
    assert left(plan)["a"] == (
        "its in-place update is under way: container main does not run nginx:1 yet (since 2026-01-31T11:59:50Z)"
    )


def test_a_grace_period_is_waited_for_and_then_the_image_changes() -> None:
    """cloneset case 75"""
    # given a pod that is out of service for twenty seconds before it is changed
    builder = in_place(1).with_rolling(inPlaceUpdateStrategy={"gracePeriodSeconds": 20})
    begun = writes(planned(builder))[-1].body["metadata"]
    assert "spec" not in writes(planned(builder))[-1].body
    builder.labelled(begun["labels"], "a")
    builder.annotated({key: value for key, value in begun["annotations"].items() if value}, "a")
    builder.set_condition("a", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    # then
    plan = planned(builder)
    assert not plan.stages
    assert plan.requeue_after_s == 20
    assert "out of service for 20 s" in left(plan)["a"]
    # when it is over
    (patch,) = writes(planned(builder.at(NOW + 20)), "refresh pods")
    # then
    assert patch.body["spec"]["containers"] == [{"name": "main", "image": "nginx:1"}]
    assert patch.body["metadata"]["annotations"][keys.IN_PLACE_GRACE_ANNOTATION] is None
    assert patch.resource_version == "50"


@pytest.mark.parametrize("is_back", [False, True])
def test_the_next_containers_follow_when_the_first_are_ready(is_back: bool) -> None:
    builder = updating(
        in_place(1, old=0),
        nextContainerImages={"second": "b:2"},
        preCheckBeforeNext={"containersRequiredReady": ["main"]},
    )
    second = {"name": "second", "image": "b:1"}
    builder.pods["a"]["spec"]["containers"].append(second)
    builder.pods["a"]["status"]["containerStatuses"].append({**second, "imageID": "b", "ready": True})
    if is_back:  # another client has put it back into service
        builder.in_state("Normal", "a").set_condition("a", keys.IN_PLACE_READY, "True")
    (patch,) = writes(planned(builder), "refresh pods")
    assert patch.body["spec"]["containers"] == [{"name": "second", "image": "b:2"}]


def test_an_annotation_that_cannot_be_read_is_reported() -> None:
    builder = (
        in_place(2, old=0).annotated({keys.IN_PLACE_STATE_ANNOTATION: "{"}, "a").in_state("Updating", "a")
    )
    plan = planned(builder)
    assert not plan.stages
    result = condition(plan, FAILED_UPDATE)
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "BrokenUpdateState")
    assert left(plan)["a"].startswith("its in-place update cannot continue: ")
    # and a new template starts another update
    builder.old("a")
    assert states(planned(builder)) == {"a": "Updating"}


def test_an_update_that_another_manager_left_half_done_is_continued() -> None:
    """the other manager used the older spelling of the condition and of the annotation, before the containers ran"""
    builder = in_place(2, old=0).in_state("Updating", "a")
    state = '{"revision":"x","updateTimestamp":"2026-01-31T11:00:00Z","lastContainerStatuses":{"main":{"imageID":"x"}}}'
    builder.annotated({keys.LEGACY_IN_PLACE_STATE_ANNOTATION: state}, "a")
    builder.set_condition("a", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    assert states(planned(builder)) == {"a": "Normal"}


def test_pods_updated_long_ago_are_not_written() -> None:
    builder = updating(in_place(3, old=0)).in_state("Normal", "a")
    builder.set_condition("a", keys.IN_PLACE_READY, "True")
    assert not planned(builder).stages
    assert not left(planned(builder))


def test_rolled_back_in_the_grace_period_it_ends_with_the_old_image() -> None:
    # given a pod in the grace period of an update that is no longer wanted: the period ends first
    builder = in_place(1).with_rolling(inPlaceUpdateStrategy={"gracePeriodSeconds": 20})
    begun = writes(planned(builder))[-1].body["metadata"]
    builder.labelled(begun["labels"], "a")
    builder.annotated({key: value for key, value in begun["annotations"].items() if value}, "a")
    wanted, builder.spec["template"] = builder.spec["template"], builder.old_template
    builder.with_revisions(revision(wanted, 1), revision(builder.spec["template"], 2))
    plan = planned(builder)
    assert replaced(plan) == set()
    assert plan.requeue_after_s == 20


@pytest.mark.parametrize("has_agent", [False, True])
def test_an_environment_from_metadata_waits_for_the_agent_and_reports_it(has_agent: bool) -> None:
    # given a container with a variable from a label, and a new value of the label
    builder = in_place(1).with_settings(in_place_env_from_metadata=has_agent)
    env = [{"name": "FED", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}}]
    for pod_template, tier in ((builder.old_template, "a"), (builder.spec["template"], "b")):
        pod_template["metadata"]["labels"]["tier"] = tier
        pod_template["spec"]["containers"][0] |= {"image": "nginx:1", "env": env}
    builder.add("a", old=True)
    # when
    written = writes(planned(builder))
    # then without an agent the label is changed like other metadata: no restart, in service
    assert len(written) == (2 if has_agent else 1)
    assert written[-1].body["metadata"]["labels"]["tier"] == "b"
    # and with an agent the pod waits for the agent's report
    metadata = written[-1].body["metadata"]
    builder.labelled(metadata["labels"], "a").annotated(metadata["annotations"], "a")
    plan = planned(builder)
    if has_agent:
        assert "the agent on the node has not reported" in left(plan)["a"]
    else:
        assert states(plan) == {"a": "Normal"}


def test_a_pod_that_is_prepared_is_updated_although_lost_pods_have_used_the_budget_up() -> None:
    """Otherwise creation waits for the pod, and the pod waits for the budget."""
    # given three pods, one of which is prepared and released by its hook; a fourth is lost, and maxUnavailable is 0
    builder = cloneset(3, old=3, pods=3, max_unavailable=0, max_surge=2, image="nginx:2")
    builder.with_rolling(podUpdatePolicy="InPlaceIfPossible").with_hook("inPlaceUpdate")
    builder.with_spec(scaleStrategy={"maxUnavailable": 1}).in_state("PreparingUpdate", "b")
    # when
    plan = planned(builder)
    # then
    assert states(plan) == {"b": "Updating"}


def test_only_one_prepared_pod_is_updated_beyond_the_budget() -> None:
    """A new revision that does not work then affects one pod, and not all chosen pods."""
    builder = cloneset(4, old=4, pods=4, max_unavailable=0, max_surge=2, image="nginx:2")
    builder.with_rolling(podUpdatePolicy="InPlaceIfPossible").with_hook("inPlaceUpdate")
    builder.with_spec(scaleStrategy={"maxUnavailable": 1}).in_state("PreparingUpdate", "a", "b")
    assert states(planned(builder)) == {"a": "Updating"}


METADATA_ALONE = """
limits U,S | hook | surged      | created | prepared | updated
1,0        | yes  | -           | 0       | 1        | 0
1,2        | yes  | -           | 2       | 0        | 0
1,2        | yes  | available   | 0       | 3        | 0
1,2        | yes  | unavailable | 0       | 1        | 0
0,1        | yes  | -           | 1       | 0        | 0
0,1        | yes  | available   | 0       | 1        | 0
1,2        | no   | -           | 0       | 0        | 3
0,1        | no   | -           | 0       | 0        | 1
"""
"""The next plan for five old pods whose template gets another annotation."""


@pytest.mark.parametrize("row", METADATA_ALONE.strip().splitlines()[1:])
def test_a_hook_makes_an_update_of_metadata_surge(row: str) -> None:
    """cloneset case 120"""
    # given
    limits, hook, surged, *expected = (cell.strip() for cell in row.split("|"))
    max_unavailable, max_surge = map(int, limits.split(","))
    extra = max_surge if surged != "-" else 0
    builder = in_place(5, max_unavailable=max_unavailable, max_surge=max_surge)
    builder.old_template = template("nginx:1")
    builder.spec["template"]["metadata"]["annotations"] = {"team": "blue"}
    builder.add(*"abcde", old=True).add(*"fg"[:extra])
    if hook == "yes":
        builder.with_hook("inPlaceUpdate")
        for pod in builder.pods.values():
            pod["metadata"]["finalizers"] = [HOOK]
    if surged == "unavailable":
        builder.not_ready(*"fg"[:extra])
    # when
    plan = planned(builder)
    # then
    by_state = [list(states(plan).values()).count(state) for state in ("PreparingUpdate", "Updating")]
    assert [len(created(plan)), *by_state] == [int(cell) for cell in expected]
    assert not deleted(plan)


def test_a_hook_without_handlers_does_not_make_an_update_of_metadata_surge() -> None:
    builder = in_place(5, max_unavailable=1, max_surge=2).with_spec(lifecycle={"inPlaceUpdate": {}})
    builder.old_template = template("nginx:1")
    builder.spec["template"]["metadata"]["annotations"] = {"team": "blue"}
    plan = planned(builder.add(*"abcde", old=True))
    assert not created(plan)
    assert set(states(plan).values()) == {"Updating"}
