"""Pods of built-in StatefulSets that block an update, and their deletion."""

import pytest

from pykruise.kinds.uniteddeployment.workloads import ADVANCED_STATEFUL_SET, REVISION_LABEL, STATEFUL_SET
from pykruise.kube.clock import format_time
from pykruise.kube.resources import PODS
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Delete
from support.united_world import NOW, UnitedWorld
from support.uniteddeployments import template_of


class Broken(UnitedWorld):
    """Subset a with pods web-a-…-0 to -2, one of which is not ready, and a new template from ordinal 1 on."""

    def __init__(
        self, broken: int = 2, *, template: str = STATEFUL_SET, type_: str = "RollingUpdate"
    ) -> None:
        super().__init__("a", template=template, replicas=3)
        self.spec["template"] = template_of(template, updateStrategy={"type": type_})
        self.settle()
        for number, name in enumerate(list(self.pods)):
            self.rename(name, f"{self.workload}-{number}")
        self.pod = self.pods[f"{self.workload}-{broken}"]
        self.pod["status"] = {"phase": "Pending"}
        self.partitions(a=1).set_image("nginx:2")

    @property
    def workload(self) -> str:
        return str(self.of("a")["metadata"]["name"])

    def rename(self, old: str, new: str) -> None:
        pod = self.pods[new] = self.pods.pop(old)
        pod["metadata"]["name"] = new

    def freed(self) -> list[str]:
        """Ordinals of the pods that are deleted."""
        deleted = [step.action for step in self.plan().steps if step.action.resource == PODS]
        assert all(isinstance(item, Delete) and item.uid and item.resource_version for item in deleted)
        return [item.key.name.removeprefix(f"{self.workload}-") for item in deleted]


def updated(world: Broken) -> Broken:
    """Let the workload have the new template, while its controller has done nothing yet."""
    world.sync(1)
    return world


@pytest.mark.parametrize(("broken", "goes"), [(2, ["2"]), (1, ["1"]), (0, [])])
def test_an_old_pod_that_is_not_ready_is_deleted_from_the_partition_on(broken: int, goes: list[str]) -> None:
    """uniteddeployment case 40"""
    assert updated(Broken(broken)).freed() == goes


def test_a_pod_is_not_deleted_before_the_workload_has_the_new_template() -> None:
    """The pod would be recreated with the old template."""
    assert Broken().freed() == []


def test_stuck_pods_beyond_the_replicas_are_deleted_despite_a_larger_partition() -> None:
    world = updated(Broken())
    world.partitions(a=9).of("a")["spec"]["replicas"] = 2
    assert world.freed() == ["2"]


@pytest.mark.parametrize(
    ("template", "type_"), [(STATEFUL_SET, "OnDelete"), (ADVANCED_STATEFUL_SET, "RollingUpdate")]
)
def test_workloads_that_wait_for_no_pod_keep_theirs(template: str, type_: str) -> None:
    """uniteddeployment case 40"""
    world = updated(Broken(template=template, type_=type_))
    assert world.freed() == []


def test_the_pods_of_a_terminating_workload_are_kept() -> None:
    world = updated(Broken())
    world.of("a")["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert Purpose.DELETE_PODS not in {stage.purpose for stage in world.plan().stages}


def test_an_unready_pod_of_the_new_template_is_kept() -> None:
    world = updated(Broken())
    world.pod["metadata"]["labels"][REVISION_LABEL] = world.status["updatedRevision"]
    assert world.freed() == []


def test_a_terminating_pod_is_not_deleted_again() -> None:
    world = updated(Broken())
    world.pod["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert world.freed() == []


def test_a_pod_without_an_ordinal_is_not_deleted_as_stuck() -> None:
    world = updated(Broken())
    world.rename(world.pod["metadata"]["name"], "debug")
    assert world.freed() == []
