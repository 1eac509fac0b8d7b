"""Cost of an image pull on a thousand nodes: writes per node, wakes, time.

PYTHONPATH=tests python -m bench.bench_images [--nodes 1000] [--parallelism 100] [--beside 50] [--pull-s 0.2]

Nodes get their NodeImages, a job that never ends makes all of them pull, the status of one node changes, and the job
is deleted. `--beside`: number of further jobs that never end, for other images; they must not be enqueued. Everything
runs in one process, including the sandbox's API server and the nodes' agents. Prints; asserts nothing.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

sys.path[:0] = [str(Path(__file__).parents[1])]

from pykruise.admission.reviewers import build_reviewers  # noqa: E402
from pykruise.admission.settings import make_admission_settings  # noqa: E402
from pykruise.agent.simulated import AgentTasks, SimulatedAgents, make_simulated_agents  # noqa: E402
from pykruise.agent.simulated.image_agents import ImageAgents  # noqa: E402
from pykruise.kinds import build_crds, list_conversions  # noqa: E402
from pykruise.kinds.gates import Gates  # noqa: E402
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS  # noqa: E402
from pykruise.kube.client.client import Client  # noqa: E402
from pykruise.kube.client.metered import MeteredTransport  # noqa: E402
from pykruise.kube.clock import read_system_clock  # noqa: E402
from pykruise.kube.documents import decode  # noqa: E402
from pykruise.kube.errors import NotFoundError  # noqa: E402
from pykruise.kube.patches.types import PatchType  # noqa: E402
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS  # noqa: E402
from pykruise.manager.manager import Manager  # noqa: E402
from pykruise.manager.settings import ManagerSettings  # noqa: E402
from pykruise.pods.images.node_images import NODE_IMAGES  # noqa: E402
from pykruise.sandbox.apiserver import ConversionFunctions  # noqa: E402
from pykruise.sandbox.cluster import Cluster, ClusterSettings  # noqa: E402
from pykruise.sandbox.nodes.pod_state import KubeletSettings  # noqa: E402

NAME = "ahead"
GATES = Gates.of(ImagePullJobGate=True)
SETTINGS = ManagerSettings(gates=GATES, flags={"nodeimage-creation-delay": 0.0})


class Bench:
    """A cluster with its agents, and a manager."""

    def __init__(self, cluster: Cluster, *, nodes: int) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.counting = MeteredTransport(cluster.make_transport("manager"))
        rng = random.Random(2)
        self.manager = Manager(Client(self.counting, rng=rng), settings=SETTINGS, rng=rng)

    async def phase(
        self, name: str, act: Callable[[], Awaitable[Any]], until: Callable[[], Awaitable[bool]]
    ) -> None:
        """Run the work, wait until it is complete and at rest, and print the cost."""
        self.counting.requests.clear()
        by_agents, reconciles = self._agent_writes, self._reconciles()
        began, cpu = time.perf_counter(), time.process_time()
        await act()
        while not await until():
            await asyncio.sleep(0.05)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        await asyncio.sleep(1.5)
        writes = Counter(
            {
                what: count
                for what, count in self.counting.requests.items()
                if what.split()[0] in ("POST", "PUT", "PATCH", "DELETE") and " events" not in what
            }
        )
        agents = self._agent_writes - by_agents
        ours = sum(writes.values())
        woken = {reconcile: count - reconciles[reconcile] for reconcile, count in self._reconciles().items()}
        print(
            f"{name:30} {seconds:6.2f} s  {(ours + agents) / self.nodes:6.3f} writes a node "
            f"(manager {ours / self.nodes:.3f}, agents {agents / self.nodes:.3f})  "
            f"{1000 * cpu / self.nodes:.2f} ms CPU a node (API server too)  reconciles {woken}  {dict(writes)}"
        )

    @property
    def _agent_writes(self) -> int:
        return _image_agents(self.cluster).status_writes

    def _reconciles(self) -> dict[str, int]:
        stats = self.manager.read_stats().controllers
        return {name: stats[name].reconciles for name in ("nodeimage", "imagepulljob") if name in stats}

    async def has_node_images(self) -> bool:
        return len((await self.cluster.client.list(NODE_IMAGES)).items) == self.nodes

    async def create(self, name: str, image: str, **spec: Any) -> None:
        doc = {
            "apiVersion": IMAGE_PULL_JOBS.api_version,
            "kind": IMAGE_PULL_JOBS.kind,
            "metadata": {"name": name},
            "spec": {"image": image, "completionPolicy": {"type": "Always"}, **spec},
        }
        await self.cluster.client.create(IMAGE_PULL_JOBS, "default", doc)

    async def is_everywhere(self) -> bool:
        doc = decode(await self.cluster.client.get(IMAGE_PULL_JOBS, "default", NAME))
        return bool((doc.get("status") or {}).get("succeeded") == self.nodes)

    async def tamper(self) -> None:
        """Report another state of one image, as a node does."""
        doc = decode(await self.cluster.client.get(NODE_IMAGES, "", "node-1"))
        (tag,) = doc["status"]["imageStatuses"]["ahead"]["tags"]
        patch = {"status": {"imageStatuses": {"ahead": {"tags": [{**tag, "message": "again"}]}}}}
        await self.cluster.client.patch(
            NODE_IMAGES, "", "node-1", patch, patch_type=PatchType.MERGE, subresource="status"
        )

    async def is_gone(self) -> bool:
        try:
            await self.cluster.client.get(IMAGE_PULL_JOBS, "default", NAME)
        except NotFoundError:
            listed = (await self.cluster.client.list(NODE_IMAGES)).items
            return not any(b'"ahead":{' in bytes(raw) for raw in listed)
        return False


async def _done() -> bool:
    return True


def _image_agents(cluster: Cluster) -> ImageAgents:
    agents = cluster.kubelets.agents
    assert isinstance(agents, SimulatedAgents)
    assert agents.images is not None
    return agents.images


async def run(*, nodes: int, parallelism: int, beside: int, pull_s: float) -> None:
    """Measure nodes, a job, one status, and the end of the job."""
    settings = ClusterSettings(
        nodes=nodes,
        controllers=(),
        kubelet=KubeletSettings(pull_s=pull_s, lease_s=None),
        agents=make_simulated_agents(AgentTasks(pulls_ahead=True)),
        tracks_fields=False,
    )
    async with Cluster(
        settings,
        clock=read_system_clock,
        rng=random.Random(1),
        reviewers=build_reviewers(make_admission_settings(GATES)),
        conversions=ConversionFunctions(list_conversions()),
    ) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        bench = Bench(cluster, nodes=nodes)
        print(f"{nodes} nodes, parallelism {parallelism}, {beside} other jobs")
        running = asyncio.create_task(bench.manager.run())
        await bench.manager.wait_synced()
        await _image_agents(cluster).node_images.wait_synced()

        async def nothing() -> None:
            return None

        await bench.phase("NodeImages for all nodes", nothing, bench.has_node_images)
        for number in range(beside):
            names = {"names": ["node-1"]}
            policy = {"type": "Never"}
            await bench.create(f"other-{number}", f"other:{number}", selector=names, completionPolicy=policy)
        await asyncio.sleep(3.0 if beside else 0.0)
        await bench.phase(
            "a job over all of them",
            lambda: bench.create(
                NAME, "ahead:1", parallelism=parallelism, completionPolicy={"type": "Never"}
            ),
            bench.is_everywhere,
        )
        await bench.phase("one node's status changes", bench.tamper, _done)
        await bench.phase(
            "the job is deleted",
            lambda: cluster.client.delete(IMAGE_PULL_JOBS, "default", NAME),
            bench.is_gone,
        )
        bench.manager.stop()
        await running


def main() -> None:
    """Run the requested measurements."""
    parser = argparse.ArgumentParser(description="Measure ImagePullJobs.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--parallelism", type=int, default=100)
    parser.add_argument("--beside", type=int, default=50)
    parser.add_argument("--pull-s", type=float, default=0.2, help="what a pull takes")
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            run(nodes=asked.nodes, parallelism=asked.parallelism, beside=asked.beside, pull_s=asked.pull_s)
        )


if __name__ == "__main__":
    main()
