"""DaemonSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_daemonset()   ──▶ the object with its defaults
                 ──▶ validate_daemonset() ──▶ allowed, or refused (422) with every field error

Pure but for their shape (`async`, as all reviewers). Both versions are reviewed as they are given: they differ
in nothing that has a rule but the type Surging. Any other version is refused with 400.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.daemonset.defaults import with_defaults
from pykruise.kinds.daemonset.snapshot import read_spec
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec
from pykruise.kinds.daemonset.validation import errors_of
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest
from pykruise.kube.documents import same
from pykruise.kube.errors import Status
from pykruise.kube.field_errors import bad_request, refusal
from pykruise.pods.workload_validation import is_on_its_way_out

__all__ = ["mutate_daemonset", "validate_daemonset"]

VERSIONS: Final = ("v1alpha1", "v1beta1")


async def mutate_daemonset(request: AdmissionRequest) -> AdmissionAnswer:
    """The mutating review. What is on its way out is left as it is."""
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return ALLOWED
    if problem := _unreadable(request):
        return AdmissionAnswer(refusal=problem)
    assert request.object is not None
    if is_on_its_way_out(request.object):
        return ALLOWED
    found = with_defaults(request.object)
    return ALLOWED if same(found, request.object) else AdmissionAnswer(object=found)


async def validate_daemonset(request: AdmissionRequest) -> AdmissionAnswer:
    """The validating review. Deletions are allowed here."""
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return ALLOWED
    if problem := _unreadable(request):
        return AdmissionAnswer(refusal=problem)
    assert request.object is not None
    spec = _read(request.object)
    assert isinstance(spec, DaemonSetSpec)
    errors = errors_of(request.object, spec, old=request.old_object)
    if errors:
        name = (request.object.get("metadata") or {}).get("name") or request.name
        return AdmissionAnswer(refusal=refusal(DAEMON_SETS, name, errors))
    return ALLOWED


def _unreadable(request: AdmissionRequest) -> Status | None:
    """The 400 for an object that cannot be read as a DaemonSet."""
    resource = request.resource
    if resource.group != DAEMON_SETS.group or resource.version not in VERSIONS:
        return bad_request(f"{resource.api_version} {resource.kind} is not reviewed here")
    if request.object is None:
        return bad_request("the request has no object")
    found = _read(request.object)
    return bad_request(found) if isinstance(found, str) else None


def _read(doc: Mapping[str, Any]) -> DaemonSetSpec | str:
    """The typed spec, with placeholders for what validation reports as missing; or what is wrong with it."""
    given = doc.get("spec")
    if given is not None and not isinstance(given, Mapping):
        return f"spec: Expected `object`, got `{type(given).__name__}`"
    spec, problem = read_spec({**(given or {}), **_placeholders(given or {})})
    return spec if spec is not None else problem


def _placeholders(given: Mapping[str, Any]) -> dict[str, Any]:
    return {field: {} for field in ("selector", "template") if given.get(field) is None}
