"""What is wrong with a PodUnavailableBudget as v1alpha1 writes it: annotations that mean nothing.

AdmissionRequest (v1alpha1) ──▶ SPOKE_RULES.errors ──▶ field errors, or none

Conversion reads what it can and never fails, so that a stored object can always be listed; here it is an error.
An annotation that is stored already does not stand in the way of other changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.podunavailablebudget.conversion import (
    PROTECT_OPERATIONS,
    PROTECT_TOTAL_REPLICAS,
    operations_of,
    total_of,
)
from pykruise.kinds.podunavailablebudget.types import OPERATIONS
from pykruise.kube.admission import AdmissionRequest, SpokeRules
from pykruise.kube.documents import annotations_of
from pykruise.kube.errors import Cause
from pykruise.kube.field_errors import invalid

__all__ = ["SPOKE_RULES"]


async def _errors(request: AdmissionRequest) -> Sequence[Cause]:
    if request.object is None or request.operation not in ("CREATE", "UPDATE"):
        return ()
    given, stored = annotations_of(request.object), annotations_of(request.old_object or {})
    changed = {key: text for key, text in given.items() if text != stored.get(key)}
    return list(_annotation_errors(changed))


def _annotation_errors(annotations: Mapping[str, Any]) -> Iterator[Cause]:
    operations, total = annotations.get(PROTECT_OPERATIONS), annotations.get(PROTECT_TOTAL_REPLICAS)
    if operations and operations.strip(", ") and operations_of(operations) is None:
        expected = ", ".join(OPERATIONS)
        yield invalid(
            f"metadata.annotations[{PROTECT_OPERATIONS}]", operations, f"must be some of {expected}"
        )
    if total and total_of(total) is None:
        yield invalid(f"metadata.annotations[{PROTECT_TOTAL_REPLICAS}]", total, "is no number of pods")


SPOKE_RULES: Final = SpokeRules(errors=_errors, field_of=lambda field: field)
