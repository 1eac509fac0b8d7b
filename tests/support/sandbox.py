"""Clusters for the sandbox's tests, in virtual time, with a seed and short methods.

async with small_cluster(nodes=2) as place:
    await place.create(PODS, pod("web"))
    await place.until(lambda: place.is_ready("web"))
"""

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import EVENTS, PODS, Resource
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from support.paper import START

Object = dict[str, Any]


def pod(
    name: str,
    *,
    image: str = "nginx:1",
    labels: Mapping[str, str] | None = None,
    owners: Sequence[Object] = (),
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod as a user writes it; further fields of the spec as keywords."""
    container: Object = {"name": "main", "image": image}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    if owners:
        metadata["ownerReferences"] = list(owners)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def config_map(name: str, *, owners: Sequence[Object] = (), **metadata: Any) -> Object:
    """An object that no controller handles; keywords are further metadata."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": list(owners), **metadata},
    }


def owned_by(owner: Object, *, blocks: bool = False, **changes: Any) -> Object:
    """A reference to an object as stored."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return reference | ({"blockOwnerDeletion": True} if blocks else {}) | changes


class Place:
    """A cluster with methods for tests, in the namespace `default`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    async def create(self, resource: Resource, doc: Object, *, namespace: str = "default") -> Object:
        """Create an object; returns it as stored."""
        return decode(await self.client.create(resource, namespace if resource.namespaced else "", doc))

    async def get(self, resource: Resource, name: str, *, namespace: str = "default") -> Object:
        """An object as stored."""
        return decode(await self.client.get(resource, namespace if resource.namespaced else "", name))

    async def exists(self, resource: Resource, name: str, *, namespace: str = "default") -> bool:
        """Whether an object of that name exists."""
        try:
            await self.get(resource, name, namespace=namespace)
        except NotFoundError:
            return False
        return True

    async def names(self, resource: Resource, *, namespace: str = "default") -> list[str]:
        """Names of all objects of a resource in the namespace."""
        listed = await self.client.list(resource, namespace if resource.namespaced else "")
        return [decode(item)["metadata"]["name"] for item in listed.items]

    async def merge(
        self,
        resource: Resource,
        name: str,
        patch: Object,
        *,
        namespace: str = "default",
        subresource: str = "",
    ) -> Object:
        """Merge-patch an object."""
        return decode(
            await self.client.patch(
                resource,
                namespace if resource.namespaced else "",
                name,
                patch,
                patch_type=PatchType.MERGE,
                subresource=subresource,
            )
        )

    async def set_condition(self, name: str, kind: str, status: str) -> None:
        """Write a condition of a pod, as the owner of a readiness gate does."""
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        await self.client.patch(
            PODS, "default", name, patch, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def set_image(self, name: str, image: str, *, container: str = "main") -> None:
        """Change a container's image in place."""
        patch = {"spec": {"containers": [{"name": container, "image": image}]}}
        await self.client.patch(PODS, "default", name, patch, patch_type=PatchType.STRATEGIC)

    async def condition(self, name: str, kind: str) -> Object:
        """A condition of a pod; empty if it has none of that type."""
        status = (await self.get(PODS, name))["status"]
        return next(
            (condition for condition in status.get("conditions", ()) if condition["type"] == kind), {}
        )

    async def is_ready(self, name: str) -> bool:
        """Whether a pod is ready."""
        return (await self.condition(name, "Ready")).get("status") == "True"

    async def events(self, reason: str) -> list[Object]:
        """Events with that reason."""
        events = [decode(item) for item in (await self.client.list(EVENTS, "default")).items]
        return [event for event in events if event["reason"] == reason]

    async def until(
        self, claim: Callable[[], Any], *, within_s: float = 60.0, every_s: float = 0.05
    ) -> float:
        """Wait until `claim()` (awaitable or not) is true; returns after how many seconds."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            result = claim()
            if inspect.isawaitable(result):
                result = await result
            if result:
                return loop.time() - begun
            assert loop.time() - begun < within_s, f"not within {within_s:g} s"
            await asyncio.sleep(every_s)


@asynccontextmanager
async def small_cluster(
    settings: ClusterSettings | None = None, *, seed: int = 1, nodes: int = 3, **options: Any
) -> AsyncIterator[Place]:
    """A running cluster whose clock is the test's loop; `options` are those of Cluster."""
    settings = settings or ClusterSettings(nodes=nodes)
    clock = make_loop_clock(start=START)
    async with Cluster(settings, clock=clock, rng=random.Random(seed), **options) as cluster:
        yield Place(cluster)
