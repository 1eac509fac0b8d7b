"""Snapshots of UnitedDeployments, and of the objects around them."""

import copy
from typing import Any

import orjson
import pytest

from pykruise.kinds.uniteddeployment.allocation import Mode
from pykruise.kinds.uniteddeployment.snapshot import (
    UNITED_VIEWS,
    UnitedView,
    list_given_templates,
)
from pykruise.kinds.uniteddeployment.workload_documents import format_workload_name
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET, DEPLOYMENT, STATEFUL_SET, SUBSET_LABEL
from pykruise.kube.clock import format_time
from support.united_world import NOW, UID, UnitedWorld
from support.uniteddeployments import template_of, united_document

Document = dict[str, Any]


def seen(**spec: Any) -> UnitedView:
    """View of a UnitedDeployment with a selector, a CloneSet template and these fields of the spec."""
    document = united_document(CLONE_SET, [])
    document["metadata"] |= {"namespace": "shop", "uid": UID, "resourceVersion": "1"}
    document["spec"].pop("topology")
    document["spec"] |= spec
    return UNITED_VIEWS.project(orjson.dumps(document))


# ── the spec ─────────────────────────────────────────────────────────────


def test_an_empty_spec_has_defaults() -> None:
    view = seen()
    assert (view.template, view.spec.mode) == (CLONE_SET, Mode.FIXED)
    assert list(view.spec.subsets) == []
    assert view.spec.partition_of("a") == 0


@pytest.mark.parametrize(
    ("template", "field"),
    [
        (None, ""),
        ({}, ""),
        ({STATEFUL_SET: None, **template_of(CLONE_SET)}, CLONE_SET),
        ({**template_of(STATEFUL_SET), **template_of(CLONE_SET)}, ""),
    ],
)
def test_exactly_one_template_counts(template: Any, field: str) -> None:
    """uniteddeployment case 4"""
    assert seen(template=template).template == field


def test_a_template_without_a_spec_has_an_empty_one() -> None:
    template: Document = {CLONE_SET: {"metadata": {}, "spec": None}}
    assert list_given_templates(seen(template=template).spec) == {CLONE_SET: {"metadata": {}, "spec": {}}}


@pytest.mark.parametrize("template", [{CLONE_SET: {}}, {CLONE_SET: "text"}, "text"])
def test_a_template_of_another_shape_cannot_be_read(template: Any) -> None:
    view = seen(template=template)
    assert view.spec is None
    assert "spec.template" in view.problem
    assert view.template == ""


@pytest.mark.parametrize(
    ("topology", "mode"),
    [
        ({}, Mode.FIXED),
        ({"scheduleStrategy": None}, Mode.FIXED),
        ({"scheduleStrategy": {}}, Mode.FIXED),
        ({"scheduleStrategy": {"type": "Fixed"}}, Mode.FIXED),
        ({"scheduleStrategy": {"adaptive": {"reserveUnschedulablePods": True}}}, Mode.FIXED),
        ({"scheduleStrategy": {"type": "Adaptive"}}, Mode.ADAPTIVE),
        ({"scheduleStrategy": {"type": "Adaptive", "adaptive": {}}}, Mode.ADAPTIVE),
        (
            {"scheduleStrategy": {"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": True}}},
            Mode.RESERVE,
        ),
    ],
)
def test_pods_are_reserved_only_by_the_adaptive_strategy(topology: Document, mode: Mode) -> None:
    assert seen(topology=topology).spec.mode is mode


