"""Cost of a PodUnavailableBudget: status writes and CPU per decision, during many concurrent deletions.

PYTHONPATH=tests:. python -m bench.bench_podunavailablebudget [--pods 200] [--going 64] [--let-go 20] [--replicas 3]

Users, webhooks (over HTTPS, behind one address), the manager and the sandbox's API server are in one process. The CPU
time of the same race without a budget is also printed. Prints; asserts nothing.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.budget_race import Raced, race  # noqa: E402
from support.webhook_place import webhook_place  # noqa: E402


async def run(*, pods: int, going: int, let_go: int, replicas: int) -> None:
    """Measure without a budget, and with one."""
    print(f"{pods} pods, {going} to go at once, {let_go} may be out, {replicas} webhook replicas")
    for name, amount in (("no budget", None), ("a budget", let_go)):
        with tempfile.TemporaryDirectory() as folder:
            async with webhook_place(None, Path(folder)) as place:
                raced = await race(place, pods=pods, going=going, let_go=amount, replicas=replicas)
        print(line(name, raced, going))


def line(name: str, raced: Raced, going: int) -> str:
    """Measure one race. A decision is one response to a deletion or an eviction."""
    return (
        f"{name:10} {raced.decisions:4d} decisions in {raced.seconds:5.2f} s, "
        f"{1000 * raced.cpu_s / raced.decisions:5.2f} ms CPU each; {raced.writes} status writes "
        f"({raced.writes / going:.2f} a pod that went, {raced.conflicts} conflicts); fewest serving {raced.fewest}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--going", type=int, default=64)
    parser.add_argument("--let-go", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=3)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(pods=given.pods, going=given.going, let_go=given.let_go, replicas=given.replicas))
