"""Resources of containers and of whole pods change in place by default if the API server supports it. Pods whose resize
is impossible are recreated. A change that restarts no container creates no surge pods."""

import os
from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.cli.insight.forecasting import Forecast, forecast
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import decode
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.in_place.declared_features import UNDECLARED
from support.scenario import Object, Stage, cloneset, rolling

NEWEST = ManagerSettings(kubernetes="1.37")
SIZES = ("20m", "40m")
pytestmark = pytest.mark.skipif(
    os.environ.get("KUBERNETES", "1.37") not in ("1.36", "1.37"), reason="needs resources of whole pods"
)


def template(resources: Mapping[str, Any], *, of_pod: bool) -> Object:
    container: Object = {"name": "main", "image": "nginx:1"}
    spec: Object = {"containers": [container]}
    (spec if of_pod else container)["resources"] = dict(resources)
    return {"spec": {"template": {"spec": spec}}}


def amounts(cpu: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": "900m", "memory": "512Mi"}}


async def created(
    stage: Stage, settings: ManagerSettings, *, of_pod: bool, replicas: int = 3, **strategy: Any
) -> dict[str, Object]:
    await stage.start_manager(settings=settings)
    wanted = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1, **strategy}
    body = cloneset(replicas=replicas, updateStrategy=rolling(**wanted))
    body["spec"]["template"]["spec"] = template(amounts(SIZES[0]), of_pod=of_pod)["spec"]["template"]["spec"]
    await stage.create(body)
    await stage.settled(replicas=replicas)
    return await documents(stage)


async def documents(stage: Stage) -> dict[str, Object]:
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    return {doc["metadata"]["name"]: doc for doc in map(decode, listed.items)}


def lives(pods: dict[str, Object]) -> dict[str, tuple[str, int]]:
    return {
        name: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for name, pod in pods.items()
    }


def cpus(pods: dict[str, Object], *, of_pod: bool) -> set[str]:
    """CPU requests that are in force, according to the pods' nodes."""
    status = [pod["status"] if of_pod else pod["status"]["containerStatuses"][0] for pod in pods.values()]
    return {part["resources"]["requests"]["cpu"] for part in status}


@pytest.mark.node
@pytest.mark.parametrize("of_pod", [False, True], ids=["containers", "pods"])
async def test_resources_change_without_a_restart_and_without_a_gate(stage: Stage, of_pod: bool) -> None:
    # given
    before = await created(stage, NEWEST, of_pod=of_pod, replicas=20, maxUnavailable=5)
    change = template(amounts(SIZES[1]), of_pod=of_pod)
    # when it is planned
    said = await planned(stage, change)
    # then it says of each pod that it is updated in place
    fates = [fate for batch in said.batches for fate in batch.fates]
    assert {(fate.pod, fate.do) for fate in fates} == {(name, "update in place") for name in before}
    # when it is made
    await stage.merge("web", change)
    await stage.settled(replicas=20)
    # then
    after = await documents(stage)
    assert lives(after) == lives(before)
    assert cpus(after, of_pod=of_pod) == {SIZES[1]}


@pytest.mark.parametrize("of_pod", [False, True], ids=["containers", "pods"])
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(ManagerSettings(kubernetes="1.34"), id="an API server of 1.34"),
        pytest.param(
            ManagerSettings(gates=Gates.of(InPlaceWorkloadVerticalScaling=False), kubernetes="1.37"),
            id="a gate",
        ),
    ],
)
async def test_pods_are_recreated_for_resources_when_the_server_or_gate_lacks_resize(
    stage: Stage, settings: ManagerSettings, of_pod: bool
) -> None:
    # given
    before = await created(stage, settings, of_pod=of_pod)
    # when
    await stage.merge("web", template(amounts(SIZES[1]), of_pod=of_pod))
    await stage.settled(replicas=3)
    # then
    uids = {uid for uid, _ in lives(await documents(stage)).values()}
    assert not uids & {uid for uid, _ in lives(before).values()}


@pytest.mark.parametrize("of_pod", [False, True], ids=["containers", "pods"])
async def test_a_quality_of_service_that_would_change_recreates(stage: Stage, of_pod: bool) -> None:
    # given Burstable pods
    before = await created(stage, NEWEST, of_pod=of_pod)
    # when they are to be Guaranteed
    whole = {"cpu": "900m", "memory": "512Mi"}
    await stage.merge("web", template({"requests": whole, "limits": whole}, of_pod=of_pod))
    await stage.settled(replicas=3)
    # then
    after = await documents(stage)
    assert not {*lives(after).values()} & {*lives(before).values()}
    assert {pod["status"]["qosClass"] for pod in after.values()} == {"Guaranteed"}


