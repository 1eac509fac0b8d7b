"""Registration of the kind ImagePullJob for the rest of the program.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.imagepulljob.admission import mutate_imagepulljob, validate_imagepulljob
from pykruise.kinds.imagepulljob.insight import INSIGHT
from pykruise.kinds.imagepulljob.order import WORKLOADS
from pykruise.kinds.imagepulljob.plan import plan_imagepulljob
from pykruise.kinds.imagepulljob.shown import SHOWN
from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSettings, read_snapshot
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS, ImagePullJob
from pykruise.kinds.imagepulljob.validation import find_stored_errors
from pykruise.kinds.imagepulljob.wakes import list_wakes
from pykruise.kube.rbac import READ, WRITE, make_right
from pykruise.kube.resources import NAMESPACES, SECRETS
from pykruise.kube.schemas.conversion import Conversion
from pykruise.kube.schemas.crds import Column, Version
from pykruise.plans.kind import AGE, Kind
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import NAMESPACE_VIEWS, NODE_IMAGE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS, SECRET_VIEWS
from pykruise.pods.images.node_image_api import NODE_IMAGES
from pykruise.pods.workload.amounts import Amount
from pykruise.runtime.control import Control

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("ACTIVE", "integer", ".status.active"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    AGE,
)
_MESSAGE = Column("MESSAGE", "string", ".status.message")

_STORED: Final = StoredSpec(errors=find_stored_errors)

KIND = Kind(
    resource=IMAGE_PULL_JOBS,
    versions=(
        Version(name="v1alpha1", root=ImagePullJob, columns=(*_COLUMNS, _MESSAGE)),
        Version(name="v1beta1", root=ImagePullJob, storage=True, columns=_COLUMNS),
    ),
    conversion=Conversion(IMAGE_PULL_JOBS, "v1alpha1"),
    gates=("KruiseDaemon", "ImagePullJobGate"),
    amounts=(Amount(path=("spec", "parallelism"), stops="no node pulls the image"),),
    settings=ImagePullJobSettings,
    reviews=Reviews(
        mutating=lambda *_: mutate_imagepulljob,
        validating=lambda *_: validate_imagepulljob,
        webhook="vimagepulljob-v1beta1.kb.io",
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="imagepulljob",
            component="imagepulljob-controller",
            objects=PULL_JOB_VIEWS,
            reads=lambda _: (NODE_IMAGE_VIEWS, POD_VIEWS, SECRET_VIEWS, NAMESPACE_VIEWS),
            wakes=list_wakes,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.job,
            plan=plan_imagepulljob,
            # A late write of counts must not overwrite the status of a job that has ended.
            is_status_shared=True,
        ),
        _STORED,
    ),
    lends=(make_right(NODE_IMAGES, "patch"),),
    rights=(
        make_right(
            IMAGE_PULL_JOBS,
            *READ,
            "patch",
            "delete",
            why="ImagePullJob: to watch jobs, set their finalizers, and delete them",
        ),
        make_right(
            IMAGE_PULL_JOBS, "patch", subresource="status", why="ImagePullJob: to report the status of jobs"
        ),
        make_right(NODE_IMAGES, *READ, "patch", why="ImagePullJob: to request pulls from nodes"),
        make_right(
            NAMESPACES, *READ, why="ImagePullJob: to check that the namespace of copied secrets exists"
        ),
        make_right(
            SECRETS,
            *READ,
            *WRITE,
            why="ImagePullJob: to copy pull secrets to the namespace that nodes may read",
        ),
        *(
            make_right(workload, "get", why="ImagePullJob: to read the order in which pods are updated")
            for workload in WORKLOADS.values()
        ),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
