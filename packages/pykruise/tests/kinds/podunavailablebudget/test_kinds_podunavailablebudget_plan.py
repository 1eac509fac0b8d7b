"""Plans of a budget: counts, annotations of its pods, and events. Numbers are cases of the specification."""

from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.podunavailablebudget.plan import plan_budget
from pykruise.kinds.podunavailablebudget.snapshot import BudgetSnapshot
from pykruise.kube.documents import Document
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.pods.view import keys
from pykruise.pods.workload.budgets import build_related_annotations
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.budgets import (
    CLONE_SET,
    DEPLOYMENT,
    NOW,
    Stored,
    ago,
    budget,
    pod,
    tied,
    workload,
    world,
)


def ready(count: int, *, first: int = 0, **fields: Any) -> list[Document]:
    return [tied(f"p{number}", **fields) for number in range(first, first + count)]


def status_of(doc: Document, pods: Iterable[Document], replicas: int, **fields: Any) -> dict[str, Any]:
    plan = plan_budget(world(doc, pods, [workload(CLONE_SET, replicas)], **fields))
    assert plan.status is not None
    return plan.status


def figures(status: dict[str, Any]) -> tuple[int, int, int, int]:
    """Total, desired, current and allowed pods of the status."""
    return (
        status["totalReplicas"],
        status["desiredAvailable"],
        status["currentAvailable"],
        status["unavailableAllowed"],
    )


def events(plan: Plan) -> list[str]:
    return [note.reason for note in plan.notes]


def marks(plan: Plan) -> dict[str, Any]:
    actions = [step.action for step in plan.steps]
    assert all(isinstance(action, Patch) for action in actions)
    return {
        action.key.name: action.body["metadata"]["annotations"]
        for action in actions
        if isinstance(action, Patch)
    }


@pytest.mark.parametrize(
    ("spec", "total", "desired", "left"),
    [
        ({"maxUnavailable": "30%"}, 10, 7, 3),  # podunavailablebudget case 18
        ({"maxUnavailable": "10%"}, 15, 13, 2),  # podunavailablebudget case 19
        ({"maxUnavailable": 100}, 10, 0, 10),  # podunavailablebudget case 20
        ({"minAvailable": 100}, 10, 100, 0),  # podunavailablebudget case 21
        ({"minAvailable": "80%"}, 10, 8, 2),  # podunavailablebudget case 22
        ({"maxUnavailable": "0%"}, 10, 10, 0),  # podunavailablebudget case 23
        ({"maxUnavailable": 1, "minAvailable": 2}, 10, 9, 1),
    ],
)
def test_the_budget_is_what_serves_beyond_what_must_cases_18_to_23(
    spec: Any, total: int, desired: int, left: int
) -> None:
    result = status_of(budget(**spec), ready(total), total)
    assert figures(result) == (total, desired, total, left)


@pytest.mark.parametrize(("down", "current", "left"), [(0, 80, 10), (5, 75, 5)])
def test_pods_allowed_to_be_disrupted_do_not_count_as_available_cases_24_25(
    down: int, current: int, left: int
) -> None:
    records = {
        "unavailablePods": {f"p{number}": ago(1) for number in range(10)},
        "disruptedPods": {f"p{number}": ago(1) for number in range(10, 20)},
    }
    pods = [*ready(100 - down), *ready(down, first=100 - down, ready=False)]
    result = status_of(budget(maxUnavailable="30%", status=records), pods, 100)
    assert figures(result)[2:] == (current, left)


def test_an_update_that_does_not_show_counts_again_case_26() -> None:
    records = {"unavailablePods": {f"p{number}": ago(10) for number in range(5)}}
    result = status_of(budget(maxUnavailable="30%", status=records), ready(10), 10)
    assert "unavailablePods" not in result
    assert result["currentAvailable"] == 10
    # and there is no event, because the pods stay
    doc = budget(maxUnavailable="30%", status=records)
    assert events(plan_budget(world(doc, ready(10), [workload(CLONE_SET, 10)]))) == []


