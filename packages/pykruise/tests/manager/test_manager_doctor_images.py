"""Findings of doctor about agents, from NodeImages and nodes without a cluster."""

from typing import Any

from pykruise.manager.doctor.images import find_image_findings


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def node_image(name: str, *tags: dict[str, Any]) -> dict[str, Any]:
    statuses = {"nginx": {"tags": list(tags)}} if tags else {}
    return {"metadata": {"name": name}, "status": {"desired": len(tags), "imageStatuses": statuses}}


GAVE_UP = {"tag": "1", "phase": "Failed", "startTime": "2026-01-01T00:00:00Z"}
SILENT = {"tag": "1", "phase": "Failed"}


def test_agents_that_answer_are_fine_also_where_an_image_could_not_be_pulled() -> None:
    assert find_image_findings([node_image("a", GAVE_UP)], [node("a")]) == []


def test_nodes_with_a_silent_agent_are_named() -> None:
    (finding,) = find_image_findings(
        [node_image("a", SILENT), node_image("b", GAVE_UP)], [node("a"), node("b")]
    )
    assert "does not respond on a:" in finding.what


def test_nodes_without_a_nodeimage_are_named_except_virtual_ones() -> None:
    nodes = [node(name) for name in "abcdef"] + [node("v", type="virtual-kubelet")]
    (finding,) = find_image_findings([node_image("a")], nodes)
    assert "for b, c, d and 2 more" in finding.what
    assert find_image_findings([], nodes) == []
