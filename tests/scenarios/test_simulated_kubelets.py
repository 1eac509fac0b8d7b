"""Nodes of `pykruise kubelets`, in a cluster whose controllers do not look after nodes."""

import pytest

from pykruise.agent.rules.container_metadata import ANNOTATION
from pykruise.cli.kubelets import describe_taken, take_off_not_ready
from pykruise.kube.client.client import Client
from pykruise.kube.documents import annotations_of, decode
from pykruise.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.sandbox.cluster import ClusterSettings
from support.faults import FaultyTransport, conflict, patches
from support.scenario import Object, Stage, cloneset, rolling
from support.up import running
from testbed.control_plane import ControlPlane

LEVEL = "example.com/level"
TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.fixture
def cluster_settings() -> ClusterSettings:
    """Settings as on the testbed's real control planes: no controller removes taints from nodes."""
    return ClusterSettings(nodes=2, controllers=("pod-collector",))


def node(name: str, *taints: Object) -> Object:
    """A new node with these taints, as an API server of a real cluster stores it."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": list(taints)}}


async def test_a_taint_that_no_controller_removes_is_removed(stage: Stage) -> None:
    # given three new nodes: with the taint `not-ready`, with this and another taint, and with the other taint alone
    names = [f"late-{stage.namespace}-{number}" for number in range(3)]
    other = {**TAINT, "key": "example.com/own"}
    for name, taints in zip(names, ([TAINT], [TAINT, other], [other]), strict=True):
        await stage.client.create(NODES, "", node(name, *taints))
    # and a controller that annotates one of them meanwhile
    faulty = FaultyTransport(stage.client.transport)
    faulty.on(patches(f"/nodes/{names[1]}"), conflict())
    client = Client(faulty, clock=stage.clock)
    try:
        # when
        taken = await take_off_not_ready(client, set(names))
        # then
        assert taken == names[:2]
        assert f"({names[0]}, {names[1]})" in describe_taken(taken)
        stored = [decode(await stage.client.get(NODES, "", name)) for name in names]
        assert [entry["spec"].get("taints") for entry in stored] == [None, [other], [other]]
        assert await take_off_not_ready(client, set(names)) == []
    finally:
        for name in names:
            await stage.client.delete(NODES, "", name)


@pytest.mark.real
async def test_the_command_binds_claims_and_takes_the_taint_off(
    stage: Stage, real_plane: ControlPlane
) -> None:
    # given a node that was registered before, and that never became ready
    prefix = f"late-{stage.namespace}-"
    await stage.client.create(NODES, "", node(f"{prefix}1", TAINT))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await stage.create(
        {"metadata": {"name": "data"}, "spec": claim | {"storageClassName": ""}},
        resource=PERSISTENT_VOLUME_CLAIMS,
    )
    command = ("kubelets", "--kubeconfig", str(real_plane.kubeconfig), "--nodes", "2", "--prefix", prefix)
    try:
        # then, a moment after its nodes are registered
        with running(*command, "--volumes", says=f"({prefix}1), which kept pods away"):
            await stage.until(lambda: is_bound(stage))
    finally:
        for number in (1, 2):
            await stage.client.delete(NODES, "", f"{prefix}{number}")


@pytest.mark.real
async def test_the_command_plays_the_agent(stage: Stage, real_plane: ControlPlane) -> None:
    # given a pod on a node of the command, with an environment that an annotation feeds
    prefix = f"late-{stage.namespace}-"
    command = ("kubelets", "--kubeconfig", str(real_plane.kubeconfig), "--nodes", "1", "--prefix", prefix)
    await stage.start_manager()
    strategy = rolling(podUpdatePolicy="InPlaceOnly")
    doc = cloneset(replicas=1, updateStrategy=strategy)
    template = doc["spec"]["template"]
    template["metadata"]["annotations"] = {LEVEL: "1"}
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{LEVEL}']"}}
    template["spec"]["containers"][0]["env"] = [{"name": "LEVEL", "valueFrom": source}]
    template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"{prefix}1"}
    try:
        with running(*command, "--agent", says=f"({prefix}1)"):
            await stage.create(doc)
            await stage.settled(replicas=1)
            # when the annotation changes
            changed = {"template": {"metadata": {"annotations": {LEVEL: "2"}}}}
            await stage.merge("web", {"spec": changed})
            await stage.settled(replicas=1, updated=1)
            # then the container was started again, and that is reported
            (pod,) = await stage.stored(PODS)
            assert [status["restartCount"] for status in pod["status"]["containerStatuses"]] == [1]
            assert '"restartCount":1' in annotations_of(pod)[ANNOTATION]
    finally:
        await stage.client.delete(NODES, "", f"{prefix}1")


async def is_bound(stage: Stage) -> bool:
    result = await stage.get("data", resource=PERSISTENT_VOLUME_CLAIMS)
    return bool(result.get("status", {}).get("phase") == "Bound")
