"""Revisions of a DaemonSet: found again, merged, taken over, deleted."""

from typing import Any

import pytest

from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.pods.view import keys
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.daemonset_builder import daemonset, hash_of, owner, revision, template
from support.plan_views import deleted, pod_patches, steps_named

A, B, C = template("nginx:1"), template("nginx:2"), template("nginx:3")


def revisions_deleted(plan: Plan) -> list[str]:
    return [
        step.action.key.name
        for step in plan.steps
        if isinstance(step.action, Delete) and step.action.resource == CONTROLLER_REVISIONS
    ]


def test_a_new_template_is_stored_with_its_hash_and_the_selector_that_manages() -> None:
    builder = daemonset(1, image="nginx:2").with_revisions(revision(A, 1))
    builder.document["metadata"]["annotations"] = {"note": "x"}
    (step,) = steps_named(builder.plan(), "store revision")
    assert isinstance(step.action, Create)
    metadata = step.action.body["metadata"]
    assert metadata["name"] == f"web-{hash_of(B)}"
    assert metadata["labels"] == {"app": "web", keys.REVISION_LABEL: hash_of(B)}
    assert metadata["annotations"] == {
        "note": "x",
        keys.MANAGED_SELECTOR_ANNOTATION: '{"matchLabels":{"app":"web"}}',
    }
    assert metadata["ownerReferences"] == [owner()]
    assert step.action.body["revision"] == 2


def test_a_rollback_raises_the_revision_number_and_keeps_pods_of_that_revision() -> None:
    """daemonset case 43"""
    # given a rollout from A to B that is half done, and then template A again
    builder = daemonset(4, image="nginx:1", maxUnavailable="100%").with_revisions(
        revision(A, 1), revision(B, 2)
    )
    builder.old_template = B
    builder.old("n3", "n4")
    plan = builder.plan()
    (step,) = steps_named(plan, "store revision")
    assert isinstance(step.action, Patch)
    assert (step.action.key.name, step.action.body) == (f"web-{hash_of(A)}", {"revision": 3})
    assert deleted(plan) == {"n3", "n4"}


def test_one_of_two_equal_revisions_stays_and_no_pod_is_restarted() -> None:
    """daemonset case 60"""
    builder = daemonset(2).with_revisions(revision(A, 1, name="web-dup"), revision(A, 2))
    builder.labelled({keys.REVISION_LABEL: "dup"}, "n1").labelled({keys.REVISION_LABEL: "other"}, "n2")
    builder.on_delete()
    plan = builder.plan()
    # pods of the duplicate get the hash of the remaining revision, others do not
    assert {name: patch.body for name, patch in pod_patches(plan).items()} == {
        "n1": {"metadata": {"labels": {keys.REVISION_LABEL: hash_of(A)}}}
    }
    assert plan.status is not None
    assert plan.status["updatedNumberScheduled"] == 1
    assert revisions_deleted(plan) == []
    # and then the duplicate is deleted
    builder.labelled({keys.REVISION_LABEL: hash_of(A)}, "n1")
    assert revisions_deleted(builder.plan()) == ["web-dup"]
    # and no other revision is deleted
    builder.with_revisions(revision(B, 1), revision(C, 2), revision(A, 3, name="web-dup"), revision(A, 4))
    assert revisions_deleted(builder.plan()) == ["web-dup"]


@pytest.mark.parametrize("old", [A, C])
def test_a_terminating_or_orphaned_revision_is_not_deleted(old: dict[str, Any]) -> None:
    going = revision(old, 1, name="web-going")
    going["metadata"]["deletionTimestamp"] = "2026-01-31T11:59:00Z"
    builder = daemonset(1).with_spec(revisionHistoryLimit=0)
    builder.with_revisions(going, revision(old, 2, name="web-orphan", controller=""), revision(A, 3))
    assert revisions_deleted(builder.plan()) == []


def test_the_current_revision_stays_without_a_single_pod() -> None:
    builder = daemonset(0).with_revisions(revision(A, 1)).with_spec(revisionHistoryLimit=0)
    assert revisions_deleted(builder.plan()) == []


