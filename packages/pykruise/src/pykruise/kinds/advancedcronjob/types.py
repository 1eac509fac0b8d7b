"""The AdvancedCronJob kind in its hub version, v1beta1: every field, typed.

JSON of the API server ──▶ AdvancedCronJob ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)

Specs of the jobs stay documents: they are those of other kinds, whose schemas crd.py is given.
v1alpha1 has the same fields; the original's lacks `imageListPullJobTemplate`, and so loses it.
"""

from typing import Annotated, Any, Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.crds import merged_like, schema
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


JobTemplate = Annotated[dict[str, Any], merged_like("io.k8s.api.batch.v1.JobTemplateSpec")]
"""A `batch/v1 JobTemplateSpec`, kept as it is; server-side apply merges its lists as those of a CronJob."""


class BroadcastJobTemplate(Typed, frozen=True, kw_only=True):
    """BroadcastJobs that are made on schedule."""

    metadata: TemplateMeta | None = None
    spec: AnyObject | None = None
    """Spec of the BroadcastJobs."""


class ImageListPullJobTemplate(Typed, frozen=True, kw_only=True):
    """ImageListPullJobs that are made on schedule."""

    metadata: TemplateMeta | None = None
    spec: AnyObject | None = None
    """Spec of the ImageListPullJobs."""


class CronJobTemplate(Typed, frozen=True, kw_only=True):
    """Object that is created on schedule. Exactly one of the templates must be given."""

    broadcast_job_template: BroadcastJobTemplate | None = None
    image_list_pull_job_template: ImageListPullJobTemplate | None = None
    job_template: JobTemplate | None = None
    """Jobs that are made on schedule, as a batch/v1 JobTemplateSpec."""


class AdvancedCronJobSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the cron job."""

    concurrency_policy: Annotated[str, schema(enum=("Allow", "Forbid", "Replace"))] = ""
    """Policy while earlier jobs run: Allow (the default) creates another one, Forbid skips it, Replace deletes them
    first. With imageListPullJobTemplate the default is Replace."""
    failed_jobs_history_limit: Int32 | None = None
    """Failed jobs that are kept; 1 by default."""
    paused: bool = False
    """Whether no jobs are made."""
    schedule: Annotated[str, schema(min_length=0)]
    """When jobs are made, as a cron expression."""
    starting_deadline_seconds: Int64 | None = None
    """Seconds by which a job may be late; one that is later is skipped. No limit by default."""
    successful_jobs_history_limit: Int32 | None = None
    """Successful jobs that are kept; 3 by default."""
    template: CronJobTemplate
    time_zone: str | None = None
    """Time zone of the schedule by its IANA name; that of the manager by default."""


class AdvancedCronJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the cron job."""

    active: list[Annotated[ObjectReference, schema(map_type="atomic")]] | None = None
    """Jobs that run."""
    last_schedule_time: Time | None = None
    """When a job was last due and made."""
    type: str = ""
    """Kind of the jobs: Job, BroadcastJob or ImageListPullJob."""


class AdvancedCronJob(ApiObject, frozen=True, kw_only=True):
    """Makes Jobs, BroadcastJobs or ImageListPullJobs on a schedule."""

    api_version: str = ADVANCED_CRON_JOBS.api_version
    kind: str = ADVANCED_CRON_JOBS.kind
    spec: AdvancedCronJobSpec | None = None
    status: AdvancedCronJobStatus | None = None
