"""Nodes out of service and the budget of an update: ignore-unavailable-nodes and strict-max-unavailable."""

from typing import Any

import pytest

from pykruise.kinds.daemonset.validation import OPTIONS
from pykruise.kube.clock import format_time
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import (
    IGNORE_UNAVAILABLE_NODES,
    STRICT_MAX_UNAVAILABLE,
    UNAVAILABLE_NODES_SELECTOR,
)
from support.daemonset_builder import DaemonSetBuilder, created_on, daemonset
from support.plan_views import deleted, left
from support.workload_builder import NOW

NOT_READY = ("node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute")
CORDONED = ("node.kubernetes.io/unschedulable:NoSchedule",)
BROKEN = "example.com/broken"


def annotated(builder: DaemonSetBuilder, **options: str | None) -> DaemonSetBuilder:
    """`ignore`, `selector`, `strict`: values of the options; None leaves one out."""
    names = {
        "ignore": IGNORE_UNAVAILABLE_NODES,
        "selector": UNAVAILABLE_NODES_SELECTOR,
        "strict": STRICT_MAX_UNAVAILABLE,
    }
    annotations = {names[name].annotation: value for name, value in options.items() if value is not None}
    builder.document["metadata"]["annotations"] = annotations
    return builder


def on_dead_node(builder: DaemonSetBuilder, node: str, state: str) -> None:
    """Delete the old pod of the node. The pod does not end, because the node is unreachable."""
    match state:
        case "not ready":
            builder.taint(node, *NOT_READY)
        case "cordoned":
            builder.taint(node, *CORDONED)
        case "labelled":
            builder.nodes[node]["metadata"]["labels"][BROKEN] = "yes"
    builder.not_ready(node).deleted(node)


TABLE = """
nodes | out of service  | ignore | maxUnavailable | are deleted
5     | n1              |        | 1              |
5     | n1              | 1      | 1              | n5
5     | n1 n2           | 1      | 1              |
5     | n1 n2           | 2      | 1              | n5
5     | n1 n2           | 1      | 2              | n5
5     | n1 n2           | 20%    | 1              |
5     | n1 n2           | 21%    | 1              | n5
5     | n1 n2           | 100%   | 2              | n5 n4
5     | n1              | 0      | 1              |
"""


@pytest.mark.parametrize("state", ["not ready", "cordoned", "labelled"])
@pytest.mark.parametrize("row", TABLE.strip().splitlines()[1:])
def test_nodes_out_of_service_use_up_the_budget_beyond_the_limit(row: str, state: str) -> None:
    """daemonset cases 74 to 76"""
    nodes, dead, ignore, budget, expected = (part.strip() for part in row.split("|"))
    # given
    builder = daemonset(int(nodes), maxUnavailable=int(budget)).all_old()
    for node in dead.split():
        on_dead_node(builder, node, state)
    # when
    plan = annotated(builder, ignore=ignore or None, selector=f"{BROKEN}=yes").plan()
    # then
    assert deleted(plan) == set(expected.split())


def test_25_dead_nodes_of_288_do_not_hold_the_others() -> None:
    """daemonset case 75: the budget of 14 nodes is less than the 25 dead ones."""
    builder = daemonset(288, maxUnavailable="5%").all_old()
    for number in range(1, 26):
        on_dead_node(builder, f"n{number}", "not ready")
    assert deleted(builder.plan()) == set()
    # maxUnavailable is a percentage of the 263 nodes that should run a pod, the option of all 288
    assert len(deleted(annotated(builder, ignore="10%").plan())) == 14
    assert len(deleted(annotated(builder, ignore="20").plan())) == 9


def never_ready(builder: DaemonSetBuilder, node: str) -> None:
    """Let the node have a new pod that has started and has never been ready."""
    builder.without_pod(node).on(node).taint(node, *NOT_READY)
    status = builder.pods[node]["status"]
    status["startTime"] = format_time(NOW - 60)
    for condition in status["conditions"]:
        condition |= {"status": "False", "lastTransitionTime": status["startTime"]}
    status["containerStatuses"][0]["ready"] = False


def test_a_node_that_the_update_may_have_broken_uses_up_the_budget() -> None:
    """daemonset case 77"""
    builder = annotated(daemonset(5, maxUnavailable=1).all_old(), ignore="3")
    never_ready(builder, "n5")
    assert deleted(builder.plan()) == set()
    # when a person cordons the node
    builder.taint("n5", *NOT_READY, *CORDONED)
    assert deleted(builder.plan()) == {"n4"}


def test_a_node_whose_new_pod_was_ready_once_is_left_out() -> None:
    """daemonset case 77"""
    builder = annotated(daemonset(5, maxUnavailable=1).all_old(), ignore="1")
    builder.without_pod("n5").on("n5").not_ready("n5").taint("n5", *NOT_READY)
    assert deleted(builder.plan()) == {"n4"}


def test_a_node_whose_new_pod_was_never_started_is_left_out() -> None:
    """daemonset case 77"""
    builder = annotated(daemonset(5, maxUnavailable=1).all_old(), ignore="1")
    builder.without_pod("n5").on("n5").unscheduled("n5").taint("n5", *NOT_READY)
    assert deleted(builder.plan()) == {"n4"}


def test_an_available_pod_of_a_cordoned_node_waits_for_its_turn() -> None:
    """daemonset case 78"""
    builder = annotated(daemonset(5, maxUnavailable=1).all_old(), ignore="5").taint("n2", *CORDONED)
    assert deleted(builder.plan()) == {"n5"}


