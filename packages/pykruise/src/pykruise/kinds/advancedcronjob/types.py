"""The AdvancedCronJob kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ AdvancedCronJob ──▶ snapshot, plan; the same types ──▶ kind.py (its schema)

Specs of the children are untyped JSON: other kinds define them, and kind.py gets the schemas of these kinds. v1alpha1
has the same fields. OpenKruise's v1alpha1 has no `imageListPullJobTemplate`, and therefore loses this field.
"""

from typing import Annotated, Any, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import merge_like, schema
from pykruise.kube.schemas.types import (
    AnyObject,
    ApiObject,
    Int32,
    Int64,
    ObjectReference,
    Status,
    TemplateMeta,
    Time,
    Typed,
)

ADVANCED_CRON_JOBS: Final = Resource("apps.kruise.io", "v1beta1", "advancedcronjobs", "AdvancedCronJob")


JobTemplate = Annotated[dict[str, Any], merge_like("io.k8s.api.batch.v1.JobTemplateSpec")]
"""A `batch/v1 JobTemplateSpec`. It is stored unchanged; server-side apply merges its lists as it does for a CronJob."""


class BroadcastJobTemplate(Typed, frozen=True, kw_only=True):
    """Template of the BroadcastJobs that are created on schedule."""

    metadata: TemplateMeta | None = None
    spec: AnyObject | None = None
    """Spec of the BroadcastJobs."""


class ImageListPullJobTemplate(Typed, frozen=True, kw_only=True):
    """Template of the ImageListPullJobs that are created on schedule."""

    metadata: TemplateMeta | None = None
    spec: AnyObject | None = None
    """Spec of the ImageListPullJobs."""


class CronJobTemplate(Typed, frozen=True, kw_only=True):
    """Template of the object that is created on schedule. Exactly one template must be set."""

    broadcast_job_template: BroadcastJobTemplate | None = None
    image_list_pull_job_template: ImageListPullJobTemplate | None = None
    job_template: JobTemplate | None = None
    """Template of the Jobs that are created on schedule, as a batch/v1 JobTemplateSpec."""


class AdvancedCronJobSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the cron job."""

    concurrency_policy: Annotated[str, schema(enum=("Allow", "Forbid", "Replace"))] = ""
    """Policy for a new job if earlier jobs are still running. Allow (the default) creates the new job, Forbid skips the
    new job, Replace first deletes the earlier jobs. With imageListPullJobTemplate the default is Replace.
    """
    failed_jobs_history_limit: Int32 | None = None
    """Number of failed jobs to keep. Defaults to 1."""
    paused: bool = False
    """Whether the schedule is paused. While it is paused, no jobs are created."""
    schedule: Annotated[str, schema(min_length=0)]
    """The schedule as a cron expression."""
    starting_deadline_seconds: Int64 | None = None
    """Maximum delay of a job's start in seconds. A job that cannot start by then is skipped. No limit by default."""
    successful_jobs_history_limit: Int32 | None = None
    """Number of successful jobs to keep. Defaults to 3."""
    template: CronJobTemplate
    time_zone: str | None = None
    """IANA name of the schedule's time zone. Defaults to the time zone of the manager."""


class AdvancedCronJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the cron job."""

    active: list[Annotated[ObjectReference, schema(map_type="atomic")]] | None = None
    """Jobs that are running."""
    last_schedule_time: Time | None = None
    """Scheduled time of the last job that was created."""
    type: str = ""
    """Kind of the jobs: Job, BroadcastJob or ImageListPullJob."""


class AdvancedCronJob(ApiObject, frozen=True, kw_only=True):
    """Creates Jobs, BroadcastJobs or ImageListPullJobs on a schedule."""

    api_version: str = ADVANCED_CRON_JOBS.api_version
    kind: str = ADVANCED_CRON_JOBS.kind
    spec: AdvancedCronJobSpec | None = None
    status: AdvancedCronJobStatus | None = None
