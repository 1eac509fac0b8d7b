"""Validation of a PodUnavailableBudget in v1alpha1: an annotation with invalid operations.

AdmissionRequest (v1alpha1) ──▶ SPOKE_RULES.errors ──▶ field errors, or none

Conversion never fails, so that stored objects can always be listed, and ignores an invalid annotation. Here it is an
error. An unchanged stored annotation does not block other changes. The annotation of the total exists in v1beta1
objects too, and is checked there (validation.py).
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
