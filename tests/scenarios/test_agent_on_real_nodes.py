"""The agent on nodes with kubelet, containerd and a registry: its reports match what the runtime does.

pytest --cluster=real --real-nodes tests/scenarios/test_agent_on_real_nodes.py
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from grpclib.client import Channel, UnaryUnaryMethod

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS
from pykruise.kinds.gates import Gates
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.documents import Document, annotations_of, get_path, labels_of
from pykruise.kube.resources import NODES, PODS, SECRETS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.probes.views import POD_PROBE_MARKERS
from support.agents import Agents
from support.cri_messages import METHODS, message
from support.pulls import PULLING, pull_secret
from support.runtime_contract import CHECKS, Check
from support.scenario import Object, Stage, cloneset, rolling
from testbed.control_plane import API_SERVER, ControlPlane
from testbed.images import build_busybox_image
from testbed.node import CONTAINERD, KUBELET, Rule

pytestmark = pytest.mark.node_only

REGISTRY = "registry.test"
IN_PLACE = rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable=1)


@pytest.fixture
async def agents(stage: Stage) -> AsyncIterator[Agents]:
    made = Agents(stage)
    for node in stage.nodes:
        made.log(node.name).write_text("")
    yield made
    await made.close()
    for node in stage.nodes:
        stage.nodes.registry.set_rule(f"{stage.namespace}/", None)
        if not stage.is_refused_at_times:
            assert "a permission is missing" not in made.log(node.name).read_text()


# ── images ───────────────────────────────────────────────────────────────────


def large_image(marker: str) -> Any:
    """An image of which no node has a layer, so that a node must pull all of it."""
    return build_busybox_image(marker, padding=1_500_000)


async def start_pulling(stage: Stage) -> None:
    """A manager that asks nodes to pull, and a NodeImage for each of them."""
    await stage.start_manager(settings=PULLING)
    for node in stage.nodes:
        await stage.until(lambda name=node.name: stage.exists(name, resource=NODE_IMAGES))


def job(stage: Stage, name: str, reference: str, *nodes: str, **spec: Any) -> Object:
    return {
        "apiVersion": IMAGE_PULL_JOBS.api_version,
        "kind": IMAGE_PULL_JOBS.kind,
        "metadata": {"name": name},
        "spec": {
            "image": f"{REGISTRY}/{stage.namespace}/{reference}",
            "selector": {"names": list(nodes)},
            "completionPolicy": {"type": "Always"},
            **spec,
        },
    }


async def pull(stage: Stage, doc: Object) -> Object:
    """Create the ImagePullJob; returns its status when it has ended."""
    await stage.create(doc, resource=IMAGE_PULL_JOBS)
    return await pulled(stage, doc["metadata"]["name"])


async def pulled(stage: Stage, name: str) -> Object:
    async def is_over() -> Object | None:
        status = (await stage.get(name, resource=IMAGE_PULL_JOBS)).get("status") or {}
        return status if status.get("completionTime") else None

    result: Object = await stage.until(is_over, what=f"ImagePullJob {name}")
    return result


async def tag_status(stage: Stage, node: str, reference: str) -> Object:
    name, _, tag = reference.rpartition(":")
    stored = await stage.get(node, resource=NODE_IMAGES)
    result = get_path(stored, "status", "imageStatuses", default={}).get(
        f"{REGISTRY}/{stage.namespace}/{name}"
    )
    return next((item for item in (result or {}).get("tags") or () if item["tag"] == tag), {})


async def on_node(stage: Stage, node: str, reference: str) -> bool:
    client = CriClient(str(stage.nodes[node].cri_socket))
    try:
        full = f"{REGISTRY}/{stage.namespace}/{reference}"
        return any(full in image.tags for image in await client.list_images())
    finally:
        client.close()


async def test_three_nodes_pull_one_after_another_and_a_secret_opens_a_registry(
    stage: Stage, agents: Agents
) -> None:
    # given
    await agents.start()
    await start_pulling(stage)
    registry = stage.nodes.registry
    registry.push(large_image("app"), f"{stage.namespace}/app:1")
    nodes = ("node-1", "node-2", "node-3")
    # when
    status = await pull(stage, job(stage, "ahead", "app:1", *nodes))
    # then
    assert (status["desired"], status["succeeded"]) == (3, 3)
    assert all([await on_node(stage, node, "app:1") for node in nodes])
    times = sorted(
        [
            (result["startTime"], result["completionTime"])
            for result in [await tag_status(stage, node, "app:1") for node in nodes]
        ]
    )
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
    # when the image needs credentials
    registry.push(large_image("private"), f"{stage.namespace}/private:1")
    registry.set_rule(f"{stage.namespace}/private", Rule(credentials="me:secret"))
    refused = job(stage, "refused", "private:1", "node-1", pullPolicy={"backoffLimit": 0})
    assert (await pull(stage, refused))["failed"] == 1
    await stage.create(pull_secret("opens", REGISTRY, "me:secret"), resource=SECRETS)
    allowed = job(stage, "allowed", "private:1", "node-1", pullSecrets=["opens"])
    assert (await pull(stage, allowed))["succeeded"] == 1


async def test_a_slow_registry_costs_tries_and_then_the_job(stage: Stage, agents: Agents) -> None:
    await agents.start("node-1")
    await start_pulling(stage)
    stage.nodes.registry.push(large_image("slow"), f"{stage.namespace}/slow:1")
    stage.nodes.registry.set_rule(f"{stage.namespace}/slow", Rule(bytes_per_second=50_000))
    policy = {"timeoutSeconds": 2, "backoffLimit": 1}
    status = await pull(stage, job(stage, "ahead", "slow:1", "node-1", pullPolicy=policy))
    assert status["failedNodes"] == ["node-1"]
    result = await tag_status(stage, "node-1", "slow:1")
    assert result["message"] == "context deadline exceeded"
    assert not await on_node(stage, "node-1", "slow:1")


@pytest.mark.parametrize("victim", ["agent", CONTAINERD])
async def test_a_kill_in_mid_pull_delays_the_job_and_no_more(
    stage: Stage, agents: Agents, victim: str
) -> None:
    # given a pull that takes some seconds
    await agents.start("node-1")
    await start_pulling(stage)
    stage.nodes.registry.push(large_image("slow"), f"{stage.namespace}/slow:1")
    stage.nodes.registry.set_rule(f"{stage.namespace}/slow", Rule(bytes_per_second=300_000))
    await stage.create(job(stage, "ahead", "slow:1", "node-1"), resource=IMAGE_PULL_JOBS)

    async def pulls() -> bool:
        return (await tag_status(stage, "node-1", "slow:1")).get("phase") == "Pulling"

    await stage.until(pulls)
    await asyncio.sleep(1.0)
    # when
    if victim == "agent":
        await agents.kill("node-1")
        await agents.start("node-1")
    else:
        await stage.nodes["node-1"].restart(CONTAINERD)
    # then
    assert (await pulled(stage, "ahead"))["succeeded"] == 1
    assert await on_node(stage, "node-1", "slow:1")


async def test_a_collected_image_is_pulled_again_and_the_policy_always_always_pulls(
    stage: Stage, agents: Agents
) -> None:
    await agents.start("node-1")
    await start_pulling(stage)
    registry, name = stage.nodes.registry, f"{stage.namespace}/app:1"
    registry.push(large_image("app"), name)
    await pull(stage, job(stage, "first", "app:1", "node-1"))
    assert registry.count_pulls(name) == 1
    # when it is there, it is pulled only under Always
    await pull(stage, job(stage, "second", "app:1", "node-1"))
    assert registry.count_pulls(name) == 1
    await pull(stage, job(stage, "third", "app:1", "node-1", imagePullPolicy="Always"))
    assert registry.count_pulls(name) == 2
    # when it was collected
    node = stage.nodes["node-1"]
    await node.run(
        "/usr/bin/ctr",
        "-a",
        "/run/containerd/containerd.sock",
        "-n",
        "k8s.io",
        "images",
        "rm",
        f"{REGISTRY}/{name}",
    )
    await stage.until(lambda: _gone(stage, "app:1"))
    await pull(stage, job(stage, "fourth", "app:1", "node-1"))
    assert await on_node(stage, "node-1", "app:1")


async def _gone(stage: Stage, reference: str) -> bool:
    return not await on_node(stage, "node-1", reference)


async def test_an_update_in_place_whose_image_was_pulled_ahead_starts_without_a_pull(
    stage: Stage, agents: Agents
) -> None:
    # given
    await agents.start()
    gates = Gates.of(PreDownloadImageForInPlaceUpdate=True)
    await stage.start_manager(settings=ManagerSettings(gates=gates, flags=PULLING.flags))
    for tag in ("1", "2"):
        stage.nodes.registry.push(large_image(f"app-{tag}"), f"{stage.namespace}/app:{tag}")
    # a rollout that goes on only when its partition is lowered, so that there is time to pull
    strategy = rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable=1, partition=4)
    reference = f"{REGISTRY}/{stage.namespace}/app"
    doc = cloneset(replicas=4, updateStrategy=strategy)
    main = doc["spec"]["template"]["spec"]["containers"][0]
    # OpenKruise's default for pods of a CloneSet is Always.
    main.update(image=f"{reference}:1", imagePullPolicy="IfNotPresent")
    await stage.create(doc)
    await stage.settled(replicas=4)
    main["image"] = f"{reference}:2"
    await stage.merge("web", {"spec": {"template": doc["spec"]["template"]}})

    async def is_everywhere() -> bool:
        nodes = {pod["spec"]["nodeName"] for pod in await stage.stored(PODS)}
        return all([await on_node(stage, node, "app:2") for node in nodes])

    await stage.until(is_everywhere)
    # when
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})

    async def is_updated() -> bool:
        result = await stage.stored(PODS)
        return all(_image_of(pod) == f"{reference}:2" and _is_ready(pod) for pod in result)

    await stage.until(is_updated)
    # then no kubelet pulled it
    messages = [event["message"] for event in await stage.events("Pulled")]
    about = [text for text in messages if f"{reference}:2" in text]
    assert about
    assert all("already present" in text for text in about)


def _image_of(pod: Document) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _is_ready(pod: Document) -> bool:
    conditions = get_path(pod, "status", "conditions", default=())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


# ── recreated containers ─────────────────────────────────────────────────────


def request(pod: str, *containers: str, name: str = "again", **spec: Any) -> Object:
    return {
        "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
        "kind": CONTAINER_RECREATE_REQUESTS.kind,
        "metadata": {"name": name},
        "spec": {"podName": pod, "containers": [{"name": container} for container in containers], **spec},
    }


async def ask(stage: Stage, doc: Object) -> None:
    await stage.create(doc, resource=CONTAINER_RECREATE_REQUESTS)


async def request_now(stage: Stage, name: str = "again") -> Object:
    return await stage.get(name, resource=CONTAINER_RECREATE_REQUESTS)


async def completed(stage: Stage, name: str = "again") -> Object:
    async def is_over() -> Object | None:
        outcome = await request_now(stage, name)
        return outcome if get_path(outcome, "status", "phase") == "Completed" else None

    result: Object = await stage.until(is_over, what="the request is completed")
    return result


def phases(phases: Object) -> dict[str, str]:
    states = get_path(phases, "status", "containerRecreateStates", default=())
    return {state["name"]: state["phase"] for state in states}


async def with_pod(stage: Stage, *containers: str, **pod: Any) -> Document:
    """The serving pod of a CloneSet."""
    doc = cloneset(replicas=1)
    spec = doc["spec"]["template"]["spec"]
    spec["containers"] = [{"name": container, "image": f"{container}:1"} for container in containers]
    spec.update(pod)
    await stage.create(doc)
    await stage.settled(replicas=1)
    return await the_pod(stage)


async def the_pod(stage: Stage) -> Document:
    (pod,) = await stage.stored(PODS)
    return pod


def statuses(pod: Document) -> dict[str, Document]:
    return {status["name"]: status for status in get_path(pod, "status", "containerStatuses", default=())}


async def test_two_containers_are_recreated_in_order_in_a_pod_that_stays_and_is_out_of_service(
    stage: Stage, agents: Agents
) -> None:
    # given
    await agents.start()
    await stage.start_manager()
    before = await with_pod(stage, "app", "proxy", "other")
    name = before["metadata"]["name"]
    # when
    strategy = {"orderedRecreate": True, "unreadyGracePeriodSeconds": 3}
    await ask(stage, request(name, "app", "proxy", strategy=strategy))
    # then it is out of service first, while everything runs
    await stage.until(lambda: _is_out_of_service(stage))
    assert statuses(await the_pod(stage))["app"]["restartCount"] == 0
    # and is done with both
    result = await completed(stage)
    assert phases(result) == {"app": "Succeeded", "proxy": "Succeeded"}
    after = await the_pod(stage)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    runs = statuses(after)
    assert {run: runs[run]["restartCount"] for run in runs} == {"app": 1, "proxy": 1, "other": 0}
    started = {literal: runs[literal]["state"]["running"]["startedAt"] for literal in ("app", "proxy")}
    assert started["app"] <= started["proxy"]
    await stage.until(lambda: _serves(stage))


async def _is_out_of_service(stage: Stage) -> bool:
    return not _is_ready(await the_pod(stage))


async def _serves(stage: Stage) -> bool:
    return _is_ready(await the_pod(stage))


async def test_a_container_that_never_restarts_ends_the_request_at_the_deadline_with_the_reason(
    stage: Stage, agents: Agents
) -> None:
    # given a pod whose containers are not started again
    await agents.start()
    await stage.start_manager()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "once"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "app", "image": "app:1"}, {"name": "b", "image": "b:1"}],
        },
    }
    await stage.create(pod, resource=PODS)
    await stage.until(lambda: _serves(stage))
    # when
    await ask(stage, request("once", "app", activeDeadlineSeconds=8))
    ends = await completed(stage)
    # then
    assert "activeDeadlineSeconds" in ends["status"]["message"]
    [state] = ends["status"]["containerRecreateStates"]
    assert state == {"name": "app", "phase": "Recreating", "isKilled": True}


@pytest.mark.parametrize("victim", ["agent", CONTAINERD, KUBELET])
async def test_a_request_reports_the_truth_when_any_process_is_killed(
    stage: Stage, agents: Agents, victim: str
) -> None:
    # given a container that takes three seconds to end
    await agents.start()
    await stage.start_manager()
    hook = {"preStop": {"exec": {"command": ["/bin/sleep", "3"]}}}
    doc = cloneset(replicas=1)
    doc["spec"]["template"]["spec"]["containers"] = [{"name": "app", "image": "app:1", "lifecycle": hook}]
    await stage.create(doc)
    await stage.settled(replicas=1)
    pod = await the_pod(stage)
    node = pod["spec"]["nodeName"]
    # when the process is killed while the preStop hook runs
    await ask(stage, request(pod["metadata"]["name"], "app"))
    await stage.until(lambda: _is_under_way(stage))
    await asyncio.sleep(1.0)
    if victim == "agent":
        await agents.kill(node)
        await agents.start(node)
    else:
        await stage.nodes[node].restart(victim)
    # then
    ends = await completed(stage)
    assert phases(ends) == {"app": "Succeeded"}
    assert statuses(await the_pod(stage))["app"]["restartCount"] == 1


async def _is_under_way(stage: Stage) -> bool:
    return get_path(await request_now(stage), "status", "phase") == "Recreating"


async def test_a_hook_by_http_runs_before_the_container_is_recreated(stage: Stage, agents: Agents) -> None:
    """containers pitfall l"""
    # given a container whose hook leaves a file, and one that ends when the file is there
    await agents.start()
    await stage.start_manager()
    drain = "#!/bin/sh\\ntouch /data/drained\\necho; echo ok\\n"
    serve = f"mkdir -p /www/cgi-bin; printf '{drain}' > /www/cgi-bin/drain; chmod +x /www/cgi-bin/drain"
    data = [{"name": "data", "mountPath": "/data"}]
    app = {
        "name": "app",
        "image": "app:1",
        "command": ["/bin/sh", "-c", f"{serve}; exec httpd -f -p 8080 -h /www"],
        "ports": [{"name": "web", "containerPort": 8080}],
        "lifecycle": {"preStop": {"httpGet": {"path": "/cgi-bin/drain", "port": "web"}}},
        "volumeMounts": data,
    }
    watch = "until [ -f /data/drained ]; do sleep 0.2; done"
    witness = {"name": "witness", "image": "b:1", "command": ["/bin/sh", "-c", watch], "volumeMounts": data}
    doc = cloneset(replicas=1)
    doc["spec"]["template"]["spec"].update(
        containers=[app, witness], volumes=[{"name": "data", "emptyDir": {}}]
    )
    await stage.create(doc)
    await stage.settled(replicas=1)
    # when
    await ask(stage, request((await the_pod(stage))["metadata"]["name"], "app"))
    # then
    assert phases(await completed(stage)) == {"app": "Succeeded"}
    runs = statuses(await the_pod(stage))
    assert runs["app"]["restartCount"] == 1

    async def has_seen_it() -> bool:
        return bool(statuses(await the_pod(stage))["witness"]["restartCount"])

    await stage.until(has_seen_it, what="the hook left its file")


@pytest.mark.timeout(240)
async def test_a_request_ends_with_the_truth_though_the_api_server_was_away_for_a_minute(
    stage: Stage, agents: Agents, plane: ControlPlane
) -> None:
    # given a container that takes five seconds to end
    await agents.start()
    await stage.start_manager()
    hook = {"preStop": {"exec": {"command": ["/bin/sleep", "5"]}}}
    doc = cloneset(replicas=1)
    doc["spec"]["template"]["spec"]["containers"] = [{"name": "app", "image": "app:1", "lifecycle": hook}]
    await stage.create(doc)
    await stage.settled(replicas=1)
    pod = await the_pod(stage)
    await ask(stage, request(pod["metadata"]["name"], "app"))
    await stage.until(lambda: _is_under_way(stage))
    await asyncio.sleep(1.0)
    # when its end cannot be reported
    stage.is_refused_at_times = True  # an API server that has just started does not know its roles yet
    await plane.kill(API_SERVER)
    await asyncio.sleep(60.0)
    await plane.restart(API_SERVER)
    # then
    assert phases(await completed(stage)) == {"app": "Succeeded"}
    assert statuses(await the_pod(stage))["app"]["restartCount"] == 1


async def test_a_job_s_sidecar_ends_after_the_main_container(stage: Stage, agents: Agents) -> None:
    """sidecarset case 82"""
    await agents.start()
    await stage.start_manager(settings=ManagerSettings(gates=Gates.of(SidecarTerminator=True)))
    ends = [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]
    containers = [
        {"name": "main", "image": "app:1", "command": ["/bin/sleep", "2"]},
        {"name": "log", "image": "log:1", "env": ends},
    ]
    pod = {"metadata": {"name": "job"}, "spec": {"restartPolicy": "Never", "containers": containers}}
    await stage.create(pod, resource=PODS)

    async def is_over() -> bool:
        return bool((await stage.get("job", resource=PODS))["status"]["phase"] == "Succeeded")

    await stage.until(is_over)
    result = await stage.get("job", resource=PODS)
    assert all("terminated" in status["state"] for status in statuses(result).values())


async def test_a_sidecar_among_the_init_containers_is_recreated(stage: Stage, agents: Agents) -> None:
    """containers pitfall k"""
    await agents.start()
    await stage.start_manager()
    doc = cloneset(replicas=1)
    doc["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    ]
    await stage.create(doc)
    await stage.settled(replicas=1)
    before = await the_pod(stage)
    await ask(stage, request(before["metadata"]["name"], "proxy"))
    assert phases(await completed(stage)) == {"proxy": "Succeeded"}
    after = await the_pod(stage)
    (init,) = after["status"]["initContainerStatuses"]
    assert init["restartCount"] == 1
    assert statuses(after)["main"]["restartCount"] == 0


# ── metadata ─────────────────────────────────────────────────────────────────


async def test_a_changed_annotation_in_the_environment_restarts_its_container_and_completes(
    stage: Stage, agents: Agents
) -> None:
    # given
    await agents.start()
    await stage.start_manager()
    doc = cloneset(replicas=2, updateStrategy=IN_PLACE)
    template = doc["spec"]["template"]
    template["metadata"]["annotations"] = {"example.com/level": "1"}
    fed = {
        "name": "LEVEL",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/level']"}},
    }
    template["spec"]["containers"] = [
        {"name": "main", "image": "main:1", "env": [fed]},
        {"name": "other", "image": "other:1"},
    ]
    await stage.create(doc)
    await stage.settled(replicas=2)
    before = {pod["metadata"]["uid"] for pod in await stage.stored(PODS)}
    # when
    patch = {"spec": {"template": {"metadata": {"annotations": {"example.com/level": "2"}}}}}
    await stage.merge("web", patch)
    # then
    await stage.settled(replicas=2)
    completes = await stage.stored(PODS)
    assert {pod["metadata"]["uid"] for pod in completes} == before
    for pod in completes:
        counts = {name: status["restartCount"] for name, status in statuses(pod).items()}
        assert counts == {"main": 1, "other": 0}
        assert annotations_of(pod)["example.com/level"] == "2"
        printed = await _environment(stage, pod)
        assert "LEVEL=2" in printed.splitlines()


async def _environment(stage: Stage, pod: Document) -> str:
    client = CriClient(str(stage.nodes[pod["spec"]["nodeName"]].cri_socket))
    try:
        id_ = statuses(pod)["main"]["containerID"].partition("://")[2]
        return (await client.exec_sync(id_, ["env"], timeout_s=5.0)).stdout.decode()
    finally:
        client.close()


# ── probes ───────────────────────────────────────────────────────────────────


async def test_probes_change_what_a_cloneset_deletes_first(stage: Stage, agents: Agents) -> None:
    # given three pods that are all busy
    await agents.start()
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    cost = "controller.kubernetes.io/pod-deletion-cost"
    marker = {
        "apiVersion": POD_PROBE_MARKERS.api_version,
        "kind": POD_PROBE_MARKERS.kind,
        "metadata": {"name": "game"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "probes": [
                {
                    "name": "idle",
                    "containerName": "main",
                    "probe": {"exec": {"command": ["/bin/test", "-e", "/tmp/idle"]}, "periodSeconds": 1},
                    "podConditionType": "game.io/idle",
                    "markerPolicy": [
                        {"state": "Succeeded", "labels": {"game": "idle"}, "annotations": {cost: "-10"}},
                        {"state": "Failed", "labels": {"game": "busy"}, "annotations": {cost: "10"}},
                    ],
                }
            ],
        },
    }
    await stage.create(marker, resource=POD_PROBE_MARKERS)
    await stage.until(lambda: _games(stage, "busy", 3))
    # when one becomes idle
    _, idle, _ = await stage.stored(PODS)
    client = CriClient(str(stage.nodes[idle["spec"]["nodeName"]].cri_socket))
    id_ = statuses(idle)["main"]["containerID"].partition("://")[2]
    await client.exec_sync(id_, ["/bin/touch", "/tmp/idle"], timeout_s=5.0)
    client.close()
    await stage.until(lambda: _games(stage, "idle", 1))
    # then it goes first
    await stage.scale("web", 2)
    await stage.settled(replicas=2)
    left = {pod["metadata"]["uid"] for pod in await stage.stored(PODS)}
    assert idle["metadata"]["uid"] not in left


async def _games(stage: Stage, state: str, count: int) -> bool:
    games = [labels_of(pod).get("game") for pod in await stage.stored(PODS)]
    return games.count(state) == count


def serving() -> Object:
    """A CloneSet whose pod answers HTTP on 8080, and gRPC's health checks on 9090 by a program of this machine."""
    doc = cloneset(replicas=1)
    pod = doc["spec"]["template"]["spec"]
    root = Path(__file__).parents[2]
    health = f"cd {root}/tests && exec {sys.executable} -m support.grpc_health 9090"
    serve = "mkdir -p /www; echo hello > /www/index.html; httpd -p 8080 -h /www"
    pod["containers"][0] |= {
        "command": ["/bin/sh", "-c", f"{serve}; exec /bin/busybox chroot /machine /bin/sh -c '{health}'"],
        "volumeMounts": [{"name": "machine", "mountPath": "/machine"}],
        "readinessProbe": {"tcpSocket": {"port": 9090}, "periodSeconds": 1},
    }
    pod["volumes"] = [{"name": "machine", "hostPath": {"path": "/"}}]
    return doc


