"""ImagePullJob: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.imagepulljob.conversion import CONVERSION
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS, ImagePullJob
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews, allow

__all__ = ["KIND"]

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("ACTIVE", "integer", ".status.active"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)
_MESSAGE = Column("MESSAGE", "string", ".status.message")

KIND = Kind(
    resource=IMAGE_PULL_JOBS,
    versions=(
        Version(name="v1alpha1", root=ImagePullJob, columns=(*_COLUMNS, _MESSAGE)),
        Version(name="v1beta1", root=ImagePullJob, storage=True, columns=_COLUMNS),
    ),
    conversion=CONVERSION,
    gates=("KruiseDaemon", "ImagePullJobGate"),
    reviews=Reviews(validating=lambda *_: allow, webhook="vimagepulljob-v1beta1.kb.io"),
)
