"""What snapshots of all workloads read alike.

view of a workload + Read ──▶ revisions_around(), pull_jobs_of() ──▶ its snapshot
"""

from collections.abc import Sequence

from pykruise.plans.views import BY_NAME_PREFIX, PULL_JOB_VIEWS, REVISION_VIEWS
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.names import LONGEST_REVISION_OWNER
from pykruise.pods.revisions import RevisionView
from pykruise.pods.workloads import WorkloadView
from pykruise.runtime.read import Mirrors

__all__ = ["pull_jobs_of", "revisions_around"]


def revisions_around(workload: WorkloadView, read: Mirrors) -> list[RevisionView]:
    """Its own, orphans that could be its own, and those that hold a name it may want."""
    prefix = (workload.namespace, workload.name[:LONGEST_REVISION_OWNER])
    found = {
        revision.name: revision
        for group in (
            read.owned(REVISION_VIEWS, workload.uid),
            read.orphans(REVISION_VIEWS, workload.namespace),
            read.by_index(REVISION_VIEWS, BY_NAME_PREFIX, prefix),
        )
        for revision in group
    }
    return list(found.values())


def pull_jobs_of(workload: WorkloadView, read: Mirrors) -> Sequence[PullJobView] | None:
    """ImagePullJobs that it controls; None: images are not pulled ahead under these settings, or cannot be."""
    return tuple(read.owned(PULL_JOB_VIEWS, workload.uid)) if read.is_read(PULL_JOB_VIEWS) else None
