"""Rollouts of a CloneSet and an Advanced StatefulSet past nodes that are cut off: the option
ignore-unavailable-nodes."""

import asyncio
from typing import Any

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import Resource
from pykruise.pods.workload.options import IGNORE_UNAVAILABLE_NODES
from support.daemonsets import POOL_LABEL, Pool, watching
from support.scenario import Object, Stage

KINDS = [CLONE_SETS, ADVANCED_STATEFUL_SETS]


def workload(pool: Pool, resource: Resource, *, replicas: int, **annotations: str) -> Object:
    """A workload with one pod on each node of the pool."""
    alone = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    pod: dict[str, Any] = {
        "containers": [{"name": "main", "image": "nginx:1"}],
        "nodeSelector": {POOL_LABEL: pool.name},
        "tolerations": [
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        ],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}},
    }
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}},
    }
    if resource is ADVANCED_STATEFUL_SETS:
        spec |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
    else:  # a CloneSet's recreated pods go to other nodes, so only pods that are updated in place stay on dead nodes
        spec["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] = "InPlaceOnly"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "web", "annotations": annotations},
        "spec": spec,
    }


async def count_updated(pool: Pool) -> int:
    pods = [pod for pods in (await pool.by_node()).values() for pod in pods]
    return sum(pod.is_ready and pod.containers[0].image == "nginx:2" for pod in pods)


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
async def test_a_node_that_is_cut_off_holds_the_rollout_until_the_option_leaves_it_out(
    stage: Stage, pool: Pool, resource: Resource
) -> None:
    """cloneset case 118, statefulset case 92"""
    # given one pod on each of four nodes
    count = len(pool.nodes)
    await stage.start_manager()
    await stage.create(workload(pool, resource, replicas=count), resource=resource)

    async def are_ready() -> bool:
        return [pod.is_ready for pod in await stage.pods()] == [True] * count

    await stage.until(are_ready)
    for node in pool.nodes[:2]:
        await pool.cut_off(node)
    # when
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}
    await stage.merge("web", image, resource=resource)
    # then the two dead nodes use up maxUnavailable
    await asyncio.sleep(3 + stage.long_s)
    assert await count_updated(pool) == 0
    # when
    option = {"metadata": {"annotations": {IGNORE_UNAVAILABLE_NODES.annotation: "50%"}}}
    async with watching(pool) as seen:
        seen.from_now()
        await stage.merge("web", option, resource=resource)

        # then the pods of the other nodes are updated, one at a time
        async def are_updated() -> bool:
            return await count_updated(pool) == count - 2

        await stage.until(are_updated)
        assert seen.most_down <= 3, "the dead nodes, and one of the others"
    # when the nodes are back
    await pool.bring_back(*pool.nodes[:2])

    # then
    async def are_all_updated() -> bool:
        return await count_updated(pool) == count

    await stage.until(are_all_updated)


async def test_admission_rejects_the_option_of_a_statefulset_that_updates_in_order(
    stage: Stage, pool: Pool
) -> None:
    """statefulset case 95"""
    document = workload(
        pool, ADVANCED_STATEFUL_SETS, replicas=1, **{IGNORE_UNAVAILABLE_NODES.annotation: "1"}
    )
    document["spec"]["podManagementPolicy"] = "OrderedReady"
    with pytest.raises(InvalidError) as rejected:
        await stage.create(document, resource=ADVANCED_STATEFUL_SETS)
    assert f"metadata.annotations[{IGNORE_UNAVAILABLE_NODES.annotation}]" in str(rejected.value)
    assert "needs spec.podManagementPolicy Parallel" in str(rejected.value)
