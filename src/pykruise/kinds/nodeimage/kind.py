"""NodeImage: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.nodeimage.conversion import CONVERSION
from pykruise.kinds.nodeimage.types import NODE_IMAGES, NodeImage
from pykruise.kinds.nodeimage.v1alpha1 import NodeImageV1Alpha1
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews, allow

__all__ = ["KIND"]

_COLUMNS = (
    Column("DESIRED", "integer", ".status.desired"),
    Column("PULLING", "integer", ".status.pulling"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

KIND = Kind(
    resource=NODE_IMAGES,
    versions=(
        Version(name="v1alpha1", root=NodeImageV1Alpha1, columns=_COLUMNS),
        Version(name="v1beta1", root=NodeImage, storage=True, columns=_COLUMNS),
    ),
    conversion=CONVERSION,
    gates=("KruiseDaemon",),
    reviews=Reviews(validating=lambda *_: allow),
)
