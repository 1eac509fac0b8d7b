"""What one `pykruise up` bears: writes in process and over HTTPS, watchers, large objects, many objects.

Each part runs in a process of its own, on an API server alone (but for HTTPS: that is a whole `pykruise up`):
`python tests/bench/bench_load.py [--part NAME] [--objects N]`. Prints; asserts nothing. Latencies are of one
request among those that are under way at the same time.
"""

import argparse
import asyncio
import gc
import os
import random
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from pykruise.kube.client import Client
from pykruise.kube.clock import system_clock
from pykruise.kube.config import load_kubeconfig
from pykruise.kube.http import HttpTransport
from pykruise.kube.limiter import Limiter
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.certificates import issue
from pykruise.sandbox.http_front import HttpFront
from pykruise.sandbox.local import LocalTransport

WRITES = 20_000
AT_ONCE = 32
WATCHES = 1_000
PYKRUISE = (sys.executable, "-c", "from pykruise.cli.entry import main; main()")


def main() -> None:
    """Run all parts one after another, or the one that was asked for."""
    parser = argparse.ArgumentParser(description="Measure what the sandbox bears.")
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--objects", type=int, default=100_000)
    asked = parser.parse_args()
    if asked.part:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(PARTS[asked.part](asked.objects))
        return
    for part in PARTS:
        command = [sys.executable, __file__, "--part", part, "--objects", str(asked.objects)]
        subprocess.run(command, check=True)


def pod(name: str) -> dict[str, object]:
    """A pod such as a workload makes: about 2 KB as stored."""
    return {
        "metadata": {"name": name, "labels": {"app": "web", "controller-revision-hash": "web-6b9f5c7d4f"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/shop/web:1.27",
                    "env": [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(8)],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }
            ]
        },
    }


def conf(name: str) -> dict[str, object]:
    """A small ConfigMap."""
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "data": {"key": "value"}}


def server() -> tuple[ApiServer, Client]:
    """An API server and a client in the same process."""
    made = ApiServer(clock=system_clock, rng=random.Random(1))
    return made, Client(LocalTransport(made), limiter=Limiter(start=256, minimum=256, maximum=256))


async def spread(
    count: int, work: Callable[[int], Awaitable[object]], *, at_once: int = AT_ONCE
) -> list[float]:
    """Do `count` things, so many at once; the seconds that each took."""
    took: list[float] = []
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            begun = time.perf_counter()
            await work(number)
            took.append(time.perf_counter() - begun)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    return took


def line(name: str, text: str) -> None:
    """One result."""
    print(f"{name:<44}{text}", flush=True)


async def timed(
    name: str, count: int, work: Callable[[int], Awaitable[object]], *, at_once: int = AT_ONCE
) -> None:
    """Measure and print a rate."""
    begun, cpu = time.perf_counter(), time.process_time()
    took = await spread(count, work, at_once=at_once)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    middle, late = statistics.quantiles(took, n=100)[49], statistics.quantiles(took, n=100)[98]
    line(
        name,
        f"{count / seconds:8,.0f}/s   {cpu / count * 1e3:5.2f} ms CPU each   "
        f"median {middle * 1e3:.1f} ms, 99 % {late * 1e3:.1f} ms",
    )


