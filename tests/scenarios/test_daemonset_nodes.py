"""Nodes join, leave, are cordoned and tainted while a DaemonSet rolls out; pods fail."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from pykruise.kinds.daemonset import node_cache
from pykruise.kinds.daemonset.node_state import NodeState, Terms, examine
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.cache.cache import Change
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import PODS
from pykruise.pods.view.pod_view import PodView
from support.daemonsets import Pool, watching
from support.scenario import Stage, rolling


async def test_a_tainted_node_keeps_its_pod_and_gets_no_other(stage: Stage, pool: Pool) -> None:
    """daemonset case 18"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    node = pool.nodes[2]
    # when
    await pool.taint(node, "example.com/x:NoSchedule")

    # then
    async def is_misscheduled() -> bool:
        status = await pool.status()
        return (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (3, 1)

    await stage.until(is_misscheduled)
    # when its pod is deleted by hand
    (pod,) = (await pool.by_node())[node]
    await stage.delete(pod.name, resource=PODS)
    # then
    await pool.settled(nodes=3)
    assert node not in await pool.by_node()
    # when the taint goes
    await pool.taint(node)
    # then
    await pool.settled()


async def test_a_taint_that_expels_takes_the_pod_away(stage: Stage, pool: Pool) -> None:
    """daemonset case 19"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    # when
    await pool.taint(pool.nodes[2], "example.com/x:NoExecute")
    # then
    await pool.settled(nodes=3)
    assert pool.nodes[2] not in await pool.by_node()


async def test_an_event_of_a_node_has_that_node_examined_and_no_other(
    stage: Stage, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A taint and its end, with all that follows: the deletion, the new pod, its start"""
    # given a settled set whose manager has nothing left to do
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    await asyncio.sleep(2.0)
    seen: set[str] = set()

    def counted(terms: Terms, name: str, *args: Any, **kwargs: Any) -> NodeState:
        seen.add(name)
        return examine(terms, name, *args, **kwargs)

    monkeypatch.setattr(node_cache, "examine", counted)
    # when
    await pool.taint(pool.nodes[2], "example.com/x:NoExecute")
    await pool.settled(nodes=3)
    await pool.taint(pool.nodes[2])
    await pool.settled()
    # then
    assert seen == {pool.nodes[2]}


async def test_a_cordoned_node_gets_its_pod(stage: Stage, pool: Pool) -> None:
    """daemonset case 20"""
    # given
    await pool.cordon(pool.nodes[2])
    await stage.start_manager()
    # when
    await pool.create()
    # then
    await pool.settled()


async def test_a_node_label_creates_its_pod_and_its_removal_deletes_it(stage: Stage, pool: Pool) -> None:
    """daemonset case 22"""
    # given a set for nodes with a label that none has
    label = f"disk-{pool.name}"
    await stage.start_manager()
    doc = pool.daemonset()
    doc["spec"]["template"]["spec"]["nodeSelector"] = {label: "ssd"}
    await stage.create(doc, resource=DAEMON_SETS)
    await pool.settled(nodes=0)
    # when
    await pool.label(pool.nodes[1], {label: "ssd"})
    # then
    await pool.settled(nodes=1)
    # when
    await pool.label(pool.nodes[1], {label: None})
    # then
    await pool.settled(nodes=0)


@pytest.mark.long_on_real
@pytest.mark.not_in_brief("it waits for the lease of a node to run out, which virtual time shows as well")
async def test_a_node_joins_and_a_node_leaves_during_a_rollout(stage: Stage, pool: Pool) -> None:
    # given a rollout that has begun
    await stage.start_manager()
    await pool.join("late")
    await pool.create(updateStrategy=rolling(maxUnavailable=1))
    await pool.settled()
    await pool.set_image("nginx:2")

    async def has_begun() -> bool:
        return "nginx:2" in (await pool.images()).values()

    await stage.until(has_begun)
    # when
    await pool.join("later")
    await pool.leave(next(node for node in pool.nodes if node.startswith("late-")))
    # then
    await pool.settled()
    assert set((await pool.images()).values()) == {"nginx:2"}


async def test_nodes_are_cordoned_and_tainted_during_a_rollout(stage: Stage, pool: Pool) -> None:
    # given a rollout that has begun
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(maxUnavailable=1))
    await pool.settled()
    first, second, third, _ = sorted(pool.nodes)
    async with watching(pool) as seen:
        seen.from_now()
        await pool.set_image("nginx:2")
        await stage.until(lambda: seen.most_down == 1)
        # when
        await pool.cordon(first)
        await pool.taint(second, "example.com/x:NoSchedule")
        await pool.taint(third, "example.com/x:NoExecute")

        # then the rest is updated
        async def is_done() -> bool:
            status = await pool.status()
            wanted = (status["desiredNumberScheduled"], status["updatedNumberScheduled"])
            return wanted == (2, 2) and status.get("numberAvailable") == 2

        await stage.until(is_done)
        assert third not in await pool.by_node()
        assert seen.most_on_a_node == 1
        # when all is well again
        await pool.cordon(first, False)
        await pool.taint(second)
        await pool.taint(third)
        # then
        await pool.settled()
        assert set((await pool.images()).values()) == {"nginx:2"}


