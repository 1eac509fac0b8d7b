"""The scheduler on the API server."""

import asyncio
from collections import Counter

from pykruise.kube.documents import decode
from pykruise.kube.resources import NODES, PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.specs import NodeSpec
from support.sandbox import pod, small_cluster


async def test_an_unschedulable_pod_reports_why_and_is_scheduled_when_a_node_is_added() -> None:
    # given
    async with small_cluster(ClusterSettings(nodes=3, node_cpu="1")) as place:
        # when
        await place.create(PODS, pod("big", requests={"cpu": "2"}))
        await asyncio.sleep(1)
        # then
        condition = await place.condition("big", "PodScheduled")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == (
            "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: "
            "3 No preemption victims found for incoming pod."
        )
        (event,) = await place.events("FailedScheduling")
        assert event["message"] == condition["message"]
        assert event["source"]["component"] == "default-scheduler"
        assert place.cluster.scheduler.read_stats().waiting == 1
        # and when
        place.cluster.kubelets.add_node(NodeSpec(name="large", cpu="4"))
        # then
        await place.until(lambda: place.is_ready("big"), within_s=5.0)
        assert (await place.get(PODS, "big"))["spec"]["nodeName"] == "large"
        assert (await place.condition("big", "PodScheduled"))["status"] == "True"
        assert place.cluster.scheduler.read_stats().waiting == 0


async def test_a_pod_waits_until_another_one_is_deleted() -> None:
    # given
    async with small_cluster(ClusterSettings(nodes=1, pods_per_node=1)) as place:
        await place.create(PODS, pod("first"))
        await place.until(lambda: place.is_ready("first"))
        await place.create(PODS, pod("second"))
        await asyncio.sleep(1)
        assert (await place.condition("second", "PodScheduled"))["message"] == (
            "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        # when
        await place.client.delete(PODS, "default", "first")
        # then
        await place.until(lambda: place.is_ready("second"), within_s=5.0)


async def test_a_pod_waits_until_its_node_is_uncordoned() -> None:
    # given
    async with small_cluster(nodes=1) as place:
        await place.merge(NODES, "node-1", {"spec": {"unschedulable": True}})
        await asyncio.sleep(0.1)
        await place.create(PODS, pod("web"))
        await asyncio.sleep(1)
        assert "1 node(s) were unschedulable" in (await place.condition("web", "PodScheduled"))["message"]
        # when
        await place.merge(NODES, "node-1", {"spec": {"unschedulable": None}})
        # then
        await place.until(lambda: place.is_ready("web"), within_s=5.0)


async def test_simultaneous_pods_are_spread_evenly_without_overfilling_a_node() -> None:
    # given room for exactly 30 pods
    async with small_cluster(ClusterSettings(nodes=3, pods_per_node=10)) as place:
        # when
        await asyncio.gather(*(place.create(PODS, pod(f"web-{number}")) for number in range(32)))
        await asyncio.sleep(5)
        # then
        pods = [decode(item) for item in (await place.client.list(PODS, "default")).items]
        nodes = Counter(pod["spec"].get("nodeName", "") for pod in pods)
        assert nodes == {"node-1": 10, "node-2": 10, "node-3": 10, "": 2}
        assert place.cluster.scheduler.read_stats().assumed == 0


async def test_gated_pods_and_those_of_other_schedulers_are_not_scheduled() -> None:
    # given
    async with small_cluster() as place:
        await place.create(PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        await place.create(PODS, pod("foreign", schedulerName="another-scheduler"))
        # when
        await asyncio.sleep(600)
        # then
        assert "nodeName" not in (await place.get(PODS, "gated"))["spec"]
        assert "nodeName" not in (await place.get(PODS, "foreign"))["spec"]
        # and when the gate is removed
        await place.merge(PODS, "gated", {"spec": {"schedulingGates": None}})
        await place.until(lambda: place.is_ready("gated"), within_s=5.0)


async def test_a_pod_deleted_while_it_waits_is_forgotten() -> None:
    # given
    async with small_cluster(ClusterSettings(nodes=1, pods_per_node=0)) as place:
        await place.create(PODS, pod("web"))
        await asyncio.sleep(1)
        assert place.cluster.scheduler.read_stats().waiting == 1
        # when
        await place.client.delete(PODS, "default", "web", grace_period_s=0)
        await asyncio.sleep(1)
        # then
        assert place.cluster.scheduler.read_stats().waiting == 0


async def test_bindings_have_events_when_the_setting_is_on() -> None:
    # given
    async with small_cluster(ClusterSettings(nodes=1, scheduled_events=True)) as place:
        # when
        await place.create(PODS, pod("web"))
        await asyncio.sleep(2)
        # then
        (event,) = await place.events("Scheduled")
        assert event["message"] == "Successfully assigned default/web to node-1"
        assert event["type"] == "Normal"
