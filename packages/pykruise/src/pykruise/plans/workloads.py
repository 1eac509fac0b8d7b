"""Reads from the caches that the snapshots of all workloads need.

view of a workload + Read ──▶ list_revisions_around(), pull_jobs_of() ──▶ its snapshot
                              └── a revision of a previous owner is read once from the API server
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.views import BY_NAME_PREFIX, PULL_JOB_VIEWS, REVISION_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view.names import LONGEST_REVISION_OWNER
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.read import Mirrors, Read


async def list_revisions_around(workload: WorkloadView, read: Read[Any]) -> list[RevisionView]:
    """Return the workload's revisions, orphans that it can adopt, and revisions whose names it may need."""
    return await drop_ghosts(list_known_revisions_around(workload, read), workload, read)


class _Asked(msgspec.Struct):
    """Results of reads from the API server for one workload."""

    is_there: dict[str, bool] = {}
    """UID of each revision → whether it exists."""


async def drop_ghosts(
    revisions: Iterable[RevisionView], workload: WorkloadView, read: Read[Any]
) -> list[RevisionView]:
    """Return the revisions, without those of a previous owner that the API server no longer has. A revision of a
    previous owner is read from the API server only if it would be used.

    If a workload is deleted and created again, it needs a revision with the same content. The old revision was deleted
    with the old workload. But if the watch delivers the DELETED event late, the cache still contains the old revision,
    and pods would get a revision that does not exist.
    """
    asked = read.find_memory(_Asked).is_there
    ghosts: list[RevisionView] = []
    for revision in revisions:
        if _may_be_ghost(revision, workload) and revision.uid not in asked:
            asked[revision.uid] = await _is_there(revision, read)
        if asked.get(revision.uid, True):
            ghosts.append(revision)
    return ghosts


def _may_be_ghost(revision: RevisionView, workload: WorkloadView) -> bool:
    is_of_before = revision.created_at is not None and revision.created_at <= workload.created_at
    wanted = workload.candidate
    is_wanted = wanted is not None and revision.meaning == wanted.meaning
    return is_of_before and is_wanted and revision.controller_uid not in ("", workload.uid)


async def _is_there(revision: RevisionView, read: Read[Any]) -> bool:
    try:
        live = decode(await read.live.get(CONTROLLER_REVISIONS, revision.namespace, revision.name))
    except NotFoundError:
        return False
    return bool(live["metadata"]["uid"] == revision.uid)


def list_known_revisions_around(workload: WorkloadView, read: Mirrors) -> list[RevisionView]:
    """Return the same revisions, but only from the cache."""
    prefix = (workload.namespace, workload.name[:LONGEST_REVISION_OWNER])
    result = {
        revision.name: revision
        for group in (
            read.list_owned(REVISION_VIEWS, workload.uid),
            read.list_orphans(REVISION_VIEWS, workload.namespace),
            read.list_by_index(REVISION_VIEWS, BY_NAME_PREFIX, prefix),
        )
        for revision in group
    }
    return list(result.values())


def pull_jobs_of(workload: WorkloadView, read: Mirrors) -> Sequence[PullJobView] | None:
    """Return the ImagePullJobs that the workload controls; None if images are not pulled in advance, because of the
    settings or because the API server does not serve ImagePullJobs.
    """
    return tuple(read.list_owned(PULL_JOB_VIEWS, workload.uid)) if read.is_read(PULL_JOB_VIEWS) else None
