"""The cache of a DaemonSet's nodes: an event of one node examines only that node."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykruise.kinds.daemonset import node_cache
from pykruise.kinds.daemonset.node_state import examine
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.plan import plan_daemonset
from support.daemonset_builder import NOW, DaemonSetBuilder, created_on, daemonset, template, updatable
from support.daemonset_mirror import Mirror
from support.plan_views import deleted


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the nodes that are examined in the block."""
    seen: list[str] = []

    def counted(terms: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        return examine(terms, name, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(node_cache, "examine", counted)
        yield seen


def beat(builder: DaemonSetBuilder, node: str) -> None:
    """Send a heartbeat of the node."""
    metadata = builder.nodes[node]["metadata"]
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)


def beat_all(builder: DaemonSetBuilder) -> None:
    for node in builder.nodes:
        beat(builder, node)


def unrelated_pod(builder: DaemonSetBuilder) -> None:
    builder.on("n2", called="n2b").orphaned("n2b").labelled({"app": "other"}, "n2b")


def relabel(builder: DaemonSetBuilder) -> None:
    builder.labelled({"app": "aside"}, "n2")


CHANGES: dict[str, tuple[Callable[[DaemonSetBuilder], object], list[str]]] = {
    "nothing": (lambda builder: None, []),
    "a heartbeat of every node": (beat_all, []),
    "a label": (lambda builder: builder.node("n2", disk="ssd"), ["n2"]),
    "a taint": (lambda builder: builder.taint("n2", "x:NoExecute"), ["n2"]),
    "a node joins": (lambda builder: builder.node("n0"), ["n0"]),
    "a node goes, its pod stays": (lambda builder: builder.without_node("n2"), ["n2"]),
    "a pod is not ready": (lambda builder: builder.not_ready("n2"), ["n2"]),
    "a pod goes": (lambda builder: builder.without_pod("n2"), ["n2"]),
    "a second pod": (lambda builder: builder.on("n2", called="n2b"), ["n2"]),
    "an orphan": (lambda builder: builder.on("n2", called="n2b").orphaned("n2b"), ["n2"]),
    "an orphan that the selector does not match": (unrelated_pod, []),
    "a pod is relabelled": (relabel, ["n2"]),
    "a pod comes to another node": (
        lambda builder: builder.without_pod("n2").on("n3", called="x"),
        ["n2", "n3"],
    ),
    "another template": (lambda builder: builder.with_spec(template=template("nginx:9")), []),
}


@pytest.mark.parametrize("nodes", [5, 200])
@pytest.mark.parametrize("change", list(CHANGES))
def test_an_event_evaluates_only_its_own_node_in_a_set_of_any_size(
    change: str, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a DaemonSet whose nodes have been examined
    mirror = Mirror(daemonset(nodes))
    mirror.snapshot()
    # when one change happens
    act, expected = CHANGES[change]
    act(mirror.builder)
    with counting(monkeypatch) as examined:
        snapshot = mirror.snapshot()
    # then
    assert sorted(examined) == expected
    # and a plan handles no other node
    assert {state.name for state in snapshot.overview.open} <= set(expected)


@pytest.mark.parametrize("nodes", [5, 200])
def test_a_snapshot_after_an_own_write_examines_only_the_node_that_was_written_to(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(daemonset(nodes))
    assert plan_daemonset(mirror.snapshot()).stages == ()
    with counting(monkeypatch) as examined:
        # a taint evicts its pod; the pod is deleted; the taint is removed; the pod is created, and starts
        mirror.builder.taint("n2", "x:NoExecute")
        assert deleted(plan_daemonset(mirror.snapshot())) == {"n2"}
        mirror.builder.without_pod("n2")
        assert plan_daemonset(mirror.snapshot()).stages == ()
        mirror.builder.taint("n2")
        assert created_on(plan_daemonset(mirror.snapshot())) == ["n2"]
        mirror.builder.on("n2").unscheduled("n2")
        assert plan_daemonset(mirror.snapshot()).stages == ()
        mirror.builder.without_pod("n2").on("n2")
        assert plan_daemonset(mirror.snapshot()).stages == ()
    assert examined == ["n2"] * 5


def test_only_nodes_that_become_available_are_examined_as_time_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given two pods that have been ready for less than minReadySeconds
    builder = daemonset(100).with_spec(minReadySeconds=60)
    mirror = Mirror(builder.ready_for(50, "n7").ready_for(20, "n8"))
    plan = plan_daemonset(mirror.snapshot())
    assert plan.requeue_after_s == 10.0
    with counting(monkeypatch) as examined:
        # when nothing changes, then one minReadySeconds passes, then the other
        assert len(mirror.snapshot().overview.open) == 2
        builder.at(9)
        assert len(mirror.snapshot().overview.open) == 2
        builder.at(10)
        assert [state.name for state in mirror.snapshot().overview.open] == ["n8"]
        builder.at(60)
        assert mirror.snapshot().overview.open == []
    assert examined == ["n7", "n8"]


@pytest.mark.parametrize(("patience", "ready_for", "at"), [(60, 70, -30), (1, 2, -1.5)])
def test_a_clock_that_is_set_back_makes_pods_wait_again(patience: int, ready_for: int, at: float) -> None:
    mirror = Mirror(daemonset(3).with_spec(minReadySeconds=patience).ready_for(ready_for, "n2"))
    assert mirror.snapshot().overview.open == []
    mirror.builder.at(at)
    assert [state.name for state in mirror.snapshot().overview.open] == ["n2"]
    assert mirror.snapshot().overview == mirror.afresh().overview


def test_a_clock_that_is_set_back_costs_nothing_where_no_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror(daemonset(3))
    mirror.snapshot()
    mirror.builder.at(-30)
    with counting(monkeypatch) as examined:
        mirror.snapshot()
    assert examined == []


def test_the_only_orphan_of_a_node_appears_and_is_deleted() -> None:
    mirror = Mirror(daemonset(1, pods=False))
    assert created_on(plan_daemonset(mirror.snapshot())) == ["n1"]
    mirror.builder.on("n1").orphaned("n1")
    assert created_on(plan_daemonset(mirror.snapshot())) == []
    mirror.builder.without_pod("n1")
    assert created_on(plan_daemonset(mirror.snapshot())) == ["n1"]


def test_the_only_pod_of_a_node_is_deleted() -> None:
    mirror = Mirror(daemonset(1))
    assert created_on(plan_daemonset(mirror.snapshot())) == []
    mirror.builder.without_pod("n1")
    assert created_on(plan_daemonset(mirror.snapshot())) == ["n1"]


def test_deleting_a_node_without_a_pod_leaves_no_state() -> None:
    mirror = Mirror(daemonset(2, pods=False))
    mirror.snapshot()
    mirror.builder.without_node("n2")
    assert mirror.snapshot().overview == mirror.afresh().overview


def test_nodes_are_in_the_order_of_their_names_also_when_one_joins() -> None:
    mirror = Mirror(daemonset(9).all_old())
    mirror.snapshot()
    mirror.builder.node("n10").on("n10").old("n10")
    assert list(mirror.snapshot().overview.states) == sorted(mirror.builder.nodes)
    assert deleted(plan_daemonset(mirror.snapshot())) == {"n9"}


def test_a_snapshot_that_failed_midway_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    # given two changed nodes, and an error at the second one
    mirror = Mirror(daemonset(3))
    mirror.snapshot()
    mirror.builder.taint("n1", "x:NoExecute").taint("n3", "x:NoExecute")
    examined = 0

    def faulty(*args: Any, **kwargs: Any) -> Any:
        nonlocal examined
        examined += 1
        if examined == 2:
            raise ValueError("a fault")
        return examine(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(node_cache, "examine", faulty)
        with pytest.raises(ValueError, match="a fault"):
            mirror.snapshot()
    # then the next snapshot has both changes
    assert mirror.snapshot().overview == mirror.afresh().overview
    assert deleted(plan_daemonset(mirror.snapshot())) == {"n1", "n3"}


def test_the_order_in_which_pods_changed_does_not_matter() -> None:
    # given relabelled pods of a node, of which the first changes once more
    builder = daemonset(1)
    for name in "abcdef":
        builder.on("n1", called=name)
    mirror = Mirror(builder.labelled({"app": "aside"}, *builder.pods))
    mirror.snapshot()
    builder.not_ready("a")
    assert mirror.snapshot().overview == mirror.afresh().overview


def test_a_snapshot_does_not_change_when_nodes_change() -> None:
    mirror = Mirror(daemonset(3))
    before = mirror.snapshot()
    mirror.builder.taint("n2", "x:NoExecute").without_node("n3")
    after = mirror.snapshot()
    assert [state.place for state in before.overview.states.values()] == [Place.RUN] * 3
    assert (before.overview.desired, after.overview.desired) == (3, 1)
    assert plan_daemonset(before).stages == ()


def test_a_heartbeat_gives_the_very_overview_of_before() -> None:
    mirror = Mirror(daemonset(3))
    before = mirror.snapshot()
    beat(mirror.builder, "n1")
    assert mirror.snapshot().overview is before.overview


def quiet(builder: DaemonSetBuilder) -> list[str]:
    overview = builder.snapshot().overview
    return [state.name for state in overview.states.values() if state.quiet is not None]


@pytest.mark.parametrize(
    "disturbed",
    [
        daemonset(2).not_ready("n2"),
        daemonset(2).deleted("n2"),
        daemonset(2).leaving("n2"),
        daemonset(2).phase("Failed", "n2"),
        daemonset(2).phase("Succeeded", "n2"),
        daemonset(2).unscheduled("n2"),
        daemonset(2).without_pod("n2"),
        daemonset(2).orphaned("n2"),
        daemonset(2).on("n2", called="b"),
        daemonset(2).labelled({"app": "aside"}, "n2"),
        daemonset(2).on("n2", called="b").labelled({"app": "aside"}, "b"),
        daemonset(2).with_spec(minReadySeconds=60).ready_for(59, "n2"),
        daemonset(2).taint("n2", "x:NoSchedule"),
        daemonset(2).taint("n2", "x:NoExecute"),
        updatable(2).set_condition("n2", "InPlaceUpdateReady", "False"),
        updatable(2).set_condition("n2", "InPlaceUpdateReady", None),
    ],
)
def test_a_node_is_only_quiet_when_nothing_can_be_due_to_it(disturbed: DaemonSetBuilder) -> None:
    assert quiet(disturbed) == ["n1"]


def test_time_alone_changes_a_node_only_while_its_pod_is_ready_and_not_for_long_enough() -> None:
    # given pods whose kubelet has a clock that is ahead
    ahead = daemonset(1).ready_for(-5, "n1")
    assert ahead.snapshot().overview.states["n1"].until is None
    assert ahead.with_spec(minReadySeconds=1).snapshot().overview.states["n1"].until == NOW + 6
    # and of two pods, the pod that becomes available first decides
    builder = (
        daemonset(1).with_spec(minReadySeconds=10).on("n1", called="b").ready_for(2, "b").ready_for(4, "n1")
    )
    assert builder.snapshot().overview.states["n1"].until == NOW + 6
    # and a pod that is ready for exactly minReadySeconds is available
    assert daemonset(1).with_spec(minReadySeconds=5).ready_for(5, "n1").snapshot().overview.open == []


def test_an_excluded_node_without_a_pod_is_idle_with_its_reason() -> None:
    overview = daemonset(2, pods=False).taint("n2", "x:NoSchedule").snapshot().overview
    assert set(overview.idle) == {"n2"}
    assert "x:NoSchedule" in overview.idle["n2"].message
    assert [state.name for state in overview.open] == ["n1"]
