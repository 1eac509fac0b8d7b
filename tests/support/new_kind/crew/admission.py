"""Crew's reviews: the size must not exceed the manager's limit.

AdmissionRequest ──▶ validating(settings)() ──▶ allowed, or refused (422) with every field error
"""

from typing import Final

from pykruise.kinds.crew.snapshot import Settings, read_spec
from pykruise.kinds.crew.types import CREWS, CrewSpec
from pykruise.kinds.crew.validation import errors_of
from pykruise.kube.admission import Reviewer
from pykruise.pods.workload.admission import SpecReviews

__all__ = ["validating"]

_REVIEWS: Final = SpecReviews[CrewSpec](
    resource=CREWS, versions=(CREWS.version,), read_spec=read_spec, placeholders=("template",)
)


def validating(settings: Settings) -> Reviewer:
    """The validating review under these settings."""
    return _REVIEWS.build_validating_review(
        lambda _request, _doc, spec: errors_of(spec, largest=settings.largest)
    )
