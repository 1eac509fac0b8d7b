"""ImageListPullJob's two admission reviews.

AdmissionRequest ──▶ mutate_imagelistpulljob ──▶ the object with its defaults
                 ──▶ validate_imagelistpulljob ──▶ allowed, or rejected (422) with every field error

v1alpha1 and v1beta1 have the same fields, so both versions use the same reviews.
"""

from typing import Final

from pykruise.kinds.imagelistpulljob.defaults import add_defaults
from pykruise.kinds.imagelistpulljob.snapshot import read_spec
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS, ImageListPullJobSpec
from pykruise.kinds.imagelistpulljob.validation import errors_of
from pykruise.kube.admission import Reviewer
from pykruise.pods.jobs.ended_changes import warnings_of_ended_job
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[ImageListPullJobSpec](
    resource=IMAGE_LIST_PULL_JOBS,
    versions=("v1alpha1", "v1beta1"),
    # A spec without images is readable: the validation reports a field error.
    read_spec=lambda spec: read_spec({"images": [], **spec}),
    placeholders=("completionPolicy",),
)

mutate_imagelistpulljob: Final[Reviewer] = _REVIEWS.build_mutating_review(lambda _, doc: add_defaults(doc))

validate_imagelistpulljob: Final[Reviewer] = _REVIEWS.build_validating_review(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object),
    warnings_of_change=warnings_of_ended_job,
)
