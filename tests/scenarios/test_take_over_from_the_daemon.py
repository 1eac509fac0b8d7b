"""OpenKruise's own kruise-daemon runs on real nodes, is replaced by the agent, and nothing is done twice.

KRUISE_DAEMON=PATH pytest --cluster=real --real-nodes tests/scenarios/test_take_over_from_the_daemon.py

The program is built from OpenKruise's sources (`go build ./cmd/daemon`, seen with 1.8.0). It looks for runtimes in
/hostvarrun, which is linked to /run of its node meanwhile.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykruise.agent.rules.container_metadata import ANNOTATION
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.documents import annotations_of, get_path
from pykruise.kube.resources import PODS
from pykruise.manager.settings import NAMESPACE, SECRETS_NAMESPACE
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.probes.views import POD_PROBE_MARKERS
from support.agents import Agents
from support.pulls import PULLING
from support.scenario import Object, Stage, cloneset, rolling
from testbed.images import build_busybox_image
from testbed.node import Rule

DAEMON = os.environ.get("KRUISE_DAEMON", "")
LEVEL = "example.com/level"
SERVES = "game.io/serves"

if not DAEMON:
    pytest.skip("KRUISE_DAEMON names no kruise-daemon of OpenKruise", allow_module_level=True)

pytestmark = [pytest.mark.node_only, pytest.mark.timeout(300)]


class Daemons(Agents):
    """OpenKruise's own daemons, with all rights: they send updates where the agent sends patches."""

    program = (
        DAEMON,
        "--socket-file=containerd/containerd.sock",
        "--enable-pprof=false",
        "--v=4",
        "--feature-gates=ImagePullJobGate=true,PodProbeMarkerGate=true,InPlaceUpdateEnvFromMetadata=true",
    )

    async def _account(self) -> Path:
        account = "openkruise"
        for name in (NAMESPACE, SECRETS_NAMESPACE):
            await self.make_namespace(name)
        kubeconfig = await self.kubeconfig(account)
        group = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": account},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account}],
        }
        await self.grant(binding)
        return kubeconfig


@pytest.fixture
def folder_of_sockets() -> Iterator[None]:
    link = Path("/hostvarrun")
    link.symlink_to("/run")
    yield
    link.unlink()


@pytest.fixture
async def daemons(stage: Stage, folder_of_sockets: None) -> AsyncIterator[Daemons]:
    made = Daemons(stage)
    yield made
    await made.close()


@pytest.fixture
async def agents(stage: Stage) -> AsyncIterator[Agents]:
    made = Agents(stage)
    yield made
    await made.close()


def workload() -> Object:
    """Pods with one container that an annotation feeds, and another one."""
    doc = cloneset(replicas=3, updateStrategy=rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable=1))
    template = doc["spec"]["template"]
    template["metadata"]["annotations"] = {LEVEL: "1"}
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{LEVEL}']"}}
    template["spec"]["containers"] = [
        {"name": "main", "image": "main:1", "env": [{"name": "LEVEL", "valueFrom": source}]},
        {"name": "other", "image": "other:1"},
    ]
    return doc


def marker() -> Object:
    probe = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1, "failureThreshold": 1}
    return {
        "apiVersion": POD_PROBE_MARKERS.api_version,
        "kind": POD_PROBE_MARKERS.kind,
        "metadata": {"name": "game"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "probes": [
                {"name": "serves", "containerName": "main", "probe": probe, "podConditionType": SERVES}
            ],
        },
    }


def pull_job(stage: Stage, name: str) -> Object:
    return {
        "apiVersion": IMAGE_PULL_JOBS.api_version,
        "kind": IMAGE_PULL_JOBS.kind,
        "metadata": {"name": name},
        "spec": {
            "image": f"registry.test/{stage.namespace}/{name}:1",
            "completionPolicy": {"type": "Always"},
            "parallelism": 3,
        },
    }


def recreation(pod: str, name: str) -> Object:
    return {
        "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
        "kind": CONTAINER_RECREATE_REQUESTS.kind,
        "metadata": {"name": name},
        "spec": {"podName": pod, "containers": [{"name": "other"}]},
    }


def runs(pod: Object) -> dict[str, tuple[str, int]]:
    return {
        status["name"]: (status["containerID"], status["restartCount"])
        for status in pod["status"]["containerStatuses"]
    }


