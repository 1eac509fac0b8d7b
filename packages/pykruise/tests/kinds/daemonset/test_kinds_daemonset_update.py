"""Updates: the choice of nodes, and the way. Nodes are n1 to n5, and maxUnavailable is 1 by default."""

from typing import Any

import pytest

from pykruise.plans.in_place import count_begun_updates
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.daemonset_builder import (
    DaemonSetBuilder,
    created_on,
    daemonset,
    node_of,
    revision,
    template,
    updatable,
)
from support.plan_views import created, deleted, left, pod_patches, reasons, states


def in_place(plan: Plan) -> set[str]:
    """Pods with an update in place in this plan."""
    return {
        chain.subject.removeprefix("web-")
        for stage in plan.stages
        if stage.purpose == "update pods"
        for chain in stage.chains
    }


def new_on(plan: Plan, builder: DaemonSetBuilder) -> list[str]:
    """Nodes that get a pod of the update revision."""
    pods = [
        pod for pod in created(plan) if pod["metadata"]["labels"][keys.REVISION_LABEL] == builder.update_hash
    ]
    return [node_of(pod) for pod in pods]


def rolled(builder: DaemonSetBuilder) -> list[set[str]]:
    """The nodes of each step, when every plan is carried out and its pods are ready before the next plan."""
    steps = []
    for _ in range(20):
        plan = builder.plan()
        gone = deleted(plan)
        if gone:
            steps.append(gone)
            builder.without_pod(*gone)
        created = created_on(plan)
        builder.on(*created)
        if not gone and not created:
            break
    return steps


# Standard


def test_one_node_at_a_time_from_the_last_to_the_first() -> None:
    """daemonset case 32"""
    assert rolled(daemonset(5).all_old()) == [{"n5"}, {"n4"}, {"n3"}, {"n2"}, {"n1"}]


def test_a_percentage_of_max_unavailable_is_rounded_up() -> None:
    """daemonset case 33"""
    steps = rolled(daemonset(5, maxUnavailable="30%").all_old())
    assert steps == [{"n5", "n4"}, {"n3", "n2"}, {"n1"}]


def test_all_unready_pods_and_one_ready_pod_are_replaced_together() -> None:
    """daemonset case 34"""
    plan = daemonset(5, maxUnavailable=1).all_old().not_ready("n1", "n2").plan()
    assert deleted(plan) == {"n1", "n2", "n5"}


def test_the_deletion_of_an_unready_pod_requires_its_resource_version() -> None:
    builder = daemonset(5).all_old().not_ready("n1")
    plan = builder.plan()
    versions = {step.action.key.name: getattr(step.action, "resource_version", None) for step in plan.steps}
    assert versions == {"web-n1": "50", "web-n5": ""}
    # and the step explains why the pod is deleted out of turn
    because = f"recreated for revision web-{builder.update_hash}"
    assert [step.because for step in plan.steps] == [f"{because}; it does not serve", because]


def test_a_pod_that_fails_after_its_in_place_update_uses_no_budget() -> None:
    assert in_place(updatable(5).all_old().not_ready("n3").plan()) == {"n3", "n5"}


def test_an_update_in_place_that_was_cut_off_uses_up_the_budget() -> None:
    """The write that takes the pod out of service succeeded, and the write of the image did not."""
    builder = updatable(5).all_old().set_condition("n3", keys.IN_PLACE_READY, "False").not_ready("n3")
    assert in_place(builder.plan()) == {"n3"}


def test_a_waiting_pod_reports_max_unavailable() -> None:
    waiting = left(daemonset(3).all_old().plan())
    assert waiting == dict.fromkeys(("n1", "n2"), "waits for its turn: maxUnavailable is used up")


# Partition and selector


def test_the_partition_keeps_the_first_nodes_back() -> None:
    """daemonset case 35"""
    builder = daemonset(5, partition=2).all_old()
    assert rolled(builder) == [{"n5"}, {"n4"}, {"n3"}]
    # when the partition is raised
    plan = builder.with_rolling(partition=4).plan()
    # then no pod returns to the old revision
    assert not plan.stages
    assert set(left(plan)) == {"n1", "n2"}


def test_a_percentage_as_partition_is_rounded_down() -> None:
    """daemonset case 36"""
    assert rolled(daemonset(5, partition="50%").all_old()) == [{"n5"}, {"n4"}, {"n3"}]


@pytest.mark.parametrize("partition", [5, 10, "100%"])
def test_a_partition_of_all_nodes_updates_no_pod(partition: int | str) -> None:
    """daemonset case 37"""
    assert rolled(daemonset(5, partition=partition).all_old()) == []


