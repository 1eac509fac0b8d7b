"""Cost of a DaemonSet by its nodes: a plan, a node's event, and the writes per pod. Prints; asserts nothing.

PYTHONPATH=tests python -m bench.bench_daemonset [--nodes 1000] [--sets 10] [--only-plans]
"""

import argparse
import asyncio
import gc
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import msgspec
import orjson
import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from pykruise.admission.reviewers import build_reviewers  # noqa: E402
from pykruise.kinds import build_crds  # noqa: E402
from pykruise.kinds.daemonset import node_cache  # noqa: E402
from pykruise.kinds.daemonset.kind import KIND  # noqa: E402
from pykruise.kinds.daemonset.node_state import NodeState, examine  # noqa: E402
from pykruise.kinds.daemonset.plan import plan_daemonset  # noqa: E402
from pykruise.kinds.daemonset.snapshot import (  # noqa: E402
    DAEMON_SET_VIEWS,
    DaemonSetSettings,
    DaemonSetSnapshot,
    read_snapshot,
)
from pykruise.kinds.daemonset.types import DAEMON_SETS  # noqa: E402
from pykruise.kube.client.client import Client  # noqa: E402
from pykruise.kube.client.metered import MeteredTransport  # noqa: E402
from pykruise.kube.clock import read_system_clock  # noqa: E402
from pykruise.kube.documents import decode  # noqa: E402
from pykruise.kube.patches.types import PatchType  # noqa: E402
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES  # noqa: E402
from pykruise.manager.manager import Manager  # noqa: E402
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, REVISION_VIEWS, NodeView, project_node  # noqa: E402
from pykruise.runtime.read import Memories, Read  # noqa: E402
from pykruise.sandbox.cluster import Cluster, ClusterSettings  # noqa: E402
from pykruise.sandbox.nodes.pod_state import KubeletSettings  # noqa: E402
from pykruise.sandbox.nodes.specs import NodeSpec  # noqa: E402
from simulation.mutating import mutated  # noqa: E402
from support.daemonset_builder import NOW, DaemonSetBuilder, daemonset, revision, updatable  # noqa: E402
from support.snapshots import OnPaper, read_of, taken  # noqa: E402
from support.wakes import Woken  # noqa: E402


def timed(action: Callable[[], object], *, repeats: int) -> float:
    """CPU seconds of the median run; other work on the machine does not count."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return statistics.median(times)


def node(number: int, version: int = 1, **labels: str) -> NodeView:
    metadata = {
        "name": f"n{number}",
        "uid": f"uid-{number}",
        "resourceVersion": str(version),
        "labels": {"kubernetes.io/hostname": f"n{number}", "zone": f"z{number % 3}", **labels},
    }
    return project_node(orjson.dumps({"metadata": metadata, "spec": {}}))


# ── plans ────────────────────────────────────────────────────────────────────


def builders(count: int) -> Iterator[tuple[str, DaemonSetBuilder]]:
    """The same nodes under different specs."""
    yield "nothing to do", daemonset(count)
    yield "nothing to do, minReadySeconds", daemonset(count).with_spec(minReadySeconds=30)
    yield "a pod for every node", daemonset(count, pods=False).with_spec(burstReplicas="100%")
    yield "update, one at a time", daemonset(count).all_old()
    yield (
        "update, all at once",
        daemonset(count, maxUnavailable="100%").all_old().with_spec(burstReplicas="100%"),
    )
    yield "update in place, all at once", updatable(count, maxUnavailable="100%").all_old()
    yield "surge, all at once", daemonset(count).surging("100%").all_old().with_spec(burstReplicas="100%")
    selector = {"matchLabels": {"kubernetes.io/hostname": "n1"}}
    yield "update of selected nodes", daemonset(count, selector=selector).all_old()


def looks(builder: DaemonSetBuilder, memories: Memories) -> Iterator[DaemonSetSnapshot]:
    """Consecutive snapshots, each after an event of the first pod. Indexes are built before, as in a cache."""
    view, pods = builder.view(), builder.pod_views()
    changed = [msgspec.structs.replace(pod, resource_version=pod.resource_version + 1) for pod in pods[:1]]
    reads: list[Read[Any]] = []
    for those in (pods, [*changed, *pods[1:]]):
        objects: OnPaper = {
            NODE_VIEWS: builder.node_views() if not reads else reads[0].list_all(NODE_VIEWS),
            POD_VIEWS: those,
            REVISION_VIEWS: builder.revision_views(),
        }
        read = read_of(KIND, view, objects, settings=DaemonSetSettings(), now=NOW, memories=memories)
        read.list_owned(POD_VIEWS, view.uid)
        read.list_orphans(POD_VIEWS, view.namespace)
        reads.append(read)
    return (taken(read_snapshot(view, read)) for read in cycle(reads))


def timed_once(events: Iterator[DaemonSetSnapshot]) -> float:
    """Seconds of CPU time of a snapshot and its plan."""
    start = time.thread_time()
    plan_daemonset(next(events))
    return time.thread_time() - start


def measure_plans(count: int) -> None:
    """Snapshot and plan together, which a turn of the loop computes before it writes: the first time, and after
    an event of one node. A new view of that node's pod simulates the event."""
    print(f"── looks at {count} nodes: the first, and one after an event of one node")
    for name, builder in builders(count):
        builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
        events = looks(builder, Memories())
        plan = plan_daemonset(next(events))
        gc.collect()
        first = statistics.median([timed_once(looks(builder, Memories())) for _ in range(9)])
        again = statistics.median([timed_once(events) for _ in range(9)])
        writes = sum(1 for _ in plan.steps)
        print(f"{name:<34}{first * 1000:>7.1f} ms, {again * 1000:>6.2f} ms, {writes} writes")


