"""New pods near the pods that they replace (pykruise.io/successor-placement), on both clusters."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import NODES, PODS
from pykruise.pods.workload.options import SUCCESSOR_PLACEMENT
from support.scenario import Object, Stage, cloneset, rolling

OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")


def near(placement: str, **spec: Any) -> Object:
    document = cloneset(**spec)
    document["metadata"]["annotations"] = {SUCCESSOR_PLACEMENT.annotation: placement}
    return document


async def nodes_of(stage: Stage) -> Counter[str]:
    """Number of pods on each node."""
    return Counter(pod.node_name for pod in await stage.pods())


async def replace_pod(stage: Stage, name: str, *, replicas: int) -> None:
    """Delete the pod, and wait until its successor serves."""
    await stage.delete(name, resource=PODS)

    async def is_gone() -> bool:
        return name not in {pod.name for pod in await stage.pods()}

    await stage.until(is_gone)
    await stage.settled(replicas=replicas)


async def _start(stage: Stage, document: Object, *, replicas: int) -> Counter[str]:
    await stage.start_manager()
    await stage.create(document)
    await stage.settled(replicas=replicas)
    return await nodes_of(stage)


@pytest.mark.parametrize(
    "budget", [{"maxUnavailable": 1}, {"maxUnavailable": 0, "maxSurge": 1}], ids=["in turn", "surge"]
)
@pytest.mark.parametrize("placement", ["PreferSameNode", "RequireSameNode"])
async def test_a_rollout_recreates_pods_on_their_nodes(
    stage: Stage, placement: str, budget: dict[str, int]
) -> None:
    """cloneset cases 114 and 115"""
    # given five pods, unevenly on four nodes
    strategy = rolling(**budget)
    before = await _start(stage, near(placement, replicas=5, updateStrategy=strategy), replicas=5)
    # when
    await stage.set_image("web", "nginx:2")
    # then
    await stage.settled(replicas=5)
    assert await nodes_of(stage) == before


async def test_the_successor_of_a_deleted_pod_runs_on_its_node(stage: Stage) -> None:
    """cloneset case 114"""
    before = await _start(stage, near("RequireSameNode", replicas=5), replicas=5)
    await replace_pod(stage, (await stage.pods())[0].name, replicas=5)
    assert await nodes_of(stage) == before


async def test_the_successor_of_a_pod_on_a_cordoned_node_runs_elsewhere(stage: Stage) -> None:
    """cloneset case 116"""
    before = await _start(stage, near("RequireSameNode", replicas=3), replicas=3)
    pod = (await stage.pods())[0]
    await stage.merge(pod.node_name, {"spec": {"unschedulable": True}}, resource=NODES)
    try:
        await replace_pod(stage, pod.name, replicas=3)
        assert pod.node_name not in await nodes_of(stage) - before
    finally:
        await stage.merge(pod.node_name, {"spec": {"unschedulable": None}}, resource=NODES)


@pytest.mark.parametrize("resource", [CLONE_SETS, OLD_CLONE_SETS], ids=["v1beta1", "v1alpha1"])
@pytest.mark.parametrize("value", ["", "SameNode", "prefersamenode"])
async def test_another_value_is_refused_with_the_path_of_the_annotation(
    stage: Stage, value: str, resource: Any
) -> None:
    """cloneset case 117"""
    await stage.start_manager()
    document = {**near(value), "apiVersion": resource.api_version}
    with pytest.raises(InvalidError) as refused:
        await stage.create(document, resource=resource)
    assert SUCCESSOR_PLACEMENT.field in str(refused.value)
    assert "PreferSameNode, PreferSameZone, RequireSameNode, RequireSameZone" in str(refused.value)
