"""The line for a NodeImage, from the counts of its agent."""

import pytest

from pykruise.kinds.nodeimage.insight import headline_of


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ({}, "the agent of the node has reported no image"),
        ({"desired": 0}, "the agent of the node has reported no image"),
        ({"desired": 2, "succeeded": 1, "pulling": 1}, "1 of 2 images pulled, 0 failed, 1 under way"),
    ],
)
def test_a_node_image_without_counts_does_not_claim_that_it_has_no_images(
    status: dict[str, int], line: str
) -> None:
    assert headline_of(status) == line