def test_only_selected_nodes_are_updated_and_others_follow_their_label() -> None:
    """daemonset case 38"""
    builder = daemonset(5, selector={"matchLabels": {"canary": "1"}}).all_old()
    builder.node("n1", "n4", canary="1")
    assert rolled(builder) == [{"n4"}, {"n1"}]
    assert "selector" in left(builder.plan())["n2"]
    builder.node("n2", canary="1")
    assert rolled(builder) == [{"n2"}]


def test_updated_nodes_use_up_the_quota_also_when_they_are_not_selected() -> None:
    """daemonset case 39"""
    builder = daemonset(5, partition=3, selector={"matchLabels": {"canary": "1"}}).all_old()
    builder.node("n1", "n4", canary="1").without_pod("n5").on("n5")
    assert rolled(builder) == [{"n4"}]


@pytest.mark.parametrize(
    "change",
    [
        lambda item: item.on("n2", called="b").old("b").held("b"),
        lambda item: item.held("n2"),
        lambda item: item.deleted("n2"),
    ],
    ids=["two old pods", "in PreparingDelete", "terminating"],
)
def test_a_node_in_update_uses_the_slot_that_the_partition_leaves(change: Any) -> None:
    """daemonset 6.8.2"""
    plan = change(daemonset(5, partition=4, maxUnavailable=3).all_old()).plan()
    assert (deleted(plan), states(plan)) == (set(), {})
    # and of two slots it leaves one
    assert deleted(change(daemonset(5, partition=3, maxUnavailable=3).all_old()).plan()) == {"n5"}


def test_a_recreated_pod_has_the_new_revision_for_any_partition() -> None:
    """daemonset case 42"""
    builder = daemonset(5, partition=5).all_old().without_pod("n2")
    assert new_on(builder.plan(), builder) == ["n2"]
    plan = builder.on("n2").plan()
    assert plan.status is not None
    assert plan.status["updatedNumberScheduled"] == 1


# No updates


def test_a_paused_daemonset_updates_no_pod_and_reports_the_new_revision() -> None:
    """daemonset case 40"""
    builder = daemonset(5, paused=True).all_old()
    plan = builder.plan()
    assert not plan.stages
    assert set(left(plan).values()) == {"updates are paused"}
    # also without a wait for a terminating pod
    assert left(builder.deleted("n2").plan()).keys() == {"n1", "n3", "n4", "n5"}
    builder.without_pod("n2").on("n2", old=True)
    assert plan.status is not None
    assert plan.status["updateRevision"] == builder.update_hash
    # and a node that joins gets the new revision
    assert new_on(builder.node("n6").plan(), builder) == ["n6"]


def test_on_delete_updates_nothing_automatically() -> None:
    """daemonset case 41"""
    builder = daemonset(5).all_old().on_delete()
    assert not builder.plan().stages
    assert new_on(builder.without_pod("n2").plan(), builder) == ["n2"]


@pytest.mark.parametrize(
    ("rolling", "field"),
    [
        ({"partition": "abc"}, "partition"),
        ({"partition": -1}, "partition"),
        ({"maxUnavailable": "5"}, "maxUnavailable"),
        ({"maxSurge": "%"}, "maxSurge"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "selector"),
    ],
)
def test_an_unreadable_limit_causes_no_writes_and_is_reported(rolling: dict[str, Any], field: str) -> None:
    builder = daemonset(5).all_old().with_rolling(**rolling)
    plan = builder.plan()
    assert not plan.stages
    assert reasons(plan) == {"InvalidSpec"}
    assert plan.notes[0].warning
    assert plan.notes[0].again_after_s > 0  # and not with every reconcile
    assert f"spec.updateStrategy.rollingUpdate.{field}" in plan.notes[0].message
    assert all(field in why for why in left(plan).values())
    assert not builder.node("n6").plan().stages


def test_while_nodes_need_pods_nothing_is_updated() -> None:
    plan = daemonset(5).all_old().without_pod("n1").plan()
    assert (created_on(plan), deleted(plan)) == (["n1"], set())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda item: item.without_pod("n5"), "is updated when every node has its pods"),
        (lambda item: item.with_rolling(paused=True), "updates are paused"),
        (lambda item: item.with_rolling(partition=5), "the partition allows no more"),
        (lambda item: item.with_rolling(selector={"matchLabels": {"a": "b"}}), "does not select its node"),
        (lambda item: item.with_rolling(partition="x"), "partition"),
        (lambda item: item.on_delete(), "OnDelete"),
    ],
)
def test_every_old_pod_that_is_not_updated_has_a_reason(change: Any, words: str) -> None:
    builder = daemonset().old("n1", "n2", "n3")
    builder.with_revisions(revision(builder.old_template, 1), revision(template(), 2))
    change(builder)
    reasons = left(builder.plan())
    assert {"n1", "n2", "n3"} <= {*reasons}
    assert all(words in reasons[short] for short in ("n1", "n2", "n3"))


