"""WorkloadSpread's admission review, as a function that a webhook server or a sandbox calls.

AdmissionRequest ──▶ build_validating_review() ──▶ allowed, or 422 with every field error; 403: its gate is off

Only v1beta1 is reviewed: writes in v1alpha1 are converted first. There are no defaults, so there is no mutating
review.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pykruise.kinds.workloadspread.readers import SpreadReader
from pykruise.kinds.workloadspread.targets import BUILT_IN
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, WorkloadSpreadSpec
from pykruise.kinds.workloadspread.validation import SpreadSurroundings, errors_of
from pykruise.kinds.workloadspread.view import read_spec, target_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause, KubeError
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.pods.workload.admission import SpecReviews, name_of
from pykruise.pods.workload.allowed_workloads import WhiteList, WhiteListError
from pykruise.pods.workload.validation import find_metadata_errors


def build_validating_review(reader: SpreadReader | None) -> Reviewer:
    """Create the review. Without a reader, the review checks only the object itself."""

    async def errors(request: AdmissionRequest, doc: Document, spec: WorkloadSpreadSpec) -> list[Cause]:
        around, problems = await _read_surroundings(reader, request, spec)
        causes = [*find_metadata_errors(doc.get("metadata") or {}), *problems]
        given, stored = doc.get("spec") or {}, (request.old_object or {}).get("spec")
        # Errors in a stored spec must not block changes of the object's finalizers or labels.
        if request.old_object is None or not is_same(doc.get("spec"), stored):
            old = _parse_spec(stored or {})[0] if request.old_object is not None else None
            causes += errors_of(spec, around, has_target=given.get("targetRef") is not None, old=old)
            causes += _find_patch_type_errors(given)
        return causes

    return _REVIEWS.build_judging_review(errors)


def _parse_spec(given: Mapping[str, Any]) -> tuple[WorkloadSpreadSpec | None, str]:
    """Parse the spec, or return None and the problem. Missing fields of targetRef do not count as a problem, because
    they are reported as field errors.
    """
    filled: Document = {
        **given,
        "subsets": _with_readable_patches(given.get("subsets") or []),
        "targetRef": given.get("targetRef") or {},
    }
    if isinstance(filled["targetRef"], Mapping):
        filled["targetRef"] = {"apiVersion": "", "kind": "", "name": "", **filled["targetRef"]}
    return read_spec(filled)


_REVIEWS: Final = SpecReviews[WorkloadSpreadSpec](
    resource=WORKLOAD_SPREADS,
    versions=(WORKLOAD_SPREADS.version,),
    read_spec=_parse_spec,
    placeholders=(),
)


def _with_readable_patches(subsets: Any) -> Any:
    """Return the subsets, but leave out each patch that is not an object: `_find_patch_type_errors` reports
    these patches.
    """
    if not isinstance(subsets, list):
        return subsets
    return [{**subset, "patch": None} if _has_odd_patch(subset) else subset for subset in subsets]


def _has_odd_patch(subset: Any) -> bool:
    patch = subset.get("patch") if isinstance(subset, Mapping) else None
    return patch is not None and not isinstance(patch, Mapping)


def _find_patch_type_errors(spec: Mapping[str, Any]) -> Iterator[Cause]:
    """Errors of patches that are not objects. The schema accepts any value, but only an object can be
    applied to a pod.
    """
    for index, subset in enumerate(spec.get("subsets") or ()):
        if _has_odd_patch(subset):
            detail = "must be an object: a strategic merge patch of the pod template"
            yield make_invalid_error(f"spec.subsets[{index}].patch", subset["patch"], detail)


async def _read_surroundings(
    reader: SpreadReader | None, request: AdmissionRequest, spec: WorkloadSpreadSpec
) -> tuple[SpreadSurroundings, list[Cause]]:
    """Read the facts that the checks need, and return the errors for facts that cannot be read."""
    target = target_of(spec)
    if reader is None or target is None:
        return SpreadSurroundings(), []
    namespace, name = request.namespace, name_of(request)
    white_list, problem = WhiteList(), ""
    try:
        if target[0] not in BUILT_IN:
            white_list = await reader.read_white_list()
    except (WhiteListError, KubeError) as error:
        problem = f"the white list cannot be read: {error}"
    try:
        spreads = await reader.list_spreads(namespace)
    except KubeError as error:
        text = f"Internal error: the other WorkloadSpreads cannot be read: {error}"
        return SpreadSurroundings(), [Cause(reason="InternalError", message=text, field="<nil>")]
    others = {spread.name: spread.target for spread in spreads if spread.name != name}
    document: Document | None = None
    if target[0] in BUILT_IN and any(subset.patch is not None for subset in spec.subsets):
        with suppress(KubeError):  # a patch cannot be tried on a workload that cannot be read
            document = await reader.read(target[0], namespace, target[1])
    return SpreadSurroundings(
        white_list=white_list, white_list_problem=problem, others=others, target=document
    ), []
