"""Reads of a cluster: PersistentPodStates, the white list, and workloads on it."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykruise.kinds import crds_of
from pykruise.kinds.persistentpodstate.readers import CachedStates, KindReader, LiveStates
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import Document
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, STATEFUL_KINDS, WhiteListError
from support.sandbox import Place, small_cluster

OWN = "kruise-system"
SERVICES = '{"workloads": [{"Kind": "Service"}, {"Group": "game.kruise.io", "Kind": "GameSet"}]}'
SERVICE = GroupKind("", "Service")


@asynccontextmanager
async def cluster() -> AsyncIterator[Place]:
    """A white list with Services, and with a kind that is not served."""
    async with small_cluster(nodes=0) as place:
        await place.create(NAMESPACES, {"metadata": {"name": OWN}})
        configuration = {"metadata": {"name": CONFIGURATION}, "data": {STATEFUL_KINDS: SERVICES}}
        await place.create(CONFIG_MAPS, configuration, namespace=OWN)
        yield place


def common() -> dict[str, Any]:
    return {"namespace": OWN, "clock": make_loop_clock(start=0.0)}


def state(name: str) -> Document:
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}
    spec = {"targetRef": reference, "requiredPersistentTopology": {"keys": ["zone"]}}
    resource = PERSISTENT_POD_STATES
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name}, "spec": spec}


async def install(place: Place) -> None:
    await place.create(CUSTOM_RESOURCE_DEFINITIONS, crds_of([PERSISTENT_POD_STATES])[0])


async def test_pods_of_stateful_sets_and_of_kinds_of_the_white_list_are_remembered() -> None:
    async with cluster() as place:
        reader = KindReader(lambda: place.client, **common())
        for kind, is_supported in (
            (GroupKind("apps", "StatefulSet"), True),
            (GroupKind("apps.kruise.io", "StatefulSet"), True),
            (SERVICE, True),
            (GroupKind("apps", "Deployment"), False),
            (None, False),
        ):
            assert await reader.is_supported(kind) is is_supported


async def test_a_white_list_that_cannot_be_read_matters_only_to_kinds_that_would_be_on_it() -> None:
    async with cluster() as place:
        reader = KindReader(lambda: place.client, **common())
        await place.merge(CONFIG_MAPS, CONFIGURATION, {"data": {STATEFUL_KINDS: "{"}}, namespace=OWN)
        assert await reader.is_supported(GroupKind("apps", "StatefulSet"))
        assert not await reader.is_supported(None)
        with pytest.raises(WhiteListError):
            await reader.is_supported(SERVICE)


async def test_a_workload_of_the_white_list_is_read_in_its_version() -> None:
    async with cluster() as place:
        reader = KindReader(lambda: place.client, **common())
        service = Resource("", "v1", "services", "Service")
        await place.create(service, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
        # then
        workload = await reader.read_workload("v1", "Service", "default", "web")
        assert workload is not None
        assert (workload.name, workload.kind, workload.replicas) == ("web", "Service", 0)
        for api_version, kind, name in (
            ("v1", "Service", "other"),
            ("v2", "Service", "web"),
            ("game.kruise.io/v1", "GameSet", "web"),
            ("a/b/c", "Service", "web"),
        ):
            assert await reader.read_workload(api_version, kind, "default", name) is None


async def test_a_version_is_what_follows_the_group() -> None:
    async with cluster() as place:
        reader = KindReader(lambda: place.client, **common())
        await install(place)
        await place.create(PERSISTENT_POD_STATES, state("web"))
        for api_version in (PERSISTENT_POD_STATES.api_version, "apps.kruise.io/v1alpha1"):
            workload = await reader.read_workload(api_version, PERSISTENT_POD_STATES.kind, "default", "web")
            assert workload is not None
            assert workload.api_version == api_version


async def test_both_readers_see_the_same_and_the_one_with_a_cache_costs_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as place:
        live = LiveStates(lambda: place.client, **common())
        cached = CachedStates(place.client, **common(), rng=random.Random(1))
        assert await live.list_states("default") == (), "the kind is not installed"
        running = asyncio.create_task(cached.run())
        try:
            await asyncio.sleep(5)
            assert await cached.list_states("default") == ()
            # when the kind is installed, and an object exists
            await install(place)
            await place.create(PERSISTENT_POD_STATES, state("web"))
            await place.create(PERSISTENT_POD_STATES, state("other"), namespace=OWN)
            await asyncio.sleep(60)
            # then
            for reader in (live, cached):
                assert [state.name for state in await reader.list_states("default")] == ["web"]
                assert await reader.is_supported(SERVICE)
            monkeypatch.setattr(place.client, "list", None)
            assert [state.name for state in await cached.list_states("default")] == ["web"]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
