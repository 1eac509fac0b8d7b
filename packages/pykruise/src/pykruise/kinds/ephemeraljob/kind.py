"""Registration of the kind EphemeralJob for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)

When a pod is created or deleted, when its ephemeral containers or labels change, or when there is a new reason why it
does not run, the jobs in its namespace that select it are enqueued.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.ephemeraljob.plan import list_pods_at_work, plan_ephemeraljob
from pykruise.kinds.ephemeraljob.shown import SHOWN
from pykruise.kinds.ephemeraljob.snapshot import EPHEMERAL_JOB_VIEWS, PARTS, read_snapshot, read_spec
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS, EphemeralJob, EphemeralJobSpec
from pykruise.kinds.ephemeraljob.validation import errors_of, find_stored_errors
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import PODS
from pykruise.kube.schemas.crds import Column, Version
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Insight
from pykruise.plans.kind import AGE, Kind
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.jobs.ended_changes import warnings_of_ended_job
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.admission import SpecReviews
from pykruise.pods.workload.amounts import Amount
from pykruise.pods.workload.kstatus import job_standing_of
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Wake, wake_itself

_COLUMNS = (
    Column("STATUS", "string", ".status.phase"),
    Column("MATCH", "integer", ".status.match"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("RUNNING", "integer", ".status.running"),
    Column("WAITING", "integer", ".status.waiting"),
    AGE,
)

_REVIEWS: Final = SpecReviews[EphemeralJobSpec](
    resource=EPHEMERAL_JOBS,
    versions=(EPHEMERAL_JOBS.version,),
    read_spec=read_spec,
    placeholders=("selector",),
    parts=PARTS,
)
_validate: Final = _REVIEWS.build_validating_review(
    lambda request, doc, _: errors_of(doc, old=request.old_object), warnings_of_change=warnings_of_ended_job
)


def _find_jobs_of_pod(change: Change[PodView], around: Around[Any]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is not None and new is not None and _is_alike(old, new):
        return
    for job in around.list_by_index(EPHEMERAL_JOB_VIEWS, BY_NAMESPACE, change.key.namespace):
        if any(pod is not None and job.selector.matches(pod.labels) for pod in (old, new)):
            yield job.key


def _is_alike(old: PodView, new: PodView) -> bool:
    facts = [(pod.ephemeral, pod.is_active, pod.labels) for pod in (old, new)]
    return facts[0] == facts[1] and not has_new_obstacle(old, new)


def _format_headline(status: Mapping[str, Any]) -> str:
    succeeded, failed, match = (status.get(name, 0) for name in ("succeeded", "failed", "match"))
    phase = status.get("phase") or "not started"
    said = "not started in all pods" if phase == "Unknown" else phase
    return f"{said}: {succeeded} of {format_count(match, 'pod')} succeeded, {failed} failed"


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.replicas": "no pod gets the containers",
        "spec.parallelism": "no containers are started",
        "spec.activeDeadlineSeconds": "a deadline that has passed",
        "spec.ttlSecondsAfterFinished": "a time that has passed: the job is deleted when it has ended",
    },
)

KIND = Kind(
    resource=EPHEMERAL_JOBS,
    versions=(Version(name="v1alpha1", root=EphemeralJob, storage=True, columns=_COLUMNS),),
    short_names=("ejob",),
    amounts=(Amount(path=("spec", "parallelism"), stops="no containers are started"),),
    reviews=Reviews(validating=lambda *_: _validate, webhook="vephemeraljobs.kb.io", has_versioned_path=True),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="ephemeraljob",
            component="ephemeraljob-controller",
            objects=EPHEMERAL_JOB_VIEWS,
            reads=lambda _: (POD_VIEWS,),
            wakes=lambda _: (wake_itself(EPHEMERAL_JOB_VIEWS), Wake(on=POD_VIEWS, keys=_find_jobs_of_pod)),
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.job,
            plan=plan_ephemeraljob,
            standing=job_standing_of,
            # A late write of counts must not overwrite the status of a job that has ended.
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(PODS, "patch", subresource="ephemeralcontainers"),),
    rights=(
        make_right(
            EPHEMERAL_JOBS,
            *READ,
            "patch",
            "delete",
            why="EphemeralJob: to watch jobs, remove their finalizers, and delete them",
        ),
        make_right(
            EPHEMERAL_JOBS, "patch", subresource="status", why="EphemeralJob: to report the progress of jobs"
        ),
        make_right(PODS, *READ, why="EphemeralJob: to read the pods that a job selects"),
        make_right(
            PODS, "patch", subresource="ephemeralcontainers", why="EphemeralJob: to add containers to pods"
        ),
    ),
    insight=Insight(
        names=frozenset({"ejob"}),
        containers=("spec", "template", "ephemeralContainers"),
        headline=_format_headline,
        at_work=list_pods_at_work,
        pod_selector=("spec", "selector"),
        has_observed_generation=False,
    ),
    shown=SHOWN,
)
