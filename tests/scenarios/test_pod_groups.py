"""The pods of a workload as a group of the scheduler (pykruise.io/gang-min-count), on both clusters."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.gates import Gates
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import POD_GROUPS, PODS, WORKLOADS
from pykruise.kube.schemas.crds import build_webhook_conversion
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhooks import endpoint_of
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.sandbox.cluster import ClusterSettings
from support.broadcastjobs import Broadcast
from support.control_plane import running_plane
from support.daemonsets import Pool
from support.real_webhooks import webhooks_in_thread
from support.scenario import AdmissionSwitch, Object, Stage, cloneset, rolling
from support.statefulsets import Sets, statefulset
from support.webhooks import GATES, webhook_settings
from testbed.build import default_version
from testbed.control_plane import API_SERVER, ControlPlane

GROUPING = ManagerSettings(gates=Gates.of(PodGroups=True))


@pytest.fixture(scope="module")
def plane(
    tmp_path_factory: pytest.TempPathFactory, webhook_switch: AdmissionSwitch
) -> Iterator[ControlPlane]:
    """A real control plane with the feature gate GenericWorkload."""
    if default_version() != "1.37":
        pytest.skip("Kubernetes 1.37 is the first minor with scheduling.k8s.io/v1beta1")
    settings = webhook_settings(tmp_path_factory.mktemp("webhooks"), gates=GATES, certificate_writer="fs")
    conversion = build_webhook_conversion(url=endpoint_of(settings).base_url)
    with (
        running_plane(
            kinds=True,
            conversion=conversion,
            feature_gates={"GenericWorkload": True},
            extra_args={API_SERVER: ["--runtime-config=scheduling.k8s.io/v1beta1=true"]},
        ) as plane,
        webhooks_in_thread(plane, settings, webhook_switch),
    ):
        yield plane


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings, request: pytest.FixtureRequest) -> ClusterSettings:
    """Settings with the feature gate GenericWorkload."""
    if request.node.get_closest_marker("sandbox_only"):
        return cluster_settings
    collected = cluster_settings.collected
    return msgspec.structs.replace(
        cluster_settings,
        feature_gates=frozenset({"GenericWorkload"}),
        collected=None if collected is None else (*collected, POD_GROUPS, WORKLOADS),
    )


def gang(*, value: str = "all", cpu: str = "", strategy: Object | None = None, **spec: Any) -> Object:
    """A CloneSet whose pods are a group. `cpu`: request of each pod; a node has 32."""
    document = cloneset(updateStrategy=strategy or rolling(maxUnavailable="100%"), **spec)
    document["metadata"]["annotations"] = {GANG_MIN_COUNT.annotation: value}
    (container,) = document["spec"]["template"]["spec"]["containers"]
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return document


async def groups_of(stage: Stage) -> set[str]:
    """Groups of the pods that do not terminate."""
    pods = [pod for pod in await stage.stored(PODS) if "deletionTimestamp" not in pod["metadata"]]
    return {(pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "") for pod in pods}


async def least_of(stage: Stage) -> dict[str, int]:
    """minCount of each PodGroup, and of the Workload."""
    groups = {
        group["metadata"]["name"]: group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        for group in await stage.stored(POD_GROUPS)
    }
    for workload in await stage.stored(WORKLOADS):
        (template,) = workload["spec"]["podGroupTemplates"]
        groups[workload["metadata"]["name"]] = template["schedulingPolicy"]["gang"]["minCount"]
    return groups


async def uids_of(stage: Stage) -> set[str]:
    return {pod.uid for pod in await stage.pods()}


async def start(stage: Stage, document: Object, *, replicas: int = 3) -> str:
    """Create the CloneSet, wait until its pods serve, and return their group."""
    await stage.start_manager(settings=GROUPING)
    await stage.create(document)
    await stage.settled(replicas=replicas)
    (group,) = await groups_of(stage)
    return group


async def test_no_pod_gets_a_node_before_all_of_them_fit(stage: Stage) -> None:
    """cloneset case 121"""
    # given four nodes with room for one pod each
    await stage.start_manager(settings=GROUPING)
    await stage.create(gang(replicas=5, cpu="20"))

    async def is_reported() -> bool:
        pods = await stage.pods()
        conditions = [pod.find_condition("PodScheduled") for pod in pods]
        return len(pods) == 5 and any(item is not None and item.status == "False" for item in conditions)

    await stage.until(is_reported)
    await asyncio.sleep(min(stage.long_s, 60))
    assert [pod.node_name for pod in await stage.pods()] == [""] * 5
    # when
    await stage.scale("web", 4)
    # then
    await stage.settled(replicas=4)
    assert set((await least_of(stage)).values()) == {4}


@pytest.mark.parametrize(
    "strategy",
    [rolling(maxUnavailable="100%"), rolling(maxUnavailable=0, maxSurge="100%")],
    ids=["recreate", "surge"],
)
async def test_a_changed_template_replaces_the_whole_group(stage: Stage, strategy: Object) -> None:
    """cloneset case 123"""
    # given
    before = await start(stage, gang(strategy=strategy))
    uids = await uids_of(stage)
    # when
    await stage.set_image("web", "nginx:2")

    async def are_new() -> bool:
        return not await uids_of(stage) & uids

    await stage.until(are_new)
    await stage.settled(replicas=3, updated=3)
    # then
    (after,) = await groups_of(stage)
    assert after not in ("", before)

    async def are_groups_dropped() -> bool:
        return set(await least_of(stage)) == {"cloneset-web", after}

    await stage.until(are_groups_dropped)


async def test_an_update_in_place_keeps_the_group(stage: Stage) -> None:
    """cloneset case 124"""
    # given
    strategy = rolling(maxUnavailable="100%", podUpdatePolicy="InPlaceIfPossible")
    before = await start(stage, gang(strategy=strategy))
    uids = await uids_of(stage)
    # when
    await stage.set_image("web", "nginx:2", replicas=4)
    await stage.settled(replicas=4, updated=4)
    # then
    assert await uids_of(stage) > uids
    assert await groups_of(stage) == {before}
    assert set((await least_of(stage)).values()) == {4}


async def test_a_lost_pod_is_created_again_in_its_group(stage: Stage) -> None:
    """cloneset case 122"""
    before = await start(stage, gang(replicas=3))
    pod = (await stage.pods())[0]
    await stage.delete(pod.name, resource=PODS)

    async def is_gone() -> bool:
        return pod.uid not in await uids_of(stage)

    await stage.until(is_gone)
    await stage.settled(replicas=3)
    assert await groups_of(stage) == {before}


async def test_the_groups_are_deleted_with_the_cloneset(stage: Stage) -> None:
    """cloneset case 125"""
    await start(stage, gang())
    await stage.delete("web")

    async def are_gone() -> bool:
        return not await least_of(stage)

    await stage.until(are_gone)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (gang(value="0"), rf"{GANG_MIN_COUNT.annotation}"),
        (gang(strategy={"type": "OnDelete"}), "spec.updateStrategy.type"),
        (gang(strategy=rolling(maxSurge=1)), "spec.updateStrategy.rollingUpdate.maxSurge"),
    ],
    ids=["value", "OnDelete", "surge"],
)
async def test_a_strategy_that_cannot_work_with_a_group_is_refused(
    stage: Stage, document: Object, path: str
) -> None:
    """cloneset case 127"""
    await stage.start_manager(settings=GROUPING)
    with pytest.raises(InvalidError, match=path):
        await stage.create(document)


async def _is_refused(stage: Stage, message: str) -> bool:
    conditions = (await stage.get("web")).get("status", {}).get("conditions", [])
    return any(item["type"] == "FailedScale" and message in item["message"] for item in conditions)


async def test_without_the_gate_no_pod_is_created(stage: Stage) -> None:
    """cloneset case 126"""
    with stage.past_admission():
        await stage.create(gang())
    await stage.start_manager()
    await stage.until(lambda: _is_refused(stage, "needs the feature gate PodGroups"))
    assert await stage.pods() == []
    # when
    await stage.kill_manager()
    await stage.start_manager(settings=GROUPING)
    # then
    await stage.settled(replicas=3)


@pytest.mark.sandbox_only
async def test_on_a_cluster_without_the_api_no_pod_is_created(stage: Stage) -> None:
    """cloneset case 126"""
    await stage.start_manager(settings=GROUPING)
    await stage.create(gang())
    await stage.until(lambda: _is_refused(stage, "needs the API scheduling.k8s.io/v1beta1"))
    assert await stage.pods() == []
    # when
    await stage.merge("web", {"metadata": {"annotations": {GANG_MIN_COUNT.annotation: None}}})
    # then
    await stage.settled(replicas=3)


# Advanced StatefulSets


@pytest.fixture
def sets(stage: Stage) -> Sets:
    return Sets(stage)


async def _start_set(sets: Sets, **spec: Any) -> None:
    """Create a StatefulSet whose pods are a group, with a manager."""
    await sets.stage.start_manager(settings=GROUPING)
    await _create_set(sets.stage, **spec)


async def _create_set(
    stage: Stage, *, replicas: int = 3, strategy: Object | None = None, cpu: str = "", **spec: Any
) -> None:
    document = statefulset(
        parallel=True, replicas=replicas, updateStrategy=strategy or rolling(maxUnavailable="100%"), **spec
    )
    document["metadata"]["annotations"] = {GANG_MIN_COUNT.annotation: "all"}
    if cpu:
        document["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    await stage.create(document, resource=ADVANCED_STATEFUL_SETS)


async def test_no_pod_of_a_set_gets_a_node_before_all_of_them_fit(stage: Stage, sets: Sets) -> None:
    """statefulset case 96"""
    # given four nodes with room for one pod each
    await _start_set(sets, replicas=5, cpu="20")

    async def are_created() -> bool:
        return len(await stage.pods()) == 5

    await stage.until(are_created)
    await asyncio.sleep(min(stage.long_s, 30))
    assert [pod.node_name for pod in await stage.pods()] == [""] * 5
    # when
    await sets.scale(4)
    # then
    await sets.settled(replicas=4)
    assert set((await least_of(stage)).values()) == {4}
    # when
    pod = (await sets.pods())[1]
    await stage.delete(pod.name, resource=PODS)

    async def is_replaced() -> bool:
        return pod.uid not in await uids_of(stage)

    await stage.until(is_replaced)
    # then
    await sets.settled(replicas=4)
    assert len(await groups_of(stage)) == 1


@pytest.mark.parametrize("policy", ["ReCreate", "InPlaceIfPossible"])
async def test_a_changed_template_updates_the_whole_group_of_a_set(
    stage: Stage, sets: Sets, policy: str
) -> None:
    """statefulset case 97"""
    # given
    await _start_set(sets, strategy=rolling(maxUnavailable="100%", podUpdatePolicy=policy))
    await sets.settled(replicas=3)
    before, uids = await groups_of(stage), await uids_of(stage)
    # when
    await sets.set_image("nginx:2")

    async def are_updated() -> bool:
        return set((await sets.images()).values()) == {"nginx:2"}

    await stage.until(are_updated)
    await sets.settled(replicas=3)
    # then
    after = await groups_of(stage)
    assert len(after) == 1
    assert (after == before, await uids_of(stage) == uids) == ((policy != "ReCreate"),) * 2

    async def are_groups_dropped() -> bool:
        return set(await least_of(stage)) == {"statefulset-web", *after}

    await stage.until(are_groups_dropped)
    # when
    await sets.delete()

    async def are_gone() -> bool:
        return not await least_of(stage)

    await stage.until(are_gone)


async def test_the_group_of_adopted_pods_is_adopted(stage: Stage, sets: Sets) -> None:
    """statefulset case 96"""
    # given
    await _start_set(sets)
    await sets.settled(replicas=3)
    uids, before = await uids_of(stage), await groups_of(stage)
    await sets.delete(propagation="Orphan")

    async def is_left() -> bool:
        return not await stage.exists("web", resource=ADVANCED_STATEFUL_SETS)

    await stage.until(is_left)
    # when
    await _create_set(stage, replicas=4)
    # then
    await sets.settled(replicas=4)
    assert await uids_of(stage) > uids
    assert await groups_of(stage) == before
    owner = (await sets.get())["metadata"]["uid"]

    async def is_adopted() -> bool:
        (group,) = await stage.stored(POD_GROUPS)
        least = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        return least == 4 and [item["uid"] for item in group["metadata"]["ownerReferences"]] == [owner]

    await stage.until(is_adopted)


async def test_a_group_of_a_set_in_order_is_refused(sets: Sets) -> None:
    """statefulset case 99"""
    with pytest.raises(InvalidError, match=r"spec\.podManagementPolicy"):
        await _start_set(sets, podManagementPolicy="OrderedReady", strategy=rolling())


# BroadcastJobs


async def _start_job(broadcast: Broadcast, **spec: Any) -> None:
    """Create a BroadcastJob whose pods are a group and request 20 CPUs each; a node has 32."""
    resources = {"requests": {"cpu": "20"}}
    pod = {"containers": [{"name": "main", "image": "busybox:1", "resources": resources}]}
    document = broadcast.to_document(pod=pod, **spec)
    document["metadata"]["annotations"] = {GANG_MIN_COUNT.annotation: "all"}
    await broadcast.stage.create(document, resource=BROADCAST_JOBS)


async def test_no_pod_of_a_job_starts_before_all_of_them_fit(stage: Stage, pool: Pool) -> None:
    """broadcastjob cases 41 and 42"""
    # given a node without room
    broadcast = Broadcast(stage, pool)
    await stage.start_manager(settings=GROUPING)
    (container,) = broadcast.to_document()["spec"]["template"]["spec"]["containers"]
    filler = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "filler"},
        "spec": {
            "containers": [{**container, "resources": {"requests": {"cpu": "20"}}}],
            "nodeSelector": {"kubernetes.io/hostname": pool.nodes[0]},
        },
    }
    await stage.create(filler, resource=PODS)
    await stage.until(lambda: _has_node(stage, "filler"))
    await _start_job(broadcast)

    async def are_created() -> bool:
        return len(await broadcast.pods()) == 4

    await stage.until(are_created)
    await asyncio.sleep(min(stage.long_s, 30))
    assert [pod.node_name for pod in await broadcast.pods()] == [""] * 4
    assert (await least_of(stage))["broadcastjob-once-start"] == 4
    # when
    await stage.delete("filler", resource=PODS)
    # then
    await broadcast.phase("completed")
    assert await broadcast.all_ran_once()


async def _has_node(stage: Stage, name: str) -> bool:
    pod = await stage.get(name, resource=PODS)
    return bool(pod["spec"].get("nodeName"))


async def test_a_parallelism_below_the_group_is_refused(stage: Stage, pool: Pool) -> None:
    """broadcastjob case 43"""
    await stage.start_manager(settings=GROUPING)
    with pytest.raises(InvalidError, match=r"spec\.parallelism"):
        await _start_job(Broadcast(stage, pool), parallelism="50%")
