"""Stages at the beginning and the end of each plan of a workload."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.clock import parse_time
from pykruise.kube.schemas.types import Count, PlainCondition, Status
from pykruise.plans.phases import PlanPhase
from pykruise.plans.workload_frame import build_changed_status, requeue_after, set_mismatch
from pykruise.pods.view import keys
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.actions import Patch
from support.cloneset_builder import CloneSetBuilder, cloneset

NOW = parse_time("2026-01-31T12:00:00Z")


class Counted(Status, frozen=True, kw_only=True):
    replicas: Count = 0
    ready: int = 0


def workload(**status: Any) -> WorkloadView:
    return WorkloadView(namespace="shop", name="web", uid="u", resource_version=5, stored_status=status)


@pytest.mark.parametrize(
    ("stored", "status", "zeros", "expected"),
    [
        ({}, None, (), None),
        ({"replicas": 2}, Counted(replicas=2), (), None),
        ({"replicas": 1}, Counted(replicas=2), (), {"replicas": 2}),
        ({"replicas": 0}, Counted(), ("ready",), {"replicas": 0, "ready": 0}),
        ({"replicas": 0, "ready": 0}, Counted(), ("ready",), None),
        ({}, Counted(ready=3), ("ready",), {"replicas": 0, "ready": 3}),
    ],
)
def test_a_status_is_written_when_it_is_another_one(
    stored: dict[str, int], status: Status | None, zeros: tuple[str, ...], expected: dict[str, int] | None
) -> None:
    assert build_changed_status(workload(**stored), status, zeros=zeros) == expected


@pytest.mark.parametrize(
    ("phases", "further", "expected"),
    [
        ([], [], None),
        ([PlanPhase()], [None], None),
        ([PlanPhase(look_at=NOW + 5), PlanPhase(look_at=NOW + 3)], [NOW + 4], 3.0),
        ([PlanPhase(look_at=NOW + 5)], [NOW + 4, None], 4.0),
        ([PlanPhase(look_at=NOW - 5)], [], 0.0),
        ([PlanPhase(), PlanPhase(is_partial=True)], [NOW + 4], 0.0),
    ],
    ids=["nothing", "no time", "a phase", "another time", "it has come", "there is more to write"],
)
def test_a_plan_is_requeued_for_the_first_change_by_time_alone(
    phases: list[PlanPhase], further: list[float | None], expected: float | None
) -> None:
    assert requeue_after(iter(phases), *further, now=NOW) == expected


def test_while_the_selector_guard_holds_nothing_is_waited_for() -> None:
    assert [condition.type for condition in set_mismatch(None, "why", now=NOW)] == ["SelectorMismatch"]
    # given other conditions, and an older one of the guard
    stored = [
        PlainCondition(type=kind, status="True", last_transition_time="2026-01-01T00:00:00Z")
        for kind in ("Waiting", "FailedUpdatePod", "SelectorMismatch")
    ]
    conditions = set_mismatch(stored, "why", now=NOW)
    # then
    assert [condition.type for condition in conditions] == ["FailedUpdatePod", "SelectorMismatch"]
    assert conditions[1].message == "why"
    assert msgspec.to_builtins(conditions[1])["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "builder",
    [
        cloneset(3).terminating(),
        cloneset(3).with_rolling(partition="abc"),
        cloneset(3).with_spec(replicas="many"),
        cloneset(3).managed_by({"matchLabels": {"app": "other"}}),
    ],
    ids=["terminating", "invalid", "unreadable", "another selector"],
)
def test_a_pod_that_starts_gets_its_missing_conditions_in_every_case(builder: CloneSetBuilder) -> None:
    """Otherwise it would never become ready: no other controller writes the conditions of a workload's pods."""
    # given a new pod, a pod that an update holds back, and a pod without a node
    for kind in (keys.IN_PLACE_READY, keys.KRUISE_POD_READY):
        builder.set_condition("a", kind, None)
    builder.set_condition("b", keys.IN_PLACE_READY, "False")
    builder.unscheduled("c")
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    (step,) = plan.steps
    assert isinstance(step.action, Patch)
    assert (step.action.key.name, step.action.subresource) == (builder.pod_name("a"), "status")
    conditions = step.action.body["status"]["conditions"]
    assert [(entry["type"], entry["status"]) for entry in conditions] == [
        (keys.IN_PLACE_READY, "True"),
        (keys.KRUISE_POD_READY, "True"),
    ]
