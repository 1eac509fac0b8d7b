"""Revisions, counters and conditions; numbers are the specification's cases."""

from typing import Any

import pytest

from pykruise.kinds.statefulset.kind import KIND
from pykruise.kinds.statefulset.plan import compute_status_after
from pykruise.kinds.statefulset.snapshot import STATEFUL_SET_VIEWS, StatefulSetSettings
from pykruise.kube.resources import CONTROLLER_REVISIONS
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view import keys
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.failed_writes import failure
from support.statefulset_builder import (
    StatefulSetBuilder,
    claim_template,
    created,
    deleted,
    name_of,
    owner,
    revision,
    statefulset,
    template,
    updatable,
    waiting,
)
from support.wakes import Woken


def status_of(builder: StatefulSetBuilder) -> dict[str, Any]:
    """The whole status that the set should have after this plan."""
    plan = builder.plan()
    return plan.status if plan.status is not None else builder.document["status"]


# ── revisions ────────────────────────────────────────────────────────────────


def revision_writes(plan: Plan) -> list[Any]:
    return [step.action for step in plan.steps if step.action.resource == CONTROLLER_REVISIONS]


def test_a_new_set_has_one_revision_that_is_current_and_update() -> None:
    """statefulset case 22"""
    # given
    builder = statefulset(pods=False).with_revisions()
    plan = builder.plan()
    # then
    (create,) = revision_writes(plan)
    assert isinstance(create, Create)
    assert create.body["revision"] == 1
    assert create.body["metadata"]["ownerReferences"] == [owner()]
    assert plan.status is not None
    assert plan.status["currentRevision"] == plan.status["updateRevision"] == builder.update_name


def test_a_rollback_to_an_older_template_gives_its_revision_the_highest_number() -> None:
    """statefulset case 23"""
    # given A, then B, then A again
    a, b = template("nginx:1"), template("nginx:2")
    builder = statefulset(3).with_revisions(revision(a, 1), revision(b, 2))
    # when
    (patch,) = revision_writes(builder.plan())
    # then
    assert isinstance(patch, Patch)
    assert (patch.key.name, patch.body["revision"]) == (name_of(a), 3)
    assert status_of(builder)["updateRevision"] == name_of(a)


def test_history_keeps_a_few_and_never_loses_one_that_a_pod_is_of() -> None:
    """statefulset case 24"""
    # given five older revisions, one pod of the oldest
    builder = statefulset(3, partition=1).with_spec(revisionHistoryLimit=1)
    olds = [template(f"nginx:0.{number}") for number in range(5)]
    builder.old_template = olds[0]
    builder.old(0).with_status(currentRevision=name_of(olds[0]))
    documents = [revision(old, number + 1) for number, old in enumerate(olds)]
    builder.with_revisions(*documents, revision(builder.spec["template"], 6))
    # when
    gone = [write.key.name for write in revision_writes(builder.plan()) if isinstance(write, Delete)]
    # then
    assert gone == [name_of(old) for old in olds[1:4]]


def test_a_name_that_something_else_has_counts_as_a_collision() -> None:
    """statefulset case 25"""
    # given a revision of another owner with the name that the new revision would have
    builder = statefulset(pods=False)
    taken = revision(template("other:1"), 1, name=builder.update_name, controller="other")
    builder.with_revisions(taken)
    # when
    (create,) = revision_writes(builder.plan())
    # then
    assert create.key.name != builder.update_name
    assert status_of(builder)["collisionCount"] == 1
    # and that name is not tried again
    builder.with_status(collisionCount=1).with_revisions()
    assert [write.key.name for write in revision_writes(builder.plan())] == [create.key.name]
    assert status_of(builder)["collisionCount"] == 1


def test_a_change_outside_the_template_creates_no_revision() -> None:
    """statefulset case 26"""
    builder = statefulset(3).with_spec(
        replicas=3,
        volumeClaimTemplates=[claim_template()],
        lifecycle={"preDelete": {"labelsHandler": {"a": "b"}}},
        reserveOrdinals=[9],
    )
    assert revision_writes(builder.annotated(x="y").plan()) == []


