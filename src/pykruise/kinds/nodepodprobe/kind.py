"""NodePodProbe: its definition; there is no controller yet.

KIND ──▶ definitions, conversion (plans/kind.py)
"""

from pykruise.kinds.nodepodprobe.types import NODE_POD_PROBES, NodePodProbe
from pykruise.kube.crds import Version
from pykruise.plans.kind import Kind

__all__ = ["KIND"]

KIND = Kind(
    resource=NODE_POD_PROBES,
    versions=(Version(name="v1alpha1", root=NodePodProbe, storage=True),),
)