def test_a_pod_that_was_not_deleted_counts_again_and_is_reported_case_27() -> None:
    doc = budget(maxUnavailable=1, status={"disruptedPods": {"p0": ago(20), "p1": ago(5)}})
    plan = plan_budget(world(doc, ready(10), [workload(CLONE_SET, 10)]))
    (note,) = plan.notes
    assert (note.reason, note.warning) == ("NotDeleted", True)
    assert note.about is not None
    assert note.about.key.name == "p0"
    assert plan.status is not None
    assert plan.status["disruptedPods"] == {"p1": ago(5)}
    assert plan.status["currentAvailable"] == 9
    # and the other record sets the requeue
    assert plan.requeue_after_s == 15


def recreated(document: Document) -> Document:
    document["metadata"]["uid"] = "another"
    return document


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        ({"disruptedPods": {"p0": ago(19)}}, []),
        ({"disruptedPods": {"p0": ago(20)}}, ["Pod p0"]),
        ({"unavailablePods": {"p0": ago(9)}}, []),
        ({"unavailablePods": {"p0": ago(10)}}, ["Pod p0"]),
        # the other record still holds the pod
        ({"disruptedPods": {"p0": ago(15)}, "unavailablePods": {"p0": ago(15)}}, []),
        ({"disruptedPods": {"gone": ago(99)}}, []),
    ],
)
@pytest.mark.parametrize("covered", [{}, {"target": CLONE_SET}])
def test_a_pod_is_read_only_after_its_records_have_expired(
    status: Document, asked: list[str], covered: Any
) -> None:
    doc, known, live = (
        budget(maxUnavailable=1, status=status, **covered),
        [workload(CLONE_SET, 2)],
        Stored(ready(2)),
    )
    world(doc, ready(2), known, live=live)
    assert live.asked == asked
    # and not when it is known to terminate
    live = Stored(ready(2))
    world(doc, ready(2, deleting=True), known, live=live)
    assert live.asked == []


@pytest.mark.parametrize(
    ("status", "stored", "current"),
    [
        ({"disruptedPods": {"p0": ago(21)}}, [], 9),
        ({"disruptedPods": {"p0": ago(21)}}, [tied("p0", deleting=True, version=2)], 9),
        ({"unavailablePods": {"p0": ago(11)}}, [tied("p0", ready=False, version=2)], 9),
        ({"unavailablePods": {"p0": ago(11)}}, [tied("p0", version=2)], 10),
        # and a recreated pod of the same name is another pod
        ({"unavailablePods": {"p0": ago(11)}}, [recreated(tied("p0", version=2))], 9),
    ],
)
def test_an_expired_record_frees_no_budget_before_the_pod_is_read(
    status: Document, stored: list[Document], current: int
) -> None:
    # given a watch of pods that hangs: ten pods seem to serve
    known, remembered = [workload(CLONE_SET, 10)], Memories()
    fields: dict[str, Any] = {"stored": stored, "memories": remembered}
    plan = plan_budget(world(budget(maxUnavailable=1, status=status), ready(10), known, **fields))
    assert plan.status is not None
    assert plan.status["currentAvailable"] == current
    assert "NotDeleted" not in events(plan)
    # and the read pod counts until the watch has reported it
    later = budget(maxUnavailable=1, status=plan.status)
    assert plan_budget(world(later, ready(10), known, **fields)).status is None


def test_the_pod_read_from_the_api_server_counts_until_the_watch_shows_a_newer_one() -> None:
    # given a pod that does not serve, unknown to the watch
    known = [workload(CLONE_SET, 10)]
    doc = budget(maxUnavailable=1, status={"unavailablePods": {"p0": ago(11)}})
    seen = [tied("p0", ready=False, version=2)]
    plan = plan_budget(world(doc, ready(10), known, stored=seen))
    assert plan.status is not None
    assert plan.status["currentAvailable"] == 9
    # when the watch reports that it serves again, or that it is deleted
    for pods, current in (([tied("p0", version=3), *ready(9, first=1)], 10), (ready(9, first=1), 9)):
        again = Memories()
        plan_budget(world(doc, ready(10), known, stored=seen, memories=again))
        later = plan_budget(world(budget(maxUnavailable=1, status={}), pods, known, memories=again))
        assert later.status is not None
        assert later.status["currentAvailable"] == current


def test_the_record_of_a_terminating_pod_is_dropped_case_28() -> None:
    doc = budget(maxUnavailable=1, status={"disruptedPods": {"p0": ago(5)}})
    result = status_of(doc, [*ready(9, first=1), tied("p0", deleting=True)], 10)
    assert "disruptedPods" not in result
    assert result["currentAvailable"] == 9


