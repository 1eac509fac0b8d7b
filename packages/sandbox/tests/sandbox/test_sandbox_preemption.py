"""Victims of preemption: pure choices over a ledger, and preemption in a cluster."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kube.documents import encode
from pykruise.kube.resources import EVENTS, POD_DISRUPTION_BUDGETS, PODS, Resource
from pykruise.kube.values.selectors import parse_selector
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.ledger import NodeLedger
from pykruise.sandbox.nodes.specs import NodeSpec, SandboxNodeView, build_node_document, project_node
from pykruise.sandbox.pod_view import SandboxPodView
from pykruise.sandbox.scheduling.preemption import NEVER, Budget, NoRoom, PreemptionRoom, make_room
from support.paper import START, pod_document, view
from support.sandbox import Object, Place, pod, small_cluster

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)


def node(name: str) -> SandboxNodeView:
    """A node with four CPUs."""
    doc = build_node_document(NodeSpec(name=name, cpu="4"), now=START)
    doc["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
    return project_node(encode(doc))


def paper_pod(name: str, priority: int, *, cpu: str = "2", started: str = "", **spec: Any) -> SandboxPodView:
    doc = pod_document(name, node="", labels={"app": name})
    doc["spec"] |= {"priority": priority, **spec}
    doc["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    doc["status"] = {"startTime": started} if started else {}
    return view(doc)


def book(**placed: Sequence[SandboxPodView]) -> NodeLedger:
    """A ledger of these nodes with their pods."""
    made = NodeLedger()
    for name, pods in placed.items():
        made.set_node(node(name))
        for item in pods:
            made.place(item, name)
    return made


def room(new: SandboxPodView, ledger: NodeLedger, *budgets: Budget) -> tuple[str, list[str]]:
    """The chosen node, and the victims on it."""
    before = {name: (load.pods, dict(load.used)) for name, load in ledger.nodes.items()}
    answer = make_room(new, ledger, hopeful=[*ledger.nodes], budgets=budgets)
    assert {name: (load.pods, dict(load.used)) for name, load in ledger.nodes.items()} == before
    assert isinstance(answer, PreemptionRoom), answer
    return answer.node, [victim.name for victim in answer.victims]


def protecting(name: str, allowed: int = 0) -> Budget:
    return Budget("default", parse_selector({"matchLabels": {"app": name}}), allowed)


def test_no_more_pods_are_preempted_than_necessary() -> None:
    ledger = book(n1=[paper_pod("a", 5, cpu="1"), paper_pod("b", 1, cpu="1"), paper_pod("c", 3, cpu="2")])
    assert room(paper_pod("new", 10, cpu="1"), ledger) == ("n1", ["b"])
    assert room(paper_pod("new", 10, cpu="3"), ledger) == ("n1", ["c", "b"])


def test_the_node_is_taken_whose_most_important_victim_is_least_important() -> None:
    ledger = book(n1=[paper_pod("a", 5, cpu="4")], n2=[paper_pod("b", 3, cpu="4")])
    assert room(paper_pod("new", 10), ledger) == ("n2", ["b"])


def test_preemption_chooses_the_fewest_and_then_the_youngest_of_equal_victims() -> None:
    # given
    two = [paper_pod("a", 3, cpu="2"), paper_pod("b", 3, cpu="2")]
    old = [paper_pod("old", 3, cpu="4", started="2026-01-01T00:00:00Z")]
    young = [paper_pod("young", 3, cpu="4", started="2026-01-02T00:00:00Z")]
    # then
    assert room(paper_pod("new", 10, cpu="4"), book(n1=two, n2=old, n3=young)) == ("n3", ["young"])


def test_pods_with_an_exhausted_budget_are_preempted_last() -> None:
    # given budgets that protect the less important pod, or allow its disruption
    ledger = book(n1=[paper_pod("a", 5), paper_pod("b", 3)])
    # then
    assert room(paper_pod("new", 10), ledger) == ("n1", ["b"])
    assert room(paper_pod("new", 10), ledger, protecting("b")) == ("n1", ["a"])
    assert room(paper_pod("new", 10), ledger, protecting("b", allowed=1)) == ("n1", ["b"])
    # and a budget does not protect a pod if the new pod needs the whole node
    assert room(paper_pod("new", 10, cpu="4"), ledger, protecting("b")) == ("n1", ["a", "b"])


def test_a_node_without_violated_budgets_is_preferred() -> None:
    ledger = book(n1=[paper_pod("a", 1, cpu="4")], n2=[paper_pod("b", 5, cpu="4")])
    assert room(paper_pod("new", 10), ledger, protecting("a")) == ("n2", ["b"])


def test_a_failed_preemption_reports_the_reasons_of_all_nodes() -> None:
    # given a node with pods of the same priority, one too small even when empty, one that cannot be used at all
    ledger = book(n1=[paper_pod("a", 10, cpu="4")], n2=[paper_pod("b", 1, cpu="4")], n3=[])
    # when
    answer = make_room(paper_pod("new", 10, cpu="8"), ledger, hopeful=["n1", "n2"])
    # then
    assert answer == NoRoom(
        "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_does_not_preempt_makes_no_room() -> None:
    ledger = book(n1=[paper_pod("a", 1, cpu="4")])
    answer = make_room(paper_pod("new", 10, preemptionPolicy="Never"), ledger, hopeful=["n1"])
    assert answer == NoRoom(NEVER)


# ── in a cluster ─────────────────────────────────────────────────────────────


async def with_classes(place: Place, **values: int) -> None:
    for name, value in values.items():
        await place.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def of(name: str, priority_class: str, **fields: Any) -> Object:
    return pod(name, requests={"cpu": "1"}, priorityClassName=priority_class, **fields)


async def test_a_preempting_pod_is_nominated_and_starts_when_its_victim_has_stopped() -> None:
    async with small_cluster(ClusterSettings(nodes=1, node_cpu="1", stop_s=20.0)) as place:
        # given
        await with_classes(place, low=1, high=9)
        await place.create(PODS, of("small", "low"))
        await place.until(lambda: place.is_ready("small"))
        # when
        await place.create(PODS, of("great", "high", labels={"app": "great"}))
        await asyncio.sleep(5)
        # then
        victim = await place.get(PODS, "small")
        assert victim["metadata"]["deletionTimestamp"]
        condition = await place.condition("small", "DisruptionTarget")
        assert (condition["reason"], condition["message"]) == (
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        status = (await place.get(PODS, "great"))["status"]
        assert status["nominatedNodeName"] == "node-1"
        said = (await place.condition("great", "PodScheduled"))["message"]
        assert said.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        await place.until(lambda: place.is_ready("great"), within_s=30)


async def test_a_pod_of_lower_priority_does_not_use_the_room_cleared_for_another() -> None:
    async with small_cluster(ClusterSettings(nodes=1, node_cpu="1", stop_s=20.0)) as place:
        # given a pod that waits for its victim
        await with_classes(place, low=1, middle=5, high=9)
        await place.create(PODS, of("small", "low"))
        await place.until(lambda: place.is_ready("small"))
        await place.create(PODS, of("great", "high"))
        await asyncio.sleep(1)
        # when another pod is created in the meantime
        await place.create(PODS, of("between", "middle"))
        await asyncio.sleep(60)
        # then
        assert await place.is_ready("great")
        assert "nodeName" not in (await place.get(PODS, "between"))["spec"]
        names = [name for name in await place.names(EVENTS) if name.startswith("between")]
        assert names


@pytest.mark.parametrize("minimum", [1, 0])
async def test_budgets_choose_the_victim(minimum: int) -> None:
    async with small_cluster(ClusterSettings(nodes=1, node_cpu="2", stop_s=0.0)) as place:
        # given
        await with_classes(place, low=1, lower=0, high=9)
        selector = {"matchLabels": {"app": "guarded"}}
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": minimum, "selector": selector}}
        await place.create(POD_DISRUPTION_BUDGETS, budget)
        await place.create(PODS, of("guarded", "lower", labels={"app": "guarded"}))
        await place.create(PODS, of("free", "low"))
        await place.until(lambda: place.is_ready("guarded"))
        await place.until(lambda: place.is_ready("free"))
        # when
        await place.create(PODS, of("great", "high"))
        await place.until(lambda: place.is_ready("great"))
        # then
        assert await place.exists(PODS, "guarded") is (minimum == 1)
        assert await place.exists(PODS, "free") is (minimum == 0)
