"""PodProbeMarker: its definition, refused while its gates are off; there is no controller yet.

KIND ──▶ definitions, conversion, admission (plans/kind.py)
"""

from pykruise.kinds.podprobemarker.types import POD_PROBE_MARKERS, PodProbeMarker
from pykruise.kube.crds import Version
from pykruise.plans.kind import Kind
from pykruise.plans.review import Reviews, allow

__all__ = ["KIND"]

KIND = Kind(
    resource=POD_PROBE_MARKERS,
    versions=(Version(name="v1alpha1", root=PodProbeMarker, storage=True),),
    gates=("PodProbeMarkerGate", "KruiseDaemon"),
    reviews=Reviews(validating=lambda *_: allow),
)
