"""Changes of pods and workloads that wake a PersistentPodState."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.persistentpodstate.kind import KIND
from pykruise.kinds.persistentpodstate.snapshot import StateSettings
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    RecordedWorkload,
    StateView,
    workload_of,
)
from pykruise.kube.documents import encode
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import INJECTED_STATE_ANNOTATION
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.ordinals import reserved_of
from support.snapshots import control_of
from support.state_world import NAME, TARGET, StateWorld
from support.wakes import Woken


def pod(*, is_owned: bool = True, is_ready: bool = True, **metadata: Any) -> PodView:
    """The pod web-0, owned by the workload or without an owner."""
    world = StateWorld()
    world.put_pod(0, node="n0", ready=is_ready)
    (document,) = world.pods.values()
    document["metadata"] |= metadata
    if not is_owned:
        del document["metadata"]["ownerReferences"]
    return project_pod(encode(document))


GOES = {"deletionTimestamp": "2026-01-31T12:00:00Z"}
GOING = pod(**GOES)


@pytest.mark.parametrize(
    ("old", "new", "is_heard"),
    [
        pytest.param(None, pod(is_ready=False), False, id="comes"),
        pytest.param(None, pod(), True, id="is there and ready"),
        pytest.param(pod(), pod(labels={"a": "b"}), False, id="is labelled"),
        pytest.param(
            pod(is_ready=False), pod(is_ready=False, labels={"a": "b"}), False, id="is not ready yet"
        ),
        pytest.param(GOING, pod(**GOES, labels={"a": "b"}), False, id="terminates still"),
        pytest.param(
            pod(is_owned=False, is_ready=False), pod(is_owned=False), False, id="of nobody is ready"
        ),
        pytest.param(pod(is_ready=False), pod(), True, id="is ready"),
        pytest.param(pod(), pod(is_ready=False), False, id="is not ready any more"),
        pytest.param(pod(), GOING, True, id="terminates"),
        pytest.param(pod(), None, True, id="is gone"),
        pytest.param(pod(is_owned=False), pod(), True, id="is adopted"),
        pytest.param(pod(), pod(is_owned=False), True, id="is released"),
        pytest.param(pod(is_owned=False), None, False, id="of nobody is gone"),
    ],
)
def test_a_pod_enqueues_when_its_record_may_change(
    old: PodView | None, new: PodView | None, is_heard: bool
) -> None:
    assert among(StateWorld().view).by(POD_VIEWS, old, new) == ([NAME] if is_heard else [])


def named(name: str, **spec: Any) -> StateView:
    return msgspec.structs.replace(StateWorld(**spec).view, name=name)


def among(*states: StateView) -> Woken:
    """Events for these PersistentPodStates, and for one that is unreadable."""
    return Woken(KIND, {STATE_VIEWS: [*states, named("broken", targetRef=3)]}, settings=StateSettings())


@pytest.mark.parametrize(
    ("noted", "woken"),
    [("other", ["other"]), ("gone", [NAME]), ("", [NAME])],
    ids=["it is there", "it is gone", "none"],
)
def test_a_pod_enqueues_the_state_that_placed_it_or_else_that_of_its_workload(
    noted: str, woken: list[str]
) -> None:
    states = among(StateWorld().view, named("other", targetRef={**TARGET, "name": "x"}))
    noting = {INJECTED_STATE_ANNOTATION: noted}
    assert states.by(POD_VIEWS, pod(annotations=noting), None) == woken


def test_a_pod_of_a_workload_without_a_state_enqueues_nothing() -> None:
    assert among(named("other", targetRef={**TARGET, "name": "x"})).by(POD_VIEWS, pod(), None) == []


# ── nodes ────────────────────────────────────────────────────────────────────


def node(number: int, labels: dict[str, str] | None = None) -> NodeView:
    result = {"zone": f"z{number}", "host": f"h{number}"} if labels is None else labels
    return NodeView(name=f"n{number}", uid=f"u{number}", resource_version=1, labels=result)


def recording_n0() -> StateView:
    """A PersistentPodState that records zone and host of n0."""
    world = StateWorld(requiredPersistentTopology={"keys": ["zone", "host"]})
    assert world.state is not None
    world.state["status"] = {"podStates": {"web-0": {"nodeName": "n0"}}}
    return world.view


@pytest.mark.parametrize(
    ("old", "new", "is_heard"),
    [
        pytest.param(node(0), node(0, {"zone": "other", "host": "h0"}), True, id="another value"),
        pytest.param(node(0, {"host": "h0"}), node(0), True, id="it comes"),
        pytest.param(node(0), node(0, {"zone": "z0"}), True, id="it goes"),
        pytest.param(node(0), node(0, {"zone": "z0", "host": "h0", "x": "y"}), False, id="of nobody"),
        pytest.param(node(0), node(0), False, id="a heartbeat"),
        pytest.param(node(1), node(1, {"zone": "other"}), False, id="of a node that is not recorded"),
        pytest.param(None, node(0), False, id="the node comes"),
        pytest.param(node(0), None, False, id="the node goes"),
    ],
)
def test_a_node_enqueues_the_states_that_record_a_changed_label(
    old: NodeView | None, new: NodeView | None, is_heard: bool
) -> None:
    assert among(recording_n0()).by(NODE_VIEWS, old, new) == ([NAME] if is_heard else [])


# ── workloads ────────────────────────────────────────────────────────────────


def workload(*, asks: bool = False, **fields: Any) -> RecordedWorkload:
    """The workload web."""
    document = StateWorld().workload
    assert document is not None
    return msgspec.structs.replace(workload_of(document), is_generating=asks, **fields)


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        pytest.param(None, workload(), ["theirs"], id="comes"),
        pytest.param(None, workload(asks=True), ["theirs", NAME], id="comes and asks"),
        pytest.param(workload(), workload(resource_version=9), [], id="is labelled"),
        pytest.param(workload(), workload(asks=True), ["theirs", NAME], id="asks"),
        pytest.param(workload(asks=True), workload(), ["theirs", NAME], id="does not ask any more"),
        pytest.param(workload(asks=True), None, ["theirs", NAME], id="asked and is gone"),
        pytest.param(workload(), None, ["theirs"], id="is gone"),
        *(
            pytest.param(workload(), workload(**change), ["theirs"], id="".join(change))
            for change in (
                *({"uid": "w2"}, {"is_deleting": True}, {"replicas": 9}, {"start": 1}),
                *({"reserved": reserved_of([1])}, {"required": ("a",)}, {"preferred": ("a",)}),
                {"pod_annotations": ("a",)},
            )
        ),
    ],
)
def test_a_workload_enqueues_the_states_that_target_it_and_the_one_it_requests(
    old: RecordedWorkload | None, new: RecordedWorkload | None, woken: list[str]
) -> None:
    """LIFT-3, LIFT-4"""
    # given one that records pods of the workload, and one of another kind of workload
    states = among(named("theirs"), named("other", targetRef={**TARGET, "apiVersion": "apps/v1"}))
    # then
    assert states.by(WORKLOAD_VIEWS[ADVANCED], old, new) == sorted(woken)


def test_workloads_are_watched_without_states_and_pods_are_not() -> None:
    control = control_of(KIND)
    heard = {wake.on for wake in control.wakes(StateSettings()) if control.wakes_always(wake)}
    assert heard == {STATE_VIEWS, *WORKLOAD_VIEWS.values()}
