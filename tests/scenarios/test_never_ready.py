"""Pods of an older revision that never became ready are replaced by pods of the newest revision, when the set asks for
it (pykruise.io/replace-never-ready-after-seconds).
"""

import asyncio
from typing import Any

import pytest

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.errors import InvalidError
from pykruise.pods.workload.options import REPLACE_NEVER_READY
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Object, Stage
from support.statefulsets import Sets, statefulset

WAYS = {
    "never ready": {"never_ready": True},
    "image": {"image_pull_error": True},
}


def replacing(after_s: int | str = 2, **spec: Any) -> Object:
    document = statefulset(**spec)
    document["metadata"]["annotations"] = {REPLACE_NEVER_READY.annotation: str(after_s)}
    return document


@pytest.mark.parametrize("way", WAYS)
async def test_a_stuck_first_revision_heals_in_order(stage: Stage, way: str) -> None:
    """statefulset case 88: the scenario of Kubernetes' issue 137409, under OrderedReady"""
    # given a first revision whose first pod never becomes ready
    stage.kubelets.set_rules([Rule(image="nginx:1", **WAYS[way])])
    sets = Sets(stage)
    await stage.start_manager()
    await stage.create(replacing(replicas=3), resource=ADVANCED_STATEFUL_SETS)
    await stage.until(sets.uids)
    first = (await sets.uids())[0]
    # when the template is corrected
    await sets.set_image("nginx:2")
    # then
    await sets.settled(replicas=3)
    assert (await sets.uids())[0] != first
    assert set((await sets.images()).values()) == {"nginx:2"}


@pytest.mark.parametrize("replicas", [1, 3])
async def test_a_stuck_first_revision_heals_in_parallel(stage: Stage, replicas: int) -> None:
    """The scenario of Kubernetes' issue 137409: one replica, and the second revision comes at once"""
    stage.kubelets.set_rules([Rule(image="nginx:1", never_ready=True)])
    sets = Sets(stage)
    await stage.start_manager()
    await stage.create(replacing(replicas=replicas, parallel=True), resource=ADVANCED_STATEFUL_SETS)
    await sets.set_image("nginx:2")
    await sets.settled(replicas=replicas)
    assert set((await sets.images()).values()) == {"nginx:2"}


async def test_a_pod_that_was_ready_once_is_never_replaced(stage: Stage) -> None:
    """statefulset case 89"""
    # given a pod that served and then failed its probe
    sets = Sets(stage)
    stage.kubelets.set_rules([Rule(image="nginx:1", never_ready=True, after_s=2.0)])
    await stage.start_manager()
    await stage.create(replacing(replicas=2), resource=ADVANCED_STATEFUL_SETS)

    async def is_down() -> bool:
        pods = await stage.pods()
        return bool(pods) and pods[0].is_ready is False and not pods[0].is_never_ready

    await stage.until(is_down, what="web-0 was ready, and is not any more")
    uid = (await sets.uids())[0]
    # when
    await sets.set_image("nginx:2")
    await asyncio.sleep(3 + stage.long_s)
    # then
    assert (await sets.uids())[0] == uid
    # and the status says so
    status = (await stage.get("web", resource=ADVANCED_STATEFUL_SETS))["status"]
    waiting = next(item for item in status["conditions"] if item["type"] == "Waiting")
    assert (
        "the pod was ready, or may have been ready, so it is not replaced automatically" in waiting["message"]
    )


async def test_nothing_replaces_the_pod_without_the_option(stage: Stage) -> None:
    # given
    stage.kubelets.set_rules([Rule(image="nginx:1", never_ready=True)])
    sets = Sets(stage)
    await stage.start_manager()
    await stage.create(statefulset(replicas=2), resource=ADVANCED_STATEFUL_SETS)
    await stage.until(sets.uids)
    before = await sets.uids()
    # when
    await sets.set_image("nginx:2")
    await asyncio.sleep(3 + stage.long_s)
    # then
    assert await sets.uids() == before
    # when the option is set later
    patch = {"metadata": {"annotations": {REPLACE_NEVER_READY.annotation: "1"}}}
    await stage.merge("web", patch, resource=ADVANCED_STATEFUL_SETS)
    # then
    await sets.settled(replicas=2)


async def test_the_subsets_of_a_united_deployment_heal(stage: Stage) -> None:
    # given
    stage.kubelets.set_rules([Rule(image="nginx:1", never_ready=True)])
    await stage.start_manager()
    await stage.create(_united(replacing()), resource=UNITED_DEPLOYMENTS)

    async def are_there() -> bool:
        return len(await stage.pods()) == 2

    await stage.until(are_there, what="the first pod of each subset")
    # when
    containers = [{"name": "main", "image": "nginx:2"}]
    patch = {
        "template": {
            "advancedStatefulSetTemplate": {"spec": {"template": {"spec": {"containers": containers}}}}
        }
    }
    await stage.merge("web", {"spec": patch}, resource=UNITED_DEPLOYMENTS)

    # then
    async def are_ready() -> bool:
        pods = await stage.pods()
        return len(pods) == 4 and all(pod.is_ready for pod in pods)

    await stage.until(are_ready)
    assert {container.image for pod in await stage.pods() for container in pod.containers} == {"nginx:2"}


@pytest.mark.needs_admission
async def test_admission_names_the_annotation_in_the_template_of_a_united_deployment(stage: Stage) -> None:
    with pytest.raises(InvalidError) as refused:
        await stage.create(_united(replacing("soon")), resource=UNITED_DEPLOYMENTS)
    field = "spec.template.advancedStatefulSetTemplate.metadata.annotations"
    assert f"{field}[{REPLACE_NEVER_READY.annotation}]" in str(refused.value)


def _united(inner: Object) -> Object:
    """A UnitedDeployment with two subsets whose workloads are made from this StatefulSet."""
    spec = {name: value for name, value in inner["spec"].items() if name != "replicas"}
    metadata = {"labels": {"app": "web"}, "annotations": inner["metadata"]["annotations"]}
    return {
        "apiVersion": UNITED_DEPLOYMENTS.api_version,
        "kind": UNITED_DEPLOYMENTS.kind,
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"advancedStatefulSetTemplate": {"metadata": metadata, "spec": spec}},
            "topology": {"subsets": [{"name": "a"}, {"name": "b"}]},
        },
    }
