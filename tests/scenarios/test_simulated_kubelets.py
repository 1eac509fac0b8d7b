"""Nodes of `pykruise kubelets`, in a cluster whose controllers do not look after nodes."""

import pytest

from pykruise.cli.kubelets import remark_on, take_off_not_ready
from pykruise.kube.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS
from pykruise.sandbox.cluster import ClusterSettings
from support.faults import FaultyTransport, conflict, patches
from support.scenario import Object, Stage
from support.up import running
from testbed.control_plane import ControlPlane

TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.fixture
def cluster_settings() -> ClusterSettings:
    """As the testbed's real control planes: nobody takes taints off nodes."""
    return ClusterSettings(nodes=2, controllers=("pod-collector",))


def node(name: str, *taints: Object) -> Object:
    """As an API server stores a new node of a real cluster."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": list(taints)}}


async def test_a_taint_that_nobody_takes_off_is_taken_off(stage: Stage) -> None:
    # given two new nodes with the taint of those that are not ready yet, one with another, and one of others
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
        assert f"({names[0]}, {names[1]})" in remark_on(taken)
        stored = [decode(await stage.client.get(NODES, "", name)) for name in names]
        assert [one["spec"].get("taints") for one in stored] == [None, [other], [other]]
        assert await take_off_not_ready(client, set(names)) == []
    finally:
        for name in names:
            await stage.client.delete(NODES, "", name)


@pytest.mark.real
async def test_the_command_binds_claims_and_takes_the_taint_off(
    stage: Stage, real_plane: ControlPlane
) -> None:
    # given a node that was registered before, and that nobody made ready
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


async def is_bound(stage: Stage) -> bool:
    found = await stage.get("data", resource=PERSISTENT_VOLUME_CLAIMS)
    return bool(found.get("status", {}).get("phase") == "Bound")
