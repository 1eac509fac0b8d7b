"""Nodes of `pykruise kubelets`, in a cluster whose controllers do not look after nodes."""

import pytest

from pykruise.cli.kubelets import not_ready_nodes, warning_of
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES
from pykruise.sandbox.cluster import ClusterSettings
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


async def test_nodes_whose_taint_nobody_removes_are_told_of(stage: Stage) -> None:
    # given two new nodes with the taint of those that are not ready yet, one with another, and one of others
    names = [f"late-{stage.namespace}-{number}" for number in range(3)]
    other = {**TAINT, "key": "example.com/own"}
    for name, taint in zip(names, (TAINT, TAINT, other), strict=True):
        await stage.client.create(NODES, "", node(name, taint))
    try:
        # then
        found = await not_ready_nodes(stage.client, set(names))
        assert found == names[:2]
        assert await not_ready_nodes(stage.client, {names[1]}) == [names[1]]
        assert f"({names[0]}, {names[1]})" in warning_of(found)
        # when somebody does, then there is nothing to tell
        for name in found:
            await stage.client.patch(NODES, "", name, {"spec": {"taints": None}}, patch_type=PatchType.MERGE)
        assert await not_ready_nodes(stage.client, set(names)) == []
    finally:
        for name in names:
            await stage.client.delete(NODES, "", name)


@pytest.mark.real
async def test_the_command_says_so(stage: Stage, real_plane: ControlPlane) -> None:
    # given a node that was registered before, and that nobody made ready
    prefix = f"late-{stage.namespace}-"
    await stage.client.create(NODES, "", node(f"{prefix}1", TAINT))
    command = ("kubelets", "--kubeconfig", str(real_plane.kubeconfig), "--nodes", "2", "--prefix", prefix)
    try:
        # then, a moment after its nodes are registered
        with running(*command, says=f"1 of them still carry the taint {TAINT['key']} ({prefix}1)"):
            pass
    finally:
        for number in (1, 2):
            await stage.client.delete(NODES, "", f"{prefix}{number}")
