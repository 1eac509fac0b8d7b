"""What the controller does about a WorkloadSpread. Numbers are cases of the specification."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.snapshot import Snapshot, latest_version
from pykruise.kinds.workloadspread.versions import UNVERSIONED, version_of, versioned_kinds
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.kube.group_kinds import GroupKind
from pykruise.kube.node_rules import Taint
from pykruise.plans.targets import TargetView, project_target
from pykruise.plans.views import NodeView
from pykruise.pods.keys import DELETION_COST_ANNOTATION, MATCHED_SPREAD_ANNOTATION
from pykruise.pods.pod_decoding import project_pod
from pykruise.pods.views import PodView
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.spreads import CLONE_SET, DEPLOYMENT, NOW, placed_in, pod, spread, subset, view, workload, zone

JOB = ("batch/v1", "Job", "web")


def ago(seconds: float) -> str:
    return format_time(NOW - seconds)


def stored(
    name: str,
    of: str = "",
    *,
    uid: str = "",
    node: str = "",
    cost: int | None = None,
    phase: str = "Running",
    age: float = 3600,
    ready: bool = True,
    unschedulable: bool = False,
    **given: Any,
) -> Document:
    """A pod as it is stored: of a subset, or (empty) without a note."""
    annotations: dict[str, str] = {}
    if of:
        note = {"name": "ws", "subset": of, **({"uid": uid} if uid else {})}
        annotations[MATCHED_SPREAD_ANNOTATION] = orjson.dumps(note).decode()
    if cost is not None:
        annotations[DELETION_COST_ANNOTATION] = str(cost)
    document = pod(name, annotations=annotations, phase=phase, **given)
    document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "7", "creationTimestamp": ago(age)}
    if node:
        document["spec"]["nodeName"] = node
    conditions = document["status"].setdefault("conditions", [])
    if ready:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": ago(age)})
    if unschedulable:
        document["status"]["phase"] = "Pending"
        conditions[:] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return document


def node(name: str, *taints: Taint, **labels: str) -> NodeView:
    return NodeView(name=name, uid=f"uid-{name}", resource_version=1, labels=labels, taints=taints)


def world(document: Document, *pods: Document, nodes: tuple[NodeView, ...] = (), **given: Any) -> Snapshot:
    """A snapshot; `given` replaces fields."""
    views: list[PodView] = [project_pod(orjson.dumps(one)) for one in pods]
    defaults: dict[str, Any] = {
        "spread": view(document),
        "replicas": len(pods),
        "pods": views,
        "nodes": {one.name: one for one in nodes},
        "documents": {one["metadata"]["uid"]: one for one in pods},
        "now": NOW,
    }
    return Snapshot(**{**defaults, **given})


def entry(name: str, missing: int, replicas: int = 0, **fields: Any) -> Document:
    return {"name": name, "replicas": replicas, "missingReplicas": missing, **fields}


def status_of(plan: Plan, version: str = UNVERSIONED) -> dict[str, Document]:
    """The list of a version that is written, by subset; of all versions for the empty one."""
    assert plan.status is not None
    found = plan.status["versionedSubsetStatuses"][version] if version else plan.status["subsetStatuses"]
    return {one["name"]: one for one in found}


def known(*entries: Document, version: str = UNVERSIONED, overall: Any = ()) -> Document:
    return {"versionedSubsetStatuses": {version: list(entries)}, "subsetStatuses": list(overall)}


def annotations_in(plan: Plan) -> dict[str, Document]:
    """Annotations that are written, by pod."""
    return {
        step.action.key.name: step.action.body["metadata"]["annotations"]
        for step in plan.steps
        if isinstance(step.action, Patch)
    }


def costs(plan: Plan) -> dict[str, int]:
    found = annotations_in(plan)
    return {
        name: int(one[DELETION_COST_ANNOTATION])
        for name, one in found.items()
        if DELETION_COST_ANNOTATION in one
    }


def adopted(plan: Plan) -> dict[str, str]:
    """Subsets of pods that get a note, by pod."""
    found = annotations_in(plan)
    return {
        name: orjson.loads(one[MATCHED_SPREAD_ANNOTATION])["subset"]
        for name, one in found.items()
        if MATCHED_SPREAD_ANNOTATION in one
    }


def deleted(plan: Plan) -> set[str]:
    return {step.action.key.name for step in plan.steps if isinstance(step.action, Delete)}


def events_of(plan: Plan) -> list[str]:
    return sorted(note.reason for note in plan.notes)


def settled(document: Document, plan: Plan) -> Document:
    """The object after the plan's status was written."""
    return {**document, "status": plan.status or document.get("status") or {}}


