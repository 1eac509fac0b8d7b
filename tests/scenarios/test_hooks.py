"""Hooks in Python: pods wait for the function, and go on when it is done."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykruise.hooks import Hooks
from pykruise.kube.client.client import Client
from pykruise.kube.resources import PODS, Resource
from support.scenario import Object, Stage, cloneset

LABEL = "example.com/drain"


@asynccontextmanager
async def serving(stage: Stage, hooks: Hooks, client: Client | None = None) -> AsyncIterator[None]:
    running = asyncio.create_task(
        hooks.run(client or stage.client, namespace=stage.namespace, clock=stage.clock, rng=stage.rng)
    )
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def held(hook: str, **spec: Any) -> Object:
    """A CloneSet whose pods carry the label that holds them."""
    doc = cloneset(replicas=2, lifecycle={hook: {"labelsHandler": {LABEL: "true"}}}, **spec)
    doc["spec"]["template"]["metadata"]["labels"][LABEL] = "true"
    return doc


async def test_a_pod_is_deleted_only_when_its_hook_has_finished(stage: Stage) -> None:
    # given
    hooks, done = Hooks(label=LABEL), asyncio.Event()
    seen: list[str] = []

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        seen.append(pod["metadata"]["name"])
        await done.wait()

    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(held("preDelete"))
        await stage.settled(replicas=2)
        # when
        await stage.scale("web", 1)

        async def is_called() -> bool:
            return len(seen) == 1

        await stage.until(is_called, what="the hook is called")
        await asyncio.sleep(5)
        # then
        assert len(await stage.pods()) == 2
        # when
        done.set()
        # then
        await stage.settled(replicas=1)
        assert len(seen) == 1


async def test_a_hook_that_raises_is_called_again(stage: Stage) -> None:
    # given
    hooks, calls = Hooks(label=LABEL), []

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        calls.append(pod["metadata"]["name"])
        if len(calls) < 3:
            raise RuntimeError("not yet")

    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(held("preDelete"))
        await stage.settled(replicas=2)
        await stage.scale("web", 1)
        await stage.settled(replicas=1)
    # then
    assert len(calls) == 3
    assert len(set(calls)) == 1


async def test_an_in_place_update_waits_for_its_hook_and_the_label_is_restored(stage: Stage) -> None:
    # given
    hooks = Hooks(label=LABEL)
    order: list[str] = []

    @hooks.on_in_place_update
    async def before(pod: Object) -> None:
        order.append(f"before {pod['spec']['containers'][0]['image']}")

    @hooks.on_updated
    async def after(pod: Object) -> None:
        order.append(f"after {pod['spec']['containers'][0]['image']}")

    strategy = {"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}
    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(held("inPlaceUpdate", updateStrategy=strategy))
        await stage.settled(replicas=2)
        before_update = {pod.uid for pod in await stage.pods()}
        # when
        await stage.set_image("web", "nginx:2")
        await stage.settled(replicas=2)

        async def is_normal() -> bool:
            return all(pod.state == "Normal" for pod in await stage.pods())

        await stage.until(is_normal, what="pods are in service again")
        # then
        pods = await stage.pods()
        assert {pod.uid for pod in pods} == before_update
        assert all(pod.labels[LABEL] == "true" for pod in pods)
        assert sorted(order) == ["after nginx:2"] * 2 + ["before nginx:1"] * 2


async def test_a_finalizer_holds_as_a_label_does(stage: Stage) -> None:
    # given
    hooks, seen = Hooks(finalizer=LABEL), []

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        seen.append(pod["metadata"]["name"])

    doc = cloneset(replicas=2, lifecycle={"preDelete": {"finalizersHandler": [LABEL]}})
    doc["spec"]["template"]["metadata"]["finalizers"] = [LABEL]
    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(doc)
        await stage.settled(replicas=2)
        await stage.scale("web", 1)
        await stage.settled(replicas=1)
    assert len(seen) == 1


async def annotate(stage: Stage, pod: str, value: str) -> None:
    await stage.merge(pod, {"metadata": {"annotations": {"example.com/seen": value}}}, resource=PODS)


async def test_the_label_stays_if_the_deletion_is_cancelled_during_the_call(stage: Stage) -> None:
    # given
    hooks, done = Hooks(label=LABEL), asyncio.Event()
    calls: list[str] = []

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        calls.append(pod["metadata"]["name"])
        await done.wait()

    async def has_returned_to_service() -> bool:
        return all(pod.state == "Normal" for pod in await stage.pods())

    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(held("preDelete"))
        await stage.settled(replicas=2)
        await stage.scale("web", 1)
        await stage.until(lambda: len(calls) == 1, what="the hook is called")
        await stage.scale("web", 2)
        await stage.until(has_returned_to_service, what="the pod returns to service")
        # when
        done.set()
        await asyncio.sleep(5)
        # then
        assert [pod.labels.get(LABEL) for pod in await stage.pods()] == ["true", "true"]
        # when
        await stage.scale("web", 1)
        await stage.settled(replicas=1)
        # then
        assert len(calls) == 2


async def test_a_pod_that_returned_to_service_during_the_call_is_drained_again(stage: Stage) -> None:
    # given
    hooks, done = Hooks(label=LABEL), [asyncio.Event(), asyncio.Event()]
    calls: list[str] = []

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        calls.append(pod["metadata"]["name"])
        await done[len(calls) - 1].wait()

    async def has_returned_to_service() -> bool:
        return all(pod.state == "Normal" for pod in await stage.pods())

    async def is_leaving() -> bool:
        return any(pod.state == "PreparingDelete" for pod in await stage.pods())

    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(held("preDelete"))
        await stage.settled(replicas=2)
        await stage.scale("web", 1)
        await stage.until(lambda: len(calls) == 1, what="the hook is called")
        await asyncio.sleep(2)
        await stage.scale("web", 2)
        await stage.until(has_returned_to_service, what="the pod returns to service")
        await stage.scale("web", 1)
        await stage.until(is_leaving, what="the pod is selected again")
        # when
        done[0].set()
        await stage.until(lambda: len(calls) == 2, what="the hook is called again")
        await asyncio.sleep(5)
        # then
        assert [pod.labels.get(LABEL) for pod in await stage.pods()] == ["true", "true"]
        # when
        done[1].set()
        # then
        await stage.settled(replicas=1)
        assert len(calls) == 2
        assert len(set(calls)) == 1


async def test_the_label_stays_if_the_update_is_paused_during_the_call(stage: Stage) -> None:
    # given
    hooks, done = Hooks(label=LABEL), asyncio.Event()
    calls: list[str] = []

    @hooks.on_in_place_update
    async def before(pod: Object) -> None:
        calls.append(pod["metadata"]["name"])
        await done.wait()

    async def is_normal() -> bool:
        return all(pod.state == "Normal" for pod in await stage.pods())

    strategy = {"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}
    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(held("inPlaceUpdate", updateStrategy=strategy))
        await stage.settled(replicas=2)
        await stage.set_image("web", "nginx:2")
        await stage.until(lambda: len(calls) >= 1, what="the hook is called")
        await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"paused": True}}}})
        await stage.until(is_normal, what="the pods return to service")
        # when
        done.set()
        await asyncio.sleep(5)
        # then
        assert [pod.labels.get(LABEL) for pod in await stage.pods()] == ["true", "true"]


@pytest.mark.parametrize("handler", ["label", "finalizer"])
async def test_a_hook_is_called_once_although_the_pod_changes_during_the_call(
    stage: Stage, handler: str
) -> None:
    # given
    hooks, calls = Hooks(label=LABEL) if handler == "label" else Hooks(finalizer=LABEL), []

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        calls.append(pod["metadata"]["name"])
        await annotate(stage, pod["metadata"]["name"], "during the call")
        await asyncio.sleep(2)

    doc = held("preDelete")
    if handler == "finalizer":
        doc = cloneset(replicas=2, lifecycle={"preDelete": {"finalizersHandler": [LABEL]}})
        doc["spec"]["template"]["metadata"]["finalizers"] = [LABEL]
    await stage.start_manager()
    async with serving(stage, hooks):
        await stage.create(doc)
        await stage.settled(replicas=2)
        # when
        await stage.scale("web", 1)
        await stage.settled(replicas=1)
    # then
    assert len(calls) == 1


async def test_a_conflict_after_the_call_repeats_only_the_write(stage: Stage) -> None:
    # given
    hooks, calls = Hooks(label=LABEL), []
    reads = 0

    class BusyClient(Client):
        async def get(self, resource: Resource, namespace: str, name: str, **options: Any) -> bytes:
            nonlocal reads
            read = await super().get(resource, namespace, name, **options)
            reads += 1
            if reads <= 2:
                await annotate(stage, name, f"after read {reads}")
            return read

    @hooks.on_pre_delete
    async def drain(pod: Object) -> None:
        calls.append(pod["metadata"]["name"])

    await stage.start_manager()
    async with serving(stage, hooks, BusyClient(stage.manager_transport())):
        await stage.create(held("preDelete"))
        await stage.settled(replicas=2)
        # when
        await stage.scale("web", 1)
        await stage.settled(replicas=1)
    # then
    assert len(calls) == 1
    assert reads == 3


def test_hooks_require_a_label_or_a_finalizer() -> None:
    with pytest.raises(ValueError, match="either label= or finalizer="):
        Hooks()
