"""CloneSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_cloneset()   ──▶ the object with its defaults
                 ──▶ validate_cloneset() ──▶ allowed, or refused (422) with every field error

v1beta1 only; another version is refused with 400.
"""

from typing import Final

from pykruise.kinds.cloneset.defaults import with_defaults
from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec
from pykruise.kinds.cloneset.validation import errors_of, warnings_of
from pykruise.kube.admission import Reviewer
from pykruise.pods.open_parts import TEMPLATES
from pykruise.pods.template_defaults import WorkloadDefaulting
from pykruise.pods.workload_admission import Reviews

__all__ = ["mutate_cloneset", "mutating", "validate_cloneset"]

_REVIEWS: Final = Reviews[CloneSetSpec](
    resource=CLONE_SETS, versions=(CLONE_SETS.version,), read_spec=read_spec, parts=TEMPLATES
)


def mutating(settings: WorkloadDefaulting) -> Reviewer:
    """The mutating review under these settings."""
    return _REVIEWS.mutating(
        lambda request, doc: with_defaults(doc, old=request.old_object, settings=settings)
    )


mutate_cloneset: Final = mutating(WorkloadDefaulting())
"""The mutating review with default settings."""

validate_cloneset: Final[Reviewer] = _REVIEWS.validating(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object),
    warnings_of=lambda _, spec: warnings_of(spec),
)
