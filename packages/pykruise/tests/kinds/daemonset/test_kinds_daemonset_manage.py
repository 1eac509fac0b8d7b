"""The creation and deletion of pods by node, independent of updates."""

from typing import Any

import pytest

from pykruise.kinds.daemonset.backoff import FORGOTTEN_AFTER_S, LONGEST_S, Backoffs
from pykruise.kube.resources import PODS
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.daemonset_builder import NOW, UID, DaemonSetBuilder, created_on, daemonset, owner
from support.plan_views import created, deleted, left, pod_patches, reasons, states, steps_named


def stages(plan: Plan) -> list[str]:
    return [stage.purpose for stage in plan.stages]


# New pods


def test_a_pod_is_created_for_each_node_and_bound_to_it_by_affinity() -> None:
    # given a template with an affinity of its own
    builder = daemonset(2, pods=False)
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}]}
    builder.with_template(
        affinity={
            "podAntiAffinity": {"x": 1},
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                "requiredDuringSchedulingIgnoredDuringExecution": required,
            },
        }
    )
    builder.spec["template"]["metadata"] |= {
        "annotations": {"note": "mine"},
        "finalizers": ["example.com/mine"],
    }
    # when
    plan = builder.plan()
    # then
    assert created_on(plan) == ["n1", "n2"]
    pod = created(plan)[0]
    metadata, spec = pod["metadata"], pod["spec"]
    assert metadata["name"].startswith("web-")
    assert metadata["generateName"] == "web-"
    assert metadata["labels"] == {"app": "web", keys.REVISION_LABEL: builder.update_hash}
    assert (metadata["annotations"], metadata["finalizers"]) == ({"note": "mine"}, ["example.com/mine"])
    assert metadata["ownerReferences"] == [owner()]
    assert spec["affinity"]["podAntiAffinity"] == {"x": 1}
    kept = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert kept == preferred
    assert len(spec["tolerations"]) == 6
    assert "readinessGates" not in spec
    assert "nodeName" not in spec


def test_a_pod_is_created_on_its_node_without_the_scheduler() -> None:
    plan = daemonset(1, pods=False).with_settings(assign_pods_by_scheduler=False).plan()
    (pod,) = created(plan)
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["spec"]["schedulerName"] == "kubernetes.io/daemonset-controller"
    assert "affinity" not in pod["spec"]


def test_pods_for_in_place_updates_get_the_readiness_gates_once() -> None:
    builder = daemonset(1, pods=False).in_place()
    gates = [{"conditionType": keys.IN_PLACE_READY}, {"conditionType": keys.KRUISE_POD_READY}]
    assert created(builder.plan())[0]["spec"]["readinessGates"] == gates
    builder.with_template(readinessGates=gates)
    assert created(builder.plan())[0]["spec"]["readinessGates"] == gates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", "7"),
        ("+07", "7"),
        ("-7", "-7"),
        (str(2**63 - 1), str(2**63 - 1)),
        (str(-(2**63)), str(-(2**63))),
        *((text, None) for text in ("x", "", str(2**63), str(-(2**63) - 1), "1_000", " 7", "٧", "7.0")),
    ],
)
def test_the_template_generation_of_old_is_a_label_when_it_is_a_number(
    text: str, expected: str | None
) -> None:
    builder = daemonset(1, pods=False)
    builder.document["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": text}
    assert created(builder.plan())[0]["metadata"]["labels"].get("pod-template-generation") == expected


def test_the_names_of_new_pods_are_free_and_never_too_long() -> None:
    builder = daemonset(50, pods=False)
    builder.document["metadata"]["name"] = "a" * 200
    plan = builder.plan()
    names = [pod["metadata"]["name"] for pod in created(plan)]
    assert len(set(names)) == 50
    assert {len(name) for name in names} == {63}


def test_a_name_that_a_pod_has_is_not_given_again() -> None:
    # given a pod with the first name that would be drawn
    builder = daemonset(1, pods=False)
    first = created(builder.plan())[0]["metadata"]["name"]
    builder.node("n2").on("n2", called=first.removeprefix("web-"))
    # then
    (pod,) = created(builder.plan())
    assert pod["metadata"]["name"] != first


