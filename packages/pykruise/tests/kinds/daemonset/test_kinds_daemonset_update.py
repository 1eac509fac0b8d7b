"""Which nodes go to another revision, and how. Nodes are n1 to n5, and maxUnavailable is 1 unless said."""

from typing import Any

import pytest

from pykruise.kube.clock import format_time
from pykruise.plans.in_place import begun_at_once
from pykruise.pods import keys
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.daemonset_builder import NOW, DaemonSetBuilder, created_on, daemonset, node_of, updatable
from support.plan_views import created, deleted, left, pod_patches, reasons, states


def in_place(plan: Plan) -> set[str]:
    """Pods whose update in place begins."""
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
    """The nodes of each step when every plan is carried out, and its pods are ready, before the next."""
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


def test_pods_that_do_not_serve_are_replaced_at_once_and_one_that_does() -> None:
    """daemonset case 34"""
    plan = daemonset(5, maxUnavailable=1).all_old().not_ready("n1", "n2").plan()
    assert deleted(plan) == {"n1", "n2", "n5"}


def test_a_pod_that_goes_because_it_does_not_serve_must_still_be_as_it_was_seen() -> None:
    plan = daemonset(5).all_old().not_ready("n1").plan()
    versions = {step.action.key.name: getattr(step.action, "resource_version", None) for step in plan.steps}
    assert versions == {"web-n1": "50", "web-n5": ""}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda one: one.without_pod("n2").on("n2").not_ready("n2"), set()),  # a new pod is not ready
        (lambda one: one.deleted("n2"), set()),  # no active pod on n2
        (lambda one: one.on("n2", called="b"), {"n2"}),  # an old and a new one: manage keeps the first
        (lambda one: one.with_hook().leaving("n2").hooked("n2"), set()),  # the old one is on its way out
    ],
    ids=["new and not ready", "terminating", "two pods", "in PreparingDelete"],
)
def test_a_node_that_is_between_uses_up_the_budget(change: Any, expected: set[str]) -> None:
    builder = daemonset(5).all_old()
    plan = change(builder).plan()
    assert deleted(plan) == expected


def test_a_new_pod_that_is_leaving_counts_once() -> None:
    """and not twice, for being unavailable too"""
    builder = daemonset(5, maxUnavailable=2).all_old().with_hook()
    builder.without_pod("n5").on("n5").not_ready("n5").leaving("n5").hooked("n5")
    assert deleted(builder.plan()) == {"n4"}


def test_a_pod_that_an_earlier_rollout_took_out_uses_up_the_budget() -> None:
    """It is replaced all the same, and no other pod with it."""
    # given a third template while the first pod of the second is not ready yet
    builder = daemonset(5, maxUnavailable=1).all_old()
    builder.without_pod("n5").on("n5", old=True).born(5, "n5").set_condition(
        "n5", "Ready", "False", lastTransitionTime=format_time(NOW - 4)
    )
    assert deleted(builder.plan()) == {"n5"}
    # and the same when it is ready, but not for long enough
    builder.with_spec(minReadySeconds=60).ready_for(4, "n5")
    assert deleted(builder.plan()) == {"n5"}


def test_an_update_in_place_that_was_cut_off_uses_up_the_budget() -> None:
    """The write that takes the pod out of service succeeded, the one that changes it did not."""
    builder = updatable(5).all_old().set_condition("n3", keys.IN_PLACE_READY, "False").not_ready("n3")
    assert in_place(builder.plan()) == {"n3"}


def test_min_ready_seconds_hold_the_next_node_back() -> None:
    builder = daemonset(5).with_spec(minReadySeconds=10).all_old()
    builder.without_pod("n5").on("n5").ready_for(4, "n5")
    plan = builder.plan()
    assert deleted(plan) == set()
    assert plan.requeue_after_s == 6
    assert deleted(builder.at(6).plan()) == {"n4"}


def test_neither_limit_given_means_one_at_a_time() -> None:
    builder = daemonset(5, maxUnavailable=0, maxSurge=0).all_old()
    assert deleted(builder.plan()) == {"n5"}


def test_what_waits_says_for_what() -> None:
    waiting = left(daemonset(3).all_old().plan())
    assert waiting == dict.fromkeys(("n1", "n2"), "waits for its turn: maxUnavailable is used up")


# Partition and selector


def test_the_partition_keeps_the_first_nodes_back() -> None:
    """daemonset case 35"""
    builder = daemonset(5, partition=2).all_old()
    assert rolled(builder) == [{"n5"}, {"n4"}, {"n3"}]
    # when it is raised
    plan = builder.with_rolling(partition=4).plan()
    # then nothing is taken back
    assert not plan.stages
    assert set(left(plan)) == {"n1", "n2"}