# In place


def test_a_new_image_is_written_to_the_existing_pod() -> None:
    """daemonset case 44"""
    builder = updatable(5).all_old()
    plan = builder.plan()
    assert in_place(plan) == {"n5"}
    assert deleted(plan) == set()
    (stage,) = plan.stages
    (chain,) = stage.chains
    unready, change = chain.steps
    assert isinstance(unready.action, Patch)
    assert isinstance(change.action, Patch)
    conditions = {
        condition["type"]: condition["status"] for condition in unready.action.body["status"]["conditions"]
    }
    assert conditions == {keys.IN_PLACE_READY: "False", "Ready": "False"}
    assert change.action.body["metadata"]["labels"] == {keys.REVISION_LABEL: builder.update_hash}
    assert change.action.body["spec"]["containers"] == [{"name": "main", "image": "nginx:1"}]
    assert change.done is not None
    assert change.done.reason == "SuccessfulUpdatePodInPlace"
    assert change.failed is not None
    assert (
        change.failed.reason == "FailedUpdatePodInPlace"
    )  # daemonset case 47: and no deletion comes with it


def test_the_state_of_an_update_in_place_names_the_revision_by_its_hash() -> None:
    """inplace-update case 21"""
    builder = updatable(1).all_old()
    body = pod_patches(builder.plan())["n1"].body
    assert f'"revision":"{builder.update_hash}"' in body["metadata"]["annotations"][
        keys.IN_PLACE_STATE_ANNOTATION
    ].replace(" ", "")


