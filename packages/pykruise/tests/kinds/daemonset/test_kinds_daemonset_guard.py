"""A stored selector other than the one that pods are managed by: the plan writes nothing, and the status reports it."""

from typing import Any

import pytest

from pykruise.pods.view import keys
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S, SELECTOR_MISMATCH
from pykruise.runtime.plan import Plan
from support.daemonset_builder import (
    SELECTOR,
    DaemonSetBuilder,
    created_on,
    daemonset,
    revision,
    template,
)
from support.plan_views import condition, deleted, left, reasons

OTHER = {"matchLabels": {"app": "other"}}
A, B = template("nginx:1"), template("nginx:2")


def changed(builder: DaemonSetBuilder, selector: dict[str, Any] | None = None) -> DaemonSetBuilder:
    """A DaemonSet with another selector, the record of the earlier one, and its previous status."""
    status = builder.plan().status or {}
    revisions = builder.stored_revisions()
    builder.with_status(**{**status, "observedGeneration": 2}).with_revisions(*revisions)
    return builder.with_spec(selector=selector or OTHER)


def touches_nothing(plan: Plan) -> bool:
    return not plan.stages


def test_a_changed_selector_changes_no_pod_and_is_reported() -> None:
    """daemonset case 63"""
    # given pods that are old, not ready, failed or missing, and an orphan
    builder = daemonset(6).old("n1").not_ready("n2").phase("Failed", "n3").without_pod("n4").orphaned("n5")
    plan = changed(builder).plan()
    # then
    assert touches_nothing(plan)
    result = condition(plan, SELECTOR_MISMATCH)
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "SelectorChanged")
    assert '{"matchLabels":{"app":"web"}}' in result["message"]
    assert '{"matchLabels":{"app":"other"}}' in result["message"]
    (note,) = plan.notes
    assert (note.reason, note.warning, note.again_after_s) == (SELECTOR_MISMATCH, True, LOOK_AGAIN_S)
    assert note.message.startswith("spec.selector is immutable: managed")
    # and the counters are updated, but not the observed generation
    assert plan.status is not None
    assert plan.status["observedGeneration"] == 2
    assert plan.status["updateRevision"] == builder.update_hash
    assert plan.status["desiredNumberScheduled"] == 6
    assert plan.status["currentNumberScheduled"] == 4  # the owned pods, with any labels
    assert plan.status["updatedNumberScheduled"] == 3
    # and the next reconcile is due in ten minutes
    assert plan.requeue_after_s == LOOK_AGAIN_S
    assert set(left(plan)) == {"n1", "n2", "n3", "n6"}


def test_pods_that_are_not_its_own_do_not_count_while_it_lasts() -> None:
    # given orphans that the new selector would adopt, alone and beside an older pod of the set
    builder = changed(daemonset(3).without_pod("n1").on("n1", "n2", called="x"))
    builder.on("n1").orphaned("n1", "x").labelled({"app": "other"}, "n1", "x").born(9000, "n1", "x")
    # and a newer pod of the set that the new selector matches
    builder.on("n3", called="y").labelled({"app": "other"}, "y").born(5, "y").not_ready("y")
    plan = builder.plan()
    assert plan.status is not None
    assert (plan.status["currentNumberScheduled"], plan.status["numberReady"]) == (2, 2)


def test_nothing_is_created_while_it_lasts() -> None:
    """daemonset case 64"""
    builder = changed(daemonset(3)).without_pod("n1").node("n9")
    assert touches_nothing(builder.plan())


@pytest.mark.parametrize("labels", [{"app": "other"}, {"app": "web"}])
def test_another_template_makes_no_revision(labels: dict[str, str]) -> None:
    """daemonset case 65"""
    builder = changed(daemonset(3))
    builder.with_spec(template={**B, "metadata": {"labels": labels}})
    assert touches_nothing(builder.plan())


def test_the_old_selector_back_ends_it_without_a_restart_and_creates_the_missing_pods() -> None:
    """daemonset case 66"""
    builder = changed(daemonset(3))
    builder.with_status(**(builder.plan().status or {}))
    # when
    builder.without_pod("n1").with_spec(selector=SELECTOR)
    plan = builder.plan()
    # then
    assert condition(plan, SELECTOR_MISMATCH) is None
    assert (created_on(plan), deleted(plan)) == (["n1"], set())
    assert plan.status is not None
    assert plan.status["observedGeneration"] == 3


