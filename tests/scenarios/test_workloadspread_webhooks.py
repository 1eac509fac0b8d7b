"""Several replicas of the webhooks spread pods over HTTPS, and restart while pods are created.

On both clusters: API server ──HTTPS──▶ balancer ──▶ two replicas. No controller of workloads is there: the test
creates the pods, and tries again as such a controller does.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import PODS
from pykruise.manager.webhooks import Webhooks
from support.spreads import placed_in, pod, spread, subset
from support.webhook_place import AT_ONCE, webhook_place
from support.webhook_place import Place as WebhookPlace
from testbed.control_plane import ControlPlane

# Sockets and TLS are real, and so is time.
pytestmark = pytest.mark.real_time


class Place:
    """A cluster whose webhooks are behind the balancer, with a WorkloadSpread."""

    def __init__(self, place: WebhookPlace) -> None:
        self._found = place
        self.user, self.namespace, self.balancer = place.user, place.namespace, place.balancer
        self.replicas = place.replicas

    async def spread(self, webhookses: Sequence[Webhooks], *subsets: Document) -> None:
        """Create a WorkloadSpread that all replicas know."""
        document = spread(*subsets)
        document["metadata"] = {"name": "ws"}
        await self.user.create(WORKLOAD_SPREADS, self.namespace, document)
        async with asyncio.timeout(30):
            for webhooks in webhookses:
                while not await webhooks.reviews.readers["workloadspread"].list_spreads(self.namespace):
                    await asyncio.sleep(0.02)

    async def entries(self) -> dict[str, Document]:
        """Name of a subset → its entry in the status."""
        stored = decode(await self.user.get(WORKLOAD_SPREADS, self.namespace, "ws"))
        [entries] = stored["status"]["versionedSubsetStatuses"].values()
        return {entry["name"]: entry for entry in entries}


class Creator:
    """Creates pods as a workload's controller does: again and again until they are there."""

    def __init__(self, place: Place, *, at_once: int) -> None:
        self.placed: dict[str, str] = {}
        """Name of an existing pod → its subset."""
        self.refused = 0
        self.go_on = asyncio.Event()
        """Set when pods that are held back may be created."""
        self._place = place
        self._turns = asyncio.Semaphore(at_once)

    @property
    def counts(self) -> Counter[str]:
        """Pods by subset."""
        return Counter(self.placed.values())

    async def create(self, count: int, *, prefix: str = "web", held_back: int = 0) -> None:
        """Create this number of pods; the last `held_back` of them wait for `go_on`."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(count - held_back):
                tasks.create_task(self._create(f"{prefix}-{number}"))
            if held_back:
                await self.go_on.wait()
            for number in range(count - held_back, count):
                tasks.create_task(self._create(f"{prefix}-{number}"))

    async def until(self, count: int) -> None:
        """Wait until this number of pods exists."""
        async with asyncio.timeout(60):
            while len(self.placed) < count:
                await asyncio.sleep(0.01)

    async def _create(self, name: str) -> None:
        body = pod(name)
        del body["metadata"]["namespace"]
        async with self._turns:
            while name not in self.placed:
                try:
                    result = decode(await self._place.user.create(PODS, self._place.namespace, body))
                except KubeError:
                    self.refused += 1
                    await asyncio.sleep(0.1)
                else:
                    self.placed[name] = placed_in(result)


@pytest.fixture
async def place(quiet_plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Place]:
    async with webhook_place(quiet_plane, tmp_path) as place:
        yield Place(place)


async def test_restarting_replicas_assign_no_slot_twice(place: Place) -> None:
    """workloadspread case 4, across processes and restarts"""
    creator = Creator(place, at_once=8)
    # given two replicas, and pods that come all the time
    async with place.replicas() as webhookses:
        await place.spread(webhookses, subset("a", 12), subset("b", 16), subset("c"))
        creating = asyncio.create_task(creator.create(40, held_back=16))
        # when connections break while pods are reviewed
        await creator.until(8)
        await place.balancer.cut()
        await creator.until(16)
    # and then no replica serves for a while, and then two others
    creator.go_on.set()
    await asyncio.sleep(0.5)
    assert not creating.done(), (creating, creator.counts, creator.refused)
    async with place.replicas():
        await creating
    # then
    assert creator.refused
    assert creator.counts == {"a": 12, "b": 16, "c": 12}
    # and the status has a slot for each pod
    entries = await place.entries()
    assert {name: entry["missingReplicas"] for name, entry in entries.items()} == {"a": 0, "b": 0, "c": -1}
    noted = {pod: name for name, entry in entries.items() for pod in entry.get("creatingPods") or ()}
    assert noted == {pod: name for pod, name in creator.placed.items() if name != "c"}


async def test_500_pods_through_two_replicas_fill_each_subset_exactly(place: Place) -> None:
    """workloadspread case 20, 64 at once"""
    creator = Creator(place, at_once=AT_ONCE)
    async with place.replicas() as webhookses:
        await place.spread(webhookses, subset("a", 120), subset("b", 200), subset("c"))
        # when
        await creator.create(500)
        stats = [
            webhooks.reviews.pod_chain.shared["workloadspread"].allocator.read_stats()
            for webhooks in webhookses
        ]
    # then
    assert creator.counts == {"a": 120, "b": 200, "c": 180}
    entries = await place.entries()
    assert {name: entry["missingReplicas"] for name, entry in entries.items()} == {"a": 0, "b": 0, "c": -1}
    # and both replicas noted places, many at once
    assert all(stat.writes for stat in stats)
    assert sum(stat.writes for stat in stats) <= 0.2 * 500
