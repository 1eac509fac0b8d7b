"""The writes of a manager to a real API server, and their cost: `make bench CLUSTER=real [N=500] [NODES=10]`.

control plane (testbed) ◀── pykruise kubelets (a process) ── nodes on which pods start and stop immediately
                        ◀── pykruise manager (a process)  ── the measured process
                        ◀── a bare script (bare.py), before and after the manager ── a yardstick: the same writes
                        ◀── this process ── writes, watches, and the bare writes for comparison (limits.py)

With `webhooks` the API server sends admission reviews of every new pod and every CloneSet to the same manager, as in
a cluster with OpenKruise's webhooks. Their cost is part of the manager's figures, but not of the script's.

The audit log, which counts the writes, adds a small cost to every figure, including those of the bare writes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bench.bare import Yardstick, scripted_life, yardsticks
from bench.limits import Limit, bare_writes, with_ratio
from bench.sandbox import cloneset
from bench.stage import CONCURRENCY, NAME, NAMESPACE, Bench, Latency, RealPhase, managed, on_stage, spread
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.documents import decode
from pykruise.kube.resources import NAMESPACES, PODS
from support.control_plane import install_kinds
from testbed.control_plane import ControlPlane

ROUNDS = 30
"""Number of measurements of the latency with one replica."""

CHASE_S = 0.2
"""Seconds between a status and the next change, where changes follow each other."""

SCALE_UP, IN_PLACE = "scale up until ready", "in place, maxUnavailable 100%"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    kubernetes: str
    pods: int
    nodes: int
    webhooks: bool = False
    """Whether the manager's webhooks were called."""
    phases: list[RealPhase]
    latencies: list[Latency]
    limits: list[Limit]
    yardsticks: list[Yardstick] = []
    """A bare script on the same stage."""


# ── the run ──────────────────────────────────────────────────────────────────


async def run(*, pods: int, nodes: int, webhooks: bool = False) -> Report:
    """Measure everything on a control plane."""
    async with await ControlPlane.start(audit=True) as plane:
        await install_kinds(plane)
        async with on_stage(plane, pods=pods, nodes=nodes) as stage:
            await stage.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
            before = await scripted_life(stage, pods=pods)
            async with managed(stage, webhooks=webhooks) as bench:
                phases = await life(bench, pods)
                latencies = await latency(bench)
                await bench.client.delete(CLONE_SETS, NAMESPACE, NAME)
                await bench.gone()
            after = await scripted_life(stage, pods=pods)
            measured = {phase.name: phase for phase in phases}
            sticks = yardsticks(
                before, after, scale_up=measured[SCALE_UP], in_place=measured[IN_PLACE], pods=pods
            )
            limits = await bare_writes(stage, pods)
        minor = plane.kubernetes
    phases = [with_script(with_ratio(phase, limits), sticks) for phase in phases]
    return Report(
        kubernetes=minor,
        pods=pods,
        nodes=nodes,
        webhooks=webhooks,
        phases=phases,
        latencies=latencies,
        limits=limits,
        yardsticks=sticks,
    )


def with_script(phase: RealPhase, sticks: list[Yardstick]) -> RealPhase:
    """The phase with the figures of the first script for the same work."""
    stick = next((stick for stick in sticks if stick.of == phase.name), None)
    if stick is None:
        return phase
    return msgspec.structs.replace(phase, script_pods_per_s=stick.pods_per_s, of_script=stick.ratio)


async def life(bench: Bench, pods: int) -> list[RealPhase]:
    """Measure creation, all ways to update, and scaling in."""

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
        (SCALE_UP, create, pods),
        ("recreate, maxUnavailable 100%", update(2, policy=recreate, max_unavailable="100%"), pods),
        ("recreate, maxUnavailable 20%", update(3, policy=recreate, max_unavailable="20%"), pods),
        (IN_PLACE, update(4, policy=in_place, max_unavailable="100%"), pods),
        ("in place, maxUnavailable 20%", update(5, policy=in_place, max_unavailable="20%"), pods),
        ("scale down to 0", lambda: bench.change({"replicas": 0}), 0),
    ]
    real_phases = []
    for name, act, replicas in steps:
        real_phases.append(await bench.measure(name, act, pods=pods, replicas=replicas))
        await asyncio.sleep(2)  # let the others (events, garbage, caches) come to rest
    return real_phases


# ── latency ──────────────────────────────────────────────────────────────────


