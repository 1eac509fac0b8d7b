"""The EphemeralJob kind, v1alpha1 (its only version): every field, typed.

JSON of the API server ──▶ EphemeralJob ──▶ controller; and by the same types ──▶ crd.py (its schema)

Ephemeral containers stay documents.
"""

from typing import Annotated, Any, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import merged_like
from pykruise.kube.schemas.types import ApiObject, Int32, Int64, JobCondition, Selector, Status, Time, Typed

EPHEMERAL_JOBS: Final = Resource("apps.kruise.io", "v1alpha1", "ephemeraljobs", "EphemeralJob")


class EphemeralContainers(Typed, frozen=True, kw_only=True):
    """Containers that are added to the pods."""

    ephemeral_containers: Annotated[
        list[dict[str, Any]], merged_like("io.k8s.api.core.v1.PodSpec", "ephemeralContainers")
    ]
    """The containers, as a list of core/v1 EphemeralContainer."""


class EphemeralJobSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the job."""

    active_deadline_seconds: Int64 | None = None
    """Seconds from its start after which a job that is not over has failed; no deadline by default."""
    parallelism: Int32 | None = None
    """Pods in which containers run at once; 1 by default."""
    paused: bool = False
    """Whether no more containers are started."""
    replicas: Int32 | None = None
    """Pods that get the containers, the first that match; all by default."""
    selector: Selector
    """Labels of the pods."""
    template: EphemeralContainers
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after its end at which the job is deleted; 1800 by default."""


class EphemeralJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    completion_time: Time | None = None
    """When the job ended."""
    conditions: list[JobCondition] | None = None
    """Aspects of the state."""
    failed: Int32 = 0
    """Pods in which containers failed."""
    match: Int32 = 0
    """Pods that match."""
    phase: str = ""
    """Waiting, Running, Paused, Succeeded, Failed, Error or Unknown."""
    running: Int32 = 0
    """Pods in which containers run."""
    start_time: Time | None = None
    """When the job was first seen."""
    succeeded: Int32 = 0
    """Pods in which containers succeeded."""
    waiting: Int32 = 0
    """Pods in which containers have not started."""


class EphemeralJob(ApiObject, frozen=True, kw_only=True):
    """Runs ephemeral containers in running pods, to look into many of them at once."""

    api_version: str = EPHEMERAL_JOBS.api_version
    kind: str = EPHEMERAL_JOBS.kind
    spec: EphemeralJobSpec | None = None
    status: EphemeralJobStatus | None = None
