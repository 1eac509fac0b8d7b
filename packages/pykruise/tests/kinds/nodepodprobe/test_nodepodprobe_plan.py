"""Plans of a NodePodProbe, without a cluster."""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import pytest

from pykruise.kinds.nodepodprobe.kind import KIND
from pykruise.kinds.nodepodprobe.snapshot import NodePodProbeSettings, make_absent_view
from pykruise.kube.documents import encode
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES, PODS
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import MARKER_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.probes.views import MarkerView, NodeProbesView, project_node_probes
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.probe_objects import NOW, entry, marker, node, node_probes, pod, probe, result
from support.snapshots import control_of, read_of

IDLE = {"state": "Succeeded", "labels": {"idle": "yes"}, "annotations": {"cost": "-10"}}
LABELS = {"state": "Failed", "labels": {"busy": "yes"}}
BUSY = {"state": "Failed", "labels": {"busy": "yes"}, "annotations": {"cost": "10"}}


class Server:
    """An API server that counts its requests. `nodes` and `pods`: its objects; `pods=None`: the pods of the cache. Each
    pod has these annotations."""

    def __init__(
        self, *, nodes: Collection[str] = (), pods: Iterable[PodView] | None = None, **annotations: str
    ) -> None:
        self._annotations = annotations
        self._nodes = nodes
        self._uids = None if pods is None else {pod.name: pod.uid for pod in pods}
        self.asked = 0

    def knowing(self, pods: Iterable[PodView]) -> "Server":
        """This server. Without pods of its own, it has these pods."""
        if self._uids is None:
            self._uids = {pod.name: pod.uid for pod in pods}
        return self

    async def get(self, resource: object, _namespace: str, name: str) -> bytes:
        self.asked += 1
        uids = dict.fromkeys(self._nodes, "") if resource == NODES else self._uids or {}
        if name not in uids:
            raise NotFoundError(ErrorStatus(code=404))
        metadata = {"name": name, "namespace": "shop", "uid": uids[name], "annotations": self._annotations}
        return encode({"metadata": {**metadata, "resourceVersion": "5"}})


def planned(
    view: NodeProbesView,
    *,
    on: NodeView | None = None,
    pods: Iterable[PodView] = (),
    markers: Iterable[MarkerView] = (),
    server: Server | None = None,
    namespace: str = "",
    memories: Memories | None = None,
    now: float = NOW,
) -> Plan:
    pods = list(pods)
    objects: dict[Any, Any] = {
        POD_VIEWS: pods,
        NODE_VIEWS: [on] if on is not None else [],
        MARKER_VIEWS: list(markers),
    }
    read = read_of(
        KIND,
        view,
        objects,
        settings=NodePodProbeSettings(namespace=namespace),
        now=now,
        live=(server or Server()).knowing(pods),
        memories=memories,
    )
    control = control_of(KIND)
    snapshot = asyncio.run(control.snapshot(view, read))  # type: ignore[arg-type]
    return Plan() if snapshot is None else control.plan(snapshot)


def actions(plan: Plan) -> list[Any]:
    return [step.action for step in plan.steps]


# ── the object ───────────────────────────────────────────────────────────────


def test_a_ready_node_gets_one() -> None:
    (action,) = actions(planned(make_absent_view(Key("", "n1")), on=node()))
    assert isinstance(action, Create)
    assert (action.body["metadata"], action.body["spec"]) == ({"name": "n1"}, {})


@pytest.mark.parametrize(
    "on",
    [None, node(is_ready=False), node(labels={"type": "virtual-kubelet"}), node(is_deleting=True)],
    ids=["none", "not ready", "virtual", "going"],
)
def test_unready_virtual_and_deleted_nodes_get_no_nodepodprobe_and_no_read(on: NodeView | None) -> None:
    memories, server = Memories(), Server()
    for _ in range(2):
        assert not planned(make_absent_view(Key("", "n1")), on=on, server=server, memories=memories).stages
    assert server.asked == 0


def test_a_terminating_nodepodprobe_is_not_written() -> None:
    view = msgspec.structs.replace(
        node_probes(
            "n1", entry(pod("gone"), "game#idle"), results=[result(pod("gone"), game__idle="Failed")]
        ),
        is_deleting=True,
    )
    server = Server()
    assert planned(view, on=node(), markers=[marker()], server=server) == Plan()
    assert planned(view, on=None, server=server) == Plan(), "nor deleted again"
    assert server.asked == 0


