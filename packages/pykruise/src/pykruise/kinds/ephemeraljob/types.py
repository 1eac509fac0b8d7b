"""The EphemeralJob kind, v1alpha1 (its only version): every field, typed.

JSON of the API server ──▶ EphemeralJob ──▶ controller; the same types ──▶ kind.py (the schema)

Ephemeral containers are kept as untyped JSON.
"""

from typing import Annotated, Any, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import merge_like
from pykruise.kube.schemas.types import ApiObject, Int32, Int64, JobCondition, Selector, Status, Time, Typed

EPHEMERAL_JOBS: Final = Resource("apps.kruise.io", "v1alpha1", "ephemeraljobs", "EphemeralJob")


class EphemeralContainers(Typed, frozen=True, kw_only=True):
    """The containers that the job adds to pods."""

    ephemeral_containers: Annotated[
        list[dict[str, Any]], merge_like("io.k8s.api.core.v1.PodSpec", "ephemeralContainers")
    ]
    """The containers, as a list of core/v1 EphemeralContainer."""


class EphemeralJobSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the job."""

    active_deadline_seconds: Int64 | None = None
    """Maximum duration of the job in seconds. A job that takes longer fails. There is no deadline by default."""
    parallelism: Int32 | None = None
    """Maximum number of pods in which the job's containers run at the same time; 1 by default."""
    paused: bool = False
    """Whether the job is paused. While it is paused, no containers are added to pods, and the job does not end."""
    replicas: Int32 | None = None
    """Maximum number of pods that get the containers, oldest first; all matching pods by default."""
    selector: Selector
    """Label selector for the pods."""
    template: EphemeralContainers
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after the end of the job until the job is deleted; 1800 by default."""


class EphemeralJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    completion_time: Time | None = None
    """Time at which the job ended."""
    conditions: list[JobCondition] | None = None
    """Conditions of the job."""
    failed: Int32 = 0
    """Number of pods in which containers failed."""
    match: Int32 = 0
    """Number of pods that the job has selected."""
    phase: str = ""
    """Waiting, Running, Paused, Succeeded, Failed, Error or Unknown."""
    running: Int32 = 0
    """Number of pods in which containers run."""
    start_time: Time | None = None
    """Time at which the controller first saw the job."""
    succeeded: Int32 = 0
    """Number of pods in which containers succeeded."""
    waiting: Int32 = 0
    """Number of pods in which containers wait to start."""


class EphemeralJob(ApiObject, frozen=True, kw_only=True):
    """Runs ephemeral containers in running pods, to inspect many pods at the same time."""

    api_version: str = EPHEMERAL_JOBS.api_version
    kind: str = EPHEMERAL_JOBS.kind
    spec: EphemeralJobSpec | None = None
    status: EphemeralJobStatus | None = None