def measure_events(count: int, sets: int) -> None:
    """Cost of a node's event before anything is enqueued."""
    sets_there = []
    for number in range(sets):
        builder = daemonset(0)
        builder.document["metadata"] |= {"name": f"web-{number}", "uid": f"uid-{number}"}
        sets_there.append(builder.view())
    woken = Woken(KIND, {DAEMON_SET_VIEWS: sets_there}, settings=DaemonSetSettings())
    beats = [(node(n), node(n, version=2)) for n in range(count)]
    labels = [(node(n), node(n, version=2, disk="ssd")) for n in range(count)]
    for name, changes in (("heartbeat", beats), ("label that no set asks for", labels)):

        def look(changes: list[tuple[NodeView, NodeView]] = changes) -> int:
            return sum(len(woken.keys(NODE_VIEWS, old, new)) for old, new in changes)

        seconds, enqueued = timed(look, repeats=5), look()
        print(f"── a node's {name}, {sets} DaemonSets: {seconds / count * 1e6:.1f} µs, {enqueued} enqueued")


# ── a life in the sandbox ────────────────────────────────────────────────────


async def measure_life(nodes: int) -> None:
    """Writes per pod in a sandbox: created, recreated, updated in place.

    The nodes write no leases: a thousand of them would cause a hundred writes per second, which use this whole process
    on a busy machine. Its nodes would then count as lost.
    """
    rng = random.Random(1)
    settings = ClusterSettings(
        nodes=nodes,
        pods_per_node=10,
        kubelet=KubeletSettings(lease_s=None),
        start_s=0.0,
        ready_s=0.0,
        stop_s=0.0,
    )
    async with Cluster(settings, clock=read_system_clock, rng=rng, reviewers=build_reviewers()) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        counting = MeteredTransport(cluster.make_transport("manager"))
        manager = Manager(Client(counting, rng=rng), rng=rng)
        running = asyncio.create_task(manager.run())
        await manager.wait_synced()
        doc = {
            "apiVersion": DAEMON_SETS.api_version,
            "kind": DAEMON_SETS.kind,
            "metadata": {"name": "web"},
            "spec": {
                "burstReplicas": "100%",
                "selector": {"matchLabels": {"app": "web"}},
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "100%"},
                },
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
                },
            },
        }

        async def image(name: str, **container: Any) -> None:
            containers = [{"name": "main", "image": name, **container}]
            patch = {"spec": {"template": {"spec": {"containers": containers}}}}
            await cluster.client.patch(DAEMON_SETS, "default", "web", patch, patch_type=PatchType.MERGE)

        async def phase(name: str, act: Any) -> None:
            counting.requests.clear()
            began, cpu = time.perf_counter(), time.process_time()
            await act
            while not _is_done(decode(await cluster.client.get(DAEMON_SETS, "default", "web")), nodes):
                await asyncio.sleep(0.02)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            writes = sum(
                count for what, count in counting.requests.items() if not what.startswith(("GET", "WATCH"))
            )
            print(
                f"{name:<34}{seconds:>7.1f} s, {nodes / seconds:>5.0f} pods/s, "
                f"{cpu * 1000 / nodes:.2f} ms CPU and {writes / nodes:.2f} writes a pod"
            )

        print(f"── a DaemonSet on {nodes} nodes, all in this process")
        try:
            await phase("create", cluster.client.create(DAEMON_SETS, "default", doc))
            await phase("update in place", image("nginx:2"))
            await phase("update by recreation", image("nginx:2", env=[{"name": "A", "value": "1"}]))
            await asyncio.sleep(1.0)
            await measure_node_events(cluster, counting, nodes)
        finally:
            manager.stop()
            await running