@pytest.mark.parametrize(
    ("handler", "answers"),
    [
        pytest.param({"tcpSocket": {"port": 8080}}, True, id="tcp"),
        pytest.param({"tcpSocket": {"port": 8081}}, False, id="tcp, no listener"),
        pytest.param({"httpGet": {"path": "/index.html", "port": 8080, "scheme": "HTTP"}}, True, id="http"),
        pytest.param(
            {"httpGet": {"path": "/missing", "port": 8080, "scheme": "HTTP"}}, False, id="http, 404"
        ),
        pytest.param({"grpc": {"port": 9090}}, True, id="grpc"),
        pytest.param({"grpc": {"port": 9090, "service": "busy"}}, False, id="grpc, a service that is busy"),
    ],
)
async def test_probes_over_the_network_reach_the_pod(
    stage: Stage, agents: Agents, handler: Object, answers: bool
) -> None:
    await agents.start()
    await stage.start_manager()
    await stage.create(serving())
    await stage.settled(replicas=1)
    marker = {
        "apiVersion": POD_PROBE_MARKERS.api_version,
        "kind": POD_PROBE_MARKERS.kind,
        "metadata": {"name": "game"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "probes": [
                {
                    "name": "serves",
                    "containerName": "main",
                    "probe": {**handler, "periodSeconds": 1, "failureThreshold": 1},
                    "podConditionType": "game.io/serves",
                }
            ],
        },
    }
    await stage.create(marker, resource=POD_PROBE_MARKERS)

    async def is_said() -> bool:
        conditions = get_path(await the_pod(stage), "status", "conditions", default=())
        wanted = "True" if answers else "False"
        return any(
            condition["type"] == "game.io/serves" and condition["status"] == wanted
            for condition in conditions
        )

    await stage.until(is_said)