def test_an_unreadable_nodepodprobe_is_not_written_and_reports_it() -> None:
    # given a NodePodProbe that was stored without its schema
    view = project_node_probes(
        encode({"metadata": {"name": "n1", "uid": "u", "resourceVersion": "9"}, "spec": {"podProbes": "x"}})
    )
    # when
    plan = planned(view, on=node(), pods=[pod()])
    # then
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    (note,) = plan.notes
    assert (note.warning, note.message) == (True, view.problem)


def test_while_nodes_have_not_been_read_nothing_is_decided() -> None:
    """Otherwise every NodePodProbe would be deleted"""
    view = node_probes("n1")
    objects: dict[Any, Any] = {NODE_VIEWS: None, POD_VIEWS: [], MARKER_VIEWS: []}
    read = read_of(KIND, view, objects, settings=NodePodProbeSettings(), now=NOW)
    assert asyncio.run(control_of(KIND).snapshot(view, read)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("on", [None, node(is_deleting=True)])
def test_a_nodepodprobe_is_deleted_with_its_node(on: NodeView | None) -> None:
    """containers case 52"""
    server = Server()
    (action,) = actions(planned(node_probes("n1", entry(pod(), "game#idle")), on=on, server=server))
    assert isinstance(action, Delete)
    assert action.uid == "uid-n1"
    assert server.asked == 1, "for the node, and not for its pods"


@pytest.mark.parametrize("on", [None, node(is_deleting=True)])
def test_a_nodepodprobe_stays_when_the_server_still_has_its_node(on: NodeView | None) -> None:
    """the cache of the manager that created it may be ahead"""
    assert not planned(node_probes("n1"), on=on, server=Server(nodes={"n1"})).stages


def test_a_deleted_nodepodprobe_is_recreated_only_for_an_existing_node() -> None:
    memories, gone, there = Memories(), Server(), Server(nodes={"n1"})
    for server, asked, is_made in ((gone, 0, True), (gone, 1, False), (there, 1, True)):
        plan = planned(make_absent_view(Key("", "n1")), on=node(), server=server, memories=memories)
        assert (server.asked, bool(plan.stages)) == (asked, is_made)
    # for another node it is created immediately
    assert planned(make_absent_view(Key("", "n2")), on=node("n2"), server=gone, memories=memories).stages
    assert gone.asked == 1
    # and for the first node too, a minute later
    late = planned(make_absent_view(Key("", "n1")), on=node(), server=gone, memories=memories, now=NOW + 60)
    assert late.stages


def test_deleted_finished_and_replaced_pods_are_removed_from_the_entries() -> None:
    """containers case 51"""
    names = ("here", "gone", "ended", "other")
    view = node_probes("n1", *(entry(pod(name), "game#idle") for name in names))
    pods = [pod("here"), pod("ended", phase="Failed"), pod("other", uid="another")]
    (action,) = actions(planned(view, on=node(), pods=pods))
    assert isinstance(action, Patch)
    assert action.resource_version == "9"
    assert [probe["name"] for probe in action.body["spec"]["podProbes"]] == ["here"]
    # when none is left
    (action,) = actions(planned(view, on=node()))
    assert action.body == {"spec": {"podProbes": None}}


def test_a_pod_that_another_manager_has_named_before_the_cache_shows_it_stays() -> None:
    view = node_probes("n1", entry(pod("new"), "game#idle"))
    plan = planned(view, on=node(), server=Server(pods=[pod("new")]))
    assert plan == Plan(requeue_after_s=3.0)
    # its results are applied immediately
    view = node_probes("n1", entry(pod(), "game#idle"), results=[result(pod(), game__idle="Succeeded")])
    plan = planned(view, on=node(), markers=[marker()], server=Server(pods=[pod()]))
    assert [stage.purpose for stage in plan.stages] == [Purpose.MARK_PODS]


def test_a_manager_of_one_namespace_leaves_entries_of_others_alone() -> None:
    view, server = node_probes("n1", entry(pod("gone"), "game#idle")), Server()
    assert planned(view, on=node(), namespace="elsewhere", server=server) == Plan()
    assert server.asked == 0


# ── results ──────────────────────────────────────────────────────────────────


def shown(
    *states: str, by: MarkerView, of: PodView | None = None, server: Server | None = None, **more: Any
) -> Plan:
    item = of or pod()
    outcome = {f"game__{'idle' if number == 0 else number}": state for number, state in enumerate(states)}
    view = node_probes("n1", entry(item, "game#idle"), results=[result(item, **outcome)])
    return planned(view, on=node(), pods=[item], markers=[by], server=server, **more)


def test_pods_wait_neither_for_each_other_nor_for_removed_entries() -> None:
    view = node_probes(
        "n1",
        entry(pod("gone"), "game#idle"),
        entry(pod(), "game#idle"),
        results=[result(pod(), game__idle="Succeeded")],
    )
    plan = planned(view, on=node(), pods=[pod()], markers=[marker()])
    assert [stage.purpose for stage in plan.stages] == [Purpose.KEEP_NODE_PROBES, Purpose.MARK_PODS]
    assert (plan.stages[1].is_independent, plan.stages[1].regardless) == (True, True)


def test_results_of_deleted_or_replaced_pods_change_no_pod() -> None:
    """containers case 51; policies that set annotations"""
    now = pod(uid="now")
    by = marker("game", probe(podConditionType="game.io/idle", markerPolicy=[IDLE]))
    server = Server()
    for said_of in (pod("gone"), pod(), now):
        view = node_probes("n1", entry(pod(), "game#idle"), results=[result(said_of, game__idle="Succeeded")])
        plan = planned(view, on=node(), pods=[now], markers=[by], server=server)
        assert [stage.purpose for stage in plan.stages] == [Purpose.KEEP_NODE_PROBES]
    assert server.asked == 3, "whether the pod is there, and nothing of its annotations"


def test_a_pod_without_results_is_not_changed() -> None:
    by = marker("game", probe(podConditionType="game.io/idle", markerPolicy=[IDLE]))
    assert not shown("", by=by).stages
    nothing = {**result(pod()), "probeStates": None}
    view = node_probes("n1", entry(pod(), "game#idle"), results=[nothing])
    assert not planned(view, on=node(), pods=[pod()], markers=[by]).stages


def test_an_unreadable_marker_sets_no_conditions() -> None:
    assert not shown("Succeeded", by=marker(probes="x")).stages


def test_an_outcome_becomes_a_condition_written_to_the_status() -> None:
    (action,) = actions(shown("Succeeded", by=marker()))
    assert (action.resource, action.subresource, action.uid) == (PODS, "status", "uid-web-0")
    assert action.body == {
        "status": {"conditions": [{"type": "game.io/idle", "status": "True", "message": "said Succeeded"}]}
    }


@pytest.mark.parametrize("state", ["Failed", "Unknown"])
def test_all_but_success_is_false(state: str) -> None:
    (action,) = actions(shown(state, by=marker()))
    assert action.body["status"]["conditions"][0]["status"] == "False"


def test_a_condition_is_written_only_when_its_status_or_message_changes() -> None:
    there = {"type": "game.io/idle", "status": "True", "message": "said Succeeded"}
    assert not shown("Succeeded", by=marker(), of=pod(conditions=[there])).stages
    other = {**there, "message": "said before"}
    assert len(actions(shown("Succeeded", by=marker(), of=pod(conditions=[other])))) == 1


def test_metadata_is_patched_on_the_pod_before_its_status() -> None:
    """containers case 44"""
    both = marker("game", probe(podConditionType="game.io/idle", markerPolicy=[IDLE, BUSY]))
    item = pod(labels={"idle": "yes"})
    metadata, status = actions(shown("Failed", by=both, of=item, server=Server(cost="-10")))
    assert (metadata.subresource, status.subresource) == ("", "status")
    assert metadata.body == {
        "metadata": {"labels": {"idle": None, "busy": "yes"}, "annotations": {"cost": "10"}}
    }


@pytest.mark.parametrize("state", ["Failed", "Unknown"])
def test_labels_and_annotations_of_an_ended_state_are_removed(state: str) -> None:
    """containers cases 45 and 47"""
    by = marker("game", probe(markerPolicy=[IDLE]))
    (action,) = actions(shown(state, by=by, of=pod(labels={"idle": "yes"}), server=Server(cost="-10")))
    assert action.body == {"metadata": {"labels": {"idle": None}, "annotations": {"cost": None}}}


def test_a_pod_without_the_labels_to_remove_is_not_written() -> None:
    assert not shown("Unknown", by=marker("game", probe(markerPolicy=[IDLE]))).stages


def test_annotations_are_read_once_per_version_of_a_pod() -> None:
    by, server, memories = marker("game", probe(markerPolicy=[IDLE])), Server(cost="-10"), Memories()
    for _ in range(3):
        shown("Succeeded", by=by, server=server, memories=memories)
    assert server.asked == 1


@pytest.mark.parametrize(
    ("policies", "names", "asked"),
    [
        ([IDLE], ["game#idle"], 1),
        ([LABELS, IDLE], ["game#idle"], 1),
        ([LABELS], ["game#idle"], 0),
        ([IDLE], ["game#idle", "plain#idle"], 1),
        ([IDLE], ["plain#idle"], 0),
    ],
    ids=["annotations", "of one state", "labels alone", "of one marker", "of a marker of other pods"],
)
def test_annotations_of_a_pod_are_read_only_when_a_policy_of_its_results_sets_any(
    policies: list[Any], names: list[str], asked: int
) -> None:
    # given a pod with results of these probes, and a finished pod
    server, other = Server(), pod("web-1", phase="Failed")
    view = node_probes(
        "n1",
        entry(pod(), *names),
        entry(other, "game#idle", "plain#idle"),
        results=[result(pod(), **dict.fromkeys((name.replace("#", "__") for name in names), "Succeeded"))],
    )
    markers = [marker("game", probe(markerPolicy=policies)), marker("plain")]
    # when
    planned(view, on=node(), pods=[pod(), other], markers=markers, server=server)
    # then
    assert server.asked == asked


def test_results_of_deleted_markers_and_removed_probes_change_no_pod() -> None:
    going = marker(metadata={"deletionTimestamp": "2026-03-01T11:00:00Z"})
    other = marker("game", probe("other"))
    assert not shown("Succeeded", by=going).stages
    assert not shown("Succeeded", by=other).stages


def test_a_malformed_name_is_passed_over() -> None:
    item = pod()
    view = node_probes(
        "n1", entry(item, "game#idle"), results=[result(item, idle="Succeeded", game__idle="Failed")]
    )
    (action,) = actions(planned(view, on=node(), pods=[item], markers=[marker()]))
    assert action.body["status"]["conditions"][0]["status"] == "False"


def test_the_first_of_two_probes_with_one_condition_wins_and_the_other_gets_an_event() -> None:
    """containers case 55"""
    item = pod()
    results = [result(item, a__idle="Succeeded", b__idle="Failed")]
    view = node_probes("n1", entry(item, "a#idle", "b#idle"), results=results)
    plan = planned(view, on=node(), pods=[item], markers=[marker("a"), marker("b")])
    (action,) = actions(plan)
    assert [result["status"] for result in action.body["status"]["conditions"]] == ["True"]
    (note,) = plan.notes
    assert note.about is not None
    assert note.about.key.name == "b"
    assert plan.skipped["web-0"].code is Code.CONFLICT


def test_the_first_of_several_conflicts_is_the_reason_and_all_get_a_warning() -> None:
    item = pod()
    results = [result(item, a__idle="Succeeded", b__idle="Failed", c__idle="Failed")]
    view = node_probes("n1", entry(item, "a#idle", "b#idle", "c#idle"), results=results)
    plan = planned(view, on=node(), pods=[item], markers=[marker(name) for name in "abc"])
    assert plan.skipped["web-0"].message.endswith("PodProbeMarker a, not of PodProbeMarker b")
    assert [(note.about.key.name, note.warning) for note in plan.notes if note.about is not None] == [
        ("b", True),
        ("c", True),
    ]


def test_a_condition_that_belongs_to_the_kubelet_is_never_written() -> None:
    assert not shown("Failed", by=marker("game", probe(podConditionType="Ready"))).stages
