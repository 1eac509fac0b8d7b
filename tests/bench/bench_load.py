"""Load on one `pykruise up`: writes in process and over HTTPS, watchers, large objects, many objects.

Each part runs in its own process, with an API server alone (except `up`, which is a whole `pykruise up` with its
controllers): `python tests/bench/bench_load.py [--part NAME] [--objects N] [--writes N]`. Prints; asserts
nothing. Latencies are those of one of several concurrent requests.

There are seven types of writes (`OPERATIONS`), the same number of each: POST, PATCH and DELETE of a small ConfigMap
and of a pod, and PATCH of a pod's status. managedFields are stored and returned. In process, the CPU time of a write
is that of client and server together; over HTTPS both are measured separately. Over HTTPS the server has its own
process, and so the other core of a machine with two.
"""

import argparse
import asyncio
import gc
import os
import random
import resource
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.connection import Connection, make_bearer
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, PODS, Resource
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.certificates import issue
from pykruise.sandbox.http_front import HttpFront
from pykruise.sandbox.local import LocalTransport

AT_ONCE = 32
WATCHES = 1_000
PYKRUISE = (sys.executable, "-c", "from pykruise.cli.entry import main; main()")


def main() -> None:
    """Run all parts sequentially, or the requested one."""
    parser = argparse.ArgumentParser(description="Measure what the sandbox bears.")
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--objects", type=int, default=100_000, help="in memory")
    parser.add_argument("--writes", type=int, default=5_000, help="of each kind")
    asked = parser.parse_args()
    if asked.part:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(PARTS[asked.part](asked.objects if asked.part == "memory" else asked.writes))
        return
    for part in PARTS:
        if part == "serve":
            continue
        options = ("--part", part, "--objects", str(asked.objects), "--writes", str(asked.writes))
        subprocess.run([sys.executable, __file__, *options], check=True)


def pod(name: str) -> dict[str, object]:
    """A pod like those of a workload: about 2 KB in the storage."""
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
    made = ApiServer(clock=read_system_clock, rng=random.Random(1))
    return made, Client(LocalTransport(made), limiter=Limiter(start=256, minimum=256, maximum=256))


async def spread(
    count: int, work: Callable[[int], Awaitable[object]], *, at_once: int = AT_ONCE
) -> list[float]:
    """Do `count` operations, this number in parallel; returns the seconds of each."""
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
    """Print one result."""
    print(f"{name:<44}{text}", flush=True)


