"""Every kind that updates pods in place recreates a pod whose resize the API server or the node refuses for good."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import decode
from pykruise.kube.resources import PODS, Resource
from pykruise.manager.settings import ManagerSettings
from support.daemonsets import node_pool
from support.faults import Answer, FaultyTransport, patches
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import in_place, statefulset

PATIENCE_S = 5.0
SETTINGS = ManagerSettings(kubernetes="1.37", flags={"inplace-resize-timeout": PATIENCE_S})
PODS_OF_EACH = 3
pytestmark = pytest.mark.skipif(
    os.environ.get("KUBERNETES", "1.37") not in ("1.36", "1.37"), reason="needs resize without a gate"
)


def amounts(cpu: str, limit: str = "900m") -> Object:
    return {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": limit, "memory": "512Mi"}}


SMALL, LARGER, HUGE = amounts("20m"), amounts("40m"), amounts("900", limit="950")


def with_resources(doc: Object, resources: Object) -> Object:
    doc["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    return doc


async def cloneset_of(stage: Stage) -> Object:
    del stage
    return cloneset(
        replicas=PODS_OF_EACH, updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1)
    )


async def statefulset_of(stage: Stage) -> Object:
    del stage
    return statefulset(replicas=PODS_OF_EACH, updateStrategy=in_place(maxUnavailable=1))


async def daemonset_of(stage: Stage) -> Object:
    pool = await node_pool(stage, PODS_OF_EACH)
    return pool.daemonset(updateStrategy=rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=1))


KINDS: dict[Resource, Callable[[Stage], Awaitable[Object]]] = {
    CLONE_SETS: cloneset_of,
    ADVANCED_STATEFUL_SETS: statefulset_of,
    DAEMON_SETS: daemonset_of,
}
every_kind = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)


async def serving(stage: Stage) -> dict[str, Object]:
    """Ready pods by UID."""
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    docs = [doc for doc in map(decode, listed.items) if "deletionTimestamp" not in doc["metadata"]]
    return {
        doc["metadata"]["uid"]: doc
        for doc in docs
        if any(
            (condition["type"], condition["status"]) == ("Ready", "True")
            for condition in doc.get("status", {}).get("conditions", [])
        )
    }


async def created(stage: Stage, resource: Resource) -> dict[str, Object]:
    await stage.create(with_resources(await KINDS[resource](stage), SMALL), resource=resource)
    return await all_serve(stage, SMALL)


async def all_serve(stage: Stage, resources: Object) -> dict[str, Object]:
    async def they_do() -> dict[str, Object] | None:
        pods = await serving(stage)
        given = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods.values()]
        return pods if given == [resources["requests"]] * PODS_OF_EACH else None

    pods: dict[str, Object] = await stage.until(they_do, what=f"{PODS_OF_EACH} pods with {resources}")
    return pods


async def change(stage: Stage, resource: Resource, resources: Object, *, image: str = "nginx:1") -> None:
    stored = await stage.get("web", resource=resource)
    containers = with_resources(stored, resources)["spec"]["template"]["spec"]["containers"]
    containers[0]["image"] = image
    await stage.merge("web", {"spec": {"template": {"spec": {"containers": containers}}}}, resource=resource)


@every_kind
@pytest.mark.parametrize("image", ["nginx:1", "nginx:2"], ids=["resources alone", "with another image"])
async def test_pods_whose_resize_the_api_server_refuses_are_recreated_one_after_another(
    stage: Stage, resource: Resource, image: str
) -> None:
    # given an API server that takes no resize
    transport = FaultyTransport(stage.manager_transport())
    transport.on(patches("/resize"), lambda _: Answer(403, "no room"))
    await stage.start_manager(transport, settings=SETTINGS)
    before = await created(stage, resource)
    # when
    await change(stage, resource, LARGER, image=image)

    async def is_said() -> bool:
        conditions: list[Any] = (await stage.get("web", resource=resource))["status"].get("conditions") or []
        return any(condition["reason"] == "ResizeRefused" for condition in conditions)

    await stage.until(is_said, what="that the resize is refused")
    # then all the pods still serve
    assert (await serving(stage)).keys() == before.keys()
    # then each is recreated
    after = await all_serve(stage, LARGER)
    assert not after.keys() & before.keys()


@pytest.mark.node
@every_kind
@pytest.mark.parametrize("image", ["nginx:1", "nginx:2"], ids=["resources alone", "with another image"])
async def test_a_pod_whose_node_can_never_give_it_its_resources_is_recreated(
    stage: Stage, resource: Resource, image: str
) -> None:
    """A new image restarts the container; this restart must not count as the end of the update."""
    # given
    await stage.start_manager(settings=SETTINGS)
    before = await created(stage, resource)
    # when no node has so many CPUs
    await change(stage, resource, HUGE, image=image)

    # then one pod is recreated, which no node takes; the others stay
    async def one_is_gone() -> bool:
        listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
        return len(before.keys() - {decode(raw)["metadata"]["uid"] for raw in listed.items}) == 1

    await stage.until(one_is_gone, what="that one pod was recreated")
    assert len((await serving(stage)).keys() & before.keys()) == PODS_OF_EACH - 1
    kept = [pod for uid, pod in (await serving(stage)).items() if uid in before]
    assert {pod["spec"]["containers"][0]["image"] for pod in kept} == {"nginx:1"}
