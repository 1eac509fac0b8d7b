"""CloneSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_cloneset()   ──▶ the object with its defaults
                 ──▶ build_validating_review(…)()     ──▶ allowed, or rejected (422) with every field error

Only v1beta1 is reviewed: writes in v1alpha1 are converted first (admission/hub_version.py). v1alpha1_rules.py adds the
rules that only v1alpha1 has.
"""

from typing import Final

from pykruise.kinds.cloneset.defaults import add_defaults
from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec
from pykruise.kinds.cloneset.validation import errors_of, warnings_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.plans.pod_groups import find_gate_errors
from pykruise.plans.review import RevisionLookup, managed_selector_of
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.typed_parts import TEMPLATES
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[CloneSetSpec](
    resource=CLONE_SETS, versions=(CLONE_SETS.version,), read_spec=read_spec, parts=TEMPLATES
)


def build_mutating_review(settings: DefaultingSettings) -> Reviewer:
    """Return the mutating review for these settings."""
    return _REVIEWS.build_mutating_review(
        lambda request, doc: add_defaults(doc, old=request.old_object, settings=settings)
    )


mutate_cloneset: Final = build_mutating_review(DefaultingSettings())
"""The mutating review with default settings."""


def build_validating_review(revisions: RevisionLookup | None, *, group_problem: str = "") -> Reviewer:
    """Return the validating review. `revisions` finds the selector that the revisions record: a selector that was
    changed without admission can be changed back to it. Without `revisions`, the stored selector is immutable.
    `group_problem` is the reason why the manager does not support gang-min-count; it is empty if the manager supports
    it.
    """

    async def errors(request: AdmissionRequest, doc: Document, spec: CloneSetSpec) -> list[Cause]:
        managed = await managed_selector_of(request, revisions)
        errors = errors_of(doc, spec, old=request.old_object, managed=managed)
        return [*errors, *find_gate_errors(doc, old=request.old_object, problem=group_problem)]

    return _REVIEWS.build_judging_review(errors, warnings_of=warnings_of)


validate_cloneset: Final = build_validating_review(None)
"""The validating review without a lookup of revisions."""
