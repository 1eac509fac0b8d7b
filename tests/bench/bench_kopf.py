"""Compare a small operator on pykruise's runtime with the same one in kopf, sequentially, over HTTPS with a sandbox.

Sandbox cluster + HttpFront (counts requests) ◀── HTTPS ── page_operators/on_runtime.py or on_kopf.py, one process each

    make bench-kopf [N=10000] [CHANGES=1000] [ROUNDS=2]

For each contender and round: N Sites are created and settle; CHANGES of them change; the operator ends, a hundredth of
the Sites change, and it starts again. A Site is settled when its ConfigMap has its page and its status its generation.
The bench's own requests do not use HTTPS, so that only the operator's requests are counted. Prints; asserts nothing.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
import yaml

from bench.page_operators.on_runtime import SITES
from bench.stage import cpu_s, rss_mb
from pykruise.kube.client.transport import Response
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.http.app import Streamed
from pykruise.kube.http.wire import WireRequest
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from support.sources import ROOT

HERE: Final = Path(__file__).parent / "page_operators"
NAMESPACE: Final = "bench"
TOKEN: Final = "bench"
CONCURRENCY: Final = 16
"""Concurrent requests of the bench itself."""
QUIET_S: Final = 2.0
"""The operator counts as settled if it sends no request for this time."""
PATIENCE_S: Final = 1800.0

Start = Callable[[Path], "subprocess.Popen[bytes]"]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one contender in one round."""

    created_per_s: float
    """Sites created and settled per second."""
    changes_per_s: float
    requests_per_creation: float
    requests_per_change: float
    cpu_ms_per_change: float
    """CPU of the operator's process, in milliseconds."""
    start_s: float
    """Seconds from the start of the process until the Sites that changed before are settled."""
    start_requests: float
    start_cpu_s: float
    """CPU time until nothing is left to do."""
    rss_mb: float
    """Memory after that start, with all Sites and nothing to do."""
    requests: Mapping[str, int]
    """Requests during the changes, by verb and resource."""


def contenders(folder: Path) -> Mapping[str, Start]:
    """Return how each operator is started, by its name in the table."""

    def start(arguments: Sequence[str], kubeconfig: Path) -> "subprocess.Popen[bytes]":
        log = (folder / "operator.log").open("ab")
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=log,
            stderr=log,
        )

    runtime = [str(HERE / "on_runtime.py"), "--metrics-bind-address=0", "--health-probe-bind-address=0"]
    kopf = ["-m", "kopf", "run", "--standalone", f"--namespace={NAMESPACE}", str(HERE / "on_kopf.py")]
    return {
        "pykruise.operators": lambda path: start([*runtime, f"--namespace={NAMESPACE}"], path),
        "kopf": lambda path: start(kopf, path),
    }


