"""How long a refused resize is waited for."""

import pytest

from pykruise.kube.clock import Instant
from pykruise.kube.schemas.types import PlainCondition
from pykruise.plans.failed_resizes import refused_since, without_other_cause
from pykruise.pods.reasons import Code
from pykruise.pods.workload.waiting import WAITING, with_condition
from pykruise.runtime.reasons import Reason

REFUSED = Reason(Code.RESIZE_REFUSED, "no room")


def written(*reasons: tuple[float, Reason]) -> list[PlainCondition]:
    """The conditions after these failures, each at its time."""
    conditions: list[PlainCondition] = []
    for at, reason in reasons:
        old = without_other_cause(conditions, WAITING, reason)
        conditions = with_condition(old, WAITING, reason=reason.code, message=reason.message, now=Instant(at))
    return conditions


@pytest.mark.parametrize(
    ("failures", "since"),
    [
        ([(10, REFUSED), (20, REFUSED)], 10),
        ([(10, Reason(Code.QUOTA, "used up")), (20, REFUSED), (30, REFUSED)], 20),
        ([(10, REFUSED), (20, Reason(Code.QUOTA, "used up"))], None),
        ([(10, REFUSED), (20, Reason(Code.QUOTA, "used up")), (30, REFUSED)], 30),
        ([], None),
    ],
)
def test_the_patience_counts_from_the_first_refusal_whatever_failed_before(
    failures: list[tuple[float, Reason]], since: float | None
) -> None:
    assert refused_since(written(*failures), WAITING) == since
