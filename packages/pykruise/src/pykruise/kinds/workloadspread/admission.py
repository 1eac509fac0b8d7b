"""WorkloadSpread's admission review, as a function that a webhook server or a sandbox calls.

AdmissionRequest ──▶ validating(...) ──▶ allowed, or refused (422) with every field error; 403 with its gate off

v1beta1 only: writes in v1alpha1 are converted first. There are no defaults, so nothing mutates.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pykruise.kinds.workloadspread.readers import SpreadReader
from pykruise.kinds.workloadspread.targets import BUILT_IN
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, WorkloadSpreadSpec
from pykruise.kinds.workloadspread.validation import Surroundings, errors_of, target_of
from pykruise.kinds.workloadspread.view import RAW
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_on_its_way_out
from pykruise.kube.documents import Document, same
from pykruise.kube.errors import ApiError, Cause, KubeError
from pykruise.kube.field_errors import bad_request, invalid, refusal
from pykruise.kube.typed_documents import read
from pykruise.pods.white_list import WhiteList, WhiteListError
from pykruise.pods.workload_validation import metadata_errors

__all__ = ["validating"]


def validating(reader: SpreadReader | None) -> Reviewer:
    """The review. Without a reader nothing is known beside the object itself."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation not in ("CREATE", "UPDATE") or request.subresource:
            return ALLOWED
        if is_on_its_way_out(request):
            return ALLOWED
        if request.object is None:
            return AdmissionAnswer(refusal=bad_request("the request has no object"))
        spec, has_target, problem = _read(request.object)
        if spec is None:
            return AdmissionAnswer(refusal=bad_request(problem))
        old = _read(request.old_object)[0] if request.old_object is not None else None
        errors = list(metadata_errors(request.object.get("metadata") or {}))
        try:
            around = await _around(reader, request, spec)
        except _UnknownError as error:
            errors.append(error.cause)
            around = Surroundings()
        # What is stored already must not keep its finalizers or labels from being changed.
        if request.old_object is None or not same(request.object.get("spec"), request.old_object.get("spec")):
            errors += errors_of(spec, around, has_target=has_target, old=old)
            errors += _patch_type_errors(request.object)
        if errors:
            name = (request.object.get("metadata") or {}).get("name") or request.name
            return AdmissionAnswer(refusal=refusal(WORKLOAD_SPREADS, name, errors))
        return ALLOWED

    return review


class _UnknownError(Exception):
    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


def _read(doc: Mapping[str, Any]) -> tuple[WorkloadSpreadSpec | None, bool, str]:
    """The typed spec (None: it cannot be read), whether it has a targetRef, and what is wrong."""
    given = doc.get("spec")
    if given is not None and not isinstance(given, Mapping):
        return None, False, f"spec: Expected `object`, got `{type(given).__name__}`"
    given = given or {}
    has_target = given.get("targetRef") is not None
    filled: Document = {
        **given,
        "subsets": _with_readable_patches(given.get("subsets") or []),
        "targetRef": given.get("targetRef") or {},
    }
    if isinstance(filled["targetRef"], Mapping):
        # What is missing is a field error, not an object that cannot be read.
        filled["targetRef"] = {"apiVersion": "", "kind": "", "name": "", **filled["targetRef"]}
    spec, problem = read(filled, WorkloadSpreadSpec, path="spec", raw=RAW)
    return spec, has_target, problem


def _with_readable_patches(subsets: Any) -> Any:
    """The subsets; a patch that is no object is left out, since it is a field error (`_patch_type_errors`)."""
    if not isinstance(subsets, list):
        return subsets
    return [{**one, "patch": None} if _has_odd_patch(one) else one for one in subsets]


def _has_odd_patch(subset: Any) -> bool:
    patch = subset.get("patch") if isinstance(subset, Mapping) else None
    return patch is not None and not isinstance(patch, Mapping)


def _patch_type_errors(doc: Mapping[str, Any]) -> Iterator[Cause]:
    """Patches that are a string, a number, …: the schema lets any value pass, and no pod could be made of it."""
    for index, one in enumerate((doc.get("spec") or {}).get("subsets") or ()):
        if _has_odd_patch(one):
            detail = "must be an object: a strategic merge patch of the pod template"
            yield invalid(f"spec.subsets[{index}].patch", one["patch"], detail)


async def _around(
    reader: SpreadReader | None, request: AdmissionRequest, spec: WorkloadSpreadSpec
) -> Surroundings:
    target = target_of(spec)
    if reader is None or target is None:
        return Surroundings()
    namespace = request.namespace
    name = (request.object or {}).get("metadata", {}).get("name") or request.name
    white_list, problem = WhiteList(), ""
    try:
        if target[0] not in BUILT_IN:
            white_list = await reader.white_list()
    except (WhiteListError, KubeError) as error:
        problem = f"the white list cannot be read: {error}"
    try:
        spreads = await reader.spreads(namespace)
    except KubeError as error:
        text = f"Internal error: the other WorkloadSpreads cannot be read: {error}"
        raise _UnknownError(Cause(reason="InternalError", message=text, field="<nil>")) from error
    others = {one.name: one.target for one in spreads if one.name != name and one.target is not None}
    document: Document | None = None
    if target[0] in BUILT_IN and any(one.patch is not None for one in spec.subsets):
        try:
            document = await reader.read(target[0], namespace, target[1])
        except (ApiError, KubeError):
            document = None  # what cannot be read cannot be tried
    return Surroundings(white_list=white_list, white_list_problem=problem, others=others, target=document)
