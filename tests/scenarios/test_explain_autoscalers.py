"""`explain` of workloads whose number of pods several objects set, or an autoscaler that another object creates."""

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Wait
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.ids import Key
from pykruise.kube.resources import HORIZONTAL_POD_AUTOSCALERS
from pykruise.pods.reasons import Code
from support.scenario import Object, Stage
from support.situations.documents import cloneset, united
from support.situations.world import KINDS, World

pytestmark = pytest.mark.sandbox_only

SCALED_OBJECT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "name": "queue",
    "uid": "9a1f0a5e-0000-4000-8000-000000000001",
    "controller": True,
}


async def put_autoscaler(stage: Stage, name: str, target: str, **metadata: object) -> None:
    spec: Object = {
        "scaleTargetRef": {"apiVersion": CLONE_SETS.api_version, "kind": "CloneSet", "name": target},
        "maxReplicas": 9,
    }
    document = {"metadata": {"name": name, **metadata}, "spec": spec}
    await stage.client.create(HORIZONTAL_POD_AUTOSCALERS, stage.namespace, document)


async def explained(stage: Stage, name: str) -> Wait:
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, name), now=stage.clock(), kind=KINDS["cloneset"]
    )
    return explanation.waits[0]


async def test_the_creator_of_an_autoscaler_is_the_object_to_change(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset())
    await put_autoscaler(stage, "keda-hpa-queue", "web", ownerReferences=[SCALED_OBJECT])
    await world.wait()

    wait = await explained(stage, "web")

    assert wait.code == Code.AUTOSCALED
    assert wait.words.startswith(
        "HorizontalPodAutoscaler keda-hpa-queue of ScaledObject queue sets spec.replicas"
    )
    assert wait.remedy.endswith("change ScaledObject queue, which creates the autoscaler")


async def test_an_autoscaler_without_a_creator_is_deleted_first(
    stage: Stage,
) -> None:
    world = World(stage)
    await world.start()
    await world.put(cloneset())
    await put_autoscaler(stage, "cpu", "web")
    await put_autoscaler(stage, "keda-hpa-queue", "web", ownerReferences=[SCALED_OBJECT])
    await world.wait()

    wait = await explained(stage, "web")

    assert wait.code == Code.TWO_AUTOSCALERS
    assert wait.remedy == (
        "keep one of them, such as HorizontalPodAutoscaler keda-hpa-queue of ScaledObject queue, and delete the"
        f" others (kubectl delete hpa -n {stage.namespace} cpu)"
    )


async def test_an_autoscaler_of_a_subset_and_the_uniteddeployment_undo_each_other(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    await world.put(united())
    await world.wait()
    subset = (await world.list("cloneset"))[0]["metadata"]["name"]
    await put_autoscaler(stage, "cpu", subset)

    wait = await explained(stage, subset)

    assert wait.code == Code.TWO_AUTOSCALERS
    assert "HorizontalPodAutoscaler cpu and UnitedDeployment web both set spec.replicas" in wait.words
    assert wait.remedy == "set spec.scaleTargetRef of HorizontalPodAutoscaler cpu to UnitedDeployment web"
    parent = await world.explained(KINDS["uniteddeployment"], "web")
    assert [(each.code, each.remedy) for each in parent.waits] == [(wait.code, wait.remedy)]
    assert subset in parent.waits[0].words
