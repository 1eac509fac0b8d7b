"""The work of `bench.beside`: each manager does it with the same objects, in the same order.

measure_work(bench, workload) ──▶ one RealPhase per piece of work, and the latencies with one replica

Each piece of work creates or changes objects and returns when their statuses report its end. The last ones
delete the objects, so that the next manager begins with an empty namespace.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from bench.real import latency
from bench.sandbox import cloneset
from bench.stage import NAMESPACE, PHASE_S, Bench, Latency, RealPhase
from pykruise.kube.documents import Document, decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.pods.images.node_images import NODE_IMAGES

__all__ = ["Workload", "measure_work"]

GROUP: Final = "apps.kruise.io"
ROLLOUTS: Final = 10
"""CloneSets that are updated at the same time, and subsets of the UnitedDeployment."""
PAUSE_S: Final = 2.0
"""Seconds between two pieces of work of 100 pods or more, in which events, garbage collection and caches come to
rest."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Size of the work, and the version of the API in which it is written."""

    pods: int
    nodes: int
    version: str = "v1beta1"
    """`v1alpha1` for a release that serves nothing else."""

    def resource(self, plural: str, kind: str) -> Resource:
        """The resource in that version."""
        return Resource(GROUP, self.version, plural, kind)

    @property
    def clone_sets(self) -> Resource:
        """CloneSets."""
        return self.resource("clonesets", "CloneSet")

    def strategy(self, policy: str, max_unavailable: str) -> Document:
        """A CloneSet's update strategy, whose fields differ between the versions."""
        if self.version == "v1alpha1":
            return {"type": policy, "maxUnavailable": max_unavailable}
        return {"rollingUpdate": {"podUpdatePolicy": policy, "maxUnavailable": max_unavailable}}

    def clone_set(self, name: str, replicas: int, *, image: str = "nginx:1") -> Document:
        """A CloneSet that updates its pods in place, all at the same time."""
        document = cloneset(replicas)
        labels = {"app": name}
        template = document["spec"]["template"]
        (container,) = template["spec"]["containers"]
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "updateStrategy": self.strategy("InPlaceIfPossible", "100%"),
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{**container, "image": image}]},
            },
        }
        return self._document(self.clone_sets, name, spec)

    def united_deployment(self, name: str, replicas: int) -> Document:
        """A UnitedDeployment of `ROLLOUTS` subsets, each with an equal share of the pods."""
        resource = self.resource("uniteddeployments", "UnitedDeployment")
        clone_set = self.clone_set(name, 1)["spec"]
        labels = {"app": name}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "cloneSetTemplate": {
                    "metadata": {"labels": labels},
                    "spec": {"selector": clone_set["selector"], "template": clone_set["template"]},
                }
            },
            "topology": {"subsets": [{"name": f"subset-{number}"} for number in range(ROLLOUTS)]},
        }
        return self._document(resource, name, spec)

    def sidecar_set(self, name: str, app: str) -> Document:
        """A SidecarSet that injects one container, and updates it in all pods at the same time."""
        spec = {
            "selector": {"matchLabels": {"app": app}},
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "100%"},
            "containers": [{"name": "side", "image": "side:1"}],
        }
        return self._document(self.resource("sidecarsets", "SidecarSet"), name, spec)

    def image_pull_job(self, name: str) -> Document:
        """An ImagePullJob for all nodes at the same time."""
        spec = {
            "image": "nginx:77",
            "parallelism": self.nodes,
            "pullPolicy": {"timeoutSeconds": 300, "backoffLimit": 2},
            "completionPolicy": {"type": "Always"},
        }
        return self._document(self.resource("imagepulljobs", "ImagePullJob"), name, spec)

    def _document(self, resource: Resource, name: str, spec: Document) -> Document:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }


