"""The life of a DaemonSet: its pods come to nodes, are updated in every way there is, and go with it."""

import asyncio

import pytest

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.pods.view import keys
from support.daemonsets import Pool, watching
from support.scenario import Stage, rolling


@pytest.mark.node
async def test_every_node_gets_a_pod_and_the_status_counts_them(stage: Stage, pool: Pool) -> None:
    # given
    await stage.start_manager()
    # when
    await pool.create()
    # then
    result = await pool.settled()
    pods = await pool.by_node()
    assert {node: len(here) for node, here in pods.items()} == dict.fromkeys(pool.nodes, 1)
    assert result["status"]["updateRevision"] == pods[pool.nodes[0]][0].labels[keys.REVISION_LABEL]
    assert result["status"].get("numberMisscheduled") == 0
    # and a few events report it, not one per pod
    events = await stage.until(lambda: stage.events("SuccessfulCreate"))
    assert sum(event["count"] for event in events) == 4
    assert {event["involvedObject"]["kind"] for event in events} == {"DaemonSet"}


@pytest.mark.node
async def test_a_standard_update_takes_node_after_node_from_the_last(stage: Stage, pool: Pool) -> None:
    """daemonset case 32"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    order: list[str] = []

    def note(change: object) -> None:
        pod = getattr(change, "new", None)
        is_new = pod is not None and pod.is_ready and pod.containers[0].image == "nginx:2"
        if is_new and pod.target_node not in order:
            order.append(pod.target_node)

    async with watching(pool) as seen:
        seen.cache.subscribe(note)
        seen.from_now()
        # when
        await pool.set_image("nginx:2")
        await pool.settled()
        # then
        assert order == sorted(pool.nodes, reverse=True)
        assert seen.most_down == 1
        assert seen.most_on_a_node == 1


@pytest.mark.node
async def test_max_unavailable_limits_the_nodes_without_a_ready_pod(stage: Stage, pool: Pool) -> None:
    """daemonset case 33"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(maxUnavailable="30%"))
    await pool.settled()
    async with watching(pool) as seen:
        seen.from_now()
        # when
        await pool.set_image("nginx:2")
        await pool.settled()
        # then 30% of 4, rounded up
        assert seen.most_down == 2


