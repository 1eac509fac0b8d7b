"""Quotas and limit ranges in a cluster: counted objects, refused objects, and work that continues."""

import asyncio
import random
from typing import Any

import pytest

from pykruise.kube.clock import make_loop_clock
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, EVENTS, PODS, Resource
from pykruise.kube.values.quantities import Quantity
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage
from pykruise.sandbox.apiserver.plugins.quota_usage import format_amounts, shelves_of, usage_of
from pykruise.sandbox.cluster import ClusterSettings
from support.api import PODS as PODS_PATH
from support.api import START, Api, config_map
from support.sandbox import Object, Place, pod, small_cluster

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")


def quota(hard: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}


async def used(place: Place) -> Object:
    result: Object = (await place.get(QUOTAS, "q"))["status"]["used"]
    return result


def sized(name: str, cpu: str, **spec: Any) -> Object:
    return pod(name, requests={"cpu": cpu}, **spec)


# ── counting ─────────────────────────────────────────────────────────────────


async def test_existing_objects_are_counted_when_a_quota_is_created() -> None:
    async with small_cluster() as place:
        # given
        await place.create(PODS, sized("a", "250m"))
        await place.create(PODS, sized("b", "1"))
        # when
        await place.create(QUOTAS, quota({"pods": "5", "requests.cpu": "2", "count/configmaps": "9"}))
        # then
        status = (await place.get(QUOTAS, "q"))["status"]
        assert status["hard"] == {"pods": "5", "requests.cpu": "2", "count/configmaps": "9"}
        assert status["used"] == {"pods": "2", "requests.cpu": "1250m", "count/configmaps": "0"}


async def test_finished_and_deleted_pods_are_not_counted() -> None:
    async with small_cluster() as place:
        # given
        await place.create(QUOTAS, quota({"pods": "2", "count/pods": "3", "requests.cpu": "2"}))
        await place.create(PODS, sized("a", "1"))
        await place.create(PODS, sized("b", "1", restartPolicy="Never"))
        assert await used(place) == {"pods": "2", "count/pods": "2", "requests.cpu": "2"}
        with pytest.raises(
            ForbiddenError, match=r"exceeded quota: q, requested: pods=1,requests\.cpu=1, used: "
        ):
            await place.create(PODS, sized("c", "1"))
        # when one pod ends
        await place.merge(PODS, "b", {"status": {"phase": "Succeeded"}}, subresource="status")
        # then
        assert await used(place) == {"pods": "1", "count/pods": "2", "requests.cpu": "1"}
        # when the other pod is deleted
        await place.client.delete(PODS, "default", "a", grace_period_s=0)
        assert await used(place) == {"pods": "0", "count/pods": "1", "requests.cpu": "0"}


async def test_quotas_are_counted_also_where_no_controller_runs() -> None:
    async with small_cluster(ClusterSettings(nodes=1, controllers=())) as place:
        # given
        await place.create(QUOTAS, quota({"pods": "1"}))
        await place.create(PODS, pod("a"))
        assert await used(place) == {"pods": "1"}
        # when the pod is deleted
        await place.client.delete(PODS, "default", "a")

        async def is_free() -> bool:
            return await used(place) == {"pods": "0"}

        await place.until(is_free)
        # then another pod may be created
        await place.create(PODS, pod("b"))


async def test_a_changed_quota_is_counted_again() -> None:
    async with small_cluster() as place:
        await place.create(QUOTAS, quota({"pods": "2"}))
        await place.create(PODS, sized("a", "1"))
        # when
        await place.merge(QUOTAS, "q", {"spec": {"hard": {"pods": "1", "requests.cpu": "8"}}})
        # then
        status = (await place.get(QUOTAS, "q"))["status"]
        assert status == {
            "hard": {"pods": "1", "requests.cpu": "8"},
            "used": {"pods": "1", "requests.cpu": "1"},
        }
        # and a status of another client is corrected
        await place.merge(QUOTAS, "q", {"status": {"used": {"pods": "7"}}}, subresource="status")
        assert (await used(place))["pods"] == "1"


async def test_other_namespaces_and_kinds_are_not_limited() -> None:
    async with small_cluster() as place:
        await place.create(QUOTAS, quota({"pods": "0"}))
        await place.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
        await place.create(PODS, pod("a"), namespace="kube-system")
        with pytest.raises(ForbiddenError):
            await place.create(PODS, pod("a"))
        # when the quota is deleted, its limit ends
        await place.client.delete(QUOTAS, "default", "q")
        await place.create(PODS, pod("a"))