def test_a_mismatch_that_lasts_is_not_written_again() -> None:
    builder = changed(daemonset(3))
    builder.with_status(**(builder.plan().status or {}))
    assert builder.at(700).plan().status is None


def test_an_equal_selector_in_another_order_is_not_a_mismatch() -> None:
    """daemonset case 70"""
    item = {"key": "app", "operator": "In", "values": ["web", "site"]}
    two = {"key": "tier", "operator": "DoesNotExist"}
    stored = revision(A, 2, record={"matchExpressions": [item, two]})
    builder = daemonset(3).with_revisions(stored)
    builder.with_spec(selector={"matchExpressions": [two, {**item, "values": ["site", "web"]}]})
    plan = builder.plan()
    assert not plan.stages
    assert not plan.notes


def test_a_daemonset_taken_over_after_a_selector_change_is_not_changed() -> None:
    """daemonset case 71"""
    builder = (
        daemonset(3)
        .with_revisions(revision(A, 2, record=None))
        .with_spec(selector=OTHER, template={**A, "metadata": {"labels": {"app": "other"}}})
    )
    plan = builder.plan()
    assert touches_nothing(plan)
    assert reasons(plan) == {SELECTOR_MISMATCH}


def test_the_pods_decide_when_a_daemonset_has_no_revisions() -> None:
    builder = daemonset(3).with_revisions()
    assert created_on(builder.plan()) == []
    assert not reasons(builder.plan())
    builder.with_spec(selector=OTHER, template={**A, "metadata": {"labels": {"app": "other"}}})
    assert reasons(builder.plan()) == {SELECTOR_MISMATCH}


def test_the_plan_is_the_same_after_a_restart() -> None:
    """daemonset case 73: all data for the decision is in the cluster"""
    builder = changed(daemonset(3))
    first, second = builder.plan(), builder.plan()
    assert first == second
    assert touches_nothing(first)


def test_after_an_orphaning_deletion_relabelled_pods_are_adopted_and_updated_within_the_budget() -> None:
    """daemonset case 69"""
    # given a new set with another selector, and pods of the old set with the new labels
    builder = daemonset(3, maxUnavailable=1).with_spec(
        selector=OTHER, template={**B, "metadata": {"labels": {"app": "other"}}}
    )
    builder.with_revisions().orphaned("n1", "n2", "n3").labelled({"app": "other"}, "n1", "n2", "n3")
    # when
    plan = builder.plan()
    # then every pod is adopted and no pod is created
    assert {chain.subject for stage in plan.stages if stage.purpose == "adopt" for chain in stage.chains} == {
        "web-n1",
        "web-n2",
        "web-n3",
    }
    assert created_on(plan) == []
    # and one pod at a time is replaced, because its hash differs
    assert deleted(plan) == {"n3"}


def test_an_empty_selector_selects_no_pod() -> None:
    builder = daemonset(3).without_pod("n1").with_spec(selector={})
    plan = builder.plan()
    assert touches_nothing(plan)
    assert [(note.reason, note.warning) for note in plan.notes] == [("SelectingAll", True)]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "spec.selector"),
        ({"template": {**A, "metadata": {"labels": {"app": "x"}}}}, "spec.template.metadata.labels"),
        ({"selector": None}, "spec"),
        ({"minReadySeconds": "ten"}, "spec.minReadySeconds"),
    ],
)
def test_a_spec_that_bypassed_admission_causes_no_writes(spec: dict[str, Any], field: str) -> None:
    plan = daemonset(3).without_pod("n1").with_spec(**spec).plan()
    assert touches_nothing(plan)
    (note,) = plan.notes
    assert (note.reason, note.warning) == ("InvalidSpec", True)
    assert note.message.startswith(field)
    assert len(left(plan)) == 2


def test_orphans_are_not_adopted_with_an_unreadable_selector() -> None:
    builder = (
        daemonset(3)
        .orphaned("n1")
        .with_spec(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]})
    )
    assert touches_nothing(builder.plan())
    assert set(left(builder.plan())) == {"n2", "n3"}


def test_every_new_revision_is_created_with_the_record() -> None:
    plan = daemonset(1, pods=False).with_revisions().plan()
    body = next(iter(plan.steps)).action.body  # type: ignore[union-attr]  # it is a creation
    assert keys.MANAGED_SELECTOR_ANNOTATION in body["metadata"]["annotations"]
