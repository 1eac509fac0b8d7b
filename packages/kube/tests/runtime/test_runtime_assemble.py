"""From a kind's declarations to its controller."""

import asyncio
import gc
import random
import weakref
from typing import Any

from pykruise.kube.client import Client
from pykruise.kube.resources import PODS
from pykruise.manager.manager import Manager
from pykruise.plans.kind import Kind
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.views import PodView
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import itself
from support.sandbox import small_cluster


class Noticed:
    """What is remembered of a pod."""


async def test_what_is_remembered_of_an_object_goes_with_it_although_its_deletion_enqueues_nothing() -> None:
    # given a kind that looks at pods while they are there, and remembers something of each
    remembered: list[weakref.ref[Noticed]] = []

    async def snapshot(pod: PodView, read: Read[Any]) -> PodView:
        remembered.append(weakref.ref(read.memory(Noticed)))
        return pod

    kind = Kind(
        resource=PODS,
        control=Control(
            name="noticing",
            component="noticing-controller",
            objects=POD_VIEWS,
            wakes=lambda _: (itself(POD_VIEWS, when=lambda pod: not pod.is_deleting),),
            snapshot=snapshot,
            object_of=lambda pod: pod,
            plan=lambda _: Plan(),
            is_current=is_same_object,
        ),
    )
    async with small_cluster() as place:
        client = Client(place.cluster.transport_for("manager"), clock=place.cluster.clock)
        manager = Manager(client, kinds=[kind], clock=place.cluster.clock, rng=random.Random(1))
        running = asyncio.create_task(manager.run())
        await place.create(
            PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}
        )
        await asyncio.sleep(5.0)
        assert remembered
        assert remembered[-1]() is not None
        # when
        await place.client.delete(PODS, "default", "a")
        await asyncio.sleep(60.0)
        # then
        gc.collect()
        assert remembered[-1]() is None
        manager.stop()
        await running
