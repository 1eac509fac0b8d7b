"""Two readers of SidecarSets and related objects: from caches, or from the API server each time."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pykruise.kinds import crds_of
from pykruise.kinds.sidecarset.admission_facts import SidecarReader
from pykruise.kinds.sidecarset.readers import CachedSidecars, LiveSidecars
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
)
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from support.faults import Answer, FaultyTransport, reads
from support.sidecarsets import container, sidecarset

LOG = sidecarset("log", container("log"))
WHITELIST = "SidecarSet_PatchPodMetadata_WhiteList"
A_WHILE_S = 60.0


@asynccontextmanager
async def cluster(*, has_kind: bool = True) -> AsyncIterator[Cluster]:
    """A cluster with the namespaces shop, kruise-system and history, each labelled with its name."""
    async with Cluster(ClusterSettings(nodes=0), rng=random.Random(1)) as cluster:
        if has_kind:
            await install(cluster)
        for name in ("shop", "kruise-system", "history"):
            await cluster.client.create(
                NAMESPACES, "", {"metadata": {"name": name, "labels": {"tier": name}}}
            )
        yield cluster


async def install(cluster: Cluster) -> None:
    await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", *crds_of([SIDECAR_SETS]))


async def store_revision(cluster: Cluster, name: str, *, namespace: str, owner: str = "log") -> None:
    revision: Document = {
        "metadata": {"name": name, "labels": {"kruise.io/sidecarset-name": owner}},
        "revision": 1,
        "data": {"spec": {"containers": [container("log")]}},
    }
    await cluster.client.create(CONTROLLER_REVISIONS, namespace, revision)


async def store_whitelist(cluster: Cluster, namespace: str, text: str) -> None:
    config = {"metadata": {"name": "kruise-configuration"}, "data": {WHITELIST: text}}
    await cluster.client.create(CONFIG_MAPS, namespace, config)


def cached(cluster: Cluster, **more: str) -> CachedSidecars:
    return CachedSidecars(
        cluster.client, namespace="kruise-system", clock=cluster.clock, rng=random.Random(1), **more
    )


def live(cluster: Cluster) -> LiveSidecars:
    return LiveSidecars(lambda: cluster.client, namespace="kruise-system")


@asynccontextmanager
async def running(reader: CachedSidecars, *, for_s: float = 5.0) -> AsyncIterator[CachedSidecars]:
    """The reader with running caches, started `for_s` seconds earlier."""
    task = asyncio.create_task(reader.run())
    try:
        await asyncio.sleep(for_s)
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def sets(reader: SidecarReader) -> Sequence[str]:
    """Names of the SidecarSets, read within A_WHILE_S."""
    async with asyncio.timeout(A_WHILE_S):
        return [sidecar_set.name for sidecar_set in await reader.list_sidecar_sets()]


async def revisions(reader: SidecarReader, owner: str) -> Sequence[str]:
    return [revision.name for revision in await reader.list_revisions(owner)]


async def tier(reader: SidecarReader, namespace: str) -> str | None:
    labels = await reader.read_namespace_labels(namespace)
    return labels["tier"] if labels is not None else None


# ── the same objects ─────────────────────────────────────────────────────────


async def test_both_readers_see_the_same() -> None:
    async with cluster() as item, running(cached(item)) as reader:
        await item.client.create(SIDECAR_SETS, "", LOG)
        await store_revision(item, "log-1", namespace="kruise-system")
        await store_revision(item, "other-1", namespace="kruise-system", owner="other")
        await store_revision(item, "log-2", namespace="shop")
        await store_whitelist(item, "kruise-system", "text")
        await asyncio.sleep(A_WHILE_S)
        for each in (live(item), reader):
            assert await sets(each) == ["log"]
            assert await tier(each, "shop") == "shop"
            assert await each.read_namespace_labels("nowhere") is None
            assert await revisions(each, "log") == ["log-1"]
            assert await revisions(each, "nobody") == []
            assert await each.read_whitelist() == "text"


async def test_a_missing_whitelist_is_none() -> None:
    async with cluster() as item:
        for each in (live(item), cached(item)):
            assert await each.read_whitelist() is None
        await store_whitelist(item, "shop", "of another namespace")
        for each in (live(item), cached(item)):
            assert await each.read_whitelist() is None


async def test_revisions_may_be_elsewhere_than_the_manager() -> None:
    """After a take-over from another manager, the revisions stay in their namespace."""
    async with cluster() as item:
        await store_revision(item, "log-1", namespace="kruise-system")
        await store_revision(item, "log-2", namespace="history")
        reader = cached(item, revision_namespace="history")
        await store_whitelist(item, "kruise-system", "text")
        async with running(reader):
            assert await revisions(reader, "log") == ["log-2"]
            assert await reader.read_whitelist() == "text"
        # and while the watch is broken
        assert await revisions(reader, "log") == ["log-2"]
        # otherwise they are in the namespace of the manager
        async with running(cached(item)) as other:
            assert await revisions(other, "log") == ["log-1"]
        assert await revisions(other, "log") == ["log-1"]


# ── unread caches ────────────────────────────────────────────────────────────


async def test_a_kind_that_is_not_installed_has_no_objects_and_blocks_nothing() -> None:
    async with cluster(has_kind=False) as item, running(cached(item)) as reader:
        assert await live(item).list_sidecar_sets() == ()
        assert await sets(reader) == []
        assert not reader.objects.is_installed
        assert (reader.list_problems(), reader.objects.find_known()) == ((), ())
        # when it is installed
        await install(item)
        await item.client.create(SIDECAR_SETS, "", LOG)
        await asyncio.sleep(A_WHILE_S)
        # then
        assert reader.objects.is_installed
        assert await sets(reader) == ["log"]
        assert reader.list_problems() == ()
        # and when it is deleted, its objects are forgotten
        await item.client.delete(
            CUSTOM_RESOURCE_DEFINITIONS, "", f"{SIDECAR_SETS.plural}.{SIDECAR_SETS.group}"
        )
        await asyncio.sleep(A_WHILE_S)
        assert await sets(reader) == []
        assert reader.objects.is_installed, "for all that is known: its definition may be stored anew"


async def test_the_kind_may_be_found_missing_while_a_pod_waits() -> None:
    """The pod is created when the manager has just started."""
    async with cluster(has_kind=False) as item, running(cached(item), for_s=0.0) as reader:
        assert await sets(reader) == []


async def test_a_reader_reports_unread_caches_and_its_queries_wait() -> None:
    async with cluster() as item:
        await item.client.create(SIDECAR_SETS, "", LOG)
        await store_revision(item, "log-1", namespace="kruise-system")
        reader = cached(item)
        assert reader.list_problems() == ("SidecarSets and namespaces are not cached yet",)
        assert reader.objects.find_known() is None
        async with running(reader, for_s=0.0):
            assert await sets(reader) == ["log"]
            assert await tier(reader, "shop") == "shop"
            assert await revisions(reader, "log") == ["log-1"]
            assert reader.list_problems() == ()
            known = reader.objects.find_known()
            assert known is not None
            assert [each.name for each in known] == ["log"]


async def test_sidecarsets_that_the_api_server_cannot_convert_yet_are_no_problem() -> None:
    """The API server reaches the conversion webhook only through a manager that is ready."""
    async with cluster() as item:
        faulty = FaultyTransport(item.client.transport)
        faulty.on(reads("sidecarsets"), lambda _: Answer(500))
        reader = CachedSidecars(
            Client(faulty), namespace="kruise-system", clock=item.clock, rng=random.Random(1)
        )
        async with running(reader):
            assert reader.list_problems() == ()
            assert not reader.objects.cache.synced


async def test_namespaces_alone_do_not_make_it_ready_and_nor_do_sidecarsets() -> None:
    async with cluster() as item:
        for number in range(2):
            reader = cached(item)
            filled = (reader.objects.cache, reader._namespaces)[number]
            task = asyncio.create_task(filled.run())
            await asyncio.sleep(5.0)
            assert filled.synced
            assert len(reader.list_problems()) == 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


# ── while the watch is broken ────────────────────────────────────────────────


async def test_the_api_server_is_read_directly_while_the_watch_is_broken() -> None:
    """A restarted API server sends reviews of pods before the watch is opened again"""
    async with cluster() as item:
        await store_revision(item, "log-1", namespace="kruise-system")
        reader = cached(item)
        async with running(reader):
            assert await sets(reader) == []
            assert await tier(reader, "shop") == "shop"
        # when
        await item.client.create(SIDECAR_SETS, "", LOG)
        label = {"metadata": {"labels": {"tier": "new"}}}
        await item.client.patch(NAMESPACES, "", "shop", label, patch_type=PatchType.MERGE)
        await store_revision(item, "log-2", namespace="kruise-system")
        # then
        assert await sets(reader) == ["log"]
        assert await tier(reader, "shop") == "new"
        assert await revisions(reader, "log") == ["log-1", "log-2"]


async def test_no_request_is_sent_while_the_watch_runs() -> None:
    async with cluster() as item:
        await item.client.create(SIDECAR_SETS, "", LOG)
        await store_revision(item, "log-1", namespace="kruise-system")
        async with running(cached(item)) as reader:
            first = await reader.list_sidecar_sets()
            labels = await reader.read_namespace_labels("shop")
            (revision,) = await reader.list_revisions("log")
            # then the results are those of the caches, and are not read again
            assert (await reader.list_sidecar_sets())[0] is first[0]
            assert await reader.read_namespace_labels("shop") is labels
            assert (await reader.list_revisions("log"))[0] is revision
            # but a namespace that was just created may be missing in the cache
            await item.client.create(NAMESPACES, "", {"metadata": {"name": "new", "labels": {"tier": "new"}}})
            assert await tier(reader, "new") == "new"
