"""Containers of a pod that start one level after the other, and are updated in that order."""

from typing import Any

from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Object, Stage, cloneset, rolling

COMPLETED = "apps.kruise.io/container-launch-priority-completed"


def ordered(**spec: Any) -> Object:
    """A CloneSet of one pod whose `proxy` is to be ready before `main` starts."""
    doc = cloneset(replicas=1, **spec)
    priority = {"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}
    doc["spec"]["template"]["spec"]["containers"] = [
        {"name": "main", "image": "main:1"},
        {"name": "proxy", "image": "proxy:1", "env": [priority]},
    ]
    return doc


async def keys_of(stage: Stage, pod: str) -> set[str]:
    """The barriers of the pod that are open."""
    maps = {entry["metadata"]["name"]: entry for entry in await stage.stored(CONFIG_MAPS)}
    return set((maps.get(f"{pod}-barrier") or {}).get("data") or {})


def waiting_for(pod: Document, container: str) -> str:
    """Why a container does not run yet; empty: it is not reported."""
    statuses = {status["name"]: status for status in pod.get("status", {}).get("containerStatuses") or ()}
    result: str = statuses.get(container, {}).get("state", {}).get("waiting", {}).get("reason", "")
    return result


async def test_a_container_starts_when_those_of_a_higher_priority_are_ready(stage: Stage) -> None:
    """inplace-update cases 61 and 62"""
    # given a proxy that never gets ready
    stage.kubelets.set_rules([Rule(container="proxy", never_ready=True)])
    await stage.start_manager()
    await stage.create(ordered())

    async def first_level() -> Document | None:
        (pod,) = await stage.stored(PODS) or [None]
        name = pod["metadata"]["name"] if pod else ""
        return pod if await keys_of(stage, name) == {"p_1"} and waiting_for(pod, "main") else None

    pod = await stage.until(first_level, what="the first barrier is open and the second is not")
    assert waiting_for(pod, "main") == "CreateContainerConfigError"
    assert COMPLETED not in (pod["metadata"].get("annotations") or {})
    # when it does
    stage.kubelets.set_rules([])
    # then the other one starts, and all keys are stored
    await stage.settled(replicas=1)
    (pod,) = await stage.stored(PODS)
    assert await keys_of(stage, pod["metadata"]["name"]) == {"p_0", "p_1"}
    assert pod["metadata"]["annotations"][COMPLETED] == "true"


async def test_a_manager_that_dies_between_two_levels_blocks_no_container(stage: Stage) -> None:
    stage.kubelets.set_rules([Rule(container="proxy", never_ready=True)])
    manager = await stage.start_manager()
    await stage.create(ordered())

    async def is_begun() -> bool:
        pods = await stage.stored(PODS)
        return bool(pods) and await keys_of(stage, pods[0]["metadata"]["name"]) == {"p_1"}

    await stage.until(is_begun)
    # when
    await stage.kill_manager(manager)
    stage.kubelets.set_rules([])
    await stage.start_manager()
    # then
    await stage.settled(replicas=1)


async def test_an_update_in_place_follows_the_same_order(stage: Stage) -> None:
    """inplace-update cases 32 to 34"""
    await stage.start_manager()
    await stage.create(ordered(updateStrategy=rolling(podUpdatePolicy="InPlaceOnly")))
    await stage.settled(replicas=1)
    (before,) = await stage.stored(PODS)
    # given a new proxy that does not get ready
    stage.kubelets.set_rules([Rule(container="proxy", image="proxy:2", never_ready=True)])
    doc = ordered()["spec"]["template"]["spec"]["containers"]
    for container in doc:
        container["image"] = f"{container['name']}:2"
    # when both images change
    await stage.merge("web", {"spec": {"template": {"spec": {"containers": doc}}}})

    async def images() -> dict[str, str]:
        (pod,) = await stage.stored(PODS)
        return {container["name"]: container["image"] for container in pod["spec"]["containers"]}

    async def proxy_first() -> bool:
        return await images() == {"main": "main:1", "proxy": "proxy:2"}

    # then the proxy comes first, and the other when it is ready
    await stage.until(proxy_first)
    stage.kubelets.set_rules([])
    await stage.settled(replicas=1)
    (after,) = await stage.stored(PODS)
    assert await images() == {"main": "main:2", "proxy": "proxy:2"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_other_workloads_pods_with_the_readiness_gate_become_ready(stage: Stage) -> None:
    """inplace-update case 55: a pod without a workload, with the gate that the webhook would add"""
    await stage.start_manager(settings=ManagerSettings(gates=Gates.of(KruisePodReadinessGate=True)))
    gates = [{"conditionType": "KruisePodReady"}]
    spec = {"containers": [{"name": "main", "image": "nginx:1"}], "readinessGates": gates}
    await stage.create(
        {"metadata": {"name": "alone", "labels": {"app": "alone"}}, "spec": spec}, resource=PODS
    )

    async def is_ready() -> bool:
        (pod,) = await stage.pods("alone")
        return pod.is_ready is True

    await stage.until(is_ready, what="the pod is ready")
