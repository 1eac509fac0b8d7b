"""Reads of WorkloadSpreads, owners, pods, and the replicas of a workload."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from pykruise.kinds import crds_of
from pykruise.kinds.workloadspread.readers import (
    WHITE_LIST_KEY,
    CachedSpreads,
    LiveSpreads,
    TargetReader,
    read_replicas_for,
)
from pykruise.kinds.workloadspread.targets import PathError
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, SubsetStatus
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import Document
from pykruise.kube.errors import ConflictError, ErrorStatus, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.owners import OwnerReference
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, WhiteListError
from support.sandbox import Place, pod, small_cluster
from support.spreads import spread, subset, view

OWN = "kruise-system"
ROLLOUT = ("argoproj.io/v1alpha1", "Rollout", "web")
LISTED = {"Group": "argoproj.io", "Kind": "Rollout"}


class Server:
    """Objects by kind, name and subresource, as an API server returns them."""

    def __init__(self, *, white_list: str = "", **objects: Document) -> None:
        """`objects`: the CloneSet or Rollout `web`, and its `scale`."""
        self.asked: list[str] = []
        self._objects = objects
        if white_list:
            self._objects["ConfigMap"] = {"data": {WHITE_LIST_KEY: white_list}}

    async def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> bytes:
        self.asked.append(f"{resource.version} {resource.kind} {namespace}/{name} {subresource}".strip())
        result = self._objects.get(subresource or resource.kind)
        if result is None:
            raise NotFoundError(ErrorStatus(code=404, message="not found"))
        return orjson.dumps(result)

    async def get_path(self, path: str) -> bytes:
        assert path == "/apis/argoproj.io/v1alpha1"
        return orjson.dumps({"resources": [{"name": "rollouts", "kind": "Rollout"}]})

    def reader(self) -> TargetReader:
        return TargetReader(lambda: self, namespace=OWN)  # type: ignore[arg-type,return-value]


def listed(**more: str) -> str:
    return orjson.dumps({"workloads": [{**LISTED, **more}]}).decode()


def rolling(*, counted: int = 0, **target_filter: Any) -> SpreadView:
    """A WorkloadSpread of the Rollout web; `counted`: pods of its first subset in its status."""
    entries = [
        {"name": name, "replicas": number, "missingReplicas": 0}
        for name, number in (("a", counted), ("b", 1))
    ]
    status = {"subsetStatuses": entries} if counted else None
    return view(spread(subset("a", "50%"), target=ROLLOUT, status=status, targetFilter=target_filter))


# ── replicas of a workload ───────────────────────────────────────────────────


async def test_the_replicas_of_a_built_in_kind_are_read_from_its_spec() -> None:
    server = Server(CloneSet={"spec": {"replicas": 3}}, white_list="{")
    assert await server.reader().read_replicas(view(spread(subset("a")))) == 3
    assert server.asked == ["v1beta1 CloneSet shop/web"]


@pytest.mark.parametrize("document", [spread(subset("a")), {**spread(subset("a")), "spec": {"targetRef": 3}}])
async def test_a_missing_or_unnamed_workload_has_zero_replicas(document: Document) -> None:
    reader = Server(scale={"spec": {"replicas": 7}}).reader()
    assert await reader.read_replicas(view(document)) == 0
    assert await reader.read_target(view(document)) is None


async def test_a_workloadspread_without_a_target_has_no_scale() -> None:
    reader = Server(scale={"spec": {"replicas": 7}}).reader()
    assert await reader.scale(view({**spread(subset("a")), "spec": {"targetRef": 3}})) is None
    assert await reader.scale(rolling()) == {"spec": {"replicas": 7}}


@pytest.mark.parametrize("white_list", ["", "{", listed()], ids=["none", "broken", "without a path"])
async def test_the_replicas_of_other_kinds_are_read_from_their_scale(white_list: str) -> None:
    server = Server(Rollout={"spec": {"replicas": 3}}, scale={"spec": {"replicas": 7}}, white_list=white_list)
    assert await server.reader().read_replicas(rolling(counted=4)) == 7
    assert server.asked[0] == "v1alpha1 Rollout shop/web"
    assert server.asked[-1] == "v1alpha1 Rollout shop/web scale"


@pytest.mark.parametrize("scale", [None, {}, {"spec": {"replicas": "7"}}])
async def test_the_counted_pods_are_the_replicas_without_any_other_source(scale: Document | None) -> None:
    more = {} if scale is None else {"scale": scale}
    assert await Server(Rollout={"spec": {}}, **more).reader().read_replicas(rolling(counted=4)) == 5
    assert await Server(Rollout={"spec": {}}, **more).reader().read_replicas(rolling()) == 0


async def test_a_path_of_the_white_list_is_read_and_a_missing_field_is_zero() -> None:
    server = Server(
        Rollout={"spec": {"size": 6}},
        scale={"spec": {"replicas": 7}},
        white_list=listed(replicasPath="spec.size"),
    )
    assert await server.reader().read_replicas(rolling(counted=4)) == 6
    odd = Server(Rollout={"spec": {}}, white_list=listed(replicasPath="spec.size"))
    assert await odd.reader().read_replicas(rolling(counted=4)) == 0


async def test_the_paths_of_the_filter_are_read_and_must_exist() -> None:
    server = Server(Rollout={"spec": {"a": 1, "b": 2}}, white_list=listed(replicasPath="spec.a"))
    assert await server.reader().read_replicas(rolling(replicasPathList=["spec.a", "spec.b"])) == 3
    with pytest.raises(PathError):
        await server.reader().read_replicas(rolling(replicasPathList=["spec.c"]))


async def test_the_workload_is_read_for_shares_alone() -> None:
    server = Server(CloneSet={"spec": {"replicas": 8}})
    reader: Any = server.reader()
    numbers, shares = (view(spread(subset("a", most))) for most in (4, "50%"))
    await read_replicas_for(numbers.subsets, numbers, reader)
    assert server.asked == []
    assert await read_replicas_for(shares.subsets, shares, reader) == 8


# ── a cluster ────────────────────────────────────────────────────────────────


@asynccontextmanager
async def cluster() -> AsyncIterator[Place]:
    async with small_cluster(nodes=0) as place:
        await place.create(NAMESPACES, {"metadata": {"name": OWN}})
        yield place


def common() -> dict[str, Any]:
    return {"namespace": OWN, "clock": make_loop_clock(start=0.0)}


async def install(place: Place) -> None:
    """Install WorkloadSpreads, and create one."""
    await place.create(CUSTOM_RESOURCE_DEFINITIONS, crds_of([WORKLOAD_SPREADS])[0])
    document = spread(subset("a", 3))
    document["metadata"] = {"name": "ws"}
    await place.create(WORKLOAD_SPREADS, document)


WS = Key("default", "ws")


async def test_both_readers_see_the_same_and_the_one_with_a_cache_costs_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as place:
        live = LiveSpreads(lambda: place.client, **common())
        cached = CachedSpreads(place.client, **common(), rng=random.Random(1))
        assert await live.list_spreads("default") == (), "the kind is not installed"
        running = asyncio.create_task(cached.run())
        try:
            await asyncio.sleep(5)
            assert await cached.list_spreads("default") == ()
            # when it is installed, and used
            await install(place)
            await asyncio.sleep(60)
            # then
            for reader in (live, cached):
                assert [spread.name for spread in await reader.list_spreads("default")] == ["ws"]
                assert await reader.list_spreads(OWN) in ((), [])
                for result in (await reader.find_newest(WS), await reader.read_fresh(WS)):
                    assert result is not None
                    assert result.name == "ws"
                assert await reader.find_newest(Key("default", "other")) is None
                assert await reader.read_fresh(Key("default", "other")) is None
            for request in ("list", "get"):
                monkeypatch.setattr(place.client, request, None)
            assert [spread.name for spread in await cached.list_spreads("default")] == ["ws"]
            assert await cached.find_newest(WS) is not None
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("is_cached", [False, True])
async def test_slots_are_written_unless_another_client_wrote_in_between(is_cached: bool) -> None:
    async with cluster() as place:
        await install(place)
        live = LiveSpreads(lambda: place.client, **common())
        reader = CachedSpreads(place.client, **common(), rng=random.Random(1)) if is_cached else live
        seen = await live.read_fresh(WS)
        assert seen is not None
        lists = {"v1": [SubsetStatus(name="a", missing_replicas=2, replicas=1)]}
        # when
        written = await reader.write(seen, lists)
        # then
        assert [entry.missing_replicas for entry in written.list_entries("v1")] == [2]
        assert (await live.read_fresh(WS)) == written
        with pytest.raises(ConflictError):
            await reader.write(seen, lists)


async def test_owners_pods_and_the_white_list_are_read_from_the_api_server() -> None:
    async with cluster() as place:
        reader = LiveSpreads(lambda: place.client, **common())
        owner = {"apiVersion": "v1", "kind": "Service", "name": "above", "uid": "u1", "controller": True}
        await place.create(PODS, pod("p", owners=[owner]))
        # then
        result = await reader.read_pod("default", "p")
        assert result is not None
        assert result["metadata"]["name"] == "p"
        assert await reader.read_pod("default", "other") is None
        uid = result["metadata"]["uid"]
        above = await reader.read_controller(
            OwnerReference(api_version="v1", kind="Pod", name="p", uid=uid), "default"
        )
        assert above is not None
        assert above.name == "above"


async def test_the_white_list_is_remembered_for_a_moment() -> None:
    async with cluster() as place:
        reader = LiveSpreads(lambda: place.client, **common())
        assert (await reader.read_white_list()).workloads == ()
        configuration = {"metadata": {"name": CONFIGURATION}, "data": {WHITE_LIST_KEY: listed()}}
        await place.create(CONFIG_MAPS, configuration, namespace=OWN)
        assert (await reader.read_white_list()).workloads == ()
        await asyncio.sleep(5)
        assert [workload.target for workload in (await reader.read_white_list()).workloads] == [
            GroupKind("argoproj.io", "Rollout")
        ]
        await place.merge(CONFIG_MAPS, CONFIGURATION, {"data": {WHITE_LIST_KEY: "{"}}, namespace=OWN)
        await asyncio.sleep(5)
        with pytest.raises(WhiteListError):
            await reader.read_white_list()
