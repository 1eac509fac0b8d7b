"""DaemonSets and disruption budgets on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.errors import TooManyRequestsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DAEMON_SETS, DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.specs import NodeSpec
from support.sandbox import Object, Place, small_cluster


def workload(kind: str, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "agent:1"}]},
            },
            **spec,
        },
    }


async def placed(place: Place) -> list[str]:
    """The nodes of all pods, in order."""
    docs = [await place.get(PODS, name) for name in await place.names(PODS)]
    return sorted(doc["spec"].get("nodeName", "") for doc in docs)


async def is_everywhere(place: Place) -> bool:
    """Whether all wanted pods have the new revision and are available."""
    status = (await place.get(DAEMON_SETS, "web"))["status"]
    wanted = status.get("desiredNumberScheduled", 0)
    return bool(
        wanted and status.get("numberAvailable", 0) == status.get("updatedNumberScheduled", 0) == wanted
    )


async def test_every_node_gets_one_pod_including_a_node_added_later() -> None:
    async with small_cluster(nodes=3) as place:
        # given
        await place.create(DAEMON_SETS, workload("DaemonSet"))
        await place.until(lambda: is_everywhere(place))
        assert await placed(place) == ["node-1", "node-2", "node-3"]
        # when
        place.cluster.kubelets.add_node(NodeSpec(name="node-4"))
        await asyncio.sleep(5)
        # then
        assert await placed(place) == ["node-1", "node-2", "node-3", "node-4"]
        status = (await place.get(DAEMON_SETS, "web"))["status"]
        assert (status["numberReady"], status["numberMisscheduled"]) == (4, 0)


async def test_pods_keep_to_the_nodes_that_the_template_selects() -> None:
    async with small_cluster(nodes=3) as place:
        # given
        doc = workload("DaemonSet")
        doc["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
        await place.create(DAEMON_SETS, doc)
        await asyncio.sleep(5)
        assert await placed(place) == []
        # when
        await place.merge(NODES, "node-2", {"metadata": {"labels": {"disk": "ssd"}}})
        await asyncio.sleep(5)
        # then
        assert await placed(place) == ["node-2"]
        # and when the label is removed
        await place.merge(NODES, "node-2", {"metadata": {"labels": {"disk": None}}})
        await asyncio.sleep(5)
        assert await placed(place) == []


async def test_a_rolling_update_replaces_as_many_as_may_be_unavailable() -> None:
    async with small_cluster(nodes=4) as place:
        # given
        await place.create(DAEMON_SETS, workload("DaemonSet"))
        await place.until(lambda: is_everywhere(place))
        # when
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}}
        await place.client.patch(DAEMON_SETS, "default", "web", patch, patch_type=PatchType.STRATEGIC)
        await asyncio.sleep(0.1)
        # then
        while not await is_everywhere(place):
            assert (await place.get(DAEMON_SETS, "web"))["status"].get("numberUnavailable", 0) <= 1
            await asyncio.sleep(0.1)
        docs = [await place.get(PODS, name) for name in await place.names(PODS)]
        assert {doc["spec"]["containers"][0]["image"] for doc in docs} == {"agent:2"}
        assert await placed(place) == ["node-1", "node-2", "node-3", "node-4"]


async def new_image(place: Place, image: str) -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    await place.client.patch(DAEMON_SETS, "default", "web", patch, patch_type=PatchType.STRATEGIC)


def surging(most: int | str, unavailable: int = 0, **spec: Any) -> Object:
    rolling = {"maxSurge": most, "maxUnavailable": unavailable}
    return workload("DaemonSet", updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling}, **spec)


@pytest.mark.parametrize(("surge", "most"), [(1, 1), ("50%", 2), ("30%", 2)])
async def test_a_surging_update_adds_the_new_pod_before_it_deletes_the_old_one(
    surge: int | str, most: int
) -> None:
    async with small_cluster(nodes=4) as place:
        # given
        await place.create(DAEMON_SETS, surging(surge))
        await place.until(lambda: is_everywhere(place))
        # when
        await new_image(place, "agent:2")
        await asyncio.sleep(0.1)
        # then each node always has an available pod, and at most `most` nodes have two pods
        seen = 0
        while not await is_everywhere(place):
            assert (await place.get(DAEMON_SETS, "web"))["status"].get("numberUnavailable", 0) == 0
            docs = [await place.get(PODS, name) for name in await place.names(PODS)]
            alive = [doc for doc in docs if "deletionTimestamp" not in doc["metadata"]]
            assert len(alive) - 4 <= most
            seen = max(seen, len(alive) - 4)
            await asyncio.sleep(0.1)
        assert seen == most
        await asyncio.sleep(60)
        docs = [await place.get(PODS, name) for name in await place.names(PODS)]
        assert {doc["spec"]["containers"][0]["image"] for doc in docs} == {"agent:2"}
        assert await placed(place) == ["node-1", "node-2", "node-3", "node-4"]


async def test_a_surging_update_that_never_serves_keeps_the_old_pods() -> None:
    async with small_cluster(nodes=3, rules=[Rule(image="agent:2", never_ready=True)]) as place:
        # given
        await place.create(DAEMON_SETS, surging(1))
        await place.until(lambda: is_everywhere(place))
        # when
        await new_image(place, "agent:2")
        await asyncio.sleep(120)
        # then one node has two pods, and all old pods are available
        status = (await place.get(DAEMON_SETS, "web"))["status"]
        assert (status["numberAvailable"], status.get("updatedNumberScheduled", 0)) == (3, 0)
        assert len(await place.names(PODS)) == 4
        # and when the update is reverted, the second pod is deleted
        await new_image(place, "agent:1")
        await asyncio.sleep(120)
        assert await placed(place) == ["node-1", "node-2", "node-3"]


async def test_old_pods_that_do_not_serve_cost_no_surge() -> None:
    async with small_cluster(nodes=3, rules=[Rule(image="agent:1", never_ready=True)]) as place:
        # given a DaemonSet without available pods
        await place.create(DAEMON_SETS, surging(1))
        await asyncio.sleep(30)
        # when
        await new_image(place, "agent:2")
        await asyncio.sleep(0.1)
        # then all are replaced immediately
        docs = [await place.get(PODS, name) for name in await place.names(PODS)]
        assert sum(doc["spec"]["containers"][0]["image"] == "agent:2" for doc in docs) == 3
        await place.until(lambda: is_everywhere(place))


async def test_evictions_respect_the_disruption_budget() -> None:
    async with small_cluster() as place:
        # given
        await place.create(DEPLOYMENTS, workload("Deployment", replicas=4))
        budget = {
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}},
        }
        await place.create(POD_DISRUPTION_BUDGETS, budget)

        async def allows(count: int) -> bool:
            status = (await place.get(POD_DISRUPTION_BUDGETS, "web")).get("status", {})
            return bool(status.get("disruptionsAllowed") == count and status.get("expectedPods") == 4)

        await place.until(lambda: allows(1))
        status = (await place.get(POD_DISRUPTION_BUDGETS, "web"))["status"]
        assert (status["currentHealthy"], status["desiredHealthy"]) == (4, 3)
        first, second, *_ = await place.names(PODS)

        async def evict(name: str) -> None:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await place.client.create(PODS, "default", eviction, name=name, subresource="eviction")

        # when
        await evict(first)
        with pytest.raises(TooManyRequestsError):
            await evict(second)
        # then, when its replacement is available
        await place.until(lambda: allows(1))
        await evict(second)
