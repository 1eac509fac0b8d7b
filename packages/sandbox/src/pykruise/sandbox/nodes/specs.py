"""Nodes: the spec of a simulated node, its Node and Lease, and the scheduler's view of nodes.

NodeSpec ──▶ build_node_document(), build_lease_document() ──▶ status.py registers and renews them
bytes of a Node ──▶ project_node() ──▶ SandboxNodeView ──▶ scheduling/

Pure, except `Addresses`, which remembers the pod addresses in use.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv4Address
from typing import Final

import msgspec

from pykruise.kube.clock import Instant, format_micro_time, format_time
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.nodes import ZONE_LABEL, Taint
from pykruise.kube.schemas.releases import NEWEST_MINOR, minor_of, release_of
from pykruise.sandbox.pod_view import parse_amounts

__all__ = [
    "Addresses",
    "NodeSpec",
    "SandboxNodeView",
    "Taint",
    "build_heartbeat_patch",
    "build_lease_document",
    "build_node_document",
    "make_node_specs",
    "project_node",
]

LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION_S = 40


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A node to simulate. Quantities are as in a Node: cores, bytes with suffix."""

    name: str
    zone: str = "z1"
    cpu: str = "32"
    memory: str = "128Gi"
    pods: int = 110
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    address: str = "172.18.0.2"
    version: str = f"v{NEWEST_MINOR}.0"
    declared_features: tuple[str, ...] | None = None
    """Features that the node's kubelet declares; None means the features of its version."""


def make_node_specs(
    count: int,
    *,
    zones: Sequence[str] = ("z1", "z2", "z3"),
    pods: int = 110,
    cpu: str = "32",
    memory: str = "128Gi",
    prefix: str = "node-",
    version: str = f"v{NEWEST_MINOR}.0",
) -> list[NodeSpec]:
    """Return `count` equal nodes, named `node-1` and so on, round-robin over the zones."""
    first = int(IPv4Address("172.18.0.2"))
    return [
        NodeSpec(
            name=f"{prefix}{number + 1}",
            zone=zones[number % len(zones)] if zones else "",
            cpu=cpu,
            memory=memory,
            pods=pods,
            address=str(IPv4Address(first + number)),
            version=version,
        )
        for number in range(count)
    ]


# ── documents ────────────────────────────────────────────────────────────────


def build_node_document(spec: NodeSpec, *, now: Instant) -> Document:
    """Build the Node that a kubelet registers, including its status."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
    }
    if spec.zone:
        labels[ZONE_LABEL] = spec.zone
    capacity = {"cpu": spec.cpu, "memory": spec.memory, "pods": str(spec.pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels | dict(spec.labels)},
        "spec": {"taints": msgspec.to_builtins(spec.taints)} if spec.taints else {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": _build_conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": spec.address},
                {"type": "Hostname", "address": spec.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _build_node_info(spec),
            **_build_declared_features(spec),
        },
    }


_DECLARED: Final = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""Features that a kubelet declares if its minor has them. API servers reject pod updates that need other features."""


def _build_declared_features(spec: NodeSpec) -> Document:
    release = release_of(minor_of(spec.version))
    if not release.has("NodeDeclaredFeatures"):
        return {}
    if spec.declared_features is not None:
        return {"declaredFeatures": list(spec.declared_features)}
    return {"declaredFeatures": [feature for feature in _DECLARED if release.has(feature)]}


def build_heartbeat_patch(*, now: Instant, transition: bool = False) -> Document:
    """Strategic merge patch of a healthy Node's status. `transition`: whether the node was not healthy before."""
    conditions = _build_conditions(now)
    if not transition:
        for condition in conditions:
            del condition["lastTransitionTime"]
    return {"status": {"conditions": conditions}}


