"""A manager that is attacked for a minute, and the honest reviews that it answers meanwhile.

control plane (testbed) ◀── lone_manager.py: the manager, with a watch on its loop ◀── attacks.py: a process of its own
                                                                                  ◀── this process: 50 reviews a second

PYTHONPATH=tests:. python -m bench.bench_attacks [--seconds 60] [--only halves,idle] [--each]. Prints; asserts nothing.

`--each`: one attack after the other, `--seconds` each. Everything is on this machine's loopback: honest reviews come
from 127.0.0.1 as those of an API server, each attack from another address. The manager and the process that converts
for it have one processor to themselves, as a pod has its CPU; all others share the rest. `--shared`: all share all.
"""

import argparse
import asyncio
import base64
import os
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import uvloop

from bench.attacks import ATTACKS, NAMESPACE, stored
from bench.bench_admission import pod
from bench.large import LoneManager
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import LEASES, NAMESPACES, PODS, SECRETS
from support.control_plane import MANAGER_NAMESPACE, install_kinds
from support.reviews import posted, read, request
from support.webhooks import LOOPBACK, free_port, install_configurations, webhook_settings
from support.yaml_documents import yaml_document
from testbed.control_plane import ControlPlane

RATE = 50
"""Honest reviews a second."""
REVIEW_S = 10.0
"""What an API server gives a review."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What honest reviews saw, and what it took of the manager."""

    attack: str
    reviews: int
    refused: int
    """Not answered, or with something else than a review."""
    p50_ms: float
    p99_ms: float
    longest_ms: float
    memory_mb: float
    """At its highest, the manager and the process that converts for it together; what they share counts once."""
    stop_ms: float
    """CPU time of the loop's thread between two turns, at most."""
    wait_ms: float
    """Time between two turns, at most: other threads and other processes included."""
    collection_ms: float
    """CPU time of a garbage collection, at most."""
    where: str
    lease_kept: bool
    set_s: float
    """Until a CloneSet of another namespace had its pod, made in the middle of the attack."""


class Victim(msgspec.Struct, frozen=True):
    """A manager at work."""

    manager: LoneManager
    client: Client
    webhook: int
    plain: tuple[int, ...]
    tls: ssl.SSLContext
    kubeconfig: Path


