"""The engine for updates in place against an API server and kubelets, without a manager around it.

Unit tests check only the engine's decisions. Here they are sent as requests: the API server accepts the writes, the
kubelet follows, and the pod ends in the wanted state.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ConflictError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.pods.in_place import (
    Complete,
    Continue,
    InPlaceSettings,
    PodPatch,
    UpdateSpec,
    Waiting,
    find_next_step,
    start,
)
from pykruise.pods.view import keys
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.images import ImageTable
from support.scenario import Stage
from support.updatable_pod import container, facts_of

SETTINGS = InPlaceSettings()
GATE = {"conditionType": keys.IN_PLACE_READY}


@pytest.fixture
def cluster_settings() -> ClusterSettings:
    return ClusterSettings(nodes=1, start_s=0.5, ready_s=0.5, stop_s=0.5)


class Driver:
    """Acts as the controller of a kind: reads the pod, asks the engine, and sends the writes that it returns."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.writes: list[str] = []

    async def pod(self) -> Document:
        return decode(await self.stage.client.get(PODS, self.stage.namespace, "web-a"))

    async def create(self, *containers: Document) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-a", "labels": {"app": "web", keys.REVISION_LABEL: "web-old"}},
            "spec": {"containers": list(containers), "readinessGates": [GATE]},
        }
        await self.stage.client.create(PODS, self.stage.namespace, body)
        await self.settle()
        self.writes.clear()

    async def start(self, **spec: Any) -> None:
        update_spec = UpdateSpec(revision="web-new", **spec)
        view = facts_of(await self.pod())
        labels = {keys.REVISION_LABEL: "web-new"}
        for patch in start(view, update_spec, labels=labels, now=self.stage.clock(), settings=SETTINGS):
            await self.write(patch, view.resource_version)

    async def write(self, patch: PodPatch, version: int) -> None:
        body = dict(patch.body)
        if patch.checked:
            body["metadata"] = {**body.get("metadata", {}), "resourceVersion": str(version)}
        await self.stage.client.patch(
            PODS,
            self.stage.namespace,
            "web-a",
            body,
            patch_type=PatchType.STRATEGIC,
            subresource=patch.subresource,
        )
        self.writes.append(patch.subresource)

    async def settle(self) -> Document:
        """Go on until the pod is ready and nothing is left to do. A conflict means: look again."""
        for _ in range(200):
            pod = await self.pod()
            with suppress(ConflictError):
                if await self.is_settled(pod):
                    return pod
            await asyncio.sleep(0.5)
        raise AssertionError(f"never settles: {await self.pod()}")

    async def is_settled(self, pod: Document) -> bool:
        """One round; True when there was nothing to do and the pod serves."""
        view = facts_of(pod)
        match find_next_step(view, now=self.stage.clock(), settings=SETTINGS):
            case Continue(writes=writes):
                for patch in writes:
                    await self.write(patch, view.resource_version)
            case Complete(conditions=()):
                return is_ready(pod)
            case Complete(conditions=conditions):
                body = {"status": {"conditions": list(conditions)}}
                patch = PodPatch(body=body, because="", subresource="status", checked=True)
                await self.write(patch, view.resource_version)
        return False


def is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def status_of(pod: Document, name: str) -> Document:
    status: Document = next(item for item in pod["status"]["containerStatuses"] if item["name"] == name)
    return status


@pytest.mark.node
async def test_an_image_changes_in_three_writes_and_one_restart(stage: Stage) -> None:
    # given
    driver = Driver(stage)
    await driver.create(container("main", image="nginx:1"))
    before = await driver.pod()
    # when
    await driver.start(images={"main": "nginx:2"})
    after = await driver.settle()
    # then
    assert driver.writes == ["status", "", "status"]
    assert after["spec"]["containers"][0]["image"] == "nginx:2"
    assert status_of(after, "main")["restartCount"] == 1
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["podIP"] == before["status"]["podIP"]


