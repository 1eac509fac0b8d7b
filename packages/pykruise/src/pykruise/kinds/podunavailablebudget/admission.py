"""PodUnavailableBudget's admission review, as a function that a webhook server or a sandbox calls.

AdmissionRequest ──▶ validating(...) ──▶ allowed, or refused (422) with every field error; 400 with its gates off

v1beta1 only: writes in v1alpha1 are converted first. There are no defaults, so nothing mutates.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.podunavailablebudget.readers import BudgetReader
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS, PodUnavailableBudgetSpec
from pykruise.kinds.podunavailablebudget.validation import errors_of
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_on_its_way_out
from pykruise.kube.documents import Document, same
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.field_errors import bad_request, internal_error, refusal
from pykruise.kube.typed_documents import read
from pykruise.pods.budgets import BudgetView
from pykruise.pods.workload_validation import metadata_errors

__all__ = ["validating"]


def validating(reader: BudgetReader | None) -> Reviewer:
    """The review. Without a reader other budgets of the namespace are not known."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation not in ("CREATE", "UPDATE") or request.subresource or is_on_its_way_out(request):
            return ALLOWED
        doc = request.object
        if doc is None:
            return AdmissionAnswer(refusal=bad_request("the request has no object"))
        spec, problem = _read(doc)
        if spec is None:
            return AdmissionAnswer(refusal=bad_request(problem))
        errors = [*metadata_errors(doc.get("metadata") or {}), *await _errors(request, doc, spec, reader)]
        if errors:
            name = (doc.get("metadata") or {}).get("name") or request.name
            return AdmissionAnswer(refusal=refusal(POD_UNAVAILABLE_BUDGETS, name, errors))
        return ALLOWED

    return review


async def _errors(
    request: AdmissionRequest, doc: Document, spec: PodUnavailableBudgetSpec, reader: BudgetReader | None
) -> list[Cause]:
    old = request.old_object
    # What is stored already must not keep its finalizers or labels from being changed.
    if old is not None and same(doc.get("spec"), old.get("spec")) and _annotations(doc) == _annotations(old):
        return []
    others: list[BudgetView] = []
    try:
        if reader is not None:
            found = await reader.in_namespace(request.namespace)
            name = (doc.get("metadata") or {}).get("name") or request.name
            others = [one for one in found if one.name != name]
    except KubeError as error:
        problem = internal_error("", f"the other PodUnavailableBudgets cannot be read: {error}")
        return [*errors_of(doc, spec, old=old), problem]
    return errors_of(doc, spec, old=old, others=others)


def _annotations(doc: Mapping[str, Any]) -> Mapping[str, Any]:
    return (doc.get("metadata") or {}).get("annotations") or {}


def _read(doc: Mapping[str, Any]) -> tuple[PodUnavailableBudgetSpec | None, str]:
    given = doc.get("spec")
    if given is not None and not isinstance(given, Mapping):
        return None, f"spec: Expected `object`, got `{type(given).__name__}`"
    return read(given or {}, PodUnavailableBudgetSpec, path="spec")
