"""Registration of the kind NodeImage for the rest of the program.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from collections.abc import Sequence
from typing import Any, Final

from pykruise.kinds.nodeimage.admission import build_mutating_review, validate_nodeimage
from pykruise.kinds.nodeimage.conversion import CONVERSION
from pykruise.kinds.nodeimage.insight import INSIGHT
from pykruise.kinds.nodeimage.plan import plan_node_image
from pykruise.kinds.nodeimage.shown import SHOWN
from pykruise.kinds.nodeimage.snapshot import NodeImageSettings, make_absent_view, read_snapshot
from pykruise.kinds.nodeimage.types import NODE_IMAGES, NodeImage
from pykruise.kinds.nodeimage.v1alpha1 import NodeImageV1Alpha1
from pykruise.kinds.nodeimage.validation import find_stored_errors
from pykruise.kinds.nodeimage.wakes import list_wakes
from pykruise.kube.rbac import READ, WRITE, make_right
from pykruise.kube.resources import NODES
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import AGE, Kind, make_two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, add_judgement
from pykruise.plans.views import NODE_IMAGE_VIEWS, NODE_VIEWS, PULL_JOB_VIEWS, SECRET_VIEWS
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.runtime.control import Control
from pykruise.runtime.views import Views

_COLUMNS = (
    Column("DESIRED", "integer", ".status.desired"),
    Column("PULLING", "integer", ".status.pulling"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    AGE,
)

_STORED: Final = StoredSpec(
    errors=find_stored_errors,
    kept={
        "spec.images[].tags[].createdAt": "admission sets it when it is missing",
        "spec.images[].tags[].pullPolicy": "admission sets it when it is missing",
    },
)


def _list_reads(settings: NodeImageSettings) -> Sequence[Views[Any]]:
    """Return the views to read; secrets only if the manager has permission to read them."""
    return (NODE_VIEWS, PULL_JOB_VIEWS, *((SECRET_VIEWS,) if settings.looks_at_secrets else ()))


KIND = Kind(
    resource=NODE_IMAGES,
    versions=make_two_versions(NodeImage, NodeImageV1Alpha1, columns=_COLUMNS),
    conversion=CONVERSION,
    gates=("KruiseDaemon",),
    settings=NodeImageSettings,
    reviews=Reviews(
        mutating=lambda _, lookups: build_mutating_review(lookups.clock),
        validating=lambda *_: validate_nodeimage,
    ),
    stored=_STORED,
    control=add_judgement(
        Control(
            name="nodeimage",
            component="nodeimage-controller",
            objects=NODE_IMAGE_VIEWS,
            reads=_list_reads,
            wakes=list_wakes,
            absent=make_absent_view,
            snapshot=read_snapshot,
            object_of=lambda snapshot: snapshot.node_image,
            plan=plan_node_image,
            is_status_shared=True,
        ),
        _STORED,
    ),
    rights=(
        make_right(NODE_IMAGES, *READ, *WRITE, why="NodeImage: to create a NodeImage for every node"),
        make_right(
            NODE_IMAGES,
            "patch",
            subresource="status",
            why="NodeImage: to report that an agent does not respond",
        ),
        make_right(NODES, *READ, why="NodeImage: to watch nodes"),
        make_right(IMAGE_PULL_JOBS, *READ, why="NodeImage: to read the images that jobs request"),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