@pytest.mark.node
async def test_containers_change_in_the_order_of_their_launch_priority(stage: Stage) -> None:
    # given: barriers as admission writes them, open
    driver = Driver(stage)
    first, second = container("first", image="a:1", priority=1), container("second", image="b:1", priority=0)
    for entry in (first, second):
        entry["env"][-1]["valueFrom"]["configMapKeyRef"]["optional"] = True
    await driver.create(first, second)
    # when
    await driver.start(images={"first": "a:2", "second": "b:2"})
    now = await driver.pod()
    assert [container["image"] for container in now["spec"]["containers"]] == ["a:2", "b:1"]
    after = await driver.settle()
    # then
    assert [container["image"] for container in after["spec"]["containers"]] == ["a:2", "b:2"]
    assert driver.writes == ["status", "", "", "status"]


@pytest.mark.node
async def test_a_grace_period_passes_before_the_image_changes(stage: Stage) -> None:
    # given
    driver = Driver(stage)
    await driver.create(container("main", image="nginx:1"))
    began = stage.clock()
    grace_s = min(20, int(stage.long_s))
    # when
    await driver.start(images={"main": "nginx:2"}, grace_seconds=grace_s)
    pod = await driver.pod()
    assert (pod["spec"]["containers"][0]["image"], is_ready(pod)) == ("nginx:1", False)
    after = await driver.settle()
    # then
    assert after["spec"]["containers"][0]["image"] == "nginx:2"
    assert stage.clock() - began >= grace_s


@pytest.mark.node
async def test_metadata_changes_in_one_write_without_leaving_service(stage: Stage) -> None:
    # given
    driver = Driver(stage)
    await driver.create(container("main", image="nginx:1"))
    # when
    await driver.start(metadata_patch={"metadata": {"labels": {"k": "v", "app": None}}})
    pod = await driver.pod()
    # then
    assert is_ready(pod)
    labels = pod["metadata"]["labels"]
    labels.pop("topology.kubernetes.io/zone", None)  # newer API servers copy it from the node
    assert labels == {"k": "v", keys.REVISION_LABEL: "web-new"}
    await driver.settle()
    assert driver.writes == [""]


@pytest.mark.node
async def test_a_rollback_during_the_grace_period_restarts_nothing(stage: Stage) -> None:
    # given
    driver = Driver(stage)
    await driver.create(container("main", image="nginx:1"))
    await driver.start(images={"main": "nginx:2"}, grace_seconds=60)
    began = stage.clock()
    # when
    await driver.start(images={"main": "nginx:1"}, grace_seconds=60)
    after = await driver.settle()
    # then
    assert status_of(after, "main")["restartCount"] == 0
    assert keys.IN_PLACE_GRACE_ANNOTATION not in after["metadata"]["annotations"]
    assert stage.clock() - began < 60


async def test_an_image_that_cannot_be_pulled_keeps_the_pod_out_until_the_next_target(stage: Stage) -> None:
    # given
    driver = Driver(stage)
    await driver.create(container("main", image="nginx:1"))
    await driver.start(images={"main": "acme/broken:2"})
    await asyncio.sleep(stage.long_s)
    view = facts_of(await driver.pod())
    result = find_next_step(view, now=stage.clock(), settings=SETTINGS)
    assert isinstance(result, Waiting)
    assert "container main does not run acme/broken:2 yet" in result.because
    assert "Pull" in result.because
    # when
    await driver.start(images={"main": "nginx:3"})
    after = await driver.settle()
    # then
    assert after["spec"]["containers"][0]["image"] == "nginx:3"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nginx:1", "nginx:2"),
        ("nginx:1", "docker.io/library/nginx:1"),
        ("nginx", "nginx:latest"),
        ("docker.io/library/nginx:1", "nginx:2"),
        ("nginx:1", f"nginx@sha256:{'ab' * 32}"),
        ("registry:5000/app", "registry:5000/app:latest"),
    ],
)
async def test_an_image_of_the_same_or_another_name_completes_after_one_restart(
    stage: Stage, old: str, new: str
) -> None:
    """The same digest under a new tag, images named by digest, with and without a registry prefix."""
    # given
    stage.kubelets.set_images(ImageTable(same_as={"nginx:2": "nginx:1"}))
    driver = Driver(stage)
    await driver.create(container("main", image=old))
    # when
    await driver.start(images={"main": new})
    after = await driver.settle()
    # then
    assert status_of(after, "main")["restartCount"] == 1
    assert driver.writes == ["status", "", "status"]
