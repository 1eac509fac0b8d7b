"""Clients of hub versions on a cluster that stores older versions: their requests, and the objects that they see.

The cluster is the sandbox's API server with the definitions of a released OpenKruise: v1alpha1 alone, but for
Advanced StatefulSets.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pykruise.kinds import (
    RELEASED_STORED,
    build_crds,
    find_stored_version,
    list_conversions,
    list_kinds,
    use_stored_versions,
)
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.containerrecreaterequest.conversion import SNAPSHOT
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.client.client import Client
from pykruise.kube.client.stored_versions import STORED_VERSION, StoredVersionTransport, stored_version_of
from pykruise.kube.client.transport import Request, Response, Transport, WrappedTransport
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ConflictError, InvalidError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from pykruise.kube.schemas.conversion import convert
from pykruise.manager.storage import MoveError, move_kind, read_storage
from pykruise.manager.switch_over import check_switch
from pykruise.pods.view import keys
from pykruise.sandbox.apiserver import ApiServer, ConversionFunctions
from pykruise.sandbox.local import LocalTransport
from support.faults import Answer, FaultyTransport
from support.scenario import cloneset, rolling
from support.stored_kinds import older_version, storage_with_kinds, with_one_version

START = 1_770_000_000.0
OLD_CLONE_SETS = older_version(CLONE_SETS)


class Recorded(WrappedTransport):
    """A transport that records requests. It answers the first request of each path in `failures` itself."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.sent: list[Request] = []
        self.failures: dict[str, int] = {}

    async def request(self, request: Request, /) -> Response:
        self.sent.append(request)
        if status := self.failures.pop(request.path, None):
            return Response(status, {}, b"try again later")
        return await super().request(request)

    @property
    def writes(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.sent if request.method != "GET"]


class World:
    """An API server, a client of hub versions, and a client of the stored versions."""

    def __init__(self, server: ApiServer) -> None:
        self.plain = LocalTransport(server, username="admin")
        self.recorded = Recorded(self.plain)
        self.stored = Client(self.plain)
        self.transport: StoredVersionTransport = use_stored_versions(self.recorded)
        self.client = Client(self.transport)

    async def clone_set(self, **spec: Any) -> Document:
        return decode(await self.client.create(CLONE_SETS, "d", cloneset(**spec)))

    async def as_stored(self, resource: Resource, name: str) -> Document:
        return decode(await self.stored.get(older_version(resource), "d", name))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    storage = await storage_with_kinds(START, only="v1alpha1")
    converting = ConversionFunctions(list_conversions())
    server = ApiServer(clock=lambda: START, rng=random.Random(1), conversions=converting, storage=storage)
    world = World(server)
    await world.stored.create(NAMESPACES, "", {"metadata": {"name": "d"}})
    yield world
    await world.plain.close()


