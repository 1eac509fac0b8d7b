"""Conversion of PersistentPodStates between v1alpha1 and v1beta1. The field for keys of node labels has another
name.
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, find_section, iterate_objects, rename

_OLD: Final = "nodeTopologyKeys"
_NEW: Final = "keys"


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    for part in _find_topologies(doc):
        rename(part, _OLD, _NEW)
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    for part in _find_topologies(doc):
        rename(part, _NEW, _OLD)
    return doc


def _find_topologies(doc: Document) -> Iterator[Document | None]:
    spec = find_section(doc, "spec") or {}
    yield find_section(spec, "requiredPersistentTopology")
    for term in iterate_objects(spec.get("preferredPersistentTopology")):
        yield find_section(term, "preference")


CONVERSION: Final = Conversion(PERSISTENT_POD_STATES, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
