"""Waiting times after refused resizes."""

import pytest

from pykruise.kube.clock import Instant
from pykruise.kube.schemas.types import PlainCondition
from pykruise.plans.failed_resizes import drop_other_causes, read_refused_since
from pykruise.pods.reasons import Code
from pykruise.pods.workload.waiting import WAITING, set_condition
from pykruise.runtime.reasons import Reason

REFUSED = Reason(Code.RESIZE_REFUSED, "no room")


def written(*reasons: tuple[float, Reason]) -> list[PlainCondition]:
    """The conditions after these failures, each at its time."""
    conditions: list[PlainCondition] = []
    for at, reason in reasons:
        old = drop_other_causes(conditions, WAITING, reason)
        conditions = set_condition(old, WAITING, reason=reason.code, message=reason.message, now=Instant(at))
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
def test_the_patience_counts_from_the_first_refused_resize_despite_other_failures(
    failures: list[tuple[float, Reason]], since: float | None
) -> None:
    assert read_refused_since(written(*failures), WAITING) == since
