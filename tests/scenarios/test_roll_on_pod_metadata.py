"""Changed annotations of a SidecarSet in running pods (pykruise.io/roll-on-pod-metadata), on both clusters."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.cli.insight.sidecars.forecasting import forecast_sidecars
from pykruise.kinds.sidecarset.admission_facts import WHITELIST_KEY
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.documents import annotations_of
from pykruise.kube.errors import InvalidError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.manager.settings import NAMESPACE
from pykruise.pods.workload.options import ROLL_ON_POD_METADATA
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Object, Stage, cloneset
from support.sidecarsets import container, sidecarset

LEVEL = "example.com/level"
READS = [{"name": "LEVEL", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{LEVEL}']"}}}]
WHITELIST = {
    "metadata": {"name": "kruise-configuration"},
    "data": {WHITELIST_KEY: '{"rules":[{"allowedAnnotationKeyExprs":["^example.com/level$"]}]}'},
}


@pytest.fixture(autouse=True)
async def whitelist(stage: Stage) -> AsyncIterator[None]:
    """Allow the annotation of these scenarios."""
    with suppress(NotFoundError):
        await stage.client.delete(CONFIG_MAPS, NAMESPACE, "kruise-configuration")
    await stage.client.create(CONFIG_MAPS, NAMESPACE, WHITELIST)
    yield
    await stage.client.delete(CONFIG_MAPS, NAMESPACE, "kruise-configuration")


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Settings of nodes with agents."""
    agents = make_simulated_agents(AgentTasks(recreates=True))
    return msgspec.structs.replace(cluster_settings, agents=agents)


def level(value: str) -> list[Object]:
    return [{"annotations": {LEVEL: value}, "patchPolicy": "Overwrite"}]


def bound(stage: Stage, option: str | None, *, reads: bool = True, **strategy: Any) -> Object:
    """The SidecarSet, for pods of the scenario's namespace alone."""
    return sidecarset(
        "log",
        container("log", env=READS if reads else []),
        metadata={"annotations": {} if option is None else {ROLL_ON_POD_METADATA.annotation: option}},
        namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
        patchPodMetadata=level("info"),
        updateStrategy=strategy,
    )


async def started(stage: Stage, document: Object, *, replicas: int) -> None:
    await stage.start_manager()
    await stage.create(document, resource=SIDECAR_SETS)
    await stage.create(cloneset(replicas=replicas))
    await stage.settled(replicas=replicas)


async def levels(stage: Stage) -> list[str]:
    return sorted(annotations_of(pod).get(LEVEL, "") for pod in await stage.stored(PODS))


async def lives(stage: Stage) -> dict[str, tuple[str, dict[str, int]]]:
    """UID and restarts of each pod."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]},
        )
        for pod in await stage.stored(PODS)
    }


async def change(stage: Stage, value: str = "debug") -> None:
    await stage.merge("log", {"spec": {"patchPodMetadata": level(value)}}, resource=SIDECAR_SETS)


async def is_updated(stage: Stage, updated: int, pods: int) -> bool:
    result = await stage.get("log", resource=SIDECAR_SETS)
    status = result.get("status") or {}
    if status.get("observedGeneration") != result["metadata"]["generation"]:
        return False
    fields = ("matchedPods", "updatedPods", "updatedReadyPods", "readyPods")
    return [status.get(field) for field in fields] == [pods, updated, updated, pods]


@pytest.mark.node
async def test_containers_that_read_a_changed_annotation_restart_in_place(stage: Stage) -> None:
    """sidecarset cases 98 and 99"""
    # given
    await started(stage, bound(stage, "true"), replicas=3)
    await stage.until(lambda: is_updated(stage, 3, 3))
    before = await lives(stage)
    # when
    await change(stage)
    await stage.until(lambda: is_updated(stage, 3, 3), what="all pods have the annotation and serve")
    # then
    assert await levels(stage) == ["debug"] * 3
    after = await lives(stage)
    assert {name: uid for name, (uid, _) in after.items()} == {name: uid for name, (uid, _) in before.items()}
    for name, (_, restarts) in after.items():
        was = before[name][1]
        assert restarts["log"] == was["log"] + 1
        assert restarts["main"] == was["main"]


async def test_plan_names_the_pods_and_the_containers_that_restart(stage: Stage) -> None:
    """sidecarset case 98"""
    await started(stage, bound(stage, "true", maxUnavailable=1), replicas=2)
    await stage.until(lambda: is_updated(stage, 2, 2))
    stored = await stage.get("log", resource=SIDECAR_SETS)
    wanted = apply_merge_patch(stored, {"spec": {"patchPodMetadata": level("debug")}})
    outlook = await forecast_sidecars(stage.client, wanted, Key("", "log"), stage.clock())
    assert [[fate.do for fate in batch.fates] for batch in outlook.batches] == [["upgrade in place"]] * 2
    assert (
        "containers log restart in place, because their variables read annotations that change"
        in outlook.notes
    )


async def test_the_partition_keeps_the_annotations_of_the_other_pods(stage: Stage) -> None:
    """sidecarset case 96"""
    await started(stage, bound(stage, "true", reads=False, partition=2, maxUnavailable=3), replicas=3)
    await stage.until(lambda: is_updated(stage, 3, 3))
    before = await lives(stage)
    await change(stage)
    await stage.until(lambda: is_updated(stage, 1, 3))
    assert await levels(stage) == ["debug", "info", "info"]
    assert await lives(stage) == before


@pytest.mark.parametrize("option", [None, "false"])
async def test_running_pods_keep_their_annotations_without_the_option(
    stage: Stage, option: str | None
) -> None:
    """sidecarset case 96"""
    await started(stage, bound(stage, option, maxUnavailable=3), replicas=2)
    await stage.until(lambda: is_updated(stage, 2, 2))
    await change(stage)
    await stage.until(lambda: is_updated(stage, 2, 2))
    assert await levels(stage) == ["info", "info"]
    # when the option is set
    annotations = {ROLL_ON_POD_METADATA.annotation: "true"}
    await stage.merge("log", {"metadata": {"annotations": annotations}}, resource=SIDECAR_SETS)

    # then they get them
    async def is_debug() -> bool:
        return await levels(stage) == ["debug", "debug"]

    await stage.until(is_debug)


async def test_another_value_is_refused_with_the_path_of_the_annotation(stage: Stage) -> None:
    """sidecarset case 100"""
    await stage.start_manager()
    with pytest.raises(InvalidError) as refused:
        await stage.create(bound(stage, "yes"), resource=SIDECAR_SETS)
    assert ROLL_ON_POD_METADATA.field in str(refused.value)
    assert "must be true or false" in str(refused.value)
