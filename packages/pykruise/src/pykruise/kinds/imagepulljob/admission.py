"""ImagePullJob's two admission reviews.

AdmissionRequest ──▶ mutate_imagepulljob ──▶ the object with its defaults
                 ──▶ validate_imagepulljob ──▶ allowed, or rejected (422) with every field error

v1alpha1 and v1beta1 have the same fields, so both versions use the same reviews.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.imagepulljob.defaults import add_defaults
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.imagepulljob.validation import errors_of
from pykruise.kube.admission import Reviewer
from pykruise.kube.schemas.typed_documents import read
from pykruise.pods.images.api import ImagePullJobSpec
from pykruise.pods.jobs.ended_changes import warnings_of_ended_job
from pykruise.pods.workload.admission import SpecReviews


def _read_spec(spec: Mapping[str, Any]) -> tuple[ImagePullJobSpec | None, str]:
    # A spec without an image is readable: the validation reports a field error.
    return read({"image": "", **spec}, ImagePullJobSpec, path="spec")


_REVIEWS: Final = SpecReviews[ImagePullJobSpec](
    resource=IMAGE_PULL_JOBS,
    versions=("v1alpha1", "v1beta1"),
    read_spec=_read_spec,
    placeholders=("completionPolicy",),
)


mutate_imagepulljob: Final[Reviewer] = _REVIEWS.build_mutating_review(lambda _, doc: add_defaults(doc))

validate_imagepulljob: Final[Reviewer] = _REVIEWS.build_validating_review(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object),
    warnings_of_change=warnings_of_ended_job,
)