class CountingFront(HttpFront):
    """The API server over HTTPS, which counts requests. Only operators send any to it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.requests: Counter[str] = Counter()
        self.last_at = time.perf_counter()

    async def answer(self, request: WireRequest) -> Response | Streamed:
        """Count the request, and respond."""
        resource = next(
            (name for name in ("sites", "configmaps", "events") if f"/{name}" in request.path), "others"
        )
        if request.path.endswith("/status"):
            resource += "/status"
        verb = "WATCH" if "watch" in request.query else request.method
        self.requests[f"{verb} {resource}"] += 1
        self.last_at = time.perf_counter()
        return await super().answer(request)


class KopfBench:
    """A cluster on which one contender works."""

    def __init__(
        self, cluster: Cluster, front: CountingFront, kubeconfig: Path, *, sites: int, changes: int
    ) -> None:
        self._client = cluster.client
        self._front = front
        self._kubeconfig = kubeconfig
        self._names = [f"site-{number:05}" for number in range(sites)]
        self._changed = self._names[:: max(1, sites // changes)][:changes]
        self._changed_meanwhile = self._names[:: min(100, sites)]
        self._version = 0

    async def measure(self, start: Start) -> Figures:
        """Run all phases of one contender."""
        async with self._running(start) as pid:
            await self._until_watching()
            began, before = time.perf_counter(), self._front.requests.total()
            await self._each(self._names, self._create)
            await self._until_settled(self._names)
            created_s = time.perf_counter() - began
            await self._until_quiet()
            creation_requests = self._front.requests.total() - before
            counted, cpu, began = self._front.requests.copy(), cpu_s(pid), time.perf_counter()
            await self._change(self._changed)
            await self._until_settled(self._changed)
            changed_s = time.perf_counter() - began
            await self._until_quiet()
            requests, changed_cpu_s = self._front.requests - counted, cpu_s(pid) - cpu
        await self._change(self._changed_meanwhile)
        counted, began = self._front.requests.copy(), time.perf_counter()
        async with self._running(start) as pid:
            await self._until_settled(self._changed_meanwhile)
            start_s = time.perf_counter() - began
            await self._until_quiet()
            start_cpu_s, memory = cpu_s(pid), rss_mb(pid)
            start_requests = (self._front.requests - counted).total()
        return Figures(
            created_per_s=len(self._names) / created_s,
            changes_per_s=len(self._changed) / changed_s,
            requests_per_creation=creation_requests / len(self._names),
            requests_per_change=requests.total() / len(self._changed),
            cpu_ms_per_change=changed_cpu_s * 1000 / len(self._changed),
            start_s=start_s,
            start_requests=start_requests,
            start_cpu_s=start_cpu_s,
            rss_mb=memory,
            requests=dict(requests.most_common()),
        )

    @asynccontextmanager
    async def _running(self, start: Start) -> AsyncIterator[int]:
        process = start(self._kubeconfig)
        try:
            yield process.pid
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 30)
        finally:
            process.kill()
            process.wait()

    async def _until_watching(self) -> None:
        async with asyncio.timeout(60):
            while not self._front.requests["WATCH sites"]:
                await asyncio.sleep(0.02)
        await self._until_quiet()

    async def _each(self, names: Sequence[str], act: Callable[[str], Awaitable[Any]]) -> None:
        waiting = iter(names)

        async def work() -> None:
            for name in waiting:
                await act(name)

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))

    async def _create(self, name: str) -> None:
        kind: Document = {"apiVersion": SITES.api_version, "kind": SITES.kind}
        document = {**kind, "metadata": {"name": name}, "spec": {"html": f"<p>{name} 0</p>"}}
        await self._client.create(SITES, NAMESPACE, document)

    async def _change(self, names: Sequence[str]) -> None:
        self._version += 1

        async def change(name: str) -> None:
            patch = {"spec": {"html": f"<p>{name} {self._version}</p>"}}
            await self._client.patch(SITES, NAMESPACE, name, patch, patch_type=PatchType.MERGE)

        await self._each(names, change)

    async def _until_settled(self, names: Sequence[str]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            for name in names:
                while not await self._is_settled(name):
                    await asyncio.sleep(0.02)

    async def _is_settled(self, name: str) -> bool:
        site = decode(await self._client.get(SITES, NAMESPACE, name))
        if (site.get("status") or {}).get("observedGeneration") != site["metadata"]["generation"]:
            return False
        try:
            page = decode(await self._client.get(CONFIG_MAPS, NAMESPACE, f"{name}-page"))
        except NotFoundError:
            return False
        is_right: bool = page["data"]["index.html"] == site["spec"]["html"]
        return is_right

    async def _until_quiet(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while time.perf_counter() - self._front.last_at < QUIET_S:
                await asyncio.sleep(0.1)


async def run(*, sites: int, changes: int, rounds: int) -> dict[str, list[Figures]]:
    """Return the figures of each contender, a list with one entry per round."""
    result: dict[str, list[Figures]] = {}
    certificate = issue(now=read_system_clock())
    definition = yaml.safe_load((ROOT / "examples/operator/crd.yaml").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = contenders(folder)
        for number in range(rounds):
            for contender in rotate(list(starts), number):
                # Each has a new API server, without the history of another contender.
                async with Cluster(
                    ClusterSettings(nodes=0, controllers=()), rng=random.Random(number)
                ) as cluster:
                    await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
                    await cluster.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
                    front = CountingFront(cluster.server, token=TOKEN, port=0, certificate=certificate)
                    await front.start()
                    try:
                        document = build_kubeconfig(front.url, certificate.authority, TOKEN, "bench")
                        write_kubeconfig(folder / "kubeconfig", document)
                        bench = KopfBench(cluster, front, folder / "kubeconfig", sites=sites, changes=changes)
                        figures = await bench.measure(starts[contender])
                    except BaseException:
                        print((folder / "operator.log").read_text("utf-8", "replace")[-4000:])
                        raise
                    finally:
                        await front.stop()
                result.setdefault(contender, []).append(figures)
                print(
                    f"round {number + 1}, {contender}: {json.dumps(msgspec.to_builtins(figures))}", flush=True
                )
    return result


def rotate(names: Sequence[str], by: int) -> list[str]:
    """Return the names, beginning with another one each time."""
    first = by % len(names)
    return [*names[first:], *names[:first]]


ROWS: Final[Mapping[str, tuple[str, str]]] = {
    "created_per_s": ("Sites created, with their pages, per second", ".0f"),
    "changes_per_s": ("changes completed per second", ".0f"),
    "requests_per_creation": ("requests per creation", ".2f"),
    "requests_per_change": ("requests per change", ".2f"),
    "cpu_ms_per_change": ("CPU ms per change", ".2f"),
    "start_s": ("seconds from the start until the pages of the changed Sites are correct", ".1f"),
    "start_requests": ("… requests until all work is done", ".0f"),
    "start_cpu_s": ("… CPU s", ".1f"),
    "rss_mb": ("memory, MiB", ".0f"),
}
"""Lines of the table: the field, its words, its format."""


def table(results: Mapping[str, Sequence[Figures]]) -> str:
    """Return a Markdown table: the middle of the rounds, and in brackets its ratio to the first contender."""
    names = list(results)
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for field, (words, style) in ROWS.items():
        middles = [statistics.median(getattr(figures, field) for figures in results[name]) for name in names]
        cells = [
            f"{middle:{style}}" + (f" ({middle / middles[0]:.2g}×)" if number and middles[0] else "")
            for number, middle in enumerate(middles)
        ]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a line for each life and a table of all."""
    parser = argparse.ArgumentParser(prog="make bench-kopf", description="Measure operators beside kopf.")
    parser.add_argument("--sites", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        results = runner.run(run(sites=asked.sites, changes=asked.changes, rounds=asked.rounds))
    print(
        f"{asked.sites} Sites, {asked.changes} changes, {asked.rounds} rounds, load {os.getloadavg()[1]:.1f}"
    )
    print(table(results))


if __name__ == "__main__":
    main()