def counted(document: Document, *pods: Document, **given: Any) -> Plan:
    """The plan once the status that comes first is stored; that one touches no pod without a note."""
    first = plan_spread(world(document, *pods, **given))
    assert first.status is not None
    unmarked = {one["metadata"]["name"] for one in pods if placed_in(one) == ""}
    assert not unmarked & annotations_in(first).keys()
    return plan_spread(world(settled(document, first), *pods, **given))


# ── places ───────────────────────────────────────────────────────────────────


def test_a_pod_that_was_admitted_keeps_its_place_for_a_while_case_50() -> None:
    document = spread(
        subset("a", 3), subset("b"), status=known(entry("a", 0, creatingPods={"p3": ago(10)}), entry("b", -1))
    )
    plan = plan_spread(world(document, stored("p1", "a"), stored("p2", "a")))
    assert status_of(plan)["a"] == entry("a", 0, 2, creatingPods={"p3": ago(10)})
    assert plan.requeue_after_s is not None
    assert plan.requeue_after_s <= 20


def test_a_pod_that_does_not_come_loses_its_place_case_51() -> None:
    document = spread(subset("a", 3), status=known(entry("a", 0, creatingPods={"p3": ago(31)})))
    plan = plan_spread(world(document, stored("p1", "a"), stored("p2", "a")))
    assert status_of(plan)["a"] == entry("a", 1, 2)
    assert events_of(plan) == ["CreatePodFailed"]


def test_a_pod_without_a_name_is_recognised_by_its_key() -> None:
    document = spread(subset("a", 3), status=known(entry("a", 2, creatingPods={"u-1": ago(5)})))
    plan = plan_spread(world(document, stored("web-x", "a", uid="u-1")))
    assert status_of(plan)["a"] == entry("a", 2, 1)


@pytest.mark.parametrize(("seconds", "missing", "events"), [(5, 1, []), (16, 0, ["DeletePodFailed"])])
def test_a_pod_that_is_to_go_gives_its_place_for_a_while_case_52(
    seconds: float, missing: int, events: list[str]
) -> None:
    document = spread(subset("a", 3), status=known(entry("a", 1, deletingPods={"p1": ago(seconds)})))
    plan = plan_spread(world(document, *(stored(f"p{one}", "a") for one in (1, 2, 3))))
    assert status_of(plan)["a"]["missingReplicas"] == missing
    assert status_of(plan)["a"]["replicas"] == 3
    assert events_of(plan) == events


def test_a_pod_that_is_gone_is_forgotten() -> None:
    document = spread(subset("a", 3), status=known(entry("a", 1, deletingPods={"p9": ago(1)})))
    plan = plan_spread(world(document, stored("p1", "a")))
    assert status_of(plan)["a"] == entry("a", 2, 1)


def test_too_many_pods_leave_no_room_and_the_surplus_goes_first_case_53() -> None:
    # given the youngest two are not ready
    pods = [stored(f"p{one}", "a", ready=one < 3, age=1000 - one) for one in range(5)]
    # when
    plan = plan_spread(world(spread(subset("a", 3), subset("b")), *pods))
    # then
    assert status_of(plan)["a"] == entry("a", 0, 5)
    assert costs(plan) == {"p0": 200, "p1": 200, "p2": 200, "p3": -100, "p4": -100}


