"""The ContainerRecreateRequest kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ ContainerRecreateRequest ──▶ controller, node agent; the same types ──▶ kind.py (the schema)
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
    """Hook that runs before the container stops. It is copied from the pod and must not be set."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    """A TCP connection to the container. The agent does not open it: such a hook does nothing."""


class StatusContext(Typed, frozen=True, kw_only=True):
    """State of the container when the request was created. It is copied from the pod and must not be set."""

    container_id: str = msgspec.field(name="containerID")
    """Id of the container."""
    restart_count: Int32
    """Number of restarts of the container."""


class ContainerTarget(Typed, frozen=True, kw_only=True):
    """A container to recreate."""

    name: str
    """Name of a container of the pod."""
    ports: list[ContainerPort] | None = None
    """Ports that the stop hook may use. They are copied from the pod and must not be set."""
    pre_stop: StopHook | None = None
    status_context: StatusContext | None = None


class CommonStrategy(Typed, frozen=True, kw_only=True):
    """Strategy for recreating containers: the fields that are the same in all versions."""

    force_recreate: bool = False
    """Whether a container is killed even if it has restarted after the request was created."""
    ordered_recreate: bool = False
    """Whether each container is recreated only after the previous container is done."""


class RecreateStrategy(CommonStrategy, frozen=True, kw_only=True):
    """Strategy for recreating containers."""

    failure_policy: Annotated[str, schema(enum=("Fail", "Ignore"))] = ""
    """Policy if a container cannot be recreated: Fail (the default) ends the request, Ignore continues with the next
    container.
    """
    min_started_seconds: _NotNegative32 = 0
    """Seconds that the new container must run until the container counts as recreated."""
    termination_grace_period_seconds: _NotNegative64 | None = None
    """Grace period in seconds for the termination of a container. Defaults to the pod's
    terminationGracePeriodSeconds.
    """
    unready_grace_period_seconds: _NotNegative64 | None = None
    """Seconds for which the pod is out of service before its containers are stopped. By default the pod is not taken
    out of service.
    """


class CommonSpec(Typed, frozen=True, kw_only=True):
    """Desired state: the fields that are the same in all versions."""

    containers: Annotated[list[ContainerTarget], schema(list_type="map", list_map_keys=("name",))]
    """Containers to recreate, at least one."""
    pod_name: str
    """Name of the pod in the same namespace."""


class ContainerRecreateRequestSpec(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the request."""

    active_deadline_seconds: _NotNegative64 | None = None
    """Maximum duration in seconds after the creation of the request. A request that takes longer fails. There is no
    deadline by default.
    """
    strategy: RecreateStrategy | None = None
    ttl_seconds_after_finished: _NotNegative32 | None = None
    """Seconds after the end of the request until the request is deleted. By default it is kept."""


class CommonRecreateState(Typed, frozen=True, kw_only=True):
    """Progress of one container: the fields that are the same in all versions."""

    is_killed: bool = False
    """Whether the old container was killed."""
    message: str = ""
    """Human-readable details."""
    name: str
    """Name of the container."""


class RecreateState(CommonRecreateState, frozen=True, kw_only=True):
    """Progress of one container."""

    phase: _Phase
    """Pending, Recreating, Succeeded or Failed."""


class ContainerStatusSnapshot(Typed, frozen=True, kw_only=True):
    """A container of the pod as reported by the kubelet, for the node agent."""

    container_id: str = msgspec.field(name="containerID", default="")
    """Id of the container."""
    name: str
    """Name of the container."""
    ready: Annotated[bool, schema(required=True)]
    """Whether the container is ready."""
    restart_count: Count
    """Number of restarts of the container."""


class ContainerRecreateRequestStatus(Status, frozen=True, kw_only=True):
    """Observed state of the request."""

    completion_time: Time | None = None
    """Time at which the request ended."""
    conditions: Annotated[list[Condition], schema(list_type="map", list_map_keys=("type",))] | None = None
    """Conditions of the request: PreRecreateGrace, once the pod is out of service."""
    container_recreate_states: list[RecreateState] | None = None
    """Progress of each container."""
    container_status_snapshot: list[ContainerStatusSnapshot] | None = None
    """Containers of the pod as reported by the kubelet, for the node agent."""
    message: str = ""
    """Human-readable details."""
    phase: Annotated[str, schema(enum=PHASES, required=True)] = ""
    """Pending, Recreating or Completed."""


class ContainerRecreateRequest(ApiObject, frozen=True, kw_only=True):
    """Restarts containers of a pod without recreating the pod."""

    api_version: str = CONTAINER_RECREATE_REQUESTS.api_version
    kind: str = CONTAINER_RECREATE_REQUESTS.kind
    spec: ContainerRecreateRequestSpec | None = None
    status: ContainerRecreateRequestStatus | None = None
