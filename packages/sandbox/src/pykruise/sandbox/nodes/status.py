"""Writes of a simulated kubelet about its node: the Node object, the Lease, the heartbeat.

NodeRecord ──▶ NodeStatusWriter.sync(): register, renew the Lease, heartbeat ──▶ when to look again

Same rules as the kubelet. The Lease is written before the heartbeat: a node with an old Lease is treated as dead.
"""

from collections.abc import Callable, Iterable

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import LEASES, NODES
from pykruise.sandbox.nodes.specs import (
    LEASE_DURATION_S,
    LEASE_NAMESPACE,
    NodeSpec,
    build_heartbeat_patch,
    build_lease_document,
    build_node_document,
)


class NodeRecord(msgspec.Struct):
    """Facts of a kubelet about its node."""

    spec: NodeSpec
    is_stopped: bool = False
    uid: str = ""
    """UID of the Node object; empty until it is registered."""
    beat_at: Instant = 0.0
    """Time of the last status write; 0 if the status must be written again."""
    renewed_at: Instant = 0.0
    has_lease: bool = False
    images: set[str] = msgspec.field(default_factory=set)
    """Full names of the node's images, by tag and by digest."""


class NodeStatusWriter:
    """Registers nodes and renews their Leases and statuses.

    `existing`: existing Node objects, as listed; they are used without another request.
    `lease_s`, `heartbeat_s`: intervals of the writes; there is no Lease when `lease_s` is None.
    """

    def __init__(
        self,
        client: Client,
        *,
        existing: Iterable[Document],
        lease_s: float | None,
        heartbeat_s: float,
        on_registered: Callable[[], None],
    ) -> None:
        self._client = client
        self._existing = {node["metadata"]["name"]: node for node in existing}
        self._lease_s = lease_s
        self._heartbeat_s = heartbeat_s
        self._on_registered = on_registered

    async def sync(self, node: NodeRecord, now: Instant) -> float | None:
        """Register a node, then renew its Lease and status. Return the seconds until the next write; None if the node
        is stopped.
        """
        if node.is_stopped:
            return None
        if node.has_lease and now - node.renewed_at > LEASE_DURATION_S:
            node.beat_at = 0.0  # the node was marked as dead meanwhile, because this program was delayed
        try:
            if not node.uid:
                await self._register_node(node, now)
            if self._lease_s is not None:
                await self._renew_lease(node, now)
            if now - node.beat_at >= self._heartbeat_s:
                await self._patch_status(node, build_heartbeat_patch(now=now, transition=node.beat_at == 0.0))
                node.beat_at = now
        except NotFoundError:
            # The Node was deleted. As with a real kubelet, it is not registered again until it is started again.
            node.uid = ""
            node.is_stopped = True
            return None
        return self._heartbeat_s if self._lease_s is None else min(self._lease_s, self._heartbeat_s)

    async def _register_node(self, node: NodeRecord, now: Instant) -> None:
        document = build_node_document(node.spec, now=now)
        stored = self._existing.pop(node.spec.name, None)
        if stored is None:
            try:
                stored = decode(await self._client.create(NODES, "", document))
            except AlreadyExistsError:
                stored = decode(await self._client.get(NODES, "", node.spec.name))
        node.uid = stored["metadata"]["uid"]
        # The status is from an older registration, or a server removed the status of the new object.
        if get_path(stored, "status", "nodeInfo", "kubeletVersion") != node.spec.version or not _is_well(
            stored
        ):
            await self._patch_status(node, {"status": document["status"]})
        node.beat_at = now
        self._on_registered()

    async def _patch_status(self, node: NodeRecord, patch: Document) -> None:
        await self._client.patch(
            NODES, "", node.spec.name, patch, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def _renew_lease(self, node: NodeRecord, now: Instant) -> None:
        node.renewed_at = now
        lease = build_lease_document(node.spec.name, uid=node.uid, now=now)
        if node.has_lease:
            try:
                renewal = {"spec": lease["spec"]}
                await self._client.patch(
                    LEASES, LEASE_NAMESPACE, node.spec.name, renewal, patch_type=PatchType.MERGE
                )
                return
            except NotFoundError:
                node.has_lease = False
        try:
            await self._client.create(LEASES, LEASE_NAMESPACE, lease)
        except AlreadyExistsError:
            patch = {
                "metadata": {"ownerReferences": lease["metadata"]["ownerReferences"]},
                "spec": lease["spec"],
            }
            await self._client.patch(
                LEASES, LEASE_NAMESPACE, node.spec.name, patch, patch_type=PatchType.MERGE
            )
        node.has_lease = True


def _is_well(node: Document) -> bool:
    conditions = get_path(node, "status", "conditions", default=[])
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    )
