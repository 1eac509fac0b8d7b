"""What is done for a UnitedDeployment: the numbered cases of the specification, on paper."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.uniteddeployment.plan import status_after
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    PATCH_ANNOTATION,
    RESERVED_LABEL,
    REVISION_LABEL,
    STATEFUL_SET,
    SUBSET_LABEL,
    TEMPLATES,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.errors import ForbiddenError, Status
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Plan
from support.united_world import NAMESPACE, NOW, UID, UnitedWorld, subset, wanted_in
from support.uniteddeployments import ALL_TEMPLATES, template_of

every_template = pytest.mark.parametrize("template", ALL_TEMPLATES)
ADAPTIVE = {"type": "Adaptive", "adaptive": {"unschedulableDuration": 300}}
RESERVE = {"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": True, "unschedulableDuration": 60}}


def adaptive(*names: Any, strategy: Any = ADAPTIVE, **spec: Any) -> UnitedWorld:
    world = UnitedWorld(*names, **spec)
    world.spec["topology"]["scheduleStrategy"] = strategy
    return world


def purposes(world: UnitedWorld) -> list[Purpose]:
    return [stage.purpose for stage in world.plan().stages]


# ── provision ────────────────────────────────────────────────────────────


@every_template
def test_each_subset_gets_a_workload_with_its_part(template: str) -> None:
    """case 18"""
    world = UnitedWorld("a", "b", "c", template=template, replicas=6)
    stage = next(one for one in world.plan().stages if one.purpose == Purpose.CREATE_WORKLOADS)
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
    """case 19"""
    world = UnitedWorld("a" * 60, replicas=1)
    world.document["metadata"]["name"] = "w" * 240
    (create,) = [step.action for step in world.plan().steps if step.action.resource != CONTROLLER_REVISIONS]
    assert isinstance(create, Create)
    assert create.body["metadata"]["generateName"] == "w" * 240 + "-"
    assert len(create.key.name) <= 253


def test_what_is_made_and_not_seen_yet_is_not_made_twice() -> None:
    """case 20: the same name again, which API servers take once"""
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


def test_of_two_workloads_of_a_subset_the_older_one_stays() -> None:
    """case 21"""
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
    """case 22"""
    world = UnitedWorld("a", "b", "c", template=template, replicas=6).settle()
    world.set_subsets("a", "c").sync()
    assert world.sizes() == {"a": 3, "c": 3}
    world.settle()
    assert [one["name"] for one in world.status["subsetStatuses"]] == ["a", "c"]
    assert world.status["replicas"] == 6


def test_a_removed_subset_that_is_going_already_is_not_deleted_again() -> None:
    """its finalizers hold it"""
    world = UnitedWorld("a", "b", replicas=2).settle()
    world.of("b")["metadata"]["deletionTimestamp"] = format_time(NOW)
    world.set_subsets("a").settle()
    assert not any(isinstance(action, Delete) for action in world.written)


def test_a_renamed_subset_is_there_before_the_old_one_goes() -> None:
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.set_subsets("a", "b2")
    stages = purposes(world)
    assert stages.index(Purpose.CREATE_WORKLOADS) < stages.index(Purpose.DELETE_WORKLOADS)
    assert world.settle().sizes() == {"a": 2, "b2": 2}


def test_another_kind_of_template_makes_new_workloads_and_deletes_the_old_ones() -> None:
    """case 23"""
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.template = DEPLOYMENT
    world.change(template=template_of(DEPLOYMENT))
    world.carry_out(world.plan())
    assert world.sizes(DEPLOYMENT) == {"a": 2, "b": 2}
    assert world.sizes(CLONE_SET) == {}


def test_orphans_of_other_namespaces_are_ignored() -> None:
    """case 24"""
    world = UnitedWorld("a", replicas=1)
    orphan = orphaned(world, "a")
    orphan["metadata"]["namespace"] = "elsewhere"
    world.workloads[CLONE_SET, "orphan"] = orphan
    assert Purpose.ADOPT not in purposes(world)


def orphaned(world: UnitedWorld, name: str) -> dict[str, Any]:
    """A workload that fits the subset, and that has no controller."""
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
    """case 25"""
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


def test_an_orphan_that_says_no_subset_is_left_alone() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    orphan = orphaned(world, "a")
    del orphan["metadata"]["labels"][SUBSET_LABEL]
    world.workloads[CLONE_SET, "orphan"] = orphan
    assert world.plan().is_settled


def test_an_own_workload_that_says_no_subset_is_reported_and_left_alone() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle()
    lost = world.of("a")
    del lost["metadata"]["labels"][SUBSET_LABEL]
    world.settle()
    assert "InvalidSubset" in world.events
    assert lost in world.workloads.values()
    assert sum(world.sizes().values()) == 3, "the subset has another one"


def test_a_workload_that_the_selector_does_not_match_any_more_is_released() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    lost = world.of("a")["metadata"]["name"]
    template = template_of(CLONE_SET)
    template[CLONE_SET]["metadata"]["labels"] = {"app": "new"}
    world.change(selector={"matchLabels": {"app": "new"}}, template=template)
    world.sync()
    assert world.workloads[CLONE_SET, lost]["metadata"]["ownerReferences"] == []
    assert len(world.workloads) == 2


def test_no_second_workload_while_the_first_one_is_going() -> None:
    """case 26"""
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
    """case 27"""
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
    for term, one in zip(given, terms(world, "a"), strict=True):
        assert one["matchExpressions"] == [*term["matchExpressions"], *wanted["matchExpressions"]]
        assert one["matchFields"] == wanted["matchFields"]
    assert terms(world, "b") == given


def test_a_patch_wins_and_its_change_makes_no_revision() -> None:
    """case 28"""
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


def test_a_patch_that_is_taken_away_leaves_nothing() -> None:
    """case 29"""
    world = UnitedWorld(subset("a", patch={"spec": {"hostNetwork": True}}), replicas=1).settle()
    assert world.of("a")["metadata"]["annotations"][PATCH_ANNOTATION] == '{"spec":{"hostNetwork":true}}'
    world.set_subsets("a").settle()
    assert world.of("a")["metadata"]["annotations"][PATCH_ANNOTATION] == ""
    assert "hostNetwork" not in world.of("a")["spec"]["template"]["spec"]


BAD = {"spec": {"containers": [{"$patch": "unheard-of", "name": "main"}]}}


def test_a_patch_that_cannot_be_merged_fails_only_its_subset() -> None:
    """case 30"""
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


def test_what_a_subset_that_cannot_be_made_would_have_is_free_for_the_next_one() -> None:
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


def test_a_scale_that_rounding_makes_wrong_is_divided_all_the_same() -> None:
    """case 35"""
    world = UnitedWorld(subset("a", replicas="50%"), subset("b", replicas="50%"), replicas=4).settle()
    assert world.change(replicas=3).settle().sizes() == {"a": 2, "b": 1}


def test_a_scale_that_cannot_be_divided_changes_nothing() -> None:
    """case 36"""
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


def test_what_shrinks_is_written_before_what_grows() -> None:
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


def test_with_no_replicas_everything_is_updated_at_once() -> None:
    """case 44"""
    world = UnitedWorld("a", "b", replicas=2).settle().change(replicas=0).settle()
    before = world.status["currentRevision"]
    world.set_image("nginx:2").carry_out(world.plan())
    assert world.status["currentRevision"] == before, "the workloads have not been seen with it"
    world.settle()
    assert world.sizes() == {"a": 0, "b": 0}
    assert world.status["currentRevision"] == world.status["updatedRevision"]


def test_nothing_is_written_when_nothing_has_changed() -> None:
    """case 46"""
    world = UnitedWorld("a", subset("b", patch={"spec": {"hostNetwork": True}}), replicas=5).settle()
    plan = world.plan()
    assert plan.is_settled
    assert plan.requeue_after_s is None
    assert plan.waiting is None


def test_sizes_that_another_client_changed_are_put_right() -> None:
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.of("a")["spec"]["replicas"] = 7
    assert world.sync().sizes() == {"a": 2, "b": 2}


# ── updates ──────────────────────────────────────────────────────────────


@every_template
def test_partitions_hold_pods_back_in_each_subset(template: str) -> None:
    """cases 37, 39"""
    world = UnitedWorld("a", "b", template=template, replicas=4).settle()
    before = world.status["updatedRevision"]
    world.partitions(a=1).set_image("nginx:2").settle()
    target = world.status["updatedRevision"]
    assert target != before
    held = template != DEPLOYMENT
    assert world.labels(REVISION_LABEL, "a") == ({target: 1, before: 1} if held else {target: 2})
    assert world.labels(REVISION_LABEL, "b") == {target: 2}
    assert world.status["currentRevision"] == (before if held else target)
    assert world.entry("a")["partition"] == 1
    assert world.condition("UnitedDeploymentUpdated")["status"] == ("False" if held else "True")
    assert world.plan().is_settled, "a partition that is held is no reason to write"

    world.partitions().settle()
    assert world.status["currentRevision"] == target
    assert world.condition("UnitedDeploymentUpdated")["status"] == "True"


def waits_for(world: UnitedWorld) -> Code | None:
    waiting = world.plan().waiting
    return None if waiting is None else Code(waiting.code)


def test_it_waits_for_its_partitions_once_all_other_pods_are_updated() -> None:
    """case 37"""
    world = UnitedWorld("a", "b", replicas=4).settle().partitions(a=1).set_image("nginx:2").sync()
    assert waits_for(world) is Code.SUBSETS, "no pod is updated yet"
    world.settle()
    assert waits_for(world) is Code.PARTITION
    world.partitions().settle()
    assert waits_for(world) is None


def test_it_waits_for_its_subsets_until_they_have_seen_the_update() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle().set_image("nginx:2").settle()
    world.document["status"]["currentRevision"] = "web-before"
    world.of("a")["status"]["observedGeneration"] -= 1
    world.sync()
    assert world.status["currentRevision"] == "web-before"
    assert waits_for(world) is Code.SUBSETS


@pytest.mark.parametrize("template", [CLONE_SET, ADVANCED_STATEFUL_SET, STATEFUL_SET])
def test_a_partition_is_at_most_the_size(template: str) -> None:
    """case 38"""
    world = UnitedWorld("a", template=template, replicas=3).partitions(a=10).settle()
    assert world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3
    assert world.partitions(a=-2).settle().entry("a").get("partition", 0) == 0


def test_the_update_type_of_a_stateful_set_is_spelled_out_and_on_delete_is_left_alone() -> None:
    world = UnitedWorld("a", template=STATEFUL_SET, replicas=1).sync()
    assert world.of("a")["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    strategy = {"type": "OnDelete"}
    world.change(template=template_of(STATEFUL_SET, updateStrategy=strategy)).partitions(a=1).settle()
    assert world.of("a")["spec"]["updateStrategy"] == strategy
    assert world.plan().is_settled


def test_a_rollout_is_over_only_when_every_allocated_pod_is_updated_and_ready() -> None:
    world = UnitedWorld("a", "b", template=ADVANCED_STATEFUL_SET, replicas=4).settle()
    before = world.status["currentRevision"]
    world.partitions(a=1).set_image("nginx:2").settle()
    # a pod is being made anew: the workload's own status counts one pod less
    world.of("a")["status"]["replicas"] = 1
    world.sync()
    assert world.status["currentRevision"] == before


# ── revisions ────────────────────────────────────────────────────────────


def test_a_rollback_uses_the_old_revision_again() -> None:
    """case 41"""
    world = UnitedWorld("a", replicas=1).settle()
    first = world.status["updatedRevision"]
    world.set_image("nginx:2").settle()
    second = world.status["updatedRevision"]
    world.set_image("nginx:1").settle()
    assert world.status["updatedRevision"] == first != second
    assert {name: one["revision"] for name, one in world.revisions.items()} == {first: 3, second: 2}


def test_a_revision_that_was_left_behind_is_adopted_and_a_rollout_from_it_begins_once() -> None:
    """As after a deletion with `--cascade=orphan`, when the UnitedDeployment comes back."""
    # given
    world = UnitedWorld("a", replicas=1).settle()
    ((name, revision),) = world.revisions.items()
    revision["metadata"].pop("ownerReferences")
    # when
    world.settle()
    # then
    assert [one["uid"] for one in world.revisions[name]["metadata"]["ownerReferences"]] == [UID]
    # given
    world.partitions(a=1).set_image("nginx:2").settle()
    world.revisions.pop(name)
    # then
    assert world.pass_time(100).plan().status is None


def test_a_revision_holds_the_template_and_is_found_by_its_labels() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    ((name, revision),) = world.revisions.items()
    assert revision["metadata"]["labels"] == {
        "app": "web",
        "controller.kubernetes.io/hash": name.removeprefix("web-"),
    }
    assert revision["metadata"]["annotations"] == {}
    assert set(revision["data"]["spec"]["template"]) == {"$patch", CLONE_SET}
    assert "topology" not in revision["data"]["spec"]


def test_old_revisions_go_but_not_those_that_have_pods() -> None:
    """case 42"""
    world = UnitedWorld("a", "b", replicas=2, revisionHistoryLimit=2).settle()
    first = world.status["currentRevision"]
    world.partitions(a=1, b=1)
    for number in (2, 3, 4):
        world.set_image(f"nginx:{number}").settle()
    assert world.status["currentRevision"] == first
    assert first in world.revisions
    assert len(world.revisions) == 3, "of the two that are too many the older one is lived in"


def test_a_taken_revision_name_is_counted_and_the_count_is_kept() -> None:
    """case 43"""
    world = UnitedWorld("a", replicas=1)
    (create,) = [step.action for step in world.plan().steps if step.action.resource == CONTROLLER_REVISIONS]
    other = {
        "metadata": {
            "name": create.key.name,
            "namespace": NAMESPACE,
            "uid": "uid-other",
            "resourceVersion": "1",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": True}
            ],
        },
        "revision": 1,
        "data": {"spec": {"template": {"something": "else"}}},
    }
    world.revisions[create.key.name] = other
    world.settle()
    assert world.status["collisionCount"] == 1
    assert world.status["updatedRevision"] != create.key.name
    assert world.plan().is_settled


# ── failures ─────────────────────────────────────────────────────────────


def refused(
    world: UnitedWorld, purpose: Purpose, why: str = "no", *, of: Plan | None = None
) -> dict[str, Any]:
    """The status when the first write of that stage was refused. `of`: the plan, by default the one of now."""
    found = refused_or_none(world, purpose, why, of=of)
    assert found is not None
    return found


def refused_or_none(
    world: UnitedWorld, purpose: Purpose, why: str = "no", *, of: Plan | None = None
) -> dict[str, Any] | None:
    plan = of or world.plan()
    stage = next(one for one in plan.stages if one.purpose == purpose)
    chain = stage.chains[0]
    error = ForbiddenError(Status(code=403, reason="Forbidden", message=why))
    return status_after(world.snapshot(), plan, Failure(purpose, chain.subject, chain.steps[0], error))


def test_a_workload_that_cannot_be_made_is_seen_in_the_status() -> None:
    """case 45"""
    world = UnitedWorld("a", "b", replicas=2)
    found = refused(world, Purpose.CREATE_WORKLOADS, "webhook said no")
    (condition,) = [one for one in found["conditions"] if one["type"] == "SubsetProvisioned"]
    assert (condition["status"], condition["reason"]) == ("False", "Error")
    assert "webhook said no" in condition["message"]
    assert found.get("observedGeneration", 0) == 0
    world.document["status"] = found
    world.settle()
    assert world.condition("SubsetProvisioned")["status"] == "True"
    assert world.status["observedGeneration"] == 1


def test_a_refused_write_is_a_warning() -> None:
    # given everything at once: a subset that comes, one that goes, one that stays, and another template
    world = UnitedWorld("a", "b", replicas=4).settle()
    world.set_subsets("a", "c").set_image("nginx:2")
    # then
    told = {
        stage.purpose: [
            (step.failed.reason, step.failed.warning)
            for chain in stage.chains
            for step in chain.steps
            if step.failed is not None
        ]
        for stage in world.plan().stages
    }
    assert told == {
        Purpose.STORE_REVISION: [("FailedRevisionProvision", True)],
        Purpose.CREATE_WORKLOADS: [("FailedUpdateSubset", True)],
        Purpose.DELETE_WORKLOADS: [("FailedUpdateSubset", True)],
        Purpose.UPDATE_WORKLOADS: [("FailedUpdateSubset", True)],
    }


def test_a_workload_that_cannot_be_updated_is_seen_in_the_status() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle().set_image("nginx:2")
    found = refused(world, Purpose.UPDATE_WORKLOADS, "no")
    (condition,) = [one for one in found["conditions"] if one["type"] == "SubsetUpdated"]
    assert condition["status"] == "False"
    assert condition["message"].startswith("subset a: ")


def test_a_refused_write_that_no_condition_is_about_reports_what_is_and_not_the_generation() -> None:
    world = UnitedWorld("a", replicas=2).settle()
    before = world.status
    world.set_image("nginx:2")
    found = refused(world, Purpose.STORE_REVISION)
    plan = world.plan()
    assert plan.status is not None
    assert found == {**plan.status, "observedGeneration": before["observedGeneration"]}
    assert found["updatedRevision"] != before["updatedRevision"]


def test_a_refused_write_is_reported_again_when_the_status_is_stored_already() -> None:
    """so that what it waits for is the error at each try"""
    # given
    world = reserve("a", replicas=1).settle()
    world.pods_of("a")[0]["metadata"]["labels"][RESERVED_LABEL] = "wrong"
    # when
    world.document["status"] = refused(world, Purpose.MARK_PODS)
    # then
    assert world.plan().status is None
    assert refused(world, Purpose.MARK_PODS) == world.status


def test_an_old_revision_that_cannot_be_deleted_holds_nothing_back() -> None:
    # given
    world = UnitedWorld("a", replicas=1).settle().set_image("nginx:2").settle()
    before = world.status["observedGeneration"]
    # when it becomes one too many
    world.change(revisionHistoryLimit=0)
    plan = world.plan()
    # then this is not yet done
    assert refused(world, Purpose.TRUNCATE_REVISIONS, of=plan)["observedGeneration"] == before
    # and later there is nothing to report
    world.document["status"] = plan.status
    assert world.plan().status is None
    assert refused_or_none(world, Purpose.TRUNCATE_REVISIONS) is None


def test_a_write_that_is_refused_before_there_is_a_status_is_in_the_first_one() -> None:
    world = UnitedWorld("a", replicas=1)
    plan = msgspec.structs.replace(world.plan(), status=None)
    found = refused(world, Purpose.CREATE_WORKLOADS, of=plan)
    assert [one["type"] for one in found["conditions"]] == ["SubsetProvisioned"]


def test_a_subset_that_is_being_updated_counts_as_updated_until_one_fails() -> None:
    """of a manager that has not said so yet"""
    world = UnitedWorld("a", replicas=1).settle()
    world.document["status"]["conditions"] = []
    world.change(replicas=2)
    assert purposes(world) == [Purpose.GROW_WORKLOADS]
    world.carry_out(world.plan())
    assert world.condition("SubsetUpdated")["status"] == "True"


def test_one_that_cannot_be_read_is_left_as_it_is() -> None:
    world = UnitedWorld("a", replicas=2).settle()
    world.change(replicas="many")
    plan = world.plan()
    assert not list(plan.steps)
    assert plan.status is None
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    assert [(note.reason, note.warning) for note in plan.notes] == [(Code.INVALID_SPEC, True)]


def test_without_the_definition_of_its_workloads_it_waits() -> None:
    world = UnitedWorld("a", replicas=2)
    world.unserved = {CLONE_SET}
    plan = world.plan()
    assert not list(plan.steps)
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NO_TARGET


def test_nothing_is_done_for_one_that_is_going() -> None:
    """case 63"""
    world = UnitedWorld("a", replicas=2)
    world.document["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert world.plan().is_settled


def test_a_selector_of_expressions_alone_gets_labels_for_the_subset() -> None:
    """case 64"""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    world = UnitedWorld("a", replicas=1, selector=selector).sync()
    assert world.of("a")["spec"]["selector"] == {**selector, "matchLabels": {SUBSET_LABEL: "a"}}


# ── adaptive ─────────────────────────────────────────────────────────────


def test_a_subset_without_nodes_is_passed_over_and_the_next_one_takes_its_pods() -> None:
    """cases 47 and 51"""
    world = adaptive("a", subset("b", maxReplicas=2), "c", replicas=6).settle()
    world.set_subsets(subset("a", minReplicas=2, maxReplicas=2), subset("b", minReplicas=2), "c").settle()
    sizes = world.sizes()
    world.close("b").evict("b")
    plan = world.plan()
    assert plan.requeue_after_s == 30
    world.pass_time(31).sync()
    assert world.condition("Schedulable", "b") | {"lastTransitionTime": ""} == {
        "type": "Schedulable",
        "status": "False",
        "reason": "reschedule",
        "message": "timeout pending pods found",
        "lastTransitionTime": "",
    }
    assert world.sizes()["b"] == 2, "its minimum stays"
    assert sum(world.sizes().values()) == sum(sizes.values())


def two_zones(**more: Any) -> UnitedWorld:
    """a first, b for what a does not take."""
    return adaptive(subset("a", minReplicas=0, maxReplicas=4), "b", replicas=4, **more).settle()


def test_pods_move_on_and_stay_when_the_nodes_come_back() -> None:
    """cases 47, 48, 49"""
    world = two_zones()
    assert world.sizes() == {"a": 4, "b": 0}
    # when zone a goes
    world.close("a").evict("a").pass_time(31).settle()
    assert world.sizes() == {"a": 0, "b": 4}
    # then nothing new comes to it for a while
    world.open("a").change(replicas=6).settle()
    assert world.sizes() == {"a": 0, "b": 6}
    assert world.plan().requeue_after_s == pytest.approx(300, abs=1)
    # and later only what is new
    world.pass_time(301).settle()
    condition = world.condition("Schedulable", "a")
    assert (condition["status"], condition["reason"]) == ("True", "recover")
    assert condition["message"] == "unschedulable subset recovered after 300.000000 seconds"
    assert world.sizes() == {"a": 0, "b": 6}, "pods that run are not moved"
    assert world.change(replicas=8).settle().sizes() == {"a": 2, "b": 6}


def test_a_zone_that_is_still_closed_when_its_time_is_over_is_closed_again() -> None:
    world = two_zones()
    world.set_subsets(subset("a", minReplicas=1, maxReplicas=4), "b").close("a").evict("a")
    world.pass_time(31).settle()
    first = world.condition("Schedulable", "a")["lastTransitionTime"]
    world.pass_time(301).sync()
    again = world.condition("Schedulable", "a")
    assert again["status"] == "False"
    assert parse_time(again["lastTransitionTime"]) - parse_time(first) == 301


def test_pods_that_wait_for_something_else_are_not_counted() -> None:
    """case 50"""
    world = two_zones()
    for pod in world.pods_of("a"):
        pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    world.of("a")["status"]["readyReplicas"] = 0
    world.pass_time(60).sync()
    assert world.condition("Schedulable", "a") == {}
    assert world.sizes() == {"a": 4, "b": 0}


def test_after_growing_it_is_requeued() -> None:
    """case 51"""
    world = two_zones().change(replicas=8)
    assert world.plan().requeue_after_s == 30


def test_negative_seconds_count_as_none() -> None:
    world = two_zones()
    world.spec["topology"]["scheduleStrategy"]["adaptive"] = {
        "rescheduleCriticalSeconds": -5,
        "unschedulableDuration": -5,
    }
    world.close("a").evict("a").sync()
    assert world.sizes() == {"a": 0, "b": 4}


# ── pods in reserve ──────────────────────────────────────────────────────


def reserve(*names: Any, **spec: Any) -> UnitedWorld:
    return adaptive(*names, strategy=RESERVE, **spec)


def test_every_pod_says_whether_it_works_and_the_selector_leaves_the_others_out() -> None:
    """case 59"""
    world = reserve("a", "b", replicas=2).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 2}
    assert world.status["labelSelector"] == f"app=web,{RESERVED_LABEL}=false"


def test_pods_without_a_node_have_substitutes_until_they_have_been_ready_for_long_enough() -> None:
    """cases 52 and 53"""
    world = reserve("a", "b", replicas=2).settle()
    assert world.sizes() == {"a": 2, "b": 0}
    world.close("a").evict("a").pass_time(31).settle()
    # then they stay, and b has substitutes
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}
    assert world.sizes() == {"a": 2, "b": 2}
    assert (world.status["replicas"], world.status["reservedPods"]) == (2, 2)
    assert world.entry("a")["reservedPods"] == 2
    assert world.condition("Schedulable", "a")["message"] == "reserved pods found"
    assert world.plan().waiting is not None
    # when one gets its node
    lucky = world.pods_of("a")[0]
    lucky["spec"]["nodeName"] = "n1"
    world.act().sync()
    assert world.sizes() == {"a": 2, "b": 2}, "not before it was ready for a while"
    world.pass_time(61).settle()
    assert lucky["metadata"]["labels"][RESERVED_LABEL] == "false" or world.labels(RESERVED_LABEL, "a") == {
        "true": 1,
        "false": 1,
    }
    assert world.sizes() == {"a": 2, "b": 1}


def test_a_recovered_subset_that_grows_begins_with_pods_in_reserve() -> None:
    """case 54"""
    world = reserve(subset("a", minReplicas=0, maxReplicas=4), "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).settle()
    assert world.sizes() == {"a": 2, "b": 2}
    world.change(replicas=4).settle()
    assert world.sizes() == {"a": 2, "b": 4}
    # when the nodes are back, and its pods have been ready for long enough
    world.open("a").act().sync().pass_time(61).sync()
    # then it grows, its new pods are in reserve, and the substitutes stay
    assert world.sizes()["a"] == 4
    assert world.condition("Schedulable", "a")["status"] == "False"
    world.act().sync()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 2, "true": 2}
    assert world.sizes() == {"a": 4, "b": 2}
    # until they too are ready for long enough
    world.pass_time(61).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 4}
    assert world.sizes() == {"a": 4, "b": 0}
    assert world.condition("Schedulable", "a")["status"] == "True", "it grows no more"


def test_pods_of_a_new_subset_begin_in_reserve() -> None:
    """case 55"""
    world = reserve(subset("a", maxReplicas=2), "b", replicas=4).settle()
    world.set_subsets(subset("a", maxReplicas=2), subset("c", minReplicas=2), "b").sync()
    assert world.condition("Schedulable", "c")["status"] == "False"
    world.act().sync()
    assert set(world.labels(RESERVED_LABEL, "c")) == {"true"}
    assert world.sizes()["b"] == 2, "until then no subset gives up a working pod for them"
    world.pass_time(61).settle()
    assert world.sizes() == {"a": 2, "b": 0, "c": 2}


def test_pods_in_reserve_do_not_hold_up_an_update() -> None:
    """case 56"""
    world = reserve("a", "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).settle()
    block = world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]
    assert block["maxUnavailable"] == 2
    assert "maxUnavailable" not in world.of("b")["spec"]["updateStrategy"]["rollingUpdate"]
    # one at a time at least, while they are ready and not yet for long enough
    world.open("a").act().sync()
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}
    assert world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 1
    # and the template's own comes back
    world.pass_time(61).settle()
    assert "maxUnavailable" not in world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]


def test_an_update_is_over_without_the_pods_in_reserve() -> None:
    world = reserve("a", "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).settle()
    before = world.status["currentRevision"]
    world.set_image("nginx:2").settle()
    assert world.status["currentRevision"] == world.status["updatedRevision"] != before
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}


def test_a_deployment_that_recreates_gets_no_rolling_update() -> None:
    template = template_of(DEPLOYMENT, strategy={"type": "Recreate"})
    world = reserve("a", "b", replicas=2, template=DEPLOYMENT)
    world.spec["template"] = template
    world.settle().close("a").evict("a").pass_time(31).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2}
    assert world.of("a")["spec"]["strategy"] == {"type": "Recreate"}


def test_pods_that_a_partition_keeps_are_not_in_reserve_for_it() -> None:
    """case 57"""
    world = reserve("a", "b", replicas=4).settle()
    world.partitions(a=2).set_image("nginx:2").settle()
    assert len(world.labels(REVISION_LABEL, "a")) == 2
    world.pass_time(3600).settle()
    assert world.labels(RESERVED_LABEL, "a") == {"false": 4}


def test_pods_whose_update_takes_too_long_are_in_reserve() -> None:
    world = reserve("a", "b", replicas=4).settle()
    world.partitions(a=2).set_image("nginx:2").settle()
    # the partition goes, and the workload does not update its pods
    world.partitions(a=0)
    world.sync()
    assert world.plan().requeue_after_s is not None
    world.pass_time(31).sync()
    assert world.labels(RESERVED_LABEL, "a") == {"true": 2, "false": 2}
    assert world.sizes() == {"a": 4, "b": 2}
    block = world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]
    assert block["maxUnavailable"] == 2, "the two that are late, though they are ready"


def test_terminating_pods_are_not_in_reserve() -> None:
    """case 58"""
    world = reserve("a", "b", replicas=2).settle()
    world.close("a").evict("a").pass_time(31).sync()
    for pod in world.pods_of("a"):
        pod["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.sync()
    assert world.entry("a").get("reservedPods", 0) == 0


def test_pods_are_only_written_to_in_reserve_mode() -> None:
    for world in (UnitedWorld("a", "b", replicas=4).settle(), two_zones()):
        world.close("a").evict("a").pass_time(31).settle()
        assert all(action.resource != PODS for action in world.written)


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
    assert {one["name"]: one["replicas"] for one in status["subsetStatuses"]} == {"a": 2, "b": 3}
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
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


def test_another_target_starts_the_clock_of_the_rollout_anew() -> None:
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


def test_fields_of_the_template_that_go_are_taken_out_of_the_workload() -> None:
    world = UnitedWorld("a", replicas=1)
    world.spec["template"] = template_of(CLONE_SET, minReadySeconds=7)
    world.settle()
    assert world.of("a")["spec"]["minReadySeconds"] == 7
    world.change(template=template_of(CLONE_SET, revisionHistoryLimit=3)).settle()
    assert "minReadySeconds" not in world.of("a")["spec"]
    assert world.of("a")["spec"]["revisionHistoryLimit"] == 3


def test_labels_that_others_put_on_a_workload_stay() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    world.of("a")["metadata"]["labels"]["team"] = "shop"
    world.set_image("nginx:2").settle()
    assert world.of("a")["metadata"]["labels"]["team"] == "shop"


def test_writes_to_workloads_are_patches_with_the_uid() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle().change(replicas=4)
    patches = [step.action for step in world.plan().steps]
    assert all(isinstance(one, Patch) and one.uid for one in patches)
    assert wanted_in(patches) == ["patch CloneSet"] * 2
    assert set(TEMPLATES.values()) >= {one.resource for one in patches}
