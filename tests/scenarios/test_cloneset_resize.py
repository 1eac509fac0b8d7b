"""CPU and memory change in place, through the resize subresource (gate InPlaceWorkloadVerticalScaling)."""

import asyncio

import pytest

from pykruise.kinds.gates import Gates
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from support.faults import FaultyTransport
from support.scenario import Object, Stage, cloneset, rolling

SCALING = ManagerSettings(gates=Gates.of(InPlaceWorkloadVerticalScaling=True))


def with_resources(cpu: str, memory: str = "64Mi", **fields: str) -> Object:
    """A patch of the template: one container with these requests and limits far above."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "900m", "memory": "512Mi"}}
    containers = [{"name": "main", "image": "nginx:1", "resources": resources, **fields}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


async def created(stage: Stage) -> tuple[FaultyTransport, dict[str, Object]]:
    """A manager whose requests are logged, and three settled pods with requests."""
    seen = FaultyTransport(stage.manager_transport())
    await stage.start_manager(seen, settings=SCALING)
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1)
    body = cloneset(replicas=3, updateStrategy=strategy)
    body["spec"]["template"]["spec"] = with_resources("100m")["spec"]["template"]["spec"]
    await stage.create(body)
    await stage.settled(replicas=3)
    return seen, await documents(stage)


async def documents(stage: Stage) -> dict[str, Object]:
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    return {doc["metadata"]["name"]: doc for doc in map(decode, listed.items)}


def requests_of(pods: dict[str, Object]) -> set[tuple[str, str]]:
    """CPU and memory of all pods as the nodes say they are in force."""
    requests = [pod["status"]["containerStatuses"][0]["resources"]["requests"] for pod in pods.values()]
    return {(item["cpu"], item["memory"]) for item in requests}


def same_pods(before: dict[str, Object], after: dict[str, Object]) -> bool:
    def facts(pods: dict[str, Object]) -> dict[str, tuple[str, int]]:
        return {
            name: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
            for name, pod in pods.items()
        }

    return facts(before) == facts(after)


def is_no_room(condition: Object) -> bool:
    """Newer API servers refuse what a node can never give (1.37 does); else its kubelet says so later (1.32)."""
    refused = condition["type"] == "FailedUpdate" and "enough allocatable resources" in condition["message"]
    return refused or (condition["type"], condition["reason"]) == ("Waiting", "ResizeInfeasible")


@pytest.mark.node
async def test_resize_changes_pods_without_a_restart_through_the_subresource(stage: Stage) -> None:
    """inplace-update cases 15 and 28"""
    # given
    seen, before = await created(stage)
    # when
    await stage.merge("web", with_resources("200m"))
    await stage.settled(replicas=3)
    # then
    after = await documents(stage)
    assert same_pods(before, after)
    assert requests_of(after) == {("200m", "64Mi")}
    resized = [
        request for request in seen.log if request.method == "PATCH" and request.path.endswith("/resize")
    ]
    assert len(resized) == 3


@pytest.mark.node
async def test_resize_leaves_alone_what_a_vertical_autoscaler_changed(stage: Stage) -> None:
    """inplace-update 6.5: only what differs between the templates, and from the live pod, is sent"""
    # given a pod whose memory an autoscaler has raised
    seen, before = await created(stage)
    name = sorted(before)[0]
    raised = {"name": "main", "resources": {"requests": {"memory": "96Mi"}}}
    await stage.client.patch(
        PODS,
        stage.namespace,
        name,
        {"spec": {"containers": [raised]}},
        patch_type=PatchType.STRATEGIC,
        subresource="resize",
    )
    # when the template changes the cpu
    await stage.merge("web", with_resources("150m"))
    await stage.settled(replicas=3)
    # then
    after = await documents(stage)
    assert {pod["metadata"]["uid"] for pod in after.values()} == {
        pod["metadata"]["uid"] for pod in before.values()
    }
    spec = after[name]["spec"]["containers"][0]["resources"]["requests"]
    assert (spec["cpu"], spec["memory"]) == ("150m", "96Mi")
    assert not any(
        "memory" in str(request.to_document) for request in seen.log if request.path.endswith("/resize")
    )


@pytest.mark.node
async def test_an_infeasible_resize_is_reported_and_reverting_it_continues(stage: Stage) -> None:
    # given
    _, before = await created(stage)
    # when
    huge = with_resources("100m")
    (container,) = huge["spec"]["template"]["spec"]["containers"]
    container["resources"] = {
        # cpu: an API server of 1.32 lets no memory limit go down again without a restart
        "requests": {"cpu": "900", "memory": "64Mi"},
        "limits": {"cpu": "950", "memory": "512Mi"},
    }
    await stage.merge("web", huge)

    async def said() -> Object | None:
        conditions = (await stage.status()).get("conditions") or []
        return next((condition for condition in conditions if is_no_room(condition)), None)

    # then it is said, and no other pod is tried
    result = await stage.until(said, what="that there is no room")
    await asyncio.sleep(min(stage.long_s, 30))
    status = await stage.status()
    if result["type"] == "Waiting":
        assert status["updatedReplicas"] == 1
    else:
        assert result["message"].endswith("lower the requests of the pod, or make room on the node")
        assert (status["updatedReplicas"], status["availableReplicas"]) == (0, 3)
    # when
    await stage.merge("web", with_resources("100m"))
    # then
    await stage.settled(replicas=3)
    after = await documents(stage)
    assert same_pods(before, after)
    assert requests_of(after) == {("100m", "64Mi")}
