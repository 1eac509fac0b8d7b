"""The CustomResourceDefinition of AdvancedCronJobs, made from the types.

types.py + the schemas of the embedded specs ──▶ crd()

v1beta1 is served and stored; v1alpha1, with the same fields, is served.
"""

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS, AdvancedCronJob
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("Schedule", "string", ".spec.schedule"),
    Column("Type", "string", ".status.type"),
    Column("LastScheduleTime", "date", ".status.lastScheduleTime"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)


def crd(
    *,
    broadcast_job_spec: Document,
    image_list_pull_job_spec: Document,
) -> Document:
    """The definition `advancedcronjobs.apps.kruise.io`; the specs are schemas of what it makes."""
    embeds = {
        "spec.template.broadcastJobTemplate.spec": broadcast_job_spec,
        "spec.template.imageListPullJobTemplate.spec": image_list_pull_job_spec,
    }
    versions = (
        Version(name="v1alpha1", root=AdvancedCronJob, embeds=embeds, columns=_COLUMNS),
        Version(name="v1beta1", root=AdvancedCronJob, embeds=embeds, storage=True, columns=_COLUMNS),
    )
    return definition(ADVANCED_CRON_JOBS, versions=versions, short_names=("acj",))
