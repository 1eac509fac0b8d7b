"""Whole plans: revisions, history, terminating objects, values that bypassed admission."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.cloneset.plan import compute_status_after, plan_cloneset
from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS
from pykruise.kinds.cloneset.status import FAILED_SCALE, FAILED_UPDATE
from pykruise.kube.clock import format_time
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.purposes import Purpose
from pykruise.pods.view import keys
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import NOW, UID, CloneSetBuilder, cloneset, names, revision, template
from support.failed_writes import failure
from support.plan_views import condition, created, deleted, left, pod_patches, steps_named

A, B, C = template("nginx:1"), template("nginx:2"), template("nginx:3")


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def stored(builder: CloneSetBuilder, *revisions: dict[str, Any]) -> CloneSetBuilder:
    return builder.with_revisions(*revisions)


def test_a_new_cloneset_stores_its_revision_before_the_first_pod() -> None:
    # given a CloneSet without revisions and pods
    builder = cloneset(2, pods=0, image="nginx:1")
    builder.document["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
    snapshot = builder.snapshot_of([], [])
    # when
    plan = plan_cloneset(snapshot)
    # then
    assert [stage.purpose for stage in plan.stages] == ["store revision", "create pods"]
    (step,) = steps_named(plan, "store revision")
    assert isinstance(step.action, Create)
    assert step.action.resource == CONTROLLER_REVISIONS
    metadata = step.action.body["metadata"]
    assert metadata["name"] == builder.update_revision
    assert metadata["annotations"] == {
        "kubernetes.io/change-cause": "first",
        keys.CLAIM_TEMPLATES_HASH_ANNOTATION: "",
        keys.MANAGED_SELECTOR_ANNOTATION: '{"matchLabels":{"app":"web"}}',
    }
    assert metadata["ownerReferences"][0]["uid"] == UID
    assert len(created(plan)) == 2
    assert plan.status is not None
    assert plan.status["updateRevision"] == plan.status["currentRevision"] == builder.update_revision


def test_a_change_of_annotations_makes_no_revision() -> None:
    """cloneset case 53"""
    builder = cloneset(2)
    builder.document["metadata"]["annotations"] = {"note": "new"}
    assert not planned(builder).stages


def test_a_rollback_to_an_older_template_raises_its_revision_number() -> None:
    """cloneset case 52"""
    builder = stored(cloneset(2, max_unavailable=1), revision(A, 1), revision(B, 2))
    builder.old_template = B
    builder.old("a")
    (step,) = steps_named(planned(builder), "store revision")
    assert isinstance(step.action, Patch)
    assert (step.action.key.name, step.action.body) == (builder.update_revision, {"revision": 3})


def test_a_hash_collision_is_counted_in_the_status() -> None:
    """cloneset case 54"""
    builder = cloneset(1, pods=0)
    builder.with_revisions(revision(B, 1, name=builder.update_revision))
    plan = planned(builder)
    assert plan.status is not None
    assert plan.status["collisionCount"] == 1
    (step,) = steps_named(plan, "store revision")
    assert step.action.key.name != builder.update_revision


def test_history_is_cut_to_its_limit_oldest_first_and_used_revisions_stay() -> None:
    """cloneset case 55"""
    builder = cloneset(2, old=1, partition=1).with_spec(revisionHistoryLimit=0)
    builder.with_revisions(
        revision(template("nginx:7"), 1),
        revision(builder.old_template, 2),
        revision(template("nginx:8"), 3),
        revision(builder.spec["template"], 4),
    )
    plan = planned(builder)
    gone = [step.action for step in steps_named(plan, "tidy up")]
    names = [revision(template(f"nginx:{number}"), 1)["metadata"]["name"] for number in (7, 8)]
    assert [action.key.name for action in gone] == names
    assert all(isinstance(action, Delete) and action.uid == f"uid-{action.key.name}" for action in gone)


def test_history_of_others_is_not_cut() -> None:
    # given an unowned revision that matches the selector
    builder = cloneset(1).with_spec(revisionHistoryLimit=0)
    builder.with_revisions(
        revision(template("nginx:7"), 1, controller=""), revision(builder.spec["template"], 4)
    )
    assert not planned(builder).stages


def test_an_orphaned_revision_with_the_same_data_is_adopted() -> None:
    # given
    builder = cloneset(1)
    builder.with_revisions(unowned := revision(builder.spec["template"], 4, controller=""))
    # when
    plan = planned(builder)
    # then only the revision is written, after a check that the CloneSet still exists
    [check, adoption] = [step.action for step in plan.steps]
    assert isinstance(check, Patch)
    assert isinstance(adoption, Patch)
    assert check.key == builder.view().key
    assert adoption.key.name == unowned["metadata"]["name"]
    [reference] = adoption.body["metadata"]["ownerReferences"]
    assert reference["uid"] == builder.view().uid


def test_a_terminating_cloneset_only_reports() -> None:
    """cloneset case 91"""
    builder = cloneset(3, pods=2).terminating().labelled({"app": "other"}, "a").marked("b")
    plan = planned(builder)
    assert not plan.stages
    assert plan.status is not None
    assert (plan.status["replicas"], plan.status["observedGeneration"]) == (2, 3)


@pytest.mark.parametrize(
    ("change", "kind", "field"),
    [
        ({"partition": "abc"}, FAILED_UPDATE, "spec.updateStrategy.rollingUpdate.partition"),
        ({"maxUnavailable": "5"}, FAILED_UPDATE, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ({"maxSurge": "%"}, FAILED_UPDATE, "spec.updateStrategy.rollingUpdate.maxSurge"),
    ],
)
def test_an_unreadable_amount_stops_everything_and_is_named(
    change: dict[str, Any], kind: str, field: str
) -> None:
    # given old pods, a missing pod, a new pod: much that could go wrong
    builder = cloneset(5, pods=4, old=3).fresh("d").with_rolling(**change)
    # when
    plan = planned(builder)
    # then the new pod can become ready
    assert [(stage.purpose, [chain.subject for chain in stage.chains]) for stage in plan.stages] == [
        (Purpose.SET_READINESS, [builder.pod_name("d")])
    ]
    result = condition(plan, kind)
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "InvalidSpec")
    assert result["message"].startswith(f"{field}: ")
    assert all(field in reason for reason in left(plan).values())
    assert len(left(plan)) == 4


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": {}}, "spec.selector"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "spec.selector"),
        ({"template": {"metadata": {"labels": {"app": "other"}}}}, "spec.template.metadata.labels"),
        ({"scaleStrategy": {"maxUnavailable": "many"}}, "spec.scaleStrategy.maxUnavailable"),
        ({"replicas": -1}, "spec.replicas"),
        ({"replicas": "five"}, "spec.replicas"),
        ({"updateStrategy": {"rollingUpdate": {"partition": [1]}}}, "updateStrategy.rollingUpdate.partition"),
        ({"selector": None}, "spec"),
        ({"template": "x"}, "spec.template"),
    ],
)
def test_a_spec_that_bypassed_admission_causes_no_writes(spec: dict[str, Any], field: str) -> None:
    builder = cloneset(2, pods=3)
    builder.with_spec(**spec)
    plan = plan_cloneset(builder.snapshot_of(builder.pod_views(), []))
    assert not plan.stages
    result = condition(plan, FAILED_SCALE)
    assert result is not None
    assert field in result["message"]
    assert plan.status is not None
    assert (plan.status["replicas"], plan.status["observedGeneration"]) == (3, 3)


def test_a_refused_spec_is_settled_once_the_condition_is_stored() -> None:
    builder = cloneset(2).with_rolling(partition="abc")
    builder.document["status"] = planned(builder).status
    assert planned(builder).is_settled


def test_a_corrected_spec_continues_and_clears_the_condition() -> None:
    # given
    builder = cloneset(2).with_rolling(partition="abc")
    builder.document["status"] = planned(builder).status
    # when
    plan = planned(builder.with_rolling(partition=0))
    # then
    result = condition(plan, FAILED_UPDATE)
    assert result is not None
    assert result["status"] == "False"


def test_a_current_revision_whose_labels_do_not_match_makes_no_pods_that_would_be_released() -> None:
    # given an old revision stored before a user recreated the CloneSet with another selector
    builder = cloneset(3, pods=0, partition=3)
    builder.old_template = {**template("nginx:0"), "metadata": {"labels": {"app": "former"}}}
    builder.with_current(builder.old_revision)
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    # then
    plan = planned(builder)
    assert not plan.stages
    result = condition(plan, FAILED_SCALE)
    assert result is not None
    assert "do not match spec.selector" in result["message"]


def test_a_template_that_the_selector_does_not_match_creates_no_pods_beside_old_ones() -> None:
    """The CloneSet would release them immediately, and create others."""
    builder = cloneset(3, pods=2, old=2, max_unavailable=1)
    builder.spec["template"]["metadata"]["labels"] = {"app": "other"}
    plan = planned(builder)
    assert not plan.stages
    result = condition(plan, FAILED_SCALE)
    assert result is not None
    assert result["reason"] == "InvalidSpec"


def test_a_large_change_is_planned_in_parts_that_follow_immediately() -> None:
    # given far more to do than an API server takes in a second
    grow = planned(cloneset(MOST_AT_ONCE + 5, pods=0))
    assert (len(created(grow)), grow.requeue_after_s) == (MOST_AT_ONCE, 0.0)
    many = cloneset(MOST_AT_ONCE + 5, old=MOST_AT_ONCE + 5, max_unavailable="100%")
    update = planned(many)
    assert (len(deleted(update)), update.requeue_after_s) == (MOST_AT_ONCE, 0.0)
    assert (
        len([reason for reason in left(update).values() if "other pods are recreated first" in reason]) == 5
    )
    shrink = planned(many.with_spec(replicas=0))
    assert (len(deleted(shrink)), shrink.requeue_after_s) == (MOST_AT_ONCE, 0.0)
    assert len([reason for reason in left(shrink).values() if "other pods are deleted first" in reason]) == 5
    fresh = planned(cloneset(MOST_AT_ONCE + 5).fresh(*names(MOST_AT_ONCE + 5)))
    assert (len(pod_patches(fresh)), fresh.requeue_after_s) == (MOST_AT_ONCE, 0.0)
    # and exactly MOST_AT_ONCE pods are one part
    whole = planned(cloneset(MOST_AT_ONCE, pods=0))
    assert (len(created(whole)), whole.requeue_after_s) == (MOST_AT_ONCE, None)


def test_the_order_of_pods_in_the_snapshot_does_not_matter() -> None:
    builder = cloneset(4, pods=9, old=5, partition=2, max_unavailable=2).marked("c", "g").fresh("h")
    forward = builder.snapshot()
    backward = builder.snapshot_of(reversed(builder.pod_views()), reversed(builder.revision_views()))
    plan, other = plan_cloneset(forward), plan_cloneset(backward)
    assert (deleted(plan), pod_patches(plan), plan.status, left(plan)) == (
        deleted(other),
        pod_patches(other),
        other.status,
        left(other),
    )


def test_the_snapshot_takes_its_own_and_unowned_matching_revisions_and_remembers_names() -> None:
    builder = cloneset(1)
    own = revision(A, 2)
    unowned = revision(B, 1, controller="")
    foreign = revision(C, 1, controller="other", name="web-foreign")
    elsewhere = revision(C, 1, controller="other", name="api-foreign")
    unmatched = revision(C, 1, controller="", labels={"app": "other"}, name="web-unmatched")
    builder.with_revisions(own, unowned, foreign, elsewhere, unmatched)
    snapshot = builder.snapshot()
    assert [revision.number for revision in snapshot.revisions] == [1, 2]
    assert set(snapshot.other_revisions) == {"web-foreign", "web-unmatched"}


def test_a_view_reads_metadata_and_null_fields_as_absent() -> None:
    document = cloneset(1).document
    document["spec"] |= {"replicas": None, "updateStrategy": {"rollingUpdate": {"maxSurge": None}}}
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    view = CLONE_SET_VIEWS.project(orjson.dumps(document))
    assert view.spec is not None
    assert (view.spec.replicas, view.resource_version, view.is_deleting) == (1, 100, True)
    assert view.key == ("shop", "web")


def test_unknown_fields_of_a_newer_version_do_not_disturb() -> None:
    builder = cloneset(2)
    builder.with_spec(somethingNew={"a": 1}).with_rolling(somethingElse=2)
    assert not planned(builder).stages


def test_a_value_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match="object"):
        CLONE_SET_VIEWS.project(b"[]")


# Orphans


def test_matching_orphans_get_one_event_and_are_not_changed() -> None:
    """cloneset 9.3: an earlier CloneSet of this name was deleted without its pods"""
    # given two orphans, one with another label, and one that terminates
    builder = cloneset(2, pods=6).orphaned("c", "d", "e", "f").labelled({"app": "other"}, "e").deleted("f")
    # when
    plan = planned(builder)
    # then
    (note,) = plan.notes
    assert (note.reason, note.warning, note.again_after_s) == ("OrphansMatchSelector", True, math.inf)
    assert note.message.startswith("2 pods match spec.selector but have no owner")
    assert "web-c, web-d" in note.message
    assert {*left(plan)} == {"c", "d"}
    assert not plan.stages
    assert plan.status is not None
    assert plan.status["replicas"] == 2


def test_orphans_are_named_in_one_order() -> None:
    """Otherwise each plan would emit another event."""
    builder = cloneset(2, pods=4).orphaned("c", "d")
    snapshot = builder.snapshot()
    backward = msgspec.structs.replace(snapshot, orphans=snapshot.orphans[::-1])
    assert plan_cloneset(snapshot).notes == plan_cloneset(backward).notes


# Conditions while other work is done


def has_failed(builder: CloneSetBuilder, kind: str) -> CloneSetBuilder:
    """A status with this failure condition, true for a while."""
    time = format_time(NOW - 100)
    condition = {"type": kind, "status": "True", "reason": "WriteFailed", "message": "m"}
    return builder.with_status(conditions=[condition | {"lastTransitionTime": time, "lastUpdateTime": time}])


@pytest.mark.parametrize(
    ("builder", "kind"),
    [
        (cloneset(2).labelled({"app": "other"}, "b").with_spec(replicas=1), FAILED_SCALE),
        (cloneset(2, old=2, max_unavailable=1), FAILED_UPDATE),
        (cloneset(2).fresh("a"), FAILED_UPDATE),
    ],
    ids=["a pod is released", "pods are updated", "a pod is brought into service"],
)
def test_a_stage_with_pending_writes_has_not_succeeded_yet(builder: CloneSetBuilder, kind: str) -> None:
    plan = planned(has_failed(builder, kind))
    assert plan.stages
    result = condition(plan, kind)
    assert result is not None
    assert result["status"] == "True"


# Writes that the API server rejects every time


def alternatives(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Purpose of each stage for pods → the purposes of the stages that it replaces."""
    return {stage.purpose: stage.instead_of for stage in plan.stages if stage.purpose != "store revision"}


