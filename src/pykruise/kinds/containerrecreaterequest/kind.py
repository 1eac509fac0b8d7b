"""ContainerRecreateRequest: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.containerrecreaterequest.conversion import CONVERSION
from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequest,
)
from pykruise.kinds.containerrecreaterequest.v1alpha1 import ContainerRecreateRequestV1Alpha1
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews, allow

__all__ = ["KIND"]

_COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("POD", "string", ".spec.podName"),
    Column("NODE", "string", r".metadata.labels.crr\.apps\.kruise\.io/node-name"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

KIND = Kind(
    resource=CONTAINER_RECREATE_REQUESTS,
    versions=(
        Version(name="v1alpha1", root=ContainerRecreateRequestV1Alpha1, columns=_COLUMNS),
        Version(name="v1beta1", root=ContainerRecreateRequest, storage=True, columns=_COLUMNS),
    ),
    short_names=("crr",),
    conversion=CONVERSION,
    gates=("KruiseDaemon",),
    reviews=Reviews(mutating=lambda *_: allow),
)
