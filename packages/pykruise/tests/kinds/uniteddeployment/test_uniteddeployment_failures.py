"""Reports of refused writes and of unreadable objects."""

from typing import Any

import msgspec

from pykruise.kinds.uniteddeployment.plan import compute_status_after
from pykruise.kinds.uniteddeployment.workloads import (
    CLONE_SET,
    RESERVED_LABEL,
    SUBSET_LABEL,
)
from pykruise.kube.clock import format_time
from pykruise.kube.errors import ErrorStatus, ForbiddenError
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Plan
from support.united_world import (
    NOW,
    UnitedWorld,
    reserve,
)


def purposes(world: UnitedWorld) -> list[Purpose]:
    return [stage.purpose for stage in world.plan().stages]


# ── failures ─────────────────────────────────────────────────────────────


def refused(
    world: UnitedWorld, purpose: Purpose, why: str = "no", *, of: Plan | None = None
) -> dict[str, Any]:
    """The status after the first write of this stage was refused. `of`: the plan; by default the current one."""
    result = refused_or_none(world, purpose, why, of=of)
    assert result is not None
    return result


def refused_or_none(
    world: UnitedWorld, purpose: Purpose, why: str = "no", *, of: Plan | None = None
) -> dict[str, Any] | None:
    plan = of or world.plan()
    stage = next(stage for stage in plan.stages if stage.purpose == purpose)
    chain = stage.chains[0]
    error = ForbiddenError(ErrorStatus(code=403, reason="Forbidden", message=why))
    return compute_status_after(
        world.snapshot(), plan, Failure(purpose, chain.subject, chain.steps[0], error)
    )


def test_a_refused_workload_is_reported_in_the_status() -> None:
    """uniteddeployment case 45"""
    world = UnitedWorld("a", "b", replicas=2)
    result = refused(world, Purpose.CREATE_WORKLOADS, "webhook said no")
    (condition,) = [
        condition for condition in result["conditions"] if condition["type"] == "SubsetProvisioned"
    ]
    assert (condition["status"], condition["reason"]) == ("False", "Error")
    assert "webhook said no" in condition["message"]
    assert result.get("observedGeneration", 0) == 0
    world.document["status"] = result
    world.settle()
    assert world.condition("SubsetProvisioned")["status"] == "True"
    assert world.status["observedGeneration"] == 1


def test_a_refused_write_is_a_warning() -> None:
    # given all changes in one plan: a new subset, a removed subset, a subset that stays, and another template
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


def test_a_workload_that_cannot_be_updated_is_reported_in_the_status() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle().set_image("nginx:2")
    result = refused(world, Purpose.UPDATE_WORKLOADS, "no")
    (condition,) = [condition for condition in result["conditions"] if condition["type"] == "SubsetUpdated"]
    assert condition["status"] == "False"
    assert condition["message"].startswith("subset a: ")


def test_a_refused_write_without_a_condition_is_reported_without_the_generation() -> None:
    world = UnitedWorld("a", replicas=2).settle()
    before = world.status
    world.set_image("nginx:2")
    result = refused(world, Purpose.STORE_REVISION)
    plan = world.plan()
    assert plan.status is not None
    assert result == {**plan.status, "observedGeneration": before["observedGeneration"]}
    assert result["updatedRevision"] != before["updatedRevision"]


def test_a_refused_write_is_reported_again_when_the_status_is_stored_already() -> None:
    """The message is the error at each retry."""
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
    # when there is one revision too many
    world.change(revisionHistoryLimit=0)
    plan = world.plan()
    # then the generation is not observed yet
    assert refused(world, Purpose.TRUNCATE_REVISIONS, of=plan)["observedGeneration"] == before
    # and later there is nothing to report
    world.document["status"] = plan.status
    assert world.plan().status is None
    assert refused_or_none(world, Purpose.TRUNCATE_REVISIONS) is None


def test_a_write_that_is_refused_before_there_is_a_status_is_in_the_first_one() -> None:
    world = UnitedWorld("a", replicas=1)
    plan = msgspec.structs.replace(world.plan(), status=None)
    result = refused(world, Purpose.CREATE_WORKLOADS, of=plan)
    assert [condition["type"] for condition in result["conditions"]] == ["SubsetProvisioned"]


def test_a_subset_that_is_being_updated_counts_as_updated_until_one_fails() -> None:
    """The stored status has no conditions yet."""
    world = UnitedWorld("a", replicas=1).settle()
    world.document["status"]["conditions"] = []
    world.change(replicas=2)
    assert purposes(world) == [Purpose.GROW_WORKLOADS]
    world.carry_out(world.plan())
    assert world.condition("SubsetUpdated")["status"] == "True"


def test_an_unreadable_united_deployment_is_not_changed() -> None:
    world = UnitedWorld("a", replicas=2).settle()
    world.change(replicas="many")
    plan = world.plan()
    assert not list(plan.steps)
    assert plan.status is None
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    assert [(note.reason, note.warning) for note in plan.notes] == [(Code.INVALID_SPEC, True)]


def test_the_controller_waits_without_the_crd_of_its_workloads() -> None:
    world = UnitedWorld("a", replicas=2)
    world.unserved = {CLONE_SET}
    plan = world.plan()
    assert not list(plan.steps)
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NO_TARGET


def test_a_terminating_united_deployment_is_not_changed() -> None:
    """uniteddeployment case 63"""
    world = UnitedWorld("a", replicas=2)
    world.document["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert world.plan().is_settled


def test_a_selector_of_expressions_alone_gets_labels_for_the_subset() -> None:
    """uniteddeployment case 64"""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    world = UnitedWorld("a", replicas=1, selector=selector).sync()
    assert world.of("a")["spec"]["selector"] == {**selector, "matchLabels": {SUBSET_LABEL: "a"}}
