"""Simulated nodes whose agents report what runs in pods, and restart containers whose environment is old."""

import json
from typing import Any

import msgspec
import pytest

from pykruise.agent.rules.container_metadata import ANNOTATION
from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.kube.documents import annotations_of
from pykruise.kube.resources import PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.images import ImageTable
from support.scenario import Object, Stage, cloneset, rolling

IN_PLACE = rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable="100%")
LEVEL = "example.com/level"


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Settings of nodes with agents."""
    agents = make_simulated_agents(AgentTasks(reports_containers=True))
    return msgspec.structs.replace(cluster_settings, agents=agents)


def fed(replicas: int = 2) -> Object:
    """A CloneSet with one container that an annotation feeds, and another one."""
    doc = cloneset(replicas=replicas, updateStrategy=IN_PLACE)
    template = doc["spec"]["template"]
    template["metadata"]["annotations"] = {LEVEL: "1"}
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{LEVEL}']"}}
    template["spec"]["containers"] = [
        {"name": "main", "image": "nginx:1", "env": [{"name": "LEVEL", "valueFrom": source}]},
        {"name": "other", "image": "nginx:1"},
    ]
    return doc


async def set_image(stage: Stage, image: str) -> None:
    template = fed()["spec"]["template"]
    template["spec"]["containers"][0]["image"] = image
    await stage.merge("web", {"spec": {"template": template}})


def restarts(pod: Object) -> dict[str, int]:
    return {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]}


def reported(pod: Object) -> dict[str, Any]:
    text = annotations_of(pod).get(ANNOTATION)
    return {container["name"]: container for container in json.loads(text)["containers"]} if text else {}


def ids(pod: Object) -> dict[str, str]:
    return {status["name"]: status["containerID"] for status in pod["status"]["containerStatuses"]}


async def test_each_run_of_a_container_is_reported(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(fed(replicas=1))
    await stage.settled(replicas=1)

    async def is_reported() -> bool:
        (pod,) = await stage.stored(PODS)
        return {name: value["containerID"] for name, value in reported(pod).items()} == ids(pod)

    await stage.until(is_reported)
    (pod,) = await stage.stored(PODS)
    hashes = {name: value["hashes"]["extractedEnvFromMetadataHash"] for name, value in reported(pod).items()}
    assert hashes["other"] == 86995377  # of no variables at all
    assert hashes["main"] != hashes["other"]
    # when a container is another one
    await set_image(stage, "nginx:2")
    await stage.settled(replicas=1, updated=1)
    await stage.until(is_reported)


async def test_a_changed_annotation_restarts_the_container_that_it_feeds_and_completes(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(fed())
    await stage.settled(replicas=2)
    before = {pod["metadata"]["uid"] for pod in await stage.stored(PODS)}
    # when
    patch = {"spec": {"template": {"metadata": {"annotations": {LEVEL: "2"}}}}}
    await stage.merge("web", patch)
    await stage.settled(replicas=2, updated=2)
    # then
    completes = await stage.stored(PODS)
    assert {pod["metadata"]["uid"] for pod in completes} == before
    assert [restarts(pod) for pod in completes] == [{"main": 1, "other": 0}] * 2
    assert {annotations_of(pod)[LEVEL] for pod in completes} == {"2"}


@pytest.mark.virtual_time("it says how long it may take")
async def test_an_update_between_two_tags_of_one_image_is_complete_when_the_container_is_reported(
    stage: Stage,
) -> None:
    stage.kubelets.set_images(ImageTable(same_as={"nginx:stable": "nginx:1"}))
    await stage.start_manager()
    await stage.create(fed(replicas=1))
    await stage.settled(replicas=1)
    await set_image(stage, "nginx:stable")
    await stage.settled(replicas=1, updated=1, within_s=6.0)


async def test_metadata_of_pods_of_other_workloads_is_not_reported(stage: Stage) -> None:
    await stage.start_manager()
    pod = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}
    await stage.create(pod, resource=PODS)
    await stage.create(fed(replicas=1))
    await stage.settled(replicas=1)

    async def is_reported() -> bool:
        return any(reported(entry) for entry in await stage.stored(PODS))

    await stage.until(is_reported)
    assert not reported(await stage.get("bare", resource=PODS))
