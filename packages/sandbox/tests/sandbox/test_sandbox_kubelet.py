"""Kubelets on the API server: what users see of pods and nodes."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import make_loop_clock, parse_time
from pykruise.kube.documents import decode, encode
from pykruise.kube.ids import Key
from pykruise.kube.resources import LEASES, NODES, PODS
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, StorageChange
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.local import LocalTransport
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.kubelet import Kubelets
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.nodes.specs import NodeSpec
from support.faults import Answer, FaultyTransport, deletes
from support.paper import START
from support.sandbox import pod, small_cluster


async def test_a_pod_is_scheduled_and_becomes_ready() -> None:
    # given
    async with small_cluster(ClusterSettings(nodes=1, start_s=0.5, ready_s=1.0)) as place:
        # when
        await place.create(PODS, pod("web"))
        took_s = await place.until(lambda: place.is_ready("web"))
        # then
        assert 1.5 <= took_s < 1.8
        result = await place.get(PODS, "web")
        assert result["spec"]["nodeName"] == "node-1"
        assert result["status"]["phase"] == "Running"
        assert result["status"]["podIP"].startswith("10.")
        assert result["status"]["qosClass"] == "BestEffort"


async def test_two_pods_never_share_an_address_and_a_host_network_pod_has_its_nodes() -> None:
    # given
    async with small_cluster(nodes=2) as place:
        # when
        for number in range(20):
            await place.create(PODS, pod(f"web-{number}"))
        await place.create(PODS, pod("host", hostNetwork=True))
        for name in ("host", *(f"web-{number}" for number in range(20))):
            await place.until(lambda name=name: place.is_ready(name))
        # then
        statuses = [(await place.get(PODS, f"web-{number}"))["status"] for number in range(20)]
        assert len({status["podIP"] for status in statuses}) == 20
        host = (await place.get(PODS, "host"))["status"]
        assert host["podIP"] == host["hostIP"]


async def test_a_readiness_gate_that_opens_makes_the_pod_ready_and_its_condition_stays() -> None:
    # given
    gate = "example.com/ok"
    async with small_cluster() as place:
        await place.create(PODS, pod("web", readinessGates=[{"conditionType": gate}]))
        await asyncio.sleep(5)
        assert (await place.condition("web", "Ready"))["reason"] == "ReadinessGatesNotReady"
        # when
        await place.set_condition("web", gate, "True")
        # then
        await place.until(lambda: place.is_ready("web"), within_s=1.0)
        assert (await place.condition("web", gate))["status"] == "True"
        assert (await place.condition("web", "PodScheduled"))["status"] == "True"
        assert "reason" not in await place.condition("web", "Ready")


async def test_an_image_change_restarts_the_container_once_and_keeps_the_pod() -> None:
    # given
    async with small_cluster(ClusterSettings(start_s=1.0)) as place:
        await place.create(PODS, pod("web"))
        await place.until(lambda: place.is_ready("web"))
        before = await place.get(PODS, "web")
        # when
        await place.set_image("web", "nginx:2")
        await asyncio.sleep(0.5)
        assert not await place.is_ready("web")
        await asyncio.sleep(30)
        # then
        after = await place.get(PODS, "web")
        (old,), (new,) = before["status"]["containerStatuses"], after["status"]["containerStatuses"]
        assert new["restartCount"] == 1
        assert new["imageID"] != old["imageID"]
        assert new["lastState"]["terminated"]["containerID"] == old["containerID"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["podIP"] == before["status"]["podIP"]
        assert await place.is_ready("web")


async def test_a_deleted_pod_is_removed_when_it_has_stopped_within_its_grace_period() -> None:
    # given
    async with small_cluster(ClusterSettings(stop_s=5.0)) as place:
        await place.create(PODS, pod("patient"))
        await place.create(PODS, pod("hasty", terminationGracePeriodSeconds=2))
        await place.until(lambda: place.is_ready("hasty"))
        await place.until(lambda: place.is_ready("patient"))
        # when
        await place.client.delete(PODS, "default", "patient")
        await place.client.delete(PODS, "default", "hasty")
        # then
        assert (await place.get(PODS, "patient"))["metadata"]["deletionGracePeriodSeconds"] == 30
        assert 1.9 < await place.until(lambda: _is_gone(place, "hasty")) < 2.2
        assert 2.8 < await place.until(lambda: _is_gone(place, "patient")) < 3.2
        assert place.cluster.kubelets.read_stats().pods == 0


async def test_the_end_of_the_containers_is_reported_when_the_setting_is_on() -> None:
    # given
    settings = ClusterSettings(kubelet=KubeletSettings(report_stopped=True))
    async with small_cluster(settings) as place:
        doc = pod("web")
        doc["metadata"]["finalizers"] = ["example.com/keep"]
        await place.create(PODS, doc)
        await place.until(lambda: place.is_ready("web"))
        # when
        await place.client.delete(PODS, "default", "web")
        await asyncio.sleep(5)
        # then the finalizer still keeps the pod, which has ended
        result = await place.get(PODS, "web")
        assert result["status"]["phase"] == "Succeeded"
        assert result["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert result["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_a_pod_held_by_a_finalizer_is_deleted_once_by_its_kubelet() -> None:
    # given
    async with small_cluster() as place:
        doc = pod("web")
        doc["metadata"]["finalizers"] = ["example.com/keep"]
        await place.create(PODS, doc)
        await place.until(lambda: place.is_ready("web"))
        # when
        await place.client.delete(PODS, "default", "web")
        await asyncio.sleep(600)
        # then
        assert place.cluster.kubelets.read_stats().removals == 1
        await place.merge(PODS, "web", {"metadata": {"finalizers": None}})
        assert not await place.exists(PODS, "web")


async def test_a_recreated_pod_starts_with_new_containers() -> None:
    # given
    async with small_cluster() as place:
        await place.create(PODS, pod("web"))
        await place.until(lambda: place.is_ready("web"))
        before = (await place.get(PODS, "web"))["status"]
        # when
        await place.client.delete(PODS, "default", "web", grace_period_s=0)
        await place.create(PODS, pod("web"))
        await place.until(lambda: place.is_ready("web"))
        # then
        after = (await place.get(PODS, "web"))["status"]
        assert after["podIP"] != before["podIP"]
        assert after["containerStatuses"][0]["restartCount"] == 0
        assert after["containerStatuses"][0]["containerID"] != before["containerStatuses"][0]["containerID"]


async def test_a_broken_image_shows_in_the_status_and_as_an_event() -> None:
    # given
    async with small_cluster() as place:
        # when
        await place.create(PODS, pod("web", image="registry.test/broken:1"))
        await asyncio.sleep(5)
        # then
        status = (await place.get(PODS, "web"))["status"]
        assert status["phase"] == "Pending"
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
        (event,) = await place.events("Failed")
        assert 'Failed to pull image "registry.test/broken:1"' in event["message"]
        assert event["type"] == "Warning"


async def test_each_start_of_a_container_is_an_event_with_that_setting() -> None:
    # given
    settings = KubeletSettings(records_starts=True)
    async with small_cluster(ClusterSettings(kubelet=settings)) as place:
        await place.create(PODS, pod("web"))
        await place.until(lambda: place.is_ready("web"))
        # when the image changes
        await place.set_image("web", "nginx:2")
        await asyncio.sleep(5)
        # then
        (event,) = await place.events("Started")
        assert (event["message"], event["type"], event["count"]) == ("Started container main", "Normal", 2)


async def test_rules_can_be_set_while_pods_run() -> None:
    # given
    async with small_cluster() as place:
        await place.create(PODS, pod("web", labels={"app": "web"}))
        await place.until(lambda: place.is_ready("web"))
        # when
        place.cluster.kubelets.set_rules([Rule(labels="app=web", never_ready=True)])
        # then
        await asyncio.sleep(0.1)
        assert not await place.is_ready("web")


async def test_a_dead_node_does_nothing_until_it_is_back() -> None:
    # given
    async with small_cluster(nodes=1) as place:
        await place.create(PODS, pod("web"))
        await place.until(lambda: place.is_ready("web"))
        lease = await place.get(LEASES, "node-1", namespace="kube-node-lease")
        # when
        place.cluster.kubelets.stop_node("node-1")
        await place.client.delete(PODS, "default", "web")
        await asyncio.sleep(600)
        # then
        assert await place.exists(PODS, "web")
        assert (await place.get(LEASES, "node-1", namespace="kube-node-lease"))["spec"] == lease["spec"]
        # and when
        place.cluster.kubelets.start_node("node-1")
        await place.until(lambda: _is_gone(place, "web"), within_s=5.0)
        renewed = (await place.get(LEASES, "node-1", namespace="kube-node-lease"))["spec"]["renewTime"]
        assert parse_time(renewed) > parse_time(lease["spec"]["renewTime"])


async def test_nodes_are_registered_as_kubelets_do_and_keep_showing_that_they_live() -> None:
    # given
    async with small_cluster(nodes=4) as place:
        # then
        node = await place.get(NODES, "node-4")
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z1"
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-4"
        assert node["status"]["capacity"] == {"cpu": "32", "memory": "128Gi", "pods": "110"}
        assert node["status"]["nodeInfo"]["operatingSystem"] == "linux"
        assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}[
            "Ready"
        ] == "True"
        # and when time passes
        await asyncio.sleep(700)
        later = await place.get(NODES, "node-4")
        ready = next(condition for condition in later["status"]["conditions"] if condition["type"] == "Ready")
        assert parse_time(ready["lastHeartbeatTime"]) >= START + 600
        assert parse_time(ready["lastTransitionTime"]) == START
        lease = await place.get(LEASES, "node-4", namespace="kube-node-lease")
        assert parse_time(lease["spec"]["renewTime"]) >= START + 680
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_a_pod_costs_its_kubelet_two_writes_from_start_to_end() -> None:
    # given kubelets whose requests are counted, on a server without other components
    clock = make_loop_clock(start=START)
    server = ApiServer(clock=clock, rng=random.Random(1))
    counted = MeteredTransport(LocalTransport(server))
    admin = Client(LocalTransport(server), clock=clock, rng=random.Random(2))
    kubelets = Kubelets(
        Client(counted, clock=clock, rng=random.Random(3)),
        nodes=[NodeSpec(name="n")],
        settings=KubeletSettings(lease_s=None),
        clock=clock,
        rng=random.Random(4),
    )
    running = asyncio.create_task(kubelets.run())
    await kubelets.wait_registered()
    for number in range(30):
        await admin.create(PODS, "default", pod(f"web-{number}", nodeName="n"))
    # when
    await asyncio.sleep(10)
    for number in range(30):
        await admin.delete(PODS, "default", f"web-{number}")
    await asyncio.sleep(10)
    # then
    assert not (await admin.list(PODS)).items
    stats = kubelets.read_stats()
    assert (stats.status_writes, stats.removals, stats.pods) == (30, 30, 0)
    # and they stop when `stop` is called
    await kubelets.stop()
    await asyncio.wait_for(running, 1.0)


def leave_half_deleted(storage: MemoryStorage) -> None:
    """Store the pod `web` as a failing API server leaves it: with a grace period of 0, but not deleted."""
    stored = storage.get("pods", Key("default", "web"))
    assert stored is not None
    revision = storage.revision + 1
    left = decode(stored.raw)
    left["metadata"] |= {"deletionGracePeriodSeconds": 0, "resourceVersion": str(revision)}
    changed = msgspec.structs.replace(stored, raw=encode(left), revision=revision)
    storage.commit(StorageChange(revision=revision, shelf="pods", old=stored, new=changed))


@pytest.mark.parametrize("finalizers", [[], ["example.com/kept"]])
async def test_a_pod_that_an_api_server_left_half_deleted_is_deleted_once_more(finalizers: list[str]) -> None:
    # given such a pod, and no kubelet yet
    clock = make_loop_clock(start=START)
    storage = MemoryStorage()
    server = ApiServer(clock=clock, rng=random.Random(1), storage=storage)
    counted = MeteredTransport(LocalTransport(server))
    admin = Client(LocalTransport(server), clock=clock, rng=random.Random(2))
    document = pod("web", nodeName="n")
    document["metadata"]["finalizers"] = finalizers
    await admin.create(PODS, "default", document)
    await admin.delete(PODS, "default", "web")
    leave_half_deleted(storage)
    kubelets = Kubelets(
        Client(counted, clock=clock, rng=random.Random(3)),
        nodes=[NodeSpec(name="n")],
        settings=KubeletSettings(lease_s=None),
        clock=clock,
        rng=random.Random(4),
    )
    # when
    running = asyncio.create_task(kubelets.run())
    await asyncio.sleep(60)
    # then the kubelet deletes it, unless a finalizer keeps it
    assert counted.requests["DELETE pods"] == (0 if finalizers else 1)
    assert len((await admin.list(PODS)).items) == len(finalizers)
    await kubelets.stop()
    await running


async def test_a_pod_whose_deletion_failed_midway_is_removed() -> None:
    # given a running kubelet, and an API server that fails between the two writes of a deletion
    clock = make_loop_clock(start=START)
    storage = MemoryStorage()
    server = ApiServer(clock=clock, rng=random.Random(1), storage=storage)
    faulty = FaultyTransport(LocalTransport(server))
    admin = Client(LocalTransport(server), clock=clock, rng=random.Random(2))
    kubelets = Kubelets(
        Client(faulty, clock=clock, rng=random.Random(3)),
        nodes=[NodeSpec(name="n")],
        settings=KubeletSettings(lease_s=None),
        clock=clock,
        rng=random.Random(4),
    )
    running = asyncio.create_task(kubelets.run())
    await admin.create(PODS, "default", pod("web", nodeName="n"))
    await asyncio.sleep(5)
    faulty.on(deletes("/pods/web"), Answer(500, reason="InternalError", message="failed calling webhook"))
    # when
    await admin.delete(PODS, "default", "web")
    leave_half_deleted(storage)
    await asyncio.sleep(60)
    # then
    assert len([request for request in faulty.log if request.method == "DELETE"]) == 2
    assert not (await admin.list(PODS)).items
    await kubelets.stop()
    await running


async def test_existing_nodes_are_taken_over_without_a_request() -> None:
    # given a node that exists, and one that does not
    clock = make_loop_clock(start=START)
    server = ApiServer(clock=clock, rng=random.Random(1))
    counted = MeteredTransport(LocalTransport(server))
    admin = Client(LocalTransport(server), clock=clock, rng=random.Random(2))

    def kubelets(client: Client, *names: str, existing: Sequence[Any] = ()) -> Kubelets:
        return Kubelets(
            client,
            nodes=[NodeSpec(name=name) for name in names],
            existing=existing,
            settings=KubeletSettings(lease_s=None),
            clock=clock,
            rng=random.Random(4),
        )

    before = kubelets(admin, "old")
    running = asyncio.create_task(before.run())
    await before.wait_registered()
    await before.stop()
    await running
    # when
    result = [decode(raw) for raw in (await admin.list(NODES)).items]
    after = kubelets(Client(counted, clock=clock, rng=random.Random(3)), "old", "new", existing=result)
    running = asyncio.create_task(after.run())
    await after.wait_registered()
    # then
    assert counted.requests["POST nodes"] == 1
    assert counted.requests["GET nodes"] == 0
    assert {decode(raw)["metadata"]["name"] for raw in (await admin.list(NODES)).items} == {"old", "new"}
    # and pods on the existing node run
    await admin.create(PODS, "default", pod("web", nodeName="old"))
    await asyncio.sleep(10)
    assert decode(await admin.get(PODS, "default", "web"))["status"]["phase"] == "Running"
    await after.stop()
    await running


async def test_restarted_kubelets_continue_with_their_pods_without_a_write() -> None:
    # given running pods, and kubelets that end
    clock = make_loop_clock(start=START)
    server = ApiServer(clock=clock, rng=random.Random(1))
    admin = Client(LocalTransport(server), clock=clock, rng=random.Random(2))

    def kubelets(seed: int) -> Kubelets:
        client = Client(LocalTransport(server), clock=clock, rng=random.Random(seed))
        return Kubelets(client, nodes=[NodeSpec(name="n")], clock=clock, rng=random.Random(seed))

    first = kubelets(3)
    running = asyncio.create_task(first.run())
    for number in range(5):
        await admin.create(PODS, "default", pod(f"web-{number}", nodeName="n"))
    await asyncio.sleep(10)
    await first.stop()
    await running
    before = await _versions(admin)
    # when
    second = kubelets(4)
    running = asyncio.create_task(second.run())
    await asyncio.sleep(60)
    # then
    assert await _versions(admin) == before
    # and addresses in use are not assigned again
    await admin.create(PODS, "default", pod("late", nodeName="n"))
    await asyncio.sleep(5)
    addresses = Counter(decode(item)["status"]["podIP"] for item in (await admin.list(PODS)).items)
    assert set(addresses.values()) == {1}
    await second.stop()
    await running


async def _versions(client: Client) -> dict[str, Any]:
    versions = [decode(item)["metadata"] for item in (await client.list(PODS)).items]
    return {metadata["name"]: metadata["resourceVersion"] for metadata in versions}


async def _is_gone(place: Any, name: str) -> bool:
    return not await place.exists(PODS, name)