@pytest.mark.parametrize("surge", [1, 3])
@pytest.mark.parametrize("change", ["annotations", "resources"])
async def test_nothing_surges_for_what_restarts_nothing(stage: Stage, surge: int, change: str) -> None:
    # given a CloneSet of which no pod may be unavailable
    before = await created(stage, NEWEST, of_pod=False, replicas=5, maxSurge=surge, maxUnavailable=0)
    # when
    annotated = {"spec": {"template": {"metadata": {"annotations": {"team": "blue"}}}}}
    await stage.merge(
        "web", annotated if change == "annotations" else template(amounts(SIZES[1]), of_pod=False)
    )
    await stage.settled(replicas=5)
    # then
    assert lives(await documents(stage)) == lives(before)


async def test_a_cloneset_still_surges_where_containers_restart(stage: Stage) -> None:
    # given
    before = await created(stage, NEWEST, of_pod=False, replicas=5, maxSurge=2, maxUnavailable=0)
    # when
    image = template(amounts(SIZES[0]), of_pod=False)
    image["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    await stage.merge("web", image)
    await stage.settled(replicas=5)
    # then pods were created for it
    assert {*await documents(stage)} != {*before}


@pytest.mark.parametrize("of_pod", [False, True], ids=["containers", "pods"])
async def test_an_infeasible_resize_recreates_the_pod_after_the_configured_time(
    stage: Stage, of_pod: bool
) -> None:
    # given
    settings = ManagerSettings(kubernetes="1.37", flags={"inplace-resize-timeout": 5.0})
    before = await created(stage, settings, of_pod=of_pod)
    # when no node has so many CPUs
    await stage.merge(
        "web",
        template(
            {"requests": {"cpu": "900", "memory": "64Mi"}, "limits": {"cpu": "950", "memory": "512Mi"}},
            of_pod=of_pod,
        ),
    )

    # then one pod is recreated, which no node takes; the others stay
    async def recreated() -> bool:
        return len({*await documents(stage)} - {*before}) == 1

    await stage.until(recreated, what="a pod in place of the one that cannot be resized")
    assert len({*await documents(stage)} & {*before}) == 2
    # when it is taken back
    await stage.merge("web", template(amounts(SIZES[0]), of_pod=of_pod))
    # then all serve
    await stage.settled(replicas=3)


@pytest.mark.sandbox_only  # nodes of a real cluster serve other tests too
async def test_a_pod_on_a_node_without_pod_level_resize_is_recreated_and_plan_reports_it(
    stage: Stage,
) -> None:
    # given a node that declares its features, but not pod-level resize
    before = await created(stage, NEWEST, of_pod=True, replicas=3, maxUnavailable=3)
    undeclaring = {sorted(before)[0]}
    nodes = {before[name]["spec"]["nodeName"] for name in undeclaring}
    undeclaring = {name for name, pod in before.items() if pod["spec"]["nodeName"] in nodes}
    for node in nodes:
        declared = {"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}}
        await stage.client.patch(NODES, "", node, declared, patch_type=PatchType.MERGE, subresource="status")
    change = template(amounts(SIZES[1]), of_pod=True)
    # when it is planned
    said = await planned(stage, change)
    # then
    fates = {(fate.pod, fate.do) for batch in said.batches for fate in batch.fates if fate.pod in before}
    assert {pod for pod, do in fates if do == "delete"} == undeclaring
    assert {pod for pod, do in fates if do == "update in place"} == before.keys() - undeclaring
    assert any(UNDECLARED in way for way in said.ways.values()), said.ways
    # when it is made
    await stage.merge("web", change)
    await stage.settled(replicas=3)
    # then it is as planned
    after = await documents(stage)
    kept = {name: life for name, life in lives(before).items() if name not in undeclaring}
    assert {name: lives(after)[name] for name in kept} == kept
    assert not undeclaring & after.keys()
    assert cpus(after, of_pod=True) == {SIZES[1]}


async def planned(stage: Stage, change: Object) -> Forecast:
    """The forecast for a merge patch of the CloneSet."""
    stored = await stage.get("web")
    changed = apply_merge_patch(
        {key: stored[key] for key in ("apiVersion", "kind", "metadata", "spec")}, change
    )
    return await forecast(
        stage.client, changed, namespace=stage.namespace, now=stage.clock(), settings=NEWEST
    )