# ── debugging containers ──


async def test_debug_containers_are_injected_into_twenty_pods_five_at_a_time(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=20))
    await stage.settled(replicas=20)
    debugger = {
        "name": "look",
        "image": "look:1",
        "command": ["/bin/sh", "-c", "sleep 2; ls /proc > /dev/null"],
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePolicy": "File",
    }
    doc = {
        "apiVersion": EPHEMERAL_JOBS.api_version,
        "kind": EPHEMERAL_JOBS.kind,
        "metadata": {"name": "look"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "parallelism": 5,
            "template": {"ephemeralContainers": [debugger]},
        },
    }
    await stage.create(doc, resource=EPHEMERAL_JOBS)
    most = 0

    async def is_over() -> Object | None:
        nonlocal most
        pods = await stage.stored(PODS)
        running = [
            status
            for pod in pods
            for status in get_path(pod, "status", "ephemeralContainerStatuses", default=())
            if "terminated" not in status["state"]
        ]
        most = max(most, len(running))
        status = (await stage.get("look", resource=EPHEMERAL_JOBS)).get("status") or {}
        return status if status.get("completionTime") else None

    status = await stage.until(is_over)
    assert (status["phase"], status["succeeded"]) == ("Succeeded", 20)
    assert most <= 5
    restarts = [
        status["restartCount"] for pod in await stage.stored(PODS) for status in statuses(pod).values()
    ]
    assert restarts == [0] * 20


