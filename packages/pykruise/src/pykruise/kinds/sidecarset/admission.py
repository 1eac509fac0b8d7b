"""SidecarSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_sidecarset()     ──▶ the object with its defaults and hashes
                 ──▶ validating(reader, …)() ──▶ allowed, or refused (422) with every field error

v1beta1 only; another version is refused with 400. Validation reads what the object refers to and may collide
with; without a reader it judges the object alone.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.sidecarset.contents import contents_of
from pykruise.kinds.sidecarset.defaults import with_defaults
from pykruise.kinds.sidecarset.facts import Facts, SidecarReader
from pykruise.kinds.sidecarset.types import SIDECAR_SETS, SidecarSetSpec
from pykruise.kinds.sidecarset.validation import errors_of
from pykruise.kinds.sidecarset.view import read_spec
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_on_its_way_out
from pykruise.kube.documents import same
from pykruise.kube.errors import KubeError, Status
from pykruise.kube.field_errors import bad_request, refusal

__all__ = ["mutate_sidecarset", "validating"]


async def mutate_sidecarset(request: AdmissionRequest) -> AdmissionAnswer:
    """The mutating review. The hashes are written anew, whatever the client sent."""
    if not _is_reviewed(request):
        return ALLOWED
    if problem := _unreadable(request):
        return AdmissionAnswer(refusal=problem)
    assert request.object is not None
    found = with_defaults(request.object)
    return ALLOWED if same(found, request.object) else AdmissionAnswer(object=found)


def validating(reader: SidecarReader | None, *, allows_any_annotation: bool) -> Reviewer:
    """The validating review; `allows_any_annotation` is the gate SidecarSetPatchPodMetadataDefaultsAllowed."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if not _is_reviewed(request):
            return ALLOWED
        if problem := _unreadable(request):
            return AdmissionAnswer(refusal=problem)
        assert request.object is not None
        spec = _read(request.object)
        assert isinstance(spec, SidecarSetSpec)
        name = (request.object.get("metadata") or {}).get("name") or request.name
        try:
            facts = await _facts(reader, name, spec, allows_any_annotation=allows_any_annotation)
        except KubeError as error:
            return AdmissionAnswer(refusal=_unavailable(error))
        errors = errors_of(request.object, spec, facts=facts, old=request.old_object)
        return AdmissionAnswer(refusal=refusal(SIDECAR_SETS, name, errors)) if errors else ALLOWED

    return review


async def _facts(
    reader: SidecarReader | None, name: str, spec: SidecarSetSpec, *, allows_any_annotation: bool
) -> Facts:
    """What this SidecarSet can be judged by; only what it needs is read."""
    if reader is None:
        return Facts(allows_any_annotation=allows_any_annotation)
    whitelist: str | None = None
    problem = ""
    if spec.patch_pod_metadata:
        try:
            whitelist = await reader.whitelist()
        except KubeError as error:
            problem = f"the whitelist cannot be read: {error}"
    asks_revision = spec.injection_strategy is not None and spec.injection_strategy.revision is not None
    return Facts(
        others=await reader.sidecar_sets(),
        revisions=await reader.revisions(name) if asks_revision else (),
        whitelist=whitelist,
        whitelist_problem=problem,
        allows_any_annotation=allows_any_annotation,
    )


def _unavailable(error: KubeError) -> Status:
    text = f"what the SidecarSet has to be compared with cannot be read: {error}"
    return Status(status="Failure", message=text, reason="InternalError", code=500)


def _is_reviewed(request: AdmissionRequest) -> bool:
    wanted = request.operation in ("CREATE", "UPDATE") and not request.subresource
    return wanted and not is_on_its_way_out(request)


def _unreadable(request: AdmissionRequest) -> Status | None:
    """The 400 for an object that cannot be read as a SidecarSet."""
    resource = request.resource
    if (resource.group, resource.version) != (SIDECAR_SETS.group, SIDECAR_SETS.version):
        return bad_request(f"{resource.api_version} {resource.kind} is not reviewed here")
    if request.object is None:
        return bad_request("the request has no object")
    found = _read(request.object)
    return bad_request(found) if isinstance(found, str) else None


def _read(doc: Mapping[str, Any]) -> SidecarSetSpec | str:
    """The typed spec, its sidecars readable too; or what is wrong with it."""
    given = doc.get("spec")
    if given is not None and not isinstance(given, Mapping):
        return f"spec: Expected `object`, got `{type(given).__name__}`"
    spec, problem = read_spec(given or {})
    if spec is None:
        return problem
    contents, problem = contents_of(given or {})
    return spec if contents is not None else problem
