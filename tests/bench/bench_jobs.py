"""Cost of a BroadcastJob on a thousand nodes, and of a month of an AdvancedCronJob: writes, plans, CPU.

PYTHONPATH=tests python -m bench.bench_jobs [--nodes 1000] [--parallelism 10%]

Everything runs in one process, including the sandbox's API server and kubelets. Prints; asserts nothing.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from pykruise.admission.reviewers import build_reviewers  # noqa: E402
from pykruise.cli.insight.simulating.schedules import ClockPlay, play_clock  # noqa: E402
from pykruise.kinds import build_crds, list_conversions  # noqa: E402
from pykruise.kinds.advancedcronjob.kind import KIND as CRON_JOB  # noqa: E402
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS  # noqa: E402
from pykruise.kube.client.client import Client  # noqa: E402
from pykruise.kube.client.metered import MeteredTransport  # noqa: E402
from pykruise.kube.clock import format_time, parse_time, read_system_clock  # noqa: E402
from pykruise.kube.documents import decode  # noqa: E402
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS  # noqa: E402
from pykruise.manager.manager import Manager  # noqa: E402
from pykruise.sandbox.apiserver import ConversionFunctions  # noqa: E402
from pykruise.sandbox.cluster import Cluster, ClusterSettings  # noqa: E402
from pykruise.sandbox.nodes.pod_state import KubeletSettings  # noqa: E402
from support.broadcast_world import BroadcastWorld  # noqa: E402
from support.cron_world import TEMPLATES, CronWorld  # noqa: E402

NAME = "once"
BEGIN = parse_time("2026-01-01T00:00:00Z")


def job(parallelism: str) -> dict[str, Any]:
    spec = TEMPLATES["broadcastJobTemplate"]["spec"]
    return {
        "apiVersion": BROADCAST_JOBS.api_version,
        "kind": BROADCAST_JOBS.kind,
        "metadata": {"name": NAME},
        "spec": {**spec, **({"parallelism": parallelism} if parallelism else {})},
    }


async def run_on_nodes(nodes: int, parallelism: str) -> None:
    """A job from its creation to its end."""
    kubelet = KubeletSettings(start_s=0.01, job_s=0.5, lease_s=None, heartbeat_s=1e9)
    async with Cluster(
        ClusterSettings(nodes=nodes, kubelet=kubelet, controllers=()),
        clock=read_system_clock,
        rng=random.Random(1),
        reviewers=build_reviewers(),
        conversions=ConversionFunctions(list_conversions()),
    ) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        counting = MeteredTransport(cluster.make_transport("manager"))
        rng = random.Random(2)
        manager = Manager(Client(counting, rng=rng), rng=rng)
        running = asyncio.create_task(manager.run())
        await manager.wait_synced()
        counting.requests.clear()
        began, cpu = time.perf_counter(), time.process_time()
        await cluster.client.create(BROADCAST_JOBS, "default", job(parallelism))
        while True:
            result = decode(await cluster.client.get(BROADCAST_JOBS, "default", NAME))
            if (result.get("status") or {}).get("phase") == "completed":
                break
            await asyncio.sleep(0.05)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        made = counting.requests["POST pods"] / nodes
        statuses = counting.requests["PATCH broadcastjobs/status"] / nodes
        events = sum(count for what, count in counting.requests.items() if "events" in what) / nodes
        print(
            f"BroadcastJob, {nodes} nodes, parallelism {parallelism or 'not limited'}: {seconds:.1f} s, "
            f"{1000 * cpu / nodes:.2f} ms CPU a node (API server and kubelets too); writes a pod: "
            f"{made:.3f} creations, {statuses:.4f} statuses, {events:.3f} events"
        )
        manager.stop()
        await running


def timed(what: str, plan: Callable[[], Any], *, times: int = 15) -> None:
    """The median of some plans."""
    result = []
    for _ in range(times):
        began = time.process_time()
        plan()
        result.append(1000 * (time.process_time() - began))
    print(f"{what}: {statistics.median(result):.2f} ms CPU (median of {times}, {min(result):.2f} at least)")


def plans(nodes: int) -> None:
    """Plans of simulated worlds; views are computed before, as in caches."""
    from pykruise.kinds.broadcastjob.plan import plan_broadcastjob

    world = BroadcastWorld(nodes)
    fresh = world.snapshot()
    timed(f"plan of a new BroadcastJob, {nodes} nodes", lambda: plan_broadcastjob(fresh))
    world.sync(20)
    going = world.snapshot()
    timed(f"plan of one with {nodes} active pods", lambda: plan_broadcastjob(going))
    cron = CronWorld("*/5 * * * *").sync()
    timed("plan of an AdvancedCronJob, with its snapshot and views", cron.plan)


def months() -> None:
    """A month of `pykruise simulate`."""
    for schedule in ("0 * * * *", "*/5 * * * *"):
        document = CronWorld(schedule, created=format_time(BEGIN)).document
        began = time.process_time()
        played = play_clock(
            ClockPlay(kind=CRON_JOB, document=document, start=BEGIN, for_s=30 * 86_400.0, takes_s=(60, 60))
        )
        cpu = time.process_time() - began
        print(f"a month of {schedule}: {len(played.fates)} runs, {cpu:.2f} s CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--parallelism", default="")
    given = parser.parse_args()
    plans(given.nodes)
    months()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_on_nodes(given.nodes, given.parallelism))
