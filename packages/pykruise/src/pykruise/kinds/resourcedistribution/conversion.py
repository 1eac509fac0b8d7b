"""Conversion of ResourceDistributions between v1alpha1 and v1beta1: two fields have other names."""

from typing import Final

from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, find_section, iterate_objects, rename

_SELECTORS: Final = ("namespaceLabelSelector", "namespaceSelector")
_FAILED: Final = ("failedNamespace", "failedNamespaces")


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    return _rename_fields(doc, _SELECTORS, _FAILED)


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    return _rename_fields(doc, _SELECTORS[::-1], _FAILED[::-1])


def _rename_fields(doc: Document, selectors: tuple[str, str], failed: tuple[str, str]) -> Document:
    rename(find_section(doc, "spec", "targets"), *selectors)
    for condition in iterate_objects((find_section(doc, "status") or {}).get("conditions")):
        rename(condition, *failed)
    return doc


CONVERSION: Final = Conversion(RESOURCE_DISTRIBUTIONS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
