"""The CustomResourceDefinition of BroadcastJobs, made from the types.

v1beta1 is served and stored; v1alpha1, with the same fields, is served.
"""

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJob
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("Desired", "integer", ".status.desired"),
    Column("Active", "integer", ".status.active"),
    Column("Succeeded", "integer", ".status.succeeded"),
    Column("Failed", "integer", ".status.failed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (
    Version(name="v1alpha1", root=BroadcastJob, columns=_COLUMNS),
    Version(name="v1beta1", root=BroadcastJob, storage=True, columns=_COLUMNS),
)


def crd() -> Document:
    """The definition `broadcastjobs.apps.kruise.io`."""
    return definition(BROADCAST_JOBS, versions=_VERSIONS, short_names=("bcj",))
