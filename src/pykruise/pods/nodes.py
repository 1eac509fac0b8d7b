"""A node as decisions see it: a small frozen value made straight from the bytes of a watch event.

bytes of a Node ──▶ project_node() ──▶ NodeView ──▶ placement (node_placement.py), every kind's plan

Pure. A kubelet's heartbeat changes nothing of it but the resourceVersion.
"""

from collections.abc import Mapping

import msgspec

from pykruise.kube.node_rules import Taint

__all__ = ["NodeView", "project_node"]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as decisions see it."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    """spec.unschedulable."""
    allocatable: Mapping[str, str] = {}
    """What its kubelet has for pods, as quantities; `pods` is how many."""

    def is_placed_as(self, other: "NodeView") -> bool:
        """Whether pods are placed on both alike by labels and taints."""
        return (
            self.name == other.name
            and self.uid == other.uid
            and self.labels == other.labels
            and self.taints == other.taints
        )


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class _Status(msgspec.Struct):
    allocatable: dict[str, str | int | float] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Node).decode


def project_node(raw: bytes | msgspec.Raw) -> NodeView:
    """A Node's view. Raises msgspec.DecodeError for what is not an object."""
    node = _decode(raw)
    meta = node.metadata
    allocatable = (node.status.allocatable if node.status else None) or {}
    return NodeView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        labels=meta.labels or {},
        taints=(node.spec.taints if node.spec else None) or (),
        is_cordoned=bool(node.spec and node.spec.unschedulable),
        allocatable={name: str(amount) for name, amount in allocatable.items()},
    )
