"""A pod as the scheduler, the kubelets and the garbage collector see it.

bytes of a list or watch ──▶ pod_decoding.py ──▶ SandboxPodView (immutable, about 1.5 KB)

Pure. The view has fields that these components need and that operators' views of pods omit.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.ids import Key
from pykruise.kube.values.group_kinds import group_of
from pykruise.kube.values.quantities import Quantity
from pykruise.sandbox.nodes.references import Environment, EnvironmentSource, Reference, references_of


class OwnerRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group(self) -> str:
        """The API group; "" for the core group."""
        return group_of(self.api_version) or ""


class _Probe(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    initial_delay_seconds: int = 0


class PodResources(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits of a container, or of a pod as a whole."""

    requests: Mapping[str, str | int | float] | None = None
    limits: Mapping[str, str | int | float] | None = None


def _build_resource_parts(resources: PodResources | None) -> dict[str, Any]:
    """Requests and limits in the form of a status."""
    parts = {"limits": resources.limits, "requests": resources.requests} if resources is not None else {}
    return {name: dict(amounts) for name, amounts in parts.items() if amounts}


class _ResizePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_name: str = ""
    restart_policy: str = "NotRequired"


class _Sleep(msgspec.Struct, frozen=True, gc=False):
    seconds: int = 0


class _Hook(msgspec.Struct, frozen=True, gc=False):
    sleep: _Sleep | None = None


