"""A cluster of one's own for a command: sandbox, CRDs, admission and manager, in one process.

ClusterSettings ──▶ playground() ──▶ Playground(cluster, manager, client) until the block ends
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from pykruise.admission.reviewers import reviewers
from pykruise.kinds import conversions, crds
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.metered import MeteredTransport
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.manager.manager import Manager
from pykruise.sandbox.apiserver import ConversionFunctions
from pykruise.sandbox.cluster import Cluster, ClusterSettings

MANAGER_USER = "system:serviceaccount:kruise-system:kruise-manager"


class Playground(msgspec.Struct, frozen=True):
    """What runs."""

    cluster: Cluster
    manager: Manager
    client: Client
    """The user's own, with all rights."""
    running: asyncio.Task[None]
    """The manager at work."""
    metered: MeteredTransport
    """What the manager's requests go through."""

    @property
    def writes(self) -> int:
        """Writes by the manager so far."""
        return self.metered.writes

    async def cluster_failed_or(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raises what a part of the cluster or the manager died of."""
        stopping = asyncio.create_task(stop.wait())
        failing = asyncio.create_task(self.cluster.wait_failed())
        try:
            await asyncio.wait({stopping, failing, self.running}, return_when=asyncio.FIRST_COMPLETED)
            self.cluster.raise_failure()
            if self.running.done():
                await self.running
        finally:
            stopping.cancel()
            failing.cancel()


@asynccontextmanager
async def playground(
    settings: ClusterSettings, *, clock: Clock = system_clock, rng: random.Random | None = None
) -> AsyncIterator[Playground]:
    """Start everything, wait until the manager has seen the cluster, and stop it all at the end."""
    rng = rng or random.Random()
    converting = ConversionFunctions(conversions())
    async with Cluster(
        settings, clock=clock, rng=rng, reviewers=reviewers(), conversions=converting
    ) as cluster:
        for crd in crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        metered = MeteredTransport(cluster.transport_for(MANAGER_USER))
        manager = Manager(Client(metered, clock=clock, rng=rng), clock=clock, rng=rng, freeze_heap=True)
        running = asyncio.create_task(manager.run(), name="manager")
        try:
            await _synced_or_failed(manager, running)
            yield Playground(cluster, manager, cluster.client, running, metered)
        finally:
            manager.stop()
            await running


async def _synced_or_failed(manager: Manager, running: asyncio.Task[None]) -> None:
    """Wait for the caches, but not for a manager that has died."""
    synced = asyncio.create_task(manager.wait_synced())
    await asyncio.wait({synced, running}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        synced.cancel()
        await running
