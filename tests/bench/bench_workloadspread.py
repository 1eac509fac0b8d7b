"""Cost of spreading: CPU and status writes per injected pod, in a burst through two webhook replicas.

PYTHONPATH=tests python -m bench.bench_workloadspread [--pods 500] [--at-once 64] [--replicas 2]

Everything runs in one process. CPU is the difference to the same burst without a WorkloadSpread. Prints;
asserts nothing.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from pykruise.kube.clock import read_system_clock  # noqa: E402
from support.spread_race import race  # noqa: E402
from support.spreads import subset, zone  # noqa: E402


async def run(*, pods: int, at_once: int, replicas: int) -> None:
    """Measure without a WorkloadSpread, with limits, and with subsets without limits."""
    patch = {"metadata": {"annotations": {"zone": "a"}}}
    limited = [
        subset("a", pods // 4, requiredNodeSelector=zone("a"), patch=patch),
        subset("b", pods // 2, requiredNodeSelector=zone("b"), patch=patch),
        subset("c", requiredNodeSelector=zone("c"), patch=patch),
    ]
    bare = await race(pods=pods, at_once=at_once, replicas=replicas, clock=read_system_clock)
    print(f"{pods} pods, {at_once} at once, {replicas} webhook replicas")
    for name, subsets in (("limits", limited), ("no limits", [subset("a", patch=patch)])):
        result = await race(*subsets, pods=pods, at_once=at_once, replicas=replicas, clock=read_system_clock)
        print(
            f"{name:10} {1000 * (result.cpu_s - bare.cpu_s) / pods:6.2f} ms CPU a pod more "
            f"(of {1000 * result.cpu_s / pods:.2f})  {result.writes / pods:.3f} status writes a pod "
            f"({result.conflicts} conflicts, {result.repeated} refused)  {dict(result.pods)}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=2)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(pods=given.pods, at_once=given.at_once, replicas=given.replicas))
