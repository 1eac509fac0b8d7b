"""A manager alone with ten thousand pods: its memory, its CPU, and how long its event loop ever stands still.

sandbox (a process of its own, HTTP and TLS) ◀── pykruise's manager in this process, with a watch on its loop

PYTHONPATH=tests python -m bench.large [--pods 10000] [--nodes 100]. Prints; asserts nothing. The longest stop is
told in CPU time, so that other work on the machine does not count.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop

from bench.sandbox import cloneset, rss_mb
from pykruise.kinds import crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client import Client
from pykruise.kube.clock import system_clock
from pykruise.kube.config import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.http import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.manager.manager import Manager
from pykruise.sandbox.certificates import issue, kubeconfig_document, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront

TOKEN = "bench"
PATIENCE_S = 1800.0


class LargePhase(msgspec.Struct, frozen=True, kw_only=True):
    """One thing done to all pods; everything is the manager's alone."""

    name: str
    seconds: float
    cpu_ms_per_pod: float
    longest_stop_ms: float
    """CPU time between two turns of the loop, at most."""
    rss_mb: float


# ── the cluster ──────────────────────────────────────────────────────────────


async def serve(kubeconfig: Path, *, pods: int, nodes: int) -> None:
    """A sandbox without a manager, until killed."""
    settings = ClusterSettings(
        nodes=nodes, pods_per_node=-(-pods * 2 // nodes), start_s=0.0, ready_s=0.0, stop_s=0.0
    )
    certificate = issue(now=system_clock())
    async with Cluster(settings, clock=system_clock, rng=random.Random(1)) as cluster:
        for crd in crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        front = HttpFront(cluster.server, token=TOKEN, port=0, certificate=certificate)
        await front.start()
        document = kubeconfig_document(front.url, certificate.authority, TOKEN, context="bench")
        write_kubeconfig(kubeconfig, document)
        print("serving", flush=True)
        await asyncio.Event().wait()


# ── the manager ──────────────────────────────────────────────────────────────


class LoopWatch:
    """The most CPU time that this thread used between two turns of its loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - before)
            await asyncio.sleep(0.001)


async def run(*, pods: int, nodes: int) -> list[LargePhase]:
    """Create, update in place, recreate, restart the manager, scale in."""
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "bench.large", "--serve", str(kubeconfig), "--pods", str(pods), "--nodes", str(nodes)),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            transport = HttpTransport(load_kubeconfig(kubeconfig))
            try:
                return await _life(Client(transport, rng=random.Random(2)), pods)
            finally:
                await transport.close()
        finally:
            if server.returncode is None:
                server.kill()
            await server.wait()


async def _life(client: Client, pods: int) -> list[LargePhase]:
    def image(number: int, policy: str) -> dict[str, Any]:
        (container,) = cloneset(1)["spec"]["template"]["spec"]["containers"]
        return {
            "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": policy, "maxUnavailable": "100%"}},
            "template": {"spec": {"containers": [{**container, "image": f"nginx:{number}"}]}},
        }

    async def change(spec: dict[str, Any]) -> None:
        await client.patch(CLONE_SETS, "default", "web", {"spec": spec}, patch_type=PatchType.MERGE)

    async def create() -> None:
        await client.create(CLONE_SETS, "default", cloneset(pods))

    manager = Manager(client, rng=random.Random(3), freeze_heap=True)
    running = asyncio.create_task(manager.run())
    await manager.wait_synced()
    found = [
        await _measure("scale up until ready", create, client, pods=pods, replicas=pods),
        await _measure(
            "in place, maxUnavailable 100%",
            lambda: change(image(2, "InPlaceIfPossible")),
            client,
            pods=pods,
            replicas=pods,
        ),
        await _measure(
            "recreate, maxUnavailable 100%",
            lambda: change(image(3, "ReCreate")),
            client,
            pods=pods,
            replicas=pods,
        ),
        await _measure(
            "scale in by 10%",
            lambda: change({"replicas": pods - pods // 10}),
            client,
            pods=pods // 10,
            replicas=pods - pods // 10,
        ),
    ]
    manager.stop()
    await running
    return found


async def _measure(
    name: str, act: Callable[[], Awaitable[Any]], client: Client, *, pods: int, replicas: int
) -> LargePhase:
    watch = LoopWatch()
    watching = asyncio.create_task(watch.run())
    began, cpu = time.perf_counter(), time.process_time()
    await act()
    async with asyncio.timeout(PATIENCE_S):
        while not await _is_done(client, replicas):
            await asyncio.sleep(0.2)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return LargePhase(
        name=name,
        seconds=seconds,
        cpu_ms_per_pod=cpu * 1000 / pods,
        longest_stop_ms=watch.longest_s * 1000,
        rss_mb=rss_mb(),
    )


async def _is_done(client: Client, replicas: int) -> bool:
    found = decode(await client.get(CLONE_SETS, "default", "web"))
    status = found.get("status") or {}
    counts = {status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")}
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == {replicas}


def text(phases: list[LargePhase]) -> str:
    """The phases as a table."""
    head = f"{'phase':<32}{'s':>8}{'CPU ms/pod':>12}{'stop ms':>9}{'RSS MB':>8}"
    return "\n".join(
        [
            head,
            *(
                f"{one.name:<32}{one.seconds:>8.1f}{one.cpu_ms_per_pod:>12.2f}{one.longest_stop_ms:>9.0f}"
                f"{one.rss_mb:>8.0f}"
                for one in phases
            ),
        ]
    )


def main() -> None:
    """Run it, or be its server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if asked.serve:
            runner.run(serve(asked.serve, pods=asked.pods, nodes=asked.nodes))
        else:
            print(text(runner.run(run(pods=asked.pods, nodes=asked.nodes))))


if __name__ == "__main__":
    main()