def in_place_with_surge() -> CloneSetBuilder:
    builder = cloneset(5, old=5, max_unavailable=1, max_surge=1)
    return builder.with_rolling(podUpdatePolicy="InPlaceIfPossible")


def test_pods_are_updated_if_the_creation_of_surge_pods_is_rejected() -> None:
    assert alternatives(planned(in_place_with_surge())) == {"create pods": ()}
    plan = planned(has_failed(in_place_with_surge(), FAILED_SCALE))
    assert alternatives(plan) == {"create pods": (), "update pods": ("create pods",)}
    assert {chain.subject for stage in plan.stages[1:] for chain in stage.chains} == {"web-a"}


def test_a_pod_that_perhaps_uses_up_the_quota_is_deleted_if_creations_are_rejected() -> None:
    # given a pod that its hook has released, and whose successor is missing
    builder = cloneset(3, scaleStrategy={"excludePreparingDelete": True})
    builder.in_state("PreparingDelete", "c").marked("c")
    assert alternatives(planned(builder)) == {"create pods": ()}
    plan = planned(has_failed(builder, FAILED_SCALE))
    assert alternatives(plan) == {"create pods": (), "delete pods": ("create pods",)}
    assert deleted(plan) == {"c"}


def test_other_pods_are_updated_if_the_deletion_of_a_pod_is_rejected() -> None:
    builder = cloneset(3, old=3, max_unavailable=2).to_delete("a")
    plan = planned(has_failed(builder, FAILED_SCALE))
    assert alternatives(plan) == {"delete pods": (), "update pods": ("delete pods",)}


