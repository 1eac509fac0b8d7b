"""Warnings for objects of every kind: about limits of 0, and about names from which longer, invalid names are derived.

the reviewer of a kind ──▶ add_advice() ──▶ a reviewer that also adds warnings to allowed requests
                                           (pods/workload/amounts.py, pods/workload/derived_names.py)
"""

from typing import Any

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.plans.kind import Kind
from pykruise.pods.workload.amounts import warnings_of_amounts
from pykruise.pods.workload.derived_names import warnings_of_names


def add_advice(reviewer: Reviewer, kind: Kind, settings: Any) -> Reviewer:
    """Return a reviewer that responds like `reviewer`, but adds warnings to allowed writes. `settings`: the settings
    of the kind.
    """
    if not (kind.amounts or kind.derived):
        return reviewer

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await reviewer(request)
        doc = request.object
        if answer.refusal is not None or doc is None or not is_reviewed_write(request):
            return answer
        warnings = (
            *warnings_of_amounts(doc, kind.amounts),
            *warnings_of_names(doc, kind.derived, settings),
        )
        if not warnings:
            return answer
        return msgspec.structs.replace(answer, warnings=(*answer.warnings, *warnings))

    return review