# ── the contract, and what it costs ──────────────────────────────────────────


class NodeHands:
    """Carries out the steps of the contract in the containerd of a node."""

    def __init__(self, stage: Stage) -> None:
        self._nodes = stage.nodes
        self._node = stage.nodes["node-1"]
        self._channel = Channel(path=str(self._node.cri_socket))
        self._sandboxes: dict[str, tuple[str, Any]] = {}

    def close(self) -> None:
        self._channel.close()

    async def run_container(self, name: str, *, pod_uid: str, attempt: int = 0) -> str:
        if pod_uid not in self._sandboxes:
            self._sandboxes[pod_uid] = await self._run_sandbox(pod_uid)
        sandbox, config = self._sandboxes[pod_uid]
        busybox = f"{REGISTRY}/contract-busybox:1"
        await self._call("PullImage", image={"image": busybox})
        made = await self._call(
            "CreateContainer",
            pod_sandbox_id=sandbox,
            sandbox_config=config,
            config={
                "metadata": {"name": name, "attempt": attempt},
                "image": {"image": busybox},
                "labels": {**config["labels"], "io.kubernetes.container.name": name},
                "annotations": {
                    "io.kubernetes.container.hash": "1a2b",
                    "io.kubernetes.container.restartCount": str(attempt),
                },
                "log_path": f"{name}-{attempt}.log",
                "linux": {},
            },
        )
        await self._call("StartContainer", container_id=made.container_id)
        return str(made.container_id)

    async def publish(self, reference: str, *, user: str = "", takes_s: float = 0.0) -> str:
        path = reference.partition("/")[2]
        if user or takes_s:
            rule = Rule(credentials=user, bytes_per_second=100_000 if takes_s else 0)
            self._nodes.registry.set_rule(path.rpartition(":")[0], rule)
        return self._nodes.registry.push(large_image(path), path)

    async def kill(self) -> None:
        await self._node.kill(CONTAINERD)

    async def restart(self) -> None:
        await self._node.restart(CONTAINERD)
        client = CriClient(str(self._node.cri_socket))
        for _ in range(100):
            try:
                await client.list_containers()
                break
            except CriError:
                await asyncio.sleep(0.1)
        client.close()

    async def _run_sandbox(self, pod_uid: str) -> tuple[str, Any]:
        labels = {
            "io.kubernetes.pod.name": "contract",
            "io.kubernetes.pod.namespace": "default",
            "io.kubernetes.pod.uid": pod_uid,
        }
        config = {
            "metadata": {"name": pod_uid, "uid": pod_uid, "namespace": "contract", "attempt": 0},
            "labels": labels,
            "log_directory": f"/var/log/pods/{pod_uid}",
            "linux": {
                "cgroup_parent": f"{self._nodes.group}/{self._node.name}/contract",
                "security_context": {"namespace_options": {"network": 2}},
            },
        }
        made = await self._call("RunPodSandbox", config=config)
        return made.pod_sandbox_id, config

    async def _call(self, name: str, **asked: Any) -> Any:
        method = METHODS[name]
        call = UnaryUnaryMethod(self._channel, method.path, message(method.takes), message(method.gives))
        return await call(message(method.takes)(**asked), timeout=30.0)


