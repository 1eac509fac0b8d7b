"""DaemonSets in scenarios: a pool of the test's own nodes, documents, and the states that a test waits for.

pool = await node_pool(stage, 5); await stage.create(pool.daemonset(), resource=DAEMON_SETS); await pool.settled()

A real cluster keeps its nodes between tests. So each test has a pool: nodes with a label that only this test uses.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.sandbox.nodes.specs import NodeSpec
from support.scenario import Object, Stage

POOL_LABEL = "example.com/pool"


def daemonset(name: str = "web", *, image: str = "nginx:1", pool: str = "", **spec: Any) -> Object:
    """A DaemonSet with one container; keywords are further fields of the spec (`updateStrategy=…`)."""
    pod: Object = {"containers": [{"name": "main", "image": image}]}
    if pool:
        pod["nodeSelector"] = {POOL_LABEL: pool}
    return {
        "apiVersion": DAEMON_SETS.api_version,
        "kind": DAEMON_SETS.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            **spec,
        },
    }


class Pool:
    """Nodes of one test, and the DaemonSet on them."""

    def __init__(self, stage: Stage, name: str, nodes: list[str]) -> None:
        self.stage = stage
        self.name = name
        self.nodes = nodes

    def daemonset(self, name: str = "web", **spec: Any) -> Object:
        """A DaemonSet that runs on the pool."""
        return daemonset(name, pool=self.name, **spec)

    async def create(self, name: str = "web", **spec: Any) -> Object:
        """Create a DaemonSet, and return it as stored."""
        return await self.stage.create(self.daemonset(name, **spec), resource=DAEMON_SETS)

    async def get(self, name: str = "web") -> Object:
        """The DaemonSet as stored."""
        return await self.stage.get(name, resource=DAEMON_SETS)

    async def status(self, name: str = "web") -> Object:
        """Status of the DaemonSet; empty before the first one."""
        status: Object = (await self.get(name)).get("status") or {}
        return status

    async def change(self, name: str = "web", **spec: Any) -> Object:
        """Merge these fields into the spec."""
        return await self.stage.merge(name, {"spec": spec}, resource=DAEMON_SETS)

    async def set_image(self, image: str, name: str = "web", **spec: Any) -> Object:
        """Change the image of the template (and further fields of the spec)."""
        containers = [{"name": "main", "image": image}]
        return await self.change(name, template={"spec": {"containers": containers}}, **spec)

    async def patch_node(self, node: str, patch: Object) -> None:
        """Merge-patch a node."""
        await self.stage.client.patch(NODES, "", node, patch, patch_type=PatchType.MERGE)

    async def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node; None removes one."""
        await self.patch_node(node, {"metadata": {"labels": dict(labels)}})

    async def taint(self, node: str, *taints: str) -> None:
        """Give a node exactly these taints, as `key:effect`."""
        result = [
            {"key": key, "effect": effect} for key, _, effect in (taint.partition(":") for taint in taints)
        ]
        await self.patch_node(node, {"spec": {"taints": result or None}})

    async def cordon(self, node: str, unschedulable: bool = True) -> None:
        """Cordon a node as `kubectl cordon` does, with the taint that Kubernetes then adds."""
        await self.patch_node(node, {"spec": {"unschedulable": unschedulable or None}})
        await self.taint(node, *(["node.kubernetes.io/unschedulable:NoSchedule"] if unschedulable else []))

    async def cut_off(self, node: str, *, app: str = "web") -> None:
        """Stop the node, as its status, its taints and its pods report it. The node lifecycle controller writes all
        this, and the control plane of the tests has none.
        """
        self.stage.kubelets.stop_node(node)
        lost = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        client = self.stage.client
        await client.patch(NODES, "", node, lost, patch_type=PatchType.STRATEGIC, subresource="status")
        key = "node.kubernetes.io/unreachable"
        await self.taint(node, f"{key}:NoSchedule", f"{key}:NoExecute")
        for pod in (await self.by_node(app)).get(node, ()):
            body = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
            await client.patch(
                *(PODS, self.stage.namespace, pod.name, body),
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )

    async def bring_back(self, *nodes: str) -> None:
        """Start nodes that were cut off."""
        for node in nodes:
            self.stage.kubelets.start_node(node)
            await self.taint(node)

    async def restore(self) -> None:
        """Restore the nodes for later tests, and remove nodes that joined."""
        listed = await self.stage.client.list(NODES)
        here = {decode(raw)["metadata"]["name"]: decode(raw) for raw in listed.items}
        for node in self.nodes:
            labels = here[node]["metadata"]["labels"] if node in here else {}
            if node.endswith(self.name[-8:]):
                await self.leave_quietly(node)
            elif node in here:
                mine = {key: None for key in labels if self.name in key or key == POOL_LABEL}
                clean = {"metadata": {"labels": mine}, "spec": {"taints": None, "unschedulable": None}}
                await self.patch_node(node, clean)

    async def leave_quietly(self, node: str) -> None:
        """Remove the node like `leave`, also if it is already gone."""
        self.stage.kubelets.stop_node(node)
        with suppress(NotFoundError):
            await self.stage.client.delete(NODES, "", node)

    async def join(self, node: str) -> None:
        """Add a new node to the pool; the name of `node` is made unique for the test."""
        labels = {POOL_LABEL: self.name}
        name = f"{node}-{self.name[-8:]}"
        self.stage.kubelets.add_node(NodeSpec(name=name, labels=labels))
        self.nodes.append(name)

        async def is_there() -> bool:
            try:
                await self.stage.client.get(NODES, "", name)
            except NotFoundError:
                return False
            return True

        await self.stage.until(is_there, what=f"node {name}")

    async def leave(self, node: str) -> None:
        """Remove the node and its kubelet."""
        self.stage.kubelets.stop_node(node)
        await self.stage.client.delete(NODES, "", node)
        self.nodes.remove(node)

    async def by_node(self, app: str = "web") -> dict[str, list[PodView]]:
        """Pods by their target node."""
        node: dict[str, list[PodView]] = {}
        for pod in await self.stage.pods(app):
            node.setdefault(pod.target_node, []).append(pod)
        return node

    async def images(self, app: str = "web") -> dict[str, str]:
        """The image of the live pod of each node."""
        return {
            node: pod.containers[0].image
            for node, pods in (await self.by_node(app)).items()
            for pod in pods
            if not pod.is_deleting
        }

    async def settled(
        self,
        name: str = "web",
        *,
        nodes: int | None = None,
        updated: int | None = None,
        within_s: float | None = None,
    ) -> Object:
        """Wait for one available pod on each of `nodes` nodes (default: all), of which `updated` are new."""
        count = len(self.nodes) if nodes is None else nodes

        async def is_settled() -> Object | None:
            outcome = await self.get(name)
            status = outcome.get("status") or {}
            wanted = {
                "observedGeneration": outcome["metadata"]["generation"],
                "desiredNumberScheduled": count,
                "currentNumberScheduled": count,
                "numberReady": count,
                "numberAvailable": count,
                "updatedNumberScheduled": count if updated is None else updated,
            }
            pods = await self.stage.pods(name)
            if any(status.get(field, 0) != value for field, value in wanted.items()) or len(pods) != count:
                return None
            return outcome

        result: Object = await self.stage.until(
            is_settled, within_s=within_s, what=f"{name} settled on {count} nodes"
        )
        return result


