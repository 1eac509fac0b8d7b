"""Speed and cost of a CloneSet's life in the sandbox, with everything in one process.

N pods, nodes ──▶ create, wait until all are ready, update, scale to 0 ──▶ seconds, writes per pod, memory
"""

import asyncio
import random
import resource
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.admission.reviewers import build_reviewers
from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.manager.manager import Manager
from pykruise.sandbox.cluster import Cluster, ClusterSettings


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One operation on all pods."""

    name: str
    pods: int
    seconds: float
    pods_per_s: float
    cpu_ms_per_pod: float
    """CPU time of the whole process: API server, kubelets, scheduler and manager."""
    writes_per_pod: float
    """Number of the manager's writes."""
    writes: Mapping[str, int]
    longest_stop_ms: float
    """The longest time for which one step blocked the event loop."""
    rss_mb: float


def rss_mb() -> float:
    """Resident memory of this process now, in MiB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


async def run(*, pods: int, nodes: int) -> list[Phase]:
    """Create, update and scale in `pods` pods on `nodes` nodes."""
    rng = random.Random(1)
    settings = ClusterSettings(
        nodes=nodes, pods_per_node=-(-pods * 2 // nodes), start_s=0.0, ready_s=0.0, stop_s=0.0
    )
    async with Cluster(settings, clock=read_system_clock, rng=rng, reviewers=build_reviewers()) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        counting = MeteredTransport(cluster.make_transport("manager"))
        manager = Manager(Client(counting, rng=rng), rng=rng)
        running = asyncio.create_task(manager.run())
        await manager.wait_synced()
        try:
            return await _phases(cluster.client, counting, pods)
        finally:
            manager.stop()
            await running


async def _phases(client: Client, counting: MeteredTransport, pods: int) -> list[Phase]:
    async def create() -> None:
        await client.create(CLONE_SETS, "default", cloneset(pods))

    async def update() -> None:
        await _merge(client, {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}})

    async def scale_in() -> None:
        await _merge(client, {"replicas": 0})

    return [
        await _measure("scale up", create, client, counting, pods=pods, replicas=pods),
        await _measure(
            "recreate update, maxUnavailable 100%", update, client, counting, pods=pods, replicas=pods
        ),
        await _measure("scale down", scale_in, client, counting, pods=pods, replicas=0),
    ]


async def _measure(
    name: str, act: Any, client: Client, counting: MeteredTransport, *, pods: int, replicas: int
) -> Phase:
    counting.requests.clear()
    watch = asyncio.create_task(_longest_stop())
    began, cpu = time.perf_counter(), time.process_time()
    await act()
    while not _is_done(decode(await client.get(CLONE_SETS, "default", "web")), replicas):
        await asyncio.sleep(0.02)
    seconds = time.perf_counter() - began
    cpu = time.process_time() - cpu
    watch.cancel()
    stop_s = (await asyncio.gather(watch, return_exceptions=True))[0]
    writes = {
        what: count
        for what, count in sorted(counting.requests.items())
        if not what.startswith(("GET", "WATCH"))
    }
    return Phase(
        name=name,
        pods=pods,
        seconds=seconds,
        pods_per_s=pods / seconds,
        cpu_ms_per_pod=cpu * 1000 / pods,
        writes_per_pod=sum(writes.values()) / pods,
        writes=writes,
        longest_stop_ms=float(stop_s.args[0]) * 1000 if isinstance(stop_s, _LoopWatchedError) else 0.0,
        rss_mb=rss_mb(),
    )


class _LoopWatchedError(Exception):
    pass


async def _longest_stop() -> None:
    longest = 0.0
    try:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - before - 0.005)
    except asyncio.CancelledError:
        raise _LoopWatchedError(longest) from None


def _is_done(doc: dict[str, Any], replicas: int) -> bool:
    status = doc.get("status") or {}
    return (
        status.get("observedGeneration") == doc["metadata"]["generation"]
        and status.get("replicas") == replicas
        and status.get("updatedReplicas") == replicas
        and status.get("availableReplicas", 0) == replicas
    )


async def _merge(client: Client, spec: dict[str, Any]) -> None:
    await client.patch(CLONE_SETS, "default", "web", {"spec": spec}, patch_type=PatchType.MERGE)


def cloneset(replicas: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "nginx:1",
        "env": [{"name": f"SETTING_{number}", "value": f"value of setting {number}"} for number in range(10)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": CLONE_SETS.api_version,
        "kind": CLONE_SETS.kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
