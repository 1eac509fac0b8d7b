"""Conditions of an EphemeralJob."""

import pytest

from pykruise.kinds.ephemeraljob.status import EphemeralJobTally, status_of
from pykruise.kinds.ephemeraljob.types import EphemeralJobStatus


@pytest.mark.parametrize(
    ("is_taken", "message"),
    [
        (False, "no pod matches the selector"),
        (
            True,
            "every pod that the selector matches already has a container with the name of a container of the job",
        ),
    ],
)
def test_the_condition_distinguishes_a_missing_pod_from_a_container_that_all_pods_have(
    is_taken: bool, message: str
) -> None:
    status = status_of(
        EphemeralJobStatus(),
        EphemeralJobTally(),
        now=0.0,
        is_paused=False,
        is_over=False,
        is_late=False,
        has_containers=True,
        is_taken=is_taken,
    )

    (condition,) = [entry for entry in status.conditions or () if entry.type == "MatchedEmpty"]
    assert condition.message == message
