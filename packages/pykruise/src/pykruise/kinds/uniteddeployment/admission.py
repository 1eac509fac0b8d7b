"""UnitedDeployment's two admission reviews.

AdmissionRequest ──▶ build_mutating_review()        ──▶ the object with its defaults
                 ──▶ validate_united() ──▶ allowed, or rejected (422) with every field error

The reviews check the hub version; an object in the older version is converted first.
"""

from typing import Final

from pykruise.kinds.uniteddeployment.defaults import add_defaults
from pykruise.kinds.uniteddeployment.snapshot import PARTS, read_spec
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS, UnitedDeploymentSpec
from pykruise.kinds.uniteddeployment.validation import errors_of, warnings_of
from pykruise.kube.admission import Reviewer
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[UnitedDeploymentSpec](
    resource=UNITED_DEPLOYMENTS,
    versions=(UNITED_DEPLOYMENTS.version,),
    read_spec=read_spec,
    placeholders=("selector",),
    parts=PARTS,
)


def build_mutating_review(settings: DefaultingSettings) -> Reviewer:
    """The mutating review under these settings."""
    return _REVIEWS.build_mutating_review(
        lambda request, doc: add_defaults(doc, old=request.old_object, settings=settings)
    )


validate_united: Final[Reviewer] = _REVIEWS.build_validating_review(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object),
    warnings_of=lambda _, spec: warnings_of(spec),
)
