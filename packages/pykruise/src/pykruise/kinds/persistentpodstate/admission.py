"""PersistentPodState's admission review.

AdmissionRequest ──▶ build_validating_review(reader) ──▶ allowed, or rejected with every field error

Only v1beta1 is reviewed, because writes in v1alpha1 are converted first. Rejections have code 400, as in OpenKruise.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.kinds.persistentpodstate.readers import StateReader
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES, PersistentPodStateSpec
from pykruise.kinds.persistentpodstate.validation import errors_of
from pykruise.kinds.persistentpodstate.view import read_spec
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.pod_rules.field_errors import build_bad_request, build_refusal
from pykruise.kube.values.group_kinds import group_kind
from pykruise.pods.workload.admission import name_of
from pykruise.pods.workload.allowed_workloads import WhiteListError


def build_validating_review(reader: StateReader | None) -> Reviewer:
    """Return the validating review. Without a reader it checks only the object itself, and allows every kind of
    workload.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if not is_reviewed_write(request):
            return ALLOWED
        if request.object is None:
            return AdmissionAnswer(refusal=build_bad_request("the request has no object"))
        old_spec = request.old_object.get("spec") if request.old_object is not None else None
        if request.old_object is not None and is_same(request.object.get("spec"), old_spec):
            return ALLOWED
        spec, problem = _read(request.object.get("spec"))
        if spec is None:
            return AdmissionAnswer(refusal=build_bad_request(problem))
        return await _validate(request, spec, reader)

    return review


async def _validate(
    request: AdmissionRequest, spec: PersistentPodStateSpec, reader: StateReader | None
) -> AdmissionAnswer:
    name = name_of(request)
    old = _read(request.old_object.get("spec"))[0] if request.old_object is not None else None
    kind = group_kind(spec.target_ref.api_version, spec.target_ref.kind)
    try:
        is_supported = reader is None or await reader.is_supported(kind)
        others = await reader.list_states(request.namespace) if reader is not None else ()
    except (WhiteListError, KubeError) as error:
        return _make_refusal(
            name,
            [
                _make_internal_error(
                    f"the objects that the PersistentPodState refers to cannot be read: {error}"
                )
            ],
        )
    errors = errors_of(spec, name=name, others=others, is_supported=is_supported, old=old)
    return _make_refusal(name, errors) if errors else ALLOWED


def _make_internal_error(text: str) -> Cause:
    return Cause(reason="InternalError", message=f"Internal error: {text}", field="<nil>")


def _make_refusal(name: str, errors: list[Cause]) -> AdmissionAnswer:
    whole = build_refusal(PERSISTENT_POD_STATES, name, errors)
    return AdmissionAnswer(refusal=msgspec.structs.replace(whole, code=400, reason="BadRequest"))


def _read(given: Any) -> tuple[PersistentPodStateSpec | None, str]:
    """Return the typed spec, or None and the problem. If a field of targetRef is missing, it is empty in the result, so
    that the validation reports a field error.
    """
    if given is not None and not isinstance(given, Mapping):
        return None, f"spec: Expected `object`, got `{type(given).__name__}`"
    result = dict(given or {})
    ref = result.get("targetRef") or {}
    if isinstance(ref, Mapping):
        result["targetRef"] = {"apiVersion": "", "kind": "", "name": "", **ref}
    return read_spec(result)