async def latency(bench: Bench, *, rounds: int = ROUNDS) -> list[Latency]:
    """Scale between 0 and 1, and measure the time until the pod and the status change; both are watched.

    First there is a pause after each change. Then changes follow each other: the next one is made `CHASE_S` after
    the status of the last one.
    """
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

    async def status_of(generation: int, expected: int) -> float:
        observed, replicas, at = 0, -1, 0.0
        while observed < generation or replicas != expected:
            observed, replicas, at = await asyncio.wait_for(status_came.get(), timeout=30)
        return at

    tasks = [asyncio.create_task(watch_pods()), asyncio.create_task(watch_status())]
    to_pod, to_status, chased = [], [], []
    try:
        await asyncio.sleep(1)
        for _ in range(rounds):
            began = time.perf_counter()
            generation = await bench.change({"replicas": 1})
            to_pod.append(await asyncio.wait_for(pod_came.get(), timeout=30) - began)
            to_status.append(await status_of(generation, 1) - began)
            await bench.settled(1)
            await bench.change({"replicas": 0})
            await bench.settled(0)
            await asyncio.sleep(0.5)
        for number in range(2 * rounds):
            expected = 1 - number % 2
            began = time.perf_counter()
            generation = await bench.change({"replicas": expected})
            chased.append(await status_of(generation, expected) - began)
            await asyncio.sleep(CHASE_S)
        await bench.settled(0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [
        spread("spec to pod", to_pod),
        spread("spec to status", to_status),
        spread(f"spec to status, changes every {CHASE_S:g} s", chased),
    ]


# ── as text ──────────────────────────────────────────────────────────────────


def text(report: Report) -> str:
    """The report as tables."""
    lines = [
        f"Kubernetes {report.kubernetes}, {report.pods} pods on {report.nodes} simulated nodes"
        + (", with the manager's webhooks" if report.webhooks else ""),
        "",
        f"{'phase':<32}{'s':>7}{'pods/s':>8}{'manager':>9}{'RSS':>6}{'API server':>12}{'writes':>8}"
        f"{'script':>8}{'':>6}{'bare':>8}{'':>6}",
        f"{'':<32}{'':>7}{'':>8}{'ms/pod':>9}{'MB':>6}{'ms/pod':>12}{'/pod':>8}"
        f"{'pods/s':>8}{'ratio':>6}{'pods/s':>8}{'ratio':>6}",
    ]
    lines += [
        f"{phase.name:<32}{phase.seconds:>7.1f}{phase.pods_per_s:>8.0f}{phase.manager_cpu_ms_per_pod:>9.2f}"
        f"{phase.manager_rss_mb:>6.0f}{phase.api_server_cpu_ms_per_pod:>12.1f}{phase.writes_per_pod:>8.2f}"
        f"{_or_nothing(phase.script_pods_per_s, phase.of_script)}"
        f"{phase.bare_pods_per_s:>8.0f}{phase.ratio:>6.0%}"
        for phase in report.phases
    ]
    lines += _of_scripts(report.yardsticks)
    lines += ["", f"{'writes by the manager, a pod':<32}"]
    for phase in report.phases:
        writes = ", ".join(f"{what} {count / phase.pods:.2f}" for what, count in phase.writes.items())
        lines.append(f"  {phase.name:<30}{writes}")
    lines += ["", "writes by all others, a pod"]
    for phase in report.phases:
        of_others = phase.writes_of_others.items()
        writes = ", ".join(f"{what} {count / phase.pods:.1f}" for what, count in of_others)
        lines.append(f"  {phase.name:<30}{writes}")
    lines += ["", "CPU of every process, ms a pod"]
    for phase in report.phases:
        used = sorted(phase.cpu_ms_per_pod.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {ms:.1f}" for name, ms in used)
        lines.append(f"  {phase.name:<30}{sum(phase.cpu_ms_per_pod.values()):>5.1f}: {shown}")
    lines += ["", f"{'out of service, a pod':<32}{'p50 ms':>8}{'p99 ms':>8}{'at once':>9}"]
    lines += [
        f"  {phase.name:<30}{phase.out_p50_ms:>8.0f}{phase.out_p99_ms:>8.0f}{phase.out_at_once:>9.1f}"
        for phase in report.phases
        if phase.out_p99_ms
    ]
    lines += ["", f"{'at one replica':<44}{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}"]
    lines += [
        f"{latency.name:<44}{latency.p50_ms:>8.1f}{latency.p95_ms:>8.1f}{latency.p99_ms:>8.1f}"
        for latency in report.latencies
    ]
    lines += ["", f"{f'API server alone, {CONCURRENCY} at once':<32}{'per s':>8}{'CPU ms':>8}"]
    lines += [
        f"{limit.write:<32}{limit.per_s:>8.0f}{limit.api_server_cpu_ms:>8.2f}" for limit in report.limits
    ]
    return "\n".join(lines)


def _or_nothing(per_s: float, ratio: float) -> str:
    return f"{per_s:>8.0f}{ratio:>6.0%}" if per_s else f"{'':>14}"


def _of_scripts(sticks: list[Yardstick]) -> list[str]:
    if not sticks:
        return []
    head = (
        f"{'a bare script with the same writes':<44}{'s':>7}{'pods/s':>8}{'script':>9}{'API server':>12}"
        f"{'writes':>8}{'out p50':>9}{'p99':>7}{'at once':>9}{'manager':>9}{'its CPU':>9}"
    )
    units = f"{'':<59}{'ms/pod':>9}{'ms/pod':>12}{'/pod':>8}{'ms':>9}{'ms':>7}{'':>9}{'of it':>9}{'of it':>9}"
    rows = []
    for stick in sticks:
        for when, real_phase in (("before", stick.before), ("after", stick.after)):
            of_it = f"{stick.ratio:>9.2f}{stick.cpu_ratio:>9.2f}" if real_phase is stick.after else ""
            rows.append(
                f"  {f'{real_phase.name}, {when}':<42}{real_phase.seconds:>7.1f}{real_phase.pods_per_s:>8.0f}"
                f"{real_phase.manager_cpu_ms_per_pod:>9.2f}{real_phase.api_server_cpu_ms_per_pod:>12.1f}"
                f"{real_phase.writes_per_pod:>8.2f}{real_phase.out_p50_ms:>9.0f}{real_phase.out_p99_ms:>7.0f}"
                f"{real_phase.out_at_once:>9.1f}{of_it}"
            )
    return ["", head, units, *rows]
