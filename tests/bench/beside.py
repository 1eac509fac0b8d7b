"""pykruise and OpenKruise on one control plane, alternately: `make bench-beside [N=500] [NODES=100] [PAIRS=5]`.

control plane ◀── pykruise kubelets (one process for all runs) ── nodes on which pods start and stop immediately
              ◀── pykruise, OpenKruise, pykruise, OpenKruise, … ── the manager of each run, with its webhooks
              ◀── this process ── the work (beside_phases.py), watches, CPU and memory of each process
runs ──▶ compare_runs() ──▶ Comparison (JSON) ──▶ table_of() ──▶ docs/performance.md; chart_of() ──▶ SVG

Both managers get the same permissions, CRDs (OpenKruise's), leader election, webhooks and objects. OpenKruise's
client-side throttling is lifted (500 requests per second, bursts of 1,000), or left at its default with `--throttled`.
A figure is the median of all runs; a ratio is the median of the ratios of each pair, so that a slow minute of the
machine affects both.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
import uvloop

from bench.beside_phases import Workload, measure_work
from bench.stage import NAMESPACE, Latency, RealPhase, Stage, apply_manifests, install_pykruise, on_stage
from pykruise.kube.resources import NAMESPACES
from support.up import running
from testbed.control_plane import ControlPlane
from testbed.openkruise import OpenKruise
from testbed.settings import MANAGER, USERS

__all__ = [
    "Comparison",
    "ManagerRun",
    "PhaseComparison",
    "compare_runs",
    "main",
    "page_with_tables",
    "table_of",
]

ManagerName = Literal["pykruise", "OpenKruise"]
MANAGERS: Final[tuple[ManagerName, ...]] = ("pykruise", "OpenKruise")
REST_S: Final = 6.0
"""Seconds before and after a manager's work, in which the API server notices webhooks and the end of watches."""


class ManagerRun(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one manager, done once."""

    manager: ManagerName
    phases: list[RealPhase]
    latencies: list[Latency]
    peak_rss_mb: float
    """The most memory that the manager's process had resident."""


class PhaseComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work by both managers; each pair is (pykruise, OpenKruise)."""

    name: str
    pods_per_s: tuple[float, float]
    cpu_ms: tuple[float, float]
    """CPU of the manager per pod (ImagePullJob: per node)."""
    api_server_cpu_ms: tuple[float, float]
    writes: tuple[float, float]
    rss_mb: tuple[float, float]
    out_p50_ms: tuple[float, float]
    """Time for which a kept pod is out of service; 0: no pod left and returned to service."""
    out_p99_ms: tuple[float, float]
    speed_ratio: float
    """Pods per second, pykruise / OpenKruise."""
    cpu_ratio: float
    out_ratio: float
    """Median time out of service, pykruise / OpenKruise; 0: not measured."""


class LatencyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies with one replica in milliseconds, (pykruise, OpenKruise)."""

    name: str
    p50_ms: tuple[float, float]
    p95_ms: tuple[float, float]
    p99_ms: tuple[float, float]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A whole comparison."""

    kubernetes: str
    release: str
    """The release of OpenKruise."""
    throttled: bool
    """Whether OpenKruise's client-side limits were its defaults."""
    pods: int
    nodes: int
    pairs: int
    processors: int
    phases: list[PhaseComparison]
    latencies: list[LatencyComparison]
    peak_rss_mb: tuple[float, float]
    rss_ratio: float
    runs: list[ManagerRun] = []


# ── the runs ─────────────────────────────────────────────────────────────────


async def measure_beside(
    *, workload: Workload, pairs: int, rounds: int, release: str, throttled: bool, rest_s: float = REST_S
) -> Comparison:
    """Run all pairs on their own control plane."""
    runs: list[ManagerRun] = []
    async with await ControlPlane.start(audit=True) as plane:
        original = OpenKruise(plane, release, kubeconfig=plane.manager_kubeconfig, throttled=throttled)
        await asyncio.to_thread(apply_manifests, plane, _ALL_RIGHTS)
        await original.install()
        await original.start()  # OpenKruise writes webhook addresses, which pykruise reuses
        await original.stop()
        async with on_stage(plane, pods=2 * workload.pods, nodes=workload.nodes, agent=True) as stage:
            await stage.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
            for pair in range(pairs):
                # The order alternates, so that the remains of a run do not favour one manager.
                for name in MANAGERS if pair % 2 == 0 else MANAGERS[::-1]:
                    print(f"pair {pair + 1} of {pairs}: {name}", flush=True)
                    run = _run_manager(name, stage, original, workload=workload, rounds=rounds, rest_s=rest_s)
                    runs.append(await run)
        return compare_runs(
            runs,
            kubernetes=plane.kubernetes,
            release=release,
            throttled=throttled,
            pods=workload.pods,
            nodes=workload.nodes,
        )


async def _run_manager(
    name: ManagerName, stage: Stage, original: OpenKruise, *, workload: Workload, rounds: int, rest_s: float
) -> ManagerRun:
    manager = _running_pykruise(stage, original) if name == "pykruise" else _running_original(original)
    async with manager as pid:
        await asyncio.sleep(rest_s)
        phases, latencies = await measure_work(stage.bench(pid), workload, rounds=rounds)
        peak = _peak_rss_mb(pid)
    await asyncio.sleep(rest_s)
    return ManagerRun(manager=name, phases=phases, latencies=latencies, peak_rss_mb=peak)


@asynccontextmanager
async def _running_original(original: OpenKruise) -> AsyncIterator[int]:
    await original.start()
    try:
        yield original.pid
    finally:
        await original.stop()


@asynccontextmanager
async def _running_pykruise(stage: Stage, original: OpenKruise) -> AsyncIterator[int]:
    """A running pykruise with OpenKruise's CRDs, and webhooks at the same port."""
    port = str(original.webhook_port)
    gates = f"--feature-gates={original.gates}"
    await install_pykruise(stage.plane, "--no-crds", f"--webhook-port={port}", gates)
    environment = {"POD_NAMESPACE": original.namespace, "WEBHOOK_HOST": "127.0.0.1", "WEBHOOK_PORT": port}
    manager = (
        *("manager", "--kubeconfig", str(stage.plane.manager_kubeconfig)),
        *(f"--{server}-addr=127.0.0.1:0" for server in ("metrics", "health-probe", "pprof")),
        gates,
    )
    with running(*manager, says="controller starts", env=environment) as process:
        yield process.pid


_ALL_RIGHTS: Final = json.dumps(
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench-managers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USERS[MANAGER]}],
    }
)
"""Both managers have the permissions of an administrator, so that their roles cause no difference."""


