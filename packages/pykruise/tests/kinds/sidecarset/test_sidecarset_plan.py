"""Whole plans: the waits of a SidecarSet, the number of writes in one plan, and events about failures."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.plan import plan_sidecarset
from pykruise.kinds.sidecarset.refusals import learn
from pykruise.kinds.sidecarset.snapshot import Refusals, SelectedPod, UpgradeRefusal
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import ErrorStatus, ForbiddenError
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import AT_REST, Code
from pykruise.pods.view.decoding import project_pod
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Plan
from support.sidecar_world import SidecarWorld, upgraded
from support.sidecarsets import container, hot, pod, sidecarset

HASH = "kruise.io/sidecarset-hash"


def started(*containers: Document, pods: int = 2, **strategy: Any) -> SidecarWorld:
    """A settled SidecarSet with this many pods."""
    sidecar_world = SidecarWorld(
        sidecarset("log", *(containers or [container("log")]), updateStrategy=strategy)
    )
    sidecar_world.add(pods)
    sidecar_world.settle()
    return sidecar_world


def waits_for(world: SidecarWorld) -> str | None:
    waiting = world.plan().waiting
    return waiting.code if waiting is not None else None


# ── waits ────────────────────────────────────────────────────────────────────


def test_a_settled_sidecarset_waits_for_nothing_whether_its_pods_are_ready_or_not() -> None:
    world = started()
    assert waits_for(world) is None
    world.runs("web-0", failing=("main",))
    assert waits_for(world) is None


def test_an_upgrade_waits_for_pods_and_then_for_their_sidecars() -> None:
    world = started()
    world.change(container("log", "log:2"), updateStrategy={"maxUnavailable": 2})
    assert waits_for(world) == Code.UPDATING
    world.round()
    assert waits_for(world) == Code.UPDATING_IN_PLACE
    world.run_all()
    assert waits_for(world) is None


def test_an_exhausted_budget_makes_the_upgrade_wait() -> None:
    world = started()
    world.change(container("log", "log:2"))
    assert waits_for(world) == Code.BUDGET


@pytest.mark.parametrize("strategy", [{"partition": 2}, {"paused": True}, {"type": "NotUpdate"}])
def test_an_upgrade_held_by_its_strategy_is_at_rest(strategy: Document) -> None:
    """Sidecars that do not run in such a pod do not matter."""
    world = started()
    world.change(container("log", "log:2"), updateStrategy=strategy)
    world.edit("web-0", lambda pod: pod["status"].pop("containerStatuses"))
    assert waits_for(world) in AT_REST


def test_the_cause_is_named_before_what_follows_from_it() -> None:
    # given a pod without its record, one with an annotation that cannot be merged, and a third pod
    entry = {"annotations": {"oom": '{"log":1}'}, "patchPolicy": "MergePatchJson"}
    world = SidecarWorld(sidecarset("log", container("log"), patchPodMetadata=[entry]))
    world.add(3)
    world.settle()
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].pop(f"{HASH}-without-image"))
    world.edit("web-1", lambda pod: pod["metadata"]["annotations"].update(oom="abc"))
    world.change(container("log", "log:2"), updateStrategy={"maxUnavailable": 2})
    # then
    plan = world.plan()
    assert {name: reason.code for name, reason in plan.skipped.items()} == {
        "shop/web-0": Code.NOT_IN_PLACE,
        "shop/web-1": Code.BROKEN_UPDATE,
    }
    assert upgraded(plan) == ["web-2"]
    assert waits_for(world) == Code.BROKEN_UPDATE


def test_pods_with_the_newest_sidecars_are_not_reported_as_skipped() -> None:
    world = started()
    world.change(container("log", "log:2"))
    world.settle()
    world.change(updateStrategy={"paused": True})
    assert world.plan().skipped == {}


# ── specs that were stored without admission ─────────────────────────────────


def test_a_selector_that_cannot_be_read_leaves_all_pods_alone() -> None:
    # given pods of an earlier snapshot
    world = started()
    pods = world.snapshot().pods
    world.doc["spec"]["selector"] = {"matchExpressions": [{"key": "a", "operator": "Nope"}]}
    # when
    plan = plan_sidecarset(msgspec.structs.replace(world.snapshot(), pods=pods))
    # then
    assert not plan.stages
    assert [(note.reason, note.warning) for note in plan.notes] == [("InvalidSpec", True)]
    assert plan.waiting is not None
    assert plan.waiting.code == Code.INVALID_SPEC
    assert {name: reason.code for name, reason in plan.skipped.items()} == {
        "shop/web-0": Code.INVALID_SPEC,
        "shop/web-1": Code.INVALID_SPEC,
    }


def test_a_strategy_that_cannot_be_executed_upgrades_nothing() -> None:
    world = started()
    world.change(container("log", "log:2"), updateStrategy={"maxUnavailable": "abc%"})
    plan = world.plan()
    assert upgraded(plan) == []
    assert [(note.reason, note.warning) for note in plan.notes] == [("InvalidSpec", True)]
    assert {reason.code for reason in plan.skipped.values()} == {Code.INVALID_SPEC}


def test_pods_are_upgraded_one_by_one_without_a_strategy() -> None:
    world = started()
    world.change(container("log", "log:2"))
    world.doc["spec"].pop("updateStrategy")
    assert upgraded(world.plan()) == ["web-0"]


# ── the number of writes ─────────────────────────────────────────────────────


def many(world: SidecarWorld, pods: int) -> Plan:
    """The plan for `pods` pods like web-0, and one that cannot be upgraded."""
    model = world.managed()["web-0"]
    all_pods = [*(_like(model, number) for number in range(pods)), _like(model, pods, upgradable="no")]
    return plan_sidecarset(msgspec.structs.replace(world.snapshot(), pods=all_pods))


def _like(model: ManagedPod, number: int, **facts: Any) -> ManagedPod:
    name = f"web-{number:04}"
    view = msgspec.structs.replace(model.pod, name=name, uid=name)
    return msgspec.structs.replace(model, pod=view, **facts)


def written(plan: Plan, purpose: str) -> int:
    return sum(len(stage.chains) for stage in plan.stages if stage.purpose == purpose)


@pytest.mark.parametrize(
    ("pods", "expected", "again"),
    [(MOST_AT_ONCE + 1, MOST_AT_ONCE, 0.0), (MOST_AT_ONCE, MOST_AT_ONCE, 0.0), (2, 2, None)],
)
def test_a_plan_upgrades_a_limited_number_of_pods_and_is_followed_by_the_next(
    pods: int, expected: int, again: float | None
) -> None:
    world = started(pods=1)
    world.change(container("log", "log:2"), updateStrategy={"maxUnavailable": 10_000})
    plan = many(world, pods)
    assert written(plan, Purpose.UPGRADE_SIDECARS) == expected
    assert plan.requeue_after_s == again


def test_a_plan_ends_a_limited_number_of_hot_upgrades() -> None:
    world = started(hot("mesh"), pods=1)
    world.change(hot("mesh", "mesh:2"))
    world.round()
    world.run_all()
    plan = many(world, MOST_AT_ONCE + 1)
    assert written(plan, Purpose.END_HOT_UPGRADES) == MOST_AT_ONCE
    assert plan.requeue_after_s == 0.0


def test_failing_optional_conditions_are_not_retried_immediately() -> None:
    """Optional writes never requeue immediately."""
    world = started(pods=1)
    world.change(container("log", env=[{"name": "A", "value": "b"}]))
    plan = many(world, MOST_AT_ONCE)
    assert written(plan, Purpose.SET_CONDITIONS) == MOST_AT_ONCE + 1
    assert plan.requeue_after_s is None


# ── events about writes ──────────────────────────────────────────────────────


def failures(plan: Plan, purpose: str) -> Sequence[tuple[str, bool]]:
    steps = [
        step
        for stage in plan.stages
        if stage.purpose == purpose
        for chain in stage.chains
        for step in chain.steps
    ]
    return [(step.failed.reason, step.failed.warning) for step in steps if step.failed is not None]


def test_writes_that_fail_are_warnings() -> None:
    """section 7.4"""
    world = started(hot("mesh"), pods=1)
    world.change(hot("mesh", "mesh:2"))
    world.round()
    world.run_all()
    assert failures(world.plan(), Purpose.END_HOT_UPGRADES) == [("ResetContainerFailed", True)]


class Memory(msgspec.Struct):
    """The memory of a SidecarSet's snapshots, and the time."""

    now_s: float = 0.0
    refusals: Refusals = msgspec.field(default_factory=Refusals)

    def now(self) -> float:
        return self.now_s

    def find_memory(self, _: type[Refusals]) -> Refusals:
        return self.refusals


