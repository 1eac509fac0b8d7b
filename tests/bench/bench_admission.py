"""Cost of an admission review over TLS: sequentially and 32 in parallel, with its CPU time. Prints; asserts nothing.

PYTHONPATH=tests python -m bench.bench_admission [--reviews 4000] [--replicas 1 3 5]

Each replica runs in its own process, like a manager, and the CPU time of all is printed. The pod has 5 KB, like one of
a CloneSet, and gets its readiness gate.
"""

import argparse
import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from pykruise.admission.reviewers import build_reviewers  # noqa: E402
from pykruise.kube.documents import encode  # noqa: E402
from pykruise.kube.resources import PODS  # noqa: E402
from pykruise.kube.webhooks.reviews import ReviewDispatcher  # noqa: E402
from pykruise.kube.webhooks.server import WebhookServer, review_paths  # noqa: E402
from support.certificates import Authority  # noqa: E402
from support.reviews import posted, read, request  # noqa: E402

PATH = "/mutate-pod"
BYTES = 5 * 1024


def pod() -> dict[str, Any]:
    """A pod of about 5 KB."""
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "u"}
    doc: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-bcdfg",
            "namespace": "shop",
            "labels": {f"example.com/label-{number}": "value" for number in range(8)},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"containers": []},
    }
    while len(encode(doc)) < BYTES:
        number = len(doc["spec"]["containers"])
        doc["spec"]["containers"].append(
            {
                "name": f"container-{number}",
                "image": "registry.example.com/shop/web:1.27.3",
                "env": [{"name": f"SETTING_{item}", "value": f"value-{item}"} for item in range(12)],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "volumeMounts": [{"name": f"data-{item}", "mountPath": f"/data/{item}"} for item in range(3)],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}},
            }
        )
    return doc


class Figures(msgspec.Struct, frozen=True):
    """Figures of one run, in milliseconds except for the rate. The CPU time is that of all servers."""

    replicas: int
    at_once: int
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    per_second: float


async def serve(folder: Path) -> None:
    """The server's process: prints its port and its CPU seconds whenever it reads a line."""
    server = WebhookServer(review_paths(ReviewDispatcher(build_reviewers())), host="127.0.0.1", port=0)
    server.load_certificate(folder / "tls.crt", folder / "tls.key")
    await server.start()
    loop = asyncio.get_running_loop()
    print(server.port, flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(time.process_time(), flush=True)


class Replica:
    """A server in its own process."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    async def read_cpu_s(self) -> float:
        """CPU seconds since the process began."""
        self._process.stdin.write(b"\n")  # type: ignore[union-attr]  # it was started with a pipe
        return float(await self._process.stdout.readline())  # type: ignore[union-attr]


@asynccontextmanager
async def replica(folder: Path) -> AsyncIterator[Replica]:
    """Run one server within the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--serve",
        str(folder),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield Replica(process, f"https://127.0.0.1:{int(await process.stdout.readline())}")
    process.stdin.close()
    await process.wait()


async def measure(folder: Path, authority: Authority, *, replicas: int, count: int) -> list[Figures]:
    """Send reviews sequentially, and then 32 in parallel. The replicas take turns, as behind a Service."""
    body = posted(request(PODS, pod()))
    context = ssl.create_default_context(cadata=authority.pem.decode())
    results = []
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(replica(folder)) for _ in range(replicas)]
        connector = aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=60)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))

        async def cpu_s() -> float:
            return sum([await server.read_cpu_s() for server in servers])

        async def send(number: int, taken: list[float]) -> None:
            for turn in range(number):
                url = f"{servers[turn % replicas].url}{PATH}?timeout=10s"
                begun = time.perf_counter()
                async with session.post(url, data=body) as answer:
                    returned = await answer.read()
                taken.append((time.perf_counter() - begun) * 1000)
            assert read(returned).patch

        await send(200 * replicas, [])
        for at_once in (1, 32):
            taken: list[float] = []
            before, begun = await cpu_s(), time.perf_counter()
            await asyncio.gather(*(send(count // at_once, taken) for _ in range(at_once)))
            elapsed, cpu = time.perf_counter() - begun, await cpu_s() - before
            taken.sort()
            results.append(
                Figures(
                    replicas=replicas,
                    at_once=at_once,
                    p50_ms=taken[len(taken) // 2],
                    p99_ms=taken[len(taken) * 99 // 100],
                    cpu_ms=cpu / len(taken) * 1000,
                    per_second=len(taken) / elapsed,
                )
            )
    return results


def alone(count: int) -> float:
    """Milliseconds of CPU for a review without TLS and HTTP."""
    reviews, body = ReviewDispatcher(build_reviewers()), posted(request(PODS, pod()))

    async def run() -> float:
        begun = time.process_time()
        for _ in range(count):
            await reviews.answer(PATH, body)
        return (time.process_time() - begun) / count * 1000

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", type=int, default=4000)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1], help="numbers of servers")
    parser.add_argument("--serve", type=Path)
    asked = parser.parse_args()
    if asked.serve:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(asked.serve))
        return
    authority = Authority()
    results: list[Figures] = []
    with tempfile.TemporaryDirectory() as name:
        certificate, key = authority.issue("webhooks", hosts=("127.0.0.1",))
        (Path(name) / "tls.crt").write_bytes(certificate)
        (Path(name) / "tls.key").write_bytes(key)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            for replicas in asked.replicas:
                results += runner.run(measure(Path(name), authority, replicas=replicas, count=asked.reviews))
    print(f"a review of a pod of {len(encode(pod()))} bytes, its readiness gate added")
    print(f"  the review alone                       {alone(asked.reviews):6.2f} ms CPU")
    for figures in results:
        print(
            f"  over TLS, {figures.replicas} replicas, {figures.at_once:2} at once: p50 {figures.p50_ms:6.2f} ms, "
            f"p99 {figures.p99_ms:6.2f} ms, {figures.cpu_ms:5.2f} ms CPU of all servers, "
            f"{figures.per_second:6.0f}/s"
        )


if __name__ == "__main__":
    main()
