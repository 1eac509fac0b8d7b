"""The ContainerRecreateRequest kind in its older version, v1alpha1: it is less strict, and its status has fewer
fields.

types.py ──▶ these types ──▶ kind.py (the schema of v1alpha1). Objects are read and written only in the hub version.
"""

from typing import Annotated

from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    CommonRecreateState,
    CommonSpec,
    CommonStrategy,
)
from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import ApiObject, Int32, Int64, Status, Time


class RecreateStrategyV1Alpha1(CommonStrategy, frozen=True, kw_only=True):
    """Strategy for recreating containers."""

    failure_policy: str = ""
    """Policy for a container that fails: Fail (the default) ends the request, Ignore continues with the next
    container.
    """
    min_started_seconds: Int32 = 0
    """Seconds that the new container must run before it counts as done."""
    termination_grace_period_seconds: Int64 | None = None
    """Seconds that the container has to terminate; those of the pod by default."""
    unready_grace_period_seconds: Int64 | None = None
    """Seconds between taking the pod out of service and stopping the containers."""


class ContainerRecreateRequestSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the request."""

    active_deadline_seconds: Int64 | None = None
    """Maximum duration in seconds since the creation of the request. A request that is not done by then fails; no
    deadline by default.
    """
    strategy: RecreateStrategyV1Alpha1 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after its end until the request is deleted; it is kept by default."""


class RecreateStateV1Alpha1(CommonRecreateState, frozen=True, kw_only=True):
    """Progress of one container."""

    phase: str
    """Pending, Recreating, Succeeded or Failed."""


class ContainerRecreateRequestStatusV1Alpha1(Status, frozen=True, kw_only=True):
    """Observed state of the request."""

    completion_time: Time | None = None
    """Time at which the request ended."""
    container_recreate_states: list[RecreateStateV1Alpha1] | None = None
    """Progress of each container."""
    message: str = ""
    """Human-readable details."""
    phase: Annotated[str, schema(required=True)] = ""
    """Pending, Recreating or Completed."""


class ContainerRecreateRequestV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Restarts containers of a pod without recreating the pod."""

    api_version: str = f"{CONTAINER_RECREATE_REQUESTS.group}/v1alpha1"
    kind: str = CONTAINER_RECREATE_REQUESTS.kind
    spec: ContainerRecreateRequestSpecV1Alpha1 | None = None
    status: ContainerRecreateRequestStatusV1Alpha1 | None = None