def rss_mb() -> float:
    """Resident memory of this process now, in MiB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def cpu_s(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Operation(NamedTuple):
    """A type of write, or GET for comparison: its name, and the function for number n."""

    name: str
    work: Callable[[Client, int], Awaitable[object]]
    is_write: bool = True


_ANNOTATED = {"metadata": {"annotations": {"a": "b"}}}
_CHANGED = {"data": {"key": "other"}}
_READY = {
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
    }
}
_TOKEN = "t"


def _change(resource: Resource, prefix: str, patch: Mapping[str, object], **options: str) -> Any:
    kind = PatchType.STRATEGIC if options else PatchType.MERGE
    return lambda client, n: client.patch(
        resource, "default", f"{prefix}{n}", patch, patch_type=kind, **options
    )


OPERATIONS = (
    Operation("POST of a ConfigMap", lambda client, n: client.create(CONFIG_MAPS, "default", conf(f"c{n}"))),
    Operation("PATCH of a ConfigMap", _change(CONFIG_MAPS, "c", _CHANGED)),
    Operation("DELETE of a ConfigMap", lambda client, n: client.delete(CONFIG_MAPS, "default", f"c{n}")),
    Operation("POST of a pod", lambda client, n: client.create(PODS, "default", pod(f"p{n}"))),
    Operation("PATCH of a pod", _change(PODS, "p", _ANNOTATED)),
    Operation("PATCH of a pod's status", _change(PODS, "p", _READY, subresource="status")),
    Operation("GET of a pod", lambda client, n: client.get(PODS, "default", f"p{n}"), is_write=False),
    Operation("DELETE of a pod", lambda client, n: client.delete(PODS, "default", f"p{n}")),
)


async def writes(count: int) -> None:
    """All types of writes in process, then over HTTPS to an API server in its own process."""
    client = server()[1]
    here = await _measured("in process", client, OPERATIONS, count, process=None)
    alone = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--part", "serve", stdout=asyncio.subprocess.PIPE
    )
    assert alone.stdout is not None
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    url = (await alone.stdout.readline()).decode().strip()
    connection = Connection(server=url, ssl_context=tls, credentials=make_bearer(_TOKEN))
    there = await _measured("HTTPS", _over(connection), OPERATIONS, count, process=alone.pid)
    line(
        "HTTPS beside in process",
        f"{there.rate / here.rate:.2f} of the rate, server {there.cpu / here.cpu:.2f} of the CPU",
    )
    alone.terminate()
    await alone.wait()


async def up(count: int) -> None:
    """Writes over HTTPS to a `pykruise up` in its own process, with its controllers."""
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
        # No pods: its scheduler would write about each of them, too.
        of_config_maps = [each for each in OPERATIONS if "ConfigMap" in each.name]
        await _measured(
            "pykruise up", _over(load_kubeconfig(kubeconfig)), of_config_maps, count, process=process.pid
        )
        process.terminate()
        await process.wait()


async def serve(_: int) -> None:
    """An API server over HTTPS and nothing else, until it is ended; prints its URL."""
    front = HttpFront(server()[0], token=_TOKEN, certificate=issue(now=read_system_clock()))
    await front.start()
    print(front.url, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await front.stop()


class Sum(NamedTuple):
    """Writes per second, and the server's CPU seconds for each (in process: including the client's)."""

    rate: float
    cpu: float


async def _measured(
    where: str,
    client: Client,
    operations: Sequence[Operation],
    count: int,
    *,
    process: int | None,
) -> Sum:
    """Print a line for each operation and one for all writes. `process`: the server's, if it has its own."""
    seconds = cpu = 0.0
    for operation in operations:
        begun, used = time.perf_counter(), _cpu(process)
        own = time.process_time()
        took = await spread(count, partial(operation.work, client))
        wall, used, own = time.perf_counter() - begun, _cpu(process) - used, time.process_time() - own
        if operation.is_write:
            seconds, cpu = seconds + wall, cpu + used
        middle, late = statistics.quantiles(took, n=100)[49], statistics.quantiles(took, n=100)[98]
        beside = f" (client {own / count * 1e3:4.2f})" if process is not None else ""
        line(
            f"{where}: {operation.name}",
            f"{count / wall:8,.0f}/s   {used / count * 1e3:5.2f} ms CPU each{beside}   "
            f"median {middle * 1e3:.1f} ms, 99 % {late * 1e3:.1f} ms",
        )
    number = count * sum(operation.is_write for operation in operations)
    line(
        f"{where}: all {number:,} writes",
        f"{number / seconds:8,.0f}/s   {cpu / number * 1e3:5.2f} ms CPU each: "
        f"{number / cpu:,.0f}/s on a core of its own",
    )
    return Sum(number / seconds, cpu / number)


def _cpu(process: int | None) -> float:
    return time.process_time() if process is None else cpu_s(process)


def _over(connection: Connection) -> Client:
    return Client(HttpTransport(connection), limiter=Limiter(start=256, minimum=256, maximum=256))


async def watches(_: int) -> None:
    """Many watchers of the same objects, in process."""
    client = server()[1]
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
        f"written in {written:.2f} s, all received after {max(seen) - begun:.2f} s",
    )


async def slow(_: int) -> None:
    """Effect of a watcher that never reads on one that reads, over HTTPS."""
    made, client = server()
    front = HttpFront(made, token="t", certificate=issue(now=read_system_clock()), send_timeout_s=2.0)
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
        delays = []
        for number in range(first, first + 300):
            begun = time.perf_counter()
            await client.create(CONFIG_MAPS, "default", conf(f"c{number}") | {"data": {"key": "x" * 20_000}})
            await reading[0].readuntil(b'"name":"c%d"' % number)
            delays.append(time.perf_counter() - begun)
        return delays

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
    for connection in (reading, stuck):
        connection[1].transport.abort()
    await front.stop()


async def large(_: int) -> None:
    """An object of one megabyte."""
    client = server()[1]
    doc = {"metadata": {"name": "large"}, "data": {f"k{n}": "x" * 1000 for n in range(1000)}}
    begun = time.process_time()
    await client.create(CONFIG_MAPS, "default", doc)
    created = time.process_time() - begun
    begun = time.process_time()
    size = len(await client.get(CONFIG_MAPS, "default", "large"))
    read = time.process_time() - begun
    begun = time.process_time()
    await client.patch(CONFIG_MAPS, "default", "large", {"data": {"k0": "y"}}, patch_type=PatchType.MERGE)
    patched = time.process_time() - begun
    line(
        f"an object of {size / 1e6:.1f} MB",
        f"POST {created * 1e3:.0f} ms, GET {read * 1e3:.0f} ms, PATCH {patched * 1e3:.0f} ms of CPU",
    )


async def memory(objects: int) -> None:
    """Memory of many objects."""
    client = server()[1]
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


PARTS: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
    "writes": writes,
    "up": up,
    "serve": serve,
    "watches": watches,
    "slow": slow,
    "large": large,
    "memory": memory,
}


if __name__ == "__main__":
    main()