def test_the_revision_is_stored_before_the_first_pod() -> None:
    builder = daemonset(1, pods=False).with_revisions()
    assert stages(builder.plan()) == ["store revision", "create pods"]


def test_a_template_that_is_refused_costs_one_request() -> None:
    """daemonset case 29: one pod is created first, and twice as many each time while all succeed"""
    plan = daemonset(100, pods=False).plan()
    (stage,) = plan.stages
    assert stage.ramp
    assert len(stage.chains) == 100


def test_a_pod_may_get_another_name_and_a_failure_is_a_warning() -> None:
    (stage,) = daemonset(1, pods=False).plan().stages
    (chain,) = stage.chains
    (step,) = chain.steps
    assert chain.has_random_name
    assert step.done is not None
    assert step.failed is not None
    assert (step.done.reason, step.done.warning) == ("SuccessfulCreate", False)
    assert (step.failed.reason, step.failed.warning) == ("FailedCreate", True)


@pytest.mark.parametrize(("burst", "expected"), [(3, [3, 3, 3, 1, 0]), (5, [5, 5, 0])])
def test_burst_replicas_bounds_what_one_plan_creates(burst: int, expected: list[int]) -> None:
    """daemonset case 30"""
    # given ten empty nodes
    builder = daemonset(10, pods=False).with_spec(burstReplicas=burst)
    counts = []
    # when each plan is carried out before the next plan
    for _ in expected:
        plan = builder.plan()
        nodes = created_on(plan)
        counts.append(len(nodes))
        assert set(plan.skipped_nodes) == set(builder.nodes) - set(builder.pods) - set(nodes)
        assert plan.requeue_after_s == (0.0 if len(builder.pods) + len(nodes) < 10 else None)
        builder.on(*nodes)
    # then
    assert counts == expected


@pytest.mark.parametrize(("burst", "expected"), [("10%", 1), ("50%", 2), ("0%", 1), ("abc", 1), (-4, 1)])
def test_a_burst_is_never_less_than_one(burst: int | str, expected: int) -> None:
    """daemonset case 31"""
    plan = daemonset(5, pods=False).with_spec(burstReplicas=burst).plan()
    assert len(created_on(plan)) == expected


def test_burst_replicas_bounds_deletions_too() -> None:
    builder = daemonset(5).with_spec(burstReplicas=2)
    for name in builder.nodes:
        builder.taint(name, "x:NoExecute")
    plan = builder.plan()
    assert deleted(plan) == {"n1", "n2"}
    assert plan.requeue_after_s == 0.0
    assert set(left(plan)) == {"n3", "n4", "n5"}


# Nodes that change


def test_a_pod_stays_on_a_node_with_a_new_taint_and_is_not_recreated() -> None:
    """daemonset case 18"""
    builder = daemonset(5).taint("n3", "x:NoSchedule")
    plan = builder.plan()
    assert not plan.stages
    assert plan.status is not None
    assert (plan.status["desiredNumberScheduled"], plan.status["numberMisscheduled"]) == (4, 1)
    # when the pod is deleted
    builder.without_pod("n3")
    assert created_on(builder.plan()) == []


def test_a_taint_that_expels_has_the_pod_deleted() -> None:
    """daemonset case 19"""
    plan = daemonset(5).taint("n3", "x:NoExecute").plan()
    assert deleted(plan) == {"n3"}
    assert "x:NoExecute" in next(iter(plan.steps)).because


def test_a_node_label_creates_a_pod_and_its_removal_deletes_it() -> None:
    """daemonset case 22; the tests of wakes check that the node's event enqueues the set"""
    builder = daemonset(3, pods=False).with_template(nodeSelector={"disk": "ssd"})
    assert created_on(builder.plan()) == []
    builder.node("n2", disk="ssd")
    assert created_on(builder.plan()) == ["n2"]
    builder.on("n2").nodes["n2"]["metadata"]["labels"].pop("disk")
    assert deleted(builder.plan()) == {"n2"}


