"""Events that enqueue markers and NodePodProbes."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kinds.nodepodprobe.kind import KIND as NODE_KIND
from pykruise.kinds.nodepodprobe.snapshot import NodePodProbeSettings as NodeSettings
from pykruise.kinds.podprobemarker.kind import KIND
from pykruise.kinds.podprobemarker.snapshot import PodProbeMarkerSettings
from pykruise.kube.cache.cache import Change
from pykruise.kube.ids import Key
from pykruise.plans.kind import Kind
from pykruise.plans.views import MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Around, Memories
from pykruise.runtime.views import Views
from support.probe_objects import entry, marker, node, node_probes, pod, probe, result
from support.snapshots import control_of, listed

MARKERS = [marker("one"), marker("two", selector={"matchLabels": {"app": "other"}})]
ONE, TWO = Key("shop", "one"), Key("shop", "two")
N1 = Key("", "n1")
IDLE = {"type": "game.io/idle", "status": "True"}


def woken(
    kind: Kind, views: Views[Any], old: Any, new: Any, *, settings: Any, objects: Any = None
) -> set[Any]:
    """The keys of the kind that this change of an object enqueues."""
    there = {
        MARKER_VIEWS: MARKERS,
        NODE_VIEWS: [node()],
        NODE_PROBES_VIEWS: (),
        POD_VIEWS: (),
        **(objects or {}),
    }
    around = Around(
        listed(there, there),
        settings=settings,
        memories=Memories(),
        is_making=lambda _resource, _key: False,
        now=lambda: 0.0,
    )
    known = new or old
    change = Change(key=Key(known.namespace, known.name), old=old, new=new)
    outcome: Sequence[Any] = [
        key
        for wake in control_of(kind).wakes(settings)
        if wake.on is views
        for key in wake.keys(change, around)
    ]
    return set(outcome)


def markers_of(old: PodView | None, new: PodView | None, **more: Any) -> set[Any]:
    return woken(KIND, POD_VIEWS, old, new, settings=PodProbeMarkerSettings(**more))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, pod(), {ONE}),
        (pod(is_initialized=False), pod(), {ONE}),
        (pod(ip=""), pod(), {ONE}),
        (pod(), pod(phase="Failed"), {ONE}),
        (pod(), None, {ONE}),
        (pod(), pod(labels={"app": "other"}), {ONE, TWO}),
        (pod(), pod(labels={"more": "x"}), set()),
        (pod(), pod(conditions=[IDLE]), set()),
        (pod(), pod(labels={"more": "x"}, conditions=[IDLE]), set()),
        (pod(node=""), pod(node="", labels={"x": "y"}), set()),
        (None, pod(node=""), set()),
        (None, pod(is_initialized=False), set()),
        (pod(is_initialized=False), None, set()),
        (pod(is_initialized=None), None, set()),
    ],
)
def test_a_pod_enqueues_markers_only_when_an_entry_must_change(
    old: PodView | None, new: PodView | None, expected: set[Key]
) -> None:
    assert markers_of(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "on", "expected"),
    [
        (pod(), pod(conditions=[{"type": "other", "status": "True"}]), True, set()),
        (pod(conditions=[IDLE]), pod(conditions=[{**IDLE, "status": "False"}]), True, {ONE}),
        (pod(conditions=[IDLE]), pod(), True, {ONE}),
        (pod(), pod(labels={"more": "x"}), True, set()),
        (pod(), pod(conditions=[IDLE]), False, set()),
        (pod(), pod(conditions=[IDLE]), None, set()),
        (None, pod(conditions=[IDLE], is_initialized=False), True, set()),
        (pod(conditions=[IDLE], is_initialized=False), None, True, set()),
    ],
    ids=["another", "status", "gone", "labels", "has an agent", "unknown node", "pod comes", "pod goes"],
)
def test_only_conditions_of_probes_on_virtual_nodes_enqueue_a_marker(
    old: PodView | None, new: PodView | None, on: bool | None, expected: set[Key]
) -> None:
    """containers 6.3. `on`: whether the node is virtual; None: the node is unknown"""
    labels = {"type": "virtual-kubelet"} if on else {}
    there = {
        NODE_VIEWS: [] if on is None else [node(labels=labels)],
        MARKER_VIEWS: [marker("one", probe("busy", podConditionType="game.io/busy"), probe()), MARKERS[1]],
    }
    settings = PodProbeMarkerSettings(on_virtual_nodes=True)
    assert woken(KIND, POD_VIEWS, old, new, settings=settings, objects=there) == expected


@pytest.mark.parametrize("is_on", [True, False])
def test_a_condition_of_a_probe_on_a_virtual_node_enqueues_its_marker(is_on: bool) -> None:
    virtual = {NODE_VIEWS: [node(labels={"type": "virtual-kubelet"})]}
    settings = PodProbeMarkerSettings(on_virtual_nodes=is_on)
    outcome = woken(KIND, POD_VIEWS, pod(), pod(conditions=[IDLE]), settings=settings, objects=virtual)
    assert outcome == ({ONE} if is_on else set())


def test_a_new_nodepodprobe_enqueues_all_markers_and_a_changed_one_those_of_its_entries() -> None:
    def of(old: Any, new: Any) -> set[Any]:
        return woken(KIND, NODE_PROBES_VIEWS, old, new, settings=PodProbeMarkerSettings())

    asked = node_probes("n1", entry(pod(), "one#idle"), entry(pod("b"), "two#idle"))
    assert of(None, node_probes("n1")) == {ONE, TWO}
    assert of(asked, node_probes("n1", entry(pod("b"), "two#idle"))) == {ONE}
    assert of(asked, msgspec.structs.replace(asked, resource_version=10)) == set()
    assert of(asked, msgspec.structs.replace(asked, uid="made-again")) == {ONE, TWO}
    assert of(asked, None) == set(), "it comes again, or its node no longer exists"
    empty = {**entry(pod()), "probes": None}
    assert of(node_probes("n1", empty), node_probes("n1", entry(pod(), "one#idle"))) == {ONE}


def test_a_created_deleted_or_virtualized_node_enqueues_all_markers() -> None:
    """The node decides which of the pods an agent checks"""

    def of(old: Any, new: Any) -> set[Any]:
        return woken(KIND, NODE_VIEWS, old, new, settings=PodProbeMarkerSettings())

    assert of(None, node()) == of(node(), None) == {ONE, TWO}
    assert of(node(), node(labels={"type": "virtual-kubelet"})) == {ONE, TWO}
    assert of(node(), msgspec.structs.replace(node(), uid="made-again")) == {ONE, TWO}


@pytest.mark.parametrize("is_ready", [True, False])
def test_heartbeats_of_nodes_enqueue_nothing(is_ready: bool) -> None:
    first = node(is_ready=is_ready)
    beat = msgspec.structs.replace(first, resource_version=2)
    assert woken(KIND, NODE_VIEWS, first, beat, settings=PodProbeMarkerSettings()) == set()
    there = {NODE_PROBES_VIEWS: [node_probes("n1")]}
    assert woken(NODE_KIND, NODE_VIEWS, first, beat, settings=NodeSettings(), objects=there) == set()


def test_a_node_enqueues_its_nodepodprobe_when_it_becomes_ready_and_when_it_is_deleted() -> None:
    def of(old: Any, new: Any, **objects: Any) -> set[Any]:
        return woken(NODE_KIND, NODE_VIEWS, old, new, settings=NodeSettings(), **objects)

    there = {NODE_PROBES_VIEWS: [node_probes("n1")]}
    assert of(node(is_ready=False), node()) == {N1}
    assert of(None, node(is_ready=False)) == set()
    assert of(node(), None, objects=there) == {N1}
    assert of(node(), node(is_deleting=True), objects=there) == {N1}
    assert of(node(), None) == of(node(), node(is_deleting=True)) == set()
    assert of(None, node(labels={"type": "virtual-kubelet"})) == set(), "it has no agent"


def test_only_pods_in_its_entries_enqueue_a_nodepodprobe_when_they_end() -> None:
    def of(old: Any, new: Any) -> set[Any]:
        view = node_probes("n1", entry(pod(), "one#idle"), entry(pod("web-1"), "one#idle"))
        there = {NODE_PROBES_VIEWS: [view]}
        return woken(NODE_KIND, POD_VIEWS, old, new, settings=NodeSettings(), objects=there)

    assert of(None, pod()) == set()
    assert of(pod(), pod(uid="made-again")) == {N1}
    assert of(pod(node=""), None) == of(pod(node="n2"), None) == set()
    assert of(pod(), pod(phase="Succeeded")) == {N1}
    assert of(pod(), None) == {N1}
    assert of(pod(), pod(labels={"a": "b"})) == set()
    assert of(pod("other"), None) == set()


def test_a_changed_spec_of_a_marker_enqueues_the_nodes_that_have_its_results() -> None:
    view = node_probes("n1", entry(pod(), "one#idle"), results=[result(pod(), one__idle="Failed")])

    def of(old: Any, new: Any) -> set[Any]:
        there = {NODE_PROBES_VIEWS: [view]}
        return woken(NODE_KIND, MARKER_VIEWS, old, new, settings=NodeSettings(), objects=there)

    changed = marker("one", probe(podConditionType="another"))
    assert of(marker("one"), changed) == {N1}
    assert of(marker("one"), msgspec.structs.replace(marker("one"), resource_version=8)) == set()
    assert of(marker("two"), None) == set()
    assert of(None, marker("one")) == of(marker("one"), None) == {N1}
    assert of(marker("one"), msgspec.structs.replace(marker("one"), uid="made-again")) == {N1}