async def finished(stage: Stage, name: str) -> Object:
    async def is_over() -> Object | None:
        status = (await stage.get(name, resource=IMAGE_PULL_JOBS)).get("status") or {}
        return status if status.get("completionTime") else None

    result: Object = await stage.until(is_over, what=f"ImagePullJob {name}")
    return result


async def recreated(stage: Stage, name: str) -> Object:
    async def is_over() -> Object | None:
        status = (await stage.get(name, resource=CONTAINER_RECREATE_REQUESTS)).get("status") or {}
        return status if status.get("phase") == "Completed" else None

    result: Object = await stage.until(is_over, what=f"ContainerRecreateRequest {name}")
    return result


async def pull_statuses(stage: Stage, name: str) -> list[Any]:
    image = f"registry.test/{stage.namespace}/{name}"
    return [
        get_path(await stage.get(node.name, resource=NODE_IMAGES), "status", "imageStatuses", image)
        for node in stage.nodes
    ]


async def test_a_running_daemon_is_replaced_and_nothing_is_done_twice(
    stage: Stage, daemons: Daemons, agents: Agents
) -> None:
    # given results of the daemon: a pull, a recreated container, probes, metadata of containers
    await daemons.start()
    await stage.start_manager(settings=PULLING)
    for name in ("done", "slow"):
        image = build_busybox_image(f"{name}-{stage.namespace}", padding=1_500_000)
        stage.nodes.registry.push(image, f"{stage.namespace}/{name}:1")
    await stage.create(workload())
    await stage.create(marker(), resource=POD_PROBE_MARKERS)
    await stage.settled(replicas=3)
    await stage.create(pull_job(stage, "done"), resource=IMAGE_PULL_JOBS)
    assert (await finished(stage, "done"))["succeeded"] == len(stage.nodes)
    first = (await stage.stored(PODS))[0]["metadata"]["name"]
    await stage.create(recreation(first, "by-daemon"), resource=CONTAINER_RECREATE_REQUESTS)
    await recreated(stage, "by-daemon")

    async def is_reported() -> bool:
        return all(
            all(id_ in annotations_of(pod).get(ANNOTATION, "") for id_, _ in runs(pod).values())
            and any(
                condition["type"] == SERVES and condition["status"] == "True"
                for condition in pod["status"]["conditions"]
            )
            for pod in await stage.stored(PODS)
        )

    await stage.until(is_reported)
    # and a pull under way
    stage.nodes.registry.set_rule(f"{stage.namespace}/slow", Rule(bytes_per_second=300_000))
    await stage.create(pull_job(stage, "slow"), resource=IMAGE_PULL_JOBS)

    async def is_pulling() -> bool:
        return all(await pull_statuses(stage, "slow"))

    await stage.until(is_pulling)
    before = {pod["metadata"]["name"]: pod for pod in await stage.stored(PODS)}
    pulled = await pull_statuses(stage, "done")
    # when it is killed and the agent takes its place
    await daemons.close()
    await agents.start()
    # then the pull that was under way comes to its end, and the other one is not done again
    assert (await finished(stage, "slow"))["succeeded"] == len(stage.nodes)
    assert await pull_statuses(stage, "done") == pulled
    # and what runs goes on, with the same metadata
    await asyncio.sleep(5.0)
    after = {pod["metadata"]["name"]: pod for pod in await stage.stored(PODS)}
    assert {name: runs(pod) for name, pod in after.items()} == {
        name: runs(pod) for name, pod in before.items()
    }
    for name, pod in after.items():
        assert annotations_of(pod)[ANNOTATION] == annotations_of(before[name])[ANNOTATION]
        condition = next(
            condition for condition in pod["status"]["conditions"] if condition["type"] == SERVES
        )
        assert condition in before[name]["status"]["conditions"]
    # and the next requests are the agent's: a container is recreated, a changed annotation restarts what it feeds
    await stage.create(recreation(first, "by-agent"), resource=CONTAINER_RECREATE_REQUESTS)
    await recreated(stage, "by-agent")
    patch = {"spec": {"template": {"metadata": {"annotations": {LEVEL: "2"}}}}}
    await stage.merge("web", patch)
    await stage.settled(replicas=3, updated=3)
    counts = {
        pod["metadata"]["name"]: {name: count for name, (_, count) in runs(pod).items()}
        for pod in await stage.stored(PODS)
    }
    assert counts == {name: {"main": 1, "other": 2 if name == first else 0} for name in before}
