"""Several managers that share the work (--shards), compared with one: throughput, and a cluster of 100,000 pods.

sandbox (its own process, HTTPS, responses to writes after a fixed delay)  ◀── 1, 2, 4 × lone_manager.py
                                                                           ◀── this process: writes, waiting, figures

PYTHONPATH=tests:. python -m bench.slots throughput [--sets 160] [--pods 20] [--delay 0.2] [--managers 1,4]
PYTHONPATH=tests:. python -m bench.slots large      [--sets 1000] [--pods 100] [--touched 100] [--delay 0.2]
                                                     [--managers 1,2,4] [--real]

throughput: `sets` CloneSets of `pods` pods are created, and then updated in place.
large: the pods exist; managers start, rest, and update all pods of `touched` sets in place.

The response to a write takes `delay` seconds. So the number of concurrent writes limits a manager, and neither its
processor nor the server's does: the machine needs no processor for each manager. The bench shows how well managers
share the keys, but not the speed of a processor. With --delay 0 the processors are the limit. With --real the server
is that of testbed/, with simulated kubelets and without delays; its writes are not counted.

Prints; asserts nothing. CPU and memory are those of the managers, each and together.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop

from bench.large import TOKEN, LoneManager
from bench.orphans import end_with_parent
from bench.sandbox import cloneset
from bench.stage import on_stage
from pykruise.cli.kubectl.pods import is_ready
from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Response
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.election.key_slots import SLOTS
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NODES, PODS
from pykruise.manager.manager import Manager
from pykruise.manager.process import USER_AGENT
from pykruise.manager.settings import NAMESPACE
from pykruise.pods.view.keys import INSTANCE_ID_LABEL
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.control_plane import install_kinds
from testbed.control_plane import ControlPlane
from testbed.settings import MANAGER

FLAGS = (
    "--enable-webhooks=false",
    "--metrics-addr=0",
    "--health-probe-addr=0",
    "--pprof-addr=0",
)
FIGURES = "/bench"
PATIENCE_S = 3600.0
REST_S = 30.0
LOOK_S = 1.0


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One operation by a number of managers."""

    managers: int
    name: str
    pods: int
    """Number of changed pods."""
    seconds: float
    cpu_s: tuple[float, ...]
    """CPU time of each manager."""
    rss_mb: tuple[float, ...]
    server_cpu_s: float
    writes: int
    """The managers' writes, except those of Leases and events."""
    lease_writes: int


# ── the cluster ──────────────────────────────────────────────────────────────


class _Slow:
    """An API server that counts writes, and responds to those of managers after `delay_s`, except for Leases."""

    def __init__(self, server: Any, delay_s: float) -> None:
        self._server = server
        self._delay_s = delay_s
        self._counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def handle(self, method: str, path: str, *arguments: Any, **options: Any) -> Any:
        if path == FIGURES:
            result = {"cpu_s": time.process_time(), **self._counts}
            return Response(200, {"content-type": "application/json"}, json.dumps(result).encode())
        if method != "GET" and options["headers"].get("user-agent", "").startswith(USER_AGENT):
            is_lease = "/leases" in path
            self._counts["leases" if is_lease else "events" if "/events" in path else "writes"] += 1
            if self._delay_s and not is_lease:
                await asyncio.sleep(self._delay_s)
        return await self._server.handle(method, path, *arguments, **options)