def test_a_set_of_another_manager_is_taken_over_without_a_new_revision_or_restart() -> None:
    """daemonset case 61"""
    # given data in another form, a hash of another kind, and no record of the selector
    stored = revision(A, 1, name="web-5f6c9d7b4", record=None)
    written: dict[str, Any] = stored["data"]["spec"]["template"]
    written["metadata"] = {"labels": {"app": "web"}, "creationTimestamp": None}
    written["spec"]["containers"][0] |= {"resources": {}, "env": None}
    builder = daemonset(3).with_revisions(stored)
    builder.labelled({keys.REVISION_LABEL: "5f6c9d7b4"}, "n1", "n2", "n3")
    # when
    plan = builder.plan()
    # then only the record is written
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert step.action.resource == CONTROLLER_REVISIONS
    assert step.action.body["metadata"] == {
        "annotations": {keys.MANAGED_SELECTOR_ANNOTATION: '{"matchLabels":{"app":"web"}}'}
    }
    assert plan.status is not None
    assert (plan.status["updateRevision"], plan.status["updatedNumberScheduled"]) == ("5f6c9d7b4", 3)


def test_a_revision_without_its_label_is_named_by_its_name() -> None:
    stored = revision(A, 1, labels={"app": "web"})
    builder = daemonset(1).with_revisions(stored)
    builder.labelled({keys.REVISION_LABEL: f"web-{hash_of(A)}"}, "n1")
    plan = builder.plan()
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert step.action.body["metadata"]["labels"] == {keys.REVISION_LABEL: f"web-{hash_of(A)}"}
    assert plan.status is not None
    assert plan.status["updatedNumberScheduled"] == 1


def test_a_name_that_something_else_has_is_left_and_the_collision_is_counted() -> None:
    builder = daemonset(1, pods=False)
    builder.with_revisions(revision(C, 1, name=f"web-{hash_of(A)}", controller="another"))
    plan = builder.plan()
    assert plan.status is not None
    assert plan.status["collisionCount"] == 1
    (step,) = steps_named(plan, "store revision")
    assert step.action.key.name != f"web-{hash_of(A)}"
    # and the count stays when that revision is stored
    builder.with_status(collisionCount=1).with_revisions(revision(A, 1, name=step.action.key.name))
    plan = builder.plan()
    assert plan.status is not None
    assert plan.status["collisionCount"] == 1


def test_a_revision_that_an_owner_of_that_name_left_behind_is_not_written_to() -> None:
    stored = revision(A, 1, controller="another", labels={"app": "web"})
    assert [step.action.resource for step in daemonset(1).with_revisions(stored).plan().steps] == []


def test_a_matching_orphan_revision_is_adopted_with_the_present_selector() -> None:
    # given a revision that an orphaning deletion left, recorded with another selector
    builder = daemonset(1).with_revisions(
        revision(A, 4, controller="", record={"matchLabels": {"app": "once"}})
    )
    plan = builder.plan()
    (step,) = steps_named(plan, "adopt")
    assert isinstance(step.action, Patch)
    metadata = step.action.body["metadata"]
    assert metadata["ownerReferences"] == [owner()]
    assert metadata["annotations"] == {keys.MANAGED_SELECTOR_ANNOTATION: '{"matchLabels":{"app":"web"}}'}
    assert not steps_named(plan, "store revision")


def test_history_keeps_revisions_of_pods_and_deletes_them_afterwards() -> None:
    """daemonset case 62"""
    # given a history limit of 0, and pods of A and B
    builder = daemonset(2, image="nginx:2", paused=True).with_spec(revisionHistoryLimit=0)
    builder.with_revisions(revision(C, 1), revision(A, 2), revision(B, 3))
    builder.old_template = A
    builder.old("n1")
    assert revisions_deleted(builder.plan()) == [f"web-{hash_of(C)}"]
    # when the last pod of A is gone
    builder.without_pod("n1").on("n1")
    assert revisions_deleted(builder.plan()) == [f"web-{hash_of(C)}", f"web-{hash_of(A)}"]


@pytest.mark.parametrize(("limit", "gone"), [(0, 4), (1, 3), (3, 1), (4, 0), (10, 0)])
def test_the_oldest_revisions_beyond_the_history_limit_are_deleted(limit: int, gone: int) -> None:
    old = [template(f"nginx:{number}") for number in range(10, 14)]
    builder = daemonset(1).with_spec(revisionHistoryLimit=limit)
    builder.with_revisions(*(revision(value, n + 1) for n, value in enumerate(old)), revision(A, 9))
    assert revisions_deleted(builder.plan()) == [f"web-{hash_of(entry)}" for entry in old[:gone]]


def test_revisions_of_others_are_not_cleaned_up() -> None:
    builder = daemonset(1).with_spec(revisionHistoryLimit=0)
    builder.with_revisions(revision(C, 1, controller="another"), revision(A, 9))
    assert revisions_deleted(builder.plan()) == []