def _peak_rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


# ── the comparison ───────────────────────────────────────────────────────────


def compare_runs(
    runs: Sequence[ManagerRun], *, kubernetes: str, release: str, throttled: bool, pods: int, nodes: int
) -> Comparison:
    """Medians of all runs, and medians of the ratios of each pair. The runs of a pair follow each other."""
    pairs = [{run.manager: run for run in runs[number : number + 2]} for number in range(0, len(runs) - 1, 2)]
    ours, theirs = ([pair[name] for pair in pairs] for name in MANAGERS)
    names = [phase.name for phase in ours[0].phases]
    return Comparison(
        kubernetes=kubernetes,
        release=release,
        throttled=throttled,
        pods=pods,
        nodes=nodes,
        pairs=len(pairs),
        processors=os.cpu_count() or 1,
        phases=[
            _compare_phase(name, [run.phases[index] for run in ours], [run.phases[index] for run in theirs])
            for index, name in enumerate(names)
        ],
        latencies=[
            _compare_latency([run.latencies[index] for run in ours], [run.latencies[index] for run in theirs])
            for index in range(len(ours[0].latencies))
        ],
        peak_rss_mb=(
            statistics.median(run.peak_rss_mb for run in ours),
            statistics.median(run.peak_rss_mb for run in theirs),
        ),
        rss_ratio=statistics.median(
            own.peak_rss_mb / other.peak_rss_mb for own, other in zip(ours, theirs, strict=True)
        ),
        runs=list(runs),
    )


def _compare_phase(name: str, ours: Sequence[RealPhase], theirs: Sequence[RealPhase]) -> PhaseComparison:
    def medians(figure: str) -> tuple[float, float]:
        own, other = (statistics.median(getattr(phase, figure) for phase in of) for of in (ours, theirs))
        return own, other

    def ratio(figure: str) -> float:
        ratios = [
            getattr(own, figure) / getattr(other, figure)
            for own, other in zip(ours, theirs, strict=True)
            if getattr(other, figure)
        ]
        return statistics.median(ratios) if ratios else 0.0

    return PhaseComparison(
        name=name,
        pods_per_s=medians("pods_per_s"),
        cpu_ms=medians("manager_cpu_ms_per_pod"),
        api_server_cpu_ms=medians("api_server_cpu_ms_per_pod"),
        writes=medians("writes_per_pod"),
        rss_mb=medians("manager_rss_mb"),
        out_p50_ms=medians("out_p50_ms"),
        out_p99_ms=medians("out_p99_ms"),
        speed_ratio=ratio("pods_per_s"),
        cpu_ratio=ratio("manager_cpu_ms_per_pod"),
        out_ratio=ratio("out_p50_ms"),
    )


