"""What a manager does to a real API server, and what it costs: `make bench CLUSTER=real [N=500] [NODES=10]`.

control plane (testbed) ◀── pykruise kubelets (a process) ── nodes on which pods start and stop at once
                        ◀── pykruise manager (a process)  ── what is measured
                        ◀── this process                  ── wishes, watches, and the bare writes to compare with

With `webhooks` the API server asks the same manager process about every new pod and every CloneSet, as in a
cluster where OpenKruise's webhooks are installed; what that costs is part of the manager's figures.

Writes are counted in the API server's audit log, by the manager's user; CPU and memory are the kernel's figures
of each process. The audit log costs the API server a little in every figure, the bare writes' included.
"""

import asyncio
import json
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bench.sandbox import cloneset
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client import Client
from pykruise.kube.config import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.http import HttpTransport
from pykruise.kube.limiter import Limiter
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, PODS, Resource
from support.control_plane import install_kinds
from support.up import ALONE, running
from support.webhooks import install_configurations, install_namespace, webhook_settings
from testbed.control_plane import API_SERVER, ControlPlane
from testbed.settings import MANAGER, USERS

NAMESPACE = "bench"
NAME = "web"
ROUNDS = 30
"""Of the latency at one replica."""
CONCURRENCY = 64
"""Of the bare writes."""
WRITE_VERBS = ("create", "update", "patch", "delete")
PHASE_S = 600.0


class RealPhase(msgspec.Struct, frozen=True, kw_only=True):
    """One thing done to all pods."""

    name: str
    pods: int
    seconds: float
    pods_per_s: float
    manager_cpu_ms_per_pod: float
    manager_rss_mb: float
    api_server_cpu_ms_per_pod: float
    """For all who ask it: manager, kubelets, scheduler, controllers."""
    writes_per_pod: float
    """By the manager."""
    writes: Mapping[str, int]
    bare_pods_per_s: float = 0.0
    """How many pods a second the API server could take if it did nothing but the manager's writes."""
    ratio: float = 0.0
    """`pods_per_s` of that."""
    out_p50_ms: float = 0.0
    """Time out of service, from not ready to ready, of pods that stay; 0: none left it."""
    out_p99_ms: float = 0.0
    out_at_once: float = 0.0
    """Pods out of service at the same time, on average: it does not depend on how fast the machine is."""
    cpu_ms_per_pod: Mapping[str, float] = {}
    """Of every process that takes part. The cores they share are the limit of all phases."""
    writes_of_others: Mapping[str, int] = {}
    """By everybody but the manager, as `user verb resource[/subresource]`."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """From a changed spec to what follows from it, at one replica; milliseconds."""

    name: str
    rounds: int
    p50_ms: float
    p99_ms: float


class Outages:
    """How long pods are not ready, as a watch sees it; only of pods that were ready before and are again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since: dict[str, float] = {}
        self._ready: dict[str, bool] = {}
        self.seconds: list[float] = []

    async def run(self) -> None:
        """Watch until cancelled."""
        listed = await self._client.list(PODS, NAMESPACE)
        for raw in listed.items:
            self._see(decode(raw), at=time.perf_counter())
        async with self._client.watch(PODS, NAMESPACE, resource_version=listed.resource_version) as events:
            async for event in events:
                self._see(decode(event.object), at=time.perf_counter())

    def _see(self, pod: dict[str, Any], *, at: float) -> None:
        uid = pod["metadata"].get("uid")
        if uid is None or pod["metadata"].get("deletionTimestamp"):
            return
        conditions = (pod.get("status") or {}).get("conditions") or ()
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        if self._ready.get(uid) and not ready:
            self._since[uid] = at
        elif ready and uid in self._since:
            self.seconds.append(at - self._since.pop(uid))
        self._ready[uid] = ready


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Bare writes of one kind, 64 at once, nothing else going on."""

    write: str
    count: int
    per_s: float
    api_server_cpu_ms: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    kubernetes: str
    pods: int
    nodes: int
    webhooks: bool = False
    """Whether the manager's webhooks were asked."""
    phases: list[RealPhase]
    latencies: list[Latency]
    limits: list[Limit]