def test_more_than_an_image_recreates_the_pod() -> None:
    """daemonset case 45"""
    builder = updatable(5).all_old()
    builder.spec["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    plan = builder.plan()
    assert (in_place(plan), deleted(plan)) == (set(), {"n5"})
    assert "env" in next(iter(plan.steps)).because


def test_a_pod_without_the_gate_is_recreated_with_it() -> None:
    """daemonset case 46"""
    builder = daemonset(5).all_old().in_place()
    plan = builder.plan()
    assert (in_place(plan), deleted(plan)) == (set(), {"n5"})


def test_pods_with_the_readiness_gate_are_recreated_under_the_standard_type() -> None:
    plan = updatable(5).all_old().with_rolling(rollingUpdateType="Standard").plan()
    assert (in_place(plan), deleted(plan)) == (set(), {"n5"})


def test_a_pod_with_an_unknown_revision_is_recreated() -> None:
    builder = updatable(5).all_old()
    builder.with_revisions(builder.stored_revisions()[1])
    assert deleted(builder.plan()) == {"n5"}


def test_an_update_in_place_in_progress_uses_the_budget() -> None:
    builder = updatable(5).all_old()
    builder.without_pod("n5").on("n5").set_condition("n5", keys.IN_PLACE_READY, "False").not_ready("n5")
    assert in_place(builder.plan()) == set()


def test_the_burst_bounds_updates_in_place() -> None:
    builder = updatable(5, maxUnavailable="100%").all_old().with_spec(burstReplicas=2)
    plan = builder.plan()
    assert in_place(plan) == {"n5", "n4"}
    assert {reason.code for reason in plan.skipped.values()} == {Code.TURN}
    assert plan.requeue_after_s == 0.0
    # and when the limit covers all pods, the plan is not requeued
    builder.with_spec(burstReplicas=5)
    assert len(in_place(builder.plan())) == 5
    assert builder.plan().requeue_after_s is None


def test_the_burst_bounds_pods_that_cannot_be_updated_in_place_too() -> None:
    builder = daemonset(5, maxUnavailable="100%").all_old().in_place().with_spec(burstReplicas=2)
    plan = builder.plan()
    assert deleted(plan) == {"n5", "n4"}
    assert plan.requeue_after_s == 0.0


def test_larger_sets_begin_more_in_place_updates_in_parallel() -> None:
    builder = updatable(704, maxUnavailable="100%").all_old()
    builder.not_ready(*list(builder.pods)[:64])
    assert len(in_place(builder.plan())) == count_begun_updates(704) > count_begun_updates(0)


def test_in_place_updates_begin_in_small_batches() -> None:
    plan = updatable(40, maxUnavailable="100%").all_old().plan()
    assert len(in_place(plan)) == count_begun_updates(40)
    assert plan.requeue_after_s == 0.0
    assert len(left(plan)) == 40 - count_begun_updates(40)


def test_a_pod_whose_containers_run_the_new_image_returns_to_service() -> None:
    """daemonset case 44: InPlaceUpdateReady False, then True"""
    # given a pod whose update is complete, and whose condition is still False
    builder = updatable(2)
    state = (
        f'{{"revision":"{builder.update_hash}","updateTimestamp":"2026-01-31T11:00:00Z",'
        '"lastContainerStatuses":{"main":{"imageID":"sha256:nginx:0"}}}'
    )
    builder.pods["n2"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = state
    builder.set_condition("n2", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate").not_ready("n2")
    # when
    patch = pod_patches(builder.plan())["n2"]
    # then, with the resource version that was read
    (condition,) = patch.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.IN_PLACE_READY, "True")
    assert patch.resource_version == "50"


@pytest.mark.parametrize("stopped", ["paused", "OnDelete"])
def test_new_pods_become_ready_even_when_updates_are_stopped(stopped: str) -> None:
    builder = updatable(2)
    builder.pods["n1"]["status"]["conditions"] = []
    if stopped == "paused":
        builder.with_rolling(paused=True)
    else:
        builder.on_delete()
    assert set(pod_patches(builder.plan())) == {"n1"}


@pytest.mark.parametrize(
    "change",
    [
        lambda item: item.taint("n1", "x:NoExecute"),
        lambda item: item.old("n1").with_rolling(rollingUpdateType="Standard"),
        lambda item: item.deleted("n1"),
        lambda item: item.phase("Succeeded", "n1"),
    ],
    ids=["it is to leave its node", "it is recreated", "it terminates", "it has finished"],
)
def test_a_leaving_pod_is_not_brought_into_service(change: Any) -> None:
    builder = change(updatable(2).set_condition("n1", keys.IN_PLACE_READY, None))
    assert pod_patches(builder.plan()) == {}


def test_an_unreadable_in_place_state_is_reported_and_the_pod_kept() -> None:
    builder = updatable(2)
    builder.pods["n2"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = "not JSON"
    builder.set_condition("n2", keys.IN_PLACE_READY, "False").not_ready("n2")
    plan = builder.plan()
    assert not plan.stages
    assert [(note.reason, note.warning) for note in plan.notes] == [("BrokenUpdateState", True)]
    assert "cannot continue" in left(plan)["n2"]


# Hooks


def test_pods_prepare_sequentially_and_are_deleted_after_their_hook_is_removed() -> None:
    """daemonset case 51, lifecycle case 47"""
    builder = daemonset(3).all_old().with_hook().hooked("n1", "n2", "n3")
    plan = builder.plan()
    assert (deleted(plan), states(plan)) == (set(), {"n3": "PreparingDelete"})
    builder.leaving("n3")
    assert not builder.plan().stages
    # when its hook is removed
    builder.pods["n3"]["metadata"]["finalizers"].clear()
    assert deleted(builder.plan()) == {"n3"}
    # and the pod is replaced, the next pod follows
    builder.without_pod("n3").on("n3")
    assert states(builder.plan()) == {"n2": "PreparingDelete"}


def test_an_in_place_update_ignores_the_pre_delete_hook() -> None:
    builder = updatable(3).all_old().with_hook().hooked("n3")
    plan = builder.plan()
    assert (in_place(plan), states(plan)) == ({"n3"}, {})


# Nodes that must not run a pod


def test_excluded_nodes_use_up_the_budget_unless_they_are_pruned() -> None:
    """daemonset case 53"""
    # given two pods on nodes that are excluded, not ready, and terminating slowly
    builder = daemonset(5, maxUnavailable=2).all_old().not_ready("n1", "n2").deleted("n1", "n2")
    builder.taint("n1", "x:NoExecute").taint("n2", "x:NoExecute")
    assert deleted(builder.plan()) == set()
    # when
    builder.with_settings(prune_ineligible_nodes=True)
    # then the update continues
    assert deleted(builder.plan()) == {"n5", "n4"}


def test_a_node_that_needs_no_pod_and_has_none_uses_no_budget() -> None:
    builder = daemonset(5).all_old().node("n6").taint("n6", "x:NoExecute")
    assert deleted(builder.plan()) == {"n5"}
