"""AdvancedCronJob's two admission reviews.

AdmissionRequest ──▶ build_mutating_review() ──▶ the object with its defaults
                 ──▶ validate_cronjob()      ──▶ allowed, or rejected (422) with every field error

v1alpha1 and v1beta1 have the same fields, so both versions use the same reviews.
"""

from typing import Final

from pykruise.kinds.advancedcronjob.changes import record_change
from pykruise.kinds.advancedcronjob.children import IMAGE_LIST_PULL_JOB, has_same_meaning
from pykruise.kinds.advancedcronjob.defaults import add_defaults
from pykruise.kinds.advancedcronjob.snapshot import PARTS, read_spec
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS, AdvancedCronJobSpec
from pykruise.kinds.advancedcronjob.validation import (
    errors_of,
    find_broadcast_job_errors,
    find_pull_job_errors,
    warnings_of,
)
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import Cause, ErrorStatus
from pykruise.kube.values.go_text import excerpt
from pykruise.plans.review import AccessLookup
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[AdvancedCronJobSpec](
    resource=ADVANCED_CRON_JOBS,
    versions=("v1alpha1", "v1beta1"),
    read_spec=read_spec,
    placeholders=("template",),
    parts=PARTS,
)


def build_mutating_review(settings: DefaultingSettings, clock: Clock) -> Reviewer:
    """Return the mutating review for these settings. It reads the time of a schedule change from `clock`."""

    def complete(request: AdmissionRequest, doc: Document) -> Document:
        result = add_defaults(doc, old=request.old_object, settings=settings)
        return record_change(result, request.old_object, now=clock())

    return _REVIEWS.build_mutating_review(complete)


def build_validating_review(access: AccessLookup | None) -> Reviewer:
    """Return the validating review. `access` looks up whether the user has permission to create ImageListPullJobs: no
    built-in role of Kubernetes grants it, and without this check a template would create them for any user.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await validate_cronjob(request)
        if access is None or answer.refusal is not None or not _has_new_pulls(request):
            return answer
        if await access(request, "create", IMAGE_LIST_PULL_JOB):
            return answer
        what = f"{IMAGE_LIST_PULL_JOB.plural}.{IMAGE_LIST_PULL_JOB.group}"
        message = (
            f"spec.template.imageListPullJobTemplate: Forbidden: user {excerpt(request.username)} cannot create {what}"
            f" in namespace {request.namespace}"
        )
        return AdmissionAnswer(
            refusal=ErrorStatus(status="Failure", message=message, reason="Forbidden", code=403)
        )

    return review


def _has_new_pulls(request: AdmissionRequest) -> bool:
    field = "imageListPullJobTemplate"
    new, old = (
        get_path(entry or {}, "spec", "template", field) for entry in (request.object, request.old_object)
    )
    return new is not None and not has_same_meaning(field, new, old)


def _find_errors(request: AdmissionRequest, doc: Document, spec: AdvancedCronJobSpec) -> list[Cause]:
    old = request.old_object
    return errors_of(doc, spec, old=old) or [
        *find_pull_job_errors(doc, old),
        *find_broadcast_job_errors(doc, old),
    ]


validate_cronjob: Final[Reviewer] = _REVIEWS.build_validating_review(_find_errors, warnings_of=warnings_of)
