"""Conversion of PodUnavailableBudgets between v1alpha1 and v1beta1.

In v1alpha1 the operations and the total are annotations, which always equal the v1beta1 fields. An invalid annotation
of a budget that was stored without validation sets no field: the budget then protects against its default operations,
and can still be listed. The budget's review rejects new objects with such an annotation.
"""

import re
from typing import Final

from pykruise.kinds.podunavailablebudget.types import OPERATIONS, POD_UNAVAILABLE_BUDGETS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, annotate, drop, find_section
from pykruise.pods.view.keys import PROTECT_OPERATIONS_ANNOTATION, PROTECT_TOTAL_REPLICAS_ANNOTATION

PROTECT_OPERATIONS: Final = PROTECT_OPERATIONS_ANNOTATION
PROTECT_TOTAL_REPLICAS: Final = PROTECT_TOTAL_REPLICAS_ANNOTATION

_INT32: Final = 2**31
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    spec = find_section(doc, "spec")
    annotations = find_section(doc, "metadata", "annotations") or {}
    operations = operations_of(annotations.get(PROTECT_OPERATIONS))
    total = total_of(annotations.get(PROTECT_TOTAL_REPLICAS))
    if spec is not None and operations:
        spec["protectOperations"] = operations
    if spec is not None and total is not None:
        spec["protectTotalReplicas"] = total
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    spec = find_section(doc, "spec")
    if spec is None:
        return doc
    operations, total = spec.get("protectOperations"), spec.get("protectTotalReplicas")
    are_known = isinstance(operations, list) and all(each in OPERATIONS for each in operations)
    annotate(doc, PROTECT_OPERATIONS, ",".join(operations) if operations and are_known else None)
    is_number = isinstance(total, int) and not isinstance(total, bool)
    annotate(doc, PROTECT_TOTAL_REPLICAS, str(total) if is_number else None)
    drop(spec, "protectOperations", "protectTotalReplicas", "ignoredPodSelector")
    return doc


def operations_of(text: object) -> list[str] | None:
    """Parse the operations in the annotation; None: it is absent, or contains an unknown operation."""
    parts = [part.strip() for part in text.split(",")] if isinstance(text, str) else []
    operations = [part for part in parts if part]
    return operations if operations and all(part in OPERATIONS for part in operations) else None


def total_of(text: object) -> int | None:
    """Parse the number in the annotation; None: it is absent, or not a number of 32 bits."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT32 <= number < _INT32 else None


CONVERSION: Final = Conversion(POD_UNAVAILABLE_BUDGETS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
