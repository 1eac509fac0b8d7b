"""Endpoints, service accounts and the lifecycle of nodes on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    DEPLOYMENTS,
    ENDPOINTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from pykruise.sandbox.controllers.endpoints import ENDPOINT_SLICES
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.specs import STOPPED
from support.sandbox import Object, Place, pod, small_cluster


def service(name: str = "web", **spec: Any) -> Object:
    """A Service for pods labelled app=web."""
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], **spec},
    }


def web(name: str, image: str = "nginx:1") -> Object:
    """A pod behind the Service."""
    ports = [{"name": "http", "containerPort": 8080}]
    return pod(name, labels={"app": "web"}, containers=[{"name": "main", "image": image, "ports": ports}])


async def endpoint_slice(place: Place) -> Object:
    (item,) = (await place.client.list(ENDPOINT_SLICES, "default")).items
    return decode(item)


async def ready_pods(place: Place) -> dict[str, bool]:
    """Pods in the EndpointSlice, and whether they are ready."""
    result = (await endpoint_slice(place))["endpoints"]
    return {item["targetRef"]["name"]: item["conditions"]["ready"] for item in result}


async def test_a_service_has_the_endpoints_of_its_pods() -> None:
    rules = [Rule(image="nginx:broken", never_ready=True)]
    async with small_cluster(rules=rules) as place:
        # given
        await place.create(SERVICES, service())
        for doc in (web("a"), web("b", "nginx:broken"), pod("other", labels={"app": "other"})):
            await place.create(PODS, doc)
        await asyncio.sleep(5)
        # then
        assert await ready_pods(place) == {"a": True, "b": False}
        endpoints = await endpoint_slice(place)
        assert endpoints["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
        assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        address = (await place.get(PODS, "a"))["status"]["podIP"]
        (subset,) = (await place.get(ENDPOINTS, "web"))["subsets"]
        assert [address["ip"] for address in subset["addresses"]] == [address]
        assert [address["targetRef"]["name"] for address in subset["notReadyAddresses"]] == ["b"]
        assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]
        # and when a pod is deleted
        await place.client.delete(PODS, "default", "a")
        await asyncio.sleep(5)
        assert await ready_pods(place) == {"b": False}
        # and when the Service is deleted
        await place.client.delete(SERVICES, "default", "web")
        await asyncio.sleep(5)
        assert not await place.exists(ENDPOINTS, "web")
        assert (await place.client.list(ENDPOINT_SLICES, "default")).items == []


async def test_every_namespace_has_a_service_account() -> None:
    async with small_cluster() as place:
        # when
        await place.create(NAMESPACES, {"metadata": {"name": "team"}})

        # then
        async def has_one() -> bool:
            return await place.names(SERVICE_ACCOUNTS, namespace="team") == ["default"]

        await place.until(has_one)
        await place.client.delete(SERVICE_ACCOUNTS, "team", "default")
        await place.until(has_one)


def deployment(replicas: int) -> Object:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            },
        },
    }


NO_SCALE = "jobs.batch does not implement the scale subresource"


@pytest.mark.parametrize("rule", [{"maxUnavailable": 1}, {"minAvailable": "50%"}])
async def test_a_budget_of_pods_whose_owner_has_no_size_allows_no_eviction(rule: Object) -> None:
    async with small_cluster(rules=[Rule(exit_code=0, after_s=3600.0)]) as place:
        # given a budget that needs the size of a Job
        template = {
            "metadata": {"labels": {"app": "sum"}},
            "spec": pod("x")["spec"] | {"restartPolicy": "Never"},
        }
        await place.create(
            JOBS, {"metadata": {"name": "sum"}, "spec": {"parallelism": 2, "template": template}}
        )
        await asyncio.sleep(5)
        spec = {"selector": {"matchLabels": {"app": "sum"}}, **rule}
        await place.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        await asyncio.sleep(10)
        # then it allows nothing, and says why
        status = (await place.get(POD_DISRUPTION_BUDGETS, "b"))["status"]
        assert status["disruptionsAllowed"] == 0
        assert "observedGeneration" not in status
        (condition,) = status["conditions"]
        assert (condition["reason"], condition["message"]) == ("SyncFailed", NO_SCALE)
        events = [decode(item) for item in (await place.client.list(EVENTS, "default")).items]
        failures = [event for event in events if event["reason"] == "CalculateExpectedPodCountFailed"]
        assert {event["message"] for event in failures} == {
            f"Failed to calculate the number of expected pods: {NO_SCALE}"
        }
        # and when it counts available pods instead, it needs no size
        change = {"spec": {"maxUnavailable": None, "minAvailable": 1}}
        await place.client.patch(POD_DISRUPTION_BUDGETS, "default", "b", change, patch_type=PatchType.MERGE)
        await asyncio.sleep(10)
        status = (await place.get(POD_DISRUPTION_BUDGETS, "b"))["status"]
        assert (status["expectedPods"], status["disruptionsAllowed"]) == (2, 1)


async def on_node(place: Place, node: str) -> list[str]:
    """Names of the pods on the node."""
    result = (await place.client.list(PODS, "default", field_selector=f"spec.nodeName={node}")).items
    return [decode(item)["metadata"]["name"] for item in result]


async def node_ready(place: Place, node: str) -> str:
    conditions = (await place.get(NODES, node))["status"]["conditions"]
    return str(next(condition for condition in conditions if condition["type"] == "Ready")["status"])


async def test_a_lost_node_is_reported_and_its_pods_are_replaced_elsewhere() -> None:
    async with small_cluster(nodes=2) as place:
        # given
        await place.create(DEPLOYMENTS, deployment(4))
        await asyncio.sleep(10)
        lost = await on_node(place, "node-1")
        assert lost
        # when
        place.cluster.kubelets.stop_node("node-1")
        await asyncio.sleep(80)
        # then the node only becomes unknown at first
        assert await node_ready(place, "node-1") == "Unknown"
        taints = (await place.get(NODES, "node-1"))["spec"]["taints"]
        assert {(taint["key"], taint["effect"]) for taint in taints} == {
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        }
        assert not await place.is_ready(lost[0])
        assert await on_node(place, "node-1") == lost
        # and after five minutes its pods are deleted
        await asyncio.sleep(310)
        assert len(await on_node(place, "node-2")) == 4
        assert (await place.condition(lost[0], "DisruptionTarget"))["reason"] == "DeletionByTaintManager"
        # and when its kubelet is back, these pods are removed, and the node is ready
        place.cluster.kubelets.start_node("node-1")
        await asyncio.sleep(60)
        assert await node_ready(place, "node-1") == "True"
        assert "taints" not in (await place.get(NODES, "node-1"))["spec"]
        assert await on_node(place, "node-1") == []


async def test_a_node_that_is_back_in_time_keeps_its_pods() -> None:
    async with small_cluster(nodes=2) as place:
        # given
        await place.create(DEPLOYMENTS, deployment(4))
        await asyncio.sleep(10)
        before = sorted(await place.names(PODS))
        # when
        place.cluster.kubelets.stop_node("node-1")
        await asyncio.sleep(120)
        place.cluster.kubelets.start_node("node-1")
        await asyncio.sleep(400)
        # then
        assert sorted(await place.names(PODS)) == before
        for name in before:
            assert await place.is_ready(name)


async def annotate_node(place: Place, node: str, value: str | None) -> None:
    patch = {"metadata": {"annotations": {STOPPED: value}}}
    await place.client.patch(NODES, "", node, patch, patch_type=PatchType.MERGE)


async def test_the_annotation_of_a_node_stops_and_starts_its_kubelet() -> None:
    async with small_cluster(nodes=2) as place:
        # given
        await place.create(DEPLOYMENTS, deployment(4))
        await asyncio.sleep(10)
        lost = await on_node(place, "node-1")
        # when
        await annotate_node(place, "node-1", "true")
        await asyncio.sleep(80)
        # then
        assert await node_ready(place, "node-1") == "Unknown"
        assert "taints" in (await place.get(NODES, "node-1"))["spec"]
        assert not await place.is_ready(lost[0])
        # and another change of the node does not start its kubelet
        label = {"metadata": {"labels": {"disk": "ssd"}}}
        await place.client.patch(NODES, "", "node-1", label, patch_type=PatchType.MERGE)
        await asyncio.sleep(30)
        assert await node_ready(place, "node-1") == "Unknown"
        # and without the annotation the node is ready again
        await annotate_node(place, "node-1", None)
        await asyncio.sleep(60)
        assert await node_ready(place, "node-1") == "True"
        assert "taints" not in (await place.get(NODES, "node-1"))["spec"]
        assert await place.is_ready(lost[0])


async def test_pods_of_a_deleted_node_are_deleted() -> None:
    async with small_cluster(nodes=2) as place:
        # given
        await place.create(PODS, pod("web", nodeName="node-1"))
        await place.until(lambda: place.is_ready("web"))
        # when
        place.cluster.kubelets.stop_node("node-1")
        await place.client.delete(NODES, "", "node-1")
        await asyncio.sleep(60)
        # then
        assert await place.names(PODS) == []