def test_a_pod_whose_deletion_is_rejected_is_updated_in_its_turn() -> None:
    builder = in_place_with_surge().with_rolling(maxSurge=0).to_delete("a")
    assert alternatives(planned(builder)) == {"delete pods": ()}
    plan = planned(has_failed(builder, FAILED_SCALE))
    (_, update) = plan.stages
    assert [chain.subject for chain in update.chains] == ["web-a"]


def test_a_pod_to_keep_is_not_deleted_if_the_write_that_keeps_it_is_rejected() -> None:
    # given a pod in PreparingDelete that its hook has released, and that is wanted again, with two others
    builder = cloneset(5, pods=3).with_hook("preDelete").in_state("PreparingDelete", "c")
    assert alternatives(planned(builder)) == {"maintain pods": ()}
    plan = planned(has_failed(builder, FAILED_SCALE))
    assert alternatives(plan) == {"maintain pods": (), "create pods": ("maintain pods",)}
    assert (len(created(plan)), deleted(plan)) == (2, set())


@pytest.mark.parametrize(("kind", "reason"), [(FAILED_SCALE, "InvalidSpec"), ("Progressing", "Quota")])
def test_other_conditions_do_not_start_an_update_beside_scaling(kind: str, reason: str) -> None:
    builder = has_failed(in_place_with_surge(), kind)
    builder.document["status"]["conditions"][0]["reason"] = reason
    assert "update pods" not in alternatives(planned(builder))


