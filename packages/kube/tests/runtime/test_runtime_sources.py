"""The caches of a manager: each cache of a resource gets own writes, and no wait for a resource that is not served."""

import asyncio
import random

import msgspec

from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.sources import Sources
from pykruise.runtime.views import Views
from support.faults import Delay, FaultyTransport, reads, watches
from support.sandbox import small_cluster

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}


def apart(resource: Resource = PODS) -> Views[PodView]:
    return Views[PodView](resource=resource, projector=POD_VIEWS.projector, is_apart=True)


async def test_every_cache_of_a_resource_gets_own_writes() -> None:
    async with small_cluster() as place:
        # given two caches of pods, and watches without events for a long time
        faulty = FaultyTransport(place.cluster.make_transport("manager"))
        client = Client(faulty, clock=place.cluster.clock)
        sources = Sources(client, clock=place.cluster.clock, rng=random.Random(1))
        other = apart()
        caches = [sources.find_cache(POD_VIEWS), sources.find_cache(other)]
        faulty.on(watches("pods"), *[Delay(1e6)] * 4)
        running = asyncio.create_task(sources.run())
        await sources.wait_synced([POD_VIEWS, other])
        writer = Writer(client, sources.observers)
        key = Key("default", "a")
        # when, then
        await writer.create(PODS, "default", POD)
        assert all(cache.get(key) is not None for cache in caches)
        labels = {"metadata": {"labels": {"app": "web"}}}
        await writer.patch(PODS, key, labels, patch_type=PatchType.MERGE)
        assert all((pod := cache.get(key)) and pod.labels == {"app": "web"} for cache in caches)
        await writer.delete(PODS, key, grace_period_s=0)
        assert all((pod := cache.get(key)) is None or pod.is_deleting for cache in caches)
        running.cancel()
        await asyncio.wait([running])


async def test_a_wait_for_an_unserved_resource_ends_with_the_answer() -> None:
    async with small_cluster() as place:
        # given an API server that answers late that it does not serve the resource
        faulty = FaultyTransport(place.cluster.make_transport("manager"))
        faulty.on(reads("widgets"), Delay(5.0))
        client = Client(faulty, clock=place.cluster.clock)
        sources = Sources(client, clock=place.cluster.clock, rng=random.Random(1))
        widgets = apart(msgspec.structs.replace(PODS, group="example.com", plural="widgets", kind="Widget"))
        cache = sources.find_cache(widgets)
        running = asyncio.create_task(sources.run())
        # when, then
        async with asyncio.timeout(60.0):
            assert not await cache.wait_served()
        running.cancel()
        await asyncio.wait([running])


async def test_a_borrowed_cache_is_read_and_gets_own_writes_but_its_owner_runs_it() -> None:
    async with small_cluster() as place:
        # given a cache that another part runs
        client = Client(place.cluster.make_transport("manager"), clock=place.cluster.clock)
        owner = Sources(client, clock=place.cluster.clock, rng=random.Random(1))
        cache = owner.find_cache(POD_VIEWS)
        running = asyncio.create_task(owner.run())
        # when
        sources = Sources(
            client, clock=place.cluster.clock, rng=random.Random(1), borrowed={POD_VIEWS: cache}
        )
        borrowing = asyncio.create_task(sources.run())  # a cache that runs twice raises
        await sources.wait_synced()
        # then
        assert sources.find_cache(POD_VIEWS) is cache
        assert sources.by_resource[PODS] is cache
        await Writer(client, sources.observers).create(PODS, "default", POD)
        assert cache.get(Key("default", "a")) is not None
        running.cancel()
        borrowing.cancel()
        await asyncio.wait([running, borrowing])
