"""Kubelets: allocated resources, in-place resizes, hooks that sleep, and pods that end by themselves."""

import asyncio
from typing import Any

import msgspec
import pytest

from pykruise.kube.client.transport import Request
from pykruise.kube.errors import InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.paper import PaperPod, pod_document
from support.sandbox import Object, Place, pod, small_cluster


def sized(cpu: str, *, policy: str = "NotRequired") -> Object:
    """A pod with this CPU request and limit."""
    container = {
        "name": "main",
        "image": "nginx:1",
        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": policy}],
    }
    return pod("web", containers=[container])


async def resize(place: Place, cpu: str) -> None:
    amounts = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    patch = {"spec": {"containers": [{"name": "main", "resources": amounts}]}}
    await place.client.patch(
        PODS, "default", "web", patch, patch_type=PatchType.STRATEGIC, subresource="resize"
    )


async def container(place: Place) -> Object:
    """The status of the container."""
    (result,) = (await place.get(PODS, "web"))["status"]["containerStatuses"]
    return dict(result)


async def test_a_resize_applies_immediately_and_restarts_nothing() -> None:
    async with small_cluster() as place:
        # given
        await place.create(PODS, sized("1"))
        await place.until(lambda: place.is_ready("web"))
        before = await container(place)
        assert before["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
        assert before["allocatedResources"] == {"cpu": "1"}
        # when
        await resize(place, "2")
        await asyncio.sleep(1)
        # then
        after = await container(place)
        assert after["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
        assert after["allocatedResources"] == {"cpu": "2"}
        assert after["containerID"] == before["containerID"]
        assert after["restartCount"] == 0
        assert "resize" not in (await place.get(PODS, "web"))["status"]


async def test_a_container_that_wants_it_is_restarted_for_a_resize() -> None:
    async with small_cluster() as place:
        # given
        await place.create(PODS, sized("1", policy="RestartContainer"))
        await place.until(lambda: place.is_ready("web"))
        # when
        await resize(place, "2")
        await asyncio.sleep(5)
        # then
        after = await container(place)
        assert after["restartCount"] == 1
        assert after["resources"]["limits"] == {"cpu": "2"}


async def test_a_slow_resize_is_reported_while_in_progress() -> None:
    settings = ClusterSettings(nodes=1, kubelet=KubeletSettings(resize_s=10.0))
    async with small_cluster(settings) as place:
        # given
        await place.create(PODS, sized("1"))
        await place.until(lambda: place.is_ready("web"))
        # when
        await resize(place, "2")
        await asyncio.sleep(5)
        # then
        assert (await place.condition("web", "PodResizeInProgress"))["status"] == "True"
        assert (await container(place))["resources"]["requests"] == {"cpu": "1"}
        await asyncio.sleep(10)
        assert await place.condition("web", "PodResizeInProgress") == {}
        assert (await container(place))["resources"]["requests"] == {"cpu": "2"}


async def test_an_impossible_resize_is_infeasible_or_deferred() -> None:
    async with small_cluster(ClusterSettings(nodes=1, node_cpu="4")) as place:
        # given a node with 4 CPUs, of which another pod has 2
        await place.create(PODS, sized("1"))
        await place.create(PODS, pod("other", requests={"cpu": "2"}))
        await place.until(lambda: place.is_ready("web"))
        await place.until(lambda: place.is_ready("other"))
        # when the pod requests more than the node has
        await resize(place, "8")
        await asyncio.sleep(1)
        # then
        pending = await place.condition("web", "PodResizePending")
        assert (pending["status"], pending["reason"]) == ("True", "Infeasible")
        assert pending["message"].startswith("Node didn't have enough capacity: cpu")
        # and when it requests more than is free
        await resize(place, "3")
        await asyncio.sleep(1)
        assert (await place.condition("web", "PodResizePending"))["reason"] == "Deferred"
        assert (await container(place))["resources"]["requests"] == {"cpu": "1"}
        # and when this amount becomes free
        await place.client.delete(PODS, "default", "other")
        await asyncio.sleep(30)
        assert await place.condition("web", "PodResizePending") == {}
        assert (await container(place))["resources"]["requests"] == {"cpu": "3"}


async def test_a_restarted_kubelet_keeps_the_allocated_resources() -> None:
    # given
    amounts = {"requests": {"cpu": "1"}}
    paper = PaperPod(pod_document(requests={"cpu": "1"}))
    paper.run_until(5.0)
    assert paper.container()["resources"] == amounts
    writes = len(paper.patches)
    # when
    paper.restart_kubelet()
    paper.run_until(10.0)
    # then there is no write
    assert len(paper.patches) == writes


def test_resources_of_a_kubelet_that_does_not_report_them_stay_unknown() -> None:
    # given
    paper = PaperPod(
        pod_document(requests={"cpu": "1"}), settings=KubeletSettings(start_s=0.0, reports_resources=False)
    )
    # when
    paper.run_until(5.0)
    # then
    assert "resources" not in paper.container()
    assert "allocatedResources" not in paper.container()


async def test_a_server_that_drops_resources_is_not_written_repeatedly() -> None:
    # given a server like those before 1.33: it stores the status without the resources
    async with small_cluster(nodes=1) as place:
        transport = place.cluster.kubelets._client.transport
        original = transport.request

        async def dropping(request: Request, /) -> Any:
            body = request.body
            if body is not None and request.path.endswith("/status"):
                body = body.replace(b'"resources":', b'"dropped":').replace(
                    b'"allocatedResources":', b'"alsoDropped":'
                )
            return await original(msgspec.structs.replace(request, body=body))

        transport.request = dropping  # type: ignore[method-assign]
        # when
        await place.create(PODS, sized("1"))
        await place.until(lambda: place.is_ready("web"))
        writes = place.cluster.kubelets.read_stats().status_writes
        await asyncio.sleep(60)
        # then
        assert place.cluster.kubelets.read_stats().status_writes == writes
        assert not place.cluster.kubelets.settings.reports_resources
        with pytest.raises(InvalidError, match="without support for resize"):
            await resize(place, "2")


def hooked(**lifecycle: Object) -> Object:
    container = {"name": "main", "image": "nginx:1", "lifecycle": lifecycle}
    return pod("web", containers=[container], terminationGracePeriodSeconds=60)


async def test_hooks_that_sleep_delay_start_and_end() -> None:
    sleeping = {"sleep": {"seconds": 20}}
    async with small_cluster() as place:
        # when
        await place.create(PODS, hooked(postStart=sleeping, preStop=sleeping))
        took_s = await place.until(lambda: place.is_ready("web"))
        # then
        assert took_s >= 20
        await place.client.delete(PODS, "default", "web")

        async def is_gone() -> bool:
            return not await place.exists(PODS, "web")

        assert 20 <= await place.until(is_gone) < 30


async def test_a_sidecar_runs_until_the_main_containers_of_a_job_have_ended() -> None:
    # given a pod that ends by itself, with a sidecar and an init container
    rules = [Rule(container="main", exit_code=0, after_s=10)]
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    init = {"name": "setup", "image": "setup:1"}
    doc = pod("web", initContainers=[init, sidecar], restartPolicy="Never")
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(PODS, doc)
        await asyncio.sleep(8)
        # then they started in order
        containers = await place.get(PODS, "web")
        inits = {status["name"]: status for status in containers["status"]["initContainerStatuses"]}
        (main,) = containers["status"]["containerStatuses"]
        ended = inits["setup"]["state"]["terminated"]
        assert ended["reason"] == "Completed"
        assert ended["finishedAt"] <= inits["proxy"]["state"]["running"]["startedAt"]
        assert inits["proxy"]["state"]["running"]["startedAt"] <= main["state"]["running"]["startedAt"]
        # and the sidecar ends after the others
        await asyncio.sleep(10)
        containers = await place.get(PODS, "web")
        assert containers["status"]["phase"] == "Succeeded"
        assert all(
            "terminated" in status["state"] for status in containers["status"]["initContainerStatuses"]
        )


async def test_a_container_that_is_restarted_while_its_node_refuses_a_resize_keeps_its_resources() -> None:
    async with small_cluster() as place:
        # given a resize that the node can never grant
        await place.create(PODS, sized("1"))
        await place.until(lambda: place.is_ready("web"))
        await resize(place, "5000")
        # when its image changes
        image = {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}
        await place.client.patch(PODS, "default", "web", image, patch_type=PatchType.STRATEGIC)
        await asyncio.sleep(10)
        # then it runs the new image with its old resources, and the resize is still infeasible
        after = await container(place)
        assert (after["image"], after["restartCount"]) == ("docker.io/library/nginx:2", 1)
        assert after["resources"]["limits"] == {"cpu": "1"}
        assert (await place.condition("web", "PodResizePending"))["reason"] == "Infeasible"