def test_an_equivalent_revision_of_openkruise_is_used_and_updates_no_pod() -> None:
    # given a stored revision with the fields that a typed client adds, and without the record of the selector
    builder = statefulset(3)
    data = {
        "spec": {
            "template": {
                "$patch": "replace",
                "metadata": {"creationTimestamp": None, "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1", "resources": {}}]},
            }
        }
    }
    stored = revision(builder.spec["template"], 1, name="web-5d4c", record=None, data=data)
    builder.with_revisions(stored).labelled({keys.REVISION_LABEL: "web-5d4c"}, 0, 1, 2)
    # when
    plan = builder.plan()
    # then only the selector is recorded
    (patch,) = plan.steps
    assert keys.MANAGED_SELECTOR_ANNOTATION in patch.action.body["metadata"]["annotations"]  # type: ignore[union-attr]
    assert status_of(builder)["updateRevision"] == "web-5d4c"


# ── counters ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_rollout_is_complete_when_all_are_updated_and_ready(is_ready: bool) -> None:
    """statefulset case 27"""
    builder = statefulset(3).with_status(currentRevision=name_of(template("nginx:0")))
    if not is_ready:
        builder.not_ready(1)
    status = status_of(builder)
    expected = builder.update_name if is_ready else builder.old_name
    assert (status["currentRevision"], status["currentReplicas"]) == (expected, 3 if is_ready else 0)


def test_ready_pods_are_available_after_their_time() -> None:
    """statefulset case 28"""
    builder = statefulset(3, minReadySeconds=10).ready_for(3, 0, 1, 2)
    status = status_of(builder)
    assert (status["readyReplicas"], status["availableReplicas"]) == (3, 0)
    assert builder.plan().requeue_after_s == 7
    assert waiting(builder.plan()) == "MinReadySeconds"


def test_an_updated_pod_is_ready_and_not_available() -> None:
    """statefulset case 29"""
    builder = updatable(3).with_hook("inPlaceUpdate").state("Updated", 2)
    status = status_of(builder)
    assert (status["readyReplicas"], status["availableReplicas"]) == (3, 2)
    assert (status["updatedReadyReplicas"], status["updatedAvailableReplicas"]) == (3, 2)


def test_a_pod_that_terminates_is_ready_while_it_is_and_not_updated() -> None:
    """statefulset case 30"""
    status = status_of(statefulset(3).deleted(2))
    assert (status["replicas"], status["readyReplicas"]) == (3, 3)
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 2)


def test_a_rollout_without_pods_that_the_partition_holds_back_is_not_complete() -> None:
    """After a scale-up from zero, as many pods as the partition keeps get the old revision."""
    builder = statefulset(0, partition=2).with_status(currentRevision=name_of(template("nginx:0")))
    assert status_of(builder)["currentRevision"] == builder.old_name


@pytest.mark.parametrize("ordinal", [0, 2])
def test_while_a_pod_is_missing_a_rollout_that_the_partition_holds_back_is_not_over(ordinal: int) -> None:
    """The existing pod is updated and ready. The missing pod, which the partition keeps, gets the old revision, with
    and without a surplus pod of the other ordinal."""
    # given
    builder = statefulset(2, partition=1).with_status(currentRevision=name_of(template("nginx:0")))
    builder.without(0)
    if ordinal:
        builder.pod(ordinal)
    # then
    assert status_of(builder)["currentRevision"] == builder.old_name
    # and without the partition no pod is kept at the old revision
    builder.with_spec(updateStrategy={"type": "RollingUpdate"})
    assert status_of(builder)["currentRevision"] == builder.update_name


def test_under_on_delete_the_current_revision_stays_until_it_is_forgotten() -> None:
    builder = statefulset(3).on_delete().with_status(currentRevision=name_of(template("nginx:0")))
    assert status_of(builder)["currentRevision"] == builder.old_name
    builder.with_revisions(revision(builder.spec["template"], 2))
    assert status_of(builder)["currentRevision"] == builder.update_name


def test_claims_are_counted_for_each_template() -> None:
    # given three pods of which one has a smaller claim and one a claim that has not grown yet
    builder = statefulset(3).with_claims(claim_template(size="2Gi"))
    builder.claim(claim_template(), "web-0")
    builder.claims["data-web-1"]["status"]["capacity"]["storage"] = "1Gi"
    # then
    assert status_of(builder)["volumeClaims"] == [
        {"volumeClaimName": "data", "compatibleReplicas": 2, "compatibleReadyReplicas": 1}
    ]


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}])
def test_an_empty_claim_template_is_satisfied_by_any_claim(spec: dict[str, Any]) -> None:
    builder = statefulset(1).with_spec(volumeClaimTemplates=[{"metadata": {"name": "data"}, **spec}])
    builder.claim({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {}}}}, "web-0")
    assert status_of(builder)["volumeClaims"] == [
        {"volumeClaimName": "data", "compatibleReplicas": 1, "compatibleReadyReplicas": 1}
    ]


