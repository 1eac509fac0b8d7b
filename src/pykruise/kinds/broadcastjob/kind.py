"""BroadcastJob: its definition; there is no controller yet.

KIND ──▶ definitions, conversion (plans/kind.py)
"""

from pykruise.kinds.broadcastjob.conversion import CONVERSION
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJob
from pykruise.kube.crds import Column, Version
from pykruise.plans.kind import Kind

__all__ = ["KIND"]

_COLUMNS = (
    Column("Desired", "integer", ".status.desired"),
    Column("Active", "integer", ".status.active"),
    Column("Succeeded", "integer", ".status.succeeded"),
    Column("Failed", "integer", ".status.failed"),
    Column("AGE", "date", ".metadata.creationTimestamp"),
)

KIND = Kind(
    resource=BROADCAST_JOBS,
    versions=(
        Version(name="v1alpha1", root=BroadcastJob, columns=_COLUMNS),
        Version(name="v1beta1", root=BroadcastJob, storage=True, columns=_COLUMNS),
    ),
    short_names=("bcj",),
    conversion=CONVERSION,
)
