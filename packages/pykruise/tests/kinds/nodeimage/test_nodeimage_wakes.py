"""Events that wake a NodeImage."""

from typing import Any

import pytest

from pykruise.kinds.nodeimage.kind import KIND
from pykruise.kinds.nodeimage.snapshot import NodeImageSettings
from pykruise.plans.views import NODE_IMAGE_VIEWS, NODE_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.view.nodes import NodeView
from support.image_objects import at, entry, job, node, node_image
from support.wakes import Woken

MINE = job("mine")
THIS_NODE = node()


@pytest.mark.parametrize(
    ("old", "new", "has_one", "wakes"),
    [
        (None, node(), False, True),
        (node(ready_s=None), node(), False, True),
        (node(labels={"type": "virtual-kubelet"}), node(), False, True),
        (THIS_NODE, THIS_NODE, False, True),  # a resync delivers all objects again
        (node(), node(), False, False),
        (node(), node(), True, False),
        (node(), node(labels={"a": "b"}), True, True),
        (node(), None, True, True),
        (node(), None, False, False),
        (node(), node(is_deleting=True), True, True),
    ],
)
def test_a_node_enqueues_its_nodeimage_when_a_write_is_due(
    old: NodeView | None, new: NodeView | None, has_one: bool, wakes: bool
) -> None:
    """images cases 1 to 6; a heartbeat is ignored"""
    stored: list[Any] = [node_image("n1")] if has_one else []
    result = Woken(KIND, {NODE_IMAGE_VIEWS: stored}, settings=NodeImageSettings()).by(NODE_VIEWS, old, new)
    assert result == (["n1"] if wakes else [])


@pytest.mark.parametrize(
    ("new", "wakes"),
    [
        (None, True),
        (job("mine", uid="another"), True),
        (job("mine", image="nginx:2"), True),
        (job("mine", completionPolicy={"type": "Never"}), True),
        (job("mine", status={"completionTime": at(0)}), True),
        (job("mine", status={"active": 1}), False),
        (job("mine", parallelism=5), False),
    ],
)
def test_a_job_enqueues_its_nodes_when_their_entries_may_be_removed(new: Any, wakes: bool) -> None:
    """images cases 12 and 13"""
    stored = [node_image("n1", entry(jobs=[MINE])), node_image("n2", entry(jobs=[job("other")]))]
    result = Woken(KIND, {NODE_IMAGE_VIEWS: stored}, settings=NodeImageSettings()).by(
        PULL_JOB_VIEWS, MINE, new
    )
    assert result == (["n1"] if wakes else [])


def test_a_created_job_enqueues_no_nodeimage() -> None:
    woken = Woken(
        KIND, {NODE_IMAGE_VIEWS: [node_image("n1", entry(jobs=[MINE]))]}, settings=NodeImageSettings()
    )
    assert woken.by(PULL_JOB_VIEWS, None, MINE) == []
