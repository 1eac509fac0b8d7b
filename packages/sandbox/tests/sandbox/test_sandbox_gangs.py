"""Gangs: the sandbox's scheduler binds the pods of a PodGroup together or not at all."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.errors import InvalidError, NotFoundError
from pykruise.kube.resources import POD_GROUPS, PODS
from pykruise.sandbox.cluster import ClusterSettings
from support.sandbox import Place, pod, small_cluster

GATES = frozenset({"GenericWorkload"})


def group(least: int) -> dict[str, Any]:
    policy = {"gang": {"minCount": least}}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": policy},
    }


def member(name: str, cpu: str = "1") -> dict[str, Any]:
    return pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": "g"})


async def nodes_of(place: Place, *names: str) -> list[bool]:
    """Whether each pod has a node."""
    return [bool((await place.get(PODS, name))["spec"].get("nodeName")) for name in names]


async def test_pods_wait_for_their_group_and_for_min_count_pods() -> None:
    async with small_cluster(ClusterSettings(nodes=1, feature_gates=GATES)) as place:
        await place.create(PODS, member("a"))
        await place.create(PODS, member("b"))
        await asyncio.sleep(1)
        assert await nodes_of(place, "a", "b") == [False, False]
        await place.create(POD_GROUPS, group(3))
        await asyncio.sleep(1)
        assert await nodes_of(place, "a", "b") == [False, False]
        await place.create(PODS, member("c"))
        await place.until(lambda: place.is_ready("a"), within_s=10)
        assert await nodes_of(place, "a", "b", "c") == [True] * 3


async def test_no_pod_of_a_gang_is_bound_before_enough_of_them_fit() -> None:
    async with small_cluster(ClusterSettings(nodes=2, node_cpu="2", feature_gates=GATES)) as place:
        await place.create(POD_GROUPS, group(3))
        for name in "abc":
            await place.create(PODS, member(name, cpu="2"))
        await asyncio.sleep(2)
        assert await nodes_of(place, *"abc") == [False] * 3
        assert (await place.condition("c", "PodScheduled"))["status"] == "False"
        # when
        await place.merge(POD_GROUPS, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
        await asyncio.sleep(5)
        # then
        assert sum(await nodes_of(place, *"abc")) == 2


async def test_a_later_pod_is_bound_beside_those_with_a_node() -> None:
    async with small_cluster(ClusterSettings(nodes=1, feature_gates=GATES)) as place:
        await place.create(POD_GROUPS, group(2))
        for name in "abc":
            await place.create(PODS, member(name))
        await place.until(lambda: place.is_ready("c"), within_s=10)
        assert await nodes_of(place, *"abc") == [True] * 3


async def test_only_min_count_changes() -> None:
    async with small_cluster(ClusterSettings(nodes=1, feature_gates=GATES)) as place:
        with pytest.raises(InvalidError, match="minCount"):
            await place.create(POD_GROUPS, group(0))
        await place.create(POD_GROUPS, group(2))
        with pytest.raises(InvalidError, match="priorityClassName"):
            await place.merge(POD_GROUPS, "g", {"spec": {"priorityClassName": "high"}})


async def test_without_the_feature_gate_there_are_no_groups() -> None:
    async with small_cluster(ClusterSettings(nodes=1)) as place:
        with pytest.raises(NotFoundError):
            await place.create(POD_GROUPS, group(2))
        await place.create(PODS, member("a"))
        assert "schedulingGroup" not in (await place.get(PODS, "a"))["spec"]
