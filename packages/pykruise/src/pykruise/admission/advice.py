"""Warnings that all kinds share: limits of 0, and names that are too long for the objects named after them.

the review of a kind ──▶ add_advice() ──▶ the same review, whose allowed requests get warnings
                                           (pods/workload/amounts.py, pods/workload/derived_names.py)
"""

from typing import Any

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.plans.kind import Kind
from pykruise.pods.workload.amounts import warnings_of_amounts
from pykruise.pods.workload.derived_names import warnings_of_names


def add_advice(reviewer: Reviewer, kind: Kind, settings: Any) -> Reviewer:
    """Return a reviewer that answers like `reviewer` and adds warnings to allowed writes. `settings`: those of the
    kind.
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