async def node_pool(stage: Stage, count: int) -> Pool:
    """`count` nodes of the cluster as the test's own."""
    listed = await stage.client.list(NODES)
    names = sorted(decode(raw)["metadata"]["name"] for raw in listed.items)
    names = [name for name in names if name.rpartition("-")[2].isdecimal() or name[-1].isdecimal()][:count]
    assert len(names) == count
    pool = Pool(stage, f"pool-{random.Random(stage.namespace).getrandbits(32):08x}", names)
    for name in names:
        await pool.patch_node(
            name,
            {
                "metadata": {"labels": {POOL_LABEL: pool.name}},
                "spec": {"taints": None, "unschedulable": None},
            },
        )
    return pool


class Watcher:
    """Watches the pods of one DaemonSet and records the extremes.

    `most_on_a_node`: the maximum of live pods on one node. `most_down`: the maximum of nodes without a serving pod
    since `from_now()`. `uids`: the uids of all pods so far.
    """

    def __init__(self, pool: Pool, app: str) -> None:
        stage = pool.stage
        self._pool = pool
        self.cache: Cache[PodView] = Cache(
            stage.client,
            PODS,
            project=project_pod,
            namespace=stage.namespace,
            label_selector=f"app={app}",
            clock=stage.clock,
            rng=stage.rng,
        )
        self.cache.subscribe(self._on_change)
        self._live: dict[Key, PodView] = {}
        self.uids: set[str] = set()
        self.most_on_a_node = 0
        self.most_down = 0
        self._nodes: tuple[str, ...] = ()

    def from_now(self) -> None:
        """Reset the records; `most_down` counts the pool's current nodes."""
        self._nodes = tuple(self._pool.nodes)
        self.most_on_a_node = self.most_down = 0
        self.uids = {pod.uid for pod in self._live.values()}
        self._count()

    def _on_change(self, change: Change[PodView]) -> None:
        pod = change.new
        if pod is None or not pod.is_active:
            self._live.pop(change.key, None)
        else:
            self.uids.add(pod.uid)
            self._live[change.key] = pod
        self._count()

    def _count(self) -> None:
        here: dict[str, int] = {}
        serving: set[str] = set()
        for pod in self._live.values():
            here[pod.target_node] = here.get(pod.target_node, 0) + 1
            if pod.is_ready:
                serving.add(pod.target_node)
        self.most_on_a_node = max(self.most_on_a_node, *here.values(), 0)
        self.most_down = max(self.most_down, sum(node not in serving for node in self._nodes))


@asynccontextmanager
async def watching(pool: Pool, *, app: str = "web") -> AsyncIterator[Watcher]:
    """A watcher that watches while the block runs."""
    seen = Watcher(pool, app)
    running = asyncio.create_task(seen.cache.run())
    try:
        await seen.cache.wait_synced()
        yield seen
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