def _compare_latency(ours: Sequence[Latency], theirs: Sequence[Latency]) -> LatencyComparison:
    p50, p95, p99 = (
        (
            statistics.median(getattr(latency, figure) for latency in ours),
            statistics.median(getattr(latency, figure) for latency in theirs),
        )
        for figure in ("p50_ms", "p95_ms", "p99_ms")
    )
    return LatencyComparison(name=ours[0].name, p50_ms=p50, p95_ms=p95, p99_ms=p99)


# ── as text ──────────────────────────────────────────────────────────────────


def table_of(comparison: Comparison) -> str:
    """Markdown tables: pykruise / OpenKruise in each cell, and the ratios."""
    limits = "its default client-side limits" if comparison.throttled else "its client-side limits lifted"
    lines = [
        f"pykruise and OpenKruise {comparison.release} ({limits}) on one control plane, Kubernetes "
        f"{comparison.kubernetes}, {comparison.processors} processors, {comparison.pods} pods on {comparison.nodes} "
        f"simulated nodes. Each cell is pykruise / OpenKruise, the median of {comparison.pairs} runs of each; ratios "
        "are the medians of the pairs.",
        "",
        "| work | pods per second | ratio | CPU of the manager, ms per pod | ratio | CPU of the API server, ms per pod "
        "| writes per pod | out of service p50, p99 (ms) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for phase in comparison.phases:
        out = f"{_pair(phase.out_p50_ms, 0)}, {_pair(phase.out_p99_ms, 0)}" if phase.out_ratio else ""
        lines.append(
            f"| {phase.name} | {_pair(phase.pods_per_s, 0)} | **{phase.speed_ratio:.2f}** | {_pair(phase.cpu_ms, 1)} "
            f"| **{phase.cpu_ratio:.2f}** | {_pair(phase.api_server_cpu_ms, 1)} | {_pair(phase.writes, 1)} | {out} |"
        )
    lines += ["", "| one replica | p50 (ms) | p95 (ms) | p99 (ms) |", "|---|---|---|---|"]
    lines += [
        f"| {latency.name} | {_pair(latency.p50_ms, 0)} | {_pair(latency.p95_ms, 0)} | {_pair(latency.p99_ms, 0)} |"
        for latency in comparison.latencies
    ]
    lines += [
        "",
        f"Peak memory of the manager: {_pair(comparison.peak_rss_mb, 0)} MB, ratio **{comparison.rss_ratio:.2f}**.",
    ]
    return "\n".join(lines) + "\n"


BEGIN: Final = "<!-- comparison: made by make bench-beside PAGE=docs/performance.md -->"
END: Final = "<!-- end of the comparison -->"


def page_with_tables(page: str, comparison: Comparison) -> str:
    """The page with these tables between its two marks. Raises ValueError where a mark is missing."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no part between {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n\n{table_of(comparison)}\n{END}{tail}"


def _pair(figures: tuple[float, float], digits: int) -> str:
    own, other = figures
    return f"{own:,.{digits}f} / {other:,.{digits}f}"


def main() -> None:
    """Measure, print the tables, and write the files that were requested."""
    from bench.chart import svg_of_comparison

    parser = argparse.ArgumentParser(
        prog="make bench-beside", description="Compare pykruise with OpenKruise."
    )
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the latencies at one replica")
    parser.add_argument("--release", choices=("1.8", "1.9"), default="1.9")
    parser.add_argument(
        "--throttled", action="store_true", help="OpenKruise with its default client-side limits"
    )
    parser.add_argument(
        "--rest", type=float, default=REST_S, help="seconds before and after each manager's work"
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--chart", type=Path, help="draw the comparison into this SVG file")
    parser.add_argument("--page", type=Path, help="write the tables into the marked part of this page")
    chosen = parser.parse_args()
    workload = Workload(
        pods=chosen.pods, nodes=chosen.nodes, version="v1alpha1" if chosen.release == "1.8" else "v1beta1"
    )
    began = time.perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        comparison = runner.run(
            measure_beside(
                workload=workload,
                pairs=chosen.pairs,
                rounds=chosen.rounds,
                release=chosen.release,
                throttled=chosen.throttled,
                rest_s=chosen.rest,
            )
        )
    print(f"{time.perf_counter() - began:.0f} s\n\n{table_of(comparison)}")
    if chosen.json:
        without_runs = msgspec.structs.replace(comparison, runs=[])
        chosen.json.write_text(json.dumps(msgspec.to_builtins(without_runs), indent=2) + "\n")
    if chosen.page:
        chosen.page.write_text(page_with_tables(chosen.page.read_text(), comparison))
    if chosen.chart:
        chosen.chart.write_text(svg_of_comparison(comparison.phases, release=comparison.release))


if __name__ == "__main__":
    main()
