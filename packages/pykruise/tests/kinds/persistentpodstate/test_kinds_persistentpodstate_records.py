"""Contents of records, and pods that a plan leaves unchanged."""

from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.plan import NODE_AGAIN_S
from pykruise.kube.documents import Document
from pykruise.pods.reasons import Code
from pykruise.runtime.plan import Plan
from support.state_world import StateWorld

IP = {"persistentPodAnnotations": [{"key": "ip"}]}
BOTH = {"requiredPersistentTopology": {"keys": ["zone", "host"]}}


def world(stored: Document | None = None, *, replicas: int = 3, **spec: Any) -> StateWorld:
    """Node n0 in zone z0, and a PersistentPodState with these records."""
    state_world = StateWorld(replicas=replicas, **spec)
    state_world.put_node("n0", zone="z0")
    assert state_world.state is not None
    state_world.state["status"] = {"observedGeneration": 1, "podStates": stored}
    return state_world


def skipped(plan: Plan) -> dict[str, Code]:
    return {name: reason.code for name, reason in plan.skipped.items()}


def test_a_record_has_no_empty_fields() -> None:
    # given a node without a recorded label, and a pod without a recorded annotation
    state_world = world(**BOTH, **IP)
    state_world.put_node("n0", rack="r0")
    state_world.put_pod(0, node="n0", annotations={"x": "y"})
    # then
    assert state_world.sync(times=1).records == {"web-0": {"nodeName": "n0"}}
    assert state_world.plan().status == (state_world.state or {})["status"]


@pytest.mark.parametrize(
    "stored",
    [
        {"nodeName": "n0"},
        {"nodeName": "n0", "nodeTopologyLabels": None, "annotations": None},
        {"nodeName": "n0", "nodeTopologyLabels": {"zone": "z0"}, "annotations": {"x": "y"}},
    ],
    ids=["nothing", "nulls", "an annotation that is not recorded any more"],
)
def test_an_incomplete_or_outdated_record_is_replaced(stored: Document) -> None:
    """persistentpodstate cases 8 and 9"""
    state_world = world({"web-0": stored})
    state_world.put_pod(0, node="n0")
    assert state_world.sync(times=1).records == {
        "web-0": {"nodeName": "n0", "nodeTopologyLabels": {"zone": "z0"}}
    }


def test_an_annotation_that_is_recorded_from_now_on_is_taken() -> None:
    state_world = world({"web-0": {"nodeName": "n0", "nodeTopologyLabels": {"zone": "old"}}}, **IP)
    state_world.put_pod(0, node="n0", annotations={"ip": "1.1.1.1"})
    state_world.sync(times=1)
    record = {"nodeName": "n0", "nodeTopologyLabels": {"zone": "z0"}, "annotations": {"ip": "1.1.1.1"}}
    assert state_world.records == {"web-0": record}
    # and an equal record needs no write
    assert state_world.plan().status == (state_world.state or {})["status"]


def test_records_are_in_the_order_of_their_names() -> None:
    state_world = world({"web-2": {"nodeName": "n0"}, "web-0": {"nodeName": "n0"}})
    state_world.put_pod(1, node="n0")
    assert list(state_world.sync(times=1).records) == ["web-0", "web-1", "web-2"]


@pytest.mark.parametrize("stored", [None, {}, "x", {"web-0": 3}])
def test_an_empty_or_invalid_status_has_no_records(stored: Any) -> None:
    state_world = world(stored)
    assert state_world.view.records == {}
    assert state_world.plan().status == {"observedGeneration": 1}


def test_a_pod_that_is_not_ready_is_named_and_one_without_a_node_is_simply_waited_for() -> None:
    """persistentpodstate cases 2 and 3"""
    state_world = world()
    state_world.put_pod(0, node="n0")
    state_world.put_pod(1, node="n0", ready=False)
    state_world.put_pod(2)
    plan = state_world.plan()
    assert skipped(plan) == {"web-1": Code.NOT_READY}
    assert plan.requeue_after_s is None


def test_records_without_an_ordinal_stay_and_those_of_surplus_pods_are_removed() -> None:
    """persistentpodstate case 24"""
    record = {"nodeName": "n0"}
    stays = {"web-abc": record, "web-": record, "web-\u0661": record, "web-1x": record}
    plan = world({**stays, "web-0": record, "web-1": record, "7": record}, replicas=1).plan()
    assert plan.status == {"observedGeneration": 1, "podStates": {**stays, "web-0": record}}
    assert skipped(plan) == dict.fromkeys(stays, Code.OTHER)


def test_a_pod_on_an_unknown_node_is_requeued_soon_and_others_are_not() -> None:
    """persistentpodstate case 12"""
    state_world = world()
    state_world.put_pod(0, node="n0")
    assert state_world.plan().requeue_after_s is None
    state_world.put_pod(1, node="n7")
    assert state_world.plan().requeue_after_s == NODE_AGAIN_S


def test_an_unreadable_state_keeps_its_records_and_reports_the_reason() -> None:
    state_world = world({"web-9": {"nodeName": "n0"}}, targetRef=3)
    plan = state_world.plan()
    assert (plan.status, list(plan.steps)) == (None, [])
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    assert "spec.targetRef" in plan.waiting.message
