"""Validation of a PodUnavailableBudget in v1alpha1: an annotation with invalid operations.

AdmissionRequest (v1alpha1) ──▶ SPOKE_RULES.errors ──▶ field errors, or none

Conversion ignores an invalid annotation and never fails, so that stored objects can always be listed. This module
reports the invalid annotation as an error, but an unchanged stored annotation does not block other changes. v1beta1
objects can also have the annotation of the total; validation.py checks that annotation.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kinds.podunavailablebudget.conversion import PROTECT_OPERATIONS, operations_of
from pykruise.kinds.podunavailablebudget.types import OPERATIONS
from pykruise.kube.admission import AdmissionRequest, SpokeRules
from pykruise.kube.documents import annotations_of
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error


async def _find_errors(request: AdmissionRequest) -> Sequence[Cause]:
    given = annotations_of(request.object or {}).get(PROTECT_OPERATIONS, "")
    if given == annotations_of(request.old_object or {}).get(PROTECT_OPERATIONS):
        return []
    if not given.strip(", ") or operations_of(given) is not None:
        return []
    expected = ", ".join(OPERATIONS)
    return [
        make_invalid_error(
            f"metadata.annotations[{PROTECT_OPERATIONS}]",
            given,
            f"must be a comma-separated list of: {expected}",
        )
    ]


SPOKE_RULES: Final = SpokeRules(errors=_find_errors, field_of=lambda field: field)
