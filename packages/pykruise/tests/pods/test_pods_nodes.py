"""Views of nodes for decisions."""

from typing import Any

import orjson
import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.pod_rules.nodes import Taint
from pykruise.pods.view.nodes import NodeView, project_node


def view(spec: Any = None, status: Any = None, **metadata: Any) -> NodeView:
    return project_node(orjson.dumps({"metadata": {"name": "n", **metadata}, "spec": spec, "status": status}))


@pytest.mark.parametrize(
    ("spec", "status", "metadata"),
    [
        (None, None, {}),
        ({}, {}, {"labels": None}),
        (
            {"taints": None, "unschedulable": None},
            {"allocatable": None, "conditions": None},
            {"deletionTimestamp": None},
        ),
    ],
)
def test_an_empty_node_document_has_empty_fields(spec: Any, status: Any, metadata: dict[str, Any]) -> None:
    node = view(spec, status, **metadata)
    assert node == NodeView(name="n", uid="", resource_version=0)
    assert (node.labels, node.taints, node.allocatable) == ({}, (), {})


def test_a_view_of_a_node_has_what_pods_are_placed_by() -> None:
    node = view(
        {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "unschedulable": True},
        {"allocatable": {"pods": "110", "cpu": 4}},
        uid="u",
        resourceVersion="7",
        labels={"zone": "a"},
        deletionTimestamp="2026-01-31T12:00:00Z",
    )
    assert node == NodeView(
        name="n",
        uid="u",
        resource_version=7,
        labels={"zone": "a"},
        taints=(Taint(key="gpu", effect="NoSchedule"),),
        is_cordoned=True,
        allocatable={"pods": "110", "cpu": "4"},
        is_deleting=True,
    )
    assert not view({"unschedulable": False}).is_cordoned


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([], None),
        ([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-31T12:00:00Z"}], None),
        ([{"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}], None),
        (
            [
                {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-01-31T11:00:00Z"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
            ],
            parse_time("2026-01-31T12:00:00Z"),
        ),
        ([{"type": "Ready", "status": "True"}], 0.0),
        ([{"type": "Ready", "status": "True", "lastTransitionTime": "noon"}], 0.0),
    ],
)
def test_a_node_is_ready_since_the_transition_of_its_condition(
    conditions: list[dict[str, str]], since: float | None
) -> None:
    """A condition without a readable time counts as old."""
    assert view(status={"conditions": conditions}).ready_since == since


@pytest.mark.parametrize(
    ("labels", "is_virtual"),
    [({}, False), ({"type": "kubelet"}, False), ({"type": "virtual-kubelet"}, True)],
)
def test_a_virtual_node_is_known_by_its_label(labels: dict[str, str], is_virtual: bool) -> None:
    assert view(labels=labels).is_virtual is is_virtual


def test_a_heartbeat_keeps_placements_but_labels_taints_and_another_node_do_not() -> None:
    # given
    node = view(uid="u", labels={"zone": "a"}, resourceVersion="1")
    beat = view(
        status={"conditions": [{"type": "Ready"}]}, uid="u", labels={"zone": "a"}, resourceVersion="2"
    )
    # then
    assert node.is_placed_as(beat)
    assert not node.is_placed_as(view(uid="u", labels={"zone": "b"}))
    assert not node.is_placed_as(
        view({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, uid="u", labels={"zone": "a"})
    )
    assert not node.is_placed_as(view(uid="u2", labels={"zone": "a"}))
    assert not node.is_placed_as(view(name="m", uid="u", labels={"zone": "a"}))
