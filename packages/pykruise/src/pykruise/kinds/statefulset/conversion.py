"""Conversion of Advanced StatefulSets between v1alpha1 and v1beta1: v1alpha1 lacks the newer fields."""

from typing import Final

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, drop, find_section

_NEWER_SPEC: Final = (
    "lifecycle",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "reserveOrdinals",
    "scaleStrategy",
    "volumeClaimUpdateStrategy",
)
_NEWER_STATUS: Final = ("updatedAvailableReplicas", "updatedReadyReplicas", "volumeClaims")


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    drop(find_section(doc, "spec"), *_NEWER_SPEC)
    drop(find_section(doc, "status"), *_NEWER_STATUS)
    return doc


CONVERSION: Final = Conversion(ADVANCED_STATEFUL_SETS, "v1alpha1", to_spoke=to_spoke)
