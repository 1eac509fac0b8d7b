"""The CustomResourceDefinition of PersistentPodStates, made from the types.

v1beta1 is served and stored; v1alpha1 is served.
"""

from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES, PersistentPodState
from pykruise.kinds.persistentpodstate.v1alpha1 import PersistentPodStateV1Alpha1
from pykruise.kube.crds import Version, definition
from pykruise.kube.documents import Document

__all__ = ["crd"]

_VERSIONS = (
    Version(name="v1alpha1", root=PersistentPodStateV1Alpha1),
    Version(name="v1beta1", root=PersistentPodState, storage=True),
)


def crd() -> Document:
    """The definition `persistentpodstates.apps.kruise.io`."""
    return definition(PERSISTENT_POD_STATES, versions=_VERSIONS)
