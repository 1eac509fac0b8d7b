"""DaemonSet's two admission reviews, as functions that a webhook server or a sandbox calls.

AdmissionRequest ──▶ mutate_daemonset()   ──▶ the object with its defaults
                 ──▶ validate_daemonset() ──▶ allowed, or refused (422) with every field error

Both versions are reviewed as they are given: they differ in nothing that has a rule but the type Surging.
"""

from typing import Final

from pykruise.kinds.daemonset.defaults import with_defaults
from pykruise.kinds.daemonset.snapshot import read_spec
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec
from pykruise.kinds.daemonset.validation import errors_of
from pykruise.kube.admission import Reviewer
from pykruise.pods.open_parts import TEMPLATE
from pykruise.pods.workload_admission import Reviews

__all__ = ["mutate_daemonset", "validate_daemonset"]

_REVIEWS: Final = Reviews[DaemonSetSpec](
    resource=DAEMON_SETS, versions=("v1alpha1", "v1beta1"), read_spec=read_spec, parts=TEMPLATE
)

mutate_daemonset: Final[Reviewer] = _REVIEWS.mutating(lambda _, doc: with_defaults(doc))

validate_daemonset: Final[Reviewer] = _REVIEWS.validating(
    lambda request, doc, spec: errors_of(doc, spec, old=request.old_object)
)
