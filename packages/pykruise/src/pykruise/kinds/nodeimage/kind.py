"""Registration of the kind NodeImage for the rest of the program.

KIND ──▶ definitions, conversion, roles, caches, controllers, admission, doctor, explain, plan (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.nodeimage.admission import mutating, validate_nodeimage
from pykruise.kinds.nodeimage.conversion import CONVERSION
from pykruise.kinds.nodeimage.insight import INSIGHT
from pykruise.kinds.nodeimage.plan import plan_node_image
from pykruise.kinds.nodeimage.shown import SHOWN
from pykruise.kinds.nodeimage.snapshot import NodeImageSettings, absent, snapshot
from pykruise.kinds.nodeimage.types import NODE_IMAGES, NodeImage
from pykruise.kinds.nodeimage.v1alpha1 import NodeImageV1Alpha1
from pykruise.kinds.nodeimage.validation import stored_errors
from pykruise.kinds.nodeimage.wakes import wakes
from pykruise.kube.rbac import READ, WRITE, on
from pykruise.kube.resources import NODES
from pykruise.kube.schemas.crds import Column
from pykruise.plans.kind import AGE, Kind, two_versions
from pykruise.plans.review import Reviews
from pykruise.plans.stored_values import StoredSpec, judged
from pykruise.plans.views import NODE_IMAGE_VIEWS, NODE_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.runtime.control import Control

_COLUMNS = (
    Column("DESIRED", "integer", ".status.desired"),
    Column("PULLING", "integer", ".status.pulling"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    AGE,
)

_STORED: Final = StoredSpec(
    errors=stored_errors,
    kept={
        "spec.images[].tags[].createdAt": "admission sets it when it is missing",
        "spec.images[].tags[].pullPolicy": "admission sets it when it is missing",
    },
)

KIND = Kind(
    resource=NODE_IMAGES,
    versions=two_versions(NodeImage, NodeImageV1Alpha1, columns=_COLUMNS),
    conversion=CONVERSION,
    gates=("KruiseDaemon",),
    settings=NodeImageSettings,
    reviews=Reviews(
        mutating=lambda _, lookups: mutating(lookups.clock), validating=lambda *_: validate_nodeimage
    ),
    stored=_STORED,
    control=judged(
        Control(
            name="nodeimage",
            component="nodeimage-controller",
            objects=NODE_IMAGE_VIEWS,
            reads=lambda _: (NODE_VIEWS, PULL_JOB_VIEWS),
            wakes=wakes,
            absent=absent,
            snapshot=snapshot,
            object_of=lambda snapshot: snapshot.node_image,
            plan=plan_node_image,
            is_status_shared=True,
        ),
        _STORED,
    ),
    rights=(
        on(NODE_IMAGES, *READ, *WRITE, why="NodeImage: to create one for every node"),
        on(
            NODE_IMAGES,
            "patch",
            subresource="status",
            why="NodeImage: to report that an agent does not answer",
        ),
        on(NODES, *READ, why="NodeImage: to watch nodes"),
        on(IMAGE_PULL_JOBS, *READ, why="NodeImage: to read the images that jobs request"),
    ),
    insight=INSIGHT,
    shown=SHOWN,
)
