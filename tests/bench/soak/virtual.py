"""Hours of churn in virtual time: all that `pykruise up` runs, in this process.

Churn ──▶ playground: API server, nodes, agents, webhooks, manager ──▶ a Sample every half an hour

A virtual hour takes seconds. API servers end watches after some minutes, so caches open them again all the time.
"""

import asyncio
import gc
import os
import random
from collections.abc import Callable, Sequence
from typing import Final

from bench.sandbox import rss_mb
from bench.soak.churn import Churn
from bench.soak.samples import Sample
from pykruise.agent.simulated import make_simulated_agents
from pykruise.cli.playground import Playground, PlaygroundContents, start_playground
from pykruise.kinds.gates import Gates
from pykruise.kube.clock import make_loop_clock, parse_time
from pykruise.kube.documents import Document
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, StorageChange
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.virtual_time import VirtualLoop

__all__ = ["run_virtual"]

START: Final = parse_time("2026-01-31T12:00:00Z")
TURN_S: Final = 120.0
"""Seconds between two turns of churn."""
REST_S: Final = 300.0
"""Seconds without changes before each sample: work in progress must not look like growth."""
GATES: Final = Gates.of(ImagePullJobGate=True, ResourceDistributionGate=True)


class CountingStorage(MemoryStorage):
    """A storage that knows the number of its objects, and keeps a short history, as after a compaction."""

    def __init__(self) -> None:
        super().__init__(history_events=200)
        self.count = 0

    def commit(self, change: StorageChange) -> None:
        """Commit and count."""
        super().commit(change)
        self.count += (change.new is not None) - (change.old is not None)


def run_virtual(
    documents: Sequence[Document],
    *,
    hours: float,
    every_s: float,
    seed: int,
    on_sample: Callable[[Sample], None],
) -> tuple[list[Sample], dict[str, int]]:
    """Churn for this number of virtual hours, with a sample after each `every_s` seconds.

    Returns the samples, and the numbers of refused changes by kind and class of the error.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_soak(documents, hours=hours, every_s=every_s, seed=seed, on_sample=on_sample))


async def _soak(
    documents: Sequence[Document],
    *,
    hours: float,
    every_s: float,
    seed: int,
    on_sample: Callable[[Sample], None],
) -> tuple[list[Sample], dict[str, int]]:
    settings = ClusterSettings(nodes=6, agents=make_simulated_agents())
    rng = random.Random(seed)
    samples: list[Sample] = []
    storage = CountingStorage()
    async with start_playground(
        settings,
        manager_settings=ManagerSettings(gates=GATES),
        clock=make_loop_clock(start=START),
        rng=rng,
        contents=PlaygroundContents(storage=storage),
        is_repeatable=True,
    ) as running:
        churn = Churn(running.client, random.Random(seed + 1), documents)
        await churn.begin()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() - began < hours * 3600:
            end = loop.time() + every_s - REST_S
            while loop.time() < end:
                await churn.change_all()
                await asyncio.sleep(TURN_S)
            await asyncio.sleep(REST_S)
            sample = _sample(running, storage, at_s=loop.time() - began)
            samples.append(sample)
            on_sample(sample)
            running.cluster.raise_failure()
    return samples, churn.refused


def _sample(running: Playground, storage: CountingStorage, *, at_s: float) -> Sample:
    stats = running.manager.read_stats()
    gc.collect()
    return Sample(
        at_s=at_s,
        rss_mb=rss_mb(),
        file_descriptors=len(os.listdir("/proc/self/fd")),
        tasks=len(asyncio.all_tasks()),
        cached=sum(cache.objects for cache in stats.caches.values()),
        queued=sum(queue.depth + queue.delayed for queue in stats.queues.values()),
        python_objects=len(gc.get_objects()),
        stored=storage.count,
    )
