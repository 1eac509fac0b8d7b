"""Decoding of a pod's JSON to its view.

bytes of a list or watch ──▶ SandboxPodProjector ──▶ SandboxPodView

Pods of one owner have equal containers, placement rules and conditions. The projector decodes each such part once,
recognizes it later by its bytes, and shares the value. It owns the tables of these values, which are bounded;
everything else is pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from pykruise.sandbox.nodes.references import VolumeSources, references_of
from pykruise.sandbox.pod_view import (
    NO_CONTAINERS,
    Containers,
    HostPort,
    OwnerRef,
    PodCondition,
    PodContainer,
    PodContainerStatus,
    PodPlacement,
    PodResources,
    PodStatus,
    SandboxPodView,
    SecurityContext,
    add_amounts,
    take_maximum,
)

_ABSENT: Final = msgspec.Raw()


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    deletion_cost: str = msgspec.field(default="", name="controller.kubernetes.io/pod-deletion-cost")
    failures: str = msgspec.field(default="", name="batch.kubernetes.io/job-index-failure-count")
    ignored: str = msgspec.field(default="", name="batch.kubernetes.io/job-index-ignored-failure-count")


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None
    owner_references: msgspec.Raw = _ABSENT
    finalizers: tuple[str, ...] | None = None


class _Gate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    condition_type: str = ""


class _ClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    claim_name: str = ""


class _Ephemeral(msgspec.Struct, frozen=True, gc=False):
    pass


class _ImageSource(msgspec.Struct, frozen=True, gc=False):
    reference: str = ""


class _Volume(VolumeSources, frozen=True, gc=False, rename="camel"):
    ephemeral: _Ephemeral | None = None
    image: _ImageSource | None = None
    persistent_volume_claim: _ClaimSource | None = None


class _Named(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _SchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pod_group_name: str = ""


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[Mapping[str, Any], ...] | None = None
    scheduling_group: _SchedulingGroup | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    restart_policy: str = "Always"
    host_network: bool | None = None
    readiness_gates: tuple[_Gate, ...] | None = None
    containers: msgspec.Raw = _ABSENT
    init_containers: msgspec.Raw = _ABSENT
    ephemeral_containers: tuple[PodContainer, ...] | None = None
    node_selector: msgspec.Raw = _ABSENT
    affinity: msgspec.Raw = _ABSENT
    tolerations: msgspec.Raw = _ABSENT
    topology_spread_constraints: msgspec.Raw = _ABSENT
    overhead: dict[str, str | int | float] | None = None
    resources: PodResources | None = None
    volumes: tuple[_Volume, ...] | None = None
    image_pull_secrets: tuple[_Named, ...] | None = None
    security_context: SecurityContext | None = None


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    conditions: msgspec.Raw = _ABSENT
    init_container_statuses: tuple[PodContainerStatus, ...] | None = None
    container_statuses: tuple[PodContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[PodContainerStatus, ...] | None = None
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    observed_generation: int | None = None
    resources: dict[str, Any] | None = None
    resize: str | None = None
    nominated_node_name: str | None = None


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_containers = msgspec.json.Decoder(tuple[PodContainer, ...] | None).decode
_decode_conditions = msgspec.json.Decoder(tuple[PodCondition, ...] | None).decode
_decode_owners = msgspec.json.Decoder(tuple[OwnerRef, ...] | None).decode
_decode_placement = msgspec.json.Decoder(PodPlacement).decode
T = TypeVar("T")


class _Shared(Generic[T]):
    """Shares equal values: they are found by the bytes from which they were decoded, else by their decoded value.

    (Service account volumes make the containers of every pod different, but not the parts that are decoded.) A table
    is cleared when it has grown too large.
    """

    __slots__ = ("_by_bytes", "_by_value", "_decode")

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._by_bytes: dict[bytes, T] = {}
        self._by_value: dict[bytes, T] = {}

    def get(self, raw: bytes) -> T:
        value = self._by_bytes.get(raw)
        if value is None:
            if len(self._by_bytes) >= _MOST_BYTES:
                self._by_bytes.clear()
            value = self._by_bytes[raw] = self._share(self._decode(raw))
        return value

    def _share(self, value: T) -> T:
        if len(self._by_value) >= _MOST_VALUES:
            self._by_value.clear()
        return self._by_value.setdefault(msgspec.json.encode(value), value)


_MOST_BYTES = 512
_MOST_VALUES = 4096


class SandboxPodProjector:
    """Builds a SandboxPodView from a pod's JSON. Each cache needs its own; raises msgspec.DecodeError for invalid
    pods.
    """

    def __init__(self) -> None:
        self._containers = _Shared(_decode_main_containers)
        self._init_containers = _Shared(_init_containers)
        self._conditions = _Shared(lambda raw: _decode_conditions(raw) or ())
        self._owners = _Shared(lambda raw: _decode_owners(raw) or ())
        self._placements = _Shared(_decode_placement)

    def __call__(self, raw: bytes | msgspec.Raw) -> SandboxPodView:
        """Return the view of one pod."""
        pod = _decode_pod(raw)
        meta, spec = pod.metadata, pod.spec
        return SandboxPodView(
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=int(meta.resource_version),
            generation=meta.generation,
            created_at=meta.creation_timestamp or "",
            deletion_timestamp=meta.deletion_timestamp,
            grace_s=meta.deletion_grace_period_seconds or 0,
            labels=meta.labels or _NO_LABELS,
            owners=self._owners.get(bytes(meta.owner_references)) if len(meta.owner_references) else (),
            finalizers=meta.finalizers or (),
            deletion_cost=_parse_whole(meta.annotations.deletion_cost) if meta.annotations is not None else 0,
            index_failures=_parse_index_failures(meta.annotations),
            node_name=spec.node_name,
            scheduler_name=spec.scheduler_name,
            is_gated=bool(spec.scheduling_gates),
            pod_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
            priority=spec.priority or 0,
            preempts=spec.preemption_policy != "Never",
            restart_policy=spec.restart_policy,
            host_network=bool(spec.host_network),
            readiness_gates=tuple(gate.condition_type for gate in spec.readiness_gates or ()),
            containers=self._containers.get(bytes(spec.containers))
            if len(spec.containers)
            else NO_CONTAINERS,
            init_containers=self._init_containers.get(bytes(spec.init_containers))
            if len(spec.init_containers)
            else NO_CONTAINERS,
            ephemeral_containers=spec.ephemeral_containers or (),
            placement=self._find_placement(spec),
            overhead=spec.overhead,
            resources=spec.resources,
            claims=_list_claims(meta.name, spec.volumes) if spec.volumes else (),
            security=spec.security_context or SecurityContext(),
            mounted=references_of(spec.volumes) if spec.volumes else (),
            volume_images=_list_volume_images(spec.volumes) if spec.volumes else (),
            pull_secrets=tuple(secret.name for secret in spec.image_pull_secrets or ()),
            own_claims=_list_own_claims(meta.name, spec.volumes) if spec.volumes else (),
            status=self._build_status(pod.status),
        )

    def _build_status(self, status: _Status) -> PodStatus:
        return PodStatus(
            phase=status.phase,
            conditions=self._conditions.get(bytes(status.conditions)) if len(status.conditions) else (),
            init_containers=status.init_container_statuses or (),
            containers=status.container_statuses or (),
            ephemeral_containers=status.ephemeral_container_statuses or (),
            host_ip=status.host_ip,
            pod_ip=status.pod_ip,
            start_time=status.start_time,
            observed_generation=status.observed_generation,
            resources=status.resources,
            resize=status.resize or "",
            nominated_node_name=status.nominated_node_name or "",
        )

    def _find_placement(self, spec: _Spec) -> PodPlacement | None:
        fields = (
            (b'"nodeSelector":', spec.node_selector),
            (b'"affinity":', spec.affinity),
            (b'"tolerations":', spec.tolerations),
            (b'"topologySpreadConstraints":', spec.topology_spread_constraints),
        )
        parts = [name + bytes(raw) for name, raw in fields if len(raw)]
        return self._placements.get(b"{" + b",".join(parts) + b"}") if parts else None


_NO_LABELS: Final[Mapping[str, str]] = {}


def _parse_whole(text: str) -> int:
    """Parse a whole number in an annotation; an invalid number means 0, as in Kubernetes."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