def test_a_record_belongs_to_its_pod_and_not_to_its_successor() -> None:
    doc = budget(maxUnavailable=1, status={"disruptedPods": {"p0": ago(9)}})
    result = status_of(doc, [*ready(9, first=1), tied("p0", created_s_ago=4)], 10)
    assert "disruptedPods" not in result
    assert result["currentAvailable"] == 10


def test_a_selector_adds_up_its_workloads_cases_29_30_31() -> None:
    item, other = ("apps/v1", "Deployment", "one"), ("apps/v1", "Deployment", "other")
    sets = {owner: ("apps/v1", "ReplicaSet", f"{owner[2]}-1") for owner in (item, other)}
    pods = [
        tied(f"{owner[2]}{number}", owner=replica_set)
        for owner, replica_set in sets.items()
        for number in range(10)
    ]

    def figures_with(replicas: int, *, deleting: bool = False) -> tuple[int, int, int, int]:
        deployments = [workload(item, 10), workload(other, replicas, deleting=deleting)]
        replica_sets = [workload(result, 10, of=owner) for owner, result in sets.items()]
        plan = plan_budget(world(budget(maxUnavailable="10%"), pods, [*deployments, *replica_sets]))
        assert plan.status is not None
        return figures(plan.status)

    assert figures_with(10) == (20, 18, 20, 2)
    assert figures_with(0) == (10, 9, 20, 11)
    assert figures_with(10, deleting=True) == (10, 9, 20, 11)


def test_zero_replicas_require_no_available_pods_case_30() -> None:
    assert figures(status_of(budget(maxUnavailable=1), ready(10), 0))[:2] == (0, 0)


def test_a_missing_workload_has_no_pods_case_32() -> None:
    plan = plan_budget(world(budget(target=CLONE_SET, maxUnavailable=1), ready(3)))
    assert events(plan) == ["NoPods"]
    assert plan.status is not None
    assert figures(plan.status) == (0, 0, 0, 0)


def test_a_rollout_has_pods_in_both_of_its_replicasets_case_33() -> None:
    sets = [("apps/v1", "ReplicaSet", f"web-{number}") for number in (1, 2)]
    pods = [tied(f"p{number}", owner=sets[number % 2]) for number in range(11)]
    workloads = [workload(DEPLOYMENT, 10), *(workload(item, 5, of=DEPLOYMENT) for item in sets)]
    plan = plan_budget(world(budget(target=DEPLOYMENT, maxUnavailable=1), pods, workloads))
    assert plan.status is not None
    assert figures(plan.status) == (10, 9, 11, 2)


def test_the_total_may_be_given_case_34() -> None:
    doc = budget(maxUnavailable="30%", protectTotalReplicas=15)
    assert figures(status_of(doc, ready(10), 10)) == (15, 10, 10, 0)


def test_a_scale_down_lowers_what_must_serve_case_58() -> None:
    doc = budget(target=CLONE_SET, maxUnavailable="10%")
    assert figures(status_of(doc, ready(100), 100)) == (100, 90, 100, 10)
    assert figures(status_of(doc, ready(100), 50)) == (50, 45, 100, 55)


def test_existing_pods_are_annotated_with_their_budget_cases_56_57() -> None:
    deprecated = pod("old", annotations={keys.LEGACY_RELATED_PUB_ANNOTATION: "pub"})
    pods = [pod("new"), deprecated, tied("other", to="other"), tied("gone", to="gone")]
    plan = plan_budget(
        world(
            budget(maxUnavailable=1),
            pods,
            [workload(CLONE_SET, 4)],
            others=[budget("other", maxUnavailable=1)],
        )
    )
    assert all(note.warning for note in plan.notes)
    # pods without a budget, and pods of a deleted budget (pitfall 7)
    assert marks(plan) == {"new": build_related_annotations("pub"), "gone": build_related_annotations("pub")}
    # and a pod with another budget gets an event (pitfall 12)
    assert events(plan) == ["PodsOfAnotherBudget"]
    assert [*plan.skipped] == ["other"]


