"""PodUnavailableBudget's admission review, as a function that a webhook server or a sandbox calls.

AdmissionRequest ──▶ build_validating_review() ──▶ allowed, or rejected (422) with every field error

v1beta1 only: writes in v1alpha1 are converted first. The kind has no defaults, so there is no mutating review. While
both gates of the kind are off, admission/feature_gates.py rejects new objects and changed specs with 400.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.podunavailablebudget.readers import BudgetReader
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS, PodUnavailableBudgetSpec
from pykruise.kinds.podunavailablebudget.validation import errors_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.pod_rules.field_errors import make_internal_error
from pykruise.pods.template.typed_parts import LABEL_SELECTOR
from pykruise.pods.workload.admission import SpecReviews, name_of
from pykruise.pods.workload.budgets import BudgetView
from pykruise.pods.workload.validation import find_metadata_errors
from pykruise.pods.workload.views import make_spec_reader

_REVIEWS: Final = SpecReviews[PodUnavailableBudgetSpec](
    resource=POD_UNAVAILABLE_BUDGETS,
    versions=(POD_UNAVAILABLE_BUDGETS.version,),
    read_spec=make_spec_reader(PodUnavailableBudgetSpec),
    placeholders=(),
    parts=dict.fromkeys(("selector", "ignoredPodSelector"), LABEL_SELECTOR),
)


def build_validating_review(reader: BudgetReader | None) -> Reviewer:
    """Create the review. Without a reader, the review does not know the other budgets of the namespace."""

    async def errors(request: AdmissionRequest, doc: Document, spec: PodUnavailableBudgetSpec) -> list[Cause]:
        return [
            *find_metadata_errors(doc.get("metadata") or {}),
            *await _find_errors(request, doc, spec, reader),
        ]

    return _REVIEWS.build_judging_review(errors)


async def _find_errors(
    request: AdmissionRequest, doc: Document, spec: PodUnavailableBudgetSpec, reader: BudgetReader | None
) -> list[Cause]:
    old = request.old_object
    # Errors of the stored spec must not block changes of finalizers or labels.
    if (
        old is not None
        and is_same(doc.get("spec"), old.get("spec"))
        and _read_annotations(doc) == _read_annotations(old)
    ):
        return []
    others: list[BudgetView] = []
    try:
        if reader is not None:
            budgets = await reader.list_in_namespace(request.namespace)
            others = [budget for budget in budgets if budget.name != name_of(request)]
    except KubeError as error:
        problem = make_internal_error("", f"the other PodUnavailableBudgets cannot be read: {error}")
        return [*errors_of(doc, spec, old=old), problem]
    return errors_of(doc, spec, old=old, others=others)


def _read_annotations(doc: Mapping[str, Any]) -> Mapping[str, Any]:
    return (doc.get("metadata") or {}).get("annotations") or {}
