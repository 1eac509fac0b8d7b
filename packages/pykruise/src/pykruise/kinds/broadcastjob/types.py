"""The BroadcastJob kind in its hub version, v1beta1: every field, typed. v1alpha1 has the same fields.

JSON of the API server ──▶ BroadcastJob ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)
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
    """When the job is over."""

    active_deadline_seconds: Int64 | None = None
    """Seconds from its start after which a job that is not over has failed. Not with type Never."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after its end at which the job is deleted; it is kept by default. Not with type Never."""
    type: str = ""
    """Always (the default): the job ends when its pods have. Never: it goes on for nodes that come later."""


class FailurePolicy(Typed, frozen=True, kw_only=True):
    """Consequence of a failed pod for the job."""

    restart_limit: Int32 = 0
    """Restarts of a pod's containers after which the pod has failed; for restart policy OnFailure."""
    type: str = ""
    """FailFast (the default): the job fails. Continue: the others go on. Pause: the job is paused."""


class BroadcastJobSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the job."""

    completion_policy: CompletionPolicy | None = None
    failure_policy: FailurePolicy | None = None
    parallelism: IntOrString | None = None
    """Pods that may be active at once, as a number or a share of the nodes, rounded up; no limit by default."""
    paused: bool = False
    """Whether nothing is created, deleted or judged."""
    template: PodTemplate
    """The pods, as a core/v1 PodTemplateSpec with restart policy Never or OnFailure."""


class BroadcastJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    active: Int32 = 0
    """Pods that run or wait."""
    completion_time: Time | None = None
    """When the job ended, in either way."""
    conditions: list[JobCondition] | None = None
    """Aspects of the state: Complete, Failed."""
    desired: Int32 = 0
    """Nodes that get a pod."""
    failed: Int32 = 0
    """Pods that failed."""
    phase: str = ""
    """running, paused, completed or failed."""
    start_time: Time | None = None
    """When the job was first seen."""
    succeeded: Int32 = 0
    """Pods that succeeded."""


class BroadcastJob(ApiObject, frozen=True, kw_only=True):
    """Runs one pod to its end on every node that fits."""

    api_version: str = BROADCAST_JOBS.api_version
    kind: str = BROADCAST_JOBS.kind
    spec: BroadcastJobSpec | None = None
    status: BroadcastJobStatus | None = None
