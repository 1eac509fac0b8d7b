"""BroadcastJob's two admission reviews.

AdmissionRequest ──▶ build_mutating_review() ──▶ the object with its defaults
                 ──▶ build_validating_review() ──▶ allowed, or rejected (422) with every field error

v1alpha1 and v1beta1 have the same fields, so both versions use the same reviews.
"""

from typing import Final

from pykruise.kinds.broadcastjob.defaults import add_defaults
from pykruise.kinds.broadcastjob.snapshot import read_spec
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJobSpec
from pykruise.kinds.broadcastjob.validation import errors_of, warnings_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.plans.pod_groups import find_gate_errors
from pykruise.pods.jobs.ended_changes import warnings_of_ended_job
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.typed_parts import TEMPLATE
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[BroadcastJobSpec](
    resource=BROADCAST_JOBS,
    versions=("v1alpha1", "v1beta1"),
    read_spec=read_spec,
    parts=TEMPLATE,
    placeholders=("template",),
)


def build_mutating_review(settings: DefaultingSettings) -> Reviewer:
    """Return the mutating review for these settings."""
    return _REVIEWS.build_mutating_review(
        lambda request, doc: add_defaults(doc, old=request.old_object, settings=settings)
    )


def build_validating_review(*, group_problem: str = "") -> Reviewer:
    """Return the validating review. `group_problem` is the reason why the manager does not support gang-min-count; it
    is empty if the manager supports it.
    """

    def errors(request: AdmissionRequest, doc: Document, spec: BroadcastJobSpec) -> list[Cause]:
        causes = errors_of(doc, spec, old=request.old_object)
        return [*causes, *find_gate_errors(doc, old=request.old_object, problem=group_problem)]

    return _REVIEWS.build_validating_review(
        errors, warnings_of=lambda _, spec: warnings_of(spec), warnings_of_change=warnings_of_ended_job
    )


validate_broadcastjob: Final = build_validating_review()
"""The validating review of a manager that supports the option gang-min-count."""
