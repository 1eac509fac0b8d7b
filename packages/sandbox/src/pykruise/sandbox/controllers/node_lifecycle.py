"""Nodes that stop living: told, tainted, and cleared of their pods; pods of nodes that are gone.

Lease of a node, renewed ──▶ NodeLifecycle: Ready=Unknown, taints ──▶ pods not ready
Node's NoExecute taints  ──▶ TaintEviction: pods that do not tolerate them (any more) are deleted
Node gone                ──▶ PodCollector:  its pods are deleted for good

Rules: Kubernetes' node lifecycle, taint eviction and pod garbage collection controllers. A node without a Lease
is not watched over: whoever runs nodes without heartbeats knows how they are.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from pykruise.kube.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.errors import ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import LEASES, NODES, PODS
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.sandbox.controllers.base import Loop, Shared, at_once
from pykruise.sandbox.nodes import LEASE_NAMESPACE, NodeView, Taint
from pykruise.sandbox.pod_view import PodView, instant_of
from pykruise.sandbox.scheduling import tolerates

__all__ = ["GRACE_S", "NOT_READY", "NodeLifecycle", "PodCollector", "TaintEviction", "tolerated_for"]

GRACE_S: Final = 50.0
"""A node whose lease has not been renewed for so long is taken for dead. Rule: `--node-monitor-grace-period`."""
_QUARANTINE_S: Final = 40.0
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
_OURS: Final = (UNREACHABLE, NOT_READY, "node.kubernetes.io/unschedulable")


class NodeLifecycle(Loop):
    """Watches over the leases of nodes, and keeps the taints that follow from their conditions."""

    name = "node-lifecycle"
    component = "node-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        # When a renewal was seen counts, not what time it tells: clocks differ, and after a start of this
        # cluster all leases are old.
        self._seen_at: dict[str, Instant] = {}
        self.leases = shared.cache(LEASES)
        self.leases.subscribe(self._on_lease)
        shared.nodes.subscribe(self._on_node)

    def _on_lease(self, change: Change[DocumentView]) -> None:
        if change.key.namespace == LEASE_NAMESPACE:
            if change.new is None:
                self._seen_at.pop(change.key.name, None)
                return
            self._seen_at[change.key.name] = self.clock()
            # A renewal by itself changes nothing: the look that is planned finds it.
            node = self.shared.nodes.get(Key("", change.key.name))
            if change.old is None or (node is not None and node.ready != "True"):
                self.queue.add(Key("", change.key.name))

    def _on_node(self, change: Change[NodeView]) -> None:
        old, new = change.old, change.new
        if new is not None and (
            old is None
            or (old.ready, old.taints, old.unschedulable) != (new.ready, new.taints, new.unschedulable)
        ):
            self.queue.add(change.key)

    async def sync(self, key: Key) -> float | None:
        node = self.shared.nodes.get(key)
        if node is None or node.is_deleting:
            return None
        seen_at = self._seen_at.get(key.name)
        left_s = None if seen_at is None else seen_at + GRACE_S - self.clock()
        if left_s is not None and left_s <= 0 and node.ready != "Unknown":
            await self._mark_unknown(node)
            return 0.0
        wanted = taints_for(node)
        if wanted != node.taints:
            await self._taint(node, wanted)
        if node.ready != "True":
            await self._mark_pods(node)
            return None
        return left_s

    async def _mark_unknown(self, node: NodeView) -> None:
        try:
            doc = project_document(await self.shared.client.get(NODES, "", node.name))
        except NotFoundError:
            return
        at = format_time(self.clock())
        conditions = [
            {
                **one,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": at,
            }
            for one in doc.status.get("conditions") or ()
        ]
        patch = {"metadata": {"uid": node.uid}, "status": {"conditions": conditions}}
        await self.writer.patch(
            NODES,
            Key("", node.name),
            patch,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
            uid=node.uid,
        )
        self._tell(node, "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")

    def _tell(self, node: NodeView, reason: str, message: str) -> None:
        self.recorder.record(
            NODES, namespace="", name=node.name, uid=node.uid, reason=reason, message=message
        )

    async def _taint(self, node: NodeView, wanted: tuple[Taint, ...]) -> None:
        at = format_time(self.clock())
        shown: list[Document] = []
        for taint in wanted:
            one: Document = {"key": taint.key, "effect": taint.effect}
            if taint.value:
                one["value"] = taint.value
            since = taint.time_added or (at if taint.effect == "NoExecute" else "")
            if since:
                one["timeAdded"] = since
            shown.append(one)
        patch = {
            "metadata": {"uid": node.uid, "resourceVersion": str(node.resource_version)},
            "spec": {"taints": shown or None},
        }
        with suppress(NotFoundError):
            await self.writer.patch(
                NODES, Key("", node.name), patch, patch_type=PatchType.MERGE, uid=node.uid
            )

    async def _mark_pods(self, node: NodeView) -> None:
        """Pods of a node that is not ready do not serve."""
        await at_once(self._mark_pod(pod) for pod in self.shared.pods.by_index("node", node.name))

    async def _mark_pod(self, pod: PodView) -> None:
        known = pod.status.condition("Ready")
        if known is None or known.status != "True":
            return
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(self.clock())}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        with suppress(NotFoundError, ConflictError):
            await self.writer.patch(
                PODS, pod.key, patch, patch_type=PatchType.STRATEGIC, subresource="status", uid=pod.uid
            )


def taints_for(node: NodeView) -> tuple[Taint, ...]:
    """The taints that a node should have: those of others, and those of its conditions."""
    kept = tuple(taint for taint in node.taints if taint.key not in _OURS)
    wanted: list[tuple[str, str]] = []
    if node.unschedulable:
        wanted.append(("node.kubernetes.io/unschedulable", "NoSchedule"))
    if node.ready in ("Unknown", "False"):
        key = UNREACHABLE if node.ready == "Unknown" else NOT_READY
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    there = {(taint.key, taint.effect): taint for taint in node.taints}
    mine = {pair: there.get(pair) or Taint(*pair) for pair in wanted}
    # In the order in which they are there, so that equal sets are equal.
    ordered = [taint for taint in node.taints if taint.key not in _OURS or (taint.key, taint.effect) in mine]
    return (*ordered, *(taint for pair, taint in mine.items() if pair not in there)) if kept or mine else ()


def tolerated_for(pod: PodView, taints: Iterable[Taint], now: Instant) -> float | None:
    """For how many more seconds a pod may stay on a node with these NoExecute taints; None: for ever."""
    left: list[float] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        matching = [one for one in pod.tolerations if tolerates((one,), taint)]
        if not matching:
            return 0.0
        seconds = [one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None]
        if seconds:
            left.append(instant_of(taint.time_added, default=now) + min(seconds) - now)
    return max(0.0, min(left)) if left else None


class TaintEviction(Loop):
    """Deletes the pods of nodes whose NoExecute taints they do not tolerate."""

    name = "taint-eviction"
    component = "taint-eviction-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        shared.nodes.subscribe(self._on_node)
        shared.pods.subscribe(self._on_pod)

    def _on_node(self, change: Change[NodeView]) -> None:
        old, new = change.old, change.new
        if new is not None and (old.taints if old else ()) != new.taints:
            self.queue.add(change.key)

    def _on_pod(self, change: Change[PodView]) -> None:
        new = change.new
        if new is not None and new.node_name and (change.old is None or not change.old.node_name):
            node = self.shared.nodes.get(Key("", new.node_name))
            if node is not None and node.taints:
                self.queue.add(Key("", node.name))

    async def sync(self, key: Key) -> float | None:
        node = self.shared.nodes.get(key)
        if node is None or not any(taint.effect == "NoExecute" for taint in node.taints):
            return None
        now = self.clock()
        next_s: list[float] = []
        for pod in self.shared.pods.by_index("node", node.name):
            if pod.is_deleting or pod.is_over:
                continue
            left_s = tolerated_for(pod, node.taints, now)
            if left_s is None:
                continue
            if left_s > 0:
                next_s.append(left_s)
                continue
            await self._evict(pod)
        return min(next_s, default=None)

    async def _evict(self, pod: PodView) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": format_time(self.clock()),
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        with suppress(NotFoundError, ConflictError):
            await self.writer.patch(
                PODS, pod.key, patch, patch_type=PatchType.STRATEGIC, subresource="status", uid=pod.uid
            )
            await self.writer.delete(PODS, pod.key, uid=pod.uid)
        self.recorder.record(
            PODS,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            reason="TaintManagerEviction",
            message=f"Marking for deletion Pod {pod.namespace}/{pod.name}",
        )


class PodCollector(Loop):
    """Deletes the pods of nodes that are gone, and those that were deleted before they had a node."""

    name = "pod-collector"
    component = "pod-garbage-collector"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        shared.nodes.subscribe(self._on_node)
        shared.pods.subscribe(self._on_pod)

    def _on_node(self, change: Change[NodeView]) -> None:
        if change.new is None:
            self.queue.add_after(change.key, _QUARANTINE_S)

    def _on_pod(self, change: Change[PodView]) -> None:
        pod = change.new
        if pod is not None and pod.node_name and self.shared.nodes.get(Key("", pod.node_name)) is None:
            self.queue.add_after(Key("", pod.node_name), _QUARANTINE_S)

    async def sync(self, key: Key) -> float | None:
        if self.shared.nodes.get(key) is not None:
            return None
        try:
            await self.shared.client.get(NODES, "", key.name)
            return None
        except NotFoundError:
            pass
        for pod in self.shared.pods.by_index("node", key.name):
            if not pod.is_over:
                patch = {"metadata": {"uid": pod.uid}, "status": {"phase": "Failed"}}
                with suppress(NotFoundError, ConflictError):
                    await self.writer.patch(
                        PODS,
                        pod.key,
                        patch,
                        patch_type=PatchType.STRATEGIC,
                        subresource="status",
                        uid=pod.uid,
                    )
            with suppress(NotFoundError, ConflictError):
                await self.writer.delete(PODS, pod.key, uid=pod.uid, grace_period_s=0)
        return None
