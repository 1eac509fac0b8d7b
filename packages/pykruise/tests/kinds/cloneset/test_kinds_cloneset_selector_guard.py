"""A CloneSet whose stored selector is not the one it manages by."""

from typing import Any

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.purposes import Purpose
from pykruise.pods.view import keys
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH, record_of
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset, revision, template
from support.plan_views import condition, left, reasons, steps_named

WEB = {"matchLabels": {"app": "web"}}
OTHER = {"matchLabels": {"app": "other"}}


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def changed(builder: CloneSetBuilder | None = None, **spec: Any) -> CloneSetBuilder:
    """A CloneSet that manages by app=web, and whose spec selects app=other."""
    return (builder or cloneset(3)).managed_by(WEB).with_spec(selector=OTHER, **spec)


def relabelled(image: str = "nginx:1") -> dict[str, Any]:
    result = template(image)
    result["metadata"]["labels"] = {"app": "other"}
    return result


@pytest.mark.parametrize(
    "builder",
    [
        changed(),
        changed(template=relabelled()),
        changed(cloneset(3, old=2, max_unavailable=1)),
        changed(cloneset(5, pods=2)),
        changed(cloneset(1, pods=3)),
        changed(cloneset(3).marked("a")),
        changed(cloneset(3).with_templates("data").claim("gone")),
        changed(cloneset(3).fresh("b")),
        changed(cloneset(3).labelled({"app": "other"}, "a")),
        changed(cloneset(0, pods=3)),
    ],
    ids=[
        "pods run",
        "template labels change too",
        "a rollout is under way",
        "pods are missing",
        "pods are too many",
        "a pod is marked",
        "claims are left over",
        "a pod waits for its state",
        "a pod matches the new one",
        "scaled to nothing",
    ],
)
def test_nothing_is_written_but_the_status_and_missing_conditions(builder: CloneSetBuilder) -> None:
    """daemonset cases 63 to 65, for CloneSet"""
    # given a stored status of the last generation
    builder.with_status(observedGeneration=2, updateRevision="web-before", labelSelector="app=web")
    # when
    plan = planned(builder)
    # then
    assert {stage.purpose for stage in plan.stages} <= {Purpose.SET_READINESS}
    assert plan.status is not None
    assert plan.status["observedGeneration"] == 2
    assert plan.status["updateRevision"] == "web-before"
    assert plan.status["replicas"] == len(builder.pods)
    result = condition(plan, SELECTOR_MISMATCH)
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "SelectorChanged")
    assert '"app":"web"' in result["message"]
    assert '"app":"other"' in result["message"]
    assert reasons(plan) == {SELECTOR_MISMATCH}
    assert len(left(plan)) == len(builder.pods)
    assert plan.requeue_after_s == 600


def test_the_condition_is_written_once_and_the_event_not_with_every_plan() -> None:
    builder = changed()
    builder.document["status"] = planned(builder).status
    plan = planned(builder)
    assert plan.status is None
    assert [note.again_after_s for note in plan.notes] == [600]


def test_restoring_the_old_selector_removes_the_condition_and_changes_no_pod() -> None:
    """daemonset case 66, for CloneSet"""
    builder = changed()
    builder.document["status"] = planned(builder).status
    # when
    plan = planned(builder.with_spec(selector=WEB))
    # then
    assert plan.stages == ()
    assert plan.status is not None
    assert condition(plan, SELECTOR_MISMATCH) is None
    assert plan.status["observedGeneration"] == 3
    assert not plan.notes


def test_a_spec_that_is_refused_after_the_selector_is_back_has_only_its_own_condition() -> None:
    builder = changed()
    builder.document["status"] = planned(builder).status
    plan = planned(builder.with_spec(selector=WEB, replicas=-1))
    assert condition(plan, SELECTOR_MISMATCH) is None
    assert condition(plan, "FailedScale") is not None


def test_a_selector_mismatch_does_not_block_the_deletion() -> None:
    plan = planned(changed().terminating())
    assert plan.stages == ()
    assert not plan.notes


# The record of the selector


