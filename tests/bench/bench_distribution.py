"""Cost of a Secret in thousands of namespaces: writes, reads, time and memory.

PYTHONPATH=tests python -m bench.bench_distribution [--namespaces 2000] [--others 5000] [--kilobytes 4]

Everything runs in one process, including the sandbox's API server. The memory of Python objects is that of the
manager's caches: the difference that the start of a manager makes. Prints; asserts nothing.
"""

import argparse
import asyncio
import base64
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from pykruise.admission.reviewers import build_reviewers  # noqa: E402
from pykruise.admission.settings import make_admission_settings  # noqa: E402
from pykruise.kinds import build_crds, list_conversions  # noqa: E402
from pykruise.kinds.gates import Gates  # noqa: E402
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS  # noqa: E402
from pykruise.kube.client.client import Client  # noqa: E402
from pykruise.kube.client.metered import MeteredTransport  # noqa: E402
from pykruise.kube.clock import read_system_clock  # noqa: E402
from pykruise.kube.documents import decode  # noqa: E402
from pykruise.kube.patches.types import PatchType  # noqa: E402
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS  # noqa: E402
from pykruise.manager.manager import Manager  # noqa: E402
from pykruise.manager.settings import ManagerSettings  # noqa: E402
from pykruise.sandbox.apiserver import ConversionFunctions  # noqa: E402
from pykruise.sandbox.cluster import Cluster, ClusterSettings  # noqa: E402

NAME = "pull"
AT_ONCE = 32
SETTINGS = ManagerSettings(gates=Gates.of(ResourceDistributionGate=True))


def secret(name: str, kilobytes: int, seed: int) -> dict[str, Any]:
    data = base64.b64encode(random.Random(seed).randbytes(kilobytes * 768)).decode()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"blob": data}}


class Bench:
    """A cluster, and a manager that can be restarted."""

    def __init__(self, cluster: Cluster, *, namespaces: int, kilobytes: int) -> None:
        self.cluster = cluster
        self.namespaces = namespaces
        self.kilobytes = kilobytes
        self.counting = MeteredTransport(cluster.make_transport("manager"))

    async def phase(self, name: str, act: Callable[[], Awaitable[Any]]) -> None:
        """Run the work, wait until all namespaces have the copy, and print the cost."""
        self.counting.requests.clear()
        began, cpu = time.perf_counter(), time.process_time()
        await act()
        while not await self.is_done():
            await asyncio.sleep(0.02)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        counted = {
            what: count for what, count in sorted(self.counting.requests.items()) if "WATCH" not in what
        }
        copies = sum(
            count for what, count in counted.items() if what.split()[1] == "secrets" and "GET" not in what
        )
        print(
            f"{name:28} {seconds:6.2f} s  {copies / self.namespaces:.4f} writes a namespace  "
            f"{1000 * cpu / self.namespaces:.2f} ms CPU each (API server too)  {counted}"
        )

    async def is_done(self) -> bool:
        doc = decode(await self.cluster.client.get(RESOURCE_DISTRIBUTIONS, "", NAME))
        status = doc.get("status") or {}
        return (
            status.get("observedGeneration") == doc["metadata"]["generation"]
            and status.get("succeeded") == status.get("desired") == self.namespaces
        )

    async def change(self, seed: int) -> None:
        spec = {"resource": secret(NAME, self.kilobytes, seed)}
        await self.cluster.client.patch(
            RESOURCE_DISTRIBUTIONS, "", NAME, {"spec": spec}, patch_type=PatchType.MERGE
        )

    async def create(self) -> None:
        doc = {
            "apiVersion": RESOURCE_DISTRIBUTIONS.api_version,
            "kind": RESOURCE_DISTRIBUTIONS.kind,
            "metadata": {"name": NAME},
            "spec": {
                "resource": secret(NAME, self.kilobytes, 1),
                "targets": {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            },
        }
        await self.cluster.client.create(RESOURCE_DISTRIBUTIONS, "", doc)

    async def tamper(self) -> None:
        patch = {"data": {"blob": base64.b64encode(b"wrong").decode()}}
        await self.cluster.client.patch(SECRETS, "n0", NAME, patch, patch_type=PatchType.MERGE)
        await asyncio.sleep(0.2)

    def manager(self) -> tuple[Manager, asyncio.Task[None]]:
        rng = random.Random(2)
        manager = Manager(Client(self.counting, rng=rng), settings=SETTINGS, rng=rng)
        return manager, asyncio.create_task(manager.run())


async def in_parallel(count: int, make: Callable[[int], Awaitable[Any]]) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await make(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def run(*, namespaces: int, others: int, kilobytes: int) -> None:
    """Create, change, change a copy, and restart."""
    rng = random.Random(1)
    async with Cluster(
        ClusterSettings(nodes=1, controllers=()),
        clock=read_system_clock,
        rng=rng,
        reviewers=build_reviewers(make_admission_settings(SETTINGS.gates)),
        conversions=ConversionFunctions(list_conversions()),
    ) as cluster:
        client = cluster.client
        for crd in build_crds():
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)

        async def namespace(number: int) -> None:
            doc = {"metadata": {"name": f"n{number}", "labels": {"team": "a"}}}
            await client.create(NAMESPACES, "", doc)

        async def other(number: int) -> None:
            doc = secret(f"other-{number}", kilobytes, number)
            await client.create(SECRETS, f"n{number % namespaces}", doc)

        await in_parallel(namespaces, namespace)
        await in_parallel(others, other)
        bench = Bench(cluster, namespaces=namespaces, kilobytes=kilobytes)
        print(f"{namespaces} namespaces, a Secret of {kilobytes} KB, {others} other Secrets of that size")
        manager, running = bench.manager()
        await manager.wait_synced()
        await bench.phase("created", bench.create)
        await bench.phase("changed", lambda: bench.change(2))
        await bench.phase("changed again", lambda: bench.change(3))
        await bench.phase("one copy changed by hand", bench.tamper)
        manager.stop()
        await running
        gc.collect()
        tracemalloc.start()

        async def start() -> None:
            nonlocal manager, running
            manager, running = bench.manager()
            await manager.wait_synced()
            await asyncio.sleep(3.0)

        await bench.phase("a new manager (3 s waited)", start)
        gc.collect()
        now, most = tracemalloc.get_traced_memory()
        await bench.phase("changed once more (traced)", lambda: bench.change(4))
        print(
            f"memory of a new manager: {now / 2**20:.1f} MiB held, {most / 2**20:.1f} MiB at most while it read "
            f"{(namespaces + others) * kilobytes / 1024:.0f} MiB of Secrets' metadata and its own copies"
        )
        manager.stop()
        await running


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespaces", type=int, default=2000)
    parser.add_argument("--others", type=int, default=5000)
    parser.add_argument("--kilobytes", type=int, default=4)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(namespaces=given.namespaces, others=given.others, kilobytes=given.kilobytes))
