"""StatefulSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ build_mutating_review(settings) ──▶ the object with its defaults
                 ──▶ build_validating_review(…)      ──▶ allowed, or rejected (422) with every field error

Only v1beta1 is reviewed: writes in v1alpha1 are converted first (admission/hub_version.py). pods/workload/admission.py
contains the code that all workloads share. The check whether claims can follow changed templates reads the storage
classes.
"""

from typing import Final

from pykruise.kinds.statefulset.claim_rules import find_claim_errors
from pykruise.kinds.statefulset.defaults import StatefulSetDefaultingSettings, add_defaults
from pykruise.kinds.statefulset.snapshot import read_spec
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, StatefulSetSpec
from pykruise.kinds.statefulset.validation import errors_of, warnings_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.plans.pod_groups import find_gate_errors
from pykruise.plans.review import ClassLookup, RevisionLookup, managed_selector_of
from pykruise.pods.template.typed_parts import TEMPLATES
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[StatefulSetSpec](
    resource=ADVANCED_STATEFUL_SETS,
    versions=(ADVANCED_STATEFUL_SETS.version,),
    read_spec=read_spec,
    parts=TEMPLATES,
)


def build_mutating_review(settings: StatefulSetDefaultingSettings) -> Reviewer:
    """The mutating review under these settings."""
    return _REVIEWS.build_mutating_review(
        lambda request, doc: add_defaults(doc, old=request.old_object, settings=settings)
    )


def build_validating_review(
    *,
    resizes_claims: bool = False,
    classes: ClassLookup | None = None,
    revisions: RevisionLookup | None = None,
    group_problem: str = "",
) -> Reviewer:
    """The validating review.

    `resizes_claims`: whether the gate StatefulSetAutoResizePVCGate is on; `classes` then lists the storage classes.
    `revisions` finds the selector with which the pods are currently managed. `group_problem`: why the manager does not
    support gang-min-count; empty: it does.
    """

    async def errors(request: AdmissionRequest, doc: Document, spec: StatefulSetSpec) -> list[Cause]:
        managed = await managed_selector_of(request, revisions)
        causes = errors_of(doc, spec, old=request.old_object, managed=managed)
        if resizes_claims and request.old_object is not None:
            causes += await find_claim_errors(spec, request.old_object, classes)
        return [*causes, *find_gate_errors(doc, old=request.old_object, problem=group_problem)]

    return _REVIEWS.build_judging_review(errors, warnings_of=warnings_of)
