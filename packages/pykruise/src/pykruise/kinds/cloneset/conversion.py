"""Conversion of CloneSets between v1alpha1 and v1beta1. The rules are in cloneset_versions.py, because other kinds
embed templates of CloneSets.
"""

from typing import Final

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.schemas.conversion import Conversion
from pykruise.pods.workload import cloneset_versions
from pykruise.pods.workload.cloneset_versions import EXCLUDE_PREPARING_DELETE

__all__ = ["CONVERSION", "EXCLUDE_PREPARING_DELETE"]

CONVERSION: Final = Conversion(
    CLONE_SETS, "v1alpha1", to_hub=cloneset_versions.to_hub, to_spoke=cloneset_versions.to_spoke
)