@contextmanager
def processors(numbers: set[int]) -> Iterator[None]:
    """What is started meanwhile runs on these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, numbers)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@asynccontextmanager
async def victim(plane: ControlPlane, folder: Path, log: int | None, own: set[int]) -> AsyncIterator[Victim]:
    """A manager as in a pod, with leader election, webhooks and all its ports, on processors of its own."""
    await install_kinds(plane)
    _service_account(plane, folder)
    ports = {name: free_port() for name in ("metrics", "health-probe", "pprof")}
    webhook = free_port()
    flags = [f"--{name}-addr=127.0.0.1:{port}" for name, port in ports.items()]
    environment = {
        "WEBHOOK_HOST": LOOPBACK,
        "WEBHOOK_PORT": str(webhook),
        "WEBHOOK_CERT_DIR": str(folder / "certs"),
        "WEBHOOK_CERT_WRITER": "secret",
    }
    flags += [f"--webhook-addr={LOOPBACK}:{webhook}", f"--protection-log-path={folder / 'log'}"]
    transport = HttpTransport(load_kubeconfig(plane.kubeconfig))
    await install_configurations(Client(transport), webhook_settings(folder, port=webhook))
    with processors(own):
        manager = await LoneManager.start(folder, plane.url, flags=flags, env=environment, log=log)
    client = Client(transport)
    try:
        authority = await _authority(client)
        tls = ssl.create_default_context(cadata=authority)
        tls.check_hostname = False
        found = Victim(manager, client, webhook, tuple(ports.values()), tls, plane.kubeconfig)
        await _ready(found)
        yield found
    finally:
        await manager.end()
        await transport.close()


def _service_account(plane: ControlPlane, folder: Path) -> None:
    document = yaml_document(plane.manager_kubeconfig.read_text())
    (folder / "token").write_text(document["users"][0]["user"]["token"])
    (folder / "ca.crt").write_bytes(
        base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"])
    )


async def _authority(client: Client) -> str:
    async with asyncio.timeout(120):
        while True:
            with suppress(KubeError, KeyError):
                secret = decode(await client.get(SECRETS, MANAGER_NAMESPACE, "kruise-webhook-certs"))
                return base64.b64decode(secret["data"]["ca-cert.pem"]).decode()
            await asyncio.sleep(0.5)


async def _ready(found: Victim) -> None:
    """Until it leads."""
    async with asyncio.timeout(120):
        while True:
            with suppress(KubeError):
                await _leader(found.client)
                return
            await asyncio.sleep(0.5)


async def _leader(client: Client) -> tuple[str, int]:
    """The holder of the lease, and how often it has changed hands."""
    lease = decode(await client.get(LEASES, MANAGER_NAMESPACE, "kruise-manager"))
    return lease["spec"]["holderIdentity"], lease["spec"].get("leaseTransitions", 0)


# ── honest reviews ───────────────────────────────────────────────────────────


class Honest:
    """An API server's reviews of pods, at their times whether the one before is answered or not."""

    def __init__(self, found: Victim) -> None:
        self._url = f"https://{LOOPBACK}:{found.webhook}/mutate-pod?timeout={REVIEW_S:g}s"
        self._tls = found.tls
        self._body = posted(request(PODS, pod()))
        self.seconds: list[float] = []
        self.refused: list[str] = []

    async def run(self, seconds: float) -> None:
        """For so long."""
        connector = aiohttp.TCPConnector(
            ssl=self._tls, limit=0, keepalive_timeout=60, local_addr=(LOOPBACK, 0)
        )
        timeout = aiohttp.ClientTimeout(total=REVIEW_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for number in range(round(seconds * RATE)):
                    await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
                    tasks.create_task(self._ask(session))

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        began = time.perf_counter()
        try:
            async with session.post(self._url, data=self._body) as answer:
                body = await answer.read()
                if answer.status != 200 or not read(body).allowed:
                    self.refused.append(f"{answer.status} {body[:80]!r}")
        except (aiohttp.ClientError, TimeoutError) as error:
            self.refused.append(repr(error))
        self.seconds.append(time.perf_counter() - began)


# ── a run ────────────────────────────────────────────────────────────────────


async def run(
    names: list[str], *, seconds: float, each: bool, log: int | None, shared: bool
) -> list[Outcome]:
    """Quiet, and then the attacks: all at once, or one after the other."""
    found = []
    every = os.sched_getaffinity(0)
    own = every if shared else {min(every)}
    os.sched_setaffinity(0, every if shared else every - own or own)
    async with await ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        with tempfile.TemporaryDirectory() as name:
            async with victim(plane, Path(name), log, own) as one:
                await _store(one.client, names)
                found.append(await _measured(one, "none", [], min(seconds, 10.0)))
                print(line(found[-1]), flush=True)
                for title, chosen in [(name, [name]) for name in names] if each else [("all", names)]:
                    found.append(await _measured(one, title, chosen, seconds))
                    print(line(found[-1]), flush=True)
    return found


async def _store(client: Client, names: list[str]) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    for resource, doc in stored(names):
        await client.create(resource, doc["metadata"].get("namespace", ""), doc)
    await asyncio.sleep(1)  # until the manager has seen them


async def _measured(one: Victim, title: str, names: list[str], seconds: float) -> Outcome:
    await one.manager.report()
    leader = await _leader(one.client)
    honest = Honest(one)
    attacker = None
    if names:
        attacker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.attacks", "--webhook", str(one.webhook)),
            *(
                "--plain",
                ",".join(map(str, one.plain)),
                "--seconds",
                str(seconds + 4),
                "--kubeconfig",
                str(one.kubeconfig),
                "--only",
                ",".join(names),
            ),
            stdout=asyncio.subprocess.DEVNULL,
        )
        await asyncio.sleep(2)  # until it has begun
    with Memory(one.manager.pid) as memory:
        making = asyncio.create_task(_make_a_set(one.client, title, within_s=seconds))
        await honest.run(seconds)
        set_s = await making
    if attacker is not None:
        await attacker.wait()
    report = await one.manager.report()
    times = sorted(second * 1000 for second in honest.seconds)
    for refusal in sorted(set(honest.refused))[:5]:
        print(f"   refused {honest.refused.count(refusal)} times: {refusal}", file=sys.stderr)
    return Outcome(
        attack=title,
        reviews=len(times),
        refused=len(honest.refused),
        p50_ms=times[len(times) // 2],
        p99_ms=times[len(times) * 99 // 100],
        longest_ms=times[-1],
        memory_mb=memory.highest_mb,
        stop_ms=report["stop_ms"],
        wait_ms=report["wait_ms"],
        collection_ms=report["collection_ms"],
        where=report["where"],
        lease_kept=await _leader(one.client) == leader,
        set_s=set_s,
    )


async def _make_a_set(client: Client, title: str, *, within_s: float) -> float:
    """Seconds until a CloneSet of one pod had it; infinite when it never had within that time."""
    await asyncio.sleep(within_s / 4)
    template = {
        "metadata": {"labels": {"app": title}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": title}}, "template": template}
    doc = {"apiVersion": CLONE_SETS.api_version, "kind": CLONE_SETS.kind, "metadata": {"name": title.lower()}}
    began = time.perf_counter()
    while time.perf_counter() - began < within_s:
        with suppress(KubeError):  # a review of it may fail, and a user tries again
            await client.create(CLONE_SETS, "default", {**doc, "spec": spec})
        if (await client.list(PODS, "default", label_selector=f"app={title}")).items:
            return time.perf_counter() - began
        await asyncio.sleep(0.02)
    return float("inf")


class Memory:
    """How much a process and its children have in memory, looked at every quarter of a second in a thread."""

    def __init__(self, pid: int) -> None:
        self.highest_mb = 0.0
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.25):
            tasks = Path(f"/proc/{self._pid}/task").glob("*/children")
            children = [child for task in tasks for child in task.read_text().split()]
            self.highest_mb = max(self.highest_mb, sum(map(_share_mb, (self._pid, *children))))


def _share_mb(pid: int | str) -> float:
    with suppress(OSError):  # it has ended
        for text in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if text.startswith("Pss:"):
                return int(text.split()[1]) / 1024
    return 0.0


HEAD = (
    f"{'attack':<18}{'reviews':>8}{'refused':>8}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'MB':>6}{'stop ms':>9}"
    f"{'wait ms':>9}{'gc ms':>7}{'set s':>7}  lease  where the longest stop was"
)


def line(one: Outcome) -> str:
    """One row of the table."""
    lease = "kept" if one.lease_kept else "LOST"
    return (
        f"{one.attack:<18}{one.reviews:>8}{one.refused:>8}{one.p50_ms:>8.1f}{one.p99_ms:>8.1f}{one.longest_ms:>8.0f}"
        f"{one.memory_mb:>6.0f}{one.stop_ms:>9.0f}{one.wait_ms:>9.0f}{one.collection_ms:>7.0f}{one.set_s:>7.2f}"
        f"  {lease:<7}{one.where}"
    )


def main() -> None:
    """Print a line a run."""
    parser = argparse.ArgumentParser(prog="bench.bench_attacks", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="", help=f"of: {', '.join(ATTACKS)}")
    parser.add_argument("--each", action="store_true", help="one attack after the other")
    parser.add_argument("--shared", action="store_true", help="no processor for the manager alone")
    parser.add_argument("--log", type=Path, help="write the manager's log to this file")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(ATTACKS)
    log = os.open(asked.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if asked.log else None
    print(HEAD)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(names, seconds=asked.seconds, each=asked.each, log=log, shared=asked.shared))


if __name__ == "__main__":
    main()
