"""Registration of the kind AdvancedCronJob for the rest of the program.

KIND ──▶ definitions, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kinds.advancedcronjob.admission import build_mutating_review, build_validating_review
from pykruise.kinds.advancedcronjob.children import AMOUNTS, CHILD_VIEWS, JOB, TEMPLATES, ChildView
from pykruise.kinds.advancedcronjob.insight import INSIGHT
from pykruise.kinds.advancedcronjob.plan import plan_cronjob
from pykruise.kinds.advancedcronjob.shown import SHOWN
from pykruise.kinds.advancedcronjob.snapshot import CRON_JOB_VIEWS, AdvancedCronJobSettings, read_snapshot
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS, AdvancedCronJob
from pykruise.kinds.advancedcronjob.validation import find_stored_errors
from pykruise.kube.cache.store import Change
from pykruise.kube.documents import get_path
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import JOBS, PODS, SUBJECT_ACCESS_REVIEWS
from pykruise.kube.schemas.conversion import Conversion
from pykruise.kube.schemas.crds import Column, Version
from pykruise.plans.kind import AGE, Kind, SpecSchema, list_workload_rights
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import TEMPLATE_IS_JUDGED_LATER, StoredSpec, add_judgement
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.derived_names import HASH, LONGEST_LABEL, DerivedName
from pykruise.runtime.control import Control
from pykruise.runtime.objects import BY_UID
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, wake_itself

_COLUMNS = (
    Column("Schedule", "string", ".spec.schedule"),
    Column("Type", "string", ".status.type"),
    Column("LastScheduleTime", "date", ".status.lastScheduleTime"),
    AGE,
)


def _build_versions(schema_of: SpecSchema) -> tuple[Version, ...]:
    """Return both versions of the kind. Each template's spec has the schema of the child's kind."""
    embeds = {
        "spec.template.broadcastJobTemplate.spec": schema_of("BroadcastJob"),
        "spec.template.imageListPullJobTemplate.spec": schema_of("ImageListPullJob"),
    }
    return (
        Version(name="v1alpha1", root=AdvancedCronJob, embeds=embeds, columns=_COLUMNS),
        Version(name="v1beta1", root=AdvancedCronJob, embeds=embeds, storage=True, columns=_COLUMNS),
    )


def _list_wakes(_: AdvancedCronJobSettings) -> Sequence[Wake]:
    return (
        wake_itself(CRON_JOB_VIEWS),
        *(Wake(on=views, keys=_enqueue_owner) for views in CHILD_VIEWS.values()),
        Wake(on=POD_VIEWS, keys=_enqueue_owner_of_job),
    )


def _enqueue_owner_of_job(change: Change[PodView], around: Around[AdvancedCronJobSettings]) -> Iterator[Key]:
    """Enqueue the AdvancedCronJob whose Job controls the pod, if the pod was created or deleted, or if the
    reason why it does not run changed.
    """
    old, new, owner = change.old, change.new, change.latest.controller
    if owner is None or (owner.group, owner.kind) != (JOB.group, JOB.kind):
        return
    if old is None or new is None or old is new or has_new_obstacle(old, new):
        job = around.get(CHILD_VIEWS[JOB.kind], Key(change.latest.namespace, owner.name))
        if job is not None:
            yield from _find_controller(job, around)


def _enqueue_owner(change: Change[ChildView], around: Around[AdvancedCronJobSettings]) -> Iterator[Key]:
    """Enqueue the AdvancedCronJob that controls the child."""
    yield from _find_controller(change.latest, around)


def _find_controller(child: ChildView, around: Around[AdvancedCronJobSettings]) -> Iterator[Key]:
    for cron in around.list_by_index(CRON_JOB_VIEWS, BY_UID, child.controller_uid):
        yield cron.key


_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.template.jobTemplate.spec.template": TEMPLATE_IS_JUDGED_LATER,
        "spec.template.broadcastJobTemplate.spec.template": TEMPLATE_IS_JUDGED_LATER,
        **{
            f"spec.template.broadcastJobTemplate.spec.{policy}.{field}": "0 in the BroadcastJobs"
            for policy, field in AMOUNTS
        },
        "spec.template.broadcastJobTemplate.spec.parallelism": "each BroadcastJob is rejected when it is created",
    },
)

KIND = Kind(
    resource=ADVANCED_CRON_JOBS,
    versions=_build_versions,
    short_names=("acj",),
    conversion=Conversion(ADVANCED_CRON_JOBS, "v1alpha1"),
    derived=(
        DerivedName(
            what="the name of a Job or BroadcastJob that it creates (also a label of the pods)",
            longest=LONGEST_LABEL,
            of=lambda doc, _: (
                ()
                if get_path(doc, "spec", "template", "imageListPullJobTemplate")
                else (f"{doc['metadata']['name']}{HASH}",)
            ),
        ),
    ),
    settings=AdvancedCronJobSettings,
    reviews=Reviews(
        mutating=lambda settings, lookups: build_mutating_review(settings, lookups.clock),
        validating=lambda _, lookups: build_validating_review(lookups.access),
        rights=(
            make_right(
                SUBJECT_ACCESS_REVIEWS,
                "create",
                why="AdvancedCronJob: to check whether its user has permission to create ImageListPullJobs",
            ),
        ),
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="advancedcronjob",
            component="advancedcronjob-controller",
            objects=CRON_JOB_VIEWS,
            reads=lambda _: (*CHILD_VIEWS.values(), POD_VIEWS),
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.cron,
            plan=plan_cronjob,
            # A status write that arrives late must not replace a newer last schedule time.
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(JOBS, "create", "delete"),),
    rights=(
        *list_workload_rights(ADVANCED_CRON_JOBS),
        make_right(PODS, *READ, why="AdvancedCronJob: to report why the pods of its Jobs wait"),
        *(
            make_right(
                resource,
                *READ,
                "create",
                "delete",
                why="AdvancedCronJob: to create and delete the jobs of its templates",
            )
            for resource in TEMPLATES.values()
        ),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
