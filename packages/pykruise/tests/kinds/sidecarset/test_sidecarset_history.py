"""Revisions of a SidecarSet that a plan stores and deletes."""

from collections.abc import Mapping

import pytest

from pykruise.kinds.sidecarset.view import project_sidecarset
from pykruise.kube.documents import encode
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Plan, Stage
from support.sidecar_world import SidecarWorld
from support.sidecarsets import container, sidecarset

HASH = "kruise.io/sidecarset-hash"
VERSION = "apps.kruise.io/sidecarset-custom-version"


def world_of(revisions: int, *, pods: int = 0, **spec: object) -> SidecarWorld:
    """A settled SidecarSet with `revisions` revisions; its pods need only the last one."""
    sidecar_world = SidecarWorld(sidecarset("log", container("log", "log:0")))
    sidecar_world.add(pods)
    sidecar_world.settle()
    for number in range(1, revisions):
        sidecar_world.change(container("log", f"log:{number}"))
        sidecar_world.carry_out(sidecar_world.plan())
    sidecar_world.doc["spec"].update(spec)
    return sidecar_world


def stages(plan: Plan, purpose: Purpose) -> list[Stage]:
    return [stage for stage in plan.stages if stage.purpose == purpose]


def forgotten(plan: Plan) -> int:
    """Number of revisions that the plan deletes."""
    return sum(len(stage.chains) for stage in stages(plan, Purpose.TRUNCATE_REVISIONS))


def labels_of(plan: Plan) -> Mapping[str, str]:
    """Labels of the revision that the plan stores."""
    (step,) = (step for step in plan.steps if isinstance(step.action, Create))
    labels: Mapping[str, str] = step.action.body["metadata"]["labels"]
    return labels


@pytest.mark.parametrize(("version", "labels"), [("v1", {VERSION: "v1"}), ("", {})])
def test_a_revision_carries_the_version_that_its_owner_gave_it(version: str, labels: dict[str, str]) -> None:
    """section 6.7"""
    world = SidecarWorld(sidecarset("log", container("log"), customVersion=version))
    result = labels_of(world.plan())
    assert {key: value for key, value in result.items() if key == VERSION} == labels


def test_a_revision_that_cannot_be_stored_is_a_warning() -> None:
    world = SidecarWorld(sidecarset("log", container("log")))
    (stage,) = stages(world.plan(), Purpose.STORE_SIDECAR_REVISION)
    (step,) = (step for chain in stage.chains for step in chain.steps)
    assert step.failed is not None
    assert (step.failed.reason, step.failed.warning) == ("FailedCreateRevision", True)


def test_a_name_that_was_taken_is_remembered() -> None:
    """section 6.7: the collision count is part of the name"""
    # given
    world = SidecarWorld(sidecarset("log", container("log")))
    first = world.plan().status
    # when
    world.status = {"collisionCount": 2}
    second = world.plan().status
    # then
    assert first is not None
    assert second is not None
    assert (first["collisionCount"], second["collisionCount"]) == (0, 2)
    assert first["latestRevision"] != second["latestRevision"]
    assert (
        second["latestRevision"]
        == project_sidecarset(
            encode({**world.doc, "metadata": {**world.doc["metadata"], "uid": "u"}, "status": world.status})
        ).contents.revision
    )  # type: ignore[union-attr]


# ── those beyond the limit ───────────────────────────────────────────────────


@pytest.mark.parametrize(("limit", "expected"), [(10, 2), (11, 1), (12, 0), (None, 2)])
def test_ten_revisions_are_kept_by_default(limit: int | None, expected: int) -> None:
    """sidecarset case 1, also for a SidecarSet that was stored without defaults"""
    world = world_of(12, revisionHistoryLimit=20)
    world.doc["spec"]["revisionHistoryLimit"] = limit
    plan = world.plan()
    assert forgotten(plan) == expected
    assert all(stage.is_optional for stage in stages(plan, Purpose.TRUNCATE_REVISIONS))


def test_nothing_is_forgotten_until_the_newest_is_stored() -> None:
    world = world_of(3, revisionHistoryLimit=1)
    world.change(container("log", "log:new"))
    plan = world.plan()
    assert (len(stages(plan, Purpose.STORE_SIDECAR_REVISION)), forgotten(plan)) == (1, 0)
    world.carry_out(plan)
    assert forgotten(world.plan()) == 3


def test_a_pod_without_a_record_keeps_no_revision() -> None:
    """A user removed its annotation."""
    world = world_of(1, pods=1)
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].pop(HASH))
    world.change(container("log", "log:new"), revisionHistoryLimit=1, updateStrategy={"paused": True})
    world.round()
    assert forgotten(world.plan()) == 1


def test_a_selected_but_missing_revision_keeps_no_other() -> None:
    choice = {"revision": {"customVersion": "v9"}}
    world = world_of(3, revisionHistoryLimit=1, injectionStrategy=choice)
    assert forgotten(world.plan()) == 2
