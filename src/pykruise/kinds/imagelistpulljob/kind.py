"""ImageListPullJob: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.imagelistpulljob.conversion import CONVERSION
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS, ImageListPullJob
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews, allow

__all__ = ["KIND"]

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("SUCCEEDED", "integer", ".status.succeeded"),
    Column("COMPLETED", "integer", ".status.completed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

KIND = Kind(
    resource=IMAGE_LIST_PULL_JOBS,
    versions=(
        Version(name="v1alpha1", root=ImageListPullJob, columns=_COLUMNS),
        Version(name="v1beta1", root=ImageListPullJob, storage=True, columns=_COLUMNS),
    ),
    conversion=CONVERSION,
    gates=("KruiseDaemon", "ImagePullJobGate"),
    reviews=Reviews(validating=lambda *_: allow, webhook="vimagelistpulljob-v1beta1.kb.io"),
)