def test_an_update_that_is_no_longer_rejected_clears_its_condition_while_scaling_is_rejected() -> None:
    builder = has_failed(cloneset(3, pods=2), FAILED_SCALE)
    failed = builder.document["status"]["conditions"][0]
    builder.document["status"]["conditions"] = [failed, {**failed, "type": FAILED_UPDATE}]
    conditions = (planned(builder).status or {})["conditions"]
    assert {(entry["type"], entry["status"]) for entry in conditions} >= {
        (FAILED_SCALE, "True"),
        (FAILED_UPDATE, "False"),
    }


def test_failures_of_pods_do_not_prevent_other_work_but_failures_of_its_preparation_do() -> None:
    # given a pod to refresh, a missing pod, and a new revision
    builder = cloneset(3, pods=2).fresh("a").with_spec(template=template("nginx:9"))
    builder.with_revisions(revision(template("nginx:1"), 1))
    # when
    stages = {stage.purpose: (stage.regardless, stage.only_after) for stage in planned(builder).stages}
    # then
    assert stages == {
        "store revision": (False, ()),
        "refresh pods": (True, ("store revision",)),
        "create pods": (True, ("store revision",)),
    }


def test_tidying_up_does_not_depend_on_other_writes() -> None:
    builder = cloneset(2, pods=1).with_spec(revisionHistoryLimit=0)
    builder.with_revisions(revision(A, 2), revision(B, 1))
    (*_, last) = planned(builder).stages
    assert (last.purpose, last.regardless, last.only_after) == ("tidy up", True, ())