def test_a_terminating_pod_above_max_replicas_frees_no_slot() -> None:
    """Else a subset never came down to a maximum that was lowered: each pod that goes would bring another."""
    # given four pods where two may be, of which one is to go
    document = spread(
        subset("a", 2), subset("b"), status=known(entry("a", 0, 4, deletingPods={"p1": ago(1)}))
    )
    plan = plan_spread(world(document, *(stored(f"p{one}", "a") for one in range(4))))
    assert status_of(plan)["a"]["missingReplicas"] == 0
    # when three are to go
    going = {f"p{one}": ago(1) for one in range(3)}
    document = spread(subset("a", 2), subset("b"), status=known(entry("a", 0, 4, deletingPods=going)))
    plan = plan_spread(world(document, *(stored(f"p{one}", "a") for one in range(4))))
    # then one place is free
    assert status_of(plan)["a"]["missingReplicas"] == 1


def test_the_surplus_stays_the_surplus_when_pods_are_equally_ready() -> None:
    """A lower cost that moved from pod to pod with every restart would be written again and again."""
    # given the older one has the lower cost, from when the other was not there
    pods = [stored("old", "a", age=1000, cost=-100), stored("new", "a", age=10, cost=200)]
    # when, then
    assert costs(plan_spread(world(spread(subset("a", 1), subset("b")), *pods))) == {}
    # when the younger is not ready, then it goes first
    pods[1] = stored("new", "a", age=10, cost=200, ready=False)
    assert costs(plan_spread(world(spread(subset("a", 1), subset("b")), *pods))) == {"old": 200, "new": -100}


def test_a_line_of_the_status_shows_where_pods_are() -> None:
    # given a subset with more pods than it takes, one with an invalid limit, and one without
    document = spread(subset("a", 1), subset("b", "some"), subset("c"))
    pods = [stored("p1", "a"), stored("p2", "a"), stored("p3", "b")]
    # then
    shown = plan_spread(world(document, *pods)).status
    assert shown is not None
    assert shown["spread"] == "a 2/1, b 1, c 0"


def test_a_finished_pod_is_not_counted_and_costs_nothing_case_54() -> None:
    pods = [stored("p1", "a"), stored("p2", "a", phase="Succeeded")]
    plan = plan_spread(world(spread(subset("a", 3)), *pods))
    assert status_of(plan)["a"]["replicas"] == 1
    assert set(costs(plan)) == {"p1"}


# ── costs ────────────────────────────────────────────────────────────────────


def of_version(name: str, of: str, version: str) -> Document:
    owner = ("apps/v1", "ReplicaSet", f"web-{version}")
    return stored(name, of, owner=owner, labels={"pod-template-hash": version})


def test_pods_of_old_versions_have_the_opposite_order_case_55() -> None:
    document = spread(subset("a", 10), subset("b", 10), subset("c"), target=DEPLOYMENT)
    pods = [of_version(f"{version}-{of}", of, version) for version in ("old", "new") for of in "abc"]
    plan = plan_spread(world(document, *pods, latest="new"))
    assert costs(plan) == {"new-a": 300, "new-b": 200, "new-c": 100, "old-a": 100, "old-b": 200, "old-c": 300}
    assert set(status_of(plan, "old")) == {"a", "b", "c"}
    assert status_of(plan, "")["a"]["replicas"] == 2


def test_pods_of_a_subset_that_was_removed_go_first_case_56() -> None:
    pods = [stored("p1", "b"), stored("p2", "b"), stored("p3", "a")]
    plan = plan_spread(world(spread(subset("a", 3), subset("c")), *pods))
    assert costs(plan) == {"p1": -300, "p2": -300, "p3": 200}
    assert set(status_of(plan)) == {"a", "c"}
    assert "subset b is not there any more" in plan.skipped["p1"].message


def test_counts_follow_names_when_the_order_changes_case_57() -> None:
    before = known(entry("a", 1, 1, creatingPods={"p9": ago(1)}), entry("b", -1, 2))
    pods = [stored("p1", "a"), stored("p2", "b"), stored("p3", "b")]
    plan = plan_spread(world(spread(subset("b"), subset("a", 3), status=before), *pods))
    assert list(status_of(plan)) == ["b", "a"]
    assert status_of(plan)["a"] == entry("a", 1, 1, creatingPods={"p9": ago(1)})
    assert status_of(plan)["b"] == entry("b", -1, 2)