async def test_objects_are_stored_in_the_older_version_and_read_in_the_hub_version(
    world: World,
) -> None:
    seen = await world.clone_set(updateStrategy=rolling(partition=2, podUpdatePolicy="InPlaceOnly"))
    stored = await world.as_stored(CLONE_SETS, "web")
    assert (seen["apiVersion"], stored["apiVersion"]) == ("apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1")
    assert seen["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 2
    assert stored["spec"]["updateStrategy"] == {"type": "InPlaceOnly", "partition": 2}
    assert stored_version_of(seen["metadata"]["annotations"], hub="v1beta1") == "v1alpha1"
    assert STORED_VERSION not in stored["metadata"].get("annotations", {})


async def test_lists_and_watches_show_the_hub_version(world: World) -> None:
    await world.clone_set()
    listed = await world.client.list(CLONE_SETS, "d")
    assert [decode(raw)["apiVersion"] for raw in listed.items] == ["apps.kruise.io/v1beta1"]
    async with world.client.watch(CLONE_SETS, "d", resource_version=listed.resource_version) as events:
        change = {"spec": {"replicas": 7}}
        await world.stored.patch(OLD_CLONE_SETS, "d", "web", change, patch_type=PatchType.MERGE)
        event = await anext(events)
    seen = decode(event.object)
    assert (event.type, seen["apiVersion"], seen["spec"]["replicas"]) == (
        "MODIFIED",
        "apps.kruise.io/v1beta1",
        7,
    )


@pytest.mark.parametrize(
    "annotations",
    [
        {keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION: "20%"},
        {keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION: "abc"},
        {keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION: "-1"},
        {keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION: "99999999999"},
        {keys.PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION: "-1"},
    ],
)
async def test_an_annotation_that_v1alpha1_does_not_check_does_not_stop_the_object(
    world: World, annotations: dict[str, str]
) -> None:
    await world.clone_set(replicas=2, updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible"))
    change = {"metadata": {"annotations": annotations}}
    await world.stored.patch(OLD_CLONE_SETS, "d", "web", change, patch_type=PatchType.MERGE)
    report = await check_switch(world.client, now=START)
    created = [write.target.partition(" ")[0] for write in report.writes if write.verb == "create"]
    assert created == ["ControllerRevision", "Pod", "Pod"]


@pytest.mark.parametrize("patch_type", [PatchType.MERGE, PatchType.JSON])
async def test_a_patch_in_the_hub_version_changes_the_stored_field(
    world: World, patch_type: PatchType
) -> None:
    await world.clone_set(updateStrategy=rolling(partition=2))
    path = ("spec", "updateStrategy", "rollingUpdate", "partition")
    body: Any = [{"op": "replace", "path": "/" + "/".join(path), "value": 1}]
    if patch_type == PatchType.MERGE:
        body = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}
    seen = decode(await world.client.patch(CLONE_SETS, "d", "web", body, patch_type=patch_type))
    assert seen["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 1
    assert (await world.as_stored(CLONE_SETS, "web"))["spec"]["updateStrategy"]["partition"] == 1


async def test_a_patch_that_is_equal_in_both_versions_is_one_request(world: World) -> None:
    await world.clone_set()
    world.recorded.sent.clear()
    body = {"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 3}}
    await world.client.patch(CLONE_SETS, "d", "web", body, patch_type=PatchType.MERGE)
    path = "/apis/apps.kruise.io/v1alpha1/namespaces/d/clonesets/web"
    assert [(request.method, request.path) for request in world.recorded.sent] == [("PATCH", path)]


async def test_preconditions_hold_for_both_writers(world: World) -> None:
    seen = await world.clone_set()
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 9}}
    with pytest.raises(ConflictError):
        await world.client.patch(CLONE_SETS, "d", "web", stale, patch_type=PatchType.MERGE)
    other = {"metadata": {"uid": "another"}, "spec": {"replicas": 9}}
    with pytest.raises((ConflictError, InvalidError)):
        await world.client.patch(CLONE_SETS, "d", "web", other, patch_type=PatchType.MERGE)
    failing = [
        {"op": "test", "path": "/spec/replicas", "value": 99},
        {"op": "remove", "path": "/spec/replicas"},
    ]
    with pytest.raises(InvalidError):
        await world.client.patch(CLONE_SETS, "d", "web", failing, patch_type=PatchType.JSON)
    assert (await world.as_stored(CLONE_SETS, "web"))["spec"]["replicas"] == seen["spec"]["replicas"]
    with pytest.raises(NotFoundError):
        await world.client.patch(CLONE_SETS, "d", "none", {"spec": {}}, patch_type=PatchType.MERGE)


async def test_a_patch_is_retried_when_another_client_writes_in_between(world: World) -> None:
    await world.clone_set(updateStrategy=rolling(partition=2))
    inner_request = world.recorded.request
    interfered = asyncio.Event()

    async def interfering(request: Request) -> Response:
        answer = await inner_request(request)
        if request.method == "GET" and request.path.endswith("/web") and not interfered.is_set():
            interfered.set()
            await world.stored.patch(
                OLD_CLONE_SETS, "d", "web", {"spec": {"replicas": 8}}, patch_type=PatchType.MERGE
            )
        return answer

    world.recorded.request = interfering  # type: ignore[method-assign]
    body = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
    await world.client.patch(CLONE_SETS, "d", "web", body, patch_type=PatchType.MERGE)
    stored = await world.as_stored(CLONE_SETS, "web")
    assert (stored["spec"]["replicas"], stored["spec"]["updateStrategy"]["partition"]) == (8, 0)


async def test_owners_are_named_in_the_version_that_is_stored(world: World) -> None:
    """The garbage collector does not find an owner in a version that is not served."""
    owner = await world.clone_set()
    reference = {
        "apiVersion": CLONE_SETS.api_version,
        "kind": "CloneSet",
        "name": "web",
        "uid": owner["metadata"]["uid"],
    }
    pod = {
        "metadata": {"name": "p", "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    created = decode(await world.client.create(PODS, "d", pod))
    assert [reference["apiVersion"] for reference in created["metadata"]["ownerReferences"]] == [
        "apps.kruise.io/v1alpha1"
    ]
    for body, patch_type in (
        ({"metadata": {"ownerReferences": [reference]}}, PatchType.STRATEGIC),
        ([{"op": "add", "path": "/metadata/ownerReferences", "value": [reference]}], PatchType.JSON),
    ):
        patched = decode(await world.client.patch(PODS, "d", "p", body, patch_type=patch_type))
        owners = patched["metadata"]["ownerReferences"]
        assert [owner["apiVersion"] for owner in owners] == ["apps.kruise.io/v1alpha1"]


async def test_a_part_of_a_newer_status_that_is_an_annotation_is_written_as_one(world: World) -> None:
    request = {
        "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
        "kind": "ContainerRecreateRequest",
        "metadata": {"name": "again"},
        "spec": {"podName": "p", "containers": [{"name": "main"}]},
    }
    await world.client.create(CONTAINER_RECREATE_REQUESTS, "d", request)
    snapshot = [{"name": "main", "ready": True, "restartCount": 0, "containerID": "x://1"}]
    body = {"status": {"phase": "Recreating", "containerStatusSnapshot": snapshot}}
    seen = decode(
        await world.client.patch(
            CONTAINER_RECREATE_REQUESTS,
            "d",
            "again",
            body,
            patch_type=PatchType.MERGE,
            subresource="status",
        )
    )
    stored = await world.as_stored(CONTAINER_RECREATE_REQUESTS, "again")
    assert SNAPSHOT in stored["metadata"]["annotations"]
    assert stored["status"]["phase"] == "Recreating"
    assert seen["status"]["containerStatusSnapshot"] == snapshot


@pytest.mark.parametrize(
    "kind", [kind for kind in list_kinds() if kind.conversion], ids=lambda item: str(item.resource.kind)
)
async def test_every_kind_is_stored_as_released_versions_store_it(world: World, kind: Any) -> None:
    assert await world.transport.versions.find_stored_version(kind.resource) == find_stored_version(
        kind, RELEASED_STORED
    )


# ── storage migration ────────────────────────────────────────────────────────


async def upgraded(world: World, layout: str) -> None:
    """Apply pykruise's definitions, with both versions."""
    for crd in build_crds(layout=layout):
        name = crd["metadata"]["name"]
        change = {"spec": {"versions": crd["spec"]["versions"]}}
        await world.stored.patch(CUSTOM_RESOURCE_DEFINITIONS, "", name, change, patch_type=PatchType.MERGE)


async def moved(world: World, plural: str, layout: str) -> tuple[int, list[str]]:
    storage = {storage.resource.plural: storage for storage in await read_storage(world.stored)}
    lines: list[str] = []
    result = await move_kind(world.stored, storage[plural], layout=layout, note=lines.append)
    return result.rewritten, lines


async def test_objects_are_moved_to_the_hub_version_and_back(world: World) -> None:
    # given
    for name in ("a", "b", "c"):
        await world.client.create(CLONE_SETS, "d", cloneset(name, updateStrategy=rolling(partition=1)))
    before = decode(await world.client.get(CLONE_SETS, "d", "a"))
    # when the other version is not served
    with pytest.raises(MoveError, match="does not serve v1beta1"):
        await moved(world, "clonesets", "v1beta1")
    await upgraded(world, "v1alpha1")
    for layout in ("v1beta1", "v1alpha1"):
        rewritten, lines = await moved(world, "clonesets", layout)
        # then
        assert rewritten == 3
        assert lines[-1].endswith("3 of 3 objects rewritten")
        crd = decode(await world.stored.get(CUSTOM_RESOURCE_DEFINITIONS, "", "clonesets.apps.kruise.io"))
        assert crd["status"]["storedVersions"] == [layout]
        world.transport.versions.forget(CLONE_SETS.group)
        assert await world.transport.versions.find_stored_version(CLONE_SETS) == layout
        after = decode(await world.client.get(CLONE_SETS, "d", "a"))
        assert (after["spec"], after["metadata"]["generation"]) == (
            before["spec"],
            before["metadata"]["generation"],
        )
        # and the second time, there is nothing to do
        assert (await moved(world, "clonesets", layout))[0] == 0


async def test_an_interrupted_storage_migration_is_resumed(world: World) -> None:
    for name in ("a", "b"):
        await world.client.create(CLONE_SETS, "d", cloneset(name))
    await upgraded(world, "v1alpha1")
    storage = next(
        storage for storage in await read_storage(world.stored) if storage.resource.plural == "clonesets"
    )

    async def stopped(_: float) -> None:
        raise KeyboardInterrupt

    def end(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await move_kind(world.stored, storage, layout="v1beta1", note=end, sleep=stopped)
    # when the API server does not store in the new version yet, then the next run waits, and rewrites nothing
    late = FaultyTransport(world.stored.transport)
    late.on(lambda request: request.path == "/apis/apps.kruise.io/v1beta1", lambda _: Answer(200, body=b"{}"))
    storage = next(
        storage for storage in await read_storage(world.stored) if storage.resource.plural == "clonesets"
    )
    with pytest.raises(KeyboardInterrupt):
        await move_kind(world.stored.replace_transport(late), storage, layout="v1beta1", sleep=stopped)
    # and when it does, the objects are rewritten
    assert (await moved(world, "clonesets", "v1beta1"))[0] == 2


async def test_advanced_stateful_sets_are_never_moved_from_v1beta1(world: World) -> None:
    await upgraded(world, "v1alpha1")
    assert await moved(world, "statefulsets", "v1alpha1") == (0, [])


def test_defaults_of_the_older_version_are_kept_in_the_conversion() -> None:
    """A template without the field reuses claims in a released UnitedDeployment."""
    template = {"cloneSetTemplate": {"spec": {"template": {}}}}
    document = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedDeployment",
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }
    result = convert(document, UNITED_DEPLOYMENTS.api_version, list_conversions())
    spec = result["spec"]["template"]["cloneSetTemplate"]["spec"]
    assert spec["scaleStrategy"] == {"enablePVCReuse": True}


async def test_later_created_definitions_are_discovered() -> None:
    """Agents and managers that start first request a kind before its definition exists."""
    server = ApiServer(
        clock=lambda: START, rng=random.Random(1), conversions=ConversionFunctions(list_conversions())
    )
    world = World(server)
    with pytest.raises(NotFoundError):
        await world.client.list(CLONE_SETS)
    for crd in build_crds():
        await world.stored.create(CUSTOM_RESOURCE_DEFINITIONS, "", with_one_version(crd, "v1alpha1"))
    assert not (await world.client.list(CLONE_SETS)).items
    await world.plain.close()


@pytest.mark.parametrize("path", ["/apis/apps.kruise.io", "/apis/apps.kruise.io/v1alpha1"])
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_discovery_request_that_fails_once_does_not_choose_the_hub_version(
    world: World, path: str, status: int
) -> None:
    await world.clone_set()
    world.transport.versions.forget("apps.kruise.io")
    world.recorded.failures[path] = status
    await world.client.get(CLONE_SETS, "d", "web")
    assert world.recorded.failures == {}
    assert world.recorded.sent[-1].path == "/apis/apps.kruise.io/v1alpha1/namespaces/d/clonesets/web"