def test_a_node_that_takes_no_part_in_the_update_does_not_count_for_the_limit() -> None:
    """daemonset case 76: rollingUpdate.selector selects n1, n2 and n3."""
    builder = daemonset(5, maxUnavailable=1, selector={"matchLabels": {"canary": "yes"}}).all_old()
    builder.node("n1", "n2", "n3", canary="yes")
    for node in ("n5", "n3"):
        builder.taint(node, *NOT_READY).not_ready(node)
    builder.deleted("n3")
    assert deleted(annotated(builder, ignore="1").plan()) == {"n2"}


def test_an_update_in_place_leaves_out_dead_nodes() -> None:
    builder = daemonset(5, maxUnavailable=1, rollingUpdateType="InPlaceIfPossible").all_old()
    builder.without_pod("n5").on("n5").not_ready("n5").taint("n5", *NOT_READY)
    builder.set_condition("n5", "InPlaceUpdateReady", "False")
    changed = {step.action.key.name for step in annotated(builder, ignore="1").plan().steps}
    assert "web-n4" in changed
    assert "web-n3" not in changed


@pytest.mark.parametrize("ignore", [None, "1"])
def test_a_node_out_of_service_uses_up_no_max_surge(ignore: str | None) -> None:
    """daemonset case 79"""
    builder = annotated(daemonset(5).surging(1).all_old(), ignore=ignore)
    builder.on("n5", called="new").not_ready("n5", "new").deleted("n5").taint("n5", *NOT_READY)
    assert created_on(builder.plan()) == ["n4"]


def test_the_plan_names_the_pods_that_are_left_out() -> None:
    builder = daemonset(5, maxUnavailable=1).all_old()
    on_dead_node(builder, "n1", "not ready")
    # without the option
    plan = builder.plan()
    assert plan.skipped["web-n5"].code == Code.LOST_NODES
    assert left(plan)["n5"] == "waits for its turn: maxUnavailable is used up; 1 node is not ready: n1"
    assert IGNORE_UNAVAILABLE_NODES.annotation in plan.skipped["web-n5"].remedy
    assert "n1" not in left(plan)
    # with it
    plan = annotated(builder, ignore="1").plan()
    assert plan.skipped["web-n1"].code == Code.NODE_LEFT_OUT
    assert left(plan)["n1"] == (
        "does not use up maxUnavailable, because its node n1 is not ready (pykruise.io/ignore-unavailable-nodes)"
    )


def test_no_pod_is_left_out_when_no_pod_is_old() -> None:
    builder = annotated(daemonset(5, maxUnavailable=1), ignore="5").not_ready("n1").taint("n1", *NOT_READY)
    assert builder.plan().skipped == {}


STRICT = """
strict | unavailable old | unavailable new | maxUnavailable | are deleted
       | n1 n2 n3        |                 | 1              | n1 n2 n3 n5
true   | n1 n2 n3        |                 | 1              | n3
true   | n1 n2 n3        |                 | 2              | n3 n2
true   | n1              |                 | 2              | n1 n5
true   | n1              | n5              | 1              |
true   | n1              | n5              | 2              | n1
false  | n1 n2 n3        |                 | 1              | n1 n2 n3 n5
"""


@pytest.mark.parametrize("row", STRICT.strip().splitlines()[1:])
def test_strictly_unavailable_pods_are_updated_within_the_budget(row: str) -> None:
    """daemonset cases 80 and 81"""
    strict, old, new, budget, expected = (part.strip() for part in row.split("|"))
    # given
    builder = daemonset(5, maxUnavailable=int(budget)).all_old()
    builder.not_ready(*old.split()).born(90_000, *old.split())
    builder.without_pod(*new.split()).on(*new.split()).not_ready(*new.split())
    # when
    plan = annotated(builder, strict=strict or None).plan()
    # then
    assert deleted(plan) == set(expected.split())


def test_strictly_pods_of_an_unfinished_rollout_are_not_replaced_all_together() -> None:
    """daemonset case 81: all pods are ready for less than minReadySeconds when the template changes."""
    builder = daemonset(5, maxUnavailable=1).with_spec(minReadySeconds=600).all_old()
    builder.ready_for(60, "n1", "n2", "n3", "n4", "n5")
    assert deleted(builder.plan()) == {"n1", "n2", "n3", "n4", "n5"}
    assert deleted(annotated(builder, strict="true").plan()) == {"n5"}


def test_strictly_pods_of_nodes_that_are_left_out_are_replaced_immediately() -> None:
    builder = daemonset(5, maxUnavailable=1).all_old().not_ready("n1", "n2").taint("n1", *NOT_READY)
    plan = annotated(builder, strict="true", ignore="1").plan()
    assert deleted(plan) == {"n1", "n2"}


def test_strictly_unavailable_pods_get_their_new_pod_within_max_surge() -> None:
    """daemonset case 80"""
    builder = daemonset(5).surging(2).all_old().not_ready("n1", "n2", "n3")
    assert created_on(builder.plan()) == ["n3", "n2", "n1", "n5", "n4"]
    assert created_on(annotated(builder, strict="true").plan()) == ["n3", "n2"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("ignore", "-1", "must be a whole number (such as 3), or a percentage (from 0% to 100%)"),
        ("ignore", "1.5%", "must be a whole number"),
        ("ignore", "101%", "must be a whole number"),
        ("ignore", "", "must be a whole number"),
        ("selector", " ", "must be a label selector that is not empty"),
        ("selector", "a in b", "unable to parse requirement"),
        ("strict", "yes", "must be true or false"),
    ],
)
def test_an_invalid_stored_option_changes_nothing(option: Any, value: str, message: str) -> None:
    plan = annotated(daemonset(5).all_old(), **{option: value}).plan()
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code == Code.INVALID_SPEC
    assert message in plan.waiting.message
    assert any(f"metadata.annotations[{item.annotation}]" in plan.waiting.message for item in OPTIONS)