def test_a_percentage_as_partition_is_rounded_down() -> None:
    """daemonset case 36"""
    assert rolled(daemonset(5, partition="50%").all_old()) == [{"n5"}, {"n4"}, {"n3"}]


@pytest.mark.parametrize("partition", [5, 10, "100%"])
def test_a_partition_of_all_nodes_updates_none(partition: int | str) -> None:
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


def test_a_pod_that_is_created_anew_is_new_whatever_the_partition_says() -> None:
    """daemonset case 42"""
    builder = daemonset(5, partition=5).all_old().without_pod("n2")
    assert new_on(builder.plan(), builder) == ["n2"]
    plan = builder.on("n2").plan()
    assert plan.status is not None
    assert plan.status["updatedNumberScheduled"] == 1


# Not now


def test_paused_touches_no_pod_and_shows_the_new_revision() -> None:
    """daemonset case 40"""
    builder = daemonset(5, paused=True).all_old()
    plan = builder.plan()
    assert not plan.stages
    assert set(left(plan).values()) == {"updates are paused"}
    assert plan.status is not None
    assert plan.status["updateRevision"] == builder.update_hash
    # and a node that joins gets the new one
    assert new_on(builder.node("n6").plan(), builder) == ["n6"]


def test_on_delete_updates_nothing_by_itself() -> None:
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
def test_a_limit_that_cannot_be_read_stops_updates_and_not_pods_on_new_nodes(
    rolling: dict[str, Any], field: str
) -> None:
    builder = daemonset(5).all_old().with_rolling(**rolling)
    plan = builder.plan()
    assert not plan.stages
    assert reasons(plan) == {"InvalidSpec"}
    assert plan.notes[0].again_after_s > 0  # and not with every reconcile
    assert f"spec.updateStrategy.rollingUpdate.{field}" in plan.notes[0].message
    assert all(field in why for why in left(plan).values())
    assert created_on(builder.node("n6").plan()) == ["n6"]


def test_while_nodes_need_pods_nothing_is_updated() -> None:
    plan = daemonset(5).all_old().without_pod("n1").plan()
    assert (created_on(plan), deleted(plan)) == (["n1"], set())


# In place


def test_a_new_image_is_given_to_the_pod_that_is_there() -> None:
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
    conditions = {one["type"]: one["status"] for one in unready.action.body["status"]["conditions"]}
    assert conditions == {keys.IN_PLACE_READY: "False", "Ready": "False"}
    assert change.action.body["metadata"]["labels"] == {keys.REVISION_LABEL: builder.update_hash}
    assert change.action.body["spec"]["containers"] == [{"name": "main", "image": "nginx:1"}]
    assert change.done is not None
    assert change.done.reason == "SuccessfulUpdatePodInPlace"
    assert change.failed is not None
    assert change.failed.reason == "FailedUpdatePodInPlace"  # case 47: and no deletion comes with it


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


def test_a_pod_whose_revision_is_not_known_any_more_is_recreated() -> None:
    builder = updatable(5).all_old()
    builder.with_revisions(builder.stored_revisions()[1])
    assert deleted(builder.plan()) == {"n5"}


def test_an_update_in_place_under_way_uses_up_the_budget() -> None:
    builder = updatable(5).all_old()
    builder.without_pod("n5").on("n5").set_condition("n5", keys.IN_PLACE_READY, "False").not_ready("n5")
    assert in_place(builder.plan()) == set()


def test_the_burst_bounds_updates_in_place() -> None:
    builder = updatable(5, maxUnavailable="100%").all_old().with_spec(burstReplicas=2)
    plan = builder.plan()
    assert in_place(plan) == {"n5", "n4"}
    assert plan.requeue_after_s == 0.0


def test_a_few_at_a_time_come_back_before_the_next_leave() -> None:
    plan = updatable(40, maxUnavailable="100%").all_old().plan()
    assert len(in_place(plan)) == begun_at_once(40)
    assert plan.requeue_after_s == 0.0
    assert len(left(plan)) == 40 - begun_at_once(40)


