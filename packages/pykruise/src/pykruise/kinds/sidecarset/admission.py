"""SidecarSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_sidecarset()                    ──▶ the object with its defaults and hashes
                 ──▶ build_validating_review(reader, …)()   ──▶ allowed, or rejected (422) with every field error

Only v1beta1 is reviewed: writes in v1alpha1 are converted first (admission/hub_version.py). Validation reads the
objects to which the SidecarSet refers and with which it may conflict. Without a reader, validation checks only the
object itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.admission_facts import SidecarReader, SidecarSetFacts
from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.sidecar_contents import contents_of
from pykruise.kinds.sidecarset.types import SIDECAR_SETS, SidecarSetSpec
from pykruise.kinds.sidecarset.validation import errors_of
from pykruise.kinds.sidecarset.view import PARTS, read_spec
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause, KubeError
from pykruise.pods.workload.admission import SpecReviews, name_of


def _read(given: Mapping[str, Any]) -> tuple[SidecarSetSpec | None, str]:
    """Return the typed spec with readable sidecars, or None and the problem."""
    spec, problem = read_spec(given)
    if spec is None:
        return None, problem
    contents, problem = contents_of(given)
    return (spec, "") if contents is not None else (None, problem)


_REVIEWS: Final = SpecReviews[SidecarSetSpec](
    resource=SIDECAR_SETS,
    versions=(SIDECAR_SETS.version,),
    read_spec=_read,
    placeholders=(),
    parts=PARTS,
)

mutate_sidecarset: Final = _REVIEWS.build_mutating_review(lambda _, doc: add_defaults(doc))
"""The mutating review. It always computes the hashes, even if the client sent hashes."""


def build_validating_review(reader: SidecarReader | None, *, allows_any_annotation: bool) -> Reviewer:
    """The validating review; `allows_any_annotation` is the gate SidecarSetPatchPodMetadataDefaultsAllowed."""

    async def errors(request: AdmissionRequest, doc: Document, spec: SidecarSetSpec) -> Sequence[Cause]:
        facts = await _read_facts(reader, name_of(request), spec, allows_any_annotation=allows_any_annotation)
        return errors_of(doc, spec, facts=facts, old=request.old_object)

    return _REVIEWS.build_judging_review(errors)


async def _read_facts(
    reader: SidecarReader | None, name: str, spec: SidecarSetSpec, *, allows_any_annotation: bool
) -> SidecarSetFacts:
    """Read the facts that this SidecarSet's validation needs."""
    if reader is None:
        return SidecarSetFacts(allows_any_annotation=allows_any_annotation)
    whitelist: str | None = None
    problem = ""
    if spec.patch_pod_metadata:
        try:
            whitelist = await reader.read_whitelist()
        except KubeError as error:
            problem = f"the whitelist cannot be read: {error}"
    return SidecarSetFacts(
        others=await reader.list_sidecar_sets(),
        revisions=await reader.list_revisions(name) if spec.revision_choice is not None else (),
        whitelist=whitelist,
        whitelist_problem=problem,
        allows_any_annotation=allows_any_annotation,
    )
