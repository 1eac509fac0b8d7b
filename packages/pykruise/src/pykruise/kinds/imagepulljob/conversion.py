"""ImagePullJobs between v1alpha1 and v1beta1: the fields are the same."""

from typing import Final

from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.conversion import Conversion, unchanged

__all__ = ["CONVERSION"]

CONVERSION: Final = Conversion(
    group=IMAGE_PULL_JOBS.group,
    kind=IMAGE_PULL_JOBS.kind,
    hub=IMAGE_PULL_JOBS.version,
    spoke="v1alpha1",
    to_hub=unchanged,
    to_spoke=unchanged,
)