def rss_mb() -> float:
    """Resident memory of this process now, in MiB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def cpu_s(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def writes(_: int) -> None:
    """Creations, patches and deletions in process."""
    _, client = server()
    patch = {"metadata": {"annotations": {"a": "b"}}}
    await timed(
        "in process: POST of a ConfigMap",
        WRITES,
        lambda n: client.create(CONFIG_MAPS, "default", conf(f"c{n}")),
    )
    await timed("in process: POST of a pod", WRITES, lambda n: client.create(PODS, "default", pod(f"p{n}")))
    await timed(
        "in process: PATCH of a pod",
        WRITES,
        lambda n: client.patch(PODS, "default", f"p{n}", patch, patch_type=PatchType.MERGE),
    )
    await timed("in process: GET of a pod", WRITES, lambda n: client.get(PODS, "default", f"p{n}"))
    await timed("in process: DELETE of a pod", WRITES, lambda n: client.delete(PODS, "default", f"p{n}"))


async def http(_: int) -> None:
    """The same over HTTPS, against a `pykruise up` in a process of its own, its controllers at work."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        process = await asyncio.create_subprocess_exec(
            *PYKRUISE,
            *("up", "--nodes", "0", "--kubeconfig", str(kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        while b"Ctrl-C" not in await process.stdout.readline():
            continue
        transport = HttpTransport(load_kubeconfig(kubeconfig))
        client = Client(transport, limiter=Limiter(start=256, minimum=256, maximum=256))
        count = WRITES // 4
        patch = {"data": {"key": "other"}}
        before = cpu_s(process.pid)
        # No pods: its scheduler would write about each of them, too.
        await timed(
            "HTTPS: POST of a ConfigMap",
            count,
            lambda n: client.create(CONFIG_MAPS, "default", conf(f"c{n}")),
        )
        await timed(
            "HTTPS: PATCH of a ConfigMap",
            count,
            lambda n: client.patch(CONFIG_MAPS, "default", f"c{n}", patch, patch_type=PatchType.MERGE),
        )
        spent = (cpu_s(process.pid) - before) / (2 * count)
        line("", f"{spent * 1e3:5.2f} ms CPU of the server each: {1 / spent:,.0f}/s on a core of its own")
        await transport.close()
        process.terminate()
        await process.wait()


async def watches(_: int) -> None:
    """Many watchers of the same objects, in process."""
    _, client = server()
    opened = asyncio.Event()
    ready = 0
    events = 100
    seen: list[float] = []

    async def watch() -> None:
        nonlocal ready
        async with client.watch(CONFIG_MAPS, "default", resource_version="") as stream:
            ready += 1
            if ready == WATCHES:
                opened.set()
            count = 0
            async for event in stream:
                count += event.type == "ADDED"
                if count == events:
                    seen.append(time.perf_counter())
                    return

    tasks = [asyncio.create_task(watch()) for _ in range(WATCHES)]
    await opened.wait()
    begun, cpu = time.perf_counter(), time.process_time()
    await spread(events, lambda n: client.create(CONFIG_MAPS, "default", {"metadata": {"name": f"c{n}"}}))
    written = time.perf_counter() - begun
    await asyncio.gather(*tasks)
    cpu = time.process_time() - cpu
    line(
        f"{WATCHES:,} watches, {events} writes",
        f"{events * WATCHES / (max(seen) - begun):8,.0f} events/s   {cpu / events / WATCHES * 1e6:.1f} us CPU each   "
        f"written in {written:.2f} s, all told after {max(seen) - begun:.2f} s",
    )


async def slow(_: int) -> None:
    """What a watcher that never reads costs one that does, over HTTPS."""
    made, client = server()
    front = HttpFront(made, token="t", certificate=issue(now=system_clock()), send_timeout_s=2.0)
    await front.start()
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    ask = "GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n"

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(front.url.rpartition(":")[2]), ssl=tls
        )
        writer.write(ask.encode())
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    async def delays(first: int) -> list[float]:
        found = []
        for number in range(first, first + 300):
            begun = time.perf_counter()
            await client.create(CONFIG_MAPS, "default", conf(f"c{number}") | {"data": {"key": "x" * 20_000}})
            await reading[0].readuntil(b'"name":"c%d"' % number)
            found.append(time.perf_counter() - begun)
        return found

    reading = await opened()
    alone = statistics.median(await delays(0))
    stuck = await opened()
    begun = time.perf_counter()
    beside = statistics.median(await delays(300))
    while front.watches > 1:
        await asyncio.sleep(0.05)
    line(
        "a watcher beside one that never reads",
        f"event after {beside * 1e3:.1f} ms (alone {alone * 1e3:.1f} ms); "
        f"the other is dropped after {time.perf_counter() - begun:.1f} s (allowed: 2 s)",
    )
    for _, writer in (reading, stuck):
        writer.transport.abort()
    await front.stop()


async def large(_: int) -> None:
    """An object of one megabyte."""
    _, client = server()
    doc = {"metadata": {"name": "large"}, "data": {f"k{n}": "x" * 1000 for n in range(1000)}}
    begun = time.perf_counter()
    await client.create(CONFIG_MAPS, "default", doc)
    created = time.perf_counter() - begun
    begun = time.perf_counter()
    size = len(await client.get(CONFIG_MAPS, "default", "large"))
    read = time.perf_counter() - begun
    begun = time.perf_counter()
    await client.patch(CONFIG_MAPS, "default", "large", {"data": {"k0": "y"}}, patch_type=PatchType.MERGE)
    patched = time.perf_counter() - begun
    line(
        f"an object of {size / 1e6:.1f} MB",
        f"POST {created * 1e3:.0f} ms, GET {read * 1e3:.0f} ms, PATCH {patched * 1e3:.0f} ms",
    )


async def memory(objects: int) -> None:
    """Many objects at once."""
    _, client = server()
    gc.collect()
    before = rss_mb()
    begun = time.perf_counter()
    await spread(objects, lambda n: client.create(PODS, "default", pod(f"p{n}")))
    seconds = time.perf_counter() - begun
    size = len(await client.get(PODS, "default", "p0"))
    begun = time.perf_counter()
    listed = await client.list(PODS, limit=0)
    took = time.perf_counter() - begun
    count = len(listed.items)
    del listed
    gc.collect()
    line(
        f"{count:,} pods of {size:,} bytes",
        f"{rss_mb():6,.0f} MB (empty {before:.0f} MB)   made in {seconds:.0f} s, all listed in {took:.1f} s",
    )


PARTS: dict[str, Callable[[int], Awaitable[None]]] = {
    "writes": writes,
    "http": http,
    "watches": watches,
    "slow": slow,
    "large": large,
    "memory": memory,
}


if __name__ == "__main__":
    main()