def test_a_cost_that_is_right_is_not_written_again() -> None:
    plan = plan_spread(world(spread(subset("a")), stored("p1", "a", cost=100), stored("p2", "a", cost=5)))
    assert costs(plan) == {"p2": 100}


# ── adoption ─────────────────────────────────────────────────────────────────


def test_equal_subsets_are_filled_evenly_case_58() -> None:
    required = {"requiredNodeSelector": zone("a")}
    pods = [stored(f"p{one}", node="n1") for one in range(4)]
    document = spread(subset("a", 2, **required), subset("b", 2, **required))
    nodes = (node("n1", zone="a"),)
    assert status_of(plan_spread(world(document, *pods, nodes=nodes)))["a"] == entry("a", 0, 2)
    plan = counted(document, *pods, nodes=nodes)
    assert sorted(adopted(plan).values()) == ["a", "a", "b", "b"]
    assert plan.status is None


def test_a_pod_without_a_node_waits_and_goes_first_case_59() -> None:
    document = spread(subset("a"), subset("b"))
    plan = counted(document, stored("p1", phase="Pending", ready=False))
    assert adopted(plan) == {}
    assert costs(plan) == {"p1": -300}
    assert "on no node yet" in plan.skipped["p1"].message


@pytest.mark.parametrize("value", ["True", "true", "no"])
def test_the_patchs_metadata_can_be_left_out_case_60(value: str) -> None:
    patch = {
        "metadata": {"labels": {"tier": "a"}, "annotations": {"x": "1"}, "finalizers": ["f"], "name": "n"}
    }
    document = spread(
        subset("a", patch=patch),
        annotations={"workloadspread.kruise.io/ignore-patch-existing-pods-metadata": value},
    )
    plan = counted(document, stored("p1", node="n1"), nodes=(node("n1"),))
    [step] = plan.steps
    assert isinstance(step.action, Patch)
    metadata = step.action.body["metadata"]
    assert orjson.loads(metadata["annotations"][MATCHED_SPREAD_ANNOTATION]) == {"name": "ws", "subset": "a"}
    # of the patch labels and annotations only (LIFT-21)
    if value == "no":
        assert metadata["labels"] == {"tier": "a"}
        assert metadata["annotations"]["x"] == "1"
        assert set(metadata) == {"labels", "annotations"}
    else:
        assert "labels" not in metadata
        assert "x" not in metadata["annotations"]


def test_a_pod_is_adopted_where_it_could_be() -> None:
    # given a node with a taint that only subset b tolerates, and one that counts for nothing
    hard, soft = Taint("virtual", "NoSchedule"), Taint("x", "PreferNoSchedule")
    tolerations = [{"key": "virtual", "operator": "Exists"}]
    document = spread(subset("a"), subset("b", 1, tolerations=tolerations))
    pods = [stored("p1", node="n1"), stored("p2", node="n2"), stored("p3", node="gone")]
    # when
    plan = counted(document, *pods, nodes=(node("n1", hard), node("n2", soft)))
    # then
    assert adopted(plan) == {"p1": "b", "p2": "a"}
    assert "not known" in plan.skipped["p3"].message


def test_of_subsets_with_room_preferences_and_patches_that_fit_decide() -> None:
    # given a subset that its node prefers, one that is preferred and full, and one whose patch fits
    preferred = [{"weight": 1, "preference": zone("a")}]
    patched = {"metadata": {"labels": {"tier": "b"}}}
    document = spread(
        subset("x", 5),
        subset("full", 0, preferredNodeSelector=[{**preferred[0], "weight": 2}]),
        subset("a", 1, preferredNodeSelector=preferred),
        subset("b", patch=patched),
    )
    pods = [stored("p1", node="n1"), stored("p2", node="n2", labels={"tier": "b"}), stored("p3", node="n2")]
    # when
    plan = counted(document, *pods, nodes=(node("n1", zone="a"), node("n2", zone="c")))
    # then
    assert adopted(plan) == {"p1": "a", "p2": "b", "p3": "x"}


