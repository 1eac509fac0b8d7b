"""A manager alone with ten thousand pods: its memory, its CPU, and the longest stop of its event loop.

sandbox (its own process, HTTP and TLS)      ◀── lone_manager.py: `pykruise manager`, whose loop is measured
                                             ◀── this process: writes, and waiting for them

PYTHONPATH=tests python -m bench.large [--pods 10000] [--nodes 100] [--touched 500]. Prints; asserts nothing.
The pods exist before the measured manager starts; then the bench changes some of them in each way.

With --beside CHECKOUT the manager of another checkout runs at the same time, on its own sandbox, --pairs (8)
times, and the ratios of the figures of this checkout to those of the other are printed. Changes of the machine's speed
affect both, so medians of eight differ by one or two hundredths, and single runs by ten.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench.orphans import end_with_parent
from bench.sandbox import cloneset
from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.manager.manager import Manager
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from support.up import ALONE

TOKEN = "bench"
PATIENCE_S = 1800.0


class LargePhase(msgspec.Struct, frozen=True, kw_only=True):
    """One operation on some pods; all figures are those of the manager alone."""

    name: str
    pods: int
    """Number of changed pods."""
    seconds: float
    cpu_ms_per_pod: float
    longest_stop_ms: float
    """Maximum CPU time between two turns of the loop."""
    longest_collection_ms: float
    """Maximum CPU time of a garbage collection."""
    rss_mb: float
    plans: int
    """Number of plans of the CloneSet."""
    plan_ms: float
    """Mean CPU time of a plan."""
    longest_plan_ms: float
    where: str
    """The call with the longest stop; empty without WHERE in the environment."""


# ── the cluster ──────────────────────────────────────────────────────────────


async def serve(folder: Path, *, pods: int, nodes: int) -> None:
    """A sandbox with the pods of a CloneSet and no manager any more, until killed."""
    settings = ClusterSettings(
        nodes=nodes, pods_per_node=-(-pods * 2 // nodes), start_s=0.0, ready_s=0.0, stop_s=0.0
    )
    certificate = issue(now=read_system_clock())
    rng = random.Random(1)
    async with Cluster(settings, clock=read_system_clock, rng=rng) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        await _populate(cluster, pods)
        front = HttpFront(cluster.server, token=TOKEN, port=0, certificate=certificate)
        await front.start()
        document = build_kubeconfig(front.url, certificate.authority, TOKEN, context="bench")
        write_kubeconfig(folder / "kubeconfig", document)
        (folder / "token").write_text(TOKEN)
        (folder / "ca.crt").write_bytes(certificate.authority)
        print(front.url, flush=True)
        await asyncio.Event().wait()


async def _populate(cluster: Cluster, pods: int) -> None:
    manager = Manager(Client(cluster.make_transport("manager"), rng=random.Random(4)), rng=random.Random(4))
    running = asyncio.create_task(manager.run())
    await cluster.client.create(CLONE_SETS, "default", cloneset(pods))
    await settled(cluster.client, pods)
    manager.stop()
    await running


# ── the manager ──────────────────────────────────────────────────────────────


class LoneManager:
    """The process that is measured."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(
        cls,
        folder: Path,
        url: str,
        *,
        flags: Sequence[str] = ALONE,
        env: Mapping[str, str] | None = None,
        log: int | None = None,
        checkout: Path | None = None,
    ) -> "LoneManager":
        """Start a manager as in a pod: with a service account, and the API server's address in the environment.

        `log`: a file for its log. `checkout`: the checkout of the manager; None: this one.
        """
        quiet = None if os.environ.get("PROFILE") else asyncio.subprocess.DEVNULL
        server = urlsplit(url)
        where = {
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.lone_manager", str(folder), *flags),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=quiet if log is None else log,
            env={**os.environ, **where, **(env or {}), **(_imported_from(checkout) if checkout else {})},
            cwd=checkout,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    async def report(self) -> dict[str, Any]:
        """See LoopWatch.report."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        report: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return report

    async def end(self) -> None:
        """End the process immediately."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def _imported_from(checkout: Path) -> dict[str, str]:
    """The environment in which modules are those of another checkout, and not those that are installed."""
    sources = [*checkout.glob("packages/*/src"), *checkout.glob("src")]
    return {"PYTHONPATH": os.pathsep.join(map(str, (*sources, checkout / "tests", checkout)))}


async def run(*, pods: int, nodes: int, touched: int, checkout: Path | None = None) -> list[LargePhase]:
    """Start a manager on the pods, update some in place, recreate some, scale in and out."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.large", "--serve", name),
            *("--pods", str(pods), "--nodes", str(nodes)),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            url = (await server.stdout.readline()).decode().strip()
            transport = HttpTransport(load_kubeconfig(folder / "kubeconfig"))
            manager = await LoneManager.start(folder, url, checkout=checkout)
            try:
                return await _life(Client(transport, rng=random.Random(2)), manager, pods, touched)
            finally:
                await manager.end()
                await transport.close()
        finally:
            if server.returncode is None:
                server.kill()
            await server.wait()


async def _life(client: Client, manager: LoneManager, pods: int, touched: int) -> list[LargePhase]:
    def image(number: int, policy: str) -> dict[str, Any]:
        (container,) = cloneset(1)["spec"]["template"]["spec"]["containers"]
        rolling = {"podUpdatePolicy": policy, "maxUnavailable": "100%", "partition": pods - touched}
        return {
            "updateStrategy": {"rollingUpdate": rolling},
            "template": {"spec": {"containers": [{**container, "image": f"nginx:{number}"}]}},
        }

    def change(spec: dict[str, Any]) -> Callable[[], Awaitable[Any]]:
        return lambda: client.patch(CLONE_SETS, "default", "web", {"spec": spec}, patch_type=PatchType.MERGE)

    steps: list[tuple[str, Callable[[], Awaitable[Any]], int, int]] = [
        # A change is necessary, because a reconcile without a change would leave no trace.
        ("start, with all pods there", change({"minReadySeconds": 1}), pods, pods),
        ("in place", change(image(2, "InPlaceIfPossible")), pods, touched),
        ("recreate", change(image(3, "ReCreate")), pods, touched),
        ("scale in", change({"replicas": pods - touched}), pods - touched, touched),
        ("scale out", change({"replicas": pods}), pods, touched),
    ]
    large_phases: list[LargePhase] = []
    cpu_s = 0.0
    for name, act, replicas, count in steps:
        began = time.perf_counter()
        await act()
        await settled(client, replicas, updated=touched if name in ("in place", "recreate") else None)
        seconds = time.perf_counter() - began
        seen = await manager.report()
        large_phases.append(
            LargePhase(
                name=name,
                pods=count,
                seconds=seconds,
                cpu_ms_per_pod=(seen["cpu_s"] - cpu_s) * 1000 / count,
                longest_stop_ms=seen["stop_ms"],
                longest_collection_ms=seen["collection_ms"],
                rss_mb=seen["rss_mb"],
                plans=seen["plans"],
                plan_ms=seen["plans_ms"] / max(seen["plans"], 1),
                longest_plan_ms=seen["longest_plan_ms"],
                where=seen["where"],
            )
        )
        cpu_s = seen["cpu_s"]
    return large_phases


async def settled(client: Client, replicas: int, *, updated: int | None = None) -> None:
    """Return when this number of the CloneSet's pods is available, and this number is updated."""
    async with asyncio.timeout(PATIENCE_S):
        while not await _is_done(client, replicas, updated):
            await asyncio.sleep(0.2)


async def _is_done(client: Client, replicas: int, updated: int | None) -> bool:
    result = decode(await client.get(CLONE_SETS, "default", "web"))
    status = result.get("status") or {}
    wanted = {
        "observedGeneration": result["metadata"]["generation"],
        "replicas": replicas,
        "availableReplicas": replicas,
        **({"updatedReplicas": updated} if updated is not None else {}),
    }
    return all(status.get(field) == value for field, value in wanted.items())


def text(phases: list[LargePhase]) -> str:
    """The phases as a table."""
    head = (
        f"{'phase':<28}{'pods':>7}{'s':>8}{'CPU ms/pod':>12}{'stop ms':>9}{'GC ms':>7}{'RSS MB':>8}"
        f"{'plans':>7}{'ms':>7}{'longest':>9}  where"
    )
    return "\n".join(
        [
            head,
            *(
                f"{phase.name:<28}{phase.pods:>7}{phase.seconds:>8.1f}{phase.cpu_ms_per_pod:>12.2f}"
                f"{phase.longest_stop_ms:>9.0f}{phase.longest_collection_ms:>7.0f}{phase.rss_mb:>8.0f}"
                f"{phase.plans:>7}{phase.plan_ms:>7.1f}{phase.longest_plan_ms:>9.1f}  {phase.where}"
                for phase in phases
            ),
        ]
    )


async def compare(
    beside: Path, *, pairs: int, pods: int, nodes: int, touched: int
) -> Sequence[Sequence[tuple[LargePhase, LargePhase]]]:
    """Run this number of pairs, and return the phases of both checkouts."""
    compare = []
    for _ in range(pairs):
        both = (
            run(pods=pods, nodes=nodes, touched=touched, checkout=checkout) for checkout in (None, beside)
        )
        here, there = await asyncio.gather(*both)
        compare.append(list(zip(here, there, strict=True)))
    return compare


def ratios(pairs: Sequence[Sequence[tuple[LargePhase, LargePhase]]]) -> str:
    """The medians of the ratios of both checkouts, by phase and for all phases together."""

    def median(figures: Sequence[tuple[float, float]]) -> float:
        return statistics.median(here / there for here, there in figures)

    def cpu_s(phases: Sequence[LargePhase]) -> float:
        return sum(phase.cpu_ms_per_pod * phase.pods for phase in phases) / 1000

    lines = [f"{'phase':<28}{'pods':>7}{'CPU ms/pod':>12}{'there':>8}{'CPU':>7}{'time':>7}{'RSS':>7}"]
    for phase in zip(*pairs, strict=True):
        name, pods = phase[0][0].name, phase[0][0].pods
        here, there = (statistics.median(item[side].cpu_ms_per_pod for item in phase) for side in (0, 1))
        cpu = median([(value.cpu_ms_per_pod, other.cpu_ms_per_pod) for value, other in phase])
        seconds = median([(value.seconds, other.seconds) for value, other in phase])
        rss = median([(value.rss_mb, other.rss_mb) for value, other in phase])
        lines.append(f"{name:<28}{pods:>7}{here:>12.2f}{there:>8.2f}{cpu:>7.3f}{seconds:>7.3f}{rss:>7.3f}")
    whole = median(
        [
            (cpu_s([large_phase for large_phase, _ in pair]), cpu_s([other for _, other in pair]))
            for pair in pairs
        ]
    )
    return "\n".join([*lines, f"{'all of it':<55}{whole:>7.3f}"])


def main() -> None:
    """Run it, or be its server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--touched", type=int, default=500)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if asked.serve:
            end_with_parent()
            runner.run(serve(asked.serve, pods=asked.pods, nodes=asked.nodes))
            return
        size = {"pods": asked.pods, "nodes": asked.nodes, "touched": asked.touched}
        if asked.beside:
            print(ratios(runner.run(compare(asked.beside.resolve(), pairs=asked.pairs, **size))))
        else:
            print(text(runner.run(run(**size))))


if __name__ == "__main__":
    main()
