"""Records of pods: written, kept, and generated objects. Cases are those of the specification of PersistentPodState."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.persistentpodstate.kind import KIND
from pykruise.kinds.persistentpodstate.plan import NODE_AGAIN_S, plan_state
from pykruise.kinds.persistentpodstate.snapshot import StateSettings, StateSnapshot, read_snapshot
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.validation import find_stored_errors
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    BUILT_IN,
    GENERATED,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    RecordedWorkload,
    StateView,
    choose_state,
    make_absent_view,
    project_state,
    project_workload,
)
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.ids import Key
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, NodeView
from pykruise.pods.reasons import Code
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.snapshots import read_of, taken

NOW = parse_time("2026-01-31T12:00:00Z")
NAMESPACE = "shop"
SETTINGS = StateSettings()
TARGET = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}
NODES = {f"n{number}": {"zone": f"z{number}", "host": f"h{number}"} for number in range(13)}
AUTO = "kruise.io/auto-generate-persistent-pod-state"
REQUIRED = "kruise.io/required-persistent-topology"
PREFERRED = "kruise.io/preferred-persistent-topology"


def record(node: int, **fields: Any) -> Document:
    return {"nodeName": f"n{node}", "nodeTopologyLabels": dict(NODES[f"n{node}"]), **fields}


def records(*ordinals: int) -> Document:
    return {f"web-{ordinal}": record(ordinal) for ordinal in ordinals}


def state(
    *,
    stored: Document | None = None,
    owner: str = "",
    deleting: bool = False,
    name: str = "web",
    created: str = "2026-01-01T00:00:00Z",
    **spec: Any,
) -> StateView:
    metadata: Document = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"s-{name}",
        "resourceVersion": "5",
        "generation": 2,
        "creationTimestamp": created,
    }
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
        metadata["annotations"] = {GENERATED: "true"}
    if deleting:
        metadata["deletionTimestamp"] = created
    result: Document = {
        "targetRef": TARGET,
        "requiredPersistentTopology": {"keys": ["zone"]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["host"]}}],
        **spec,
    }
    status = {"observedGeneration": 1, "podStates": stored or {}}
    document = {
        "metadata": metadata,
        "spec": {key: value for key, value in result.items() if value is not None},
        "status": status,
    }
    return project_state(encode(document))


def workload(
    replicas: int = 3,
    *,
    kind: GroupKind = ADVANCED,
    annotations: Document | None = None,
    deleting: bool = False,
    uid: str = "w1",
    **spec: Any,
) -> RecordedWorkload:
    metadata: Document = {
        "name": "web",
        "namespace": NAMESPACE,
        "uid": uid,
        "resourceVersion": "3",
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    document = {"metadata": metadata, "spec": {"replicas": replicas, **spec}}
    project = project_workload(WORKLOAD_VIEWS[kind].resource)
    workload: RecordedWorkload = project(encode(document))
    return workload


def pod(
    ordinal: int | str,
    *,
    node: int | None = None,
    ready: bool = True,
    deleting: bool = False,
    phase: str = "Running",
    owner: str = "w1",
) -> PodView:
    placed = ordinal if node is None else node
    metadata: Document = {
        "name": f"web-{ordinal}",
        "namespace": NAMESPACE,
        "uid": f"p-{ordinal}",
        "resourceVersion": "4",
        "ownerReferences": [
            {**TARGET, "uid": owner, "controller": True},
        ],
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    document = {
        "metadata": metadata,
        "spec": {"nodeName": f"n{placed}" if placed != -1 else "", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "conditions": [condition]},
    }
    return project_pod(encode(document))


def node(number: int, labels: Document | None = None) -> NodeView:
    result = NODES[f"n{number}"] if labels is None else labels
    return NodeView(name=f"n{number}", uid=f"u{number}", resource_version=1, labels=result)


def planned(
    view: StateView,
    owner: RecordedWorkload | None,
    *pods: PodView,
    nodes: tuple[NodeView, ...] = tuple(node(number) for number in range(13)),
    annotations: dict[str, dict[str, str]] | None = None,
    settings: StateSettings = SETTINGS,
    kind: GroupKind = ADVANCED,
) -> Plan:
    """The plan of the snapshot that the kind takes from these objects."""
    objects: dict[Any, Any] = {
        STATE_VIEWS: [view] if view.uid else [],
        POD_VIEWS: pods,
        NODE_VIEWS: nodes,
        **{views: [] for views in WORKLOAD_VIEWS.values()},
    }
    if owner is not None:
        objects[WORKLOAD_VIEWS[kind]] = [owner]
    asks_for_annotations = view.annotation_keys
    bare = msgspec.structs.replace(view.spec, persistent_pod_annotations=None) if view.spec else None
    read = read_of(KIND, view, objects, settings=settings, now=NOW)
    result = taken(read_snapshot(msgspec.structs.replace(view, spec=bare), read))
    if result is None:
        return Plan()
    if asks_for_annotations:  # the answers of an API server about the pods
        result = msgspec.structs.replace(result, state=view, annotations=annotations or {})
    return plan_state(result)


def recorded(plan: Plan) -> Document:
    assert plan.status is not None
    result: Document = plan.status.get("podStates") or {}
    return result


# ── recording ────────────────────────────────────────────────────────────────


def test_ready_pods_are_recorded_with_their_nodes_and_labels() -> None:
    """persistentpodstate case 1"""
    plan = planned(state(), workload(), pod(0), pod(1), pod(2))
    assert plan.status == {"observedGeneration": 2, "podStates": records(0, 1, 2)}


@pytest.mark.parametrize("item", [pod(1, ready=False), pod(1, node=-1)], ids=["not ready", "no node"])
def test_a_pod_that_is_not_ready_or_has_no_node_is_not_recorded(item: PodView) -> None:
    """persistentpodstate cases 2 and 3"""
    assert recorded(planned(state(), workload(), pod(0), item)) == records(0)


@pytest.mark.parametrize(
    "item",
    [pod(1, deleting=True), pod(1, ready=False), pod(1, ready=False, phase="Failed")],
    ids=["terminating", "not ready", "failed"],
)
def test_the_record_of_a_pod_that_is_away_stays(item: PodView) -> None:
    """persistentpodstate cases 4 and 13"""
    assert recorded(planned(state(stored=records(0, 1)), workload(), pod(0), item)) == records(0, 1)


def test_a_pod_that_moved_is_recorded_on_its_new_node() -> None:
    """persistentpodstate case 5"""
    assert recorded(planned(state(stored=records(1)), workload(), pod(1, node=2))) == {"web-1": record(2)}


def test_a_record_that_is_right_costs_no_write() -> None:
    """persistentpodstate case 6"""
    assert recorded(planned(state(stored=records(1)), workload(), pod(1))) == records(1)


def test_a_record_follows_the_labels_of_its_node() -> None:
    """Better than 6.3 step 5: with the old labels, the pod could not come back to that node"""
    moved = node(1, {"zone": "other", "host": "h1"})
    plan = planned(state(stored=records(1)), workload(), pod(1), nodes=(moved,))
    labels = {"zone": "other", "host": "h1"}
    assert recorded(plan) == {"web-1": {"nodeName": "n1", "nodeTopologyLabels": labels}}


def test_only_labels_that_the_node_has_are_recorded() -> None:
    """persistentpodstate case 7"""
    plan = planned(state(), workload(), pod(1), nodes=(node(1, {"zone": "z1", "x": "y"}),))
    assert recorded(plan) == {"web-1": {"nodeName": "n1", "nodeTopologyLabels": {"zone": "z1"}}}


def test_records_of_ready_pods_follow_the_keys_of_the_spec() -> None:
    """persistentpodstate cases 8 and 9"""
    less = state(stored=records(0, 1), preferredPersistentTopology=None)
    plan = planned(less, workload(), pod(0), pod(1, ready=False))
    assert recorded(plan) == {
        "web-0": {"nodeName": "n0", "nodeTopologyLabels": {"zone": "z0"}},
        "web-1": record(1),
    }
    more = state(stored=recorded(plan))
    assert recorded(planned(more, workload(), pod(0), pod(1, ready=False))) == records(0, 1)


def test_annotations_are_recorded_where_pods_have_them_and_follow() -> None:
    """persistentpodstate cases 10 and 11"""
    view = state(persistentPodAnnotations=[{"key": "ip"}])
    plan = planned(view, workload(), pod(0), pod(1), annotations={"p-0": {"ip": "1.2.3.4", "x": "y"}})
    assert recorded(plan) == {"web-0": record(0, annotations={"ip": "1.2.3.4"}), "web-1": record(1)}
    again = msgspec.structs.replace(view, records=state(stored=recorded(plan)).records)
    plan = planned(again, workload(), pod(0), pod(1), annotations={"p-0": {"ip": "1.2.3.5"}})
    assert recorded(plan)["web-0"]["annotations"] == {"ip": "1.2.3.5"}


def test_an_unknown_node_only_delays_its_own_record_and_is_requeued() -> None:
    """persistentpodstate case 12"""
    nodes = (node(0), node(2))
    plan = planned(state(stored=records(1)), workload(), pod(0), pod(1), pod(2), nodes=nodes)
    assert recorded(plan) == records(0, 1, 2)
    assert plan.requeue_after_s == NODE_AGAIN_S
    assert plan.skipped["web-1"].code is Code.NODE_LOST


def test_a_pod_of_others_is_never_recorded() -> None:
    """persistentpodstate case 14"""
    assert recorded(planned(state(), workload(8), pod(7, owner="other"))) == {}


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        ({"requiredPersistentTopology": {"keys": []}}, {"host": "h1"}),
        ({"requiredPersistentTopology": {"keys": None}}, {"host": "h1"}),
        ({"requiredPersistentTopology": {}}, {"host": "h1"}),
        ({"requiredPersistentTopology": {"keys": ["", "b c", "zone"]}}, {"zone": "z1", "host": "h1"}),
        ({"preferredPersistentTopology": [{"weight": 50, "preference": {"keys": []}}]}, {"zone": "z1"}),
        *(
            (
                {"preferredPersistentTopology": [{"weight": weight, "preference": {"keys": ["host"]}}]},
                {"zone": "z1", "host": "h1"},
            )
            for weight in (0, 101)
        ),
        ({"persistentPodAnnotations": [{"key": ""}]}, {"zone": "z1", "host": "h1"}),
        ({"persistentPodStateRetentionPolicy": "Never"}, {"zone": "z1", "host": "h1"}),
    ],
)
def test_a_stored_invalid_value_prevents_no_record(spec: Document, labels: Document) -> None:
    """LIFT-1: OpenKruise carries out such objects"""
    view = state(stored=records(1, 2), **spec)
    assert view.spec is not None
    assert KIND.stored is not None
    assert find_stored_errors(view.spec) != []
    assert KIND.stored.flaws_of(view.spec) == ()

    plan = planned(view, workload(2), pod(1))

    assert recorded(plan) == {"web-1": {"nodeName": "n1", "nodeTopologyLabels": labels}}


# ── retention ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("replicas", "pods", "expected"),
    [
        (1, (pod(0),), (0,)),
        (1, (pod(0), pod(1, deleting=True), pod(2)), (0, 2)),
        (0, (), ()),
    ],
    ids=["persistentpodstate case 15", "persistentpodstate case 16", "persistentpodstate case 22"],
)
def test_records_of_surplus_ordinals_are_removed_when_the_pod_is_deleted(
    replicas: int, pods: tuple[PodView, ...], expected: tuple[int, ...]
) -> None:
    plan = planned(state(stored=records(0, 1, 2)), workload(replicas), *pods)
    assert recorded(plan) == records(*expected)


def test_a_record_stays_until_its_pod_terminates() -> None:
    """persistentpodstate case 17"""
    pods = [pod(number) for number in range(9)]
    plan = planned(state(stored=records(*range(10))), workload(8), *pods, pod(9, deleting=True))
    assert recorded(plan) == records(*range(9))


def test_reserved_ordinals_are_not_counted() -> None:
    """persistentpodstate case 18"""
    there = (1, 2, 4, 5, 6, 8, 9, 10)
    owner = workload(8, reserveOrdinals=[0, 3, 7])
    pods = [pod(number) for number in (*there, 11)]
    plan = planned(state(stored=records(*there, 11, 12)), owner, *pods, pod(12, deleting=True))
    assert recorded(plan) == records(*there, 11)


def test_ranges_of_reserved_ordinals_are_not_counted() -> None:
    """persistentpodstate case 19"""
    plan = planned(state(stored=records(2, 3, 4, 5, 6)), workload(3, reserveOrdinals=["0-2"]))
    assert recorded(plan) == records(3, 4, 5)


def test_records_are_kept_under_when_deleted_until_the_policy_changes() -> None:
    """persistentpodstate cases 20, 21 and 22"""
    stored = records(0, 1, 2)
    kept = state(stored=stored, persistentPodStateRetentionPolicy="WhenDeleted")
    assert recorded(planned(kept, workload(1), pod(0))) == stored
    assert recorded(planned(kept, workload(0))) == stored
    dropped = state(stored=stored, persistentPodStateRetentionPolicy="WhenScaled")
    assert recorded(planned(dropped, workload(1), pod(0))) == records(0)


@pytest.mark.parametrize("policy", ["WhenScaled", "WhenDeleted"])
@pytest.mark.parametrize("owner", [None, workload(deleting=True)], ids=["gone", "terminating"])
def test_all_records_are_removed_with_the_workload(policy: str, owner: RecordedWorkload | None) -> None:
    """persistentpodstate case 23"""
    view = state(stored=records(0, 1), persistentPodStateRetentionPolicy=policy)
    plan = planned(view, owner, pod(0))
    assert plan.status == {"observedGeneration": 2}
    assert plan.waiting is not None
    assert plan.waiting.code is Code.NO_TARGET


def test_a_record_without_an_ordinal_in_its_name_stays() -> None:
    """persistentpodstate case 24"""
    stored = {"web-abc": record(1)}
    plan = planned(state(stored=stored), workload(1))
    assert recorded(plan) == stored
    assert "ordinal" in plan.skipped["web-abc"].message


@pytest.mark.parametrize(
    ("kind", "gate", "expected"),
    [(ADVANCED, True, (5, 6)), (ADVANCED, False, (0,)), (BUILT_IN, False, (5, 6))],
)
def test_wanted_ordinals_begin_at_the_start(kind: GroupKind, gate: bool, expected: tuple[int, ...]) -> None:
    """persistentpodstate case 25"""
    target = {**TARGET, "apiVersion": "apps/v1"} if kind == BUILT_IN else TARGET
    view = state(stored=records(0, 5, 6, 7), targetRef=target)
    owner = workload(2, kind=kind, ordinals={"start": 5})
    plan = planned(view, owner, kind=kind, settings=StateSettings(start_ordinal=gate))
    assert recorded(plan) == records(*expected)


@pytest.mark.parametrize("replicas", [2**40, "3", None, True])
def test_replicas_of_any_kind_of_value_are_read(replicas: Any) -> None:
    """9.1: an integer of any size is read, every other value counts as 0"""
    assert workload(replicas).replicas == (replicas if replicas == 2**40 else 0)


def test_any_number_of_replicas_costs_the_same() -> None:
    """9.1: ordinals are not counted one by one"""
    plan = planned(state(stored=records(0, 12)), workload(2**40, reserveOrdinals=["1-2000000000"]), pod(0))
    assert recorded(plan) == records(0)


def test_a_reference_in_another_version_is_the_same_and_one_of_another_group_is_not() -> None:
    """persistentpodstate cases 36 and 37"""
    older = state(targetRef={**TARGET, "apiVersion": "apps.kruise.io/v1alpha1"})
    assert older.target == state().target
    assert state(targetRef={**TARGET, "apiVersion": "apps/v1"}).target != state().target
    assert state(targetRef={**TARGET, "apiVersion": "a/b/c"}).target is None


def test_the_older_of_two_states_for_one_workload_counts() -> None:
    """LIFT-2; persistentpodstate case 38: none that is being deleted"""
    old, new = state(name="z", created="2025-01-01T00:00:00Z"), state(name="a")
    assert choose_state([new, old]) is old
    assert choose_state([state(name="b"), new]) is new
    assert choose_state([msgspec.structs.replace(old, is_deleting=True), new]) is new
    assert choose_state([]) is None


# ── generation ───────────────────────────────────────────────────────────────


def asking(**annotations: str) -> Document:
    return {AUTO: "true", REQUIRED: "zone", **annotations}


def none() -> StateView:
    return make_absent_view(Key(NAMESPACE, "web"))


def test_a_workload_with_the_annotations_gets_a_state() -> None:
    """persistentpodstate case 40"""
    (step,) = planned(none(), workload(annotations=asking())).steps
    assert isinstance(step.action, Create)
    body = step.action.body
    assert (body["kind"], body["metadata"]["name"]) == (PERSISTENT_POD_STATES.kind, "web")
    assert body["metadata"]["ownerReferences"] == [{**TARGET, "uid": "w1", "controller": True}]
    assert body["metadata"]["annotations"] == {GENERATED: "true"}
    assert body["spec"] == {"targetRef": TARGET, "requiredPersistentTopology": {"keys": ["zone"]}}


def test_lists_in_annotations_are_trimmed() -> None:
    """persistentpodstate case 45"""
    annotations = asking(**{PREFERRED: "host, rack,host,", "kruise.io/persistent-pod-annotations": "ip"})
    (step,) = planned(none(), workload(annotations=annotations)).steps
    assert isinstance(step.action, Create)
    spec = step.action.body["spec"]
    assert spec["preferredPersistentTopology"] == [{"weight": 100, "preference": {"keys": ["host", "rack"]}}]
    assert spec["persistentPodAnnotations"] == [{"key": "ip"}]


@pytest.mark.parametrize(
    "annotations",
    [{AUTO: "true"}, {AUTO: "True", REQUIRED: "zone"}, {AUTO: "1", REQUIRED: "zone"}, {REQUIRED: "zone"}],
)
def test_a_workload_without_both_annotations_gets_no_state(annotations: Document) -> None:
    """persistentpodstate cases 41 and 42"""
    plan = planned(none(), workload(annotations=annotations))
    assert (plan.stages, plan.status, plan.waiting) == ((), None, None)


def generated(**spec: Any) -> StateView:
    wanted = {"requiredPersistentTopology": {"keys": ["zone"]}, "preferredPersistentTopology": None, **spec}
    return state(owner="w1", **wanted)


def test_a_generated_state_follows_the_annotations_and_keeps_the_retention_policy() -> None:
    """persistentpodstate cases 43, 46 and 48"""
    view = generated(persistentPodStateRetentionPolicy="WhenDeleted")
    annotations = {AUTO: "true", PREFERRED: "host", "kruise.io/persistent-pod-annotations": "ip"}
    (step,) = planned(view, workload(annotations=annotations)).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {
        "spec": {
            "requiredPersistentTopology": None,
            "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["host"]}}],
            "persistentPodAnnotations": [{"key": "ip"}],
        }
    }


@pytest.mark.parametrize("annotations", [asking(), {AUTO: "true"}], ids=["the same", "no topology"])
def test_an_unchanged_generated_state_is_not_written(annotations: Document) -> None:
    """persistentpodstate case 41: a removed topology changes nothing"""
    assert list(planned(generated(), workload(annotations=annotations)).steps) == []


def test_a_generated_state_is_deleted_when_the_workload_no_longer_requests_it() -> None:
    """persistentpodstate case 44"""
    (step,) = planned(generated(), workload()).steps
    assert isinstance(step.action, Delete)
    assert step.action.uid == "s-web"


@pytest.mark.parametrize("annotations", [asking(**{PREFERRED: "x"}), {}], ids=["asks", "does not ask"])
def test_a_manually_written_persistentpodstate_is_never_changed_or_deleted(annotations: Document) -> None:
    """persistentpodstate case 47"""
    plan = planned(state(), workload(annotations=annotations))
    assert list(plan.steps) == []
    assert [note.warning for note in plan.notes] == ([True] if annotations else [])


def test_the_first_of_two_workloads_of_one_name_gets_the_state_and_the_other_an_event() -> None:
    plan = plan_state(
        StateSnapshot(
            state=none(),
            namesakes=[
                workload(annotations=asking()),
                workload(annotations=asking(), kind=BUILT_IN, uid="w2"),
            ],
            now=NOW,
        )
    )
    (step,) = plan.steps
    assert isinstance(step.action, Create)
    assert step.action.body["metadata"]["ownerReferences"][0]["uid"] == "w1"
    (note,) = plan.notes
    assert note.about is not None
    assert note.about.uid == "w2"
