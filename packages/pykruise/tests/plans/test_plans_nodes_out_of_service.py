"""Pods on nodes out of service and the budget of an update: ignore-unavailable-nodes of CloneSet and StatefulSet."""

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.pod_rules.nodes import Taint
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.workload.options import IGNORE_UNAVAILABLE_NODES, UNAVAILABLE_NODES_SELECTOR
from support.cloneset_builder import CloneSetBuilder, cloneset
from support.plan_views import deleted
from support.statefulset_builder import StatefulSetBuilder, statefulset

BROKEN = {"example.com/broken": "yes"}
STATES = ("not ready", "cordoned", "labelled")


def make_node(name: str, state: str = "") -> NodeView:
    """A node; `state`: why it is out of service, empty if it is in service."""
    taints = {
        "not ready": (Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"),),
        "cordoned": (Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),),
    }.get(state, ())
    labels = BROKEN if state == "labelled" else {}
    return NodeView(name=name, uid=f"uid-{name}", resource_version=1, labels=labels, taints=taints)


def set_options(builder: StatefulSetBuilder | CloneSetBuilder, ignore: str) -> None:
    options = {UNAVAILABLE_NODES_SELECTOR.annotation: "example.com/broken=yes"}
    if ignore:
        options[IGNORE_UNAVAILABLE_NODES.annotation] = ignore
    builder.document["metadata"]["annotations"] = options


def stateful(down: str, *, ignore: str, budget: int, state: str) -> StatefulSetBuilder:
    """Five pods of an old revision, each on its own node; those in `down` are not ready."""
    builder = statefulset(5, parallel=True, maxUnavailable=budget).all_old()
    for ordinal in range(5):
        is_down = str(ordinal) in down.split()
        builder.on_node(make_node(f"node-{ordinal}", state if is_down else ""), ordinal)
        if is_down:
            builder.not_ready(ordinal)
    set_options(builder, ignore)
    return builder


TABLE = """
down | ignore | maxUnavailable | are deleted
4    |        | 1              | 4
4    | 1      | 1              | 4 3
4    | 0      | 1              | 4
4    | 1      | 2              | 4 3 2
3 4  | 1      | 1              | 4 3
3 4  | 2      | 1              | 4 3 2
3 4  | 20%    | 1              | 4 3
3 4  | 21%    | 1              | 4 3 2
0    |        | 1              |
0    | 1      | 1              | 4
0 1  | 1      | 1              |
0 1  | 100%   | 2              | 4 3
"""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("row", TABLE.strip().splitlines()[1:])
def test_pods_on_nodes_out_of_service_use_up_nothing_within_the_limit(row: str, state: str) -> None:
    """statefulset cases 92 and 93"""
    down, ignore, budget, expected = (part.strip() for part in row.split("|"))
    plan = stateful(down, ignore=ignore, budget=int(budget), state=state).plan()
    assert deleted(plan) == set(expected.split())


def test_a_terminating_pod_on_a_dead_node_lets_the_others_be_updated() -> None:
    """statefulset case 92"""
    builder = stateful("4", ignore="1", budget=1, state="not ready").deleted(4)
    plan = builder.plan()
    assert deleted(plan) == {"3"}
    reason = plan.skipped["web-4"]
    assert reason.code in (Code.NODE_LEFT_OUT, Code.DEPARTING)


def test_a_node_that_the_update_may_have_broken_uses_up_the_budget() -> None:
    """statefulset case 94: the pod has the newest revision, has started, and has never been ready"""
    builder = stateful("4", ignore="1", budget=1, state="not ready")
    assert deleted(builder.plan()) == {"4", "3"}
    # when the pod was created by this rollout
    builder.pod(4).on_node(make_node("node-4", "not ready"), 4).not_ready(4)
    pod = builder.pods["web-4"]
    started = pod["metadata"]["creationTimestamp"]
    pod["status"]["startTime"] = started
    for item in pod["status"]["conditions"]:
        if item["type"] in ("Ready", "ContainersReady"):
            item |= {"status": "False", "lastTransitionTime": started}
    # then
    assert deleted(builder.plan()) == set()


def test_an_available_pod_on_a_cordoned_node_waits_for_its_turn() -> None:
    builder = stateful("", ignore="100%", budget=1, state="")
    for ordinal in range(5):
        builder.on_node(make_node(f"cordoned-{ordinal}", "cordoned"), ordinal)
    assert deleted(builder.plan()) == {"4"}


CLONE_SETS = """
down | ignore | maxUnavailable | deleted pods
1    |        | 1              | 1
1    | 1      | 1              | 2
2    | 1      | 1              | 2
2    | 2      | 1              | 3
2    | 40%    | 2              | 4
2    |        | 2              | 2
0    | 100%   | 2              | 2
"""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("row", CLONE_SETS.strip().splitlines()[1:])
def test_a_cloneset_updates_as_many_available_pods_as_without_the_dead_nodes(row: str, state: str) -> None:
    """cloneset cases 118 and 119"""
    down, ignore, budget, expected = (part.strip() for part in row.split("|"))
    # given
    builder = cloneset(5, old=5, max_unavailable=int(budget))
    for number, name in enumerate(builder.pods):
        node = make_node(f"node-{name}", state if number < int(down) else "")
        builder.on_node(node.name, name)
        builder.node_labels[node.name], builder.taints[node.name] = dict(node.labels), node.taints
        if number < int(down):
            builder.not_ready(name)
    set_options(builder, ignore)
    # then
    assert len(deleted(plan_cloneset(builder.snapshot()))) == int(expected)
