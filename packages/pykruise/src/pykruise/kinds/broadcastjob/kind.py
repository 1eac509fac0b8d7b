"""Registration of the kind BroadcastJob for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)

A node's heartbeat enqueues nothing. When a node is added, deleted or changed, only the jobs that now treat this node
differently are enqueued.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kinds.broadcastjob.admission import build_mutating_review, build_validating_review
from pykruise.kinds.broadcastjob.insight import INSIGHT
from pykruise.kinds.broadcastjob.plan import plan_broadcastjob
from pykruise.kinds.broadcastjob.pod_group import NOT_SCHEDULED
from pykruise.kinds.broadcastjob.shown import SHOWN
from pykruise.kinds.broadcastjob.snapshot import (
    BROADCAST_JOB_VIEWS,
    BroadcastJobSettings,
    BroadcastJobView,
    read_snapshot,
)
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJob
from pykruise.kinds.broadcastjob.validation import OPTIONS, find_stored_errors
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import make_right
from pykruise.kube.schemas.conversion import Conversion
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import AGE, POD_OWNER_LENDS, Kind, list_workload_rights, make_two_versions
from pykruise.plans.pod_groups import GROUP_GATES, explain_no_gate, list_group_reads, list_group_rights
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.kstatus import job_standing_of
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, wake_itself, wake_owner

_COLUMNS = (
    Column("Desired", "integer", ".status.desired"),
    Column("Active", "integer", ".status.active"),
    Column("Succeeded", "integer", ".status.succeeded"),
    Column("Failed", "integer", ".status.failed"),
    AGE,
)


def _list_wakes(_: BroadcastJobSettings) -> Sequence[Wake]:
    return (
        wake_itself(BROADCAST_JOB_VIEWS),
        wake_owner(POD_VIEWS, BROADCAST_JOBS),
        Wake(on=NODE_VIEWS, keys=_enqueue_by_node),
    )


def _enqueue_by_node(change: Change[NodeView], around: Around[BroadcastJobSettings]) -> Iterator[Key]:
    """Enqueue the jobs that now treat the node differently, except jobs that have ended. A job with completion policy
    Never is enqueued even after it failed, because it still updates the counts in its status.
    """
    for job in around.list_all(BROADCAST_JOB_VIEWS):
        if not (job.is_finished and job.ends) and _is_concerned(job, change.old, change.new, around):
            yield job.key


def _is_concerned(
    job: BroadcastJobView, old: NodeView | None, new: NodeView | None, around: Around[BroadcastJobSettings]
) -> bool:
    if old is not None and new is not None:
        if _is_placed_equally(old, new):
            return False
        if bool(job.find_obstacle(old)) != bool(job.find_obstacle(new)):
            return True
    elif any(node is not None and not job.find_obstacle(node) for node in (old, new)):
        return True
    # The node may still have pods of the job that were created from an older template, or before the node was
    # deleted.
    names = {node.name for node in (old, new) if node is not None}
    return any(pod.target_node in names for pod in around.list_owned(POD_VIEWS, job.uid))


def _is_placed_equally(old: NodeView, new: NodeView) -> bool:
    same_room = old.is_cordoned == new.is_cordoned and old.allocatable == new.allocatable
    return same_room and old.is_placed_as(new)


def _explain_no_groups(settings: BroadcastJobSettings) -> str:
    """Return the reason why pods cannot be started as a group with these settings; empty if they can."""
    return explain_no_gate(settings) or ("" if settings.assign_by_scheduler else NOT_SCHEDULED)


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    options=OPTIONS,
    kept={
        "spec.completionPolicy.activeDeadlineSeconds": "a deadline that has passed: the job fails immediately",
        "spec.completionPolicy.ttlSecondsAfterFinished": "a time that has passed: the job is deleted when it has ended",
        "spec.failurePolicy.restartLimit": "no restart is allowed",
    },
)

KIND = Kind(
    resource=BROADCAST_JOBS,
    versions=make_two_versions(BroadcastJob, columns=_COLUMNS),
    short_names=("bcj",),
    conversion=Conversion(BROADCAST_JOBS, "v1alpha1"),
    amounts=(Amount(path=("spec", "parallelism"), stops="no pod is created"),),
    own_gates=GROUP_GATES,
    settings=BroadcastJobSettings,
    reviews=Reviews(
        mutating=lambda settings, _: build_mutating_review(settings),
        validating=lambda settings, _: build_validating_review(group_problem=_explain_no_groups(settings)),
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="broadcastjob",
            component="broadcastjob-controller",
            objects=BROADCAST_JOB_VIEWS,
            reads=lambda settings: (POD_VIEWS, NODE_VIEWS, *list_group_reads(settings)),
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.job,
            plan=plan_broadcastjob,
            standing=job_standing_of,
            # A late write of counts must not overwrite the status of a job that has ended.
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=POD_OWNER_LENDS,
    rights=(
        *list_workload_rights(BROADCAST_JOBS),
        make_right(BROADCAST_JOBS, "patch", why="BroadcastJob: to pause a job with a failed pod"),
        make_right(
            BROADCAST_JOBS, "delete", why="BroadcastJob: to delete a job after ttlSecondsAfterFinished"
        ),
    ),
    rights_by_gate=list_group_rights("BroadcastJob"),
    insight=INSIGHT,
    shown=SHOWN,
)
