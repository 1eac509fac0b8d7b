"""Warnings about limits of 0, for every kind that has limits.

the review of a kind ──▶ with_amount_warnings() ──▶ the same review; what it allows has warnings (pods/amounts.py)
"""

from collections.abc import Sequence

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.pods.amounts import Amount, warnings_of_amounts

__all__ = ["with_amount_warnings"]


def with_amount_warnings(reviewer: Reviewer, amounts: Sequence[Amount]) -> Reviewer:
    """Answers as `reviewer` does, and warns of limits where it allows the write."""
    if not amounts:
        return reviewer

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await reviewer(request)
        if answer.refusal is not None or request.object is None or not is_reviewed_write(request):
            return answer
        warnings = tuple(warnings_of_amounts(request.object, amounts))
        if not warnings:
            return answer
        return msgspec.structs.replace(answer, warnings=(*answer.warnings, *warnings))

    return review
