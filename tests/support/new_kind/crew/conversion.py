"""Crews between v1alpha1 and v1beta1: one field has another name."""

from typing import Final

from pykruise.kinds.crew.types import CREWS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, find_section, rename

__all__ = ["CONVERSION"]


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1."""
    rename(find_section(doc, "spec"), "members", "size")
    return doc


def to_spoke(doc: Document) -> Document:
    """v1beta1 as v1alpha1."""
    rename(find_section(doc, "spec"), "size", "members")
    return doc


CONVERSION: Final = Conversion(CREWS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
