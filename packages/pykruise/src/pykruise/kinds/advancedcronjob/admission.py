"""AdvancedCronJob's two admission reviews.

AdmissionRequest ──▶ mutating()         ──▶ the object with its defaults
                 ──▶ validate_cronjob() ──▶ allowed, or refused (422) with every field error

Both versions are reviewed alike: their fields are the same.
"""

from typing import Final

from pykruise.kinds.advancedcronjob.changes import with_change
from pykruise.kinds.advancedcronjob.defaults import with_defaults
from pykruise.kinds.advancedcronjob.snapshot import PARTS, read_spec
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS, AdvancedCronJobSpec
from pykruise.kinds.advancedcronjob.validation import errors_of, warnings_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.documents import Document
from pykruise.pods.template_defaults import DefaultingSettings
from pykruise.pods.workload_admission import Reviews

__all__ = ["mutating", "validate_cronjob"]

_REVIEWS: Final = Reviews[AdvancedCronJobSpec](
    resource=ADVANCED_CRON_JOBS,
    versions=("v1alpha1", "v1beta1"),
    read_spec=read_spec,
    placeholders=("template",),
    parts=PARTS,
)


def mutating(settings: DefaultingSettings, clock: Clock = system_clock) -> Reviewer:
    """The mutating review under these settings. `clock` says when a schedule has changed."""

    def complete(request: AdmissionRequest, doc: Document) -> Document:
        found = with_defaults(doc, old=request.old_object, settings=settings)
        return with_change(found, request.old_object, now=clock())

    return _REVIEWS.mutating(complete)


validate_cronjob: Final[Reviewer] = _REVIEWS.validating(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object), warnings_of=warnings_of
)
