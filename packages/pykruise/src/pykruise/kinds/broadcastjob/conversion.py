"""BroadcastJobs between v1alpha1 and v1beta1: the fields are the same."""

from typing import Final

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kube.conversion import Conversion, unchanged

__all__ = ["CONVERSION"]

CONVERSION: Final = Conversion(
    group=BROADCAST_JOBS.group,
    kind=BROADCAST_JOBS.kind,
    hub=BROADCAST_JOBS.version,
    spoke="v1alpha1",
    to_hub=unchanged,
    to_spoke=unchanged,
)