class _Lifecycle(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    post_start: _Hook | None = None
    pre_stop: _Hook | None = None


class HostPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container. If `host_port` is not 0, it uses that port of the node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")
    name: str = ""
    container_port: int = 0


class _Mount(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class SecurityContext(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """User of a container, or of all containers of a pod."""

    run_as_user: int | None = None
    run_as_non_root: bool | None = None


class PodContainer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Fields of a container for its start, readiness and placement."""

    name: str
    image: str = ""
    restart_policy: str | None = None
    """`Always` makes an init container a sidecar."""
    readiness_probe: _Probe | None = None
    resources: PodResources | None = None
    ports: tuple[HostPort, ...] | None = None
    resize_policy: tuple[_ResizePolicy, ...] | None = None
    lifecycle: _Lifecycle | None = None
    env: tuple[Environment, ...] | None = None
    env_from: tuple[EnvironmentSource, ...] | None = None
    volume_mounts: tuple[_Mount, ...] | None = None
    security_context: SecurityContext | None = None
    stdin: bool = False
    """Whether the container accepts input, so that it runs until the user ends it. Used by ephemeral containers."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """ConfigMaps and Secrets that the container's environment requires."""
        return references_of((*(self.env_from or ()), *(self.env or ())))

    @property
    def mounts(self) -> frozenset[str]:
        """Names of the container's mounted volumes."""
        return frozenset(mount.name for mount in self.volume_mounts or ())

    @property
    def is_sidecar(self) -> bool:
        """Whether this is an init container that continues to run beside the main containers."""
        return self.restart_policy == "Always"

    @property
    def initial_delay_s(self) -> float:
        """Seconds before the first readiness probe."""
        return float(self.readiness_probe.initial_delay_seconds) if self.readiness_probe else 0.0

    @property
    def post_start_s(self) -> float:
        """Seconds that the postStart hook sleeps. Until its end, the container is not running."""
        return _compute_sleep_s(self.lifecycle.post_start if self.lifecycle else None)

    @property
    def pre_stop_s(self) -> float:
        """Seconds that the preStop hook sleeps before the container is asked to stop."""
        return _compute_sleep_s(self.lifecycle.pre_stop if self.lifecycle else None)

    @property
    def allotment(self) -> dict[str, Any]:
        """Requests and limits as in a container status."""
        return _build_resource_parts(self.resources)

    def is_restarted_by(self, resources: Iterable[str]) -> bool:
        """Whether the container restarts when quantities of these resources change. `resizePolicy` decides this."""
        return any(
            policy.restart_policy == "RestartContainer" and policy.resource_name in resources
            for policy in self.resize_policy or ()
        )

    def sum_requests(self) -> dict[str, int]:
        """Requests of the container; see `parse_amounts`."""
        return parse_amounts((self.resources and self.resources.requests) or {})


def _compute_sleep_s(hook: _Hook | None) -> float:
    """Seconds that the hook sleeps; 0 for hooks that run a program or send a request, whose duration is not known."""
    return float(hook.sleep.seconds) if hook is not None and hook.sleep is not None else 0.0


class Containers(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The containers (or init containers) of a pod. Shared between pods."""

    items: tuple[PodContainer, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    total: Mapping[str, int] = {}
    """Total requests of containers that run concurrently: all main containers, or all sidecars."""
    peak: Mapping[str, int] = {}
    """Highest requests while the init containers run sequentially, beside the sidecars that have started."""


NO_CONTAINERS: Final = Containers()


class PodPlacement(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Documents that restrict the nodes of a pod. Shared between pods."""

    node_selector: Mapping[str, str] | None = None
    affinity: Mapping[str, Any] | None = None
    tolerations: tuple[Mapping[str, Any], ...] | None = None
    topology_spread_constraints: tuple[Mapping[str, Any], ...] | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An entry of `status.conditions`."""

    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class ContainerWaiting(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`state.waiting` of a container."""

    reason: str | None = None
    message: str | None = None


class Running(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """`state.running` of a container."""

    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`state.terminated` or `lastState.terminated` of a container."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """At most one of the three fields is set; none is set in an empty `lastState`."""

    waiting: ContainerWaiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


NO_STATE: Final = ContainerState()


class PodContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `status.containerStatuses`, `initContainerStatuses` or `ephemeralContainerStatuses`."""

    name: str
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="containerID")
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = NO_STATE
    last_state: ContainerState = NO_STATE
    allocated_resources: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Requests that the node has admitted."""
    resources: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Actual requests and limits."""


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """Fields of `status` that kubelets and the scheduler write."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_containers: tuple[PodContainerStatus, ...] = ()
    containers: tuple[PodContainerStatus, ...] = ()
    ephemeral_containers: tuple[PodContainerStatus, ...] = ()
    host_ip: str = ""
    pod_ip: str = ""
    start_time: str | None = None
    observed_generation: int | None = None
    resources: Mapping[str, Any] | None = None
    """Actual requests and limits of the whole pod."""
    resize: str = ""
    """State of a resize on servers before 1.33; kubelets remove it after the resize."""
    nominated_node_name: str = ""
    """Node on which the scheduler evicts other pods for this pod."""

    def find_condition(self, kind: str) -> PodCondition | None:
        """The condition of that type."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


class SandboxPodView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Fields of a pod for scheduling, running and garbage collection."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: int = 0
    generation: int = 0
    created_at: str = ""
    deletion_timestamp: str | None = None
    grace_s: int = 0
    """Grace period of the deletion in seconds; only valid while the pod is being deleted."""
    labels: Mapping[str, str] = {}
    owners: tuple[OwnerRef, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_cost: int = 0
    """`controller.kubernetes.io/pod-deletion-cost`: pods with lower cost are deleted first."""
    index_failures: tuple[int, int] = (0, 0)
    """Number of earlier failures of the pod's index in a Job: counted failures and ignored failures."""

    node_name: str = ""
    scheduler_name: str = ""
    is_gated: bool = False
    """Whether scheduling gates prevent the scheduling of the pod."""
    pod_group: str = ""
    """Name of the pod's PodGroup; empty if the pod is scheduled alone."""
    priority: int = 0
    preempts: bool = True
    """Whether the pod may preempt pods of lower priority."""
    restart_policy: str = "Always"
    host_network: bool = False
    readiness_gates: tuple[str, ...] = ()
    containers: Containers = NO_CONTAINERS
    init_containers: Containers = NO_CONTAINERS
    ephemeral_containers: tuple[PodContainer, ...] = ()
    """Ephemeral containers, which were added to the running pod for debugging."""
    placement: PodPlacement | None = None
    """None when the pod may run anywhere."""
    overhead: Mapping[str, str | int | float] | None = None
    resources: PodResources | None = None
    """Resources of the whole pod; None if only its containers have requests."""
    claims: tuple[str, ...] = ()
    """Names of the pod's volume claims."""
    volume_images: tuple[tuple[str, str], ...] = ()
    """Image volumes: name and image."""
    security: SecurityContext = SecurityContext()
    """Default user of the pod's containers."""
    mounted: tuple[Reference, ...] = ()
    """ConfigMaps and Secrets that the pod's volumes require."""
    pull_secrets: tuple[str, ...] = ()
    """Secrets for pulling the pod's images."""
    own_claims: tuple[str, ...] = ()
    """Claims that are created only for this pod, because it has `ephemeral` volumes."""

    status: PodStatus = PodStatus()

    @property
    def tolerations(self) -> tuple[Mapping[str, Any], ...]:
        """The pod's tolerations, as documents."""
        return (self.placement.tolerations if self.placement else None) or ()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def is_deleting(self) -> bool:
        """Whether the pod is being deleted."""
        return self.deletion_timestamp is not None

    @property
    def is_over(self) -> bool:
        """Whether all containers have ended and will not start again, so that the pod uses no resources on its node."""
        return self.status.phase in ("Succeeded", "Failed")

    def sum_requests(self) -> Mapping[str, int]:
        """Return what the pod requests from its node (cpu in millicores), as Kubernetes computes it: the requests while
        the pod runs, or the highest requests while it starts if these are larger, plus the overhead.
        """
        wanted = self.containers.total
        if self.init_containers.items:
            wanted = take_maximum(add_amounts(wanted, self.init_containers.total), self.init_containers.peak)
        if self.resources is not None:
            wanted = {**wanted, **parse_amounts(self.resources.requests or {})}
        return add_amounts(wanted, parse_amounts(self.overhead)) if self.overhead else wanted

    @property
    def allotment(self) -> dict[str, Any]:
        """Requests and limits of the whole pod, in the form of its status."""
        return _build_resource_parts(self.resources)

    @property
    def is_for_a_job(self) -> bool:
        """Whether the containers are expected to end by themselves, because a Job (of any group) controls the pod."""
        return self.restart_policy != "Always" and any(
            owner.controller and owner.kind.endswith("Job") for owner in self.owners
        )

    @property
    def controller(self) -> OwnerRef | None:
        """The owner that is the pod's controller."""
        return next((owner for owner in self.owners if owner.controller), None)

    @property
    def owner_uid(self) -> str:
        """The uid of the pod's controller, or empty."""
        return next((owner.uid for owner in self.owners if owner.controller), "")

    @property
    def is_active(self) -> bool:
        """Whether the owner counts the pod as one of its replicas: it has not ended and is not being deleted."""
        return not self.is_over and not self.is_deleting

    @property
    def is_ready(self) -> bool:
        """Whether the pod's condition Ready is True."""
        ready = self.status.find_condition("Ready")
        return ready is not None and ready.status == "True"


# ── amounts ──────────────────────────────────────────────────────────────────


def parse_amounts(resources: Mapping[str, Any]) -> dict[str, int]:
    """Quantities by resource name as whole numbers: cpu in millicores, all others rounded up.

    Invalid quantities are left out.
    """
    amounts = {}
    for name, text in resources.items():
        try:
            quantity = Quantity.parse(text)
        except ValueError:
            continue
        amounts[name] = quantity.milli if name == "cpu" else quantity.whole
    return amounts


def add_amounts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Sum of each resource."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def take_maximum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Maximum of each resource."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def instant_of(text: str | None, *, default: Instant) -> Instant:
    """The instant of a timestamp, or `default` when it is absent or invalid."""
    if not text:
        return default
    try:
        return parse_time(text)
    except ValueError:
        return default
