"""ImageListPullJob for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.imagelistpulljob.snapshot import ImageListPullJobSnapshot
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight, InsightChild
from pykruise.pods.corrections import Correction
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the progress of the job."""
    desired, succeeded = (status.get(name, 0) for name in ("desired", "succeeded"))
    failed = len(status.get("failedImageStatuses") or ())
    images_are = format_count(desired, "image is", "images are")
    return f"{succeeded} of {images_are} on all selected nodes, {failed} failed"


def list_children(snapshot: ImageListPullJobSnapshot) -> Iterator[InsightChild]:
    """Yield the ImagePullJob of each listed image, sorted by name. A person corrects such a job by creating the
    ImageListPullJob again, because the ImageListPullJob creates all ImagePullJobs.
    """
    correction = Correction(again=f"{IMAGE_LIST_PULL_JOBS.kind} {snapshot.job.name}")
    listed = frozenset(snapshot.job.spec.images) if snapshot.job.spec is not None else frozenset[str]()
    for child in sorted(snapshot.children, key=lambda child: child.name):
        if child.spec is not None and child.spec.image in listed and not child.is_deleting:
            key = Key(child.namespace, child.name)
            yield InsightChild(resource=IMAGE_PULL_JOBS, key=key, correction=correction)


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    children=list_children,
    has_observed_generation=False,
)
