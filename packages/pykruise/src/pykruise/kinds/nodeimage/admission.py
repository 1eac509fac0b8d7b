"""NodeImage's two admission reviews.

AdmissionRequest ──▶ build_mutating_review(clock) ──▶ the object with its defaults
                 ──▶ validate_nodeimage()         ──▶ allowed, or rejected (422) with every field error

Both versions use the same reviews. v1alpha1 has one field less, but no rule depends on this field.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.nodeimage.defaults import add_defaults
from pykruise.kinds.nodeimage.validation import errors_of
from pykruise.kube.admission import AdmissionRequest, Reviewer
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.schemas.typed_documents import read
from pykruise.pods.images.node_image_api import NODE_IMAGES, NodeImageSpec
from pykruise.pods.workload.admission import SpecReviews


def _read_spec(spec: Mapping[str, Any]) -> tuple[NodeImageSpec | None, str]:
    return read(spec, NodeImageSpec, path="spec")


_REVIEWS: Final = SpecReviews[NodeImageSpec](
    resource=NODE_IMAGES, versions=("v1alpha1", "v1beta1"), read_spec=_read_spec, placeholders=()
)


def build_mutating_review(clock: Clock) -> Reviewer:
    """Return the mutating review. Entries without a creation time get the time of `clock`."""
    return _REVIEWS.build_mutating_review(lambda _, doc: add_defaults(doc, now=clock()))


def _find_errors(request: AdmissionRequest, doc: Document, spec: NodeImageSpec) -> list[Cause]:
    """Find the errors of a new or changed spec: an unchanged stored spec is not checked again."""
    old = request.old_object
    return [] if old is not None and is_same(doc.get("spec"), old.get("spec")) else errors_of(spec)


validate_nodeimage: Final[Reviewer] = _REVIEWS.build_validating_review(_find_errors)
