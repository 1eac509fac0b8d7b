"""ResourceDistribution's admission review.

AdmissionRequest ──▶ build_validating_review(trial) ──▶ allowed, or rejected (422) with every field error
                     └── trial: a dry run in the manager's namespace that creates a new or changed resource

Only v1beta1 is reviewed: writes in v1alpha1 are converted first (admission/hub_version.py).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.kinds.resourcedistribution.targets import list_never_targets
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS, ResourceDistributionSpec
from pykruise.kinds.resourcedistribution.validation import RESOURCE, errors_of
from pykruise.kinds.resourcedistribution.view import names_of, read_spec
from pykruise.kube.admission import AdmissionRequest, Reviewer, SpokeRules
from pykruise.kube.documents import Document, get_path, is_same
from pykruise.kube.errors import BadRequestError, Cause, ForbiddenError, InvalidError, KubeError
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_internal_error,
    make_invalid_shown_error,
)
from pykruise.plans.review import Trial
from pykruise.pods.workload.admission import SpecReviews

_REVIEWS: Final = SpecReviews[ResourceDistributionSpec](
    resource=RESOURCE_DISTRIBUTIONS,
    versions=(RESOURCE_DISTRIBUTIONS.version,),
    read_spec=read_spec,
    placeholders=("resource", "targets"),
)

_SELECTOR: Final = "spec.targets.namespaceSelector"


async def _find_no_errors(_: AdmissionRequest) -> Sequence[Cause]:
    return ()


SPOKE_RULES: Final = SpokeRules(
    errors=_find_no_errors,
    field_of=lambda field: "spec.targets.namespaceLabelSelector" if field == _SELECTOR else field,
)
"""v1alpha1 has the same rules; one field has another name."""


def build_validating_review(trial: Trial | None = None) -> Reviewer:
    """Create the validating review. Without a trial, the review skips the checks that only an API server can make."""

    async def errors(request: AdmissionRequest, doc: Document, spec: ResourceDistributionSpec) -> list[Cause]:
        causes = errors_of(doc, spec, old=request.old_object)
        resource, stored = (get_path(entry, "spec", "resource") for entry in (doc, request.old_object))
        is_new = not is_same(resource, stored)
        if trial is not None and is_new and all(cause.field != RESOURCE for cause in causes):
            wrong = await _try_creation(resource, trial)
            causes += [wrong] if wrong is not None else []
        return causes

    return _REVIEWS.build_judging_review(errors, warnings_of=_find_warnings)


def _find_warnings(_: Document, spec: ResourceDistributionSpec) -> Iterator[str]:
    targets = spec.targets
    included, excluded = names_of(targets.included_namespaces), names_of(targets.excluded_namespaces)
    for name in list_never_targets(included, excluded):
        yield f"spec.targets.includedNamespaces: namespace {name} never receives a copy"


async def _try_creation(resource: Document, trial: Trial) -> Cause | None:
    """Create the resource as a dry run, and return the API server's error; None: the resource can be created."""
    try:
        await trial(resource)
    except (InvalidError, BadRequestError) as error:
        return make_invalid_shown_error(RESOURCE, f'"{resource["kind"]}"', str(error))
    except ForbiddenError as error:
        return make_forbidden_error(RESOURCE, str(error))
    except KubeError as error:
        return make_internal_error(RESOURCE, f"the dry run of the creation of the resource failed: {error}")
    return None