def test_a_new_revision_is_created_with_the_record() -> None:
    builder = cloneset(2).with_revisions(revision(template("nginx:0"), 1))
    (step,) = steps_named(planned(builder), "store revision")
    assert isinstance(step.action, Create)
    assert record_of(WEB).items() <= step.action.body["metadata"]["annotations"].items()


def test_revisions_of_another_manager_get_the_record_with_the_newest() -> None:
    # given two revisions without a record
    builder = cloneset(3, old=1, partition=1).managed_by(None)
    # when
    plan = planned(builder)
    # then only the record of the selector is written
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert (step.action.resource, step.action.key.name) == (CONTROLLER_REVISIONS, builder.update_revision)
    assert step.action.patch_type is PatchType.MERGE
    assert step.action.body == {"metadata": {"annotations": record_of(WEB)}}
    assert step.action.uid


def test_an_older_revision_that_is_wanted_again_gets_the_record_in_the_same_write() -> None:
    # given revisions without a record, and a template that is that of the older one
    builder = cloneset(1).managed_by(None)
    builder.with_revisions(revision(builder.spec["template"], 1), revision(template("nginx:2"), 2))
    # when
    plan = planned(builder)
    # then
    assert not steps_named(plan, "record selector")
    (step,) = steps_named(plan, "store revision")
    assert step.action.body["metadata"]["annotations"] == record_of(WEB)


def left_behind(builder: CloneSetBuilder) -> CloneSetBuilder:
    """A CloneSet whose revision is left from a CloneSet of the same name that was deleted with Orphan."""
    return builder.with_revisions(revision(builder.spec["template"], 1, controller=""))


def test_an_orphaned_revision_is_adopted_with_its_selector_record_before_pods_are_created() -> None:
    # given
    builder = left_behind(cloneset(2, pods=0))
    # when
    plan = planned(builder)
    # then the plan first checks that the CloneSet still exists
    names = [stage.purpose for stage in plan.stages]
    assert names[:2] == ["check the owner before adoption", "adopt"]
    (step,) = steps_named(plan, "adopt")
    assert isinstance(step.action, Patch)
    assert (step.action.resource, step.action.key.name) == (CONTROLLER_REVISIONS, builder.update_revision)
    metadata = step.action.body["metadata"]
    assert metadata["annotations"] == record_of(WEB)
    assert [reference["name"] for reference in metadata["ownerReferences"]] == ["web"]
    # and pods come after that
    assert not {"store revision", "record selector"} & set(names)
    assert names.index("adopt") < names.index("create pods")


def test_a_terminating_revision_is_not_adopted() -> None:
    """Garbage collection is about to delete the revision; the next plan creates it again."""
    builder = left_behind(cloneset(2, pods=0))
    builder.revisions[0]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert not steps_named(planned(builder), "adopt")


def test_a_selector_changed_before_the_take_over_causes_no_writes() -> None:
    """daemonset case 71, for CloneSet"""
    # given no record, and a newest revision with the earlier labels
    builder = cloneset(3).managed_by(None).with_spec(selector=OTHER)
    # when
    plan = planned(builder)
    # then
    assert plan.stages == ()
    assert reasons(plan) == {SELECTOR_MISMATCH}


def test_one_pod_that_a_user_relabelled_is_released_as_usual() -> None:
    """cloneset case 44, daemonset case 72"""
    plan = planned(cloneset(3).labelled({"app": "other"}, "a"))
    assert steps_named(plan, "release pods")
    assert condition(plan, SELECTOR_MISMATCH) is None


def test_the_record_is_spelled_with_the_projects_own_prefix() -> None:
    assert keys.MANAGED_SELECTOR_ANNOTATION == "pykruise.io/managed-selector"


def test_the_selector_record_of_another_clonesets_revision_is_ignored() -> None:
    # given a newer revision that a CloneSet with other labels left behind
    builder, nothing = cloneset(2).managed_by(None), {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: ""}
    own = revision(builder.spec["template"], 1, annotations={**nothing, **record_of(WEB)})
    orphan = revision(template("nginx:0"), 2, controller="", annotations={**nothing, **record_of(OTHER)})
    plan = planned(builder.with_revisions(own, orphan))
    # then the CloneSet continues with its own revision
    assert steps_named(plan, "store revision")
    assert not plan.notes
