"""What planners and wake-ups of all workloads do alike.

a kind's cache + Sources ──▶ owner_of(), is_unchanged(), revisions_around() ──▶ its `Planner`
events of pods and revisions ──▶ owners_in(), named_after() ──▶ keys to wake
"""

from collections.abc import Iterable
from typing import TypeVar

from pykruise.kube.cache import Cache, Change
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.plans.reconcile import Owner
from pykruise.plans.sources import BY_CONTROLLER, BY_NAME_PREFIX, ORPHANS, Sources, owner_name
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.names import LONGEST_REVISION_OWNER
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import ControllerView, PodView
from pykruise.pods.workloads import WorkloadView

__all__ = [
    "is_controller",
    "is_unchanged",
    "named_after",
    "owner_of",
    "owners_in",
    "pull_jobs_of",
    "revisions_around",
]

W = TypeVar("W", bound=WorkloadView)


def owner_of(workload: WorkloadView, resource: Resource) -> Owner:
    """Whose status and events a plan about the workload is."""
    return Owner(
        resource=resource,
        key=workload.key,
        uid=workload.uid,
        resource_version=str(workload.resource_version),
        stored_status=workload.stored_status,
    )


def is_unchanged(planned: W, cache: Cache[W]) -> bool:
    """Whether the workload is still the same object with the same spec as when it was planned for."""
    now = cache.get(planned.key)
    return (
        now is not None
        and now.uid == planned.uid
        and now.generation == planned.generation
        and now.is_deleting == planned.is_deleting
    )


def revisions_around(workload: WorkloadView, sources: Sources) -> list[RevisionView]:
    """Its own, those that could be its own (nobody's), and those that hold a name it may want."""
    revisions = sources.revisions
    prefix = (workload.namespace, workload.name[:LONGEST_REVISION_OWNER])
    found = {
        revision.name: revision
        for group in (
            revisions.by_index(BY_CONTROLLER, workload.uid),
            revisions.by_index(ORPHANS, workload.namespace),
            revisions.by_index(BY_NAME_PREFIX, prefix),
        )
        for revision in group
    }
    return list(found.values())


def pull_jobs_of(workload: WorkloadView, jobs: Cache[PullJobView]) -> Iterable[PullJobView] | None:
    """ImagePullJobs that it controls; None while the kind is not served: nothing can be created then."""
    return jobs.by_index(BY_CONTROLLER, workload.uid) if jobs.synced else None


def is_controller(owner: ControllerView, resource: Resource) -> bool:
    """Whether a controller reference is to this kind; in any version of the group, so that what was made before
    an upgrade counts too."""
    return owner.kind == resource.kind and owner.group == resource.group


def owners_in(change: Change[PodView], resource: Resource) -> tuple[Key, ...]:
    """The workloads of this kind that control the pod, or did before the change; each once."""
    old, new = change.old, change.new
    if (
        old is not None
        and new is not None
        and (old.controller is new.controller or old.controller == new.controller)
    ):
        return _owner_in(new, resource)
    return (*_owner_in(old, resource), *_owner_in(new, resource))


def _owner_in(pod: PodView | None, resource: Resource) -> tuple[Key, ...]:
    if pod is None or pod.controller is None or not is_controller(pod.controller, resource):
        return ()
    return (Key(pod.namespace, pod.controller.name),)


def named_after(change: Change[RevisionView]) -> Key | None:
    """The workload, of whichever kind, that the revision is named after."""
    revision = change.new or change.old
    return Key(revision.namespace, owner_name(revision)) if revision is not None else None