_NO_FAILURES: Final = (0, 0)


def _parse_index_failures(annotations: _Annotations | None) -> tuple[int, int]:
    if annotations is None or not (annotations.failures or annotations.ignored):
        return _NO_FAILURES
    return max(0, _parse_whole(annotations.failures)), max(0, _parse_whole(annotations.ignored))


def _list_volume_images(volumes: tuple[_Volume, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (volume.name, volume.image.reference)
        for volume in volumes
        if volume.image is not None and volume.image.reference
    )


def _list_claims(pod: str, volumes: tuple[_Volume, ...]) -> tuple[str, ...]:
    named = (volume.persistent_volume_claim for volume in volumes)
    return (*(claim.claim_name for claim in named if claim is not None), *_list_own_claims(pod, volumes))


def _list_own_claims(pod: str, volumes: tuple[_Volume, ...]) -> tuple[str, ...]:
    return tuple(f"{pod}-{volume.name}" for volume in volumes if volume.ephemeral is not None)


def _without_own_mounts(container: PodContainer) -> PodContainer:
    """The container without the mount of its token, because the token's volume has another name in each pod."""
    mounts = tuple(
        mount for mount in container.volume_mounts or () if not mount.name.startswith("kube-api-access-")
    )
    return msgspec.structs.replace(container, volume_mounts=mounts or None)


def _decode_main_containers(raw: bytes) -> Containers:
    items = tuple(map(_without_own_mounts, _decode_containers(raw) or ()))
    total: dict[str, int] = {}
    for container in items:
        total = add_amounts(total, container.sum_requests())
    return Containers(items=items, host_ports=_list_host_ports(items), total=total)


def _init_containers(raw: bytes) -> Containers:
    items = tuple(map(_without_own_mounts, _decode_containers(raw) or ()))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in items:
        running = add_amounts(sidecars, container.sum_requests())
        peak = take_maximum(peak, running)
        if container.is_sidecar:
            sidecars = running
    return Containers(items=items, host_ports=_list_host_ports(items), total=sidecars, peak=peak)


def _list_host_ports(items: tuple[PodContainer, ...]) -> tuple[HostPort, ...]:
    return tuple(port for container in items for port in container.ports or () if port.host_port)