@pytest.mark.parametrize(
    ("other", "is_taken_over"),
    [
        (budget("other", selector={"matchLabels": {"app": "db"}}, maxUnavailable=1), True),
        (budget("other", target=DEPLOYMENT, maxUnavailable=1), True),
        (budget("other", target=CLONE_SET, maxUnavailable=1), False),
        # the pods of an uncached kind, or of an unreadable selector, are unknown
        (budget("other", target=("acme.io/v1", "Game", "other"), maxUnavailable=1), False),
        (budget("other", selector={"matchLabels": "app=db"}, maxUnavailable=1), False),
    ],
)
def test_a_pod_whose_budget_no_longer_covers_it_is_assigned_to_the_next_budget(
    other: Document, *, is_taken_over: bool
) -> None:
    plan = plan_budget(
        world(budget(maxUnavailable=1), [tied("p1", to="other")], [workload(CLONE_SET, 1)], others=[other])
    )
    assert marks(plan) == ({"p1": build_related_annotations("pub")} if is_taken_over else {})
    assert [*plan.skipped] == ([] if is_taken_over else ["p1"])


@pytest.mark.parametrize(
    ("above", "is_taken_over"),
    [(DEPLOYMENT, False), (("apps/v1", "Deployment", "adopted"), True), (None, True)],
    ids=["the budget's Deployment", "another Deployment", "no Deployment"],
)
def test_the_controller_of_a_replicaset_and_not_its_name_decides_whether_a_budget_covers_a_pod(
    above: Any, *, is_taken_over: bool
) -> None:
    adopted = ("apps/v1", "ReplicaSet", "adopted")
    pods = [tied("p1", to="other", owner=adopted)]
    other = budget("other", target=DEPLOYMENT, maxUnavailable=1)
    workloads = [workload(DEPLOYMENT, 1), workload(adopted, 1, of=above)]
    plan = plan_budget(world(budget(maxUnavailable=1), pods, workloads, others=[other]))
    assert [*marks(plan)] == (["p1"] if is_taken_over else [])


def test_owners_without_a_replica_count_count_as_zero_and_are_reported() -> None:
    """pitfall 15"""
    daemons = ("apps/v1", "DaemonSet", "agent")
    plan = plan_budget(world(budget(maxUnavailable=1), [tied("p0", owner=daemons)]))
    assert [(note.reason, note.warning) for note in plan.notes] == [("UnknownReplicas", True)]
    assert plan.status is not None
    assert figures(plan.status) == (0, 0, 1, 1)
    given = plan_budget(world(budget(maxUnavailable=1, protectTotalReplicas=3), [tied("p0", owner=daemons)]))
    assert events(given) == []


def test_pods_without_a_controller_are_guarded_without_adding_to_the_total() -> None:
    result = status_of(budget(minAvailable=1), [tied("p0", owner=None)], 0)
    assert figures(result) == (0, 1, 1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"phase": "Pending"},
        {"labels": {"unavailable-pod.kruise.io/drain": "true"}},  # podunavailablebudget case 39
        {"annotations": {keys.IN_PLACE_GRACE_ANNOTATION: "{}"}},
        {"annotations": {keys.IN_PLACE_STATE_ANNOTATION: "not json"}},
        {"image": "nginx@sha256:abc"},
    ],
)
def test_an_unready_or_updating_pod_does_not_count_as_available_case_39(change: Any) -> None:
    assert status_of(budget(maxUnavailable=1), [tied("p0", **change)], 1)["currentAvailable"] == 0


def test_a_sidecar_that_still_runs_its_old_image_does_not_count() -> None:
    state = '{"log":{"lastContainerStatuses":{"main":{"imageID":"old"}}}}'
    annotations = {keys.SIDECARSET_LIST_ANNOTATION: "log", keys.SIDECARSET_STATE_ANNOTATION: state}
    updating = tied("p0", annotations=annotations)
    updating["spec"]["containers"][0]["image"] = "nginx:2"
    done = tied("p1", annotations=annotations)
    assert status_of(budget(maxUnavailable=1), [updating, done], 2)["currentAvailable"] == 1


@pytest.mark.parametrize("spec", [{"maxUnavailable": "many"}, {"minAvailable": "many"}, {}])
def test_unreadable_amounts_leave_the_status_unchanged(spec: Any) -> None:
    plan = plan_budget(world(budget(**spec), [pod("p0")], [workload(CLONE_SET, 1)]))
    assert plan.status is None
    assert [(note.reason, note.warning) for note in plan.notes] == [("CalculateExpectedPodCountFailed", True)]
    # but its pods get its annotation
    assert set(marks(plan)) == {"p0"}


