"""Many concurrent deletions through several webhook replicas, with a budget that allows few at a time.

Place (an API server whose webhooks are behind a balancer) ──▶ race() ──▶ Raced: the deleted pods, and the cost

There is no kubelet: the race makes pods ready, and replaces deleted pods. Time and sockets are real.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.manager.manager import Manager
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.webhook_place import AT_ONCE, Place

__all__ = ["REFUSED", "Raced", "race"]

REFUSED: Final = "pub unavailable allowed is negative"
ADMITTED: Final = "admitted"
AGAIN_S: Final = 0.2
"""Seconds that a rejected request waits before its next try."""


class Raced(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a race."""

    answers: Mapping[str, int]
    """Number of each response: `admitted`, or the message of a rejection."""
    fewest: int
    """The minimum of serving pods."""
    asked: tuple[int, ...] = ()
    """Number of decisions by replica."""
    writes: int = 0
    """Status writes of the webhooks, also those that were too late."""
    conflicts: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    """CPU time of this process: users, webhooks, the manager, and the sandbox's API server."""

    @property
    def decisions(self) -> int:
        """Number of decided requests."""
        return sum(self.answers.values())


class Pods:
    """Ready pods, and clients that delete and evict some of them."""

    def __init__(self, place: Place, count: int) -> None:
        self.user: Client = place.user
        self.namespace = place.namespace
        self.answers: Counter[str] = Counter()
        self.fewest = count
        self.is_full = False
        self.cache: Cache[PodView] = Cache(
            place.user,
            PODS,
            project=project_pod,
            namespace=place.namespace,
            clock=read_system_clock,
            rng=random.Random(7),
        )
        self.cache.subscribe(self._count)
        self._turns = asyncio.Semaphore(AT_ONCE)

    @property
    def serving(self) -> int:
        return sum(pod.is_ready and not pod.is_deleting for pod in self.cache.values())

    def _count(self, _: Change[PodView]) -> None:
        if self.is_full:
            self.fewest = min(self.fewest, self.serving)

    async def add(self, name: str) -> None:
        """A pod that serves."""
        body: Document = {
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        }
        async with self._turns:
            await self.user.create(PODS, self.namespace, body)
            condition = {"type": "Ready", "status": "True"}
            status: Document = {"phase": "Running", "conditions": [condition]}
            options: dict[str, Any] = {"patch_type": PatchType.MERGE, "subresource": "status"}
            await self.user.patch(PODS, self.namespace, name, {"status": status}, **options)

    async def remove(self, number: int) -> None:
        """Delete or evict a pod, again and again until that is allowed; then it is replaced."""
        name = f"web-{number}"
        while True:
            try:
                if number % 2:
                    await self.user.delete(PODS, self.namespace, name, grace_period_s=0)
                else:
                    body: Document = {
                        "apiVersion": "policy/v1",
                        "kind": "Eviction",
                        "metadata": {"name": name},
                    }
                    await self.user.create(PODS, self.namespace, body, name=name, subresource="eviction")
            except NotFoundError:
                break
            except ApiError as error:
                if error.code != (403 if number % 2 else 429):
                    raise
                self.answers[REFUSED if REFUSED in str(error) else str(error)] += 1
                await asyncio.sleep(AGAIN_S)
            else:
                self.answers[ADMITTED] += 1
                break
        await self.add(f"new-{number}")


@asynccontextmanager
async def running_manager(place: Place) -> AsyncIterator[Manager]:
    """The budget's controller, with all the others."""
    manager = Manager(place.manager())
    running = asyncio.create_task(manager.run())
    try:
        await manager.wait_synced()
        yield manager
    finally:
        manager.stop()
        await running


async def race(
    place: Place, *, pods: int = 200, going: int = 64, let_go: int | None = 20, replicas: int = 3
) -> Raced:
    """Delete and evict `going` of the pods concurrently, until all are deleted and replaced. `let_go`: the
    number of pods that may be unavailable; None: there is no budget."""
    actors = Pods(place, pods)
    async with place.replicas(replicas) as webhookses, running_manager(place):
        watching = asyncio.create_task(actors.cache.run())
        if let_go is not None:
            await place.user.create(POD_UNAVAILABLE_BUDGETS, place.namespace, _budget(pods, let_go))
        await asyncio.gather(*(actors.add(f"web-{number}") for number in range(pods)))

        async def status() -> Document:
            if let_go is None:
                return {"unavailableAllowed": let_go, "currentAvailable": pods}
            stored = decode(await place.user.get(POD_UNAVAILABLE_BUDGETS, place.namespace, "pub"))
            return stored.get("status") or {}

        async with asyncio.timeout(120):
            while actors.serving < pods or (await status()).get("unavailableAllowed") != let_go:
                await asyncio.sleep(0.05)
        actors.is_full = True
        before = [
            webhooks.reviews.pod_chain.shared["podunavailablebudget"].budgeting.spender.read_stats()
            for webhooks in webhookses
        ]
        cpu, begun = time.process_time(), time.monotonic()
        async with asyncio.timeout(240):
            await asyncio.gather(*(actors.remove(number) for number in range(going)))
        cpu, seconds = time.process_time() - cpu, time.monotonic() - begun
        stats = [
            webhooks.reviews.pod_chain.shared["podunavailablebudget"].budgeting.spender.read_stats()
            for webhooks in webhookses
        ]
        async with asyncio.timeout(120):
            while (await status()).get("currentAvailable") != pods:
                await asyncio.sleep(0.05)
        watching.cancel()
    return Raced(
        answers=dict(actors.answers),
        fewest=actors.fewest,
        asked=tuple(stat.asked for stat in stats),
        writes=sum(stat.writes for stat in stats) - sum(item.writes for item in before),
        conflicts=sum(stat.conflicts for stat in stats) - sum(item.conflicts for item in before),
        seconds=seconds,
        cpu_s=cpu,
    )


def _budget(pods: int, let_go: int) -> Document:
    return {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": "pub"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "maxUnavailable": let_go,
            "protectTotalReplicas": pods,
        },
    }