def test_a_pod_whose_containers_run_what_was_asked_for_comes_back() -> None:
    """daemonset case 44: InPlaceUpdateReady False, then True"""
    # given a pod whose update is done, and not yet said to be
    builder = updatable(2)
    state = (
        f'{{"revision":"{builder.update_hash}","updateTimestamp":"2026-01-31T11:00:00Z",'
        '"lastContainerStatuses":{"main":{"imageID":"sha256:nginx:0"}}}'
    )
    builder.pods["n2"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = state
    builder.set_condition("n2", keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate").not_ready("n2")
    # when
    patch = pod_patches(builder.plan())["n2"]
    # then, of the pod that was looked at
    (condition,) = patch.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.IN_PLACE_READY, "True")
    assert patch.resource_version == "50"


@pytest.mark.parametrize("stopped", ["paused", "OnDelete"])
def test_new_pods_come_into_service_also_when_updates_are_stopped(stopped: str) -> None:
    builder = updatable(2)
    builder.pods["n1"]["status"]["conditions"] = []
    if stopped == "paused":
        builder.with_rolling(paused=True)
    else:
        builder.on_delete()
    assert set(pod_patches(builder.plan())) == {"n1"}


def test_an_update_in_place_that_cannot_be_read_is_reported_and_left_alone() -> None:
    builder = updatable(2)
    builder.pods["n2"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = "not JSON"
    builder.set_condition("n2", keys.IN_PLACE_READY, "False").not_ready("n2")
    plan = builder.plan()
    assert not plan.stages
    assert reasons(plan) == {"BrokenUpdateState"}
    assert "cannot go on" in left(plan)["n2"]


# Surge


def test_a_new_pod_comes_first_and_the_old_one_goes_when_it_is_available() -> None:
    """daemonset case 48"""
    builder = daemonset(5).surging().all_old().with_spec(minReadySeconds=10)
    assert created_on(builder.plan()) == ["n5"]
    # when the new one is ready
    builder.on("n5", called="new").born(5, "new").ready_for(4, "new")
    plan = builder.plan()
    assert not plan.stages
    assert plan.requeue_after_s == 6
    assert left(plan)["n5"] == "stays until web-new is available"
    # and long enough
    builder.at(6)
    assert deleted(builder.plan()) == {"n5"}


def test_an_old_pod_that_does_not_serve_is_replaced_regardless_of_the_surge_budget() -> None:
    """daemonset case 49"""
    builder = daemonset(5).surging().all_old().on("n5", called="new").born(5, "new").not_ready("new", "n2")
    assert created_on(builder.plan()) == ["n2"]


def test_a_surging_pod_that_never_gets_ready_holds_the_rollout_at_one() -> None:
    """daemonset case 50"""
    builder = daemonset(5).surging().all_old().on("n5", called="new").born(5, "new").not_ready("new")
    plan = builder.plan()
    assert not plan.stages
    assert left(plan)["n4"] == "waits for its turn: maxSurge is used up"


def test_an_old_pod_that_does_not_serve_goes_once_its_successor_is_there() -> None:
    builder = daemonset(5).surging().all_old().on("n5", called="new").born(5, "new").not_ready("new", "n5")
    assert deleted(builder.plan()) == {"n5"}


def test_while_paused_a_surge_in_flight_is_still_finished() -> None:
    builder = daemonset(5, paused=True).surging().all_old().on("n5", called="new").born(5, "new")
    assert deleted(builder.plan()) == {"n5"}


def test_under_surge_a_node_gets_its_pod_while_the_last_one_terminates() -> None:
    assert created_on(daemonset(5).surging().deleted("n3").plan()) == ["n3"]


def test_surge_creates_nothing_on_a_node_that_must_not_get_a_pod() -> None:
    builder = daemonset(5).surging().all_old().taint("n5", "x:NoSchedule")
    plan = builder.plan()
    assert created_on(plan) == ["n4"]
    assert "x:NoSchedule" in left(plan)["n5"]


def test_of_three_pods_on_a_node_one_of_each_sort_stays() -> None:
    builder = daemonset(1).surging().all_old().on("n1", called="new").born(5, "new").not_ready("new")
    builder.on("n1", called="more").born(4, "more")
    assert deleted(builder.plan()) == {"more"}


# Hooks


def test_one_pod_at_a_time_prepares_and_none_is_deleted_before_it_is_let_go() -> None:
    """daemonset case 51, lifecycle case 47"""
    builder = daemonset(3).all_old().with_hook().hooked("n1", "n2", "n3")
    plan = builder.plan()
    assert (deleted(plan), states(plan)) == (set(), {"n3": "PreparingDelete"})
    builder.leaving("n3")
    assert not builder.plan().stages
    # when it is let go
    builder.pods["n3"]["metadata"]["finalizers"].clear()
    assert deleted(builder.plan()) == {"n3"}
    # and replaced, the next follows
    builder.without_pod("n3").on("n3")
    assert states(builder.plan()) == {"n2": "PreparingDelete"}


def test_an_update_in_place_does_not_ask_the_hook() -> None:
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
    # then it goes on
    assert deleted(builder.plan()) == {"n5", "n4"}