def _zones(*limits: int | None) -> list[Document]:
    return [
        subset(name, most, requiredNodeSelector=zone(name)) for name, most in zip("ab", limits, strict=True)
    ]


ZONES = (node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="c"))


def test_pods_beyond_what_all_subsets_take_are_left_alone() -> None:
    # given two full subsets, and pods without a note: on the nodes of either, elsewhere, and on none yet
    document = spread(*_zones(1, 1))
    placed = [stored("p1", "a", node="n1"), stored("p2", "b", node="n2")]
    surplus = [stored(f"p{3 + number}", node=one) for number, one in enumerate(("n1", "n2", "n3", ""))]
    # when
    first = plan_spread(world(document, *placed, *surplus, nodes=ZONES))
    plan = plan_spread(world(settled(document, first), *placed, *surplus, nodes=ZONES))
    # then
    assert status_of(first) == {"a": entry("a", 0, 1), "b": entry("b", 0, 1)}
    assert costs(plan) == {"p1": 200, "p2": 100}
    assert adopted(plan) == {}
    assert set(plan.skipped) == {"p3", "p4", "p5", "p6"}
    assert all("every subset is full" in why.message for why in plan.skipped.values())


def test_a_pod_is_adopted_only_while_its_subset_has_room() -> None:
    # given two pods in the zone of a subset with one place
    document = spread(*_zones(1, 5))
    pods = [stored("p1", node="n1"), stored("p2", node="n1")]
    # when
    plan = counted(document, *pods, nodes=ZONES)
    # then the other one goes first, as there is room elsewhere
    assert adopted(plan) == {"p1": "a"}
    assert costs(plan) == {"p1": 200, "p2": -300}
    assert "fits no subset that has room" in plan.skipped["p2"].message


def test_a_place_that_is_kept_for_a_pod_to_come_is_not_given_to_one_that_is_there() -> None:
    # given a place that admission gave to a pod ten seconds ago
    document = spread(*_zones(1, 0), status=known(entry("a", 0, creatingPods={"p9": ago(10)}), entry("b", 0)))
    pods = [stored("p1", node="n1")]
    # then
    plan = counted(document, *pods, nodes=ZONES)
    assert not plan.stages
    assert {name: why.message for name, why in plan.skipped.items()} == {
        "p1": "every subset is full: the pod is left as it is"
    }
    # when that pod does not come
    plan = counted(document, *pods, nodes=ZONES, now=NOW + 21)
    assert adopted(plan) == {"p1": "a"}


def test_a_pod_is_not_adopted_before_the_stored_status_counts_it() -> None:
    """Admission would hand out the place meanwhile, and the subset had more than it takes."""
    # given a stored status that offers a place
    document = spread(*_zones(1, 0), status=known(entry("a", 1), entry("b", 0)))
    plan = plan_spread(world(document, stored("p1", node="n1"), nodes=ZONES))
    # then that is taken first
    assert status_of(plan)["a"] == entry("a", 0, 1)
    assert adopted(plan) == {}
    # and while pods of the subset come and go beside, their costs are written all the same
    document = spread(*_zones(2, 0), status=known(entry("a", 2), entry("b", 0)))
    plan = plan_spread(world(document, stored("p1", node="n1"), stored("p2", "a", node="n1"), nodes=ZONES))
    assert (adopted(plan), costs(plan)) == ({}, {"p2": 200})


# ── rescheduling ─────────────────────────────────────────────────────────────


def adaptive(*subsets: Document, seconds: int = 30, **given: Any) -> Document:
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}}
    return spread(*subsets, scheduleStrategy=strategy, **given)


def condition(status: str, seconds: float) -> list[Document]:
    reason = "Sufficient" if status == "True" else "PodUnschedulable"
    return [
        {
            "type": "Schedulable",
            "status": status,
            "reason": reason,
            "message": "",
            "lastTransitionTime": ago(seconds),
        }
    ]


