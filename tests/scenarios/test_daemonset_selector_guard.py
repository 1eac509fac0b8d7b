"""The stored selector of a DaemonSet changes although admission forbids it: no pod is orphaned, doubled or lost.

Admission is switched off for the one write, as an outage or a restored etcd does it.
"""

import asyncio
import json
from typing import Any

import pytest

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from support.daemonsets import Pool, watching
from support.kstatus import other_conditions
from support.scenario import Object, Stage, rolling

OTHER = {"matchLabels": {"app": "other"}}
ONLY_SELECTOR = {"selector": OTHER}
WITH_LABELS = {"selector": OTHER, "template": {"metadata": {"labels": {"app": "other"}}}}
WITH_TEMPLATE = {
    "selector": OTHER,
    "template": {
        "metadata": {"labels": {"app": "other"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:2"}]},
    },
}


async def change_selector(stage: Stage, pool: Pool, spec: Object) -> None:
    """Change the spec past admission."""
    with stage.past_admission():
        await pool.change(**spec)


async def stops(stage: Stage, pool: Pool) -> Object:
    """Wait for the condition."""

    async def mismatch() -> Object | None:
        conditions = (await pool.status()).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == SELECTOR_MISMATCH), None)

    stops: Object = await stage.until(mismatch, what="the condition SelectorMismatch")
    return stops


async def owners(stage: Stage) -> dict[str, bytes]:
    """The ownerReferences of every pod and revision of the namespace, byte for byte, by uid."""
    owners: dict[str, bytes] = {}
    for resource in (PODS, CONTROLLER_REVISIONS):
        for document in await stage.stored(resource):
            metadata = document["metadata"]
            owners[metadata["uid"]] = json.dumps(metadata.get("ownerReferences")).encode()
    return owners


@pytest.mark.few_on_real(3)
@pytest.mark.parametrize("restarts", [False, True], ids=["manager runs", "manager restarts"])
@pytest.mark.parametrize(
    "spec", [ONLY_SELECTOR, WITH_LABELS, WITH_TEMPLATE], ids=["alone", "with labels", "with another template"]
)
async def test_a_changed_selector_causes_no_writes(
    stage: Stage, pool: Pool, spec: Object, restarts: bool
) -> None:
    """daemonset cases 63, 64, 65 and 73"""
    # given
    await stage.start_manager()
    await pool.create()
    generation = (await pool.settled())["status"]["observedGeneration"]
    before = await owners(stage)
    async with watching(pool) as seen:
        seen.from_now()
        # when
        if restarts:
            await stage.kill_manager()
        await change_selector(stage, pool, spec)
        if restarts:
            await stage.start_manager()
        # then it says so
        condition = await stops(stage, pool)
        assert (condition["status"], condition["reason"]) == ("True", "SelectorChanged")
        assert '"app":"web"' in condition["message"]
        assert '"app":"other"' in condition["message"]
        (event,) = await stage.until(lambda: stage.events(SELECTOR_MISMATCH))
        assert event["type"] == "Warning"
        # and does nothing, also when a node joins and a pod is lost
        await pool.join("late")
        lost = (await stage.pods())[0]
        await stage.delete(lost.name, resource=PODS)
        if restarts:
            await stage.kill_manager()
            await stage.start_manager()
        await asyncio.sleep(stage.long_s / 5)
        after = await owners(stage)
        assert after == {uid: data for uid, data in before.items() if uid != lost.uid}
        assert await stage.pods("other") == []
        assert len(seen.uids) == 4
        status = await pool.status()
        assert status["observedGeneration"] == generation
        assert (status["desiredNumberScheduled"], status["currentNumberScheduled"]) == (5, 3)
        assert len(await stage.events(SELECTOR_MISMATCH)) <= 1 + restarts + (stage.long_s >= 3600)


STRATEGIES = {
    "standard": rolling(maxUnavailable=1),
    "surge": rolling(maxSurge=1, maxUnavailable=0),
    "in place": rolling(maxUnavailable=1, rollingUpdateType="InPlaceIfPossible"),
}


@pytest.mark.parametrize("how", STRATEGIES)
async def test_a_selector_changed_during_a_rollout_stops_it_where_it_is(
    stage: Stage, pool: Pool, how: str
) -> None:
    # given a rollout that goes on one node at a time
    await stage.start_manager()
    await pool.create(updateStrategy=STRATEGIES[how])
    await pool.settled()
    async with watching(pool) as seen:
        seen.from_now()
        await pool.set_image("nginx:2")

        async def is_under_way() -> bool:
            return [pod.containers[0].image for pod in await stage.pods()].count("nginx:2") >= 2

        await stage.until(is_under_way)
        # when
        await change_selector(stage, pool, ONLY_SELECTOR)
        await stops(stage, pool)
        await asyncio.sleep(stage.long_s / 10)
        made, before = set(seen.uids), await owners(stage)
        await stage.kill_manager()
        await stage.start_manager()
        await asyncio.sleep(stage.long_s / 5)
        # then
        assert seen.uids == made
        assert await owners(stage) == before
        assert all(json.loads(data)[0]["controller"] for data in before.values())
        assert seen.most_on_a_node == (2 if how == "surge" else 1)
        # and goes on where it was, when the selector is back
        await pool.change(selector={"matchLabels": {"app": "web"}})
        await pool.settled()
        assert set((await pool.images()).values()) == {"nginx:2"}


