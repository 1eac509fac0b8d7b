"""Features that nodes declare and that an in-place update needs.

UpdateSpec + the pod's node ──▶ fit_to_node() ──▶ the same, or NotInPlace

Pure. Rule: since 1.36 the admission plugin NodeDeclaredFeatureValidator rejects a resize of a whole pod whose node does
not list the feature in `status.declaredFeatures` (KEP 5328). A resize of containers needs no declared feature.
"""

from collections.abc import Collection
from typing import Final

from pykruise.pods.in_place.difference import NotInPlace
from pykruise.pods.in_place.update_spec import WHOLE_POD, UpdateSpec

RESIZES_PODS: Final = "InPlacePodLevelResourcesVerticalScaling"
"""Feature of nodes that change the resources of a pod as a whole."""

UNDECLARED: Final = "its node does not declare that it can resize pod-level resources"


def fit_to_node(
    how: UpdateSpec | NotInPlace, node: str, *, undeclaring: Collection[str]
) -> UpdateSpec | NotInPlace:
    """Return the change that brings a pod on this node to its target. `undeclaring`: nodes that declare features, but
    not the one for resizing whole pods.
    """
    if isinstance(how, UpdateSpec) and WHOLE_POD in how.resources and node in undeclaring:
        return NotInPlace(UNDECLARED)
    return how
