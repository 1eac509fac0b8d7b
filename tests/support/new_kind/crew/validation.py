"""Field errors of a Crew.

spec ──▶ errors_of() ──▶ admission.py; kind.py, for what is stored

Pure.
"""

from pykruise.kinds.crew.types import CrewSpec
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.pod_rules.field_rules import check_not_negative

__all__ = ["errors_of"]


def errors_of(spec: CrewSpec, *, largest: int | None = None) -> list[Cause]:
    """All errors. `largest`: the maximum size of a new Crew; None: a stored Crew may have any size."""
    if largest is not None and spec.size > largest:
        return [make_invalid_error("spec.size", spec.size, f"must be from 0 to {largest}")]
    return [*check_not_negative(spec.size, "spec.size")]
