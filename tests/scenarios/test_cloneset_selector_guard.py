"""The stored selector changes although admission forbids it: no pod is orphaned, doubled or lost.

Admission is switched off for the one write, as an outage or a restored etcd does it.
"""

import asyncio
from typing import Any

import pytest

from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from support.scenario import Object, PodWatch, Stage, cloneset, rolling

OTHER = {"matchLabels": {"app": "other"}}
WEB = {"matchLabels": {"app": "web"}}
ONLY_OTHER = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
WITH_LABELS = {
    "spec": {
        "selector": {"matchLabels": {"app": "other"}},
        "template": {"metadata": {"labels": {"app": "other"}}},
    }
}


async def change_selector(stage: Stage, patch: Object) -> None:
    """Change the selector past admission; the manager has seen it when the condition exists."""
    with stage.past_admission():
        await stage.merge("web", patch)


async def stops(stage: Stage) -> Object:
    """Wait for the condition."""

    async def mismatch() -> Object | None:
        conditions = (await stage.status()).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == SELECTOR_MISMATCH), None)

    stops: Object = await stage.until(mismatch, what="the condition SelectorMismatch")
    return stops


async def owners(stage: Stage) -> dict[str, Any]:
    """The ownerReferences of every pod and revision of the namespace, by uid."""
    owners: dict[str, Any] = {}
    for resource in (PODS, CONTROLLER_REVISIONS):
        for document in await stage.stored(resource):
            metadata = document["metadata"]
            owners[metadata["uid"]] = (metadata["name"], metadata.get("ownerReferences"))
    return owners


@pytest.mark.parametrize("patch", [ONLY_OTHER, WITH_LABELS], ids=["alone", "with the template's labels"])
@pytest.mark.parametrize("restarts", [False, True], ids=["manager runs", "manager restarts"])
async def test_a_changed_selector_causes_no_writes(stage: Stage, patch: Object, restarts: bool) -> None:
    """daemonset cases 63 and 73, for CloneSet"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    generation = (await stage.settled(replicas=3))["status"]["observedGeneration"]
    before = await owners(stage)
    # when
    if restarts:
        await stage.kill_manager()
    await change_selector(stage, patch)
    if restarts:
        await stage.start_manager()
    # then it says so
    condition = await stops(stage)
    assert (condition["status"], condition["reason"]) == ("True", "SelectorChanged")
    assert "managed" in condition["message"]
    events = await stage.until(lambda: stage.events(SELECTOR_MISMATCH))
    assert [event["type"] for event in events] == ["Warning"]
    # and does nothing, also when scaled or when a pod is lost
    await stage.scale("web", 5)
    pods = await stage.pods()
    await stage.delete(pods[0].name, resource=PODS)
    await asyncio.sleep(stage.long_s)
    after = await owners(stage)
    assert after == {uid: result for uid, result in before.items() if uid != pods[0].uid}
    status = await stage.status()
    assert status["observedGeneration"] == generation
    assert status["replicas"] == 2
    assert len(await stage.events(SELECTOR_MISMATCH)) <= 1 + (stage.long_s >= 600)


async def test_a_selector_changed_during_a_rollout_stops_it_where_it_is(stage: Stage, seen: PodWatch) -> None:
    # given a rollout that goes on one pod at a time
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=4)
    await stage.set_image("web", "nginx:2")
    await stage.until(lambda: seen.created >= 5)
    # when
    await change_selector(stage, ONLY_OTHER)
    await stops(stage)
    created = seen.created
    await asyncio.sleep(stage.long_s)
    # then
    assert seen.created == created
    assert seen.most == 4
    references = [result for _, result in (await owners(stage)).values()]
    assert all(result and result[0]["controller"] for result in references)


async def test_recovery_by_putting_the_selector_back(stage: Stage, seen: PodWatch) -> None:
    """daemonset case 66, for CloneSet: admission lets it in, no pod is restarted, missing ones are made"""
    # given a stopped CloneSet that lost a pod, and a manager that was restarted in between
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    await change_selector(stage, ONLY_OTHER)
    await stops(stage)
    lost, *kept = await stage.pods()
    await stage.delete(lost.name, resource=PODS)
    await stage.kill_manager()
    await stage.start_manager()
    # when, with admission on
    await stage.merge("web", {"spec": {"selector": {"matchLabels": {"app": "web"}}}})
    # then
    result = await stage.settled(replicas=3)
    conditions = result["status"].get("conditions") or []
    assert all(condition["type"] != SELECTOR_MISMATCH for condition in conditions)
    assert {pod.uid for pod in kept} < {pod.uid for pod in await stage.pods()}
    assert seen.created == 4


@pytest.mark.needs_admission
async def test_a_third_selector_is_refused(stage: Stage) -> None:
    """daemonset case 67, for CloneSet"""
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    await change_selector(stage, ONLY_OTHER)
    await stops(stage)
    with pytest.raises(InvalidError, match="forbidden"):
        await stage.merge("web", {"spec": {"selector": {"matchLabels": {"app": "third"}}}})


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_and_recreating_the_cloneset_recovers_from_a_changed_selector(
    stage: Stage, propagation: str
) -> None:
    """daemonset case 68, for CloneSet: nothing leaks"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    before = {pod.uid for pod in await stage.pods()}
    await change_selector(stage, WITH_LABELS)
    await stops(stage)
    # when
    await stage.delete("web", propagation=propagation)

    async def is_collected() -> bool:
        return not await stage.exists("web") and not await owners(stage)

    await stage.until(is_collected)
    # then
    await stage.create(cloneset(replicas=3, selector=OTHER, template=labelled("other")))
    pods = await stage.until(lambda: stage.pods("other"))
    await stage.until(lambda: is_available(stage, 3))
    assert not before & {pod.uid for pod in pods}


async def test_recovery_by_orphaning_the_pods_keeps_them_running(stage: Stage) -> None:
    """daemonset case 69, for CloneSet: which never adopts, so the pods stay beside the new ones"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    kept = await stage.pods()
    await change_selector(stage, ONLY_OTHER)
    await stops(stage)
    # when it is deleted without its pods, and these are relabelled
    await stage.delete("web", propagation="Orphan")

    async def is_gone() -> bool:
        return not await stage.exists("web")

    await stage.until(is_gone)
    for pod in kept:
        await stage.merge(pod.name, {"metadata": {"labels": {"app": "other"}}}, resource=PODS)
    await stage.create(cloneset(replicas=2, selector=OTHER, template=labelled("other")))
    # then the new one works, and the old pods are untouched
    await stage.until(lambda: is_available(stage, 2))
    pods = await stage.pods("other")
    assert {pod.uid for pod in kept} < {pod.uid for pod in pods}
    assert len(pods) == 4
    assert all(pod.controller is None for pod in pods if pod.uid in {pod.uid for pod in kept})

    # A reconcile between the two changes of labels reports only one pod at first.
    async def reported() -> bool:
        events = await stage.events("OrphansMatchSelector")
        return any(
            event["message"].startswith("2 pods match spec.selector but have no owner") for event in events
        )

    await stage.until(reported)


async def is_available(stage: Stage, replicas: int) -> bool:
    return bool((await stage.status()).get("availableReplicas") == replicas)


def labelled(app: str) -> Object:
    template: Object = cloneset()["spec"]["template"]
    return {**template, "metadata": {"labels": {"app": app}}}