class Bench:
    """A running cluster with a manager, and a client of one's own."""

    def __init__(
        self,
        plane: ControlPlane,
        client: Client,
        *,
        manager_pid: int,
        kubelets_pid: int,
        kind: Resource = CLONE_SETS,
    ) -> None:
        self.plane = plane
        self.client = client
        self.manager_pid = manager_pid
        self.kind = kind
        """What is measured: objects called NAME of this resource."""
        self._kubelets_pid = kubelets_pid
        self._audit_read = 0

    async def measure(
        self, name: str, act: Callable[[], Awaitable[Any]], *, pods: int, replicas: int
    ) -> RealPhase:
        """Do it, wait until `replicas` pods are available and all of the newest template, and say what it took."""
        self.writes()
        cpu = self.cpu()
        outages = Outages(self.client)
        watching = asyncio.create_task(outages.run())
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await act()
        await self.settled(replicas)
        seconds = time.perf_counter() - began
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        out = _latency("out of service", outages.seconds or [0.0])
        used = {name: (now - cpu[name]) * 1000 / pods for name, now in self.cpu().items()}
        writes, of_others = self.writes()
        return RealPhase(
            name=name,
            pods=pods,
            seconds=seconds,
            pods_per_s=pods / seconds,
            manager_cpu_ms_per_pod=used["manager"],
            manager_rss_mb=rss_mb(self.manager_pid),
            api_server_cpu_ms_per_pod=used[API_SERVER],
            writes_per_pod=sum(writes.values()) / pods,
            writes=dict(sorted(writes.items())),
            out_p50_ms=out.p50_ms,
            out_p99_ms=out.p99_ms,
            out_at_once=sum(outages.seconds) / seconds,
            cpu_ms_per_pod=used,
            writes_of_others=dict(of_others.most_common(8)),
        )

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, by process."""
        own = {"manager": self.manager_pid, "kubelets": self._kubelets_pid, "bench": os.getpid()}
        of_plane = {name: self.plane.cpu_seconds(name) for name in self.plane.components}
        return of_plane | {name: cpu_s(pid) for name, pid in own.items()}

    async def settled(self, replicas: int) -> None:
        """Wait for that."""
        async with asyncio.timeout(PHASE_S):
            while True:
                doc = decode(await self.client.get(self.kind, NAMESPACE, NAME))
                status = doc.get("status") or {}
                counts = {
                    status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")
                }
                if status.get("observedGeneration") == doc["metadata"]["generation"] and counts == {replicas}:
                    return
                await asyncio.sleep(0.05)

    async def change(self, spec: dict[str, Any]) -> int:
        """Merge-patch the object's spec; returns its new generation."""
        patch = {"spec": spec}
        raw = await self.client.patch(self.kind, NAMESPACE, NAME, patch, patch_type=PatchType.MERGE)
        generation: int = decode(raw)["metadata"]["generation"]
        return generation

    def writes(self) -> tuple[Counter[str], Counter[str]]:
        """The writes since this was last asked: the manager's as `verb resource[/subresource]`, and those of
        everybody else, each after its user."""
        found: Counter[str] = Counter()
        of_others: Counter[str] = Counter()
        with self.plane.audit_log.open("rb") as log:
            log.seek(self._audit_read)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._audit_read += len(line)
                event = json.loads(line)
                if event["verb"] not in WRITE_VERBS:
                    continue
                what = event.get("objectRef") or {}
                parts = [what[part] for part in ("resource", "subresource") if part in what]
                write = f"{event['verb']} {'/'.join(parts)}"
                user = event["user"].get("username", "")
                if user == USERS[MANAGER]:
                    found[write] += 1
                else:
                    of_others[f"{_WHO.get(user, user.rpartition(':')[2])} {write}"] += 1
        return found, of_others


_WHO = {"admin": "kubelets"}  # the bench itself writes next to nothing


# ── the run ──────────────────────────────────────────────────────────────────