def build_lease_document(node: str, *, uid: str, now: Instant) -> Document:
    """Build the Lease that a kubelet renews; the Node owns it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_DURATION_S,
            "renewTime": format_micro_time(now),
        },
    }


_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def _build_conditions(now: Instant) -> list[dict[str, str]]:
    at = format_time(now)
    return [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": at,
            "lastTransitionTime": at,
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in _HEALTHY
    ]


def _build_node_info(spec: NodeSpec) -> Document:
    identity = sha256(spec.name.encode()).hexdigest()
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "bootID": _format_uuid(identity[:32]),
        "machineID": identity[:32],
        "systemUUID": _format_uuid(identity[32:]),
        "containerRuntimeVersion": "paper://1.0.0",
        "kernelVersion": "6.1.0",
        "kubeletVersion": spec.version,
        "kubeProxyVersion": "",
        "osImage": "pykruise sandbox (simulated)",
    }


def _format_uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


# ── views ────────────────────────────────────────────────────────────────────


STOPPED: Final = "sandbox.pykruise.io/stopped"
"""Annotation of a node: with the value `true` its kubelet and its agents stop."""


class SandboxNodeView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Fields that scheduling depends on. `namespace` is always empty."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: int = 0
    is_deleting: bool = False
    labels: Mapping[str, str] = {}
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = {}
    """Allocatable resources by name: cpu in millicores, all others in whole units (bytes, pods)."""
    ready: str = ""
    """Status of its condition Ready: `True`, `False`, `Unknown`, or empty."""
    is_stopped: bool = False
    """Whether the node's annotation `STOPPED` stops its kubelet."""

    @property
    def zone(self) -> str:
        """The node's zone; empty if the node has no zone."""
        return self.labels.get(ZONE_LABEL, "")

    @property
    def max_pods(self) -> int:
        """Maximum number of pods."""
        return self.allocatable.get("pods", 0)

    def is_similar(self, other: "SandboxNodeView") -> bool:
        """Whether no field that scheduling depends on has changed (heartbeats change none)."""
        return (
            self.uid == other.uid
            and self.labels == other.labels
            and self.unschedulable == other.unschedulable
            and self.taints == other.taints
            and self.allocatable == other.allocatable
        )


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    allocatable: dict[str, str | int | float] | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Node).decode


def project_node(raw: bytes | msgspec.Raw) -> SandboxNodeView:
    """Project the bytes of a Node to its view. Raises msgspec.DecodeError."""
    node = _decode(raw)
    return SandboxNodeView(
        name=node.metadata.name,
        uid=node.metadata.uid,
        resource_version=int(node.metadata.resource_version),
        is_deleting=node.metadata.deletion_timestamp is not None,
        labels=node.metadata.labels or {},
        is_stopped=(node.metadata.annotations or {}).get(STOPPED) == "true",
        unschedulable=bool(node.spec.unschedulable),
        taints=node.spec.taints or (),
        allocatable=parse_amounts(node.status.allocatable or {}),
        ready=next(
            (condition.status for condition in node.status.conditions or () if condition.type == "Ready"), ""
        ),
    )


# ── addresses ────────────────────────────────────────────────────────────────


class Addresses:
    """Pod addresses of 10.0.0.0/8, each for one pod at a time. Released addresses are reused last."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last = int(IPv4Address("10.0.0.255"))

    def take(self) -> str:
        """Return a free address."""
        while True:
            self._last += 1
            if self._last > _LAST_ADDRESS:
                self._last = _FIRST_ADDRESS
            if self._last & 0xFF in (0, 255):
                continue
            address = str(IPv4Address(self._last))
            if address not in self._taken:
                self._taken.add(address)
                return address

    def reserve(self, address: str) -> None:
        """Mark an address as used, because a pod's status has it."""
        self._taken.add(address)

    def release(self, address: str) -> None:
        """Release the address of a deleted pod."""
        self._taken.discard(address)


_FIRST_ADDRESS = int(IPv4Address("10.0.1.1"))
_LAST_ADDRESS = int(IPv4Address("10.255.255.254"))
