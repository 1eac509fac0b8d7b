"""Cost of a StatefulSet: its plans, and with --real its life on a real control plane. Asserts nothing.

PYTHONPATH=tests python -m bench.bench_statefulset [--pods 2000]                      plans, CPU time of one
PYTHONPATH=tests python -m bench.bench_statefulset --real [--pods 500] [--nodes 10]   as bench/real.py measures
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from bench.real import Report, text  # noqa: E402
from bench.stage import NAMESPACE, Bench, RealPhase, bench_on  # noqa: E402
from pykruise.kinds.statefulset.plan import plan_statefulset  # noqa: E402
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS  # noqa: E402
from pykruise.kube.resources import NAMESPACES  # noqa: E402
from support.control_plane import install_kinds  # noqa: E402
from support.statefulset_builder import (  # noqa: E402
    StatefulSetBuilder,
    claim_template,
    statefulset,
    updatable,
)
from support.statefulsets import statefulset as document  # noqa: E402
from testbed.control_plane import ControlPlane  # noqa: E402

# ── plans ────────────────────────────────────────────────────────────────────


def builders(count: int) -> Iterator[tuple[str, StatefulSetBuilder]]:
    """The same pods under different specs."""
    yield "nothing to do, in order", statefulset(count)
    yield "nothing to do, in parallel", statefulset(count, parallel=True)
    yield "nothing to do, with claims", statefulset(count, parallel=True).with_claims(claim_template())
    yield "all pods are made", statefulset(count, pods=False, parallel=True)
    yield "update, one at a time", statefulset(count).all_old()
    yield "update, all at once", statefulset(count, parallel=True, maxUnavailable="100%").all_old()
    yield "update in place, all at once", updatable(count, parallel=True, maxUnavailable="100%").all_old()
    yield "all pods go", statefulset(0, parallel=True).pod(*range(count))


def plans(count: int) -> None:
    """CPU time of a plan; other work on the machine does not count."""
    for name, builder in builders(count):
        snapshot = builder.snapshot()
        times = []
        for _ in range(5):
            began = time.thread_time()
            plan_statefulset(snapshot)
            times.append(time.thread_time() - began)
        print(f"{name:<40}{statistics.median(times) * 1000:>10.1f} ms for {count} pods", flush=True)


# ── a life on a real control plane ───────────────────────────────────────────


async def life(bench: Bench, pods: int) -> list[RealPhase]:
    """Create in parallel, update in place and by recreation, and scale to 0."""

    def update(number: int, *, policy: str, most: str) -> Callable[[], Awaitable[Any]]:
        containers = [{"name": "main", "image": f"nginx:{number}"}]
        rolling = {"maxUnavailable": most, "podUpdatePolicy": policy}
        spec = {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {"spec": {"containers": containers}},
        }
        return lambda: bench.change(spec)

    async def create() -> None:
        doc = document(replicas=pods, parallel=True)
        doc["metadata"]["namespace"] = NAMESPACE
        await bench.client.create(ADVANCED_STATEFUL_SETS, NAMESPACE, doc)

    in_place = "InPlaceIfPossible"
    steps: list[tuple[str, Callable[[], Awaitable[Any]], int]] = [
        ("scale up in parallel until ready", create, pods),
        ("in place, maxUnavailable 100%", update(2, policy=in_place, most="100%"), pods),
        ("in place, maxUnavailable 20%", update(3, policy=in_place, most="20%"), pods),
        ("recreate, maxUnavailable 20%", update(4, policy="ReCreate", most="20%"), pods),
        ("scale down to 0", lambda: bench.change({"replicas": 0}), 0),
    ]
    real_phases = []
    for name, act, replicas in steps:
        real_phases.append(await bench.measure(name, act, pods=pods, replicas=replicas))
        await asyncio.sleep(2)  # let the others (events, garbage, caches) come to rest
    return real_phases


async def on_real(*, pods: int, nodes: int) -> None:
    """Measure on a real control plane."""
    async with await ControlPlane.start(audit=True) as plane:
        await install_kinds(plane)
        async with bench_on(plane, pods=pods, nodes=nodes, kind=ADVANCED_STATEFUL_SETS) as bench:
            await bench.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
            phases = await life(bench, pods)
        minor = plane.kubernetes
    print(text(Report(kubernetes=minor, pods=pods, nodes=nodes, phases=phases, latencies=[], limits=[])))


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser(description="Measure StatefulSets.")
    parser.add_argument("--pods", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--real", action="store_true")
    asked = parser.parse_args()
    if asked.real:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(on_real(pods=asked.pods or 500, nodes=asked.nodes))
    else:
        plans(asked.pods or 2000)


if __name__ == "__main__":
    main()