@pytest.mark.node
async def test_a_surge_update_starts_the_new_pod_before_it_deletes_the_old_one(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 48"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(maxSurge=1, maxUnavailable=0), minReadySeconds=2)
    await pool.settled()
    async with watching(pool) as seen:
        seen.from_now()
        # when
        await pool.set_image("nginx:2")
        await pool.settled()
        # then no node was ever without a serving pod, and none had three
        assert seen.most_down == 0
        assert seen.most_on_a_node == 2


@pytest.mark.node
async def test_an_update_in_place_keeps_every_pod(stage: Stage, pool: Pool) -> None:
    """daemonset case 44"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=1))
    await pool.settled()
    before = {pod.uid for pod in await stage.pods()}
    async with watching(pool) as seen:
        seen.from_now()
        # when
        await pool.set_image("nginx:2")
        result = await pool.settled()
        # then
        pods = await stage.pods()
        assert {pod.uid for pod in pods} == before == seen.uids
        assert {pod.containers[0].image for pod in pods} == {"nginx:2"}
        assert {pod.labels[keys.REVISION_LABEL] for pod in pods} == {result["status"]["updateRevision"]}
        assert seen.most_down == 1
    events = await stage.until(lambda: stage.events("SuccessfulUpdatePodInPlace"))
    assert sum(event["count"] for event in events) == 4


@pytest.mark.node
async def test_a_pod_that_cannot_change_in_place_is_recreated(stage: Stage, pool: Pool) -> None:
    """daemonset case 45"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(rollingUpdateType="InPlaceIfPossible"))
    await pool.settled()
    before = {pod.uid for pod in await stage.pods()}
    # when
    env = [{"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "1"}]}]
    await pool.change(template={"spec": {"containers": env}})
    await pool.settled()
    # then
    assert not before & {pod.uid for pod in await stage.pods()}


@pytest.mark.node
async def test_a_pod_made_without_the_readiness_gate_is_recreated_with_it(stage: Stage, pool: Pool) -> None:
    """daemonset case 46"""
    # given pods of type Standard
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    assert all(keys.IN_PLACE_READY not in pod.readiness_gates for pod in await stage.pods())
    # when
    strategy = {"rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible"}}
    await pool.set_image("nginx:2", updateStrategy=strategy)
    await pool.settled()
    # then
    assert all(keys.IN_PLACE_READY in pod.readiness_gates for pod in await stage.pods())


@pytest.mark.node
async def test_the_partition_keeps_old_nodes_and_an_increase_reverts_nothing(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 35"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(partition=2))
    await pool.settled()
    # when
    await pool.set_image("nginx:2")
    # then the two last nodes are new
    await pool.settled(updated=2)
    first, second, third, fourth = sorted(pool.nodes)
    wanted = {first: "nginx:1", second: "nginx:1", third: "nginx:2", fourth: "nginx:2"}
    assert await pool.images() == wanted
    # when
    await pool.change(updateStrategy={"rollingUpdate": {"partition": 4}})
    await pool.settled(updated=2)
    # then
    assert await pool.images() == wanted
    # when
    await pool.change(updateStrategy={"rollingUpdate": {"partition": 0}})
    # then
    await pool.settled()


async def test_a_paused_rollout_changes_no_pod_but_a_new_node_gets_the_new_revision(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 40"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(paused=True))
    result = await pool.settled()
    before = {pod.uid for pod in await stage.pods()}
    # when
    await pool.set_image("nginx:2")
    # then the status shows the new revision
    after = await pool.settled(updated=0)
    assert after["status"]["updateRevision"] != result["status"]["updateRevision"]
    # when
    await pool.join("late")
    # then
    await pool.settled(updated=1)
    assert (await pool.images())[pool.nodes[-1]] == "nginx:2"
    assert before <= {pod.uid for pod in await stage.pods()}
    # when
    await pool.change(updateStrategy={"rollingUpdate": {"paused": False}})
    # then
    await pool.settled()
    assert not before & {pod.uid for pod in await stage.pods()}


@pytest.mark.node
async def test_on_delete_updates_the_pods_that_are_deleted(stage: Stage, pool: Pool) -> None:
    """daemonset case 41"""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy={"type": "OnDelete"})
    await pool.settled()
    await pool.set_image("nginx:2")
    await pool.settled(updated=0)
    # when
    victim = (await stage.pods())[0]
    await stage.delete(victim.name, resource=PODS)
    # then
    await pool.settled(updated=1)
    assert (await pool.images())[victim.target_node] == "nginx:2"


@pytest.mark.node
async def test_a_node_selector_decides_which_nodes_are_updated(stage: Stage, pool: Pool) -> None:
    """daemonset case 38"""
    # given
    canary = f"canary-{pool.name}"
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(selector={"matchLabels": {canary: "1"}}))
    await pool.settled()
    first, second, third, fourth = sorted(pool.nodes)
    await pool.label(first, {canary: "1"})
    await pool.label(fourth, {canary: "1"})
    # when
    await pool.set_image("nginx:2")
    # then
    await pool.settled(updated=2)
    images = await pool.images()
    assert {node for node, image in images.items() if image == "nginx:2"} == {first, fourth}
    # when another node gets the label
    await pool.label(second, {canary: "1"})
    # then it follows, by the node's event alone
    await pool.settled(updated=3)
    assert (await pool.images())[third] == "nginx:1"


@pytest.mark.node
async def test_a_rollback_reuses_the_revision_of_its_template(stage: Stage, pool: Pool) -> None:
    """daemonset case 43"""
    # given a rollout that has come half way
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(partition=2))
    first = (await pool.settled())["status"]["updateRevision"]
    untouched = {node: pods[0].uid for node, pods in (await pool.by_node()).items()}
    await pool.set_image("nginx:2")
    await pool.settled(updated=2)
    # when
    await pool.set_image("nginx:1", updateStrategy={"rollingUpdate": {"partition": 0}})
    # then
    result = await pool.settled()
    assert result["status"]["updateRevision"] == first
    assert len((await stage.client.list(CONTROLLER_REVISIONS, stage.namespace)).items) == 2
    now = {node: pods[0].uid for node, pods in (await pool.by_node()).items()}
    assert {node for node in now if now[node] == untouched[node]} == set(sorted(pool.nodes)[:2])


@pytest.mark.node
async def test_a_pre_delete_hook_holds_each_pod_until_it_is_released(stage: Stage, pool: Pool) -> None:
    """daemonset case 51"""
    # given pods that a label holds
    held = {"example.com/held": "yes"}
    await stage.start_manager()
    doc = pool.daemonset(lifecycle={"preDelete": {"labelsHandler": held}})
    doc["spec"]["template"]["metadata"]["labels"] |= held
    await stage.create(doc, resource=DAEMON_SETS)
    await pool.settled()
    before = {pod.uid for pod in await stage.pods()}
    # when
    await pool.set_image("nginx:2")

    # then one after another waits in PreparingDelete, and goes when it is let go
    async def preparing() -> list[str]:
        return [pod.name for pod in await stage.pods() if pod.state == "PreparingDelete"]

    for _ in range(4):
        waiting = await stage.until(preparing)
        assert len(waiting) == 1
        assert before >= {pod.uid for pod in await stage.pods() if pod.name in waiting}
        labels = {"example.com/held": None}
        await stage.merge(waiting[0], {"metadata": {"labels": labels}}, resource=PODS)
        await stage.until(lambda name=waiting[0]: _is_gone(stage, name))
    await pool.settled()
    assert not before & {pod.uid for pod in await stage.pods()}


async def _is_gone(stage: Stage, name: str) -> bool:
    return not await stage.exists(name, resource=PODS)


@pytest.mark.node
async def test_a_deleted_daemonset_deletes_its_pods_and_revisions(stage: Stage, pool: Pool) -> None:
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    # when
    await stage.delete("web", resource=DAEMON_SETS)

    # then
    async def nothing_left() -> bool:
        revisions = await stage.client.list(CONTROLLER_REVISIONS, stage.namespace)
        return not await stage.pods() and not revisions.items

    await stage.until(nothing_left)


async def test_a_settled_daemonset_costs_no_more_writes(stage: Stage, pool: Pool) -> None:
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    before = await pool.get()
    # when an hour passes (on a real cluster, seconds)
    await asyncio.sleep(stage.long_s)
    # then
    after = await pool.get()
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