def test_a_pending_pod_of_a_missing_node_is_deleted() -> None:
    """daemonset case 24"""
    builder = daemonset(5).unscheduled("n4").without_node("n4")
    assert deleted(builder.plan()) == {"n4"}
    # and only once
    assert not builder.deleted("n4").plan().stages


def test_a_pod_bound_to_a_missing_node_is_left_to_garbage_collection() -> None:
    plan = daemonset(5).without_node("n4").plan()
    assert not plan.stages
    assert plan.status is not None
    assert plan.status["desiredNumberScheduled"] == 4


def without_creation_time(builder: DaemonSetBuilder) -> DaemonSetBuilder:
    del builder.pods["b"]["metadata"]["creationTimestamp"]
    return builder


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (lambda item: item.unscheduled("n1"), "b"),
        (lambda item: item.born(90, "n1").born(91, "b"), "b"),
        (lambda item: item, "b"),
        (lambda item: item.born(90, "b"), "n1"),
        (without_creation_time, "n1"),
    ],
    ids=["scheduled first", "older first", "then by name", "older before name", "unknown age last"],
)
def test_one_of_several_pods_on_a_node_stays(change: Any, stays: str) -> None:
    """daemonset case 25"""
    builder = change(daemonset(1).on("n1", called="b").on("n1", called="c").unscheduled("c"))
    assert deleted(builder.plan()) == {"n1", "b", "c"} - {stays}


def test_the_first_pod_stays_without_surge_also_when_the_other_is_new() -> None:
    builder = (
        daemonset(1, maxUnavailable=1, maxSurge=0)
        .all_old()
        .on("n1", called="new")
        .born(5, "new")
        .not_ready("new")
    )
    assert deleted(builder.plan()) == {"new"}


@pytest.mark.parametrize("surge", [False, True])
def test_a_node_with_an_unready_pod_gets_no_second_pod(surge: bool) -> None:
    builder = daemonset(2).not_ready("n1")
    if surge:
        builder.surging()
    plan = builder.plan()
    assert created_on(plan) == []
    assert plan.skipped_nodes == {}


def test_a_node_whose_pod_terminates_waits_for_its_end() -> None:
    plan = daemonset(1).deleted("n1").plan()
    assert created_on(plan) == []
    assert {node: why.message for node, why in plan.skipped_nodes.items()} == {
        "n1": "its previous pod still exists"
    }


@pytest.mark.parametrize("surge", [False, True])
def test_an_excluded_node_with_a_terminating_pod_does_not_wait(surge: bool) -> None:
    builder = daemonset(2).taint("n1", "x:NoSchedule").deleted("n1")
    if surge:
        builder.surging()
    plan = builder.plan()
    assert created_on(plan) == []
    assert plan.skipped_nodes == {}


# Failed pods


def test_a_failed_pod_is_deleted_with_an_event() -> None:
    """daemonset case 26"""
    plan = daemonset(3).phase("Failed", "n2").plan()
    assert deleted(plan) == {"n2"}
    assert [step.because for step in plan.steps] == ["it has failed"]
    (note,) = plan.notes
    assert (note.reason, note.warning) == ("FailedDaemonPod", True)
    assert "web-n2" in note.message
    assert "n2" in note.message


def test_a_finished_pod_is_replaced_as_well() -> None:
    plan = daemonset(3).phase("Succeeded", "n2").plan()
    assert deleted(plan) == {"n2"}
    assert [step.because for step in plan.steps] == ["it has finished"]
    assert [(note.reason, note.warning) for note in plan.notes] == [("SucceededDaemonPod", False)]


@pytest.mark.parametrize("surge", [False, True])
def test_a_pod_that_fails_again_too_soon_waits(surge: bool) -> None:
    """daemonset case 26; surge creates no second pod either, which would fail too"""
    builder = daemonset(3).phase("Failed", "n2")
    if surge:
        builder.surging()
    builder.failed_until = {"n2": NOW + 4}
    plan = builder.plan()
    assert not plan.stages
    assert not plan.notes
    assert plan.requeue_after_s == 4
    assert plan.skipped["web-n2"].code == Code.BACKOFF
    # and of two failed pods, the earlier replacement sets the requeue
    builder.phase("Failed", "n3").failed_until["n3"] = NOW + 2
    assert builder.plan().requeue_after_s == 2


