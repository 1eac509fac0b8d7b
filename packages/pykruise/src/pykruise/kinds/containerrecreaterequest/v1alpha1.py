"""The ContainerRecreateRequest kind in its older version, v1alpha1. Fewer values are rejected, and the status has fewer
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
    """Policy if a container cannot be recreated: Fail (the default) ends the request, Ignore continues with the next
    container.
    """
    min_started_seconds: Int32 = 0
    """Seconds that the new container must run until the container counts as recreated."""
    termination_grace_period_seconds: Int64 | None = None
    """Grace period in seconds for the termination of a container. Defaults to the pod's
    terminationGracePeriodSeconds.
    """
    unready_grace_period_seconds: Int64 | None = None
    """Seconds for which the pod is out of service before its containers are stopped. By default the pod is not taken
    out of service.
    """


class ContainerRecreateRequestSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the request."""

    active_deadline_seconds: Int64 | None = None
    """Maximum duration in seconds after the creation of the request. A request that takes longer fails. There is no
    deadline by default.
    """
    strategy: RecreateStrategyV1Alpha1 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after the end of the request until the request is deleted. By default it is kept."""


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
