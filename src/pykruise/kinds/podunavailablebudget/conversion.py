"""PodUnavailableBudgets between v1alpha1 and v1beta1.

In v1alpha1 the operations and the total are annotations. In that view they always say what the fields say.
"""

from typing import Final

from pykruise.kinds.podunavailablebudget.types import OPERATIONS, POD_UNAVAILABLE_BUDGETS
from pykruise.kube.conversion import Conversion, ConversionError, annotate, drop, section
from pykruise.kube.documents import Document
from pykruise.pods.keys import PROTECT_OPERATIONS_ANNOTATION, PROTECT_TOTAL_REPLICAS_ANNOTATION

__all__ = ["CONVERSION", "PROTECT_OPERATIONS", "PROTECT_TOTAL_REPLICAS"]

PROTECT_OPERATIONS: Final = PROTECT_OPERATIONS_ANNOTATION
PROTECT_TOTAL_REPLICAS: Final = PROTECT_TOTAL_REPLICAS_ANNOTATION

_INT32: Final = 2**31


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1. Raises ConversionError for an operation that is none, and a number that is none."""
    spec = section(doc, "spec")
    annotations = section(doc, "metadata", "annotations") or {}
    operations = _operations(annotations.get(PROTECT_OPERATIONS))
    total = _total(annotations.get(PROTECT_TOTAL_REPLICAS))
    if spec is not None and operations:
        spec["protectOperations"] = operations
    if spec is not None and total is not None:
        spec["protectTotalReplicas"] = total
    return doc


def to_spoke(doc: Document) -> Document:
    """v1beta1 as v1alpha1."""
    spec = section(doc, "spec")
    if spec is None:
        return doc
    operations, total = spec.get("protectOperations"), spec.get("protectTotalReplicas")
    are_known = isinstance(operations, list) and all(each in OPERATIONS for each in operations)
    annotate(doc, PROTECT_OPERATIONS, ",".join(operations) if operations and are_known else None)
    is_number = isinstance(total, int) and not isinstance(total, bool)
    annotate(doc, PROTECT_TOTAL_REPLICAS, str(total) if is_number else None)
    drop(spec, "protectOperations", "protectTotalReplicas", "ignoredPodSelector")
    return doc


def _operations(text: object) -> list[str]:
    found = [part.strip() for part in text.split(",")] if isinstance(text, str) else []
    found = [part for part in found if part]
    for part in found:
        if part not in OPERATIONS:
            expected = ", ".join(OPERATIONS)
            raise ConversionError(
                f'metadata.annotations[{PROTECT_OPERATIONS}]: "{part}" is none of {expected}'
            )
    return found


def _total(text: object) -> int | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = _INT32
    if not -_INT32 <= number < _INT32:
        raise ConversionError(
            f'metadata.annotations[{PROTECT_TOTAL_REPLICAS}]: "{text}" is no number of pods'
        )
    return number


CONVERSION: Final = Conversion(
    group=POD_UNAVAILABLE_BUDGETS.group,
    kind=POD_UNAVAILABLE_BUDGETS.kind,
    hub=POD_UNAVAILABLE_BUDGETS.version,
    spoke="v1alpha1",
    to_hub=to_hub,
    to_spoke=to_spoke,
)
