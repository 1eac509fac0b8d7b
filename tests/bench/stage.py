"""The stage of a bench on a real control plane: nodes, a client, and the measured process.

on_stage(): kubelets in their own process ──▶ Stage ──▶ managed(): a manager ──▶ Bench.measure() ──▶ RealPhase
                                                        ──▶ any other process (bare.py) ──▶ Bench.measure()

Writes are counted in the API server's audit log, by the manager's user; CPU and memory are the kernel's figures
of each process.
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

from pykruise.admission.configurations import MUTATING, MUTATING_NAME, read_current_conditions
from pykruise.admission.webhook_plan import QUIET_S
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from support.up import ALONE, Kubectl, pykruise, running
from support.webhooks import (
    install_configurations,
    install_namespace,
    uninstall_configurations,
    webhook_settings,
)
from testbed.control_plane import API_SERVER, ControlPlane
from testbed.settings import MANAGER, USERS

NAMESPACE = "bench"
NAME = "web"
CONCURRENCY = 64
"""Concurrent requests of the bench itself."""
WRITE_VERBS = ("create", "update", "patch", "delete")
PHASE_S = 600.0


class RealPhase(msgspec.Struct, frozen=True, kw_only=True):
    """One operation on all pods."""

    name: str
    pods: int
    seconds: float
    pods_per_s: float
    manager_cpu_ms_per_pod: float
    """CPU time of the measured process: a manager, or the bare script in its place."""
    manager_rss_mb: float
    api_server_cpu_ms_per_pod: float
    """CPU time for all clients: manager, kubelets, scheduler, controllers."""
    writes_per_pod: float
    """Writes of the measured process."""
    writes: Mapping[str, int]
    script_pods_per_s: float = 0.0
    """Pods per second of a bare script with the same writes, nodes and scheduler; 0: not measured."""
    of_script: float = 0.0
    """The manager's `pods_per_s`, divided by `script_pods_per_s`."""
    bare_pods_per_s: float = 0.0
    """Pods per second that the API server could handle if it handled nothing but the manager's writes."""
    ratio: float = 0.0
    """The manager's `pods_per_s`, divided by `bare_pods_per_s`."""
    out_p50_ms: float = 0.0
    """Time from not ready to ready of kept pods; 0: no pod left service."""
    out_p99_ms: float = 0.0
    out_at_once: float = 0.0
    """Pods out of service at the same time, on average: it does not depend on how fast the machine is."""
    cpu_ms_per_pod: Mapping[str, float] = {}
    """CPU time of every process that takes part. All share the same cores, which limit every phase."""
    writes_of_others: Mapping[str, int] = {}
    """Writes of all other users, as `user verb resource[/subresource]`."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from a changed spec to its effect, with one replica."""

    name: str
    rounds: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Outages:
    """Times for which pods are not ready, as a watch sees them; only for pods that were ready before and after."""

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
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
        )
        if self._ready.get(uid) and not ready:
            self._since[uid] = at
        elif ready and uid in self._since:
            self.seconds.append(at - self._since.pop(uid))
        self._ready[uid] = ready


