"""Readers for the admission of pods: from the API server each time, or from a cache of budgets."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykruise.kinds import crds_of
from pykruise.kinds.podunavailablebudget.readers import CachedBudgets, LiveBudgets
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    Resource,
)
from pykruise.kube.values.owners import OwnerReference
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from support.budgets import DEPLOYMENT, NAMESPACE, budget, pod, workload

KEY = Key(NAMESPACE, "pub")


def new(doc: Document) -> Document:
    """The document as a client creates it, without uid and resourceVersion."""
    metadata = {key: value for key, value in doc["metadata"].items() if key not in ("uid", "resourceVersion")}
    return {**doc, "metadata": metadata}


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster with a budget of app=web."""
    async with Cluster(ClusterSettings(nodes=0), rng=random.Random(1)) as cluster:
        client = cluster.client
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", *crds_of([POD_UNAVAILABLE_BUDGETS]))
        await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        await client.create(POD_UNAVAILABLE_BUDGETS, NAMESPACE, new(budget(maxUnavailable=1)))
        yield cluster


@asynccontextmanager
async def reader(cluster: Cluster, *, is_cached: bool) -> AsyncIterator[LiveBudgets | CachedBudgets]:
    if not is_cached:
        yield LiveBudgets(lambda: cluster.client, clock=cluster.clock)
        return
    cached_budgets = CachedBudgets(cluster.client, clock=cluster.clock, rng=random.Random(1))
    task = asyncio.create_task(cached_budgets.run())
    try:
        yield cached_budgets
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("is_cached", [False, True])
async def test_both_readers_return_budgets_and_pods(*, is_cached: bool) -> None:
    async with cluster() as item, reader(item, is_cached=is_cached) as result:
        # budgets
        assert [each.name for each in await result.list_in_namespace(NAMESPACE)] == ["pub"]
        assert await result.list_in_namespace("elsewhere") in ((), [])
        known, stored = await result.find_newest(KEY), await result.read_fresh(KEY)
        assert known is not None
        assert known == stored
        # a pod
        assert await result.read_pod(NAMESPACE, "p1") is None
        await item.client.create(PODS, NAMESPACE, new(pod("p1", owner=None)))
        shown = await result.read_pod(NAMESPACE, "p1")
        assert shown is not None
        assert shown["metadata"]["name"] == "p1"


@pytest.mark.parametrize("is_cached", [False, True])
async def test_both_readers_return_the_deployment_of_a_replicaset(*, is_cached: bool) -> None:
    async with cluster() as item, reader(item, is_cached=is_cached) as result:
        deployment = await store(item, DEPLOYMENTS, workload(DEPLOYMENT, 0))
        replica_set = await store(
            item, REPLICA_SETS, workload(("apps/v1", "ReplicaSet", "web-1"), 0), of=deployment
        )
        assert await result.read_controller(replica_set, NAMESPACE) == deployment
        assert await result.read_controller(deployment, NAMESPACE) is None


async def store(
    cluster: Cluster, resource: Resource, doc: Document, *, of: OwnerReference | None = None
) -> OwnerReference:
    """Create a workload. Returns the reference of its children to it."""
    doc["spec"]["template"]["spec"] = {"containers": [{"name": "main", "image": "web:1"}]}
    if of is not None:
        doc["metadata"]["ownerReferences"] = [of.to_document()]
    stored = decode(await cluster.client.create(resource, NAMESPACE, new(doc)))["metadata"]
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=stored["name"],
        uid=stored["uid"],
        controller=True,
    )
