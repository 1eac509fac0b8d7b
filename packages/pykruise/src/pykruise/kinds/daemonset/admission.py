"""The two admission reviews of a DaemonSet, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_daemonset()   ──▶ the object with its defaults
                 ──▶ validate_daemonset() ──▶ allowed, or rejected (422) with every field error

The reviews accept both versions, but webhooks convert writes in v1alpha1 first (admission/hub_version.py). The only
difference for the rules is that v1alpha1 has the type Surging.
"""

from typing import Final

from pykruise.kinds.daemonset.defaults import add_defaults
from pykruise.kinds.daemonset.snapshot import read_spec
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec
from pykruise.kinds.daemonset.validation import errors_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.plans.review import RevisionLookup, managed_selector_of
from pykruise.pods.template.typed_parts import TEMPLATE
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[DaemonSetSpec](
    resource=DAEMON_SETS, versions=("v1alpha1", "v1beta1"), read_spec=read_spec, parts=TEMPLATE
)

mutate_daemonset: Final[Reviewer] = _REVIEWS.build_mutating_review(lambda _, doc: add_defaults(doc))


def build_validating_review(revisions: RevisionLookup | None) -> Reviewer:
    """Return the validating review.

    `revisions` finds the selector that the revisions record: a selector that was changed without admission can be
    changed back to it. Without `revisions`, the stored selector is immutable.
    """

    async def errors(request: AdmissionRequest, doc: Document, spec: DaemonSetSpec) -> list[Cause]:
        managed = await managed_selector_of(request, revisions)
        return errors_of(doc, spec, old=request.old_object, managed=managed)

    return _REVIEWS.build_judging_review(errors)


validate_daemonset: Final = build_validating_review(None)
"""The validating review without a lookup of revisions."""