def refused(
    world: SidecarWorld, memory: Memory, message: str = "the budget allows no more"
) -> UpgradeRefusal:
    """Let the first write of the plan be refused. Returns the remembered refusal."""
    snapshot, plan = world.snapshot(), world.plan()
    stage = plan.stages[0]
    error = ForbiddenError(ErrorStatus(code=403, message=message))
    failure = Failure(stage.purpose, stage.chains[0].subject, stage.chains[0].steps[0], error)
    learn(memory, snapshot, [failure])  # type: ignore[arg-type]  # as much of a Read as it needs
    assert memory.refusals.last is not None
    return memory.refusals.last


def test_a_refused_write_is_retried_with_backoff_until_one_succeeds() -> None:
    world, memory = started(pods=3), Memory()
    world.change(container("log", "log:2"))
    world.round()
    world.run_all()
    assert [round(refused(world, memory).again_at) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    # when a pod is upgraded between two of them
    world.round()
    world.run_all()
    assert refused(world, memory).again_at == 1
    # or the spec changes
    refused(world, memory)
    world.change(container("log", "log:3"))
    assert refused(world, memory).again_at == 1


def test_nothing_is_written_before_the_retry_of_a_refused_write_and_one_event_reports_it() -> None:
    # given
    world = started(pods=2)
    world.change(container("log", "log:2"))
    refusal = refused(world, Memory(now_s=world.now))
    # when
    plan = plan_sidecarset(msgspec.structs.replace(world.snapshot(), refusal=refusal))
    # then
    assert (plan.stages, plan.requeue_after_s) == ((), 1)
    assert plan.waiting == refusal.reason
    assert set(plan.skipped) == {"shop/web-0", "shop/web-1"}
    (note,) = plan.notes
    assert (note.reason, note.warning, note.again_after_s) == ("FailedUpgradeSidecar", True, 300)
    assert "the budget allows no more" in note.message


def test_a_condition_that_cannot_be_written_blocks_nothing() -> None:
    world = started()
    world.change(container("log", env=[{"name": "A", "value": "b"}]))
    (stage,) = (stage for stage in world.plan().stages if stage.purpose == Purpose.SET_CONDITIONS)
    assert stage.is_optional
    assert stage.regardless


# ── pods without its sidecars ────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"creationTimestamp": "2020-01-01T00:00:00Z"}, Code.NOT_INJECTED),
        ({"creationTimestamp": "2099-01-01T00:00:00Z"}, Code.NOT_INJECTED),
        ({"namespace": "kube-system"}, Code.NOT_INJECTED),
        ({"annotations": {"kruise.io/sidecarset-injected-list": "next"}}, Code.CANARY),
    ],
)
def test_a_selected_pod_without_sidecars_is_skipped_with_the_reason(
    metadata: dict[str, Any], code: Code
) -> None:
    world = started()
    snapshot = msgspec.structs.replace(world.snapshot(), canaries=("next",))
    bare = {"uid": "u", "resourceVersion": "1", "namespace": "shop", **metadata}
    old = project_pod(encode(pod(name="old", metadata=bare)))
    skipped = plan_sidecarset(msgspec.structs.replace(snapshot, selected=[SelectedPod(pod=old)])).skipped
    assert {label: reason.code for label, reason in skipped.items()} == {f"{bare['namespace']}/old": code}


def test_a_pod_with_its_sidecars_is_not_one_without() -> None:
    world = started()
    selected = [SelectedPod(pod=managed.pod) for managed in world.snapshot().pods]
    assert plan_sidecarset(msgspec.structs.replace(world.snapshot(), selected=selected)).skipped == {}
