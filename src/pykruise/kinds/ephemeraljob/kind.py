"""EphemeralJob: its definition; there is no controller yet.

KIND ──▶ definitions (plans/kind.py)
"""

from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS, EphemeralJob
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind

__all__ = ["KIND"]

_COLUMNS = (
    Column("STATUS", "string", ".status.phase"),
    Column("MATCH", "integer", ".status.match"),
    Column("SUCCEED", "integer", ".status.succeeded"),
    Column("FAILED", "integer", ".status.failed"),
    Column("RUNNING", "integer", ".status.running"),
    Column("WAITING", "integer", ".status.waiting"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

KIND = Kind(
    resource=EPHEMERAL_JOBS,
    versions=(Version(name="v1alpha1", root=EphemeralJob, storage=True, columns=_COLUMNS),),
    short_names=("ejob",),
)
