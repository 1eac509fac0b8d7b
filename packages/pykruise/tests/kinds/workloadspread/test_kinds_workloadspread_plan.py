"""Plans of the WorkloadSpread controller. Numbers are cases of the specification."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.snapshot import find_latest_version
from pykruise.kinds.workloadspread.status import find_closing_time
from pykruise.kinds.workloadspread.types import SubsetStatus
from pykruise.kinds.workloadspread.versions import UNVERSIONED, parse_versioned_kinds, version_of
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.nodes import Taint
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.purposes import Purpose
from pykruise.plans.targets import TargetView, project_target
from pykruise.pods.reasons import Code
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.spread_worlds import (
    adopted,
    ago,
    costs,
    counted,
    deleted,
    entry,
    events_of,
    known,
    node,
    settled,
    status_of,
    stored,
    world,
)
from support.spreads import CLONE_SET, DEPLOYMENT, NOW, spread, subset, workload, zone

JOB = ("batch/v1", "Job", "web")


def failures(plan: Plan) -> dict[str, list[tuple[str, bool]]]:
    """Events about failed writes, and whether they are warnings, by pod."""
    failures: dict[str, list[tuple[str, bool]]] = {}
    for step in plan.steps:
        if step.failed is not None and isinstance(step.action, Delete if deleted(plan) else Patch):
            failures.setdefault(step.action.key.name, []).append((step.failed.reason, step.failed.warning))
    return failures


# ── slots ────────────────────────────────────────────────────────────────────


def test_an_admitted_pod_keeps_its_slot_for_a_while_case_50() -> None:
    document = spread(
        subset("a", 3),
        subset("b"),
        status=known(
            entry("a", 0, creatingPods={"p2": ago(10), "p3": ago(10), "p4": ago(5)}),
            entry("b", -1, creatingPods={"p5": ago(1)}),
        ),
    )
    plan = plan_spread(world(document, stored("p1", "a"), stored("p2", "a")))
    assert status_of(plan)["a"] == entry("a", 0, 2, creatingPods={"p3": ago(10), "p4": ago(5)})
    assert status_of(plan)["b"] == entry("b", -1, creatingPods={"p5": ago(1)})
    assert plan.requeue_after_s == 20


def test_a_pod_without_a_name_is_recognised_by_its_key() -> None:
    document = spread(subset("a", 3), status=known(entry("a", 2, creatingPods={"u-1": ago(5)})))
    plan = plan_spread(world(document, stored("web-x", "a", uid="u-1")))
    assert status_of(plan)["a"] == entry("a", 2, 1)


@pytest.mark.parametrize("seconds", [30, 31])
def test_a_pod_that_is_not_created_in_time_loses_its_slot_case_51(seconds: float) -> None:
    document = spread(subset("a", 3), status=known(entry("a", 0, creatingPods={"p3": ago(seconds)})))
    plan = plan_spread(world(document, stored("p1", "a"), stored("p2", "a")))
    assert status_of(plan)["a"] == entry("a", 1, 2)
    assert events_of(plan) == ["CreatePodFailed"]


@pytest.mark.parametrize(
    ("seconds", "missing", "again_after_s"), [(5, 1, 10), (14, 1, 1), (15, 0, None), (16, 0, None)]
)
def test_a_pod_to_be_deleted_frees_its_slot_for_a_while_case_52(
    seconds: float, missing: int, again_after_s: float | None
) -> None:
    document = spread(subset("a", 3), status=known(entry("a", 1, deletingPods={"p1": ago(seconds)})))
    plan = plan_spread(world(document, *(stored(f"p{literal}", "a") for literal in (1, 2, 3))))
    kept = {"deletingPods": {"p1": ago(seconds)}} if missing else {}
    assert status_of(plan)["a"] == entry("a", missing, 3, **kept)
    assert events_of(plan) == ([] if missing else ["DeletePodFailed"])
    assert plan.requeue_after_s == again_after_s


def test_the_record_of_a_missing_pod_is_dropped() -> None:
    document = spread(subset("a", 3), status=known(entry("a", 1, deletingPods={"p9": ago(1)})))
    plan = plan_spread(world(document, stored("p1", "a")))
    assert status_of(plan)["a"] == entry("a", 2, 1)


def test_too_many_pods_leave_no_slot_and_the_surplus_has_the_lowest_cost_case_53() -> None:
    # given the youngest two are not ready
    pods = [stored(f"p{item}", "a", ready=item < 3, age=1000 - item) for item in range(5)]
    # when
    plan = plan_spread(world(spread(subset("a", 3), subset("b")), *pods))
    # then
    assert status_of(plan)["a"] == entry("a", 0, 5)
    assert costs(plan) == {"p0": 200, "p1": 200, "p2": 200, "p3": -100, "p4": -100}


def test_a_terminating_pod_above_max_replicas_frees_no_slot() -> None:
    """A subset could not shrink to a lowered maximum if each deleted pod were replaced."""
    # given four pods of at most two, one of which is being deleted
    document = spread(
        subset("a", 2), subset("b"), status=known(entry("a", 0, 4, deletingPods={"p1": ago(1)}))
    )
    plan = plan_spread(world(document, *(stored(f"p{item}", "a") for item in range(4))))
    assert status_of(plan)["a"]["missingReplicas"] == 0
    # when three are being deleted
    going = {f"p{item}": ago(1) for item in range(3)}
    document = spread(subset("a", 2), subset("b"), status=known(entry("a", 0, 4, deletingPods=going)))
    plan = plan_spread(world(document, *(stored(f"p{item}", "a") for item in range(4))))
    # then one slot is free
    assert status_of(plan)["a"]["missingReplicas"] == 1


def test_the_surplus_stays_the_surplus_when_pods_are_equally_ready() -> None:
    """A lower cost that moved from pod to pod with every restart would be written again and again."""
    # given the older one has the lower cost, from a time when the other did not exist
    pods = [stored("old", "a", age=1000, cost=-100), stored("new", "a", age=10, cost=200)]
    # when, then
    assert costs(plan_spread(world(spread(subset("a", 1), subset("b")), *pods))) == {}
    # when the younger is not ready, then it is the surplus
    pods[1] = stored("new", "a", age=10, cost=200, ready=False)
    assert costs(plan_spread(world(spread(subset("a", 1), subset("b")), *pods))) == {"old": 200, "new": -100}


def test_a_line_of_the_status_shows_where_pods_are() -> None:
    # given a subset with too many pods, one with an invalid limit, and one without a limit
    document = spread(subset("a", 1), subset("b", "some"), subset("c"))
    pods = [stored("p1", "a"), stored("p2", "a"), stored("p3", "b")]
    # then
    shown = plan_spread(world(document, *pods)).status
    assert shown is not None
    assert shown["spread"] == "a 2/1, b 1, c 0"


def test_a_subset_may_take_no_pods_case_8() -> None:
    plan = plan_spread(world(spread(subset("a", 0), subset("b")), stored("p1", "a"), stored("p2", "b")))
    assert status_of(plan) == {"a": entry("a", 0, 1), "b": entry("b", -1, 1)}
    assert (costs(plan), events_of(plan)) == ({"p1": -100, "p2": 100}, [])


def test_a_finished_pod_is_not_counted_and_costs_nothing_case_54() -> None:
    pods = [stored("p1", "a"), stored("p2", "a", phase="Succeeded"), stored("p3", "gone", phase="Failed")]
    plan = plan_spread(world(spread(subset("a", 3)), *pods))
    assert status_of(plan)["a"]["replicas"] == 1
    assert set(costs(plan)) == {"p1"}


# ── costs ────────────────────────────────────────────────────────────────────


def test_surplus_pods_of_a_later_subset_have_a_lower_cost_than_those_of_earlier_ones() -> None:
    """The table of section 6.6: 2, 2 and 1 pods in subsets with limits 1, 1 and none."""
    pods = [*(stored(f"{of}{number}", of) for of in "ab" for number in (1, 2)), stored("c1", "c")]
    plan = plan_spread(world(spread(subset("a", 1), subset("b", 1), subset("c")), *pods))
    assert costs(plan) == {"a1": -100, "a2": 300, "b1": -200, "b2": 200, "c1": 100}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # ready without a time, before ready for one second
        ({"since": None}, {"since": 1}),
        ({"since": 9}, {"since": 900}),
        # the pod that has the lower cost already, before the one that is ready without a time
        ({"since": 900, "cost": -100}, {"since": None}),
        # but not before a pod that is not ready
        ({"since": 900, "ready": False}, {"since": None, "cost": -100}),
    ],
)
def test_surplus_pods_that_are_the_least_available_have_the_lowest_cost(first: Any, second: Any) -> None:
    def of(name: str, *, since: float | None, **given: Any) -> Document:
        document = stored(name, "a", **given)
        for condition in document["status"]["conditions"]:
            condition["lastTransitionTime"] = None if since is None else ago(since)
        return document

    pods = [of("second", **second), of("first", **first)]
    plan = plan_spread(world(spread(subset("a", 1), subset("b")), *pods))
    wanted = {"first": -100, "second": 200}
    assert costs(plan) == {
        name: cost for name, cost in wanted.items() if name != "first" or "cost" not in first
    }


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


def test_pods_of_a_removed_subset_have_the_lowest_cost_case_56() -> None:
    pods = [stored("p1", "b"), stored("p2", "b"), stored("p3", "a")]
    plan = plan_spread(world(spread(subset("a", 3), subset("c")), *pods))
    assert costs(plan) == {"p1": -300, "p2": -300, "p3": 200}
    assert set(status_of(plan)) == {"a", "c"}
    assert "subset b no longer exists" in plan.skipped["p1"].message


@pytest.mark.parametrize(("target", "goes_first"), [(CLONE_SET, True), (DEPLOYMENT, True), (JOB, False)])
def test_only_a_workload_that_reads_deletion_costs_deletes_pods_without_a_subset_first(
    target: tuple[str, str, str], goes_first: bool
) -> None:
    plan = plan_spread(world(spread(subset("a", 3), target=target), stored("p1", "b")))
    assert ("deleted first at the next scale-down" in plan.skipped["p1"].remedy) is goes_first
    assert bool(costs(plan)) is goes_first


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
    assert failures(plan) == {"p2": [("PatchPodDeletionCostFailed", True)]}


# ── adoption ─────────────────────────────────────────────────────────────────


def test_equal_subsets_are_filled_evenly_case_58() -> None:
    required = {"requiredNodeSelector": zone("a")}
    pods = [stored(f"p{item}", node="n1") for item in range(4)]
    document = spread(subset("a", 2, **required), subset("b", 2, **required))
    nodes = (node("n1", zone="a"),)
    assert status_of(plan_spread(world(document, *pods, nodes=nodes)))["a"] == entry("a", 0, 2)
    plan = counted(document, *pods, nodes=nodes)
    assert sorted(adopted(plan).values()) == ["a", "a", "b", "b"]
    assert plan.status is None


def test_a_pending_pod_waits_and_has_the_lowest_cost_case_59() -> None:
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
    # only labels and annotations of the patch are added (LIFT-21)
    if value == "no":
        assert metadata["labels"] == {"tier": "a"}
        assert metadata["annotations"]["x"] == "1"
        assert set(metadata) == {"labels", "annotations"}
    else:
        assert "labels" not in metadata
        assert "x" not in metadata["annotations"]


def test_an_adopted_pod_gets_no_keys_about_a_single_pod() -> None:
    """The CloneSet would delete each adopted pod with the first label."""
    labels = {"apps.kruise.io/specified-delete": "true", "tier": "a"}
    document = spread(subset("a", patch={"metadata": {"labels": labels}}))
    [step] = counted(document, stored("p1", node="n1"), nodes=(node("n1"),)).steps
    assert isinstance(step.action, Patch)
    assert step.action.body["metadata"]["labels"] == {"tier": "a"}


def test_a_pod_is_adopted_where_it_could_be() -> None:
    # given a node with a taint that only subset b tolerates, and a node whose taint does not matter
    hard, soft = Taint("virtual", "NoSchedule"), Taint("x", "PreferNoSchedule")
    tolerations = [{"key": "virtual", "operator": "Exists"}]
    document = spread(subset("a"), subset("b", 1, tolerations=tolerations))
    pods = [stored("p1", node="n1"), stored("p2", node="n2"), stored("p3", node="gone")]
    # when
    plan = counted(document, *pods, nodes=(node("n1", hard), node("n2", soft)))
    # then
    assert adopted(plan) == {"p1": "b", "p2": "a"}
    assert "is unknown" in plan.skipped["p3"].message


def test_preferences_and_matching_patches_choose_among_subsets_with_free_slots() -> None:
    # given a subset that prefers the node, a full one that prefers it, and one whose patch fits
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


def test_pods_beyond_the_capacity_of_all_subsets_are_not_adopted() -> None:
    # given two full subsets, and pods without the annotation: on the nodes of either, elsewhere, and on no node yet
    document = spread(*_zones(1, 1))
    placed = [stored("p1", "a", node="n1"), stored("p2", "b", node="n2")]
    surplus = [stored(f"p{3 + number}", node=value) for number, value in enumerate(("n1", "n2", "n3", ""))]
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
    # given two pods in the zone of a subset with one slot
    document = spread(*_zones(1, 5))
    pods = [stored("p1", node="n1"), stored("p2", node="n1")]
    # when
    plan = counted(document, *pods, nodes=ZONES)
    # then the other pod has the lowest cost, as another subset has room
    assert adopted(plan) == {"p1": "a"}
    assert costs(plan) == {"p1": 200, "p2": -300}
    assert "fits no subset that has room" in plan.skipped["p2"].message


def made(document: Document, *, ago_s: float) -> Document:
    document["metadata"]["creationTimestamp"] = ago(ago_s)
    return document


def test_older_pods_are_all_adopted_and_newer_ones_only_into_free_slots() -> None:
    # given a WorkloadSpread of a minute ago, four pods that are older and two that are not
    document = made(spread(*_zones(1, 2)), ago_s=60)
    before = [
        stored(f"p{number}", node=value, age=61) for number, value in enumerate(("n1", "n1", "n2", "n2"))
    ]
    later = [stored("p5", node="n1", age=60), stored("p6", node="n2", age=30)]
    # when
    plan = counted(document, *before, *later, nodes=ZONES)
    # then
    assert adopted(plan) == {"p0": "a", "p1": "a", "p2": "b", "p3": "b"}
    assert {name: why.code for name, why in plan.skipped.items()} == {"p5": Code.SURPLUS, "p6": Code.SURPLUS}
    assert sorted(costs(plan).values()) == [-100, 100, 100, 200]
    # and the number of missing replicas is not negative
    assert status_of(plan_spread(world(document, *before, *later, nodes=ZONES)))["a"] == entry("a", 0, 2)


def test_an_older_pod_is_adopted_by_a_free_subset_before_a_better_matching_full_one() -> None:
    preferred = [{"weight": 9, "preference": zone("a")}]
    document = made(spread(subset("full", 0, preferredNodeSelector=preferred), subset("b", 1)), ago_s=60)
    pods = [stored("p1", node="n1"), stored("p2", node="n1")]
    assert adopted(counted(document, *pods, nodes=ZONES)) == {"p1": "b", "p2": "full"}


def test_an_older_pod_that_matches_no_subset_has_the_lowest_cost() -> None:
    document = made(spread(*_zones(1, 0)), ago_s=60)
    plan = counted(document, stored("p1", "a", node="n1"), stored("p2", node="n3"), nodes=ZONES)
    assert adopted(plan) == {}
    assert costs(plan) == {"p1": 200, "p2": -300}
    assert "fits no subset" in plan.skipped["p2"].message


def test_a_slot_kept_for_a_pod_in_creation_is_not_given_to_an_existing_pod() -> None:
    # given a slot that admission allocated to a pod ten seconds ago
    document = spread(*_zones(1, 0), status=known(entry("a", 0, creatingPods={"p9": ago(10)}), entry("b", 0)))
    pods = [stored("p1", node="n1")]
    # then
    plan = counted(document, *pods, nodes=ZONES)
    assert not plan.stages
    assert {name: why.message for name, why in plan.skipped.items()} == {
        "p1": "every subset is full: the pod stays unchanged"
    }
    # when that pod is not created
    plan = counted(document, *pods, nodes=ZONES, now=NOW + 20)
    assert adopted(plan) == {"p1": "a"}


def test_a_pod_on_no_node_is_more_than_all_subsets_take_once_another_has_the_last_place() -> None:
    pods = [stored("p1"), stored("p2", node="n1")]
    plan = counted(spread(*_zones(1, 0)), *pods, nodes=ZONES)
    assert adopted(plan) == {"p2": "a"}
    assert {name: why.code for name, why in plan.skipped.items()} == {"p1": Code.SURPLUS}
    assert costs(plan) == {"p2": 200}


def test_a_pod_that_was_not_read_yet_waits() -> None:
    plan = counted(spread(*_zones(1, 1)), stored("p1", node="n1"), nodes=ZONES, documents={})
    assert adopted(plan) == {}
    assert {name: why.code for name, why in plan.skipped.items()} == {"p1": Code.NO_SUBSET}


@pytest.mark.parametrize("text", ['{"name":"other","subset":"a"}', '{"name":"ws"}', "no json"])
def test_a_pod_with_an_annotation_of_no_known_subset_is_adopted(text: str) -> None:
    document = stored("p1", node="n2")
    document["metadata"]["annotations"] = {MATCHED_SPREAD_ANNOTATION: text}
    first = plan_spread(world(spread(*_zones(1, 1)), document, nodes=ZONES))
    plan = plan_spread(world(settled(spread(*_zones(1, 1)), first), document, nodes=ZONES))
    assert adopted(plan) == {"p1": "b"}


def _own_terms(*terms: Document | None) -> Document:
    """Required terms of a pod; None: the list is null."""
    given = None if terms == (None,) else [*terms]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": given}}}


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({"tolerations": [{"key": "x", "operator": "Exists"}]}, "a"),
        ({}, ""),
        ({"tolerations": None}, ""),
    ],
)
def test_a_pods_own_tolerations_count_beside_those_of_the_subset(own: Document, wanted: str) -> None:
    plan = counted(
        spread(subset("a", tolerations=[{"key": "y", "operator": "Exists"}])),
        stored("p1", node="n1", **own),
        nodes=(node("n1", Taint("x", "NoSchedule"), Taint("y", "NoExecute")),),
    )
    assert adopted(plan) == ({"p1": wanted} if wanted else {})


DISK = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
GPU = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({}, "a"),
        ({"affinity": None}, "a"),
        ({"affinity": {"podAffinity": {}}}, "a"),
        ({"affinity": _own_terms(None)}, "a"),
        ({"affinity": _own_terms(GPU)}, ""),
        ({"affinity": _own_terms(GPU, DISK)}, "a"),
        # too many terms to combine with those of the subset
        ({"affinity": _own_terms(*[DISK] * 2_501)}, ""),
    ],
)
def test_a_pods_own_node_affinity_counts_beside_that_of_the_subset(own: Document, wanted: str) -> None:
    # given a subset that requires twenty expressions of a node
    required = {"matchExpressions": [*zone("a")["matchExpressions"], *GPU_AND_OTHERS]}
    plan = counted(
        spread(subset("a", requiredNodeSelector=required)),
        stored("p1", node="n1", **own),
        nodes=(node("n1", zone="a", disk="ssd"),),
    )
    assert adopted(plan) == ({"p1": wanted} if wanted else {})


GPU_AND_OTHERS = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(19)]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        # a preference that the node does not meet is ignored
        ([{}, {"preferredNodeSelector": [{"weight": 9, "preference": zone("b")}]}], "x"),
        # weights are added up, and count more than a patch that fits
        (
            [
                {"patch": {"metadata": {"labels": {"app": "web"}}}},
                {"preferredNodeSelector": [{"weight": 1, "preference": zone("a")}]},
            ],
            "y",
        ),
        (
            [
                {"preferredNodeSelector": [{"weight": 2, "preference": zone("a")}]},
                {
                    "preferredNodeSelector": [
                        {"weight": literal, "preference": zone("a")} for literal in (1, 2)
                    ]
                },
            ],
            "y",
        ),
        # the pod need not have the annotations of a patch
        ([{}, {"patch": {"metadata": {"labels": {"app": "web"}, "annotations": {"x": "1"}}}}], "y"),
        # a patch that cannot be merged fits no pod
        ([{}, {"patch": {"spec": {"containers": "none"}}}], "x"),
    ],
)
def test_the_better_matching_of_two_subsets_adopts_the_pod(fields: list[Document], wanted: str) -> None:
    document = spread(*(subset(name, **more) for name, more in zip("xy", fields, strict=True)))
    pods = [stored("p1", node="n1", labels={"app": "web"})]
    assert adopted(counted(document, *pods, nodes=(node("n1", zone="a"),))) == {"p1": wanted}


def test_a_pod_is_not_adopted_before_the_stored_status_counts_it() -> None:
    """Admission could allocate the slot in the meantime, and the subset would have more pods than its maximum."""
    # given a stored status with a free slot
    document = spread(*_zones(1, 0), status=known(entry("a", 1), entry("b", 0)))
    plan = plan_spread(world(document, stored("p1", node="n1"), nodes=ZONES))
    # then the slot is taken in the status first
    assert status_of(plan)["a"] == entry("a", 0, 1)
    assert adopted(plan) == {}
    # and while pods of the subset change, costs of other pods are written
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
    open_entries = [entry("a", 3, conditions=condition("True", 99)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*open_entries, overall=open_entries))
    # when
    first = plan_spread(world(document, late))
    # then the status is written first
    assert deleted(first) == set()
    assert status_of(first)["a"]["conditions"][0]["status"] == "False"
    assert status_of(first, "")["a"]["conditions"][0]["reason"] == "PodUnschedulable"
    # and then the pod is deleted
    second = plan_spread(world(settled(document, first), late))
    assert deleted(second) == {"p1"}
    [delete] = [step.action for step in second.steps if isinstance(step.action, Delete)]
    assert (delete.uid, delete.resource_version) == ("uid-p1", "7")
    # even if other writes fail; and an event reports its failure
    assert failures(second) == {"p1": [("DeletePodFailed", True)]}
    assert {stage.purpose: stage.regardless for stage in second.stages} == {
        Purpose.MARK_PODS: False,
        Purpose.RESCHEDULE_PODS: True,
    }


def test_a_closed_subset_stays_closed_when_all_pods_have_moved_case_61() -> None:
    # given that all pods have moved, so that the version has no pods for a moment
    entries = [entry("a", 3, conditions=condition("False", 10)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    # when
    plan = plan_spread(world(document))
    # then the subset is closed for their successors, until it opens again
    assert status_of(plan)["a"]["conditions"] == condition("False", 10)
    assert plan.requeue_after_s == 290


def test_a_pod_moves_only_when_its_successor_would_find_the_subset_closed_case_61() -> None:
    # given a subset that is closed in the list of all versions, and open in the list that admission reads
    overall = [entry("a", 2, 1, conditions=condition("False", 10)), entry("b", -1)]
    own = [entry("a", 2, 1, conditions=condition("True", 10)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*own, overall=overall))
    late = stored("p1", "a", age=31, unschedulable=True)
    # when
    first = plan_spread(world(document, late))
    # then the subset is closed in that list first
    assert deleted(first) == set()
    assert status_of(first)["a"]["conditions"][0]["status"] == "False"
    assert deleted(plan_spread(world(settled(document, first), late))) == {"p1"}


@pytest.mark.parametrize(("age", "status", "again_after_s"), [(29, "True", 1), (30, "False", None)])
def test_a_subset_is_unschedulable_after_the_strategys_time(
    age: float, status: str, again_after_s: float | None
) -> None:
    document = adaptive(subset("a", 3), subset("b"))
    plan = plan_spread(world(document, stored("p1", "a", age=age, unschedulable=True)))
    assert status_of(plan)["a"]["conditions"] == condition(status, 0)
    assert plan.requeue_after_s == again_after_s


def not_waiting(**changes: Any) -> Document:
    """A pod that is unschedulable except for these changes of its status, spec or metadata."""
    document = stored("p1", "a", age=31, unschedulable=True)
    for part, fields in changes.items():
        document[part] |= fields
    return document


SCHEDULED: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    "late",
    [
        not_waiting(status={"phase": "Running"}),
        not_waiting(spec={"nodeName": "n1"}),
        not_waiting(metadata={"deletionTimestamp": ago(1)}),
        not_waiting(metadata={"creationTimestamp": None}),
        not_waiting(status={"conditions": []}),
        not_waiting(status={"conditions": [{**SCHEDULED, "status": "True"}]}),
        not_waiting(status={"conditions": [{**SCHEDULED, "reason": "SchedulingGated"}]}),
    ],
)
def test_only_pods_that_find_no_node_move_case_61(late: Document) -> None:
    # given a subset that is closed already
    entries = [entry("a", 2, 1, conditions=condition("False", 299)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    # when
    plan = plan_spread(world(document, late))
    # then the pod does not move, and the next reconcile is at the time when the subset opens again
    assert deleted(plan) == set()
    assert plan.requeue_after_s == 1


def test_a_schedulable_subset_is_not_changed() -> None:
    entries = [entry(text, -1, conditions=condition("True", 400)) for text in "ab"]
    document = adaptive(subset("a"), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document))
    assert [entry["conditions"] for entry in status_of(plan, "").values()] == [condition("True", 400)] * 2
    assert (events_of(plan), plan.requeue_after_s) == ([], None)


@pytest.mark.parametrize(
    ("seconds", "status", "events"),
    [(301, "True", ["RecoverSchedulable"]), (300, "True", ["RecoverSchedulable"]), (299, "False", [])],
)
def test_a_closed_subset_opens_again_case_62(seconds: float, status: str, events: list[str]) -> None:
    entries = [entry("a", 3, conditions=condition("False", seconds)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document))
    assert events_of(plan) == events
    assert not any(note.warning for note in plan.notes)
    assert status_of(plan, "")["a"]["conditions"] == condition(status, 0 if events else seconds)
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


def test_conditions_vanish_without_the_strategy_case_64() -> None:
    entries = [entry("a", 3, conditions=condition("False", 9)), entry("b", -1)]
    document = spread(
        subset("a", 3),
        subset("b"),
        scheduleStrategy={"type": "Fixed"},
        status=known(*entries, overall=entries),
    )
    plan = plan_spread(world(document, stored("p1", "a", unschedulable=True)))
    assert "conditions" not in status_of(plan)["a"]
    # and no pod is moved
    assert deleted(plan) == set()


@pytest.mark.parametrize("reason", ["PodUnschedulable", "Other"])
def test_a_stored_false_keeps_its_time_while_pods_are_late(reason: str) -> None:
    before = [{**entry, "reason": reason} for entry in condition("False", 400)]
    entries = [entry("a", 2, 1, conditions=before), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document, stored("p1", "a", age=31, unschedulable=True)))
    assert status_of(plan)["a"]["conditions"] == condition("False", 400)


def test_a_subset_that_closes_does_so_now_whenever_it_opened() -> None:
    entries = [entry("a", 2, 1, conditions=condition("True", 400)), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=entries))
    plan = plan_spread(world(document, stored("p1", "a", age=31, unschedulable=True)))
    assert status_of(plan)["a"]["conditions"] == condition("False", 0)


@pytest.mark.parametrize(
    ("conditions", "since"), [([], None), (condition("True", 9), None), (condition("False", 9), NOW - 9)]
)
def test_a_subset_is_closed_since_its_condition_became_false(
    conditions: list[Document], since: float | None
) -> None:
    status = msgspec.convert(entry("a", 3, conditions=conditions), SubsetStatus)
    assert find_closing_time(status) == since


# ── targets ──────────────────────────────────────────────────────────────────


def test_a_pod_of_a_job_is_adopted_without_a_cost_case_65() -> None:
    document = spread(subset("a", 5), target=JOB)
    plan = counted(document, stored("p1", node="n1"), nodes=(node("n1"),))
    assert (adopted(plan), costs(plan)) == ({"p1": "a"}, {})
    assert failures(plan) == {"p1": [("AdoptPodFailed", True)]}


def test_an_adopted_pod_keeps_a_cost_that_is_right() -> None:
    plan = counted(spread(subset("a", 5)), stored("p1", node="n1", cost=100), nodes=(node("n1"),))
    assert (adopted(plan), costs(plan)) == ({"p1": "a"}, {})


def test_a_job_has_limits_and_no_costs_case_65() -> None:
    job = project_target(orjson.dumps(workload(JOB, parallelism=4)))
    assert job.replicas == 4
    plan = plan_spread(
        world(spread(subset("a", "50%"), target=JOB), stored("p1", "a"), replicas=job.replicas)
    )
    assert status_of(plan)["a"] == entry("a", 1, 1)
    assert costs(plan) == {}


@pytest.mark.parametrize("most", ["some", -1])
@pytest.mark.parametrize("notes", [{}, {"creatingPods": {"p2": ago(99)}, "deletingPods": {"p3": ago(99)}}])
def test_an_invalid_limit_is_reported_and_its_pods_counted_lift_19(most: Any, notes: Any) -> None:
    document = spread(subset("a", most), subset("b"), status=known(entry("a", 2, **notes), entry("b", -1)))
    plan = plan_spread(world(document, stored("p1", "a")))
    assert status_of(plan)["a"] == entry("a", 0, 1, **notes)
    assert events_of(plan) == ["InvalidMaxReplicas"]
    assert costs(plan) == {}


def test_a_version_without_pods_is_removed_unless_one_is_in_creation_case_68() -> None:
    document = spread(
        subset("a", 3),
        target=DEPLOYMENT,
        status={
            "versionedSubsetStatuses": {
                "old": [entry("a", 3)],
                "new": [entry("a", 2, creatingPods={"p": ago(3)})],
                "late": [entry("a", 2, creatingPods={"q": ago(31)})],
            }
        },
    )
    plan = plan_spread(world(document, latest="new"))
    assert plan.status is not None
    assert set(plan.status["versionedSubsetStatuses"]) == {"new"}
    assert events_of(plan) == ["CreatePodFailed"]


def test_a_version_without_pods_is_kept_while_its_subset_is_closed() -> None:
    """All pods of a version are moved at the same time, and their successors must not get the old subset."""
    # given a latest version without pods whose subset is closed, and a version with a pod
    entries = {
        "new": [entry("a", 3, conditions=condition("False", 100)), entry("b", -1)],
        "h1": [entry("a", 2, 1, conditions=condition("True", 100)), entry("b", -1)],
    }
    document = adaptive(
        subset("a", 3), subset("b"), target=DEPLOYMENT, status={"versionedSubsetStatuses": entries}
    )
    plan = plan_spread(world(document, of_version("p1", "a", "h1"), latest="new"))
    # then the next reconcile is at the time when the subset opens again
    assert plan.status is not None
    assert set(plan.status["versionedSubsetStatuses"]) == {"new", "h1"}
    assert status_of(plan, "new")["a"]["conditions"] == condition("False", 100)
    assert plan.requeue_after_s == 200
    # and when the subset has opened, the version is removed
    entries["new"][0] = entry("a", 3, conditions=condition("False", 301))
    document = adaptive(
        subset("a", 3), subset("b"), target=DEPLOYMENT, status={"versionedSubsetStatuses": entries}
    )
    plan = plan_spread(world(document, of_version("p1", "a", "h1"), latest="new"))
    assert plan.status is not None
    assert set(plan.status["versionedSubsetStatuses"]) == {"h1"}


def test_a_latest_version_that_is_not_known_stops_costs_only_case_69() -> None:
    document = spread(subset("a", 3), target=DEPLOYMENT)
    plan = plan_spread(world(document, of_version("p1", "a", "h1"), latest=None))
    assert status_of(plan, "h1")["a"]["replicas"] == 1
    assert costs(plan) == {}
    assert plan.requeue_after_s is None
    soon = plan_spread(world(document, of_version("p1", "a", "h1"), latest=None, latest_is_coming=True))
    assert soon.requeue_after_s == 2
    # and a known version is not waited for
    there = plan_spread(world(document, of_version("p1", "a", "h1"), latest="h1", latest_is_coming=True))
    assert there.requeue_after_s is None
    # nor that of a workload without deletion costs
    document = spread(subset("a", 3), target=JOB)
    assert plan_spread(world(document, latest=None, latest_is_coming=True)).requeue_after_s is None


def test_a_terminating_workloadspread_writes_nothing_case_70() -> None:
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


@pytest.mark.parametrize("subsets", [[], [subset("a", 3)]])
def test_the_second_reconcile_writes_nothing_without_pods_or_subsets_case_71(subsets: Any) -> None:
    document = spread(*subsets)
    first = plan_spread(world(document))
    assert first.status is not None
    assert ("spread" in first.status) is bool(subsets)
    assert plan_spread(world(settled(document, first))).is_settled


def test_notes_that_stay_are_not_written_again_case_71() -> None:
    # given an expected pod, a deleted pod, and a closed subset
    conditions = condition("False", 9)
    noted = {"creatingPods": {"p2": ago(1)}, "deletingPods": {"p1": ago(1)}}
    entries = [entry("a", 2, 1, conditions=conditions, **noted), entry("b", -1)]
    overall = [entry("a", 2, 1, conditions=conditions), entry("b", -1)]
    document = adaptive(subset("a", 3), subset("b"), status=known(*entries, overall=overall))
    pods = [stored("p1", "a", cost=200)]
    # then
    first = plan_spread(world(document, *pods))
    assert status_of(first)["a"] == entry("a", 2, 1, conditions=conditions, **noted)
    second = plan_spread(world(settled(document, first), *pods))
    assert (second.status, second.stages) == (None, ())
    assert second.requeue_after_s == 14


@pytest.mark.parametrize(("field", "empty"), [("creatingPods", {}), ("deletingPods", {}), ("conditions", [])])
@pytest.mark.parametrize("most", [3, "some"])
def test_an_empty_map_is_an_absent_one_lift_18(field: str, empty: Any, most: Any) -> None:
    document = spread(subset("a", most))
    first = plan_spread(world(document, stored("p1", "a", cost=100)))
    after = settled(document, first)
    for status in (
        *after["status"]["subsetStatuses"],
        *after["status"]["versionedSubsetStatuses"][UNVERSIONED],
    ):
        status[field] = empty
    second = plan_spread(world(after, stored("p1", "a", cost=100)))
    assert (second.status, second.stages) == (None, ())


# ── limits, and the next reconcile ───────────────────────────────────────────


@pytest.mark.parametrize(("count", "again_after_s"), [(MOST_AT_ONCE, None), (MOST_AT_ONCE + 1, 0)])
def test_a_plan_writes_to_a_limited_number_of_pods_and_the_next_plan_to_the_rest(
    count: int, again_after_s: float | None
) -> None:
    plan = plan_spread(world(spread(subset("a")), *(stored(f"p{number}", "a") for number in range(count))))
    assert len(costs(plan)) == MOST_AT_ONCE
    assert plan.requeue_after_s == again_after_s


def test_unread_pods_cause_an_immediate_requeue() -> None:
    assert plan_spread(world(spread(subset("a")), has_more=True)).requeue_after_s == 0


def test_an_unwatched_workload_is_polled_or_requeued_earlier_when_something_is_due() -> None:
    document = spread(subset("a", 3), status=known(entry("a", 2, creatingPods={"p1": ago(5)})))
    assert plan_spread(world(document, polls_after=10.0)).requeue_after_s == 10
    assert plan_spread(world(document, polls_after=40.0)).requeue_after_s == 25


@pytest.mark.parametrize("wrong", [{"targetRef": 3}, {"targetRef": {"kind": "CloneSet", "name": "web"}}])
def test_an_unreadable_workload_spread_is_reported_and_not_changed(wrong: Any) -> None:
    document = spread(subset("a", 3))
    document["spec"] |= wrong
    plan = plan_spread(world(document, stored("p1", "a")))
    assert [(note.reason, note.warning, note.again_after_s) for note in plan.notes] == [
        ("InvalidSpec", True, 600)
    ]
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    assert msgspec.structs.replace(plan, notes=(), waiting=None) == Plan()


# ── versions ─────────────────────────────────────────────────────────────────


def test_pods_are_distinguished_by_their_hash_if_their_kind_is() -> None:
    kinds = parse_versioned_kinds(["Deployment", " CloneSet"])
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
    assert find_latest_version(kind, deployment, replica_sets=sets) == "h2"
    assert find_latest_version(kind, deployment, replica_sets=sets[:1]) is None
    assert find_latest_version(kind, None) == ""


def test_the_latest_version_of_a_cloneset_counts_once_its_status_is_of_now() -> None:
    kinds = parse_versioned_kinds(["cloneset"])
    kind = GroupKind("apps.kruise.io", "CloneSet")
    target = target_of(workload(CLONE_SET), generation=2, observed_generation=2, update_revision="web-abc")
    assert find_latest_version(kind, target) == UNVERSIONED
    assert find_latest_version(kind, target, versioned=kinds) == "abc"
    stale = msgspec.structs.replace(target, observed_generation=1)
    assert find_latest_version(kind, stale, versioned=kinds) is None