def test_the_requeue_is_for_the_first_expiring_record_or_the_poll_of_a_workload() -> None:
    records = {
        "disruptedPods": {"p0": ago(1), "p1": ago(11)},
        "unavailablePods": {"p2": ago(2), "p3": ago(3)},
    }
    doc, known = budget(maxUnavailable=1, status=records), [workload(CLONE_SET, 9)]
    assert plan_budget(world(doc, ready(9), known)).requeue_after_s == 7
    snapshot = world(doc, ready(9), known)
    for polls_after_s, wanted in ((10.0, 7), (5.0, 5)):
        polled = msgspec.structs.replace(snapshot, polls_after_s=polls_after_s)
        assert plan_budget(polled).requeue_after_s == wanted
    assert plan_budget(world(budget(maxUnavailable=1), ready(9), known)).requeue_after_s is None
    polled = msgspec.structs.replace(world(budget(maxUnavailable=1), ready(9), known), polls_after_s=10.0)
    assert plan_budget(polled).requeue_after_s == 10


def test_an_updated_pod_under_another_tag_counts_as_available_after_its_grace_time() -> None:
    # given a new image under another tag, with a wait of ten seconds
    state = {
        "revision": "r",
        "updateTimestamp": ago(1),
        "lastContainerStatuses": {"main": {"imageID": "before"}},
    }
    annotations = {keys.IN_PLACE_STATE_ANNOTATION: orjson.dumps(state).decode()}
    updated = tied("p0", image="nginx:2", annotations=annotations)
    updated["status"]["containerStatuses"][0]["image"] = "nginx:other"
    plan = plan_budget(world(budget(maxUnavailable=1), [updated, tied("p1")], [workload(CLONE_SET, 2)]))
    assert plan.status is not None
    assert plan.status["currentAvailable"] == 1
    assert plan.requeue_after_s == 9


@pytest.mark.parametrize(("created_s_ago", "is_kept"), [(9, True), (8.5, True), (8, False), (None, True)])
def test_a_record_of_the_second_in_which_its_pod_was_created_is_kept(
    created_s_ago: float | None, is_kept: bool
) -> None:
    """Times in records have no fractions of a second."""
    made = tied("p0", created_s_ago=created_s_ago or 0)
    if created_s_ago is None:
        made["metadata"]["creationTimestamp"] = None
    elif created_s_ago % 1:
        made["metadata"]["creationTimestamp"] = "2026-01-31T11:59:51.5Z"
    doc = budget(maxUnavailable=1, status={"disruptedPods": {"p0": ago(9)}})
    result = status_of(doc, [*ready(9, first=1), made], 10)
    assert ("disruptedPods" in result) is is_kept
    assert result["currentAvailable"] == (9 if is_kept else 10)


@pytest.mark.parametrize(("count", "again_after_s"), [(MOST_AT_ONCE, None), (MOST_AT_ONCE + 1, 0)])
def test_a_plan_annotates_a_limited_number_of_pods_and_the_next_plan_the_rest(
    count: int, again_after_s: float | None
) -> None:
    pods = [pod(f"p{number}") for number in range(count)]
    plan = plan_budget(world(budget(maxUnavailable=1), pods, [workload(CLONE_SET, count)]))
    assert len(marks(plan)) == MOST_AT_ONCE
    assert plan.requeue_after_s == again_after_s


def test_a_status_that_is_right_is_not_written() -> None:
    result = status_of(budget(maxUnavailable=1), ready(3), 3)
    plan = plan_budget(world(budget(maxUnavailable=1, status=result), ready(3), [workload(CLONE_SET, 3)]))
    assert plan == Plan()


def test_a_terminating_budget_is_not_changed() -> None:
    assert plan_budget(world(budget(maxUnavailable=1, deleting=True), ready(1))) == Plan()


def test_the_same_snapshot_gives_the_same_plan() -> None:
    snapshot: BudgetSnapshot = world(budget(maxUnavailable=1), [pod("b"), pod("a")], [workload(CLONE_SET, 2)])
    assert plan_budget(snapshot) == plan_budget(snapshot)
    assert snapshot.now == NOW
