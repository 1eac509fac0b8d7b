"""Registration of the kind ImageListPullJob for the rest of the program.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kinds.imagelistpulljob.admission import mutate_imagelistpulljob, validate_imagelistpulljob
from pykruise.kinds.imagelistpulljob.insight import INSIGHT
from pykruise.kinds.imagelistpulljob.plan import plan_imagelistpulljob, state_of
from pykruise.kinds.imagelistpulljob.shown import SHOWN
from pykruise.kinds.imagelistpulljob.snapshot import LIST_JOB_VIEWS, read_snapshot
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS, ImageListPullJob
from pykruise.kinds.imagelistpulljob.validation import find_stored_errors
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.schemas.conversion import Conversion
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import AGE, Kind, list_workload_rights, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import PULL_JOB_VIEWS
from pykruise.pods.images.node_image_api import NODE_IMAGES
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.settings import NoSettings
from pykruise.pods.workload.amounts import Amount
from pykruise.runtime.control import Control
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, is_controller, wake_itself

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("SUCCEEDED", "integer", ".status.succeeded"),
    Column("COMPLETED", "integer", ".status.completed"),
    AGE,
)


def _list_wakes(_: NoSettings) -> Sequence[Wake]:
    return (wake_itself(LIST_JOB_VIEWS), Wake(on=PULL_JOB_VIEWS, keys=_enqueue_owner))


def _enqueue_owner(change: Change[PullJobView], _: Around[NoSettings]) -> Iterator[Key]:
    """Enqueue the ImageListPullJob that controls the ImagePullJob, if fields that the ImageListPullJob reads have
    changed.
    """
    old, new = change.old, change.new
    if old is not None and new is not None and old is not new and _summarize(old) == _summarize(new):
        return
    owner = change.latest.controller
    if owner is not None and is_controller(owner, IMAGE_LIST_PULL_JOBS):
        yield Key(change.latest.namespace, owner.name)


def _summarize(child: PullJobView) -> tuple[object, ...]:
    """Return the values of the ImagePullJob that its ImageListPullJob reads."""
    is_active, has_failed = child.status.active > 0, child.status.failed > 0
    return child.uid, child.generation, child.is_deleting, state_of(child), is_active, has_failed


_STORED: Final = StoredSpec(errors=find_stored_errors)

KIND = Kind(
    resource=IMAGE_LIST_PULL_JOBS,
    versions=make_two_versions(ImageListPullJob, columns=_COLUMNS),
    conversion=Conversion(IMAGE_LIST_PULL_JOBS, "v1alpha1"),
    gates=("KruiseDaemon", "ImagePullJobGate"),
    amounts=(Amount(path=("spec", "parallelism"), stops="no image is pulled"),),
    reviews=Reviews(
        mutating=lambda *_: mutate_imagelistpulljob,
        validating=lambda *_: validate_imagelistpulljob,
        webhook="vimagelistpulljob-v1beta1.kb.io",
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="imagelistpulljob",
            component="imagelistpulljob-controller",
            objects=LIST_JOB_VIEWS,
            reads=lambda _: (PULL_JOB_VIEWS,),
            wakes=_list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.job,
            plan=plan_imagelistpulljob,
            # A late write of counts must not overwrite the status of a job that has ended.
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(NODE_IMAGES, "patch"),),
    rights=(
        *list_workload_rights(IMAGE_LIST_PULL_JOBS),
        make_right(
            IMAGE_LIST_PULL_JOBS,
            "patch",
            "delete",
            why="ImageListPullJob: to label and delete jobs",
        ),
        make_right(
            IMAGE_PULL_JOBS,
            *READ,
            "create",
            "delete",
            why="ImageListPullJob: to create one job for each image",
        ),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
