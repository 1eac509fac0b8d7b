"""Pods that really run: what a real kubelet, containerd and a registry do to workloads.

pytest --cluster=real --real-nodes tests/scenarios/test_real_nodes.py
"""

import asyncio
import base64
import json
import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import Document
from pykruise.kube.resources import CONFIG_MAPS, JOBS, PODS, SECRETS, Resource
from pykruise.pods.workload.options import REPLACE_NEVER_READY
from support.scenario import Object, Stage, cloneset, rolling
from support.up import Kubectl
from testbed.control_plane import ControlPlane
from testbed.images import build_busybox_image
from testbed.node import CONTAINERD, KUBELET, Rule

pytestmark = pytest.mark.node_only

IN_PLACE = rolling(podUpdatePolicy="InPlaceOnly", maxUnavailable=1)
READY_FILE = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}


def with_pod(doc: Object, spec: Mapping[str, Any] | None = None, /, **main: Any) -> Object:
    """The workload with further fields of its pods' spec, and of their container `main`."""
    pod = doc["spec"]["template"]["spec"]
    pod.update(spec or {})
    pod["containers"][0].update(main)
    return doc


async def pods(stage: Stage) -> dict[str, Document]:
    return {entry["metadata"]["name"]: entry for entry in await stage.stored(PODS)}


async def the_pod(stage: Stage) -> Document:
    (pod,) = await stage.stored(PODS)
    return pod


def status_of(pod: Document, container: str = "main") -> Document:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next(
        (status for status in statuses if status["name"] == container), {"state": {}, "restartCount": 0}
    )


def waits_for(pod: Document) -> str:
    """Why the container main waits; empty: it does not."""
    result: str = status_of(pod)["state"].get("waiting", {}).get("reason", "")
    return result


@pytest.fixture
def kubectl(stage: Stage, plane: ControlPlane) -> Kubectl:
    return Kubectl(plane.kubeconfig, program=str(plane.find_binary("kubectl")))


# ── updates in place ─────────────────────────────────────────────────────────


def document(resource: Resource, **fields: Any) -> Object:
    doc = cloneset(image="registry.test/same:1", **fields)
    doc |= {"apiVersion": resource.api_version, "kind": resource.kind}
    return doc


async def test_the_status_of_a_real_kubelet_proves_that_a_pod_has_never_been_ready(stage: Stage) -> None:
    """statefulset cases 88 and 89: one pod never becomes ready, the other is ready until a file appears"""
    # given
    stage.nodes.registry.push(build_busybox_image("never"), "never:1")
    never = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    once = {"exec": {"command": ["sh", "-c", "test ! -e /tmp/late"]}, "periodSeconds": 1}
    command = ["sh", "-c", "sleep 4; touch /tmp/late; sleep 1000"]
    await stage.start_manager()
    for name, probe in (("never", never), ("once", once)):
        doc = with_pod(
            document(ADVANCED_STATEFUL_SETS, name=name, replicas=1),
            image="registry.test/never:1",
            command=command,
            readinessProbe={**probe, "failureThreshold": 1},
        )
        doc["metadata"]["annotations"] = {REPLACE_NEVER_READY.annotation: "1"}
        await stage.create(doc, resource=ADVANCED_STATEFUL_SETS)

    async def are_down() -> bool:
        result = await pods(stage)
        return {"never-0", "once-0"} <= result.keys() and all(
            status_of(pod)["state"].get("running") and not is_ready(pod) for pod in result.values()
        )

    await asyncio.sleep(8)
    await stage.until(are_down)
    before = {name: pod["metadata"]["uid"] for name, pod in (await pods(stage)).items()}
    # when both templates are corrected
    for name in ("never", "once"):
        patch = {"spec": {"template": {"metadata": {"annotations": {"corrected": "true"}}}}}
        await stage.merge(name, patch, resource=ADVANCED_STATEFUL_SETS)

    # then
    async def is_replaced() -> bool:
        pod = (await pods(stage)).get("never-0")
        return pod is not None and pod["metadata"]["uid"] != before["never-0"]

    await stage.until(is_replaced)
    await asyncio.sleep(3)
    assert (await pods(stage))["once-0"]["metadata"]["uid"] == before["once-0"]