def test_a_failed_write_is_reported_with_the_counters_of_its_plan_and_with_what_needs_a_remedy() -> None:
    # given a pod with a wrong image, and a missing pod
    builder = cloneset(2, pods=1).not_ready("a")
    builder.pods["a"]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ErrImagePull"}}
    snapshot = builder.snapshot()
    # when the missing one cannot be created
    result = compute_status_after(snapshot, plan_cloneset(snapshot), failure("create pods"))
    # then
    assert result is not None
    assert result["replicas"] == 1
    assert {condition["type"]: condition["reason"] for condition in result["conditions"]} == {
        FAILED_SCALE: "Quota",
        "Waiting": "ImagePull",
    }


def test_a_count_of_nothing_is_written_only_where_nothing_is_wanted() -> None:
    """Argo CD takes a missing count as unknown."""
    none_available = planned(cloneset(1).not_ready("a")).status
    scaled_to_zero = planned(cloneset(0)).status
    assert none_available is not None
    assert "updatedAvailableReplicas" not in none_available
    assert scaled_to_zero is not None
    assert scaled_to_zero["updatedAvailableReplicas"] == 0


def test_a_deadline_in_the_future_is_waited_for() -> None:
    time = format_time(NOW - 10)
    builder = cloneset(2, old=2, max_unavailable=0, max_surge=0).not_ready("a", "b").paused()
    builder.with_rolling(paused=False, maxUnavailable=1).with_spec(progressDeadlineSeconds=60)
    builder.document["status"] = planned(builder).status
    for item in builder.document["status"]["conditions"]:
        if item["type"] == "Progressing":
            item["lastUpdateTime"] = time
    assert planned(builder).requeue_after_s == 51


