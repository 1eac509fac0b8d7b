"""The ContainerRecreateRequest kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ ContainerRecreateRequest ──▶ controller, node agent; and by the same types ──▶ crd.py
"""

from typing import Annotated, Final

import msgspec

from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kube.schemas.crds import integer, schema
from pykruise.kube.schemas.types import (
    ApiObject,
    Condition,
    ContainerPort,
    Count,
    ExecAction,
    HttpGetAction,
    Int32,
    Status,
    TcpSocketAction,
    Time,
    Typed,
)

CONTAINER_RECREATE_REQUESTS: Final = REQUESTS

PHASES: Final = ("Pending", "Recreating", "Succeeded", "Failed", "Completed")

_NotNegative32 = Annotated[int, integer("int32", minimum=0)]
_NotNegative64 = Annotated[int, integer("int64", minimum=0)]
_Phase = Annotated[str, schema(enum=PHASES)]


class StopHook(Typed, frozen=True, kw_only=True):
    """Hook that runs before the container stops. Copied from the pod; must not be given."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None


class StatusContext(Typed, frozen=True, kw_only=True):
    """The container at the time of the request. Copied from the pod; must not be given."""

    container_id: str = msgspec.field(name="containerID")
    """Id of the container."""
    restart_count: Int32
    """How often it had been restarted."""


class ContainerTarget(Typed, frozen=True, kw_only=True):
    """A container that is to be recreated."""

    name: str
    """Name of the container, a regular one of the pod."""
    ports: list[ContainerPort] | None = None
    """Ports that the stop hook may name. Copied from the pod; must not be given."""
    pre_stop: StopHook | None = None
    status_context: StatusContext | None = None


class CommonStrategy(Typed, frozen=True, kw_only=True):
    """How containers are recreated: the fields that all versions have alike."""

    force_recreate: bool = False
    """Whether a container is killed even though it has been restarted since the request."""
    ordered_recreate: bool = False
    """Whether a container waits until the one before it is done."""


class RecreateStrategy(CommonStrategy, frozen=True, kw_only=True):
    """How containers are recreated."""

    failure_policy: Annotated[str, schema(enum=("Fail", "Ignore"))] = ""
    """Policy for a container that fails: Fail (the default) stops the request, Ignore continues with the next
    container."""
    min_started_seconds: _NotNegative32 = 0
    """Seconds that the new container must run before it counts as done."""
    termination_grace_period_seconds: _NotNegative64 | None = None
    """Seconds that the container has for its end; those of the pod by default."""
    unready_grace_period_seconds: _NotNegative64 | None = None
    """Seconds between taking the pod out of service and stopping containers."""


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that all versions share."""

    containers: list[ContainerTarget]
    """The containers, at least one."""
    pod_name: str
    """Name of the pod, in the same namespace."""


class ContainerRecreateRequestSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the request."""

    active_deadline_seconds: _NotNegative64 | None = None
    """Seconds after which a request that is not done has failed; no deadline by default."""
    strategy: RecreateStrategy | None = None
    ttl_seconds_after_finished: _NotNegative32 | None = None
    """Seconds after its end at which the request is deleted; it is kept by default."""


class CommonRecreateState(Typed, frozen=True, kw_only=True):
    """How far one container is: the fields that all versions have alike."""

    is_killed: bool = False
    """Whether the old container was killed."""
    message: str = ""
    """Details for people."""
    name: str
    """Name of the container."""


class RecreateState(CommonRecreateState, frozen=True, kw_only=True):
    """How far one container is."""

    phase: _Phase
    """Pending, Recreating, Succeeded or Failed."""


class ContainerStatusSnapshot(Typed, frozen=True, kw_only=True):
    """A container of the pod as its kubelet sees it, for the node agent."""

    container_id: str = msgspec.field(name="containerID", default="")
    """Id of the container."""
    name: str
    """Name of the container."""
    ready: Annotated[bool, schema(required=True)]
    """Whether it is ready."""
    restart_count: Count
    """How often it has been restarted."""


class ContainerRecreateRequestStatus(Status, frozen=True, kw_only=True):
    """Observed state of the request."""

    completion_time: Time | None = None
    """When the request was done."""
    conditions: Annotated[list[Condition], schema(list_type="map", list_map_keys=("type",))] | None = None
    """Aspects of the state: PreRecreateGrace, while the pod is out of service."""
    container_recreate_states: list[RecreateState] | None = None
    """How far each container is."""
    container_status_snapshot: list[ContainerStatusSnapshot] | None = None
    """The containers of the pod as its kubelet sees them, for the node agent."""
    message: str = ""
    """Details for people."""
    phase: Annotated[str, schema(enum=PHASES, required=True)] = ""
    """Pending, Recreating or Completed."""


class ContainerRecreateRequest(ApiObject, frozen=True, kw_only=True):
    """Restarts containers of a pod without touching the pod."""

    api_version: str = CONTAINER_RECREATE_REQUESTS.api_version
    kind: str = CONTAINER_RECREATE_REQUESTS.kind
    spec: ContainerRecreateRequestSpec | None = None
    status: ContainerRecreateRequestStatus | None = None