async def serve(folder: Path, *, sets: int, pods: int, delay_s: float, is_full: bool) -> None:
    """Run a sandbox, with the CloneSets and their pods if requested, until killed."""
    nodes = max(50, sets * pods // 100)
    # Leases of a thousand nodes would keep the server busy, and no manager reads them.
    kubelet = KubeletSettings(lease_s=None)
    settings = ClusterSettings(
        nodes=nodes, kubelet=kubelet, pods_per_node=250, start_s=0.0, ready_s=0.0, stop_s=0.0
    )
    certificate = issue(now=read_system_clock())
    async with Cluster(settings, clock=read_system_clock, rng=random.Random(1)) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        if is_full:
            client = Client(cluster.make_transport("manager"), rng=random.Random(4))
            manager = Manager(client, rng=random.Random(4))
            running = asyncio.create_task(manager.run())
            await make_sets(cluster.client, sets, pods)
            await settled(cluster.client, sets, pods, look_s=10.0)
            manager.stop()
            await running
        slow: Any = _Slow(cluster.server, delay_s)
        front = HttpFront(slow, token=TOKEN, port=0, certificate=certificate)
        await front.start()
        document = build_kubeconfig(front.url, certificate.authority, TOKEN, context="bench")
        write_kubeconfig(folder / "kubeconfig", document)
        (folder / "token").write_text(TOKEN)
        (folder / "ca.crt").write_bytes(certificate.authority)
        print(front.url, flush=True)
        await asyncio.Event().wait()


async def make_sets(client: Client, sets: int, pods: int) -> None:
    """Create this number of CloneSets, whose pods managers then create."""
    for number in range(sets):
        await client.create(CLONE_SETS, "default", _cloneset(number, pods))


def _cloneset(number: int, pods: int) -> dict[str, Any]:
    document = cloneset(pods)
    labels = {"app": f"web-{number}"}
    document["metadata"]["name"] = f"web-{number}"
    document["spec"]["selector"] = {"matchLabels": labels}
    document["spec"]["template"]["metadata"] = {"labels": labels}
    return document


async def settled(
    client: Client, sets: int, pods: int, *, updated: bool = False, look_s: float = LOOK_S
) -> None:
    """Return when all CloneSets have their pods, with the newest revision if requested."""
    wanted = ("replicas", "availableReplicas", *(("updatedAvailableReplicas",) if updated else ()))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            listed = decode(await client.get_path(CLONE_SETS.format_path("default"), timeout_s=120.0))[
                "items"
            ]
            if len(listed) == sets and all(_is_done(item, pods, wanted) for item in listed):
                return
            await asyncio.sleep(look_s)


def _is_done(value: Mapping[str, Any], pods: int, fields: Sequence[str]) -> bool:
    status = value.get("status") or {}
    is_seen = status.get("observedGeneration") == value["metadata"]["generation"]
    return is_seen and all(status.get(field) == pods for field in fields)


# ── the managers ─────────────────────────────────────────────────────────────


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster for managers."""

    client: Client
    folder: Path
    """Files of a service account: token and ca.crt."""
    url: str
    namespace: str
    """Namespace of the managers' Leases."""
    figures: Callable[[], Awaitable[Mapping[str, Any]]]
    """The server's CPU in seconds (`cpu_s`), and writes where they are counted (`writes`, `leases`)."""


class Fleet:
    """A number of managers on one cluster, and their CPU time and memory."""

    def __init__(self, stage: Stage, managers: Sequence[LoneManager]) -> None:
        self._client = stage.client
        self._leases = LEASES.format_path(stage.namespace)
        self._figures = stage.figures
        self.managers = managers
        self._before: dict[str, Any] = {"server": {}, "cpu": [0.0] * len(managers)}

    @classmethod
    async def start(cls, stage: Stage, count: int) -> "Fleet":
        """Start the managers, and return without waiting for their share of the work."""
        flags = [*FLAGS, f"--leader-election-namespace={stage.namespace}"]
        if count > 1:
            flags.append(f"--shards={count}")
        managers = [await LoneManager.start(stage.folder, stage.url, flags=flags) for _ in range(count)]
        fleet = cls(stage, managers)
        fleet._before["server"] = await fleet._figures()
        return fleet

    async def wait_shared(self) -> None:
        """Return when each manager has its share of the slots."""
        count = len(self.managers)
        while count > 1:
            leases = decode(await self._client.get_path(self._leases))["items"]
            holders = Counter(
                lease["spec"].get("holderIdentity")
                for lease in leases
                if "-slot-" in lease["metadata"]["name"]
            )
            if len(holders) == count and max(holders.values()) <= -(-SLOTS // count) and None not in holders:
                return
            await asyncio.sleep(LOOK_S)

    async def phase(self, name: str, pods: int, began: float) -> Phase:
        """CPU time and memory since the last call."""
        seconds = time.perf_counter() - began
        reports = [await manager.report() for manager in self.managers]
        server, before = await self._figures(), self._before
        self._before = {"server": server, "cpu": [report["cpu_s"] for report in reports]}

        def grown(field: str) -> Any:
            return server.get(field, 0) - before["server"].get(field, 0)

        return Phase(
            managers=len(self.managers),
            name=name,
            pods=pods,
            seconds=seconds,
            cpu_s=tuple(value["cpu_s"] - cpu for value, cpu in zip(reports, before["cpu"], strict=True)),
            rss_mb=tuple(report["rss_mb"] for report in reports),
            server_cpu_s=grown("cpu_s"),
            writes=grown("writes"),
            lease_writes=grown("leases"),
        )

    async def end(self) -> None:
        """End all of them immediately; the Leases expire, so that the next managers can begin."""
        for manager in self.managers:
            await manager.end()
        for item in decode(await self._client.get_path(self._leases))["items"]:
            if item["metadata"]["name"].startswith("kruise-manager"):
                await self._client.delete(LEASES, item["metadata"]["namespace"], item["metadata"]["name"])


async def _throughput(client: Client, fleet: Fleet, asked: argparse.Namespace) -> list[Phase]:
    await fleet.wait_shared()
    await asyncio.sleep(5.0)  # caches are full
    phases = [await fleet.phase("start", 0, time.perf_counter())]
    began = time.perf_counter()
    await make_sets(client, asked.sets, asked.pods)
    await settled(client, asked.sets, asked.pods)
    phases.append(await fleet.phase("scale out", asked.sets * asked.pods, began))
    began = time.perf_counter()
    await _update(client, range(asked.sets), f"nginx:{len(fleet.managers) + 1}")
    await settled(client, asked.sets, asked.pods, updated=True)
    phases.append(await fleet.phase("in place", asked.sets * asked.pods, began))
    return phases


async def _large(client: Client, fleet: Fleet, asked: argparse.Namespace) -> list[Phase]:
    began = time.perf_counter()
    count = len(fleet.managers)
    # Each needs a change, because a reconcile without a change would leave no trace.
    await _at_once(range(asked.sets), lambda number: _merge(client, number, {"minReadySeconds": count}))
    await settled(client, asked.sets, asked.pods)
    phases = [await fleet.phase("start, with all pods there", asked.sets * asked.pods, began)]
    await fleet.wait_shared()
    began = time.perf_counter()
    await asyncio.sleep(REST_S)
    phases.append(await fleet.phase(f"rest of {REST_S:.0f} s", 0, began))
    began = time.perf_counter()
    await _merge_all(client, asked.sets, {"minReadySeconds": 0})
    await settled(client, asked.sets, asked.pods)
    phases.append(await fleet.phase("every set is looked at", asked.sets * asked.pods, began))
    began = time.perf_counter()
    await _update(client, range(asked.touched), f"nginx:{count + 1}")
    await settled(client, asked.touched, asked.pods, updated=True) if asked.touched == asked.sets else (
        await _updated(client, asked.touched, asked.pods)
    )
    phases.append(await fleet.phase("in place", asked.touched * asked.pods, began))
    return phases


async def _updated(client: Client, touched: int, pods: int) -> None:
    names = {f"web-{number}" for number in range(touched)}
    while True:
        listed = decode(await client.get_path(CLONE_SETS.format_path("default"), timeout_s=120.0))["items"]
        mine = [item for item in listed if item["metadata"]["name"] in names]
        if all(_is_done(item, pods, ("availableReplicas", "updatedAvailableReplicas")) for item in mine):
            return
        await asyncio.sleep(1.0)


async def _update(client: Client, numbers: Sequence[int], image: str) -> None:
    (container,) = cloneset(1)["spec"]["template"]["spec"]["containers"]
    spec = {
        "updateStrategy": {
            "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}
        },
        "template": {"spec": {"containers": [{**container, "image": image}]}},
    }
    await _at_once(numbers, lambda number: _merge(client, number, spec))


async def _merge_all(client: Client, sets: int, spec: dict[str, Any]) -> None:
    await _at_once(range(sets), lambda number: _merge(client, number, spec))


async def _merge(client: Client, number: int, spec: dict[str, Any]) -> None:
    await client.patch(CLONE_SETS, "default", f"web-{number}", {"spec": spec}, patch_type=PatchType.MERGE)


async def _at_once(numbers: Sequence[int], work: Callable[[int], Awaitable[None]]) -> None:
    todo = iter(numbers)

    async def worker() -> None:
        for number in todo:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(16)))


