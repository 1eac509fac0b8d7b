"""Updates and revisions: partitions, update types, rollbacks, and the history."""

import pytest

from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    REVISION_LABEL,
    STATEFUL_SET,
)
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.pods.reasons import Code
from support.united_world import (
    NAMESPACE,
    UID,
    UnitedWorld,
)
from support.uniteddeployments import ALL_TEMPLATES, template_of

every_template = pytest.mark.parametrize("template", ALL_TEMPLATES)


# ── updates ──────────────────────────────────────────────────────────────


@every_template
def test_partitions_hold_pods_back_in_each_subset(template: str) -> None:
    """uniteddeployment cases 37, 39"""
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


def test_a_uniteddeployment_waits_for_its_partitions_when_all_other_pods_are_updated() -> None:
    """uniteddeployment case 37"""
    world = UnitedWorld("a", "b", replicas=4).settle().partitions(a=1).set_image("nginx:2").sync()
    assert waits_for(world) is Code.SUBSETS, "no pod is updated yet"
    world.settle()
    assert waits_for(world) is Code.PARTITION
    world.partitions().settle()
    assert waits_for(world) is None


def test_a_uniteddeployment_waits_until_its_subsets_have_observed_the_update() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle().set_image("nginx:2").settle()
    world.document["status"]["currentRevision"] = "web-before"
    world.of("a")["status"]["observedGeneration"] -= 1
    world.sync()
    assert world.status["currentRevision"] == "web-before"
    assert waits_for(world) is Code.SUBSETS


@pytest.mark.parametrize("template", [CLONE_SET, ADVANCED_STATEFUL_SET, STATEFUL_SET])
def test_a_partition_is_at_most_the_size(template: str) -> None:
    """uniteddeployment case 38"""
    world = UnitedWorld("a", template=template, replicas=3).partitions(a=10).settle()
    assert world.of("a")["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3
    assert world.partitions(a=-2).settle().entry("a").get("partition", 0) == 0


def test_the_update_type_of_a_stateful_set_is_written_and_on_delete_is_kept() -> None:
    world = UnitedWorld("a", template=STATEFUL_SET, replicas=1).sync()
    assert world.of("a")["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    strategy = {"type": "OnDelete"}
    world.change(template=template_of(STATEFUL_SET, updateStrategy=strategy)).partitions(a=1).settle()
    assert world.of("a")["spec"]["updateStrategy"] == strategy
    assert world.plan().is_settled


def test_a_rollout_completes_only_when_every_allocated_pod_is_updated_and_ready() -> None:
    world = UnitedWorld("a", "b", template=ADVANCED_STATEFUL_SET, replicas=4).settle()
    before = world.status["currentRevision"]
    world.partitions(a=1).set_image("nginx:2").settle()
    # a pod is being recreated: the workload's own status counts one pod less
    world.of("a")["status"]["replicas"] = 1
    world.sync()
    assert world.status["currentRevision"] == before


# ── revisions ────────────────────────────────────────────────────────────


def test_a_rollback_uses_the_old_revision_again() -> None:
    """uniteddeployment case 41"""
    world = UnitedWorld("a", replicas=1).settle()
    first = world.status["updatedRevision"]
    world.set_image("nginx:2").settle()
    second = world.status["updatedRevision"]
    world.set_image("nginx:1").settle()
    assert world.status["updatedRevision"] == first != second
    assert {name: revision["revision"] for name, revision in world.revisions.items()} == {first: 3, second: 2}


def test_a_revision_that_was_left_behind_is_adopted_and_a_rollout_from_it_begins_once() -> None:
    """The state after a deletion with `--cascade=orphan`, when the UnitedDeployment is created again."""
    # given
    world = UnitedWorld("a", replicas=1).settle()
    ((name, revision),) = world.revisions.items()
    revision["metadata"].pop("ownerReferences")
    # when
    world.settle()
    # then
    assert [reference["uid"] for reference in world.revisions[name]["metadata"]["ownerReferences"]] == [UID]
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


def test_old_revisions_are_deleted_except_those_with_pods() -> None:
    """uniteddeployment case 42"""
    world = UnitedWorld("a", "b", replicas=2, revisionHistoryLimit=2).settle()
    first = world.status["currentRevision"]
    world.partitions(a=1, b=1)
    for number in (2, 3, 4):
        world.set_image(f"nginx:{number}").settle()
    assert world.status["currentRevision"] == first
    assert first in world.revisions
    assert len(world.revisions) == 3, "of the two that are too many the older one is lived in"


def test_a_collision_of_a_revision_name_is_counted_and_the_count_is_kept() -> None:
    """uniteddeployment case 43"""
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