def test_a_claim_of_another_shape_is_not_counted() -> None:
    builder = statefulset(2).with_claims(claim_template())
    builder.claims["data-web-0"]["spec"]["accessModes"] = ["ReadWriteMany"]
    (claims,) = status_of(builder)["volumeClaims"]
    assert (claims["compatibleReplicas"], claims["compatibleReadyReplicas"]) == (1, 1)


def test_a_pod_without_a_phase_does_not_count_as_created() -> None:
    builder = statefulset(2)
    builder.pods["web-1"]["status"] = {}
    assert status_of(builder)["replicas"] == 1


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_rollout_is_complete_with_all_pods_updated_at_any_partition(replicas: int) -> None:
    builder = statefulset(replicas, partition=replicas)
    builder.with_status(currentRevision=name_of(template("nginx:0")))
    assert status_of(builder)["currentRevision"] == builder.update_name


def test_pods_of_a_terminating_set_are_counted_by_their_revisions() -> None:
    builder = statefulset(3, minReadySeconds=10).all_old().pod(2).ready_for(5, 0)
    status = status_of(builder.with_status(updateRevision=builder.update_name).terminating())
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
    assert (status["updatedReadyReplicas"], status["updatedAvailableReplicas"]) == (1, 1)
    assert (status["readyReplicas"], status["availableReplicas"]) == (3, 2)


def test_updated_available_replicas_of_zero_are_written_only_for_an_empty_set() -> None:
    """Argo CD waits for a missing count, unless no pod is wanted."""
    assert status_of(statefulset(0))["updatedAvailableReplicas"] == 0
    assert "updatedAvailableReplicas" not in status_of(statefulset(1, pods=False))


def test_the_whole_status_is_compared() -> None:
    builder = statefulset(3)
    builder.document["status"] = {**status_of(builder)}
    assert builder.plan().status is None
    builder.document["status"]["updatedAvailableReplicas"] = 2
    assert builder.plan().status is not None


# ── conditions ───────────────────────────────────────────────────────────────


def test_a_refused_creation_is_in_the_status_until_one_succeeds() -> None:
    """statefulset case 32"""
    # given
    builder = statefulset(3, pods=False)
    snapshot = builder.snapshot()
    # when the creation fails
    status = compute_status_after(snapshot, builder.plan(), failure("create pods", "exceeded quota: q"))
    # then
    assert status is not None
    condition, waiting = status["conditions"]
    assert (condition["type"], condition["status"]) == ("FailedCreatePod", "True")
    assert "exceeded quota" in condition["message"]
    assert (waiting["type"], waiting["reason"]) == ("Waiting", "Quota")
    # and it stays while the pod is missing
    builder.document["status"] = status
    assert builder.at(60).plan().status is None
    again = failure("create pods", "exceeded quota: q")
    assert compute_status_after(builder.snapshot(), builder.plan(), again) == status
    # and it is removed once the pod exists
    assert [condition["type"] for condition in status_of(builder.pod(0).not_ready(0))["conditions"]] == [
        "Waiting"
    ]


def test_a_failed_write_stays_in_the_status_until_all_pods_are_created() -> None:
    # given a set without a reason to wait
    builder = statefulset(1)
    del builder.pods["web-0"]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    assert builder.plan().waiting is None
    # when its write fails
    status = compute_status_after(builder.snapshot(), builder.plan(), failure("repair pods"))
    # then
    assert status is not None
    assert [condition["type"] for condition in status["conditions"]] == ["FailedUpdatePod", "Waiting"]
    # and it stays while the write is pending, even when the creation of a pod fails too
    builder.document["status"] = status
    assert builder.plan().status is None
    status = compute_status_after(builder.snapshot(), builder.plan(), failure("create pods"))
    assert status is not None
    assert [condition["type"] for condition in status["conditions"]] == [
        "FailedUpdatePod",
        "FailedCreatePod",
        "Waiting",
    ]
    # and it is removed when only pods are missing, or nothing
    assert [condition["type"] for condition in status_of(builder.pod(0).without(0))["conditions"]] == [
        "Waiting"
    ]
    assert "conditions" not in status_of(builder.pod(0))