async def run(asked: argparse.Namespace) -> None:
    """Measure each number of managers sequentially; for throughput each on its own cluster."""
    part = _large if asked.part == "large" else _throughput
    opened = _real if asked.real else _sandbox
    for counts in [asked.managers] if asked.part == "large" else [[manager] for manager in asked.managers]:
        began = time.perf_counter()
        async with opened(asked) as stage:
            print(f"the cluster is there after {time.perf_counter() - began:.0f} s", flush=True)
            for count in counts:
                fleet = await Fleet.start(stage, count)
                try:
                    show(await part(stage.client, fleet, asked))
                finally:
                    await fleet.end()


@asynccontextmanager
async def _sandbox(asked: argparse.Namespace) -> AsyncIterator[Stage]:
    """A sandbox in its own process."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        size = ("--sets", str(asked.sets), "--pods", str(asked.pods), "--delay", str(asked.delay))
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.slots", asked.part, "--serve", name, *size),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert server.stdout is not None
            url = (await server.stdout.readline()).decode().strip()
            transport = HttpTransport(load_kubeconfig(folder / "kubeconfig"))
            client = Client(transport, rng=random.Random(2))

            async def figures() -> Mapping[str, Any]:
                return dict(json.loads(await client.get_path(FIGURES)))

            yield Stage(client=client, folder=folder, url=url, namespace="default", figures=figures)
            await transport.close()
        finally:
            if server.returncode is None:
                server.kill()
            await server.wait()


@asynccontextmanager
async def _real(asked: argparse.Namespace) -> AsyncIterator[Stage]:
    """kube-apiserver and etcd, with the pods of CloneSets that another manager has created."""
    pods = asked.sets * asked.pods
    async with await ControlPlane.start() as plane:
        await install_kinds(plane)
        async with on_stage(plane, pods=pods, nodes=max(20, pods // 250)) as on_it:
            with TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "token").write_text(plane.settings.tokens[MANAGER])
                (folder / "ca.crt").write_bytes(plane.ca_data)

                async def figures() -> Mapping[str, Any]:
                    return {"cpu_s": sum(map(plane.read_cpu_seconds, ("kube-apiserver", "etcd")))}

                stage = Stage(
                    client=on_it.client, folder=folder, url=plane.url, namespace=NAMESPACE, figures=figures
                )
                fleet = await Fleet.start(stage, 1)
                await make_sets(stage.client, asked.sets, 1)
                await settled(stage.client, asked.sets, 1, look_s=5.0)
                await fleet.end()
                os.kill(on_it.kubelets_pid, signal.SIGSTOP)
                await _copy_pods(stage.client, asked.pods)
                os.kill(on_it.kubelets_pid, signal.SIGCONT)
                await _merge_all(stage.client, asked.sets, {"replicas": asked.pods})
                await _all_ready(stage.client, asked.sets * asked.pods)
                yield stage


async def _copy_pods(client: Client, pods: int) -> None:
    """Copy the pod of each CloneSet to this number: two writes each, because no kubelets run yet."""
    originals = [decode(raw) for raw in (await client.list(PODS, "default")).items]
    nodes = [decode(raw)["metadata"]["name"] for raw in (await client.list(NODES, "")).items]

    async def copy(number: int) -> None:
        original = originals[number // (pods - 1)]
        old, instance = original["metadata"], f"{number:05d}"
        metadata = {
            "name": f"{old['labels']['app']}-{instance}",
            "labels": {**old["labels"], INSTANCE_ID_LABEL: instance},
            "annotations": old.get("annotations") or {},
            "ownerReferences": old["ownerReferences"],
        }
        pod = {"metadata": metadata, "spec": {**original["spec"], "nodeName": nodes[number % len(nodes)]}}
        await client.create(PODS, "default", pod)
        gates = {gate["conditionType"] for gate in original["spec"]["readinessGates"]}
        conditions = [
            condition for condition in original["status"]["conditions"] if condition["type"] in gates
        ]
        status = {"status": {"conditions": conditions}}
        await client.patch(
            PODS, "default", metadata["name"], status, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    await _at_once(range(len(originals) * (pods - 1)), copy)


async def _all_ready(client: Client, pods: int) -> None:
    """Return when kubelets have caught up."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            listed = (await client.list(PODS, "default")).items
            if sum(is_ready(decode(raw)) for raw in listed) == pods:
                return
            await asyncio.sleep(20.0)


