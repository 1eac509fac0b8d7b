"""Nodes whose kubelet an annotation stops: `explain` names the node, and its return repairs everything.

annotation of a node ──▶ no Lease ──▶ Ready=Unknown, taints, pods not ready ──▶ explain ──▶ the node starts again
"""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.nodes.specs import STOPPED
from support.scenario import Object, Stage
from support.situations.documents import cloneset, daemonset, statefulset, united
from support.situations.world import KINDS, World

pytestmark = [pytest.mark.sandbox_only, pytest.mark.all_controllers]

MARKED_S = 120.0
"""Seconds until the control plane has marked the node and its pods, and managers have noticed."""
GIVEN_UP_S = 520.0
"""Seconds until the node's pods are deleted, too."""


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Nodes renew their Leases."""
    return msgspec.structs.replace(cluster_settings, kubelet=KubeletSettings())


async def stop_a_node(world: World) -> str:
    """Stop the node of the first pod."""
    node = str((await world.list("pod"))[0]["spec"]["nodeName"])
    await world.node(node, metadata={"annotations": {STOPPED: "true"}})
    return node


async def pods_are_not_ready(world: World, document: Object) -> str:
    await world.put(document)
    await world.wait(30)
    node = await stop_a_node(world)
    await world.wait(MARKED_S)
    return node


async def pods_are_given_up(world: World, document: Object) -> str:
    node = await pods_are_not_ready(world, document)
    await world.wait(GIVEN_UP_S - MARKED_S)
    return node


async def an_update_meets_them(world: World, document: Object) -> str:
    node = await pods_are_not_ready(world, document)
    await world.set_image(f"{document['kind'].lower()}/web", "nginx:2")
    await world.wait(60)
    return node


StageIt = Callable[[World, Object], Awaitable[str]]

TABLE = [
    (pods_are_not_ready, "cloneset", cloneset(replicas=4), Phase.DEGRADED),
    (pods_are_given_up, "cloneset", cloneset(replicas=4), Phase.HEALTHY),
    (an_update_meets_them, "cloneset", cloneset(replicas=4), Phase.HEALTHY),
    (pods_are_not_ready, "statefulset", statefulset(), Phase.DEGRADED),
    (pods_are_given_up, "statefulset", statefulset(), Phase.DEGRADED),
    (an_update_meets_them, "statefulset", statefulset(), Phase.DEGRADED),
    (pods_are_not_ready, "daemonset", daemonset(), Phase.HEALTHY),
    (an_update_meets_them, "daemonset", daemonset(), Phase.DEGRADED),
    (pods_are_not_ready, "uniteddeployment", united(), Phase.DEGRADED),
    (pods_are_given_up, "uniteddeployment", united(), Phase.HEALTHY),
]


@pytest.mark.parametrize(
    ("stage_it", "kind", "document", "phase"),
    [pytest.param(*row, id=f"{row[1]}-{row[0].__name__}") for row in TABLE],
)
async def test_the_cause_names_the_stopped_node_and_its_return_helps(
    stage: Stage, stage_it: StageIt, kind: str, document: Object, phase: Phase
) -> None:
    world = World(stage)
    await world.start()
    # given
    node = await stage_it(world, document)
    # then
    explanation = await world.explained(KINDS[kind], "web")
    said = await world.text(explanation)
    assert (explanation.cause, explanation.phase) == (Code.NODE_LOST, phase), said
    assert f"its node {node} does not" in said, said
    assert f"bring {node} back" in explanation.waits[0].remedy, said
    # when it is back
    await world.node(node, metadata={"annotations": {STOPPED: None}})

    async def is_over() -> bool:
        explanation = await world.explained(KINDS[kind], "web")
        return (explanation.phase, explanation.cause) == (Phase.HEALTHY, "")

    await stage.until(is_over, what="everything is healthy")


WITHOUT_IT = [row[:3] for row in TABLE if row[0] is not an_update_meets_them]
"""Rows of which the other remedies, which do not wait for the node, are followed, once for each remedy and kind."""


@pytest.mark.parametrize(
    ("stage_it", "kind", "document"),
    [pytest.param(*row, id=f"{row[1]}-{row[0].__name__}") for row in WITHOUT_IT],
)
async def test_the_deletion_of_the_stopped_node_or_of_its_pods_helps(
    stage: Stage, stage_it: StageIt, kind: str, document: Object
) -> None:
    world = World(stage)
    await world.start()
    # given
    node = await stage_it(world, document)
    explanation = await world.explained(KINDS[kind], "web")
    lost, said = explanation.waits[0], await world.text(explanation)
    before = sum(pod.is_serving for pod in await stage.pods())
    # when
    if lost.remedy.endswith(("or delete the node", "or delete the node: its pods are then replaced")):
        await world.delete(f"node/{node}")
    else:
        assert lost.remedy.endswith("--grace-period=0 --force)"), said
        for pod in lost.pods:
            await world.delete(f"pod/{pod}", grace_period_s=0)

    # then
    async def is_over() -> bool:
        assert sum(pod.is_serving for pod in await stage.pods()) >= before, said
        explanation = await world.explained(KINDS[kind], "web")
        return (explanation.phase, explanation.cause) == (Phase.HEALTHY, "")

    await stage.until(is_over, what=f"{lost.remedy!r} helps")


async def test_a_pod_that_returns_to_its_stopped_node_is_not_deleted_by_force(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    # given a DaemonSet that tolerates every taint, whose update deletes the pod on a stopped node
    document = daemonset(pod={"tolerations": [{"operator": "Exists"}]})
    node = await an_update_meets_them(world, document)
    # then the remedy does not advise a deletion after which the next pod waits on the same node
    explanation = await world.explained(KINDS["daemonset"], "web")
    said = await world.text(explanation)
    assert explanation.waits[0].remedy == f"bring {node} back, or delete the node", said
    assert explanation.condition.endswith(f"bring {node} back, or delete the node"), said
    assert Code.DEPARTING not in {wait.code for wait in explanation.waits}, said
    # when
    await world.delete(f"node/{node}")

    # then
    async def is_over() -> bool:
        explanation = await world.explained(KINDS["daemonset"], "web")
        return (explanation.phase, explanation.cause) == (Phase.HEALTHY, "")

    await stage.until(is_over, what="the update continues")