def test_a_failed_write_is_reported_beside_the_waiting_reason_that_needs_a_person() -> None:
    # given a pod that finds no node, and a missing pod
    builder = statefulset(2, parallel=True).without(1).pending(0)
    builder.set_condition(0, "PodScheduled", "False", message="no node")
    status = compute_status_after(builder.snapshot(), builder.plan(), failure("create pods"))
    assert status is not None
    assert [condition["type"] for condition in status["conditions"]] == ["Waiting", "FailedCreatePod"]


def test_the_failed_update_condition_keeps_its_time_and_no_other_failure() -> None:
    # given
    builder = updatable(2, policy="InPlaceOnly")
    builder.old_template["spec"]["containers"][0]["command"] = ["sleep"]
    builder.document["status"] |= status_of(builder.all_old())
    assert builder.at(60).plan().status is None
    # when an old failure is still in the status
    builder.document["status"]["conditions"].append({"type": "FailedCreatePod", "status": "True"})
    # then
    assert [condition["type"] for condition in status_of(builder)["conditions"]] == [
        "FailedUpdatePod",
        "Waiting",
    ]


def test_tidying_up_is_nothing_to_report() -> None:
    builder = statefulset(3)
    assert compute_status_after(builder.snapshot(), builder.plan(), failure("tidy up")) is None


def test_a_set_that_has_converged_waits_for_nothing() -> None:
    assert "conditions" not in status_of(statefulset(3))


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (lambda: statefulset(3, pods=False, parallel=True), "Creating"),
        (lambda: statefulset(3).deleted(1), "Terminating"),
        (
            lambda: statefulset(3).pending(2).set_condition(2, "PodScheduled", "False", message="no node"),
            "Unschedulable",
        ),
        (lambda: statefulset(2).pod(2), "Deleting"),
        (lambda: statefulset(3).all_old(), "Updating"),
        (lambda: statefulset(3, partition=1).all_old().pod(1, 2), "Partition"),
        (lambda: statefulset(3, parallel=True).marked(1), "Deleting"),
        (
            lambda: (
                statefulset(4, parallel=True)
                .with_spec(scaleStrategy={"maxUnavailable": 1})
                .pending(0)
                .without(1, 2)
            ),
            "ScaleUpLimited",
        ),
    ],
)
def test_each_waiting_reason_has_its_name(builder: Any, reason: str) -> None:
    assert waiting(builder().plan()) == reason


def test_a_claim_that_no_volume_fits_is_named() -> None:
    # given
    message = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims"
    builder = statefulset(2).with_claims(claim_template()).pending(1)
    builder.set_condition(1, "PodScheduled", "False", reason="Unschedulable", message=message)
    # then
    (condition,) = status_of(builder)["conditions"]
    assert condition["reason"] == "UnboundClaims"
    assert "web-1" in condition["message"]
    # also by one event
    assert [note.reason for note in builder.plan().notes] == ["UnboundClaims"]
    builder.document["status"] = status_of(builder)
    assert builder.plan().notes == ()


# ── specs that cannot be carried out ─────────────────────────────────────────


def test_a_spec_that_cannot_be_read_stops_everything_and_is_named() -> None:
    plan = statefulset(3).with_spec(replicas="many").phase("Failed", 1).plan()
    assert plan.stages == ()
    assert "spec.replicas" in plan.status["conditions"][0]["message"]  # type: ignore[index]
    assert [(note.reason, note.warning) for note in plan.notes] == [("InvalidSpec", True)]


def test_ready_pods_count_as_available_while_the_spec_is_unreadable() -> None:
    status = status_of(statefulset(3, minReadySeconds=10).with_spec(replicas="many").ready_for(0, 0))
    assert status["availableReplicas"] == 3


def test_an_amount_that_cannot_be_read_stops_everything_and_is_named() -> None:
    builder = statefulset(3, maxUnavailable="5").all_old()
    plan = builder.plan()
    assert plan.stages == ()
    assert "maxUnavailable" in plan.status["conditions"][0]["message"]  # type: ignore[index]
    # and the condition keeps its time
    builder.document["status"] = status_of(builder)
    assert builder.at(60).plan().status is None