@pytest.mark.parametrize(
    ("adaptive", "seconds"),
    [
        (None, (30, 300)),
        ({}, (30, 300)),
        ({"rescheduleCriticalSeconds": 0, "unschedulableDuration": 0}, (0, 0)),
        ({"rescheduleCriticalSeconds": 7, "unschedulableDuration": 8}, (7, 8)),
        ({"rescheduleCriticalSeconds": -7, "unschedulableDuration": -8}, (0, 0)),
    ],
)
def test_seconds_have_defaults_and_are_not_below_0(adaptive: Any, seconds: tuple[int, int]) -> None:
    """LIFT-4"""
    view = seen(topology={"scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive}})
    assert (view.spec.critical_s, view.spec.unschedulable_s) == seconds


@pytest.mark.parametrize(
    ("strategy", "partition"),
    [
        (None, 0),
        ({}, 0),
        ({"manualUpdate": None}, 0),
        ({"manualUpdate": {"partitions": None}}, 0),
        ({"manualUpdate": {"partitions": {"b": 2}}}, 0),
        ({"manualUpdate": {"partitions": {"a": 2}}}, 2),
        ({"manualUpdate": {"partitions": {"a": -2}}}, 0),
    ],
)
def test_a_subset_has_the_partition_of_its_name(strategy: Any, partition: int) -> None:
    """uniteddeployment case 37, LIFT-4"""
    assert seen(updateStrategy=strategy).spec.partition_of("a") == partition


# ── objects around it ────────────────────────────────────────────────────


def test_workloads_are_ordered_by_age_and_name() -> None:
    # given
    world = UnitedWorld("a", replicas=1).settle()
    first = world.of("a")["metadata"]["name"]
    for name, later in (("z", 0), ("young", 60), ("b", 0)):
        other = copy.deepcopy(world.workloads[CLONE_SET, first])
        created = format_time(NOW + later)
        other["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": created}
        world.workloads[CLONE_SET, name] = other
    # when
    snapshot = world.snapshot()
    # then
    assert [workload.name for workload in snapshot.workloads] == ["b", first, "z", "young"]


def test_orphans_with_a_subset_label_and_its_template_are_listed() -> None:
    world = UnitedWorld("a", "b", replicas=2).settle()
    world.of("a")["metadata"]["ownerReferences"] = []
    lost = world.of("b")["metadata"]
    lost["ownerReferences"], lost["labels"] = [], {"app": "web"}
    snapshot = world.snapshot()
    assert [orphan.subset for orphan in snapshot.orphans] == ["a"]
    assert snapshot.workloads == []


@pytest.mark.parametrize("template", [CLONE_SET, DEPLOYMENT])
def test_pods_are_grouped_by_owner_and_ordered_by_name(template: str) -> None:
    # given
    world = UnitedWorld("a", "b", replicas=4, template=template).settle()
    world.pods = dict(reversed(world.pods.items()))
    # when
    snapshot = world.snapshot()
    # then
    uids = {name: world.of(name)["metadata"]["uid"] for name in "ab"}
    assert {name: [pod.name for pod in snapshot.subset_pods[uid]] for name, uid in uids.items()} == {
        name: sorted(pod["metadata"]["name"] for pod in world.pods_of(name)) for name in "ab"
    }


def test_a_subset_without_a_workload_has_the_first_name_that_is_free() -> None:
    # given
    world = UnitedWorld("a", "b", "c", replicas=3).settle()
    taken = world.of("a")["metadata"]
    assert taken["name"] == format_workload_name("web", "a", uid=UID)
    taken["ownerReferences"], taken["labels"] = [], {}
    del world.workloads[CLONE_SET, world.of("b")["metadata"]["name"]]
    # when
    snapshot = world.snapshot()
    # then
    assert snapshot.names == {
        "a": format_workload_name("web", "a", uid=UID, attempt=1),
        "b": format_workload_name("web", "b", uid=UID),
    }


def test_a_workload_of_another_kind_leaves_the_subset_without_one() -> None:
    """uniteddeployment case 23"""
    world = UnitedWorld("a", replicas=1).settle()
    world.template = DEPLOYMENT
    snapshot = world.change(template=template_of(DEPLOYMENT)).snapshot()
    assert list(snapshot.names) == ["a"]
    assert [workload.template for workload in snapshot.workloads] == [CLONE_SET]


def test_only_workloads_of_other_kinds_are_listed_when_the_templates_kind_is_not_served() -> None:
    world = UnitedWorld("a", replicas=1).settle()
    world.unserved = {DEPLOYMENT}
    snapshot = world.change(template=template_of(DEPLOYMENT)).snapshot()
    assert not snapshot.is_served
    assert (snapshot.names, list(snapshot.orphans)) == ({}, [])
    assert [workload.labels[SUBSET_LABEL] for workload in snapshot.workloads] == ["a"]