def test_a_subset_is_closed_before_its_pod_is_moved_case_61() -> None:
    # given
    late = stored("p1", "a", age=31, unschedulable=True)
    document = adaptive(subset("a", 3), subset("b"))
    # when
    first = plan_spread(world(document, late))
    # then the status says so first
    assert deleted(first) == set()
    assert status_of(first)["a"]["conditions"][0]["status"] == "False"
    assert status_of(first, "")["a"]["conditions"][0]["reason"] == "PodUnschedulable"
    # and then the pod goes
    second = plan_spread(world(settled(document, first), late))
    assert deleted(second) == {"p1"}
    [delete] = [step.action for step in second.steps if isinstance(step.action, Delete)]
    assert (delete.uid, delete.resource_version) == ("uid-p1", "7")


def test_a_pod_may_be_unschedulable_as_long_as_the_strategy_says() -> None:
    document = adaptive(subset("a", 3), subset("b"))
    plan = plan_spread(world(document, stored("p1", "a", age=20, unschedulable=True)))
    assert status_of(plan)["a"]["conditions"][0]["status"] == "True"
    assert plan.requeue_after_s == 10


@pytest.mark.parametrize(
    ("seconds", "status", "events"), [(301, "True", ["RecoverSchedulable"]), (299, "False", [])]
)
def test_a_closed_subset_opens_again_case_62(seconds: float, status: str, events: list[str]) -> None:
    entries = [entry("a", 3, conditions=condition("False", seconds)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document))
    assert events_of(plan) == events
    assert status_of(plan, "")["a"]["conditions"][0]["status"] == status
    assert plan.requeue_after_s == (None if status == "True" else 1)


def test_a_pod_of_the_last_subset_is_never_moved_case_63() -> None:
    entries = [
        entry("a", 3, conditions=condition("True", 9)),
        entry("b", -1, 1, conditions=condition("False", 9)),
    ]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document, stored("p1", "b", age=99, unschedulable=True)))
    assert deleted(plan) == set()
    assert status_of(plan)["b"]["conditions"][0]["status"] == "True"


def test_without_the_strategy_conditions_vanish_case_64() -> None:
    entries = [entry("a", 3, conditions=condition("False", 9)), entry("b", -1)]
    document = spread(
        subset("a", 3),
        subset("b"),
        scheduleStrategy={"type": "Fixed"},
        status=known(*entries, overall=entries),
    )
    plan = plan_spread(world(document, stored("p1", "a")))
    assert "conditions" not in status_of(plan)["a"]


def test_a_stored_false_keeps_its_time_while_pods_are_late() -> None:
    entries = [entry("a", 2, 1, conditions=condition("False", 400)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document, stored("p1", "a", age=31, unschedulable=True)))
    assert status_of(plan)["a"]["conditions"] == condition("False", 400)


# ── targets ──────────────────────────────────────────────────────────────────


def test_a_job_has_limits_and_no_costs_case_65() -> None:
    job = project_target(orjson.dumps(workload(JOB, parallelism=4)))
    assert job.replicas == 4
    plan = plan_spread(
        world(spread(subset("a", "50%"), target=JOB), stored("p1", "a"), replicas=job.replicas)
    )
    assert status_of(plan)["a"] == entry("a", 1, 1)
    assert costs(plan) == {}


def test_an_invalid_limit_is_reported_and_its_pods_counted_lift_19() -> None:
    document = spread(subset("a", "some"), subset("b"))
    plan = plan_spread(world(document, stored("p1", "a")))
    assert status_of(plan)["a"] == entry("a", 0, 1)
    assert events_of(plan) == ["InvalidMaxReplicas"]
    assert costs(plan) == {}


def test_a_version_without_pods_vanishes_unless_one_is_to_come_case_68() -> None:
    document = spread(
        subset("a", 3),
        target=DEPLOYMENT,
        status={
            "versionedSubsetStatuses": {
                "old": [entry("a", 3)],
                "new": [entry("a", 2, creatingPods={"p": ago(3)})],
            }
        },
    )
    plan = plan_spread(world(document, latest="new"))
    assert plan.status is not None
    assert set(plan.status["versionedSubsetStatuses"]) == {"new"}


