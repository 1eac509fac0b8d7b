"""Plans of UnitedDeployments, without a cluster: the numbered cases of the specification."""

import copy
from typing import Any

import pytest

from pykruise.kinds.uniteddeployment.workloads import (
    CLONE_SET,
    DEPLOYMENT,
    PATCH_ANNOTATION,
    REVISION_LABEL,
    SUBSET_LABEL,
    TEMPLATES,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete, Patch
from support.united_world import (
    NAMESPACE,
    NOW,
    UID,
    UnitedWorld,
    subset,
    wanted_in,
)
from support.uniteddeployments import ALL_TEMPLATES, template_of

every_template = pytest.mark.parametrize("template", ALL_TEMPLATES)


def purposes(world: UnitedWorld) -> list[Purpose]:
    return [stage.purpose for stage in world.plan().stages]


# ── values that only OpenKruise 1.8 admits ───────────────────────────────


def test_numbers_of_subsets_divide_the_pods_also_with_the_adaptive_strategy() -> None:
    topology = {
        "subsets": [subset("a", replicas=4), subset("b")],
        "scheduleStrategy": {"type": "Adaptive"},
    }
    world = UnitedWorld(topology=topology, replicas=6)
    world.closed.add("a")
    world.sync()
    assert world.sizes() == {"a": 4, "b": 2}


def test_an_update_strategy_of_another_type_has_no_partitions() -> None:
    strategy = {"type": "RollingUpdate", "manualUpdate": {"partitions": {"a": 2}}}
    world = UnitedWorld("a", replicas=2, updateStrategy=strategy)
    world.sync()
    assert world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0


# ── provision ────────────────────────────────────────────────────────────


@every_template
def test_each_subset_gets_a_workload_with_its_part(template: str) -> None:
    """uniteddeployment case 18"""
    world = UnitedWorld("a", "b", "c", template=template, replicas=6)
    stage = next(stage for stage in world.plan().stages if stage.purpose == Purpose.CREATE_WORKLOADS)
    assert stage.ramp, "in batches of 1 and 2"
    assert [chain.subject for chain in stage.chains] == ["a", "b", "c"]
    world.sync()
    assert world.sizes() == {"a": 2, "b": 2, "c": 2}
    for name in "abc":
        metadata = world.of(name)["metadata"]
        assert metadata["generateName"] == f"web-{name}-"
        assert metadata["name"].startswith(f"web-{name}-")
        assert metadata["labels"] == {
            "app": "web",
            SUBSET_LABEL: name,
            REVISION_LABEL: world.status["updatedRevision"],
        }
        assert metadata["annotations"] == {PATCH_ANNOTATION: ""}
        (owner,) = metadata["ownerReferences"]
        assert owner == {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "UnitedDeployment",
            "name": "web",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def test_a_name_that_would_be_too_long_leaves_the_subset_out() -> None:
    """uniteddeployment case 19"""
    world = UnitedWorld("a" * 60, replicas=1)
    world.document["metadata"]["name"] = "w" * 240
    (create,) = [step.action for step in world.plan().steps if step.action.resource != CONTROLLER_REVISIONS]
    assert isinstance(create, Create)
    assert create.body["metadata"]["generateName"] == "w" * 240 + "-"
    assert len(create.key.name) <= 253


def test_a_workload_missing_in_the_cache_is_created_only_once_by_its_name() -> None:
    """uniteddeployment case 20: both plans use the same name, and API servers create a name only once"""
    world = UnitedWorld("a", "b", replicas=2)
    first = [step.action.key for step in world.plan().steps if isinstance(step.action, Create)]
    again = [step.action.key for step in world.plan().steps if isinstance(step.action, Create)]
    assert first == again


def test_a_taken_name_is_passed_over() -> None:
    world = UnitedWorld("a", replicas=1).sync()
    ((key, mine),) = world.workloads.items()
    mine["metadata"]["ownerReferences"], mine["metadata"]["labels"] = [], {}
    world.sync()
    assert len(world.workloads) == 2
    assert key in world.workloads


def test_the_older_of_two_workloads_of_a_subset_stays() -> None:
    """uniteddeployment case 21"""
    world = UnitedWorld("a", "b", replicas=4).settle()
    ((_, name),) = [key for key in world.workloads if world.workloads[key] is world.of("a")]
    second = {**world.of("a"), "metadata": {**world.of("a")["metadata"]}}
    second["metadata"] |= {
        "name": "a-0",
        "uid": "uid-second",
        "creationTimestamp": format_time(NOW + 60),
    }
    world.workloads = {(CLONE_SET, "a-0"): second, **world.workloads}

    plan = world.plan()

    (deletion,) = [step.action for step in plan.steps]
    assert isinstance(deletion, Delete)
    assert (deletion.key.name, deletion.uid, deletion.propagation) == ("a-0", "uid-second", "Background")
    assert world.settle().of("a")["metadata"]["name"] == name


@every_template
def test_a_removed_subset_gives_its_replicas_to_the_others(template: str) -> None:
    """uniteddeployment case 22"""
    world = UnitedWorld("a", "b", "c", template=template, replicas=6).settle()
    world.set_subsets("a", "c").sync()
    assert world.sizes() == {"a": 3, "c": 3}
    world.settle()
    assert [status["name"] for status in world.status["subsetStatuses"]] == ["a", "c"]
    assert world.status["replicas"] == 6


def test_a_terminating_workload_of_a_removed_subset_is_not_deleted_again() -> None:
    """Finalizers keep the workload."""
    world = UnitedWorld("a", "b", replicas=2).settle()
    world.of("b")["metadata"]["deletionTimestamp"] = format_time(NOW)
    world.set_subsets("a").settle()
    assert not any(isinstance(action, Delete) for action in world.written)


def test_a_renamed_subset_is_created_before_the_old_one_is_deleted() -> None:
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.set_subsets("a", "b2")
    stages = purposes(world)
    assert stages.index(Purpose.CREATE_WORKLOADS) < stages.index(Purpose.DELETE_WORKLOADS)
    assert world.settle().sizes() == {"a": 2, "b2": 2}


def test_another_template_kind_creates_new_workloads_and_deletes_the_old_ones() -> None:
    """uniteddeployment case 23"""
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.template = DEPLOYMENT
    world.change(template=template_of(DEPLOYMENT))
    world.carry_out(world.plan())
    assert world.sizes(DEPLOYMENT) == {"a": 2, "b": 2}
    assert world.sizes(CLONE_SET) == {}


def test_orphans_of_other_namespaces_are_ignored() -> None:
    """uniteddeployment case 24"""
    world = UnitedWorld("a", replicas=1)
    orphan = orphaned(world, "a")
    orphan["metadata"]["namespace"] = "elsewhere"
    world.workloads[CLONE_SET, "orphan"] = orphan
    assert Purpose.ADOPT not in purposes(world)


def orphaned(world: UnitedWorld, name: str) -> dict[str, Any]:
    """A workload that fits the subset and has no controller."""
    spec = template_of(CLONE_SET)[CLONE_SET]["spec"]
    return {
        "metadata": {
            "name": "orphan",
            "namespace": NAMESPACE,
            "uid": "uid-orphan",
            "resourceVersion": "7",
            "generation": 1,
            "labels": {"app": "web", SUBSET_LABEL: name},
            "creationTimestamp": format_time(NOW),
        },
        "spec": {**spec, "replicas": 1, "selector": {"matchLabels": {"app": "web", SUBSET_LABEL: name}}},
    }


def test_an_orphan_of_the_subset_is_adopted() -> None:
    """uniteddeployment case 25"""
    world = UnitedWorld("a", "b", replicas=2)
    world.workloads[CLONE_SET, "orphan"] = orphaned(world, "a")
    world.settle()
    assert world.of("a")["metadata"]["name"] == "orphan"
    assert world.of("a")["metadata"]["ownerReferences"][0]["uid"] == UID
    assert world.sizes() == {"a": 1, "b": 1}


def test_a_new_workload_gets_what_an_adopted_one_leaves() -> None:
    world = UnitedWorld("a", subset("b", minReplicas=1), replicas=1)
    world.workloads[CLONE_SET, "orphan"] = orphaned(world, "a")
    world.carry_out(world.plan())
    assert world.sizes() == {"a": 1, "b": 0}
    assert world.settle().sizes() == {"a": 0, "b": 1}


def test_nothing_grows_before_what_is_adopted_has_shrunk() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle()
    world.of("a")["metadata"]["ownerReferences"] = []
    world.set_subsets("a", subset("b", minReplicas=2))
    world.carry_out(world.plan())
    assert world.sizes() == {"a": 1, "b": 1}
    assert world.settle().sizes() == {"a": 0, "b": 2}


def test_an_orphan_without_a_subset_label_is_not_adopted() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    orphan = orphaned(world, "a")
    del orphan["metadata"]["labels"][SUBSET_LABEL]
    world.workloads[CLONE_SET, "orphan"] = orphan
    assert world.plan().is_settled


def test_an_owned_workload_without_a_subset_label_is_reported_and_kept() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle()
    lost = world.of("a")
    del lost["metadata"]["labels"][SUBSET_LABEL]
    world.settle()
    assert "InvalidSubset" in world.events
    assert lost in world.workloads.values()
    assert sum(world.sizes().values()) == 3, "the subset has another one"


def test_a_workload_whose_labels_no_longer_match_the_selector_is_released() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    lost = world.of("a")["metadata"]["name"]
    world.of("a")["metadata"]["labels"]["app"] = "other"
    world.sync()
    assert world.workloads[CLONE_SET, lost]["metadata"]["ownerReferences"] == []
    assert len(world.workloads) == 2


def test_a_selector_that_was_changed_without_admission_changes_nothing_until_it_is_restored() -> None:
    # given
    world = UnitedWorld("a", "b", replicas=2).settle()
    selector, given = world.spec["selector"], world.spec["template"]
    template = template_of(CLONE_SET, image="nginx:2")
    template[CLONE_SET]["metadata"]["labels"] = {"app": "new"}
    before = copy.deepcopy(world.workloads)
    # when the selector is changed
    world.change(selector={"matchLabels": {"app": "new"}}, template=template, replicas=4)
    plan = world.plan()
    # then
    assert list(plan.steps) == []
    assert plan.waiting is not None
    assert plan.waiting.code == Code.SELECTOR_CHANGED
    world.sync()
    assert world.workloads == before
    assert "SelectorMismatch" in world.events
    condition = world.condition("SelectorMismatch")
    assert condition["status"] == "True"
    assert '{"matchLabels":{"app":"web"}}' in condition["message"]
    assert world.plan().status is None, "the same condition is not written again"
    # when the selector is restored
    world.change(selector=selector, template=given)
    world.settle()
    # then
    assert "SelectorMismatch" not in [entry["type"] for entry in world.status["conditions"]]
    assert sum(world.sizes().values()) == 4


def test_no_second_workload_is_created_while_the_first_is_terminating() -> None:
    """uniteddeployment case 26"""
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.of("a")["metadata"]["deletionTimestamp"] = format_time(NOW)
    world.set_image("nginx:2")
    written = {step.action.key.name for step in world.plan().steps}
    assert not any(name.startswith("web-a-") for name in written)
    assert any(name.startswith("web-b-") for name in written)


def terms(world: UnitedWorld, name: str) -> Any:
    affinity = world.of(name)["spec"]["template"]["spec"].get("affinity")
    if affinity is None:
        return None
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"]


def test_nodes_of_the_subset_are_required_beside_those_of_the_template() -> None:
    """uniteddeployment case 27"""
    wanted = {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    given = [
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
    ]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": given}}
    }
    world = UnitedWorld(subset("a", nodeSelectorTerm=wanted), "b", "c", replicas=3).sync()
    assert terms(world, "a") == [wanted]
    assert terms(world, "b") is None, "an empty list of terms would be refused"

    world = UnitedWorld(
        subset("a", nodeSelectorTerm=wanted),
        subset("b", nodeSelectorTerm={}),
        replicas=2,
        template=CLONE_SET,
    )
    world.spec["template"] = template_of(CLONE_SET, pod={"affinity": affinity})
    world.sync()
    for term, value in zip(given, terms(world, "a"), strict=True):
        assert value["matchExpressions"] == [*term["matchExpressions"], *wanted["matchExpressions"]]
        assert value["matchFields"] == wanted["matchFields"]
    assert terms(world, "b") == given


def test_a_patch_wins_and_its_change_makes_no_revision() -> None:
    """uniteddeployment case 28"""
    toleration = {"key": "x", "operator": "Exists"}
    patch = {"metadata": {"labels": {"app": "web", "tier": "gold"}}, "spec": {"tolerations": [toleration]}}
    world = UnitedWorld(
        subset("a", tolerations=[{"key": "y", "operator": "Exists"}], patch=patch), "b", replicas=2
    ).settle()
    made = world.of("a")["spec"]["template"]
    assert made["metadata"]["labels"]["tier"] == "gold"
    assert made["spec"]["tolerations"] == [toleration]
    before = world.status["updatedRevision"]

    world.spec["topology"]["subsets"][0]["patch"] = {"metadata": {"labels": {"tier": "silver"}}}
    world.settle()
    made = world.of("a")["spec"]["template"]
    assert made["metadata"]["labels"]["tier"] == "silver"
    assert made["spec"]["tolerations"] == [{"key": "y", "operator": "Exists"}]
    assert world.status["updatedRevision"] == before
    assert len(world.revisions) == 1


def test_a_removed_subset_patch_leaves_nothing_behind() -> None:
    """uniteddeployment case 29"""
    world = UnitedWorld(subset("a", patch={"spec": {"hostNetwork": True}}), replicas=1).settle()
    assert world.of("a")["metadata"]["annotations"][PATCH_ANNOTATION] == '{"spec":{"hostNetwork":true}}'
    world.set_subsets("a").settle()
    assert world.of("a")["metadata"]["annotations"][PATCH_ANNOTATION] == ""
    assert "hostNetwork" not in world.of("a")["spec"]["template"]["spec"]


BAD = {"spec": {"containers": [{"$patch": "unheard-of", "name": "main"}]}}


def test_a_patch_that_cannot_be_merged_fails_only_its_subset() -> None:
    """uniteddeployment case 30"""
    world = UnitedWorld(subset("a", patch=BAD), "b", replicas=4).sync().act().sync()
    assert world.sizes() == {"b": 2}
    condition = world.condition("SubsetProvisioned")
    assert (condition["status"], condition["reason"]) == ("False", "Error")
    assert condition["message"].startswith("subset a: failed to merge patch")
    plan = world.plan()
    assert [(note.reason, note.warning) for note in plan.notes] == [("FailedUpdateSubset", True)]
    assert plan.waiting is not None
    assert plan.waiting.code is Code.PATCH
    assert world.status.get("observedGeneration", 0) == 0, "not all of the spec is done"


def test_replicas_of_a_subset_with_an_invalid_patch_are_given_to_the_next_one() -> None:
    world = UnitedWorld("c", replicas=4).settle().change(replicas=6)
    world.set_subsets(subset("a", patch=BAD), "b", "c")
    (create,) = [step.action for step in world.plan().steps if isinstance(step.action, Create)]
    assert create.body["spec"]["replicas"] == 2, "all together have 6"


def test_a_patch_that_becomes_invalid_lets_the_subset_scale_and_the_others_update() -> None:
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.set_subsets(subset("a", patch=BAD), "b").change(replicas=6).set_image("nginx:2").settle()
    assert world.sizes() == {"a": 3, "b": 3}
    assert world.condition("SubsetUpdated")["status"] == "False"
    target = world.status["updatedRevision"]
    assert world.of("b")["metadata"]["labels"][REVISION_LABEL] == target
    assert world.of("a")["metadata"]["labels"][REVISION_LABEL] != target

    world.set_subsets("a", "b").settle()
    assert world.condition("SubsetUpdated") == {
        "type": "SubsetUpdated",
        "status": "True",
        "lastTransitionTime": format_time(NOW),
    }


# ── replicas ─────────────────────────────────────────────────────────────


def test_percentages_that_no_longer_fit_after_scaling_are_still_allocated() -> None:
    """uniteddeployment case 35"""
    world = UnitedWorld(subset("a", replicas="50%"), subset("b", replicas="50%"), replicas=4).settle()
    assert world.change(replicas=3).settle().sizes() == {"a": 2, "b": 1}


def test_a_scale_that_cannot_be_divided_changes_nothing() -> None:
    """uniteddeployment case 36"""
    world = UnitedWorld(subset("a", replicas=4), subset("b", replicas=4), replicas=8).settle()
    before = world.status["observedGeneration"]
    world.change(replicas=6)
    plan = world.plan()
    assert not list(plan.steps)
    assert [(note.reason, note.warning) for note in plan.notes] == [("Failed SpecifySubsetReplicas", True)]
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    world.sync()
    assert world.status["observedGeneration"] == before
    assert world.sizes() == {"a": 4, "b": 4}
    assert world.plan().is_settled


def test_shrinking_workloads_are_written_before_growing_ones() -> None:
    world = UnitedWorld(subset("a", replicas=3), subset("b", replicas=1), replicas=4).settle()
    world.set_subsets(subset("a", replicas=1), subset("b", replicas=3))
    stages = {stage.purpose: stage for stage in world.plan().stages}
    assert list(stages) == [Purpose.UPDATE_WORKLOADS, Purpose.GROW_WORKLOADS]
    assert Purpose.UPDATE_WORKLOADS in stages[Purpose.GROW_WORKLOADS].only_after


def test_a_new_subset_begins_with_what_the_others_leave_free() -> None:
    world = UnitedWorld("a", "b", replicas=6).settle()
    world.set_subsets("a", "b", "c")
    (create,) = [step.action for step in world.plan().steps if isinstance(step.action, Create)]
    assert create.body["spec"]["replicas"] == 0
    assert world.settle().sizes() == {"a": 2, "b": 2, "c": 2}


def test_all_workloads_are_updated_together_with_zero_replicas() -> None:
    """uniteddeployment case 44"""
    world = UnitedWorld("a", "b", replicas=2).settle().change(replicas=0).settle()
    before = world.status["currentRevision"]
    world.set_image("nginx:2").carry_out(world.plan())
    assert world.status["currentRevision"] == before, "the workloads have not been seen with it"
    world.settle()
    assert world.sizes() == {"a": 0, "b": 0}
    assert world.status["currentRevision"] == world.status["updatedRevision"]


def test_nothing_is_written_when_nothing_has_changed() -> None:
    """uniteddeployment case 46"""
    world = UnitedWorld("a", subset("b", patch={"spec": {"hostNetwork": True}}), replicas=5).settle()
    plan = world.plan()
    assert plan.is_settled
    assert plan.requeue_after_s is None
    assert plan.waiting is None


def test_replicas_changed_by_another_client_are_corrected() -> None:
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.of("a")["spec"]["replicas"] = 7
    assert world.sync().sizes() == {"a": 2, "b": 2}


# ── status ───────────────────────────────────────────────────────────────


def test_the_status_sums_up_the_subsets() -> None:
    world = UnitedWorld("a", "b", replicas=5).settle()
    status = world.status
    assert {name: status[name] for name in ("replicas", "readyReplicas", "updatedReplicas")} == {
        "replicas": 5,
        "readyReplicas": 5,
        "updatedReplicas": 5,
    }
    assert status["updatedReadyReplicas"] == 5
    assert "reservedPods" not in status
    assert status["labelSelector"] == "app=web"
    assert {item["name"]: item["replicas"] for item in status["subsetStatuses"]} == {"a": 2, "b": 3}
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "UnitedDeploymentUpdated": "True",
        "SubsetProvisioned": "True",
        "SubsetUpdated": "True",
    }


def test_a_selector_that_cannot_be_read_leaves_the_stored_text_and_the_workloads() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    world.change(selector={"matchExpressions": [{"key": "app", "operator": "Near"}]}).settle()
    assert world.status["labelSelector"] == "app=web"
    assert world.sizes() == {"a": 1}


def test_the_first_status_has_all_required_fields() -> None:
    status = UnitedWorld("a", replicas=0).plan().status
    assert status is not None
    assert {"replicas", "updatedReplicas", "currentRevision"} <= set(status)


def test_another_update_target_restarts_the_rollout_clock() -> None:
    world = UnitedWorld("a", replicas=2).settle().partitions(a=2)
    world.set_image("nginx:2").settle()
    first = world.condition("UnitedDeploymentUpdated")
    world.pass_time(100).set_image("nginx:3").settle()
    second = world.condition("UnitedDeploymentUpdated")
    assert first["status"] == second["status"] == "False"
    assert second["message"] != first["message"]
    assert parse_time(second["lastTransitionTime"]) - parse_time(first["lastTransitionTime"]) == 100


def test_a_subset_failure_is_only_ever_removed() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    world.document["status"]["conditions"].append({"type": "SubsetFailure", "status": "True"})
    world.change(replicas=2).settle()
    assert world.condition("SubsetFailure") == {}


def test_fields_removed_from_the_template_are_removed_from_the_workload() -> None:
    world = UnitedWorld("a", replicas=1)
    world.spec["template"] = template_of(CLONE_SET, minReadySeconds=7)
    world.settle()
    assert world.of("a")["spec"]["minReadySeconds"] == 7
    world.change(template=template_of(CLONE_SET, revisionHistoryLimit=3)).settle()
    assert "minReadySeconds" not in world.of("a")["spec"]
    assert world.of("a")["spec"]["revisionHistoryLimit"] == 3


def test_labels_that_others_added_to_a_workload_are_kept() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    world.of("a")["metadata"]["labels"]["team"] = "shop"
    world.set_image("nginx:2").settle()
    assert world.of("a")["metadata"]["labels"]["team"] == "shop"


def test_writes_to_workloads_are_patches_with_the_uid() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle().change(replicas=4)
    patches = [step.action for step in world.plan().steps]
    assert all(isinstance(patch, Patch) and patch.uid for patch in patches)
    assert wanted_in(patches) == ["patch CloneSet"] * 2
    assert set(TEMPLATES.values()) >= {patch.resource for patch in patches}