@pytest.mark.parametrize(
    "selector",
    [{}, {"matchLabels": {}}, {"matchExpressions": [{"key": "app", "operator": "Like"}]}],
    ids=["none", "empty", "cannot be read"],
)
def test_an_empty_or_unreadable_selector_stops_everything(selector: dict[str, Any]) -> None:
    """Such a selector would match every pod of the namespace."""
    builder = statefulset(3).pod(3, 4).orphaned(4).with_spec(selector=selector)
    plan = builder.plan()
    assert plan.stages == ()
    assert {note.reason for note in plan.notes} == {"InvalidSpec"}
    # and orphans do not wake the set
    woken = Woken(KIND, {STATEFUL_SET_VIEWS: [builder.view()]}, settings=StatefulSetSettings())
    assert woken.by(POD_VIEWS, None, builder.pod_views()[-1]) == []


def test_a_template_whose_pods_would_not_be_the_sets_own_stops_everything() -> None:
    builder = statefulset(3, pods=False)
    builder.spec["template"]["metadata"]["labels"] = {"app": "other"}
    plan = builder.plan()
    assert plan.stages == ()
    assert {note.reason for note in plan.notes} == {"InvalidSpec"}


def test_more_replicas_than_a_cluster_can_have_are_refused_without_writes() -> None:
    """`kubectl scale` is not reviewed by the webhooks."""
    plan = statefulset(3).with_spec(replicas=2**31 - 1).plan()
    assert plan.stages == ()
    assert "spec.replicas" in plan.status["conditions"][0]["message"]  # type: ignore[index]


def test_a_bad_range_is_left_out_and_is_reported() -> None:
    """The other ranges still count: a set must not use ordinals that a user reserved."""
    plan = statefulset(3, pods=False, parallel=True).with_spec(reserveOrdinals=["x-y", 1]).plan()
    assert created(plan) == [0, 2, 3]
    assert ("InvalidReserveOrdinals", True) in {(note.reason, note.warning) for note in plan.notes}


# ── ownership of pods ────────────────────────────────────────────────────────


def test_an_orphan_with_its_labels_and_name_is_adopted_after_the_set_is_read_again() -> None:
    """statefulset case 84"""
    plan = statefulset(3).orphaned(1).plan()
    assert [stage.purpose for stage in plan.stages] == ["check the owner before adoption", "adopt"]
    assert [chain.subject for chain in plan.stages[1].chains] == ["web-1"]
    assert plan.stages[0].chains[0].steps[0].action.resource_version == "100"  # type: ignore[union-attr]


def test_orphans_with_another_name_or_terminating_ones_are_not_adopted() -> None:
    builder = statefulset(2).pod("x").orphaned("x").pod(7).orphaned(7).deleted(7)
    assert builder.plan().stages == ()


def test_a_pod_whose_labels_no_longer_match_is_released() -> None:
    """statefulset case 84"""
    plan = statefulset(3).labelled({"app": "other"}, 2).plan()
    assert [stage.purpose for stage in plan.stages] == ["release pods", "create pods"]
    assert (created(plan), deleted(plan)) == ([2], [])


def test_terminating_pods_do_not_reveal_the_managed_selector_without_revisions() -> None:
    # given that all other pods terminate, and a pod with the labels of another selector
    builder = statefulset(2).with_revisions().labelled({"app": "other"}, 0).deleted(1)
    plan = builder.plan()
    # then nothing is released
    assert plan.stages == ()
    assert {note.reason for note in plan.notes} == {"SelectorMismatch"}
    # and with another pod that stays, it is released
    assert "release pods" in {stage.purpose for stage in builder.pod(1).plan().stages}


def test_another_selector_stops_everything() -> None:
    """The guard releases no pod and creates no pod."""
    # given a selector that was changed past admission
    builder = statefulset(3).with_spec(selector={"matchLabels": {"app": "other"}})
    builder.spec["template"]["metadata"]["labels"] = {"app": "other"}
    builder.with_revisions(revision(template(), 1))
    # when
    plan = builder.with_status(observedGeneration=2).plan()
    # then
    assert plan.stages == ()
    assert [(note.reason, note.warning) for note in plan.notes] == [("SelectorMismatch", True)]
    assert plan.status is not None
    assert plan.status["conditions"][0]["type"] == "SelectorMismatch"
    assert plan.status["observedGeneration"] == 2
