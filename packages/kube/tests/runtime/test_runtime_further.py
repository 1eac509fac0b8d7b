"""Caches that start and end with entries of a white list."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pykruise.kube.clock import make_loop_clock
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, DEPLOYMENTS, REPLICA_SETS, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.views import NamespaceView, project_namespace
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, read_white_list
from pykruise.runtime.named_kinds import AGAIN_S, FurtherKinds, FurtherReads
from pykruise.runtime.sources import Sources
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import wake_itself
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.virtual_time import VirtualLoop

DEPLOYMENT, REPLICA_SET = (
    GroupKind(resource.group, resource.kind) for resource in (DEPLOYMENTS, REPLICA_SETS)
)


@pytest.fixture
def virtual() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner


def views_of(resource: Resource) -> Views[NamespaceView]:
    return Views[NamespaceView](resource=resource, projector=lambda: project_namespace, is_apart=True)


READS = FurtherReads(
    configuration=CONFIGURATION,
    key="list",
    read=lambda text: read_white_list(text).workloads,
    namespace=str,
    views=views_of,
    wake=wake_itself,
    known=frozenset({REPLICA_SET}),
)


class Follower:
    """A cluster of one process, and FurtherKinds, which follows the white list in it."""

    def __init__(self, cluster: Cluster) -> None:
        self.client = cluster.client
        self.changed_names: list[str] = []
        self.mirrors: dict[Views[Any], Any] = {}
        clock, rng = make_loop_clock(start=0.0), random.Random(1)
        self.sources = Sources(cluster.client, clock=clock, rng=rng)
        self.further = FurtherKinds(
            READS,
            client=cluster.client,
            sources=self.sources,
            clock=clock,
            rng=rng,
            namespace="default",
            mirrors=self.mirrors,
            on_events=lambda _wake: lambda change: self.changed_names.append(change.key.name),
        )

    @property
    def kinds(self) -> set[str]:
        return {item.kind for item in self.further.by_kind}

    async def list_kinds(self, *kinds: str, text: str | None = None) -> None:
        entries = [{"Group": "apps", "Version": "v1", "Kind": kind} for kind in kinds]
        data = {"list": json.dumps({"workloads": entries}) if text is None else text}
        body = {"metadata": {"name": "kruise-configuration"}, "data": data}
        try:
            await self.client.create(CONFIG_MAPS, "default", body)
        except Exception:
            await self.client.patch(
                CONFIG_MAPS, "default", "kruise-configuration", body, patch_type=PatchType.MERGE
            )
        await asyncio.sleep(2.0)


async def played(story: Any) -> None:
    async with Cluster(ClusterSettings(nodes=0, controllers=()), clock=make_loop_clock(start=0.0)) as cluster:
        follower = Follower(cluster)
        tasks = [asyncio.create_task(item.run()) for item in (follower.sources, follower.further)]
        await asyncio.sleep(1.0)
        try:
            await story(follower)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def deployment(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_kind_is_watched_only_while_it_is_listed(virtual: asyncio.Runner) -> None:
    async def story(follower: Follower) -> None:
        assert follower.kinds == set()
        await follower.list_kinds("Deployment", "ReplicaSet")
        assert follower.kinds == {"Deployment"}  # the other kind is watched in any case
        await follower.client.create(DEPLOYMENTS, "default", deployment("web"))
        await asyncio.sleep(1.0)
        assert follower.changed_names == ["web"]
        (views,) = follower.mirrors
        assert [result.name for result in follower.mirrors[views].values()] == ["web"]
        await follower.list_kinds()
        await follower.client.create(DEPLOYMENTS, "default", deployment("late"))
        await asyncio.sleep(1.0)
        assert (follower.kinds, follower.mirrors, follower.changed_names) == (set(), {}, ["web"])

    virtual.run(played(story))


def test_a_white_list_that_cannot_be_read_changes_nothing(virtual: asyncio.Runner) -> None:
    async def story(follower: Follower) -> None:
        await follower.list_kinds("Deployment")
        await follower.list_kinds(text="no list")
        assert follower.kinds == {"Deployment"}

    virtual.run(played(story))


def test_a_kind_that_is_not_served_is_retried_and_blocks_nothing(virtual: asyncio.Runner) -> None:
    async def story(follower: Follower) -> None:
        await follower.list_kinds("Unknown", "Deployment")
        assert follower.kinds == {"Deployment"}
        await asyncio.sleep(2 * AGAIN_S)
        assert follower.kinds == {"Deployment"}

    virtual.run(played(story))
