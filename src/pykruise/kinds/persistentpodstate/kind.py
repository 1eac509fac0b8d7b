"""PersistentPodState: its definition; there is no controller yet.

KIND ──▶ definitions, conversion (plans/kind.py)
"""

from pykruise.kinds.persistentpodstate.conversion import CONVERSION
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES, PersistentPodState
from pykruise.kinds.persistentpodstate.v1alpha1 import PersistentPodStateV1Alpha1
from pykruise.kube.crds import Version
from pykruise.plans.kind import Kind

__all__ = ["KIND"]

KIND = Kind(
    resource=PERSISTENT_POD_STATES,
    versions=(
        Version(name="v1alpha1", root=PersistentPodStateV1Alpha1),
        Version(name="v1beta1", root=PersistentPodState, storage=True),
    ),
    conversion=CONVERSION,
)
