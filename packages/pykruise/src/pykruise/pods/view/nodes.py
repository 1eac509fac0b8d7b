"""A node as decisions see it: a small frozen value decoded directly from the bytes of a watch event.

bytes of a Node ──▶ project_node() ──▶ NodeView ──▶ placement (node_placement.py), every kind's plan

Pure. A kubelet's heartbeat changes only the resourceVersion of the view.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.pod_rules.nodes import Taint

VIRTUAL_NODE: Final = ("type", "virtual-kubelet")
"""Label of virtual-kubelet nodes, which run no agent."""


def is_virtual_node(labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is run by a virtual kubelet."""
    key, value = VIRTUAL_NODE
    return labels.get(key) == value


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as decisions see it."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False
    """`spec.unschedulable`."""
    allocatable: Mapping[str, str] = {}
    """Allocatable resources that the kubelet reports, as quantities; `pods` is a number."""
    ready_since: Instant | None = None
    """Time at which the node became ready; None if it is not ready."""
    is_deleting: bool = False
    declared_features: frozenset[str] | None = None
    """Features that its kubelet declares (since Kubernetes 1.35); None if the kubelet declares none."""

    @property
    def is_virtual(self) -> bool:
        """Whether a virtual kubelet runs the node, so that it has no OpenKruise agent."""
        return is_virtual_node(self.labels)

    def is_placed_as(self, other: "NodeView") -> bool:
        """Whether the other view shows the same node with equal labels and taints."""
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
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    declared_features: frozenset[str] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Node).decode


def project_node(raw: bytes | msgspec.Raw) -> NodeView:
    """Decode a Node into its view. Raises msgspec.DecodeError when the text is not an object."""
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
        ready_since=_find_ready_since((node.status.conditions if node.status else None) or ()),
        is_deleting=meta.deletion_timestamp is not None,
        declared_features=(node.status.declared_features if node.status else None),
    )


def _find_ready_since(conditions: tuple[_Condition, ...]) -> Instant | None:
    """Time at which the node became ready; 0.0 if a ready node does not report the time, None if it is not ready."""
    for condition in conditions:
        if condition.type == "Ready" and condition.status == "True":
            try:
                return parse_time(condition.last_transition_time) if condition.last_transition_time else 0.0
            except ValueError:
                return 0.0
    return None
