"""Controllers that are built from a kind's declarations."""

import asyncio
import gc
import random
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pykruise.kube.cache.cache import Change
from pykruise.kube.cache.delivery import SLICE
from pykruise.kube.client.client import Client
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.ids import Key
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.manager.manager import Manager
from pykruise.plans.kind import Kind
from pykruise.plans.views import CLAIM_VIEWS, POD_VIEWS, ClaimView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import control_of
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Around, Memories, Read
from pykruise.runtime.shared_keys import KindKeys, LedKeys
from pykruise.runtime.wakes import Wake, wake_itself
from support.sandbox import Place, small_cluster


class MirrorOf:
    """Objects that a manager has read."""

    def __init__(self, objects: list[ClaimView]) -> None:
        self._objects = objects

    def values(self) -> list[ClaimView]:
        return self._objects


class Noticed:
    """Memory of a pod."""


@asynccontextmanager
async def managed(kind: Kind) -> AsyncIterator[Place]:
    """A cluster whose manager has only this kind."""
    async with small_cluster() as place:
        client = Client(place.cluster.make_transport("manager"), clock=place.cluster.clock)
        manager = Manager(client, kinds=[kind], clock=place.cluster.clock, rng=random.Random(1))
        running = asyncio.create_task(manager.run())
        yield place
        manager.stop()
        await running


async def make_pod(place: Place, name: str) -> None:
    containers = [{"name": "main", "image": "nginx:1"}]
    await place.create(PODS, {"metadata": {"name": name}, "spec": {"containers": containers}})
    await asyncio.sleep(5.0)


async def test_memory_of_a_deleted_object_is_freed_although_its_deletion_enqueues_nothing() -> None:
    # given a kind that plans for pods while they exist, and keeps memory of each
    remembered: list[weakref.ref[Noticed]] = []

    async def snapshot(pod: PodView, read: Read[Any]) -> PodView:
        remembered.append(weakref.ref(read.find_memory(Noticed)))
        return pod

    kind = Kind(
        resource=PODS,
        control=Control(
            name="noticing",
            component="noticing-controller",
            objects=POD_VIEWS,
            wakes=lambda _: (wake_itself(POD_VIEWS, when=lambda pod: not pod.is_deleting),),
            snapshot=snapshot,
            object_of=lambda pod: pod,
            plan=lambda _: Plan(),
            is_current=is_same_object,
        ),
    )
    async with managed(kind) as place:
        await make_pod(place, "a")
        assert remembered
        assert remembered[-1]() is not None
        # when
        await place.client.delete(PODS, "default", "a")
        await asyncio.sleep(60.0)
        # then
        gc.collect()
        assert remembered[-1]() is None


async def test_events_enqueue_keys_while_all_keys_are_enqueued_for_a_new_leader() -> None:
    # given more objects than are enqueued in one step
    objects = [
        ClaimView(namespace="default", name=f"data-{number}", uid="u", resource_version=1)
        for number in range(2 * SLICE)
    ]
    mirror: Any = MirrorOf(objects)
    queue, led = WorkQueue[Key](), LedKeys()
    control = msgspec.structs.replace(
        control_of(PERSISTENT_VOLUME_CLAIMS, lambda _: Plan()), objects=CLAIM_VIEWS
    )
    kind = KindKeys(
        control,
        wakes=lambda: (wake_itself(CLAIM_VIEWS),),
        mirror_of=lambda _: mirror,
        around=Around({}, settings=None, memories=Memories(), is_making=lambda *_: False, now=lambda: 0.0),
        queue=queue,
        known=tuple,
        forget=lambda _: None,
    )
    led.add("claims", kind)
    assert not led.is_open("claims")
    # when
    opening = asyncio.create_task(led.open("claims"))
    await asyncio.sleep(0)
    # then
    assert queue.read_stats().depth < len(objects)
    assert led.is_open("claims")
    await opening
    assert queue.read_stats().depth == len(objects)
    # and
    led.close()
    assert not led.is_open("claims")
    assert queue.read_stats().depth == 0


@pytest.mark.parametrize(
    "absent",
    [None, lambda key: ClaimView(namespace=key.namespace, name=key.name, uid="", resource_version=0)],
)
async def test_a_kind_handles_events_of_others_only_while_it_has_an_object(absent: Any) -> None:
    # given a kind of claims that pods wake, with and without plans for absent claims
    seen: list[str] = []
    planned: list[str] = []

    def claims_of(change: Change[PodView], _: Around[Any]) -> list[Key]:
        seen.append(change.key.name)
        return [Key("default", "data")]

    async def snapshot(claim: ClaimView, _: Read[Any]) -> ClaimView:
        planned.append(claim.name)
        return claim

    kind = Kind(
        resource=PERSISTENT_VOLUME_CLAIMS,
        control=Control(
            name="noticing",
            component="noticing-controller",
            objects=CLAIM_VIEWS,
            reads=lambda _: (POD_VIEWS,),
            wakes=lambda _: (
                wake_itself(CLAIM_VIEWS),
                Wake(on=POD_VIEWS, keys=claims_of, wakes_absent=False),
            ),
            snapshot=snapshot,
            object_of=lambda claim: claim,
            plan=lambda _: Plan(),
            is_current=is_same_object,
            absent=absent,
        ),
    )
    async with managed(kind) as place:
        # when there is no claim
        await make_pod(place, "before")
        # then no event was handled
        assert seen == []
        # when there is a claim
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim)
        await asyncio.sleep(5.0)
        planned.clear()
        await make_pod(place, "during")
        # then a pod wakes it
        assert set(seen) == {"during"}
        assert planned
        # when the claim is gone again
        await place.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        await asyncio.sleep(5.0)
        seen.clear()
        await make_pod(place, "after")
        # then no event is handled again
        assert seen == []
