"""CloneSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_cloneset()   ──▶ the object with its defaults
                 ──▶ validate_cloneset() ──▶ allowed, or refused (422) with every field error

Pure but for their shape (`async`, as all reviewers). v1beta1 only; another version is refused with 400.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.cloneset.defaults import DefaultingSettings, with_defaults
from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec
from pykruise.kinds.cloneset.validation import errors_of, warnings_of
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_on_its_way_out
from pykruise.kube.documents import same
from pykruise.kube.errors import Status
from pykruise.kube.field_errors import bad_request, refusal

__all__ = ["mutate_cloneset", "mutating", "validate_cloneset"]


def mutating(settings: DefaultingSettings) -> Reviewer:
    """The mutating review under these settings."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if not _is_reviewed(request):
            return ALLOWED
        if problem := _unreadable(request):
            return AdmissionAnswer(refusal=problem)
        assert request.object is not None
        found = with_defaults(request.object, old=request.old_object, settings=settings)
        return ALLOWED if same(found, request.object) else AdmissionAnswer(object=found)

    return review


mutate_cloneset: Reviewer = mutating(DefaultingSettings())
"""The mutating review with default settings."""


async def validate_cloneset(request: AdmissionRequest) -> AdmissionAnswer:
    """The validating review. Deletions are allowed here, and so is what completes one."""
    if not _is_reviewed(request):
        return ALLOWED
    if problem := _unreadable(request):
        return AdmissionAnswer(refusal=problem)
    assert request.object is not None
    spec = _read(request.object)
    assert isinstance(spec, CloneSetSpec)
    errors = errors_of(request.object, spec, old=request.old_object)
    if errors:
        name = (request.object.get("metadata") or {}).get("name") or request.name
        return AdmissionAnswer(refusal=refusal(CLONE_SETS, name, errors))
    return AdmissionAnswer(warnings=tuple(warnings_of(spec)))


def _is_reviewed(request: AdmissionRequest) -> bool:
    wanted = request.operation in ("CREATE", "UPDATE") and not request.subresource
    return wanted and not is_on_its_way_out(request)


def _unreadable(request: AdmissionRequest) -> Status | None:
    """The 400 for an object that cannot be read as a CloneSet of this version."""
    resource = request.resource
    if (resource.group, resource.version) != (CLONE_SETS.group, CLONE_SETS.version):
        return bad_request(f"{resource.api_version} {resource.kind} is not reviewed here")
    if request.object is None:
        return bad_request("the request has no object")
    found = _read(request.object)
    return bad_request(found) if isinstance(found, str) else None


def _read(doc: Mapping[str, Any]) -> CloneSetSpec | str:
    """The typed spec, with placeholders for what validation reports as missing; or what is wrong with it."""
    given = doc.get("spec")
    if given is not None and not isinstance(given, Mapping):
        return f"spec: Expected `object`, got `{type(given).__name__}`"
    spec, problem = read_spec({**(given or {}), **_placeholders(given or {})})
    return spec if spec is not None else problem


def _placeholders(given: Mapping[str, Any]) -> dict[str, Any]:
    return {field: {} for field in ("selector", "template") if given.get(field) is None}