@pytest.mark.parametrize(
    ("resource", "strategy"),
    [
        pytest.param(CLONE_SETS, IN_PLACE, id="CloneSet"),
        pytest.param(ADVANCED_STATEFUL_SETS, rolling(podUpdatePolicy="InPlaceIfPossible"), id="StatefulSet"),
        pytest.param(DAEMON_SETS, rolling(rollingUpdateType="InPlaceIfPossible"), id="DaemonSet"),
    ],
)
async def test_one_digest_under_two_tags_is_an_update_in_place_like_any_other(
    stage: Stage, resource: Resource, strategy: Object
) -> None:
    # given
    stage.nodes.registry.push(build_busybox_image("same"), "same:1", "same:2")
    await stage.start_manager()
    doc = document(resource, replicas=1, updateStrategy=strategy)
    with_pod(doc, {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]})
    if resource is DAEMON_SETS:
        del doc["spec"]["replicas"]
        with_pod(doc, {"nodeSelector": {"kubernetes.io/hostname": "node-1"}})
    await stage.create(doc, resource=resource)

    async def all_ready(image: str, restarts: int) -> dict[str, Document] | None:
        result = await pods(stage)
        is_done = bool(result) and all(
            has_image(pod, image) and is_ready(pod) and status_of(pod)["restartCount"] == restarts
            for pod in result.values()
        )
        status = (await stage.get("web", resource=resource)).get("status") or {}
        updated = status.get("updatedReplicas", status.get("updatedNumberScheduled", 0))
        return result if is_done and updated == len(result) else None

    before = await stage.until(lambda: all_ready("registry.test/same:1", 0))
    # when
    containers = [{"name": "main", "image": "registry.test/same:2"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await stage.merge("web", patch, resource=resource)
    # then
    after = await stage.until(lambda: all_ready("registry.test/same:2", 1))
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    assert len({status_of(pod)["imageID"] for pod in (*before.values(), *after.values())}) == 1


def is_ready(pod: Document) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def test_only_the_container_whose_image_changes_is_restarted(stage: Stage) -> None:
    # given
    doc = with_pod(cloneset(replicas=1, updateStrategy=IN_PLACE))
    doc["spec"]["template"]["spec"]["containers"] += [
        {"name": "first", "image": "first:1"},
        {"name": "second", "image": "second:1"},
    ]
    await stage.start_manager()
    await stage.create(doc)
    await stage.settled(replicas=1)
    # when
    doc["spec"]["template"]["spec"]["containers"][1]["image"] = "first:2"
    await stage.merge("web", {"spec": {"template": doc["spec"]["template"]}})
    await stage.settled(replicas=1)
    # then
    pod = await the_pod(stage)
    restarts = {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]}
    assert restarts == {"main": 0, "first": 1, "second": 0}


async def test_containers_start_in_the_order_of_their_priorities_as_they_get_ready(
    stage: Stage, kubectl: Kubectl
) -> None:
    # given a container of the first level that becomes ready only when the test says so
    doc = cloneset(replicas=1)
    doc["spec"]["template"]["spec"]["containers"].append(
        {
            "name": "proxy",
            "image": "proxy:1",
            "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}],
            "readinessProbe": READY_FILE,
        }
    )
    await stage.start_manager()
    await stage.create(doc)

    async def proxy_runs() -> Document | None:
        runs = await pods(stage)
        return next((pod for pod in runs.values() if "running" in status_of(pod, "proxy")["state"]), None)

    pod = await stage.until(proxy_runs)
    assert waits_for(pod) == "CreateContainerConfigError"
    # when
    name = pod["metadata"]["name"]
    kubectl.says("-n", stage.namespace, "exec", name, "-c", "proxy", "--", "touch", "/tmp/ready")
    # then
    await stage.settled(replicas=1)
    (barrier,) = (
        entry for entry in await stage.stored(CONFIG_MAPS) if entry["metadata"]["name"].endswith("-barrier")
    )
    assert set(barrier["data"]) == {"p_0", "p_1"}


async def test_a_pod_ends_gracefully_before_its_container_is_replaced(stage: Stage, kubectl: Kubectl) -> None:
    """The old container's preStop hook runs to its end, and what it wrote is seen by the new one."""
    # given
    hook = {"exec": {"command": ["sh", "-c", "sleep 2; echo ended > /data/$HOSTNAME"]}}
    doc = with_pod(
        cloneset(replicas=1, updateStrategy=IN_PLACE),
        {"volumes": [{"name": "data", "emptyDir": {}}]},
        lifecycle={"preStop": hook},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    await stage.start_manager()
    await stage.create(doc)
    await stage.settled(replicas=1)
    # when
    await stage.set_image("web", "nginx:2", template=with_image(doc, "nginx:2"))
    await stage.settled(replicas=1)
    # then
    pod = await the_pod(stage)
    last = status_of(pod)["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (0, "Completed")
    name = pod["metadata"]["name"]
    assert kubectl.says("-n", stage.namespace, "exec", name, "--", "cat", f"/data/{name}") == "ended\n"


def with_image(doc: Object, image: str) -> Object:
    template: Object = json.loads(json.dumps(doc["spec"]["template"]))
    template["spec"]["containers"][0]["image"] = image
    return template


async def test_metadata_that_a_volume_shows_changes_without_a_restart(stage: Stage, kubectl: Kubectl) -> None:
    # given a pod that reads its own label from a file
    items = [{"path": "tier", "fieldRef": {"fieldPath": "metadata.labels['tier']"}}]
    doc = with_pod(
        cloneset(replicas=1, updateStrategy=IN_PLACE),
        {"volumes": [{"name": "own", "downwardAPI": {"items": items}}]},
        volumeMounts=[{"name": "own", "mountPath": "/own"}],
    )
    doc["spec"]["template"]["metadata"]["labels"]["tier"] = "one"
    await stage.start_manager()
    await stage.create(doc)
    await stage.settled(replicas=1)
    # when
    await stage.merge("web", {"spec": {"template": {"metadata": {"labels": {"tier": "two"}}}}})
    await stage.settled(replicas=1)
    # then
    pod = await the_pod(stage)
    shown = ("-n", stage.namespace, "exec", pod["metadata"]["name"], "--", "cat", "/own/tier")
    await stage.until(lambda: kubectl.says(*shown) == "two")
    assert status_of(await the_pod(stage))["restartCount"] == 0


async def test_a_readiness_gate_holds_the_next_pod_back(stage: Stage) -> None:
    # given pods with a readiness gate of another program, which is open
    gate = "example.com/connected"
    doc = with_pod(
        cloneset(replicas=2, updateStrategy=IN_PLACE), {"readinessGates": [{"conditionType": gate}]}
    )
    await stage.start_manager()
    await stage.create(doc)
    await stage.until(lambda: has_pods(stage, 2))
    for name in await pods(stage):
        await set_condition(stage, name, gate, "True")
    await stage.settled(replicas=2)
    # when a rollout begins, and the gate of the first pod closes
    await stage.set_image("web", "nginx:2", template=with_image(doc, "nginx:2"))

    async def updated() -> list[str]:
        return [name for name, pod in (await pods(stage)).items() if has_image(pod, "nginx:2")]

    (first,) = await stage.until(updated)
    await set_condition(stage, first, gate, "False")
    await asyncio.sleep(stage.long_s)
    # then the other waits, until it opens
    assert await updated() == [first]
    await set_condition(stage, first, gate, "True")
    await stage.settled(replicas=2)


async def has_pods(stage: Stage, count: int) -> bool:
    return len(await pods(stage)) == count


def has_image(pod: Document, image: str) -> bool:
    text: str = pod["spec"]["containers"][0]["image"]
    return text == image


async def set_condition(stage: Stage, pod: str, kind: str, status: str) -> None:
    own = [{"type": kind, "status": status}]
    result = (await stage.get(pod, resource=PODS))["status"]
    others = [condition for condition in result.get("conditions") or () if condition["type"] != kind]
    await stage.merge(pod, {"status": {"conditions": [*others, *own]}}, resource=PODS, subresource="status")


# ── images ───────────────────────────────────────────────────────────────────


async def test_an_image_that_needs_credentials_starts_once_there_are_some(stage: Stage) -> None:
    # given
    repository = f"private/{secrets.token_hex(4)}"
    stage.nodes.registry.set_rule(repository, Rule(credentials="me:secret"))
    image = f"registry.test/{repository}:1"
    doc = with_pod(cloneset(replicas=1, image=image), {"imagePullSecrets": [{"name": "pull"}]})
    await stage.start_manager()
    await stage.create(doc)

    async def is_refused() -> bool:
        return any(waits_for(pod) == "ImagePullBackOff" for pod in (await pods(stage)).values())

    await stage.until(is_refused)
    # when
    auth = base64.b64encode(b"me:secret").decode()
    config = json.dumps({"auths": {"registry.test": {"username": "me", "password": "secret", "auth": auth}}})
    secret = {
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }
    await stage.create(secret, resource=SECRETS)
    # then
    await stage.settled(replicas=1)
    assert stage.nodes.registry.count_pulls(f"{repository}:1") == 1


async def test_a_slow_registry_delays_a_rollout_and_harms_no_other_pod(stage: Stage) -> None:
    # given
    repository = f"slow/{secrets.token_hex(4)}"
    stage.nodes.registry.set_rule(repository, Rule(bytes_per_second=200_000))
    await stage.start_manager()
    await stage.create(cloneset(replicas=2, updateStrategy=IN_PLACE))
    await stage.settled(replicas=2)
    # when
    await stage.set_image("web", f"{repository}:1")

    async def ready() -> int:
        return sum(is_ready(pod) for pod in (await pods(stage)).values())

    await stage.until(lambda: is_under_way(stage))
    assert await ready() == 1
    # then
    await stage.settled(replicas=2)


async def is_under_way(stage: Stage) -> bool:
    return any(not is_ready(pod) for pod in (await pods(stage)).values())


# ── what goes wrong in pods ──────────────────────────────────────────────────


async def test_a_crash_loop_holds_the_rollout_and_a_good_image_ends_it(stage: Stage) -> None:
    # given
    crash = f"crash-{secrets.token_hex(4)}:1"
    stage.nodes.registry.push(build_busybox_image(crash, command=["/bin/sh", "-c", "exit 3"]), crash)
    await stage.start_manager()
    # a container that crashes counts as ready for a moment
    await stage.create(cloneset(replicas=2, updateStrategy=IN_PLACE, minReadySeconds=3))
    await stage.settled(replicas=2)
    # when
    await stage.set_image("web", crash)

    async def loops() -> bool:
        return any(waits_for(pod) == "CrashLoopBackOff" for pod in (await pods(stage)).values())

    await stage.until(loops)
    assert sum(has_image(pod, crash) for pod in (await pods(stage)).values()) == 1
    # then
    await stage.set_image("web", "nginx:3")
    await stage.settled(replicas=2)
    assert all(has_image(pod, "nginx:3") for pod in (await pods(stage)).values())


async def test_a_probe_that_fails_takes_the_pod_out_and_holds_the_rollout(
    stage: Stage, kubectl: Kubectl
) -> None:
    # given pods that are ready while a file is there
    doc = with_pod(cloneset(replicas=2, updateStrategy=IN_PLACE), readinessProbe=READY_FILE)
    await stage.start_manager()
    await stage.create(doc)
    await stage.until(lambda: has_running(stage, 2))

    def on_each(names: list[str], *command: str) -> None:
        for name in names:
            kubectl.says("-n", stage.namespace, "exec", name, "--", *command)

    names = list(await pods(stage))
    on_each(names, "touch", "/tmp/ready")
    await stage.settled(replicas=2)
    # when a new container begins without the file
    await stage.set_image("web", "nginx:2", template=with_image(doc, "nginx:2"))

    async def restarted() -> list[str]:
        return [name for name, pod in (await pods(stage)).items() if status_of(pod)["restartCount"] == 1]

    (first,) = await stage.until(restarted)
    await asyncio.sleep(stage.long_s)
    # then the other waits for it
    assert await restarted() == [first]
    on_each([first], "touch", "/tmp/ready")
    (second,) = set(names) - {first}
    await stage.until(lambda: has_restarted(stage, second))
    on_each([second], "touch", "/tmp/ready")
    await stage.settled(replicas=2)


async def has_running(stage: Stage, count: int) -> bool:
    return sum("running" in status_of(pod)["state"] for pod in (await pods(stage)).values()) == count


async def has_restarted(stage: Stage, name: str) -> bool:
    result = status_of((await pods(stage))[name])
    return bool(result["restartCount"] == 1 and "running" in result["state"])


async def test_a_pod_that_its_node_evicts_is_replaced(stage: Stage, kubectl: Kubectl) -> None:
    # given a pod that may keep a megabyte
    doc = with_pod(
        cloneset(replicas=1),
        {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    await stage.start_manager()
    await stage.create(doc)
    await stage.settled(replicas=1)
    evicted = (await the_pod(stage))["metadata"]["name"]
    # when
    fill = ("dd", "if=/dev/zero", "of=/data/file", "bs=1M", "count=3")
    kubectl.says("-n", stage.namespace, "exec", evicted, "--", *fill)

    async def is_replaced() -> bool:
        pods = await stage.pods()
        return [pod.name != evicted and pod.is_serving for pod in pods if pod.is_active] == [True]

    # then
    await stage.until(is_replaced)
    assert [event["involvedObject"]["name"] for event in await stage.events("Evicted")] == [evicted]


# ── nodes ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("component", [KUBELET, CONTAINERD])
async def test_a_rollout_continues_when_a_component_of_a_node_is_killed(stage: Stage, component: str) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=IN_PLACE))
    await stage.settled(replicas=4)
    before = {name: pod["metadata"]["uid"] for name, pod in (await pods(stage)).items()}
    # when
    await stage.set_image("web", "nginx:2")
    await stage.until(lambda: is_under_way(stage))
    for node in stage.nodes:
        await node.restart(component)
    # then
    await stage.settled(replicas=4)
    after = await pods(stage)
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == before
    assert {status_of(pod)["restartCount"] for pod in after.values()} == {1}


async def test_pods_return_with_their_rebooted_node_and_keep_their_files(
    stage: Stage, kubectl: Kubectl
) -> None:
    # given
    doc = with_pod(
        cloneset(replicas=1),
        {"volumes": [{"name": "data", "emptyDir": {}}], "nodeName": "node-4"},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    await stage.start_manager()
    await stage.create(doc)
    await stage.settled(replicas=1)
    name = (await the_pod(stage))["metadata"]["name"]
    exec_in = ("-n", stage.namespace, "exec", name, "--")
    kubectl.says(*exec_in, "touch", "/data/kept")
    # when
    node = stage.nodes["node-4"]
    await node.power_off()
    await node.boot()
    # then
    await stage.until(lambda: has_restarted(stage, name))
    await stage.settled(replicas=1)
    assert kubectl.says(*exec_in, "ls", "/data") == "kept\n"


# ── sidecars ─────────────────────────────────────────────────────────────────


async def test_a_native_sidecar_starts_before_a_job_and_ends_with_it(stage: Stage) -> None:
    # given
    sidecar = {
        "name": "mesh",
        "image": "mesh:1",
        "restartPolicy": "Always",
        "startupProbe": {
            "exec": {"command": ["test", "-e", "/etc/marker"]},
            "timeoutSeconds": 1,
            "periodSeconds": 1,
            "successThreshold": 1,
            "failureThreshold": 30,
        },
    }
    sidecar_set = {
        "apiVersion": SIDECAR_SETS.api_version,
        "kind": SIDECAR_SETS.kind,
        "metadata": {"name": stage.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "work"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
            "initContainers": [sidecar],
            "updateStrategy": {"type": "NotUpdate"},
        },
    }
    await stage.create(sidecar_set, resource=SIDECAR_SETS)
    await stage.start_manager()
    await stage.until(lambda: is_observed(stage))
    # when
    work = {"name": "main", "image": "work:1", "command": ["sleep", "2"]}
    template = {
        "metadata": {"labels": {"app": "work"}},
        "spec": {"containers": [work], "restartPolicy": "Never"},
    }
    await stage.create({"metadata": {"name": "work"}, "spec": {"template": template}}, resource=JOBS)

    async def is_complete() -> bool:
        status = (await stage.get("work", resource=JOBS)).get("status") or {}
        return bool(status.get("succeeded") == 1)

    # then
    await stage.until(is_complete)
    pod = await the_pod(stage)
    (result,) = pod["status"]["initContainerStatuses"]
    assert result["restartCount"] == 0
    first, then = (item["state"]["terminated"] for item in (result, status_of(pod)))
    assert first["startedAt"] <= then["startedAt"]
    assert first["finishedAt"] >= then["finishedAt"]
    await stage.delete(stage.namespace, resource=SIDECAR_SETS)


async def is_observed(stage: Stage) -> bool:
    result = await stage.get(stage.namespace, resource=SIDECAR_SETS)
    return bool((result.get("status") or {}).get("observedGeneration"))


async def test_logs_and_exec_reach_the_container(stage: Stage, kubectl: Kubectl) -> None:
    command = ["/bin/sh", "-c", "echo hello; trap 'exit 0' TERM; while :; do sleep 1; done"]
    await stage.start_manager()
    await stage.create(with_pod(cloneset(replicas=1), command=command))
    await stage.settled(replicas=1)
    name = (await the_pod(stage))["metadata"]["name"]
    assert kubectl.says("-n", stage.namespace, "logs", name) == "hello\n"
    assert kubectl.says("-n", stage.namespace, "exec", name, "--", "hostname") == f"{name}\n"
