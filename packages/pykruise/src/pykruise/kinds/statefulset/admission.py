"""StatefulSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutating(settings) ──▶ the object with its defaults
                 ──▶ validating(…)      ──▶ allowed, or refused (422) with every field error

v1beta1 only; what is common to all workloads is pods/workload_admission.py. Whether claims can follow changed
templates takes a look at storage classes.
"""

from typing import Final

import msgspec

from pykruise.kinds.statefulset.claim_rules import claim_errors
from pykruise.kinds.statefulset.defaults import DefaultingSettings, with_defaults
from pykruise.kinds.statefulset.snapshot import read_spec
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, StatefulSetSpec
from pykruise.kinds.statefulset.validation import errors_of, warnings_of
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, is_on_its_way_out
from pykruise.kube.field_errors import refusal
from pykruise.plans.review import ClassLookup
from pykruise.pods.workload_admission import Reviews

__all__ = ["mutating", "validating"]

_REVIEWS: Final = Reviews[StatefulSetSpec](
    resource=ADVANCED_STATEFUL_SETS, versions=(ADVANCED_STATEFUL_SETS.version,), read_spec=read_spec
)

UNPROCESSABLE: Final = 422


def mutating(settings: DefaultingSettings) -> Reviewer:
    """The mutating review under these settings."""
    return _REVIEWS.mutating(
        lambda request, doc: with_defaults(doc, old=request.old_object, settings=settings)
    )


def validating(*, resizes_claims: bool = False, classes: ClassLookup | None = None) -> Reviewer:
    """The validating review. Deletions are allowed here, and so is what completes one.

    `resizes_claims`: gate StatefulSetAutoResizePVCGate; `classes` then says which storage classes there are.
    """
    by_itself = _REVIEWS.validating(lambda request, doc, spec: errors_of(doc, spec, old=request.old_object))

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await by_itself(request)
        is_written = request.operation in ("CREATE", "UPDATE") and not request.subresource
        if not is_written or is_on_its_way_out(request):
            return answer
        if answer.refusal is not None and answer.refusal.code != UNPROCESSABLE:
            return answer
        return await _with_claims(request, answer) if resizes_claims else _with_warnings(request, answer)

    async def _with_claims(request: AdmissionRequest, answer: AdmissionAnswer) -> AdmissionAnswer:
        doc, old = request.object or {}, request.old_object
        spec, _ = read_spec(doc.get("spec") or {})
        if spec is None or old is None:
            return _with_warnings(request, answer)
        further = await claim_errors(spec, old, classes)
        if not further:
            return _with_warnings(request, answer)
        details = answer.refusal.details if answer.refusal is not None else None
        known = details.causes if details is not None else ()
        name = (doc.get("metadata") or {}).get("name") or request.name
        return AdmissionAnswer(refusal=refusal(ADVANCED_STATEFUL_SETS, name, [*(known or ()), *further]))

    return review


def _with_warnings(request: AdmissionRequest, answer: AdmissionAnswer) -> AdmissionAnswer:
    doc = request.object or {}
    spec, _ = read_spec(doc.get("spec") or {})
    if answer.refusal is not None or spec is None:
        return answer
    return msgspec.structs.replace(answer, warnings=(*answer.warnings, *warnings_of(doc, spec)))
