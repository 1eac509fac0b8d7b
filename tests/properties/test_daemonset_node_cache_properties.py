"""The memory of nodes has no effect: snapshot and plan are those of a manager that has just started.

Documents of nodes and pods change randomly; after each change the snapshots with and without memory must be
equal, and so must their plans.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kinds.daemonset.plan import plan_daemonset
from pykruise.pods.view import keys
from support.daemonset_builder import DaemonSetBuilder, daemonset, owner, revision, template
from support.daemonset_mirror import Mirror

NAMES = st.sampled_from([f"n{number}" for number in range(1, 6)])


def beat(builder: DaemonSetBuilder, node: str) -> None:
    metadata = builder.nodes[node]["metadata"]
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)


def again(builder: DaemonSetBuilder, node: str) -> None:
    """Replace the node by another one with the same name."""
    builder.nodes[node]["metadata"]["uid"] += "x"


def adopt(builder: DaemonSetBuilder, pod: str) -> None:
    builder.pods[pod]["metadata"]["ownerReferences"] = [owner()]


def let_go(builder: DaemonSetBuilder, pod: str) -> None:
    builder.pods[pod]["metadata"].pop("ownerReferences", None)


def relabel(builder: DaemonSetBuilder, node: str) -> None:
    labels = builder.nodes[node]["metadata"]["labels"]
    labels.pop("disk", None) or labels.update(disk="ssd")


OF_NODES: dict[str, Callable[[DaemonSetBuilder, str], Any]] = {
    "expel": lambda builder, node: builder.taint(node, "x:NoExecute"),
    "keep off": lambda builder, node: builder.taint(node, "x:NoSchedule"),
    "lose": lambda builder, node: builder.taint(node, "node.kubernetes.io/unreachable:NoExecute"),
    "untaint": lambda builder, node: builder.taint(node),
    "label": relabel,
    "heartbeat": beat,
    "recreated": again,
    "go": lambda builder, node: builder.without_node(node),
}

OF_PODS: dict[str, Callable[[DaemonSetBuilder, str], Any]] = {
    "old": lambda builder, pod: builder.old(pod),
    "down": lambda builder, pod: builder.not_ready(pod),
    "up": lambda builder, pod: builder.ready_for(3600, pod),
    "just up": lambda builder, pod: builder.ready_for(0, pod),
    "failed": lambda builder, pod: builder.phase("Failed", pod),
    "terminating": lambda builder, pod: builder.deleted(pod),
    "leaving": lambda builder, pod: builder.leaving(pod),
    "aside": lambda builder, pod: builder.labelled({"app": "aside"}, pod),
    "back": lambda builder, pod: builder.labelled({"app": "web"}, pod),
    "let go": let_go,
    "adopted": adopt,
    "held": lambda builder, pod: builder.set_condition(pod, keys.IN_PLACE_READY, "False"),
    "unscheduled": lambda builder, pod: builder.unscheduled(pod),
    "gone": lambda builder, pod: builder.without_pod(pod),
}

OF_THE_SET: dict[str, Callable[[DaemonSetBuilder], Any]] = {
    "template": lambda builder: builder.with_spec(template=template("nginx:2")),
    "nodes": lambda builder: builder.with_template(nodeSelector={"disk": "ssd"}),
    "patience": lambda builder: builder.with_spec(minReadySeconds=30),
    "selector": lambda builder: builder.with_spec(selector={"matchLabels": {"app": "aside"}}),
    "later": lambda builder: builder.at(builder.now + 20 - daemonset(0).now),
    "earlier": lambda builder: builder.at(builder.now - 15 - daemonset(0).now),
}


def happen(builder: DaemonSetBuilder, draw: Callable[[Any], Any]) -> None:
    """Change one thing: a node, a pod, or the set."""
    what = draw(st.sampled_from(["node", "node", "pod", "pod", "pod", "join", "pod comes", "set"]))
    name = draw(NAMES)
    if what == "join" and name not in builder.nodes:
        builder.node(name)
    elif what == "pod comes":
        builder.on(name, called=draw(NAMES), old=draw(st.booleans()))
    elif what == "node" and name in builder.nodes:
        OF_NODES[draw(st.sampled_from(sorted(OF_NODES)))](builder, name)
    elif what == "pod" and name in builder.pods:
        OF_PODS[draw(st.sampled_from(sorted(OF_PODS)))](builder, name)
    elif what == "set":
        OF_THE_SET[draw(st.sampled_from(sorted(OF_THE_SET)))](builder)


@given(
    st.integers(0, 5),
    st.sampled_from(["standard", "surge", "in place"]),
    st.booleans(),
    st.data(),
)
def test_a_snapshot_with_memory_equals_one_without(
    nodes: int, kind: str, with_hook: bool, data: st.DataObject
) -> None:
    # given a set of which a snapshot was made
    builder = daemonset(nodes, partition=data.draw(st.integers(0, 2)))
    if kind == "surge":
        builder.surging()
    elif kind == "in place":
        builder.in_place()
    if with_hook:
        builder.with_hook()
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    mirror = Mirror(builder)
    mirror.snapshot()
    for _ in range(data.draw(st.integers(1, 12))):
        # when a few things happen, and another snapshot is made
        for _ in range(data.draw(st.integers(1, 3))):
            happen(builder, data.draw)
        kept, fresh = mirror.snapshot(), mirror.afresh()
        # then there is no difference, also in the order
        assert kept.overview == fresh.overview
        assert list(kept.overview.states) == list(fresh.overview.states)
        assert plan_daemonset(kept) == plan_daemonset(fresh)