def show(phases: Sequence[Phase]) -> None:
    """A line for each phase."""
    for phase in phases:
        rate = f"{phase.pods / phase.seconds:7.1f}/s" if phase.pods else " " * 9
        cpu = " ".join(f"{cpu:.1f}" for cpu in phase.cpu_s)
        rss = " ".join(f"{rss:.0f}" for rss in phase.rss_mb)
        print(
            f"{phase.managers} managers  {phase.name:<28}{phase.pods:>7} pods {phase.seconds:7.1f} s {rate}"
            f"  CPU s {cpu}  RSS MB {rss}  server CPU {phase.server_cpu_s:.1f} s"
            f"  writes {phase.writes}  of Leases {phase.lease_writes}  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def main() -> None:
    """Run it, or be its server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=("throughput", "large"))
    parser.add_argument("--sets", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--touched", type=int, default=100)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--managers", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    is_large = asked.part == "large"
    asked.sets = asked.sets or (1000 if is_large else 160)
    asked.pods = asked.pods or (100 if is_large else 20)
    asked.managers = asked.managers or ([1, 2, 4] if is_large else [1, 4])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if asked.serve:
            end_with_parent()
            serving = serve(
                asked.serve, sets=asked.sets, pods=asked.pods, delay_s=asked.delay, is_full=is_large
            )
            runner.run(serving)
        else:
            runner.run(run(asked))


if __name__ == "__main__":
    main()
