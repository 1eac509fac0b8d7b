"""The ContainerRecreateRequest kind in its older version, v1alpha1: less strict, and with less in its status.

types.py ──▶ these ──▶ crd.py (the schema of v1alpha1). Objects are read and written in the hub version only.
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
    """How containers are recreated."""

    failure_policy: str = ""
    """Policy for a container that fails: Fail (the default) stops the request, Ignore continues with the next
    container."""
    min_started_seconds: Int32 = 0
    """Seconds that the new container must run before it counts as done."""
    termination_grace_period_seconds: Int64 | None = None
    """Seconds that the container has for its end; those of the pod by default."""
    unready_grace_period_seconds: Int64 | None = None
    """Seconds between taking the pod out of service and stopping containers."""


class ContainerRecreateRequestSpecV1Alpha1(CommonSpec, frozen=True, kw_only=True):
    """Desired state of the request."""

    active_deadline_seconds: Int64 | None = None
    """Seconds after which a request that is not done has failed; no deadline by default."""
    strategy: RecreateStrategyV1Alpha1 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after its end at which the request is deleted; it is kept by default."""


class RecreateStateV1Alpha1(CommonRecreateState, frozen=True, kw_only=True):
    """How far one container is."""

    phase: str
    """Pending, Recreating, Succeeded or Failed."""


class ContainerRecreateRequestStatusV1Alpha1(Status, frozen=True, kw_only=True):
    """Observed state of the request."""

    completion_time: Time | None = None
    """When the request was done."""
    container_recreate_states: list[RecreateStateV1Alpha1] | None = None
    """How far each container is."""
    message: str = ""
    """Details for people."""
    phase: Annotated[str, schema(required=True)] = ""
    """Pending, Recreating or Completed."""


class ContainerRecreateRequestV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """Restarts containers of a pod without touching the pod."""

    api_version: str = f"{CONTAINER_RECREATE_REQUESTS.group}/v1alpha1"
    kind: str = CONTAINER_RECREATE_REQUESTS.kind
    spec: ContainerRecreateRequestSpecV1Alpha1 | None = None
    status: ContainerRecreateRequestStatusV1Alpha1 | None = None