@pytest.mark.parametrize(
    ("phase", "remedy"),
    [
        ("Failed", "find out why the pod fails on its node"),
        ("Succeeded", "a DaemonSet's pod must keep running: find out why it ends"),
    ],
)
def test_a_pod_that_waits_for_its_replacement_has_a_remedy(phase: str, remedy: str) -> None:
    builder = daemonset(3).phase(phase, "n2")
    builder.failed_until = {"n2": NOW + 4}
    assert builder.plan().skipped["web-n2"].remedy == remedy


def test_gaps_between_replacements_double_up_to_a_quarter_of_an_hour() -> None:
    """daemonset case 26"""
    # given a node whose pods fail immediately
    backoffs = Backoffs(1)
    now, gaps = NOW, []
    for _ in range(13):
        assert backoffs.find_ends(now=now) == {}
        backoffs.note(["n1"], now=now)
        (until,) = backoffs.find_ends(now=now).values()
        gaps.append(until - now)
        now = until
    # then
    assert gaps[:5] == [1, 2, 4, 8, 16]
    assert gaps[-1] == LONGEST_S
    # and after a long time without a failure the waits start again, and not before
    now += FORGOTTEN_AFTER_S - LONGEST_S
    assert backoffs.find_ends(now=now) == {}
    backoffs.note(["n1"], now=now)
    assert backoffs.find_ends(now=now) == {"n1": now + LONGEST_S}
    now += FORGOTTEN_AFTER_S + 1
    assert backoffs.find_ends(now=now) == {}
    backoffs.note(["n1"], now=now)
    assert backoffs.find_ends(now=now) == {"n1": now + 1}


def test_a_failed_pod_that_a_hook_holds_gets_one_event() -> None:
    builder = daemonset(3).with_hook().hooked("n2").phase("Failed", "n2")
    plan = builder.plan()
    assert states(plan) == {"n2": "PreparingDelete"}
    assert reasons(plan) == {"FailedDaemonPod"}
    # when the pod waits in PreparingDelete
    plan = builder.leaving("n2").plan()
    assert not plan.stages
    assert not plan.notes


# Orphans, and released pods


def test_an_orphan_on_a_node_is_adopted_and_not_doubled() -> None:
    """daemonset case 27"""
    plan = daemonset(3).orphaned("n1").plan()
    assert created_on(plan) == []
    assert stages(plan) == ["check the owner before adoption", "adopt"]
    patch = pod_patches(plan)["n1"]
    assert patch.body["metadata"]["ownerReferences"] == [owner()]
    assert (patch.uid, patch.resource_version) == ("uid-n1", "50")


def test_an_adoption_first_verifies_the_uid_and_version_of_the_set() -> None:
    plan = daemonset(3).orphaned("n1").plan()
    (step,) = steps_named(plan, "check the owner before adoption")
    assert isinstance(step.action, Patch)
    assert (step.action.body, step.action.subresource) == ({}, "status")
    assert (step.action.uid, step.action.resource_version) == (UID, "100")


def test_a_terminating_orphan_and_one_with_other_labels_are_not_adopted() -> None:
    builder = daemonset(3).orphaned("n1", "n2").deleted("n1").labelled({"app": "other"}, "n2")
    assert created_on(builder.plan()) == ["n1", "n2"]


def test_a_terminating_daemonset_writes_nothing() -> None:
    """daemonset case 28"""
    builder = daemonset(3).orphaned("n1").without_pod("n2").labelled({"app": "other"}, "n3").terminating()
    plan = builder.plan()
    assert plan.is_settled
    assert not plan.notes


def test_a_pod_whose_labels_were_changed_is_released_and_replaced() -> None:
    """daemonset case 72"""
    plan = daemonset(3).labelled({"app": "aside"}, "n2").plan()
    assert stages(plan) == ["release pods", "create pods"]
    patch = pod_patches(plan)["n2"]
    assert patch.body["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": UID}]
    assert created_on(plan) == ["n2"]
    (step,) = steps_named(plan, "release pods")
    assert step.done is not None
    assert (step.done.reason, step.done.warning) == ("PodReleased", False)
    assert "web-n2" in step.done.message