async def run(*, pods: int, nodes: int, webhooks: bool = False) -> Report:
    """Everything, on a control plane of its own."""
    async with await ControlPlane.start(audit=True) as plane:
        await install_kinds(plane)
        async with bench_on(plane, pods=pods, nodes=nodes, webhooks=webhooks) as bench:
            await bench.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
            phases = await life(bench, pods)
            latencies = await latency(bench)
            await bench.client.delete(CLONE_SETS, NAMESPACE, NAME)
            limits = await bare_writes(bench, pods)
        minor = plane.kubernetes
    phases = [with_ratio(phase, limits) for phase in phases]
    return Report(
        kubernetes=minor,
        pods=pods,
        nodes=nodes,
        webhooks=webhooks,
        phases=phases,
        latencies=latencies,
        limits=limits,
    )


@asynccontextmanager
async def bench_on(
    plane: ControlPlane,
    *,
    pods: int,
    nodes: int,
    kind: Resource = CLONE_SETS,
    webhooks: bool = False,
) -> AsyncIterator[Bench]:
    """Kubelets and a manager in processes of their own; with `webhooks`, the API server asks the manager."""
    kubelets = (
        *("kubelets", "--kubeconfig", str(plane.kubeconfig), "--nodes", str(nodes)),
        *("--pods-per-node", str(-(-pods * 2 // nodes)), "--start", "0", "--stop", "0"),
    )
    flags = [one for one in ALONE if not (webhooks and one.startswith("--enable-webhooks"))]
    manager = ("manager", "--kubeconfig", str(plane.manager_kubeconfig), *flags)
    transport = HttpTransport(load_kubeconfig(plane.kubeconfig), pool=CONCURRENCY)
    limiter = Limiter(start=CONCURRENCY, minimum=CONCURRENCY, maximum=CONCURRENCY)
    client = Client(transport, limiter=limiter, rng=random.Random(1))
    try:
        with (
            TemporaryDirectory() as folder,
            running(*kubelets, says="registered") as nodes_of,
            running(
                *manager,
                says="controller starts",
                env=await _published(client, Path(folder)) if webhooks else None,
            ) as process,
        ):
            yield Bench(plane, client, manager_pid=process.pid, kubelets_pid=nodes_of.pid, kind=kind)
    finally:
        await transport.close()


async def _published(client: Client, folder: Path) -> dict[str, str]:
    """Webhook configurations that name this machine's loopback; returns what tells the manager to serve there."""
    settings = webhook_settings(folder)
    await install_namespace(client, settings)
    await install_configurations(client, settings)
    webhook = settings.webhook
    return {
        "WEBHOOK_HOST": webhook.host,
        "WEBHOOK_PORT": str(webhook.port),
        "WEBHOOK_CERT_DIR": webhook.certificate_folder,
        "WEBHOOK_CERT_WRITER": webhook.certificate_writer,
    }


async def life(bench: Bench, pods: int) -> list[RealPhase]:
    """Created, updated in all ways, and scaled in."""

    def update(number: int, *, policy: str, max_unavailable: str) -> Callable[[], Awaitable[Any]]:
        (container,) = cloneset(1)["spec"]["template"]["spec"]["containers"]
        rolling = {"maxUnavailable": max_unavailable, "podUpdatePolicy": policy}
        spec = {
            "updateStrategy": {"rollingUpdate": rolling},
            "template": {"spec": {"containers": [{**container, "image": f"nginx:{number}"}]}},
        }
        return lambda: bench.change(spec)

    async def create() -> None:
        doc = cloneset(pods)
        doc["metadata"]["namespace"] = NAMESPACE
        await bench.client.create(CLONE_SETS, NAMESPACE, doc)

    recreate, in_place = "ReCreate", "InPlaceIfPossible"
    steps: list[tuple[str, Callable[[], Awaitable[Any]], int]] = [
        ("scale up until ready", create, pods),
        ("recreate, maxUnavailable 100%", update(2, policy=recreate, max_unavailable="100%"), pods),
        ("recreate, maxUnavailable 20%", update(3, policy=recreate, max_unavailable="20%"), pods),
        ("in place, maxUnavailable 100%", update(4, policy=in_place, max_unavailable="100%"), pods),
        ("in place, maxUnavailable 20%", update(5, policy=in_place, max_unavailable="20%"), pods),
        ("scale down to 0", lambda: bench.change({"replicas": 0}), 0),
    ]
    found = []
    for name, act, replicas in steps:
        found.append(await bench.measure(name, act, pods=pods, replicas=replicas))
        await asyncio.sleep(2)  # let the others (events, garbage, caches) come to rest
    return found


# ── latency ──────────────────────────────────────────────────────────────────


async def latency(bench: Bench) -> list[Latency]:
    """Scale between 0 and 1, and see when the pod and the status come; both are watched."""
    pod_came: asyncio.Queue[float] = asyncio.Queue()
    status_came: asyncio.Queue[tuple[int, int, float]] = asyncio.Queue()
    listed = await bench.client.list(PODS, NAMESPACE)

    async def watch_pods() -> None:
        async with bench.client.watch(PODS, NAMESPACE, resource_version=listed.resource_version) as events:
            async for event in events:
                if event.type == "ADDED":
                    pod_came.put_nowait(time.perf_counter())

    async def watch_status() -> None:
        async with bench.client.watch(
            CLONE_SETS, NAMESPACE, resource_version=listed.resource_version
        ) as events:
            async for event in events:
                status = decode(event.object).get("status") or {}
                seen = (status.get("observedGeneration", 0), status.get("replicas", 0), time.perf_counter())
                status_came.put_nowait(seen)

    tasks = [asyncio.create_task(watch_pods()), asyncio.create_task(watch_status())]
    to_pod, to_status = [], []
    try:
        await asyncio.sleep(1)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            generation = await bench.change({"replicas": 1})
            to_pod.append(await asyncio.wait_for(pod_came.get(), timeout=30) - began)
            observed, replicas, at = 0, 0, began
            while observed < generation or replicas != 1:
                observed, replicas, at = await asyncio.wait_for(status_came.get(), timeout=30)
            to_status.append(at - began)
            await bench.settled(1)
            await bench.change({"replicas": 0})
            await bench.settled(0)
            await asyncio.sleep(0.5)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [_latency("spec to pod", to_pod), _latency("spec to status", to_status)]


def _latency(name: str, seconds: list[float]) -> Latency:
    milliseconds = sorted(second * 1000 for second in seconds)
    p99 = milliseconds[min(len(milliseconds) - 1, round(0.99 * (len(milliseconds) - 1)))]
    return Latency(name=name, rounds=len(seconds), p50_ms=statistics.median(milliseconds), p99_ms=p99)


# ── the API server alone ─────────────────────────────────────────────────────


async def bare_writes(bench: Bench, pods: int) -> list[Limit]:
    """The writes that pods are made of, with nobody behind them: no scheduler takes these pods."""
    await asyncio.sleep(2)
    template = cloneset(1)["spec"]["template"]
    names = [f"bare-{number:05}" for number in range(pods)]
    ready = {"type": "InPlaceUpdateReady", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}

    async def post(name: str) -> None:
        body = {
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            "spec": {**template["spec"], "schedulerName": "nobody"},
        }
        await bench.client.create(PODS, NAMESPACE, body)

    async def patch_status(name: str) -> None:
        body = {"status": {"conditions": [ready]}}
        await bench.client.patch(
            PODS, NAMESPACE, name, body, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def patch(name: str) -> None:
        body = {"spec": {"containers": [{"name": "main", "image": "nginx:9"}]}}
        await bench.client.patch(PODS, NAMESPACE, name, body, patch_type=PatchType.STRATEGIC)

    async def delete(name: str) -> None:
        await bench.client.delete(PODS, NAMESPACE, name, grace_period_s=0)

    writes = {
        "create pods": post,
        "patch pods/status": patch_status,
        "patch pods": patch,
        "delete pods": delete,
    }
    return [await _bare(bench, what, names, write) for what, write in writes.items()]


async def _bare(bench: Bench, what: str, names: list[str], write: Callable[[str], Awaitable[None]]) -> Limit:
    todo = iter(names)

    async def worker() -> None:
        for name in todo:
            await write(name)

    api_cpu, began = bench.plane.cpu_seconds(API_SERVER), time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(worker())
    seconds = time.perf_counter() - began
    api_cpu = bench.plane.cpu_seconds(API_SERVER) - api_cpu
    count = len(names)
    return Limit(write=what, count=count, per_s=count / seconds, api_server_cpu_ms=api_cpu * 1000 / count)


def with_ratio(phase: RealPhase, limits: list[Limit]) -> RealPhase:
    """The phase with how fast the manager's own writes to pods could have been at most."""
    per_s = {limit.write: limit.per_s for limit in limits}
    seconds = sum(count / per_s[what] for what, count in phase.writes.items() if what in per_s)
    bare = phase.pods / seconds if seconds else 0.0
    return msgspec.structs.replace(
        phase, bare_pods_per_s=bare, ratio=phase.pods_per_s / bare if bare else 0.0
    )


# ── what the kernel says ─────────────────────────────────────────────────────


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident memory of a process now, in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# ── as text ──────────────────────────────────────────────────────────────────


def text(report: Report) -> str:
    """The report as tables."""
    lines = [
        f"Kubernetes {report.kubernetes}, {report.pods} pods on {report.nodes} simulated nodes"
        + (", with the manager's webhooks" if report.webhooks else ""),
        "",
        f"{'phase':<32}{'s':>7}{'pods/s':>8}{'manager':>9}{'RSS':>6}{'API server':>12}{'writes':>8}{'bare':>8}{'':>6}",
        f"{'':<32}{'':>7}{'':>8}{'ms/pod':>9}{'MB':>6}{'ms/pod':>12}{'/pod':>8}{'pods/s':>8}{'ratio':>6}",
    ]
    lines += [
        f"{phase.name:<32}{phase.seconds:>7.1f}{phase.pods_per_s:>8.0f}{phase.manager_cpu_ms_per_pod:>9.2f}"
        f"{phase.manager_rss_mb:>6.0f}{phase.api_server_cpu_ms_per_pod:>12.1f}{phase.writes_per_pod:>8.2f}"
        f"{phase.bare_pods_per_s:>8.0f}{phase.ratio:>6.0%}"
        for phase in report.phases
    ]
    lines += ["", f"{'writes by the manager, a pod':<32}"]
    for phase in report.phases:
        writes = ", ".join(f"{what} {count / phase.pods:.2f}" for what, count in phase.writes.items())
        lines.append(f"  {phase.name:<30}{writes}")
    lines += ["", "writes by everybody else, a pod"]
    for phase in report.phases:
        of_others = phase.writes_of_others.items()
        writes = ", ".join(f"{what} {count / phase.pods:.1f}" for what, count in of_others)
        lines.append(f"  {phase.name:<30}{writes}")
    lines += ["", "CPU of every process, ms a pod"]
    for phase in report.phases:
        used = sorted(phase.cpu_ms_per_pod.items(), key=lambda one: -one[1])
        shown = ", ".join(f"{name} {ms:.1f}" for name, ms in used)
        lines.append(f"  {phase.name:<30}{sum(phase.cpu_ms_per_pod.values()):>5.1f}: {shown}")
    lines += ["", f"{'out of service, a pod':<32}{'p50 ms':>8}{'p99 ms':>8}{'at once':>9}"]
    lines += [
        f"  {phase.name:<30}{phase.out_p50_ms:>8.0f}{phase.out_p99_ms:>8.0f}{phase.out_at_once:>9.1f}"
        for phase in report.phases
        if phase.out_p99_ms
    ]
    lines += ["", f"{'at one replica':<32}{'p50 ms':>8}{'p99 ms':>8}"]
    lines += [f"{one.name:<32}{one.p50_ms:>8.1f}{one.p99_ms:>8.1f}" for one in report.latencies]
    lines += ["", f"{f'API server alone, {CONCURRENCY} at once':<32}{'per s':>8}{'CPU ms':>8}"]
    lines += [f"{one.write:<32}{one.per_s:>8.0f}{one.api_server_cpu_ms:>8.2f}" for one in report.limits]
    return "\n".join(lines)
