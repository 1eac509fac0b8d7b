"""What is done for a PodProbeMarker, as values."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.kinds.podprobemarker.kind import KIND
from pykruise.kinds.podprobemarker.plan import FINALIZER
from pykruise.kinds.podprobemarker.snapshot import Settings
from pykruise.kube.documents import encode
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.nodes import NodeView
from pykruise.pods.probes import MarkerView, NodeProbesView
from pykruise.pods.reasons import Code
from pykruise.pods.views import PodView
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.probe_objects import EXEC, NOW, entry, marker, node, node_probes, pod, probe
from support.snapshots import control_of, read_of

VIRTUAL = {"type": "virtual-kubelet"}


class Annotations:
    """An API server whose pods have these annotations."""

    def __init__(self, **annotations: str) -> None:
        self._annotations = annotations

    async def get(self, _resource: object, _namespace: str, name: str) -> bytes:
        return encode({"metadata": {"name": name, "uid": f"uid-{name}", "annotations": self._annotations}})


def planned(
    view: MarkerView,
    *,
    pods: Iterable[PodView] = (),
    nodes: Iterable[NodeView] | None = None,
    asked: Iterable[NodeProbesView] = (),
    on_virtual_nodes: bool = False,
) -> Plan:
    objects: dict[Any, Any] = {
        POD_VIEWS: list(pods),
        NODE_VIEWS: [node()] if nodes is None else list(nodes),
        NODE_PROBES_VIEWS: list(asked),
    }
    settings = Settings(on_virtual_nodes=on_virtual_nodes)
    read = read_of(KIND, view, objects, settings=settings, now=NOW, live=Annotations(kept="yes", old="x"))
    control = control_of(KIND)
    return control.plan(asyncio.run(control.snapshot(view, read)))  # type: ignore[arg-type]


def patches(plan: Plan, purpose: Purpose) -> dict[str, Patch]:
    """By subject: the writes for a purpose."""
    found = [stage for stage in plan.stages if stage.purpose is purpose]
    return {
        chain.subject: step.action
        for stage in found
        for chain in stage.chains
        for step in chain.steps
        if isinstance(step.action, Patch)
    }


def entries_of(plan: Plan) -> dict[str, Any]:
    """By node: the entries as they are to be."""
    asked = patches(plan, Purpose.ASK_TO_PROBE)
    assert all(one.resource_version == "9" for one in asked.values())
    return {name: one.body["spec"]["podProbes"] for name, one in asked.items()}


def test_an_initialized_pod_is_asked_for_on_its_node() -> None:
    """containers case 43"""
    plan = planned(marker(), pods=[pod()], asked=[node_probes("n1")])
    assert entries_of(plan) == {"n1": [entry(pod(), "game#idle")]}
    assert plan.status == {"observedGeneration": 3, "matchedPods": 1}


def test_a_marker_is_held_before_anything_is_asked_for_it() -> None:
    plan = planned(marker(metadata={"finalizers": []}), pods=[pod()], asked=[node_probes("n1")])
    assert [stage.purpose for stage in plan.stages] == [Purpose.HOLD_MARKER, Purpose.ASK_TO_PROBE]


def test_pods_that_are_not_so_far_or_not_selected_are_left_alone() -> None:
    others = [
        pod("a", is_initialized=False),
        pod("b", phase="Succeeded"),
        pod("c", node=""),
        pod("d", node="unknown"),
        pod("e", labels={"app": "other"}),
    ]
    plan = planned(marker(), pods=others, asked=[node_probes("n1")])
    assert (plan.stages, plan.status) == ((), {"observedGeneration": 3, "matchedPods": 0})


def test_what_is_as_it_should_be_is_not_written() -> None:
    view = marker()
    plan = planned(view, pods=[pod()], asked=[node_probes("n1", entry(pod(), "other#x", "game#idle"))])
    assert not plan.stages


def test_a_port_is_stored_by_its_number_and_one_without_is_left_out() -> None:
    """containers case 48"""
    view = marker(
        "game",
        probe("web", on={"tcpSocket": {"port": "web"}}),
        probe("lost", on={"httpGet": {"path": "/", "port": "lost"}}, podConditionType="b"),
        probe("text", on={"httpGet": {"path": "/", "port": "81"}}, podConditionType="c"),
    )
    one = pod(ports=[{"name": "web", "containerPort": 8080}])
    plan = planned(view, pods=[one], asked=[node_probes("n1")])
    ((found,),) = entries_of(plan).values()
    assert [(probe["name"], probe["probe"]) for probe in found["probes"]] == [
        ("game#web", {"tcpSocket": {"port": 8080}}),
        ("game#text", {"httpGet": {"path": "/", "port": 81}}),
    ]
    assert plan.skipped["web-0"].code is Code.PROBE_PORT


def test_an_address_that_comes_later_or_changes_is_filled_in() -> None:
    """containers case 49"""
    for before in ("", "10.9.9.9"):
        asked = node_probes("n1", entry(pod(), "game#idle", ip=before))
        ((found,),) = entries_of(planned(marker(), pods=[pod()], asked=[asked])).values()
        assert found["IP"] == "10.0.0.1"


def test_probes_and_pods_that_the_marker_has_no_more_are_taken_back() -> None:
    gone = entry(pod("gone"), "game#idle")
    kept = entry(pod("kept"), "game#idle", "xgame#idle")
    asked = node_probes("n1", entry(pod(), "game#old", "game#idle"), gone, kept)
    plan = planned(marker(), pods=[pod()], asked=[asked])
    assert entries_of(plan) == {"n1": [entry(pod(), "game#idle"), entry(pod("kept"), "xgame#idle")]}


def test_a_marker_that_goes_takes_back_its_probes_wherever_they_are_and_no_others() -> None:
    """containers case 50"""
    view = marker("a", metadata={"deletionTimestamp": "2026-03-01T11:00:00Z", "finalizers": ["x", FINALIZER]})
    asked = [
        node_probes("n1", entry(pod(), "a#idle", "xa#idle")),
        node_probes("n2", entry(pod("other", node="n2"), "a#idle")),
        node_probes("n3", entry(pod("far"), "a#idle", namespace="elsewhere")),
    ]
    plan = planned(view, pods=[pod()], asked=asked)
    assert entries_of(plan) == {"n1": [entry(pod(), "xa#idle")], "n2": None}
    assert [stage.purpose for stage in plan.stages] == [Purpose.ASK_TO_PROBE, Purpose.RELEASE_MARKER]
    assert patches(plan, Purpose.RELEASE_MARKER)["a"].body == {"metadata": {"finalizers": ["x"]}}


def test_a_node_without_nodepodprobe_is_said() -> None:
    plan = planned(marker(), pods=[pod()])
    assert plan.skipped["web-0"].code is Code.NO_AGENT


POLICIES = [
    {"state": "Succeeded", "labels": {"idle": "yes"}, "annotations": {"cost": "-10"}},
    {"state": "Failed", "labels": {"busy": "yes"}, "annotations": {"old": "x"}},
]


def on_virtual(status: str, *, gate: bool = True, **more: Any) -> Plan:
    view = marker("game", probe(podConditionType="game.io/idle", markerPolicy=POLICIES))
    one = pod(conditions=[{"type": "game.io/idle", "status": status}], **more)
    return planned(
        view, pods=[one], nodes=[node(labels=VIRTUAL)], asked=[node_probes("n1")], on_virtual_nodes=gate
    )


def marks(plan: Plan) -> Mapping[str, Any]:
    (patch,) = patches(plan, Purpose.MARK_PODS).values()
    found: Mapping[str, Any] = patch.body["metadata"]
    return found


def test_a_pod_on_a_virtual_node_is_marked_by_its_condition_and_asked_for_nowhere() -> None:
    """containers case 59"""
    plan = on_virtual("True", labels={"busy": "yes"})
    assert marks(plan) == {
        "labels": {"idle": "yes", "busy": None},
        "annotations": {"cost": "-10", "old": None},
    }
    assert not patches(plan, Purpose.ASK_TO_PROBE)
    assert plan.status == {"observedGeneration": 3, "matchedPods": 1}


def test_without_the_gate_a_pod_on_a_virtual_node_is_not_marked() -> None:
    assert not on_virtual("True", gate=False).stages


def test_a_spec_that_cannot_be_read_touches_nothing_and_says_so() -> None:
    plan = planned(marker(probes="x"), pods=[pod()], asked=[node_probes("n1")])
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC


def test_the_example_of_a_probe_is_stored_as_it_was_given() -> None:
    given = {**EXEC, "periodSeconds": 5, "failureThreshold": 3}
    plan = planned(marker("game", probe(on=given)), pods=[pod()], asked=[node_probes("n1")])
    ((found,),) = entries_of(plan).values()
    assert found["probes"][0]["probe"] == given
