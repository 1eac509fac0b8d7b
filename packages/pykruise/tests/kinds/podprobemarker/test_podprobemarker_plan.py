"""Plans of a PodProbeMarker, without a cluster."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pykruise.kinds.podprobemarker.kind import KIND
from pykruise.kinds.podprobemarker.plan import FINALIZER
from pykruise.kinds.podprobemarker.snapshot import PodProbeMarkerSettings
from pykruise.kube.documents import encode
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.probes.views import MarkerView, NodeProbesView
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.probe_objects import EXEC, NOW, entry, marker, node, node_probes, pod, probe
from support.snapshots import control_of, read_of

VIRTUAL = {"type": "virtual-kubelet"}


class Annotations:
    """An API server whose pods have these annotations; it counts the requests."""

    def __init__(self, **annotations: str) -> None:
        self._annotations = annotations
        self.asked = 0

    async def get(self, _resource: object, _namespace: str, name: str) -> bytes:
        self.asked += 1
        return encode({"metadata": {"name": name, "uid": f"uid-{name}", "annotations": self._annotations}})


def planned(
    view: MarkerView,
    *,
    pods: Iterable[PodView] = (),
    nodes: Iterable[NodeView] | None = None,
    asked: Iterable[NodeProbesView] = (),
    on_virtual_nodes: bool = False,
    server: Annotations | None = None,
) -> Plan:
    objects: dict[Any, Any] = {
        POD_VIEWS: list(pods),
        NODE_VIEWS: [node()] if nodes is None else list(nodes),
        NODE_PROBES_VIEWS: list(asked),
    }
    settings = PodProbeMarkerSettings(on_virtual_nodes=on_virtual_nodes)
    live = server or Annotations(kept="yes", old="x")
    read = read_of(KIND, view, objects, settings=settings, now=NOW, live=live)
    control = control_of(KIND)
    return control.plan(asyncio.run(control.snapshot(view, read)))  # type: ignore[arg-type]


def patches(plan: Plan, purpose: Purpose) -> dict[str, Patch]:
    """The patches for a purpose, by the subject of their chain."""
    stages = [stage for stage in plan.stages if stage.purpose is purpose]
    return {
        chain.subject: step.action
        for stage in stages
        for chain in stage.chains
        for step in chain.steps
        if isinstance(step.action, Patch)
    }


def entries_of(plan: Plan) -> dict[str, Any]:
    """The entries that the plan writes, by node."""
    asked = patches(plan, Purpose.ASK_TO_PROBE)
    assert all(patch.resource_version == "9" for patch in asked.values())
    return {name: patch.body["spec"]["podProbes"] for name, patch in asked.items()}


def test_an_initialized_pod_gets_an_entry_on_its_node() -> None:
    """containers case 43"""
    plan = planned(marker(), pods=[pod()], asked=[node_probes("n1")])
    assert entries_of(plan) == {"n1": [entry(pod(), "game#idle")]}
    assert plan.status == {"observedGeneration": 3, "matchedPods": 1}
    assert plan.skipped == {}


def test_entries_are_sorted_by_pod_name_and_nodes_are_written_independently() -> None:
    plan = planned(
        marker(),
        pods=[pod("c", node="n1"), pod("b", node="n2"), pod("a", node="n1")],
        nodes=[node("n2"), node("n1")],
        asked=[node_probes(name) for name in ("n3", "n2", "n1")],
    )
    result = entries_of(plan)
    assert list(result) == ["n1", "n2"]
    assert [item["name"] for item in result["n1"]] == ["a", "c"]
    (stage,) = plan.stages
    assert stage.is_independent


def test_a_marker_gets_its_finalizer_before_any_entry_is_written() -> None:
    plan = planned(marker(metadata={"finalizers": ["x"]}), pods=[pod()], asked=[node_probes("n1")])
    assert [stage.purpose for stage in plan.stages] == [Purpose.HOLD_MARKER, Purpose.ASK_TO_PROBE]
    (held,) = patches(plan, Purpose.HOLD_MARKER).values()
    assert held.body == {"metadata": {"finalizers": ["x", FINALIZER]}}
    assert held.resource_version == "7", "finalizers that came meanwhile are not lost"


def test_uninitialized_finished_and_unselected_pods_get_no_entry() -> None:
    others = [
        pod("a", is_initialized=False),
        pod("b", phase="Succeeded"),
        pod("c", node=""),
        pod("d", node="unknown"),
        pod("e", labels={"app": "other"}),
        pod("f", is_initialized=None),
    ]
    plan = planned(marker(), pods=others, asked=[node_probes("n1")])
    assert (plan.stages, plan.status) == ((), {"observedGeneration": 3, "matchedPods": 0})


def test_an_up_to_date_entry_is_not_written() -> None:
    view = marker()
    there = entry(pod(), "other#x", "game#idle", "third#y")
    plan = planned(view, pods=[pod()], asked=[node_probes("n1", there)])
    assert not plan.stages


def test_pods_of_other_namespaces_are_left_to_the_markers_there() -> None:
    far = entry(pod(), "game#idle", ip="10.9.9.9", namespace="elsewhere")
    plan = planned(marker(), pods=[pod()], asked=[node_probes("n1", far)])
    assert entries_of(plan) == {"n1": [far, entry(pod(), "game#idle")]}


def test_an_entry_without_probes_is_removed() -> None:
    empty = {**entry(pod("empty")), "probes": None}
    assert entries_of(planned(marker(), asked=[node_probes("n1", empty)], pods=[pod()])) == {
        "n1": [entry(pod(), "game#idle")]
    }


def test_a_terminating_or_unreadable_nodepodprobe_is_not_written() -> None:
    for changed in ({"is_deleting": True}, {"problem": "spec.podProbes: Expected `array`, got `str`"}):
        there = msgspec.structs.replace(node_probes("n1"), **changed)
        plan = planned(marker(), pods=[pod()], asked=[there])
        assert (plan.stages, plan.skipped) == ((), {})


def test_while_nodepodprobes_have_not_been_read_nothing_is_decided() -> None:
    view = marker()
    objects: dict[Any, Any] = {NODE_PROBES_VIEWS: None, POD_VIEWS: [pod()], NODE_VIEWS: [node()]}
    read = read_of(KIND, view, objects, settings=PodProbeMarkerSettings(), now=NOW)
    assert asyncio.run(control_of(KIND).snapshot(view, read)) is None  # type: ignore[arg-type]


def test_a_port_is_stored_by_its_number_and_one_without_is_left_out() -> None:
    """containers case 48"""
    view = marker(
        "game",
        probe("web", on={"tcpSocket": {"port": "web"}}),
        probe("lost", on={"httpGet": {"path": "/", "port": "lost"}}, podConditionType="b"),
        probe("text", on={"httpGet": {"path": "/", "port": "81"}}, podConditionType="c"),
    )
    other = {"name": "beside", "image": "b", "ports": [{"name": "web", "containerPort": 1}]}
    item = pod(ports=[{"name": "web", "containerPort": 8080}], others=[other])
    plan = planned(view, pods=[item], asked=[node_probes("n1")])
    ((result,),) = entries_of(plan).values()
    assert [(probe["name"], probe["probe"]) for probe in result["probes"]] == [
        ("game#web", {"tcpSocket": {"port": 8080}}),
        ("game#text", {"httpGet": {"path": "/", "port": 81}}),
    ]
    assert plan.skipped["web-0"].code is Code.PROBE_PORT


def test_a_port_of_a_native_sidecar_is_found_by_its_name() -> None:
    proxy = {"name": "proxy", "image": "b", "ports": [{"name": "admin", "containerPort": 15000}]}
    view = marker("game", probe("up", containerName="proxy", on={"tcpSocket": {"port": "admin"}}))
    item = pod(init_containers=[{**proxy, "restartPolicy": "Always"}])
    plan = planned(view, pods=[item], asked=[node_probes("n1")])
    ((result,),) = entries_of(plan).values()
    assert [probe["probe"] for probe in result["probes"]] == [{"tcpSocket": {"port": 15000}}]
    # but an init container that ends is not probed
    plan = planned(view, pods=[pod(init_containers=[proxy])], asked=[node_probes("n1")])
    assert (plan.stages, plan.skipped["web-0"].code) == ((), Code.PROBE_PORT)


@pytest.mark.parametrize("port", ["lost", "8o", "٨٠"])
def test_a_pod_without_a_resolvable_probe_port_gets_no_entry(port: str) -> None:
    view = marker("game", probe("web", on={"tcpSocket": {"port": port}}))
    plan = planned(view, pods=[pod()], asked=[node_probes("n1")])
    assert (plan.stages, plan.skipped["web-0"].code) == ((), Code.PROBE_PORT)


def test_a_later_or_changed_pod_address_is_written() -> None:
    """containers case 49"""
    for before in ("", "10.9.9.9"):
        asked = node_probes("n1", entry(pod(), "game#idle", ip=before))
        ((result,),) = entries_of(planned(marker(), pods=[pod()], asked=[asked])).values()
        assert result["IP"] == "10.0.0.1"


def test_removed_probes_and_unselected_pods_lose_their_entries() -> None:
    gone = entry(pod("gone"), "game#idle")
    kept = entry(pod("kept"), "game#idle", "xgame#idle")
    asked = node_probes("n1", entry(pod(), "game#old", "game#idle"), gone, kept)
    plan = planned(marker(), pods=[pod()], asked=[asked])
    assert entries_of(plan) == {"n1": [entry(pod(), "game#idle"), entry(pod("kept"), "xgame#idle")]}


def test_a_terminating_marker_removes_only_its_own_probes_on_all_nodes() -> None:
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
    assert plan.stages[0].is_independent, "one node does not wait for another"


def test_a_released_marker_removes_nothing() -> None:
    view = marker("a", metadata={"deletionTimestamp": "2026-03-01T11:00:00Z", "finalizers": ["x"]})
    assert not planned(view, pods=[pod()], asked=[node_probes("n1", entry(pod(), "a#idle"))]).stages


def test_a_node_without_a_nodepodprobe_is_reported() -> None:
    plan = planned(marker(), pods=[pod()])
    assert plan.skipped["web-0"].code is Code.NO_AGENT


IDLE = {"state": "Succeeded", "labels": {"idle": "yes"}}
POLICIES = [
    {"state": "Succeeded", "labels": {"idle": "yes"}, "annotations": {"cost": "-10"}},
    {"state": "Failed", "labels": {"busy": "yes"}, "annotations": {"old": "x"}},
]


def on_virtual(
    status: str,
    *others: Mapping[str, Any],
    gate: bool = True,
    policies: Sequence[Mapping[str, Any]] = POLICIES,
    server: Annotations | None = None,
    **more: Any,
) -> Plan:
    """`others`: further probes of the marker."""
    view = marker("game", probe(podConditionType="game.io/idle", markerPolicy=policies), *others)
    item = pod(conditions=[{"type": "game.io/idle", "status": status}], **more)
    return planned(
        view,
        pods=[item],
        nodes=[node(labels=VIRTUAL)],
        asked=[node_probes("n1")],
        on_virtual_nodes=gate,
        server=server,
    )


def marks(plan: Plan) -> Mapping[str, Any]:
    (patch,) = patches(plan, Purpose.MARK_PODS).values()
    marks: Mapping[str, Any] = patch.body["metadata"]
    return marks


def test_a_pod_on_a_virtual_node_is_labelled_by_its_condition_without_an_entry() -> None:
    """containers case 59"""
    plan = on_virtual("True", labels={"busy": "yes"})
    assert marks(plan) == {
        "labels": {"idle": "yes", "busy": None},
        "annotations": {"cost": "-10", "old": None},
    }
    assert not patches(plan, Purpose.ASK_TO_PROBE)
    assert plan.status == {"observedGeneration": 3, "matchedPods": 1}


def test_pods_on_virtual_nodes_wait_neither_for_each_other_nor_for_an_agent() -> None:
    (stage,) = on_virtual("True").stages
    assert (stage.is_independent, stage.regardless) == (True, True)


def test_a_pod_on_a_virtual_node_that_has_its_marks_is_not_written() -> None:
    assert not on_virtual("False", labels={"busy": "yes"}).stages


def test_a_missing_condition_or_a_probe_without_a_policy_changes_no_pod() -> None:
    without = probe("other", podConditionType="game.io/idle")
    absent = probe("absent", podConditionType="game.io/absent", markerPolicy=[IDLE])
    unnamed = probe("unnamed", markerPolicy=[IDLE])
    assert not on_virtual("False", without, absent, unnamed, labels={"busy": "yes"}).stages


def test_a_pod_on_a_virtual_node_is_not_marked_without_the_gate() -> None:
    assert not on_virtual("True", gate=False).stages


@pytest.mark.parametrize(
    ("gate", "condition", "delay_s", "says"),
    [
        (False, "game.io/other", 0, "EnablePodProbeMarkerOnServerless"),
        (False, "game.io/idle", 0, "EnablePodProbeMarkerOnServerless"),
        (True, "game.io/other", 0, "kruise.io/podprobe"),
        (True, "game.io/other", 900, ""),
        (True, "game.io/idle", 0, ""),
    ],
)
def test_a_pod_on_a_virtual_node_that_nothing_probes_is_reported(
    gate: bool, condition: str, delay_s: int, says: str
) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T11:58:00Z"}
    plan = planned(
        marker("game", probe(on={**EXEC, "initialDelaySeconds": delay_s})),
        pods=[pod(conditions=[ready, {"type": condition, "status": "True"}])],
        nodes=[node(labels=VIRTUAL)],
        on_virtual_nodes=gate,
    )
    assert [(reason.code, says in reason.remedy) for reason in plan.skipped.values()] == (
        [(Code.NO_AGENT, True)] if says else []
    )
    # and the plan is due again when a node with a later deadline may be late
    assert plan.requeue_after_s == (delay_s - 60 if delay_s else None)


@pytest.mark.parametrize(
    ("gate", "policies", "asked"),
    [(True, POLICIES, 1), (True, [IDLE, POLICIES[1]], 1), (True, [IDLE], 0), (False, POLICIES, 0)],
    ids=["annotations", "annotations of one state", "labels alone", "without the gate"],
)
def test_annotations_of_pods_are_read_only_when_a_policy_sets_any(
    gate: bool, policies: list[Mapping[str, Any]], asked: int
) -> None:
    server, plain = Annotations(), probe("plain", podConditionType="game.io/plain")
    on_virtual("True", plain, gate=gate, policies=policies, server=server)
    assert server.asked == asked


@pytest.mark.parametrize("on_virtual_nodes", [True, False])
def test_an_unreadable_spec_changes_nothing_and_is_reported(on_virtual_nodes: bool) -> None:
    plan = planned(
        marker(probes="x"), pods=[pod()], asked=[node_probes("n1")], on_virtual_nodes=on_virtual_nodes
    )
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    (note,) = plan.notes
    assert (note.warning, note.message) == (True, plan.waiting.message)


def test_a_probe_is_stored_as_it_was_given() -> None:
    given = {**EXEC, "periodSeconds": 5, "failureThreshold": 3}
    plan = planned(marker("game", probe(on=given)), pods=[pod()], asked=[node_probes("n1")])
    ((result,),) = entries_of(plan).values()
    assert result["probes"][0]["probe"] == given


def test_nodes_are_written_to_in_order_of_their_names() -> None:
    names = [f"n{number}" for number in range(9, 0, -1)]
    plan = planned(
        marker(),
        pods=[pod(f"web-{name}", node=name) for name in names],
        nodes=[node(name) for name in names],
        asked=[node_probes(name) for name in names],
    )
    assert list(patches(plan, Purpose.ASK_TO_PROBE)) == sorted(names)