async def test_recovery_by_putting_the_selector_back(stage: Stage, pool: Pool) -> None:
    """daemonset case 66: admission lets it in, no pod is restarted, missing ones are made"""
    # given a stopped DaemonSet that lost a pod, and a manager that was restarted in between
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    async with watching(pool) as seen:
        seen.from_now()
        await change_selector(stage, pool, ONLY_SELECTOR)
        await stops(stage, pool)
        lost, *kept = await stage.pods()
        await stage.delete(lost.name, resource=PODS)
        await pool.join("late")
        await stage.kill_manager()
        await stage.start_manager()
        # when, with admission on
        await pool.change(selector={"matchLabels": {"app": "web"}})
        # then
        result = await pool.settled()
        assert not other_conditions(result["status"])
        assert {pod.uid for pod in kept} < {pod.uid for pod in await stage.pods()}
        assert len(seen.uids) == 6


@pytest.mark.needs_admission
async def test_a_third_selector_is_refused(stage: Stage, pool: Pool) -> None:
    """daemonset case 67"""
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    await change_selector(stage, pool, ONLY_SELECTOR)
    await stops(stage, pool)
    with pytest.raises(InvalidError, match="forbidden"):
        await pool.change(selector={"matchLabels": {"app": "third"}})


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_and_recreating_the_daemonset_recovers_from_a_changed_selector(
    stage: Stage, pool: Pool, propagation: str
) -> None:
    """daemonset case 68: nothing leaks"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    before = {pod.uid for pod in await stage.pods()}
    await change_selector(stage, pool, ONLY_SELECTOR)
    await stops(stage, pool)
    # when
    await stage.delete("web", resource=DAEMON_SETS, propagation=propagation)

    async def is_collected() -> bool:
        return not await stage.exists("web", resource=DAEMON_SETS) and not await owners(stage)

    await stage.until(is_collected)
    # then
    await stage.create(relabelled(pool), resource=DAEMON_SETS)
    await stage.until(lambda: is_available(pool, 4))
    assert not before & {pod.uid for pod in await stage.pods("other")}


async def test_recovery_by_orphaning_the_pods_keeps_them_running(stage: Stage, pool: Pool) -> None:
    """daemonset case 69: every pod is adopted, and those of another template are updated within the budget"""
    # given
    await stage.start_manager()
    await pool.create()
    await pool.settled()
    kept = {pod.uid for pod in await stage.pods()}
    await change_selector(stage, pool, ONLY_SELECTOR)
    await stops(stage, pool)
    # when it is deleted without its pods, these are relabelled, and it is created with the other selector
    await stage.delete("web", resource=DAEMON_SETS, propagation="Orphan")

    async def is_gone() -> bool:
        return not await stage.exists("web", resource=DAEMON_SETS)

    await stage.until(is_gone)
    for pod in await stage.pods():
        await stage.merge(pod.name, {"metadata": {"labels": {"app": "other"}}}, resource=PODS)
    async with watching(pool, app="other") as seen:
        seen.from_now()
        doc = relabelled(pool)
        doc["spec"]["updateStrategy"] = rolling(paused=True)
        created = await stage.create(doc, resource=DAEMON_SETS)

        # then it adopts them all and makes none
        async def are_adopted() -> bool:
            pods = await stage.pods("other")
            owned = [pod.controller is not None and pod.controller.uid for pod in pods]
            return len(pods) == 4 and set(owned) == {created["metadata"]["uid"]}

        await stage.until(are_adopted)
        await asyncio.sleep(stage.long_s / 10)
        assert seen.uids == kept
        # and updates them, as their template has other labels
        await pool.change(updateStrategy=rolling(paused=False, maxUnavailable=1))
        await stage.until(lambda: is_available(pool, 4, updated=4))
        assert seen.most_down == 1
        assert seen.most_on_a_node == 1


def relabelled(pool: Pool) -> Object:
    """The DaemonSet with the other selector and its labels."""
    doc = pool.daemonset(selector=OTHER)
    doc["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    return doc


async def is_available(pool: Pool, count: int, *, updated: int | None = None) -> bool:
    status: dict[str, Any] = await pool.status()
    wanted = count if updated is None else updated
    return (status.get("numberAvailable"), status.get("updatedNumberScheduled")) == (count, wanted)
