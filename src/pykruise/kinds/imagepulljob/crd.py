"""The CustomResourceDefinition of ImagePullJobs, made from the types.

v1beta1 is served and stored; v1alpha1, with the same fields and one more column, is served.
"""

from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS, ImagePullJob
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("ACTIVE", "integer", ".status.active"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)
_MESSAGE = Column("MESSAGE", "string", ".status.message")

_VERSIONS = (
    Version(name="v1alpha1", root=ImagePullJob, columns=(*_COLUMNS, _MESSAGE)),
    Version(name="v1beta1", root=ImagePullJob, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `imagepulljobs.apps.kruise.io`."""
    return definition(IMAGE_PULL_JOBS, versions=_VERSIONS)
