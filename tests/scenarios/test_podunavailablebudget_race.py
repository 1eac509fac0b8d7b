"""However many pods are to go at once, through however many webhooks: never more are out than the budget lets.

On both clusters, over HTTPS, through three replicas, with the budget's controller at work. No kubelet is there: the
test makes pods serve, and replaces those that go.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kube.cache import Cache, Change
from pykruise.kube.client import Client
from pykruise.kube.clock import system_clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.manager.manager import Manager
from pykruise.pods.views import PodView, project_pod
from support.webhook_place import AT_ONCE, Place, webhook_place
from testbed.control_plane import ControlPlane

# Sockets and TLS are real, and so is time.
pytestmark = pytest.mark.real_time

_log = logging.getLogger(__name__)

PODS_IN_ALL = 200
LET_GO = 20
GOING = 64
REFUSED = "pub unavailable allowed is negative"


@pytest.fixture
async def place(quiet_plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Place]:
    async with webhook_place(quiet_plane, tmp_path) as found:
        yield found


class Pods:
    """Pods that serve, with those who want some of them gone."""

    def __init__(self, place: Place) -> None:
        self.user: Client = place.user
        self.namespace = place.namespace
        self.answers: Counter[str] = Counter()
        self.fewest = PODS_IN_ALL
        self.is_full = False
        self.cache: Cache[PodView] = Cache(
            place.user,
            PODS,
            project=project_pod,
            namespace=place.namespace,
            clock=system_clock,
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
                await asyncio.sleep(0.2)
            else:
                self.answers["admitted"] += 1
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


async def test_64_evictions_and_deletions_at_once_through_three_replicas_take_no_more_than_allowed(
    place: Place,
) -> None:
    """podunavailablebudget cases 36 and 66"""
    pods = Pods(place)
    async with place.replicas(3) as found, running_manager(place):
        # given 200 pods that serve, of which 20 may be out
        watching = asyncio.create_task(pods.cache.run())
        budget: Document = {
            "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
            "kind": POD_UNAVAILABLE_BUDGETS.kind,
            "metadata": {"name": "pub"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "maxUnavailable": "10%",
                "protectTotalReplicas": PODS_IN_ALL,
            },
        }
        await place.user.create(POD_UNAVAILABLE_BUDGETS, place.namespace, budget)
        await asyncio.gather(*(pods.add(f"web-{number}") for number in range(PODS_IN_ALL)))

        async def status() -> Document:
            stored = decode(await place.user.get(POD_UNAVAILABLE_BUDGETS, place.namespace, "pub"))
            return stored.get("status") or {}

        async with asyncio.timeout(60):
            while pods.serving < PODS_IN_ALL or (await status()).get("unavailableAllowed") != LET_GO:
                await asyncio.sleep(0.05)
        pods.is_full = True
        # when
        cpu, begun = time.process_time(), time.monotonic()
        async with asyncio.timeout(120):
            await asyncio.gather(*(pods.remove(number) for number in range(GOING)))
        cpu, took = time.process_time() - cpu, time.monotonic() - begun
        stats = [one.budgeting.spender.stats() for one in found]
        # then
        async with asyncio.timeout(60):
            while (await status()).get("currentAvailable") != PODS_IN_ALL:
                await asyncio.sleep(0.05)
        watching.cancel()
    assert pods.fewest >= PODS_IN_ALL - LET_GO
    assert pods.answers["admitted"] == GOING
    # and nobody was refused for another reason than that the budget was spent
    assert set(pods.answers) <= {"admitted", REFUSED}
    # and pods were let go many at once, by every replica
    writes, conflicts = sum(one.writes for one in stats), sum(one.conflicts for one in stats)
    assert all(one.asked for one in stats)
    assert writes <= GOING
    asked = sum(pods.answers.values())
    _log.info(
        "%d asked, %d admitted, fewest serving %d; %d status writes (%d conflicts), %.2f s, CPU %.1f ms each",
        *(asked, GOING, pods.fewest, writes, conflicts, took, 1e3 * cpu / asked),
    )
