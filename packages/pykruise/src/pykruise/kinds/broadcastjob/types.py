"""The BroadcastJob kind in its hub version, v1beta1: every field, typed. v1alpha1 has the same fields.

JSON of the API server ──▶ BroadcastJob ──▶ snapshot, plan; the same types ──▶ kind.py (the schema)
"""

from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import (
    ApiObject,
    Int32,
    Int64,
    IntOrString,
    JobCondition,
    Status,
    Time,
    Typed,
)
from pykruise.pods.api import PodTemplate

BROADCAST_JOBS: Final = Resource("apps.kruise.io", "v1beta1", "broadcastjobs", "BroadcastJob")


class CompletionPolicy(Typed, frozen=True, kw_only=True):
    """Policy for the end of the job."""

    active_deadline_seconds: Int64 | None = None
    """Maximum duration of the job in seconds. A job that takes longer fails. Must not be set if the type is Never."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after the end of the job until the job is deleted. By default the job is kept. Must not be set if the
    type is Never.
    """
    type: str = ""
    """Always (the default): the job ends when all its pods have finished. Never: the job also runs on nodes that are
    added later.
    """


class FailurePolicy(Typed, frozen=True, kw_only=True):
    """Policy for the job when a pod fails."""

    restart_limit: Int32 = 0
    """Maximum number of container restarts of a pod with restart policy OnFailure. After more restarts the pod counts
    as failed.
    """
    type: str = ""
    """FailFast (the default): the job fails. Continue: the other pods continue. Pause: the job is paused."""


class BroadcastJobSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the job."""

    completion_policy: CompletionPolicy | None = None
    failure_policy: FailurePolicy | None = None
    parallelism: IntOrString | None = None
    """Maximum number of pods that may be active at the same time, as a number or a percentage of the nodes, rounded
    up; no limit by default.
    """
    paused: bool = False
    """Whether the job is paused. While it is paused, pods are neither created nor deleted, and the job does not end."""
    template: PodTemplate
    """Template of the pods, as a core/v1 PodTemplateSpec with restart policy Never or OnFailure."""


class BroadcastJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    active: Int32 = 0
    """Number of pods that run or wait."""
    completion_time: Time | None = None
    """Time at which the job completed or failed."""
    conditions: list[JobCondition] | None = None
    """Conditions of the job: Complete, Failed."""
    desired: Int32 = 0
    """Number of nodes that get a pod."""
    failed: Int32 = 0
    """Number of pods that failed."""
    phase: str = ""
    """running, paused, completed or failed."""
    start_time: Time | None = None
    """Time at which the controller first saw the job."""
    succeeded: Int32 = 0
    """Number of pods that succeeded."""


class BroadcastJob(ApiObject, frozen=True, kw_only=True):
    """Runs one pod to completion on every node that the pod can run on."""

    api_version: str = BROADCAST_JOBS.api_version
    kind: str = BROADCAST_JOBS.kind
    spec: BroadcastJobSpec | None = None
    status: BroadcastJobStatus | None = None
