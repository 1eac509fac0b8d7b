"""ResourceDistribution's admission review.

AdmissionRequest ──▶ validating(trial) ──▶ allowed, or refused (422) with every field error
                          └── trial: could the resource be created? (a dry run in the manager's namespace)

v1beta1 only; another version is refused with 400.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS, ResourceDistributionSpec
from pykruise.kinds.resourcedistribution.validation import RESOURCE, errors_of
from pykruise.kinds.resourcedistribution.view import read_spec
from pykruise.kube.admission import AdmissionRequest, Reviewer, SpokeRules
from pykruise.kube.documents import Document
from pykruise.kube.errors import BadRequestError, Cause, ForbiddenError, InvalidError, KubeError
from pykruise.kube.pod_rules.field_errors import forbidden, internal_error, invalid_shown
from pykruise.plans.review import Trial
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[ResourceDistributionSpec](
    resource=RESOURCE_DISTRIBUTIONS,
    versions=(RESOURCE_DISTRIBUTIONS.version,),
    read_spec=read_spec,
    placeholders=("resource", "targets"),
)

_SELECTOR: Final = "spec.targets.namespaceSelector"


async def _no_further_errors(_: AdmissionRequest) -> Sequence[Cause]:
    return ()


SPOKE_RULES: Final = SpokeRules(
    errors=_no_further_errors,
    field_of=lambda field: "spec.targets.namespaceLabelSelector" if field == _SELECTOR else field,
)
"""v1alpha1 has the same rules; one field is called differently."""


def validating(trial: Trial | None = None) -> Reviewer:
    """The validating review. Without a trial, what only an API server can judge is not judged."""

    async def errors(request: AdmissionRequest, doc: Document, spec: ResourceDistributionSpec) -> list[Cause]:
        causes = errors_of(doc, spec, old=request.old_object)
        if trial is not None and all(cause.field != RESOURCE for cause in causes):
            wrong = await _tried(doc["spec"]["resource"], trial)
            causes += [wrong] if wrong is not None else []
        return causes

    return _REVIEWS.judging(errors)


async def _tried(resource: Document, trial: Trial) -> Cause | None:
    """Errors of the API server for the resource, from a dry run."""
    try:
        await trial(resource)
    except (InvalidError, BadRequestError) as error:
        return invalid_shown(RESOURCE, f'"{resource["kind"]}"', str(error))
    except ForbiddenError as error:
        return forbidden(RESOURCE, str(error))
    except KubeError as error:
        return internal_error(RESOURCE, f"whether it could be created is unknown: {error}")
    return None