class Work:
    """The pieces of work on one stage."""

    def __init__(self, bench: Bench, workload: Workload) -> None:
        self._bench = bench
        self._workload = workload
        self.phases: list[RealPhase] = []

    async def roll_one(self) -> None:
        """Create a CloneSet, and update it in four ways."""
        pods, workload = self._workload.pods, self._workload
        await self._measure("scale up", lambda: self._create_clone_sets(["web"], pods), pods=pods)
        updates = (
            ("recreate, maxUnavailable 100%", "ReCreate", "100%"),
            ("in place, maxUnavailable 20%", "InPlaceIfPossible", "20%"),
            ("in place, maxUnavailable 100%", "InPlaceIfPossible", "100%"),
        )
        for number, (name, policy, max_unavailable) in enumerate(updates, start=2):
            strategy = workload.strategy(policy, max_unavailable)
            await self._measure(
                name, lambda n=number, s=strategy: self._update(["web"], pods, n, s), pods=pods
            )

    async def scale_down(self) -> None:
        """Delete all pods of the CloneSet."""

        async def scale_to_zero() -> None:
            await self._bench.change({"replicas": 0})
            await self._bench.settled(0)

        await self._measure("scale down", scale_to_zero, pods=self._workload.pods)

    async def delete_clone_set(self) -> None:
        """Delete the CloneSet itself."""
        await self._delete(self._workload.clone_sets, "web")

    async def roll_many(self) -> None:
        """Update ten CloneSets in place at the same time."""
        names = [f"web-{number}" for number in range(ROLLOUTS)]
        each = max(1, self._workload.pods // ROLLOUTS)
        await self._create_clone_sets(names, each)
        strategy = self._workload.strategy("InPlaceIfPossible", "100%")
        await self._measure(
            f"{ROLLOUTS} CloneSets in place",
            lambda: self._update(names, each, 2, strategy),
            pods=each * ROLLOUTS,
        )
        for name in names:
            await self._delete(self._workload.clone_sets, name)
        await self._bench.gone()

    async def create_united_deployment(self) -> None:
        """Create a UnitedDeployment of ten subsets."""
        replicas = max(1, self._workload.pods // ROLLOUTS) * ROLLOUTS
        document = self._workload.united_deployment("united", replicas)
        resource = self._workload.resource("uniteddeployments", "UnitedDeployment")
        expected = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), replicas)

        async def create() -> None:
            await self._create(resource, document)
            await self._until(resource, "united", expected)

        await self._measure(f"UnitedDeployment of {ROLLOUTS} subsets", create, pods=replicas)
        await self._delete(resource, "united")
        await self._bench.gone()

    async def upgrade_sidecars(self) -> None:
        """Upgrade a sidecar in all pods."""
        pods = self._workload.pods
        resource = self._workload.resource("sidecarsets", "SidecarSet")
        document = self._workload.sidecar_set("side", "sided")
        del document["metadata"]["namespace"]
        await self._bench.client.create(resource, "", document)
        await self._create_clone_sets(["sided"], pods)
        expected = dict.fromkeys(("matchedPods", "updatedPods", "readyPods", "updatedReadyPods"), pods)
        await self._until(resource, "side", expected, namespace="")

        async def upgrade() -> None:
            patch = {"spec": {"containers": [{"name": "side", "image": "side:2"}]}}
            await self._bench.client.patch(resource, "", "side", patch, patch_type=PatchType.MERGE)
            await self._until(resource, "side", expected, namespace="")

        await self._measure("sidecar in place", upgrade, pods=pods)
        await self._delete(self._workload.clone_sets, "sided")
        await self._bench.gone()
        await self._delete(resource, "side", namespace="")

    async def pull_images(self) -> None:
        """Pull an image on all nodes; the figures are per node."""
        nodes = self._workload.nodes
        resource = self._workload.resource("imagepulljobs", "ImagePullJob")
        await self._wait_for_node_images(nodes)

        async def pull() -> None:
            await self._create(resource, self._workload.image_pull_job("ahead"))
            await self._until(resource, "ahead", {"succeeded": nodes}, observed=False)

        await self._measure("ImagePullJob (per node)", pull, pods=nodes)
        await self._delete(resource, "ahead")

    # ── parts ────────────────────────────────────────────────────────────────

    async def _wait_for_node_images(self, count: int) -> None:
        """Wait until every node has its NodeImage: both managers create it only half a minute after the node.

        A job that finds no NodeImage ends immediately, without a node.
        """
        async with asyncio.timeout(PHASE_S):
            while len((await self._bench.client.list(NODE_IMAGES, "")).items) < count:
                self._bench.check_worker()
                await asyncio.sleep(0.5)

    async def _measure(self, name: str, work: Callable[[], Any], *, pods: int) -> None:
        self.phases.append(await self._bench.observe(name, work, pods=pods))
        await asyncio.sleep(PAUSE_S if pods >= 100 else 0.2)

    async def _create_clone_sets(self, names: list[str], replicas: int) -> None:
        for name in names:
            await self._create(self._workload.clone_sets, self._workload.clone_set(name, replicas))
        for name in names:
            await self._until(self._workload.clone_sets, name, _all_updated(replicas))

    async def _update(self, names: list[str], replicas: int, number: int, strategy: Document) -> None:
        for name in names:
            document = self._workload.clone_set(name, replicas, image=f"nginx:{number}")
            spec = {"updateStrategy": strategy, "template": document["spec"]["template"]}
            await self._bench.client.patch(
                self._workload.clone_sets, NAMESPACE, name, {"spec": spec}, patch_type=PatchType.MERGE
            )
        for name in names:
            await self._until(self._workload.clone_sets, name, _all_updated(replicas))

    async def _create(self, resource: Resource, document: Document) -> None:
        await self._bench.client.create(resource, NAMESPACE, document)

    async def _delete(self, resource: Resource, name: str, *, namespace: str = NAMESPACE) -> None:
        await self._bench.client.delete(resource, namespace, name)

    async def _until(
        self,
        resource: Resource,
        name: str,
        expected: Mapping[str, int],
        *,
        namespace: str = NAMESPACE,
        observed: bool = True,
    ) -> None:
        """Wait until the status has the expected numbers. `observed`: for the newest generation of the spec."""
        seen: Document = {}
        try:
            async with asyncio.timeout(PHASE_S):
                while True:
                    self._bench.check_worker()
                    document = decode(await self._bench.client.get(resource, namespace, name))
                    seen = document.get("status") or {}
                    is_current = not observed or (
                        seen.get("observedGeneration") == document["metadata"]["generation"]
                    )
                    if is_current and all(seen.get(field, 0) == count for field, count in expected.items()):
                        return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(
                f"{resource.kind} {name} did not reach {dict(expected)} in {PHASE_S:g} s; its status is {seen}"
            ) from None


async def measure_work(
    bench: Bench, workload: Workload, *, rounds: int
) -> tuple[list[RealPhase], list[Latency]]:
    """Do all work. `rounds`: the number of times that one replica is created and deleted for the latencies."""
    work = Work(bench, workload)
    await work.roll_one()
    await work.scale_down()
    latencies = await latency(bench, rounds=rounds)
    await work.delete_clone_set()
    await work.roll_many()
    await work.create_united_deployment()
    await work.upgrade_sidecars()
    await work.pull_images()
    return work.phases, latencies


def _all_updated(replicas: int) -> Mapping[str, int]:
    return dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), replicas)