class Looks:
    """Number of reconciles of the DaemonSet, duration of snapshot and plan, and the examined
    nodes."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.nodes: list[str] = []
        self._undone = ExitStack()

    def __enter__(self) -> Self:
        control = KIND.control
        assert control is not None
        snapshot_of, plan_of = control.snapshot, control.plan

        async def made(view: Any, read: Any) -> DaemonSetSnapshot:
            start = time.thread_time()
            snapshot: DaemonSetSnapshot = await snapshot_of(view, read)
            self.seconds.append(time.thread_time() - start)
            return snapshot

        def plan(snapshot: DaemonSetSnapshot) -> Any:
            start = time.thread_time()
            plan = plan_of(snapshot)
            self.seconds[-1] += time.thread_time() - start
            return plan

        def examined(terms: Any, name: str, *args: Any, **kwargs: Any) -> NodeState:
            self.nodes.append(name)
            return examine(terms, name, *args, **kwargs)

        changes = ((control, "snapshot", lambda _: made), (control, "plan", lambda _: plan))
        self._undone.enter_context(mutated(changes))
        self._undone.enter_context(patch.object(node_cache, "examine", examined))
        return self

    def __exit__(self, *_: object) -> None:
        self._undone.close()


async def measure_node_events(cluster: Cluster, counting: MeteredTransport, nodes: int) -> None:
    """Cost of one event of one of many nodes: reconciles, examined nodes, and writes, all for that node."""
    last = f"node-{nodes}"

    async def change(body: Any) -> None:
        await cluster.client.patch(NODES, "", last, body, patch_type=PatchType.MERGE)

    async def heartbeat() -> None:
        doc = decode(await cluster.client.get(NODES, "", last))
        ready = next(condition for condition in doc["status"]["conditions"] if condition["type"] == "Ready")
        ready["lastHeartbeatTime"] = "2030-01-01T00:00:00Z"
        body = {"status": {"conditions": [ready]}}
        await cluster.client.patch(
            NODES, "", last, body, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def join() -> None:
        cluster.kubelets.add_node(NodeSpec(name="joins"))

    taint = {"key": "example.com/x", "effect": "NoExecute"}
    steps = {
        "heartbeat": heartbeat(),
        "a label that no set asks for": change({"metadata": {"labels": {"a": "b"}}}),
        "a taint that expels its pod": change({"spec": {"taints": [taint]}}),
        "the end of that taint": change({"spec": {"taints": None}}),
        "a node joins": join(),
    }
    for name, step in steps.items():
        counting.requests.clear()
        with Looks() as looks:
            await step
            await asyncio.sleep(1.5)
        writes = ", ".join(
            f"{count} {what}"
            for what, count in sorted(counting.requests.items())
            if not what.startswith(("GET", "WATCH")) and "events" not in what
        )
        each = statistics.mean(looks.seconds) * 1000 if looks.seconds else 0.0
        print(
            f"── {name}: {len(looks.seconds)} looks of {each:.2f} ms, examined {Counter(looks.nodes)}, "
            f"writes: {writes or 'none'}"
        )


def _is_done(doc: dict[str, Any], nodes: int) -> bool:
    status = doc.get("status") or {}
    return status.get("observedGeneration") == doc["metadata"]["generation"] and all(
        status.get(field) == nodes
        for field in ("desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled")
    )


def main() -> None:
    """Plans, events, and a life."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--only-plans", action="store_true")
    args = parser.parse_args()
    measure_plans(args.nodes)
    measure_events(args.nodes, args.sets)
    if not args.only_plans:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure_life(args.nodes))


if __name__ == "__main__":
    main()
