"""Partitions that also limit the nodes that get a pod (partitionedScaling)."""

from typing import Any

import pytest

from pykruise.pods.reasons import Code
from support.daemonset_builder import DaemonSetBuilder, created_on, daemonset


def partitioned(nodes: int, *, partition: int) -> DaemonSetBuilder:
    builder = daemonset(nodes, pods=False, partition=partition)
    return builder.with_spec(scaleStrategy={"partitionedScaling": True})


def test_partitioned_scaling_limits_creation_by_the_partition() -> None:
    """daemonset case 54"""
    builder = partitioned(10, partition=9)

    def grown() -> list[str]:
        plan = builder.plan()
        nodes = created_on(plan)
        codes = {node: reason.code for node, reason in plan.skipped_nodes.items()}
        without = set(builder.nodes) - set(builder.pods) - set(nodes)
        assert codes == dict.fromkeys(without, Code.PARTITIONED_SCALING)
        builder.on(*nodes)
        return nodes

    assert grown() == ["n1"]
    builder.with_rolling(partition=5)
    assert grown() == ["n10", "n2", "n3", "n4"]
    assert grown() == []
    builder.node("x1", "x2")
    assert len(grown()) == 2
    builder.with_rolling(partition=6)
    assert grown() == []
    builder.with_rolling(partition=0)
    assert len(grown()) == 5


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda item: item.on("n1"), ["n2"]),
        (lambda item: item.on("n1").not_ready("n1"), ["n2"]),
        (lambda item: item.on("n1").deleted("n1"), ["n2", "n3"]),
        (lambda item: item.on("n1").old("n1"), ["n2", "n3"]),
        (lambda item: item.on("n1").on("n1", called="b").not_ready("n1", "b"), ["n2", "n3"]),
        (lambda item: item.node("n0").on("n0").taint("n0", "x:NoSchedule"), ["n1", "n2"]),
    ],
    ids=["new", "new and not ready", "terminating", "old", "two new ones", "on a node that is to run none"],
)
def test_a_node_with_a_new_pod_uses_a_slot_of_the_partition(change: Any, expected: list[str]) -> None:
    """daemonset case 54"""
    assert created_on(change(partitioned(5, partition=3)).plan()) == expected


def test_a_partition_of_zero_gives_every_node_a_pod() -> None:
    """also a node whose new pod waits in PreparingDelete, when surge allows another pod"""
    builder = partitioned(1, partition=0).surging().with_hook().on("n1").leaving("n1").hooked("n1")
    assert created_on(builder.plan()) == ["n1"]


def test_a_percentage_counts_on_a_brand_new_set_already() -> None:
    """daemonset case 55"""
    builder = daemonset(10, pods=False, partition="50%").with_spec(scaleStrategy={"partitionedScaling": True})
    assert len(created_on(builder.plan())) == 5


def test_the_partition_is_for_updates_only_without_partitioned_scaling() -> None:
    assert len(created_on(daemonset(10, pods=False, partition=9).plan())) == 10


def test_a_partition_that_cannot_be_read_creates_nothing_under_partitioned_scaling() -> None:
    builder = daemonset(3, pods=False, partition="many").with_spec(scaleStrategy={"partitionedScaling": True})
    plan = builder.plan()
    assert plan.stages == ()
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