def test_a_released_pod_on_an_excluded_node_is_not_replaced() -> None:
    builder = (
        daemonset(3).labelled({"app": "aside"}, "n2", "n3").taint("n2", "x:NoSchedule").without_node("n3")
    )
    plan = builder.plan()
    assert stages(plan) == ["release pods"]
    assert set(pod_patches(plan)) == {"n2", "n3"}


def test_a_pod_bound_to_no_node_is_not_changed() -> None:
    """its intended node is unknown; 6.4"""
    builder = daemonset(3).unscheduled("n2")
    del builder.pods["n2"]["spec"]["affinity"]
    plan = builder.plan()
    assert (created_on(plan), deleted(plan)) == (["n2"], set())


# Hooks


def test_a_hooked_pod_on_a_wrong_node_prepares_first() -> None:
    builder = daemonset(3).with_hook().hooked("n2").taint("n2", "x:NoExecute")
    plan = builder.plan()
    assert (deleted(plan), states(plan)) == (set(), {"n2": "PreparingDelete"})
    # when the hook is removed
    builder.leaving("n2").pods["n2"]["metadata"]["finalizers"].clear()
    assert deleted(builder.plan()) == {"n2"}


def test_a_waiting_pod_is_deleted_when_its_hook_ends_even_if_no_longer_needed() -> None:
    """lifecycle case 48"""
    builder = daemonset(3).with_hook().leaving("n2").hooked("n2")
    plan = builder.plan()
    assert not plan.stages
    assert left(plan)["n2"].startswith("waits until the preDelete hook is removed from the pod: ")
    builder.pods["n2"]["metadata"]["finalizers"].clear()
    assert deleted(builder.plan()) == {"n2"}


def test_a_surge_pod_is_created_beside_one_held_pod_but_not_beside_two() -> None:
    builder = daemonset(1).surging().with_hook().leaving("n1").hooked("n1")
    assert created_on(builder.plan()) == ["n1"]
    builder.on("n1", called="b").leaving("b").hooked("b")
    assert created_on(builder.plan()) == []


def test_a_hook_that_marks_not_ready_takes_the_pod_out_of_service() -> None:
    """daemonset case 52"""
    builder = daemonset(3).with_hook(markPodNotReady=True).hooked("n2").taint("n2", "x:NoExecute")
    builder.with_gate("n2", keys.KRUISE_POD_READY).set_condition("n2", keys.KRUISE_POD_READY, "True")
    patch = pod_patches(builder.plan())["n2"]
    assert patch.subresource == "status"
    conditions = {condition["type"]: condition for condition in patch.body["status"]["conditions"]}
    assert conditions[keys.KRUISE_POD_READY]["status"] == "False"
    assert "preDeleteHook" in conditions[keys.KRUISE_POD_READY]["message"]


# Creation and deletion together


def test_creations_and_deletions_do_not_wait_for_each_other() -> None:
    plan = daemonset(3).without_pod("n1").taint("n2", "x:NoExecute").plan()
    create, delete = plan.stages
    assert (create.purpose, delete.purpose) == ("create pods", "delete pods")
    assert create.regardless
    assert delete.regardless


def test_deletions_name_the_pod_by_its_uid() -> None:
    plan = daemonset(3).taint("n2", "x:NoExecute").plan()
    (step,) = plan.steps
    assert isinstance(step.action, Delete)
    assert (step.action.resource, step.action.uid) == (PODS, "uid-n2")
    assert step.done is not None
    assert step.failed is not None
    assert (step.done.reason, step.failed.reason) == ("SuccessfulDelete", "FailedDelete")


def test_a_plan_that_has_just_created_pods_does_not_repeat_itself() -> None:
    """daemonset case 56: the next snapshot contains the writes"""
    builder = daemonset(5, pods=False)
    nodes = created_on(builder.plan())
    builder.on(*nodes).unscheduled(*nodes)
    plan = builder.plan()
    assert not plan.stages
    assert plan.status is not None
    assert (plan.status["currentNumberScheduled"], plan.status["numberReady"]) == (5, 0)