@pytest.mark.parametrize(
    ("expression", "released"),
    [
        ({"operator": "NotIn", "values": ["b"]}, "b"),
        ({"operator": "NotIn", "values": ["b", "c"]}, "bc"),
        ({"operator": "In", "values": ["a"]}, "bc"),
        ({"operator": "In", "values": ["a", "b"]}, "c"),
        ({"operator": "Exists"}, ""),
        ({"operator": "DoesNotExist"}, "abc"),
    ],
)
def test_pods_that_the_selector_no_longer_matches_are_released(
    expression: dict[str, Any], released: str
) -> None:
    # given pods of three tiers
    builder = cloneset(3)
    for name in "abc":
        builder.labelled({"tier": name}, name)
    template = {**builder.spec["template"], "metadata": {"labels": {"app": "web", "tier": "a"}}}
    if expression["operator"] == "DoesNotExist":
        template = builder.spec["template"]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", **expression}]}
    builder.with_spec(selector=selector, template=template)
    # then
    gone = {
        step.action.key.name.removeprefix("web-") for step in steps_named(planned(builder), "release pods")
    }
    assert gone == set(released)


def test_a_terminating_revision_is_not_adopted() -> None:
    """A terminating revision would be deleted while pods of its new owner still have it."""
    builder = cloneset(1)
    left_behind = revision(
        builder.spec["template"], 4, controller="", deletionTimestamp="2026-01-31T12:00:00Z"
    )
    builder.with_revisions(left_behind)
    assert not [step for step in planned(builder).steps if step.action.resource == CONTROLLER_REVISIONS]


# The status while nothing is done


@pytest.mark.parametrize(
    "stop",
    [
        lambda builder: builder.with_rolling(partition="abc"),
        lambda builder: builder.managed_by({"matchLabels": {"app": "former"}}),
    ],
    ids=["refused", "the selector changed"],
)
def test_an_invalid_spec_keeps_the_progressing_condition(stop: Callable[[CloneSetBuilder], Any]) -> None:
    builder = cloneset(2).with_status(
        conditions=[{"type": "Progressing", "status": "True", "reason": "CloneSetAvailable", "message": ""}]
    )
    stop(builder)
    assert condition(planned(builder), "Progressing") is not None


@pytest.mark.parametrize(
    ("spec", "available"),
    [({"replicas": -1, "minReadySeconds": 30}, 1), ({"selector": None}, 2)],
    ids=["refused", "unreadable"],
)
def test_pods_are_counted_although_an_invalid_spec_stops_all_changes(
    spec: dict[str, Any], available: int
) -> None:
    # given a pod that has just become ready, one that has been ready for a long time, and two that no longer count
    builder = cloneset(2, pods=4).ready_for(0, "a").deleted("c").phase("Failed", "d").with_spec(**spec)
    plan = plan_cloneset(builder.snapshot_of(builder.pod_views(), []))
    # then
    assert plan.status is not None
    assert (plan.status["replicas"], plan.status["availableReplicas"]) == (2, available)
