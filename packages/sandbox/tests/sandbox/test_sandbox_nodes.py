"""Simulated nodes, their documents, and the addresses of their pods."""

from pykruise.kube.documents import encode
from pykruise.sandbox.nodes.specs import (
    Addresses,
    NodeSpec,
    Taint,
    build_heartbeat_patch,
    build_node_document,
    make_node_specs,
    project_node,
)
from support.paper import START


def test_nodes_are_spread_over_the_zones_and_have_unique_addresses() -> None:
    # when
    specs = make_node_specs(300, zones=("z1", "z2"), pods=1000)
    # then
    assert [spec.name for spec in specs[:3]] == ["node-1", "node-2", "node-3"]
    assert [spec.zone for spec in specs[:3]] == ["z1", "z2", "z1"]
    assert len({spec.address for spec in specs}) == 300
    assert {spec.pods for spec in specs} == {1000}


def test_the_scheduler_sees_the_node_that_its_kubelet_registered() -> None:
    # given
    spec = NodeSpec(
        name="big", zone="z9", cpu="1500m", memory="2Gi", pods=7, taints=(Taint("a", "NoSchedule"),)
    )
    doc = build_node_document(spec, now=START)
    doc["metadata"] |= {"uid": "u", "resourceVersion": "12"}
    # when
    node = project_node(encode(doc))
    # then
    assert (node.name, node.zone, node.max_pods, node.resource_version) == ("big", "z9", 7, 12)
    assert node.allocatable == {"cpu": 1500, "memory": 2 * 2**30, "pods": 7}
    assert node.taints == (Taint("a", "NoSchedule"),)
    assert node.labels["kubernetes.io/hostname"] == "big"


def test_a_heartbeat_changes_nothing_for_the_scheduler_and_keeps_transition_times() -> None:
    # given
    doc = build_node_document(NodeSpec(name="n"), now=START)
    doc["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    before = project_node(encode(doc))
    # when
    patch = build_heartbeat_patch(now=START + 300)
    doc["metadata"]["resourceVersion"] = "2"
    # then
    assert all("lastTransitionTime" not in condition for condition in patch["status"]["conditions"])
    assert {condition["lastHeartbeatTime"] for condition in patch["status"]["conditions"]} == {
        "2026-01-31T12:05:00Z"
    }
    assert project_node(encode(doc)).is_similar(before)


def test_addresses_are_unique_and_reused_after_their_release() -> None:
    # given
    addresses = Addresses()
    addresses.reserve("10.0.1.2")
    # when
    taken = [addresses.take() for _ in range(600)]
    # then
    assert taken[:2] == ["10.0.1.1", "10.0.1.3"]
    assert len(set(taken)) == 600
    assert not any(address.endswith((".0", ".255")) for address in taken)
    addresses.release(taken[0])
    assert addresses.take() not in taken
