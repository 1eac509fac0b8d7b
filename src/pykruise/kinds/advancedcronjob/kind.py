"""AdvancedCronJob: its definition; there is no controller yet.

KIND ──▶ definitions, conversion (plans/kind.py)
"""

from pykruise.kinds.advancedcronjob.conversion import CONVERSION
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS, AdvancedCronJob
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind, SpecSchema

__all__ = ["KIND"]

_COLUMNS = (
    Column("Schedule", "string", ".spec.schedule"),
    Column("Type", "string", ".status.type"),
    Column("LastScheduleTime", "date", ".status.lastScheduleTime"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)


def _versions(schema_of: SpecSchema) -> tuple[Version, ...]:
    """The specs of what it makes have the schemas of their kinds."""
    embeds = {
        "spec.template.broadcastJobTemplate.spec": schema_of("BroadcastJob"),
        "spec.template.imageListPullJobTemplate.spec": schema_of("ImageListPullJob"),
    }
    return (
        Version(name="v1alpha1", root=AdvancedCronJob, embeds=embeds, columns=_COLUMNS),
        Version(name="v1beta1", root=AdvancedCronJob, embeds=embeds, storage=True, columns=_COLUMNS),
    )


KIND = Kind(
    resource=ADVANCED_CRON_JOBS,
    versions=_versions,
    short_names=("acj",),
    conversion=CONVERSION,
)
