"""Subsets that find no nodes, and their pods in reserve: the tables of the specification."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from pykruise.kinds.uniteddeployment.schedulability import (
    SchedulabilityVerdict,
    judge_subsets,
    passed_over_of,
)
from pykruise.kinds.uniteddeployment.snapshot import UNITED_VIEWS
from pykruise.kinds.uniteddeployment.types import SubsetStatus
from pykruise.kinds.uniteddeployment.workloads import (
    CLONE_SET,
    RESERVED_LABEL,
    REVISION_LABEL,
    SubsetWorkload,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.uniteddeployments import united_document

NOW = parse_time("2026-01-31T12:00:00Z")
CRITICAL_S, READY_S = 30, 60
TARGET, OLD = "web-new", "web-old"
RUNNING: Mapping[str, Any] = {"label": "true", "phase": "Running", "is_ready": True, "ready_s": 100}
PENDING: Mapping[str, Any] = {"label": "false", "phase": "Pending", "finds_node": False, "age_s": 100}


def pod(
    name: str = "p",
    *,
    label: str | None = "false",
    revision: str = TARGET,
    phase: str = "Running",
    is_ready: bool = False,
    ready_s: float | None = None,
    age_s: float | None = 1000,
    finds_node: bool = True,
) -> PodView:
    """A pod of this age, which has been ready for `ready_s` seconds. None: the pod does not show that time."""
    ready: dict[str, Any] = {"type": "Ready", "status": str(is_ready)}
    if ready_s is not None:
        ready["lastTransitionTime"] = format_time(NOW - ready_s)
    scheduled = {"type": "PodScheduled", "status": str(finds_node), "reason": "Unschedulable"}
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"}
    if age_s is not None:
        metadata["creationTimestamp"] = format_time(NOW - age_s)
    labels = {REVISION_LABEL: revision, **({} if label is None else {RESERVED_LABEL: label})}
    document = {
        "metadata": {**metadata, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        "status": {"phase": phase, "conditions": [ready, scheduled]},
    }
    return project_pod(orjson.dumps(document))


def closed(reason: str = "reschedule", status: str = "False") -> PlainCondition:
    return PlainCondition(
        type="Schedulable", status=status, reason=reason, last_transition_time=format_time(NOW - 500)
    )


def judged(
    *pods: PodView,
    condition: PlainCondition | None = None,
    replicas: int | None = None,
    partition: int = 0,
    updating_s: float | None = 1000,
) -> SchedulabilityVerdict:
    """Verdict on subset a in reserve mode, whose update began `updating_s` seconds ago.
    `replicas`: by default the number of pods."""
    adaptive = {
        "reserveUnschedulablePods": True,
        "rescheduleCriticalSeconds": CRITICAL_S,
        "unschedulableDuration": READY_S,
    }
    document = united_document(CLONE_SET, [{"name": "a"}])
    document["metadata"] |= {"namespace": "shop", "uid": "ud", "resourceVersion": "1"}
    document["spec"]["topology"]["scheduleStrategy"] = {"type": "Adaptive", "adaptive": adaptive}
    document["spec"]["updateStrategy"] = {"manualUpdate": {"partitions": {"a": partition}}}
    workload = SubsetWorkload(
        template=CLONE_SET,
        namespace="shop",
        name="web-a",
        uid="uid-a",
        resource_version=1,
        replicas=len(pods) if replicas is None else replicas,
    )
    return judge_subsets(
        UNITED_VIEWS.project(orjson.dumps(document)).spec,
        {"a": workload},
        {"uid-a": pods},
        {"a": SubsetStatus(name="a", conditions=None if condition is None else [condition])},
        target=TARGET,
        updating_since=None if updating_s is None else NOW - updating_s,
        now=NOW,
    )


def due_in_s(verdict: SchedulabilityVerdict) -> float | None:
    return None if verdict.due is None else verdict.due - NOW


@pytest.mark.parametrize(
    ("given", "due_s"),
    [
        ({"label": "false"}, None),
        ({"label": None}, None),
        ({**RUNNING, "ready_s": READY_S}, None),
        ({**PENDING, "age_s": CRITICAL_S - 1}, 1),
        ({**PENDING, "age_s": None}, CRITICAL_S),
        ({**PENDING, "finds_node": True}, None),
    ],
)
def test_a_working_pod_is_neither_reserved_nor_unschedulable(
    given: Mapping[str, Any], due_s: float | None
) -> None:
    verdict = judged(pod(**given))
    assert verdict.reserved == {"a": 0}
    assert not verdict.unschedulable
    assert due_in_s(verdict) == due_s
    assert [value for _, value in verdict.labels.values()] == (["false"] if given["label"] != "false" else [])


@pytest.mark.parametrize(
    ("given", "due_s"),
    [
        ({**RUNNING, "ready_s": READY_S - 1}, 1),
        ({**RUNNING, "ready_s": None}, READY_S),
        ({**RUNNING, "is_ready": False}, READY_S),
        ({**RUNNING, "revision": OLD}, READY_S),
        ({**RUNNING, "phase": "Pending"}, READY_S),
        ({**PENDING, "age_s": CRITICAL_S}, READY_S),
    ],
)
def test_a_pod_is_in_reserve(given: Mapping[str, Any], due_s: float) -> None:
    """uniteddeployment cases 52 and 53"""
    verdict = judged(pod(**given))
    assert verdict.reserved == {"a": 1}
    assert verdict.unschedulable == {"a"}
    assert due_in_s(verdict) == due_s
    assert [value for _, value in verdict.labels.values()] == (["true"] if given["label"] != "true" else [])


def test_a_new_pod_of_a_subset_that_found_no_nodes_begins_in_reserve() -> None:
    """uniteddeployment case 54"""
    verdict = judged(pod(label=None, is_ready=True, ready_s=100), condition=closed())
    assert verdict.reserved == {"a": 1}
    assert due_in_s(verdict) == READY_S


@pytest.mark.parametrize(
    ("updating_s", "reserved", "due_s"),
    [(CRITICAL_S - 1, 0, 1), (CRITICAL_S, 1, READY_S), (None, 0, CRITICAL_S)],
)
def test_a_pod_whose_update_takes_too_long_is_in_reserve(
    updating_s: float | None, reserved: int, due_s: float
) -> None:
    verdict = judged(pod(revision=OLD), updating_s=updating_s)
    assert verdict.reserved == verdict.update_timeouts == {"a": reserved}
    assert due_in_s(verdict) == due_s


@pytest.mark.parametrize(("updating_s", "late"), [(CRITICAL_S - 1, 0), (CRITICAL_S, 1)])
def test_a_pod_that_was_in_reserve_before_the_update_is_late_only_after_its_time(
    updating_s: float, late: int
) -> None:
    verdict = judged(pod(label="true", revision=OLD), updating_s=updating_s)
    assert verdict.reserved == {"a": 1}
    assert verdict.update_timeouts == {"a": late}


@pytest.mark.parametrize(
    ("partition", "late"),
    [
        (4, set()),
        (3, {"broken"}),
        (2, {"broken", "undated"}),
        (1, {"broken", "undated", "young"}),
        (0, {"broken", "undated", "young", "elder"}),
        (8, set()),
    ],
)
def test_a_partition_keeps_pods_that_are_ready_and_the_oldest(partition: int, late: set[str]) -> None:
    """uniteddeployment case 57"""
    ready: dict[str, Any] = {"revision": OLD, "is_ready": True, "ready_s": 10}
    verdict = judged(
        pod("elder", age_s=200, **ready),
        pod("undated", age_s=None, **ready),
        pod("young", age_s=100, **ready),
        pod("broken", age_s=300, revision=OLD),
        partition=partition,
    )
    assert {name for name, (_, value) in verdict.labels.items() if value == "true"} == late


def test_the_requeue_is_for_the_first_pod_to_become_overdue() -> None:
    verdict = judged(pod("a", **{**RUNNING, "ready_s": 10}), pod("b", **{**RUNNING, "ready_s": 20}))
    assert due_in_s(verdict) == READY_S - 20


# ── the condition ────────────────────────────────────────────────────────


def test_a_subset_whose_pods_all_work_finds_nodes() -> None:
    verdict = judged(pod(), condition=closed())
    assert verdict.were_unschedulable == {"a"}
    assert not verdict.unschedulable
    assert (verdict.conditions["a"].status, verdict.conditions["a"].reason) == ("True", "reschedule")


def test_replicas_without_a_pod_yet_are_expected_in_reserve_where_the_subset_found_no_nodes() -> None:
    before = closed("created")
    verdict = judged(pod(), replicas=3, condition=before)
    assert verdict.unborn == {"a": 2}
    assert verdict.unschedulable == {"a"}
    assert verdict.conditions == {"a": before}


def test_a_subset_with_reserved_pods_is_unschedulable_while_others_must_be_created() -> None:
    verdict = judged(pod(label="true"), replicas=3, condition=closed("created"))
    assert (verdict.unborn, verdict.reserved) == ({"a": 2}, {"a": 1})
    assert (verdict.conditions["a"].status, verdict.conditions["a"].reason) == ("False", "reschedule")


def test_pods_beyond_the_replicas_leave_no_pod_to_create() -> None:
    assert judged(pod("a"), pod("b"), replicas=1, condition=closed()).unborn == {"a": 0}


@pytest.mark.parametrize("condition", [None, closed(status="True")])
def test_replicas_without_a_pod_yet_are_nothing_special_elsewhere(condition: PlainCondition | None) -> None:
    verdict = judged(replicas=2, condition=condition)
    assert verdict.unborn == {"a": 0}
    assert not verdict.unschedulable


@pytest.mark.parametrize(
    ("conditions", "is_it"),
    [
        (None, False),
        ([closed(status="True")], False),
        ([closed()], True),
        ([PlainCondition(type="Other", status="False")], False),
    ],
)
def test_a_subset_with_an_unschedulable_condition_is_skipped(
    conditions: list[PlainCondition] | None, is_it: bool
) -> None:
    assert (passed_over_of(SubsetStatus(name="a", conditions=conditions)) is not None) == is_it