async def test_a_deployment_gets_as_many_pods_as_the_quota_allows_and_more_when_it_grows() -> None:
    async with small_cluster() as place:
        # given
        await place.create(QUOTAS, quota({"pods": "2"}))
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
        spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
        await place.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})

        async def available() -> int:
            return int((await place.get(DEPLOYMENTS, "web"))["status"].get("availableReplicas", 0))

        async def has_two() -> bool:
            return await available() == 2

        await place.until(has_two)
        await asyncio.sleep(5)
        # then the events and the condition show the reason
        docs = [await place.get(EVENTS, name) for name in await place.names(EVENTS)]
        failed = [doc["message"] for doc in docs if doc["reason"] == "FailedCreate"]
        wanted = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
        assert any(wanted in text for text in failed)
        conditions = (await place.get(DEPLOYMENTS, "web"))["status"]["conditions"]
        assert any(
            condition["type"] == "ReplicaFailure" and wanted in condition["message"]
            for condition in conditions
        )
        # when
        await place.merge(QUOTAS, "q", {"spec": {"hard": {"pods": "9"}}})

        # then
        async def has_four() -> bool:
            return await available() == 4

        await place.until(has_four, within_s=1200)


async def test_parallel_writes_do_not_exceed_a_quota() -> None:
    async with small_cluster() as place:
        # given
        await place.create(QUOTAS, quota({"pods": "7"}))
        # when
        answers = await asyncio.gather(
            *(place.create(PODS, pod(f"p{number}")) for number in range(20)), return_exceptions=True
        )
        # then
        assert sum(isinstance(answer, dict) for answer in answers) == 7
        assert await used(place) == {"pods": "7"}


async def test_limits_are_known_again_after_a_start() -> None:
    # given a server with an active quota and a limit range, and a second one on the same storage
    storage = MemoryStorage()
    server = ApiServer(clock=make_loop_clock(start=START), rng=random.Random(1), storage=storage)
    server.count_quotas()
    api = Api(server)
    space = "/api/v1/namespaces/default"
    await api.post(f"{space}/configmaps", config_map("a"))
    assert (await api.post(f"{space}/resourcequotas", quota({"configmaps": "2"}))).status == 201
    limits = {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}
    await api.post(f"{space}/limitranges", {"metadata": {"name": "l"}, "spec": limits})
    again = ApiServer(clock=make_loop_clock(start=START), rng=random.Random(2), storage=storage)
    again.count_quotas()
    api = Api(again)
    # then
    assert (await api.post(f"{space}/configmaps", config_map("b"))).status == 201
    assert (await api.post(f"{space}/configmaps", config_map("c"))).message == (
        'configmaps "c" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, '
        "limited: configmaps=2"
    )
    stored = (await api.post(PODS_PATH, pod("p"))).doc
    assert stored["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert stored["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container main; "
        "cpu limit for container main"
    }


async def test_a_resize_keeps_to_quota_and_limits() -> None:
    async with small_cluster() as place:
        # given
        await place.create(QUOTAS, quota({"requests.cpu": "2"}))
        limits = {"limits": [{"type": "Pod", "min": {"cpu": "500m"}}]}
        await place.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": limits})
        await place.create(PODS, sized("a", "1"))
        await place.until(lambda: place.is_ready("a"))

        async def resize(cpu: str) -> None:
            containers = [{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}]
            await place.merge(PODS, "a", {"spec": {"containers": containers}}, subresource="resize")

        # then
        with pytest.raises(
            ForbiddenError, match=r"requested: requests\.cpu=2, used: requests\.cpu=1, limited"
        ):
            await resize("3")
        with pytest.raises(ForbiddenError, match="minimum cpu usage per Pod is 500m, but request is 100m"):
            await resize("100m")
        await resize("2")
        assert await used(place) == {"requests.cpu": "2"}


# ── usage of a pod ───────────────────────────────────────────────────────────


def test_a_pod_uses_what_it_needs_at_most() -> None:
    # given two containers, a sidecar, an init container with a larger request, and overhead
    def container(name: str, cpu: str, **more: Any) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("a", "100m"), container("b", "200m")],
        "initContainers": [
            container("side", "50m", restartPolicy="Always"),
            container("first", "1"),
        ],
        "overhead": {"cpu": "10m", "memory": "1Mi"},
    }
    # when
    result = usage_of("pods", {"spec": spec})
    # then
    assert format_amounts(
        {name: result[name] for name in ("limits.cpu", "requests.cpu", "requests.memory")}
    ) == ("limits.cpu=1060m,requests.cpu=1060m,requests.memory=1Mi")


@pytest.mark.parametrize(
    ("name", "shelf"),
    [
        ("pods", "pods"),
        ("requests.example.com/gpu", "pods"),
        ("hugepages-2Mi", "pods"),
        ("services.nodeports", "services"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("count/deployments.apps", "deployments.apps"),
        ("secrets", "secrets"),
    ],
)
def test_each_resource_of_a_quota_is_of_one_kind(name: str, shelf: str) -> None:
    assert shelves_of(name) == (shelf,)


def test_load_balancers_without_node_ports_use_none() -> None:
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 1}]}
    result = usage_of("services", {"spec": spec})
    assert (result["services.nodeports"], result["services.loadbalancers"]) == (
        Quantity(0),
        Quantity.parse("1"),
    )
