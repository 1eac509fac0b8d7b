"""ImagePullJob's two admission reviews.

AdmissionRequest ──▶ mutate_imagepulljob ──▶ the object with its defaults
                 ──▶ validate_imagepulljob ──▶ allowed, or refused (422) with every field error

Both versions are reviewed alike: their fields are the same.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.imagepulljob.defaults import with_defaults
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.imagepulljob.validation import errors_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.typed_documents import read
from pykruise.pods.image_api import ImagePullJobSpec
from pykruise.pods.workload_admission import Reviews

__all__ = ["mutate_imagepulljob", "validate_imagepulljob"]

_OLDER: Final = "v1alpha1"


def _read_spec(spec: Mapping[str, Any]) -> tuple[ImagePullJobSpec | None, str]:
    return read(spec, ImagePullJobSpec, path="spec")


_REVIEWS: Final = Reviews[ImagePullJobSpec](
    resource=IMAGE_PULL_JOBS,
    versions=(_OLDER, IMAGE_PULL_JOBS.version),
    read_spec=_read_spec,
    placeholders=("completionPolicy",),
)


def _is_held(request: AdmissionRequest) -> bool:
    """Whether the finalizer is added. Rule: the original's, of the older version only."""
    return request.operation == "CREATE" and request.resource.version == _OLDER


mutate_imagepulljob: Final[Reviewer] = _REVIEWS.mutating(
    lambda request, doc: with_defaults(doc, held=_is_held(request))
)

validate_imagepulljob: Final[Reviewer] = _REVIEWS.validating(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object)
)