@pytest.mark.virtual_time("a vanished node's pod is collected after a minute")
async def test_the_pod_of_a_vanished_node_is_not_missed(stage: Stage, pool: Pool) -> None:
    # given
    await stage.start_manager()
    await pool.join("brief")
    await pool.create()
    await pool.settled()
    # when
    await pool.leave(pool.nodes[-1])

    # then the numbers follow by the node's event alone
    async def counts_four() -> bool:
        return (await pool.status())["desiredNumberScheduled"] == 4

    await stage.until(counts_four)


async def test_a_failed_pod_is_replaced_and_reported(stage: Stage, pool: Pool) -> None:
    """daemonset case 26"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    victim = (await stage.pods())[0]
    # when
    await stage.merge(victim.name, {"status": {"phase": "Failed"}}, resource=PODS, subresource="status")

    # then
    async def is_replaced() -> bool:
        return not await stage.exists(victim.name, resource=PODS)

    await stage.until(is_replaced)
    await pool.settled()
    (event,) = await stage.until(lambda: stage.events("FailedDaemonPod"))
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert victim.name in event["message"]
    assert victim.target_node in event["message"]


@pytest.mark.virtual_time("gaps grow to a quarter of an hour")
async def test_immediately_failing_pods_are_replaced_less_and_less_often(stage: Stage, pool: Pool) -> None:
    """daemonset case 26"""
    # given a node on which every pod fails, as when its kubelet refuses them
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    node = pool.nodes[1]
    new: asyncio.Queue[str] = asyncio.Queue()

    def note(change: Change[PodView]) -> None:
        pod = change.new
        if pod is not None and pod.node_name == node and pod.is_active:
            new.put_nowait(pod.name)

    async def refuse() -> None:
        while True:
            with suppress(NotFoundError):
                failed = {"status": {"phase": "Failed"}}
                await stage.merge(await new.get(), failed, resource=PODS, subresource="status")

    async with watching(pool) as seen:
        seen.from_now()
        seen.cache.subscribe(note)
        refusing = asyncio.create_task(refuse())
        (first,) = (await pool.by_node())[node]
        new.put_nowait(first.name)
        # when an hour passes
        await asyncio.sleep(3600.0)
        refusing.cancel()
        await asyncio.gather(refusing, return_exceptions=True)
        # then there were few of them: 1 + 2 + 4 + … seconds apart
        assert 10 <= len(seen.uids) - 4 <= 16
    # and when pods are no longer refused, it comes back
    await pool.settled()


async def test_an_orphan_is_adopted_and_a_relabelled_pod_is_replaced(stage: Stage, pool: Pool) -> None:
    """daemonset cases 27 and 72"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    aside = (await stage.pods())[0]
    # when a pod is put aside
    await stage.merge(aside.name, {"metadata": {"labels": {"app": "aside"}}}, resource=PODS)
    # then
    await pool.settled()
    assert not (await stage.get(aside.name, resource=PODS))["metadata"].get("ownerReferences")
    (event,) = await stage.until(lambda: stage.events("PodReleased"))
    assert aside.name in event["message"]
    # when its successor goes and it comes back
    (successor,) = (await pool.by_node())[aside.target_node]
    await stage.kill_manager()
    await stage.delete(successor.name, resource=PODS)
    await stage.merge(aside.name, {"metadata": {"labels": {"app": "web"}}}, resource=PODS)
    await stage.start_manager()

    # then it is one of them again
    async def is_adopted() -> bool:
        here = (await pool.by_node())[aside.target_node]
        return [(pod.uid, pod.controller is not None) for pod in here] == [(aside.uid, True)]

    await stage.until(is_adopted)
    await pool.settled()