async def test_a_real_containerd_keeps_the_contract(stage: Stage) -> None:
    """All checks on one node. Its kubelet is killed, because it would end containers that belong to no pod."""
    node, hands, failed = stage.nodes["node-1"], NodeHands(stage), []
    await node.kill(KUBELET)
    try:
        for check in CHECKS:
            if problem := await _problem(check, node.cri_socket, hands):
                failed.append(f"{check.__name__}: {problem}")
    finally:
        hands.close()
        await node.power_off()  # this also ends everything that the checks started
        await node.boot()
    assert not failed, "\n".join(failed)


async def _problem(check: Check, socket: Any, hands: NodeHands) -> str:
    client = CriClient(str(socket))
    try:
        await check(client, hands)
    except (AssertionError, CriError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.close()
    return ""


async def test_an_agent_ends_in_time_and_watches_only_objects_of_its_node(
    stage: Stage, agents: Agents
) -> None:
    await agents.start("node-1")
    text = await agents.metrics("node-1")
    assert 'pykruise_cache_synced{resource="image-puller"} 1.0' in text
    assert await agents.stop("node-1") == 0
    assert {node["metadata"]["name"] for node in await _nodes(stage)} >= {"node-1"}


async def _nodes(stage: Stage) -> list[Object]:
    return [await stage.get("node-1", resource=NODES)]
