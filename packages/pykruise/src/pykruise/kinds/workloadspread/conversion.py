"""Conversion of WorkloadSpreads between v1alpha1 and v1beta1: names of node selectors and the form of conditions
differ.
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, drop, find_section, iterate_objects, rename

_NAMES: Final = (
    ("requiredNodeSelectorTerm", "requiredNodeSelector"),
    ("preferredNodeSelectorTerms", "preferredNodeSelector"),
)
"""Names of a subset's fields in v1alpha1 and in v1beta1."""

_NO_REASON: Final = "Unknown"
"""Reason that is added to conditions without a reason, because a condition of v1beta1 must have one."""


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    for subset in _list_subsets(doc):
        for old, new in _NAMES:
            rename(subset, old, new)
    for condition in _list_conditions(doc):
        condition["reason"] = condition.get("reason") or _NO_REASON
        condition["message"] = condition.get("message") or ""
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    for subset in _list_subsets(doc):
        for old, new in _NAMES:
            rename(subset, new, old)
    for condition in _list_conditions(doc):
        drop(condition, "observedGeneration")
    return doc


def _list_subsets(doc: Document) -> Iterator[Document]:
    return iterate_objects((find_section(doc, "spec") or {}).get("subsets"))


def _list_conditions(doc: Document) -> Iterator[Document]:
    status = find_section(doc, "status") or {}
    versioned = status.get("versionedSubsetStatuses")
    lists = [status.get("subsetStatuses"), *(versioned.values() if isinstance(versioned, dict) else ())]
    for statuses in lists:
        for subset in iterate_objects(statuses):
            yield from iterate_objects(subset.get("conditions"))


CONVERSION: Final = Conversion(WORKLOAD_SPREADS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
