"""Limits of the API server alone: the writes of pods, without controllers, scheduler and nodes.

Stage ──▶ bare_writes() ──▶ Limit (per second, CPU) of each type ──▶ with_ratio() adds them to a phase

No scheduler handles these pods. bare.py measures the same writes with schedulers and nodes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from bench.sandbox import cloneset
from bench.stage import CONCURRENCY, NAMESPACE, RealPhase, Stage
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from testbed.control_plane import API_SERVER


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Bare writes of one type, 64 in parallel, while nothing else runs."""

    write: str
    count: int
    per_s: float
    api_server_cpu_ms: float


async def bare_writes(stage: Stage, pods: int) -> list[Limit]:
    """The writes of pods alone: no scheduler handles these pods."""
    await asyncio.sleep(2)
    template = cloneset(1)["spec"]["template"]
    names = [f"bare-{number:05}" for number in range(pods)]
    ready = {"type": "InPlaceUpdateReady", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}

    async def post(name: str) -> None:
        body = {
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            "spec": {**template["spec"], "schedulerName": "none"},
        }
        await stage.client.create(PODS, NAMESPACE, body)

    async def patch_status(name: str) -> None:
        body = {"status": {"conditions": [ready]}}
        await stage.client.patch(
            PODS, NAMESPACE, name, body, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def patch(name: str) -> None:
        body = {"spec": {"containers": [{"name": "main", "image": "nginx:9"}]}}
        await stage.client.patch(PODS, NAMESPACE, name, body, patch_type=PatchType.STRATEGIC)

    async def delete(name: str) -> None:
        await stage.client.delete(PODS, NAMESPACE, name, grace_period_s=0)

    writes = {
        "create pods": post,
        "patch pods/status": patch_status,
        "patch pods": patch,
        "delete pods": delete,
    }
    return [await _bare(stage, what, names, write) for what, write in writes.items()]


async def _bare(stage: Stage, what: str, names: list[str], write: Callable[[str], Awaitable[None]]) -> Limit:
    todo = iter(names)

    async def worker() -> None:
        for name in todo:
            await write(name)

    api_cpu, began = stage.plane.read_cpu_seconds(API_SERVER), time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(worker())
    seconds = time.perf_counter() - began
    api_cpu = stage.plane.read_cpu_seconds(API_SERVER) - api_cpu
    count = len(names)
    return Limit(write=what, count=count, per_s=count / seconds, api_server_cpu_ms=api_cpu * 1000 / count)


def with_ratio(phase: RealPhase, limits: list[Limit]) -> RealPhase:
    """The phase with the maximum speed that the API server allows for the manager's own writes to pods."""
    per_s = {limit.write: limit.per_s for limit in limits}
    seconds = sum(count / per_s[what] for what, count in phase.writes.items() if what in per_s)
    bare = phase.pods / seconds if seconds else 0.0
    return msgspec.structs.replace(
        phase, bare_pods_per_s=bare, ratio=phase.pods_per_s / bare if bare else 0.0
    )
