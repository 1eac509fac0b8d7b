"""Time for which pods are out of service during an image update on real nodes: in place, and with a Deployment.

PYTHONPATH=tests:. python -m bench.bench_nodes [--nodes 3] [--pods 60] [--pull]

The same pods belong to one workload after the other: a CloneSet updated in place with maxUnavailable 20% and 100%, a
CloneSet that recreates its pods with 20%, and a Deployment with maxUnavailable 20% without surge. "Out of service" is
the number of missing ready pods, integrated over time and divided by the wanted number: seconds per pod, as a client
sees them. Both images are pulled on all nodes before, unless `--pull` is set. Prints; asserts nothing. Needs root
(testbed/node.py).
"""

import argparse
import asyncio
import os
import random
import time
from collections.abc import Mapping
from typing import Any

import uvloop

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, PODS, Resource
from pykruise.manager.manager import Manager
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.control_plane import connection, install_kinds
from support.real_cluster import say
from testbed.control_plane import ControlPlane
from testbed.node import Nodes, check

NAMESPACE = "default"
PATIENCE_S = 300.0
IMAGES = ("shop:1", "shop:2")

WAYS: Mapping[str, tuple[Resource, dict[str, Any]]] = {
    "in place, 20% at once": (CLONE_SETS, {"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "20%"}),
    "in place, all at once": (CLONE_SETS, {"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "100%"}),
    "CloneSet that recreates, 20%": (CLONE_SETS, {"podUpdatePolicy": "ReCreate", "maxUnavailable": "20%"}),
    "Deployment, 20%": (DEPLOYMENTS, {"maxUnavailable": "20%", "maxSurge": 0}),
}


class Service:
    """Watches pods, and adds up the number of missing ready pods over time."""

    def __init__(self, client: Client, wanted: int) -> None:
        self._wanted = wanted
        self._since = 0.0
        self._ready = wanted
        self.missing_s = 0.0
        self.fewest = wanted
        self.cache: Cache[PodView] = Cache(
            client,
            PODS,
            project=project_pod,
            namespace=NAMESPACE,
            label_selector="app=shop",
            clock=read_system_clock,
            rng=random.Random(1),
        )
        self.cache.subscribe(self._on_change)

    def begin(self) -> None:
        """Count from now on."""
        self._since, self.missing_s, self.fewest = time.monotonic(), 0.0, self._wanted

    def end(self) -> float:
        """Seconds out of service per pod since `begin()`."""
        self._add()
        return self.missing_s / self._wanted

    def _add(self) -> None:
        now = time.monotonic()
        self.missing_s += max(0, self._wanted - self._ready) * (now - self._since)
        self._since = now

    def _on_change(self, _: Change[PodView]) -> None:
        self._add()
        self._ready = sum(pod.is_serving for pod in self.cache.values())
        self.fewest = min(self.fewest, self._ready)

    def has(self, image: str) -> bool:
        """Whether all pods are ready with this image, and there are no other pods."""
        pods = self.cache.values()
        return len(pods) == self._wanted and all(
            pod.is_serving and pod.containers[0].image == image for pod in pods
        )


def workload(resource: Resource, strategy: dict[str, Any], pods: int) -> dict[str, Any]:
    """The same pods for every owner; they end immediately after the signal."""
    spec: dict[str, Any] = {
        "replicas": pods,
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "main", "image": IMAGES[0]}]},
        },
    }
    field = "updateStrategy" if resource is CLONE_SETS else "strategy"
    spec[field] = {"type": "RollingUpdate", "rollingUpdate": strategy}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "shop"},
        "spec": spec,
    }


async def until(claim: Any, what: str) -> None:
    """Wait until the claim is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not claim():
            await asyncio.sleep(0.05)
    say(f"  {what}")


async def measure(client: Client, way: str, pods: int) -> None:
    """Measure a rollout, and print a line: its duration, seconds out of service per pod, and the fewest ready pods."""
    resource, strategy = WAYS[way]
    service = Service(client, pods)
    watching = asyncio.create_task(service.cache.run())
    await service.cache.wait_synced()
    await client.create(resource, NAMESPACE, workload(resource, strategy, pods))
    await until(lambda: service.has(IMAGES[0]), "all run")
    service.begin()
    began = time.monotonic()
    containers = [{"name": "main", "image": IMAGES[1]}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await client.patch(resource, NAMESPACE, "shop", patch, patch_type=PatchType.MERGE)
    await until(lambda: service.has(IMAGES[1]), "all run the new image")
    took, out = time.monotonic() - began, service.end()
    print(
        f"{way:32} {took:8.1f} s {out:8.2f} s a pod out of service, {service.fewest} ready at least",
        flush=True,
    )
    await client.delete(resource, NAMESPACE, "shop")
    await until(lambda: not service.cache.values(), "gone")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def pull_ahead(client: Client, nodes: Nodes) -> None:
    """Have both images on every node."""
    for node in nodes:
        for image in IMAGES:
            name = f"{node.name}-{image.replace(':', '-')}"
            spec = {"nodeName": node.name, "containers": [{"name": "main", "image": image}]}
            await client.create(PODS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
    while True:
        result = [decode(raw) for raw in (await client.list(PODS, NAMESPACE)).items]
        if all(pod["status"]["phase"] == "Running" for pod in result):
            break
        await asyncio.sleep(0.2)
    for pod in result:
        await client.delete(PODS, NAMESPACE, pod["metadata"]["name"])
    while (await client.list(PODS, NAMESPACE)).items:
        await asyncio.sleep(0.2)


async def run(*, kubernetes: str | None, count: int, pods: int, is_pulled: bool) -> None:
    """Run all types of rollouts sequentially on one cluster."""
    check()
    async with (
        await ControlPlane.start(kubernetes, nodes=True) as plane,
        await Nodes.start(plane, count, kubelet={"maxPods": 250}) as nodes,
    ):
        await install_kinds(plane)
        transports = [
            HttpTransport(connection(path)) for path in (plane.kubeconfig, plane.manager_kubeconfig)
        ]
        client = Client(transports[0])
        manager = Manager(Client(transports[1]), clock=read_system_clock, rng=random.Random(2))
        working = asyncio.create_task(manager.run())
        await manager.wait_synced()
        if is_pulled:
            await pull_ahead(client, nodes)
        print(f"Kubernetes {plane.kubernetes}, {count} nodes, {pods} pods, load {os.getloadavg()[0]:.1f}")
        for way in WAYS:
            await measure(client, way, pods)
        manager.stop()
        await working
        for each in transports:
            await each.close()


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser(description="Measure updates on real nodes.")
    parser.add_argument("--kubernetes", metavar="MINOR")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--pull", action="store_true", help="nodes have no image before pods need it")
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            run(kubernetes=asked.kubernetes, count=asked.nodes, pods=asked.pods, is_pulled=not asked.pull)
        )


if __name__ == "__main__":
    main()
