"""The CustomResourceDefinition of ContainerRecreateRequests, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequest,
)
from pykruise.kinds.containerrecreaterequest.v1alpha1 import ContainerRecreateRequestV1Alpha1
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("PHASE", "string", ".status.phase"),
    Column("POD", "string", ".spec.podName"),
    Column("NODE", "string", r".metadata.labels.crr\.apps\.kruise\.io/node-name"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=ContainerRecreateRequestV1Alpha1, columns=_COLUMNS),
    Version(name="v1beta1", root=ContainerRecreateRequest, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `containerrecreaterequests.apps.kruise.io`."""
    return definition(CONTAINER_RECREATE_REQUESTS, versions=_VERSIONS, short_names=("crr",))
