"""AdvancedCronJobs between v1alpha1 and v1beta1: the fields are the same."""

from typing import Final

from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kube.conversion import Conversion, unchanged

__all__ = ["CONVERSION"]

CONVERSION: Final = Conversion(
    group=ADVANCED_CRON_JOBS.group,
    kind=ADVANCED_CRON_JOBS.kind,
    hub=ADVANCED_CRON_JOBS.version,
    spoke="v1alpha1",
    to_hub=unchanged,
    to_spoke=unchanged,
)