class Bench:
    """A stage with a measured process."""

    def __init__(self, stage: "Stage", *, worker: str, pid: int, kind: Resource) -> None:
        self.stage = stage
        self.client = stage.client
        self.kind = kind
        """The measured objects: those called NAME of this resource."""
        self._worker = worker
        self._pid = pid
        self._audit_read = 0

    async def measure(
        self, name: str, act: Callable[[], Awaitable[Any]], *, pods: int, replicas: int
    ) -> RealPhase:
        """Run the work, wait until `replicas` pods are available and all have the newest template, and return
        the cost."""

        async def work() -> None:
            await act()
            await self.settled(replicas)

        return await self.observe(name, work, pods=pods)

    async def observe(self, name: str, work: Callable[[], Awaitable[Any]], *, pods: int) -> RealPhase:
        """Run the work, and return the cost for this number of pods."""
        self.writes()
        cpu = self.cpu()
        outages = Outages(self.client)
        watching = asyncio.create_task(outages.run())
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await work()
        seconds = time.perf_counter() - began
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        out = spread("out of service", outages.seconds or [0.0])
        used = {name: (now - cpu[name]) * 1000 / pods for name, now in self.cpu().items()}
        writes, of_others = self.writes()
        return RealPhase(
            name=name,
            pods=pods,
            seconds=seconds,
            pods_per_s=pods / seconds,
            manager_cpu_ms_per_pod=used[self._worker],
            manager_rss_mb=rss_mb(self._pid),
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
        own = {self._worker: self._pid, "kubelets": self.stage.kubelets_pid, "bench": os.getpid()}
        plane = self.stage.plane
        of_plane = {name: plane.read_cpu_seconds(name) for name in plane.components}
        return of_plane | {name: cpu_s(pid) for name, pid in own.items()}

    def check_worker(self) -> None:
        """Raise an error if the measured process has ended: its work would never be done."""
        if is_ended(self._pid):
            raise RuntimeError(f"the process of the {self._worker} has ended")

    async def settled(self, replicas: int) -> None:
        """Wait until the object has this number of pods, all available and updated."""
        async with asyncio.timeout(PHASE_S):
            while True:
                self.check_worker()
                doc = decode(await self.client.get(self.kind, NAMESPACE, NAME))
                status = doc.get("status") or {}
                counts = {
                    status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")
                }
                if status.get("observedGeneration") == doc["metadata"]["generation"] and counts == {replicas}:
                    return
                await asyncio.sleep(0.05)

    async def gone(self) -> None:
        """Wait until no pod exists."""
        async with asyncio.timeout(PHASE_S):
            while (await self.client.list(PODS, NAMESPACE)).items:
                await asyncio.sleep(0.2)

    async def change(self, spec: dict[str, Any]) -> int:
        """Merge-patch the object's spec; returns its new generation."""
        patch = {"spec": spec}
        raw = await self.client.patch(self.kind, NAMESPACE, NAME, patch, patch_type=PatchType.MERGE)
        generation: int = decode(raw)["metadata"]["generation"]
        return generation

    def writes(self) -> tuple[Counter[str], Counter[str]]:
        """Writes since the last call: the manager's as `verb resource[/subresource]`, and those of all others,
        by user."""
        writes: Counter[str] = Counter()
        of_others: Counter[str] = Counter()
        with self.stage.plane.audit_log.open("rb") as log:
            log.seek(self._audit_read)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # the line is not complete yet
                self._audit_read += len(line)
                event = json.loads(line)
                if event["verb"] not in WRITE_VERBS:
                    continue
                what = event.get("objectRef") or {}
                parts = [what[part] for part in ("resource", "subresource") if part in what]
                write = f"{event['verb']} {'/'.join(parts)}"
                user = event["user"].get("username", "")
                if user == USERS[MANAGER]:
                    writes[write] += 1
                else:
                    of_others[f"{_WHO.get(user, user.rpartition(':')[2])} {write}"] += 1
        return writes, of_others


_WHO = {"admin": "kubelets"}  # the bench itself writes almost nothing


# ── processes that take part ─────────────────────────────────────────────────


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane with nodes."""

    plane: ControlPlane
    client: Client
    kubelets_pid: int

    def bench(self, pid: int, *, worker: str = "manager", kind: Resource = CLONE_SETS) -> "Bench":
        """A bench that measures the process, which the figures call `worker`."""
        return Bench(self, worker=worker, pid=pid, kind=kind)


@asynccontextmanager
async def on_stage(
    plane: ControlPlane, *, pods: int, nodes: int, agent: bool = False
) -> AsyncIterator[Stage]:
    """Kubelets in their own process, with room for twice the pods. `agent`: with simulated node agents."""
    kubelets = (
        *("kubelets", "--kubeconfig", str(plane.kubeconfig), "--nodes", str(nodes)),
        *("--pods-per-node", str(-(-pods * 2 // nodes)), "--start", "0", "--stop", "0"),
        *(("--agent",) if agent else ()),
    )
    transport = HttpTransport(load_kubeconfig(plane.kubeconfig), pool=CONCURRENCY)
    limiter = Limiter(start=CONCURRENCY, minimum=CONCURRENCY, maximum=CONCURRENCY)
    client = Client(transport, limiter=limiter, rng=random.Random(1))
    try:
        with running(*kubelets, says="registered") as process:
            yield Stage(plane=plane, client=client, kubelets_pid=process.pid)
    finally:
        await transport.close()


@asynccontextmanager
async def managed(
    stage: Stage, *, kind: Resource = CLONE_SETS, webhooks: bool = False
) -> AsyncIterator[Bench]:
    """A manager in its own process; with `webhooks`, the API server calls it while it runs."""
    flags = [text for text in ALONE if not (webhooks and text.startswith("--enable-webhooks"))]
    manager = ("manager", "--kubeconfig", str(stage.plane.manager_kubeconfig), *flags)
    with TemporaryDirectory() as folder:
        env = await _published(stage.client, Path(folder)) if webhooks else None
        with running(*manager, says="controller starts", env=env) as process:
            if webhooks:
                await _narrowed(stage.client)
            try:
                yield stage.bench(process.pid, kind=kind)
            finally:
                if webhooks:
                    await uninstall_configurations(stage.client)


async def install_pykruise(plane: ControlPlane, *flags: str) -> None:
    """Apply the output of `pykruise install` with these flags, with webhooks at this machine's loopback."""
    printed = await asyncio.to_thread(pykruise, "install", "--webhook-host=127.0.0.1", *flags)
    printed.check_returncode()
    await asyncio.to_thread(apply_manifests, plane, printed.stdout)


def apply_manifests(plane: ControlPlane, manifests: str) -> None:
    """Apply manifests with the permissions of an admin, also over fields of other managers."""
    kubectl = Kubectl(plane.kubeconfig, program=str(plane.find_binary("kubectl")))
    kubectl.says("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)


@asynccontextmanager
async def bench_on(
    plane: ControlPlane, *, pods: int, nodes: int, kind: Resource = CLONE_SETS
) -> AsyncIterator[Bench]:
    """Kubelets and a manager."""
    async with on_stage(plane, pods=pods, nodes=nodes) as stage, managed(stage, kind=kind) as bench:
        yield bench


async def _published(client: Client, folder: Path) -> dict[str, str]:
    """Webhook configurations that name this machine's loopback; returns the manager's flags for that."""
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


async def _narrowed(client: Client) -> None:
    """Wait until API servers send only reviews of selected pods, as in a cluster where no SidecarSet and no
    WorkloadSpread has changed for two minutes."""
    async with asyncio.timeout(2 * QUIET_S):
        while True:
            result = read_current_conditions(decode(await client.get(MUTATING, "", MUTATING_NAME)))
            if any(result.values()):
                return
            await asyncio.sleep(1)


# ── figures of the kernel ────────────────────────────────────────────────────


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_ended(pid: int) -> bool:
    """Whether a child process has ended, also while nothing has read its exit code."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def rss_mb(pid: int) -> float:
    """Resident memory of a process now, in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def spread(name: str, seconds: list[float]) -> Latency:
    """Median and high percentiles of some times."""
    milliseconds = sorted(second * 1000 for second in seconds)

    def percentile(share: float) -> float:
        return milliseconds[min(len(milliseconds) - 1, round(share * (len(milliseconds) - 1)))]

    return Latency(
        name=name,
        rounds=len(seconds),
        p50_ms=statistics.median(milliseconds),
        p95_ms=percentile(0.95),
        p99_ms=percentile(0.99),
    )
