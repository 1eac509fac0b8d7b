"""Workloads that a UnitedDeployment adopts, and those that it releases."""

import copy
from typing import Any

import pytest

from pykruise.kinds.uniteddeployment.workloads import CLONE_SET, SUBSET_LABEL
from pykruise.kube.clock import format_time
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Patch
from support.united_world import NOW, UID, UnitedWorld

Document = dict[str, Any]
OTHER_OWNER = {"apiVersion": "example.com/v1", "kind": "Backup", "name": "nightly", "uid": "uid-backup"}


def with_orphan(world: UnitedWorld, name: str, subset: str = "a", **metadata: Any) -> UnitedWorld:
    """Let the world have another CloneSet, which fits the subset and has no controller."""
    spec = copy.deepcopy(world.spec["template"][CLONE_SET]["spec"])
    world.workloads[CLONE_SET, name] = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "labels": {"app": "web", SUBSET_LABEL: subset},
            "creationTimestamp": format_time(NOW),
            **metadata,
        },
        "spec": {**spec, "replicas": 1},
    }
    return world


def patches(world: UnitedWorld, purpose: Purpose) -> list[Patch]:
    return [
        step.action
        for stage in world.plan().stages
        if stage.purpose == purpose
        for chain in stage.chains
        for step in chain.steps
        if isinstance(step.action, Patch)
    ]


def adopted(world: UnitedWorld) -> list[str]:
    return [patch.key.name for patch in patches(world, Purpose.ADOPT)]


def test_an_orphan_of_a_subset_is_adopted_at_the_version_that_was_seen() -> None:
    """uniteddeployment case 25"""
    (adoption,) = patches(with_orphan(UnitedWorld("a", replicas=1), "orphan"), Purpose.ADOPT)
    assert (adoption.key.name, adoption.uid) == ("orphan", "uid-orphan")
    assert adoption.resource_version == "7"


def test_the_older_of_two_orphans_of_a_subset_is_adopted() -> None:
    world = with_orphan(UnitedWorld("a", replicas=1), "first", creationTimestamp=format_time(NOW + 60))
    assert adopted(with_orphan(world, "second")) == ["second"]


def test_an_orphan_of_a_subset_that_has_a_workload_is_not_adopted() -> None:
    assert adopted(with_orphan(UnitedWorld("a", replicas=1).settle(), "orphan")) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"deletionTimestamp": format_time(NOW)},
        {"labels": {"app": "web", SUBSET_LABEL: "gone"}},
        {"labels": {"app": "other", SUBSET_LABEL: "a"}},
    ],
)
def test_an_orphan_that_does_not_fit_is_not_adopted(metadata: Document) -> None:
    assert adopted(with_orphan(UnitedWorld("a", replicas=1), "orphan", **metadata)) == []


def test_under_a_selector_that_cannot_be_read_nothing_is_adopted_or_released() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    world = with_orphan(UnitedWorld("a", "b", replicas=2).settle(), "orphan", "c")
    world.change(selector=selector).set_subsets("a", "b", "c")
    assert adopted(world) == []
    assert patches(world, Purpose.RELEASE) == []


def test_a_released_workload_keeps_its_other_owners() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    owners = world.of("a")
    owners["metadata"]["ownerReferences"].append(OTHER_OWNER)
    version = owners["metadata"]["resourceVersion"]
    owners["metadata"]["labels"]["app"] = "other"
    (release,) = patches(world, Purpose.RELEASE)
    assert release.body["metadata"]["ownerReferences"] == [OTHER_OWNER]
    assert release.resource_version == version


def test_an_adopted_workload_keeps_its_other_owners() -> None:
    world = with_orphan(UnitedWorld("a", replicas=1), "orphan", ownerReferences=[OTHER_OWNER])
    (adoption,) = patches(world, Purpose.ADOPT)
    assert [reference["uid"] for reference in adoption.body["metadata"]["ownerReferences"]] == [
        "uid-backup",
        UID,
    ]


def test_an_own_workload_without_a_subset_is_a_warning() -> None:
    """LIFT-10"""
    world = UnitedWorld("a", replicas=1).settle()
    del world.of("a")["metadata"]["labels"][SUBSET_LABEL]
    assert [(note.reason, note.warning) for note in world.plan().notes] == [("InvalidSubset", True)]