def test_a_latest_version_that_is_not_known_stops_costs_only_case_69() -> None:
    document = spread(subset("a", 3), target=DEPLOYMENT)
    plan = plan_spread(world(document, of_version("p1", "a", "h1"), latest=None))
    assert status_of(plan, "h1")["a"]["replicas"] == 1
    assert costs(plan) == {}
    assert plan.requeue_after_s is None
    soon = plan_spread(world(document, of_version("p1", "a", "h1"), latest=None, latest_is_coming=True))
    assert soon.requeue_after_s == 2


def test_one_that_is_on_its_way_out_does_nothing_case_70() -> None:
    document = spread(subset("a", 3))
    document["metadata"]["deletionTimestamp"] = ago(1)
    plan = plan_spread(world(document, stored("p1", "a")))
    assert plan.is_settled


def test_the_second_reconcile_writes_nothing_case_71() -> None:
    document = spread(
        subset("a", 3),
        subset("b"),
        status=known(entry("a", 3, creatingPods={}), entry("b", -1, deletingPods={})),
    )
    pods = [stored("p1", "a", cost=200), stored("p2", "b", cost=100)]
    first = plan_spread(world(document, *pods))
    assert first.status is not None
    assert plan_spread(world(settled(document, first), *pods)).is_settled


def test_an_empty_map_is_an_absent_one_lift_18() -> None:
    document = spread(subset("a", 3))
    first = plan_spread(world(document, stored("p1", "a", cost=100)))
    after = settled(document, first)
    for one in after["status"]["subsetStatuses"]:
        one["creatingPods"] = {}
    assert plan_spread(world(after, stored("p1", "a", cost=100))).is_settled


# ── versions ─────────────────────────────────────────────────────────────────


def test_pods_are_distinguished_by_their_hash_if_their_kind_is() -> None:
    kinds = versioned_kinds(["Deployment", " CloneSet"])
    assert kinds == {"deployment", "replicaset", "cloneset"}
    assert version_of({"pod-template-hash": "h"}, owner_kind="ReplicaSet", versioned=kinds) == "h"
    assert version_of({"controller-revision-hash": "web-x1"}, owner_kind="CloneSet", versioned=kinds) == "x1"
    assert version_of({"pod-template-hash": "h"}, owner_kind="Job", versioned=kinds) == UNVERSIONED
    assert version_of({}, owner_kind="CloneSet", versioned=kinds) == UNVERSIONED


def target_of(document: Document, **fields: Any) -> TargetView:
    return msgspec.structs.replace(project_target(orjson.dumps(document)), **fields)


def test_the_latest_version_of_a_deployment_is_that_of_its_template() -> None:
    kind = GroupKind("apps", "Deployment")
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "m", "image": "v2"}]},
    }
    owner = ("apps/v1", "ReplicaSet", "web-h2")
    own = workload(
        owner,
        template={**template, "metadata": {"labels": {"app": "web", "pod-template-hash": "h2"}}},
    )
    own["metadata"]["labels"] = {"pod-template-hash": "h2"}
    deployment = target_of(workload(DEPLOYMENT, template=template))
    sets = [target_of(workload(owner)), target_of(own)]
    assert latest_version(kind, deployment, replica_sets=sets) == "h2"
    assert latest_version(kind, deployment, replica_sets=sets[:1]) is None
    assert latest_version(kind, None) == ""


def test_the_latest_version_of_a_cloneset_counts_once_its_status_is_of_now() -> None:
    kinds = versioned_kinds(["cloneset"])
    kind = GroupKind("apps.kruise.io", "CloneSet")
    one = target_of(workload(CLONE_SET), generation=2, observed_generation=2, update_revision="web-abc")
    assert latest_version(kind, one) == UNVERSIONED
    assert latest_version(kind, one, versioned=kinds) == "abc"
    stale = msgspec.structs.replace(one, observed_generation=1)
    assert latest_version(kind, stale, versioned=kinds) is None
