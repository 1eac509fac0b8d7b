"""The CustomResourceDefinition of ImageListPullJobs, made from the types.

v1beta1 is served and stored; v1alpha1, with the same fields, is served.
"""

from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS, ImageListPullJob
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("TOTAL", "integer", ".status.desired"),
    Column("SUCCEEDED", "integer", ".status.succeeded"),
    Column("COMPLETED", "integer", ".status.completed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=ImageListPullJob, columns=_COLUMNS),
    Version(name="v1beta1", root=ImageListPullJob, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `imagelistpulljobs.apps.kruise.io`."""
    return definition(IMAGE_LIST_PULL_JOBS, versions=_VERSIONS)
