"""All measurements for one type of cluster in one run: `make bench [CLUSTER=sandbox|real] [N=] [NODES=]`.

`JSON=file` also writes the figures to a file, `CHART=file.svg` (real) draws them.

--cluster sandbox: sandbox.py (a CloneSet's life, everything in one process) ──▶ table
                   bench_cache.py, bench_plan.py, bench_admission.py, bench_daemonset.py ──▶ lines
--cluster real:    real.py (the same life; API server, manager and kubelets in their own processes) ──▶ tables

Prints; asserts nothing. Each part runs in its own process, so that the memory of one does not affect another.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import uvloop

from bench.sandbox import Phase, run

HERE = Path(__file__).parent


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure CloneSets.")
    parser.add_argument("--cluster", choices=("sandbox", "real"), default="sandbox")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--json", type=Path, help="write the phases to this file too")
    parser.add_argument("--chart", type=Path, help="with --cluster real: draw the phases into this SVG file")
    parser.add_argument(
        "--webhooks", action="store_true", help="with --cluster real: the manager's webhooks are asked too"
    )
    parser.add_argument("--only-life", action="store_true", help="leave the cache and planning parts out")
    asked = parser.parse_args()
    if asked.cluster == "real":
        measure_real(
            pods=asked.pods,
            nodes=asked.nodes,
            webhooks=asked.webhooks,
            file=asked.json,
            chart=asked.chart,
        )
    else:
        measure_sandbox(asked)


def measure_real(*, pods: int, nodes: int, webhooks: bool, file: Path | None, chart: Path | None) -> None:
    """Measure on a real control plane."""
    from bench import real
    from bench.chart import svg

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(real.run(pods=pods, nodes=nodes, webhooks=webhooks))
    print(real.text(report))
    if file:
        file.write_text(json.dumps(msgspec.to_builtins(report), indent=2) + "\n")
    if chart:
        title = f"{report.pods} pods on {report.nodes} nodes, Kubernetes {report.kubernetes}"
        chart.write_text(svg(report.phases, title=title))


def measure_sandbox(asked: argparse.Namespace) -> None:
    """Measure in the sandbox, and without a cluster."""
    if not asked.only_life:
        for part in ("bench_cache.py", "bench_plan.py", "bench_admission.py", "bench_daemonset.py"):
            print(f"── {part}", flush=True)
            subprocess.run([sys.executable, str(HERE / part)], check=True)
    print(f"── a CloneSet of {asked.pods} pods on {asked.nodes} nodes, all in this process", flush=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        phases = runner.run(run(pods=asked.pods, nodes=asked.nodes))
    print(table(phases))
    if asked.json:
        asked.json.write_text(json.dumps([msgspec.to_builtins(phase) for phase in phases], indent=2) + "\n")


def table(phases: list[Phase]) -> str:
    """A line for each phase. Its CPU time is that of API server, nodes, scheduler and manager together."""
    head = (
        f"{'phase':<40}{'s':>8}{'pods/s':>9}{'CPU ms/pod':>12}{'writes/pod':>12}{'stop ms':>9}{'RSS MB':>8}"
    )
    lines = [
        f"{phase.name:<40}{phase.seconds:>8.1f}{phase.pods_per_s:>9.0f}{phase.cpu_ms_per_pod:>12.2f}"
        f"{phase.writes_per_pod:>12.2f}{phase.longest_stop_ms:>9.0f}{phase.rss_mb:>8.0f}"
        for phase in phases
    ]
    return "\n".join([head, *lines])


if __name__ == "__main__":
    main()
