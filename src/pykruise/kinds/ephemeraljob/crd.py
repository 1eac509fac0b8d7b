"""The CustomResourceDefinition of EphemeralJobs, made from the types: v1alpha1 only."""

from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS, EphemeralJob
from pykruise.kube.crds import Column, Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_COLUMNS = (
    Column("STATUS", "string", ".status.phase"),
    Column("MATCH", "integer", ".status.match"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("RUNNING", "integer", ".status.running"),
    Column("WAITING", "integer", ".status.waiting"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

_VERSIONS = (Version(name="v1alpha1", root=EphemeralJob, storage=True, columns=_COLUMNS),)


def crd() -> Document:
    """The definition `ephemeraljobs.apps.kruise.io`."""
    return definition(EPHEMERAL_JOBS, versions=_VERSIONS, short_names=("ejob",))
