"""Images that would not be on the nodes in time."""

import pytest

from pykruise.plans.pre_download import explain_too_soon


@pytest.mark.parametrize(
    ("replicas", "partition", "max_unavailable", "is_over_too_soon"),
    [
        (3, 0, 1, True),
        (4, 0, 1, False),
        (4, 0, 3, False),
        (4, 0, 4, True),
        (4, 0, 5, True),
        (4, 1, 4, False),
        (3, 1, 1, True),
    ],
)
def test_a_rollout_may_be_over_before_an_image_is_pulled(
    replicas: int, partition: int, max_unavailable: int, is_over_too_soon: bool
) -> None:
    why = explain_too_soon(replicas=replicas, partition=partition, max_unavailable=max_unavailable)
    assert bool(why) is is_over_too_soon
