"""The status of a CloneSet."""

from collections.abc import Callable
from typing import Any

import pytest

from pykruise.kinds.cloneset.plan import compute_status_after, plan_cloneset
from pykruise.kinds.cloneset.status import FAILED_SCALE, FAILED_UPDATE, PROGRESSING
from pykruise.kinds.cloneset.types import NO_DEADLINE
from pykruise.kube.clock import format_time
from pykruise.runtime.plan import Plan
from support.cloneset_builder import NOW, CloneSetBuilder, cloneset, revision, template
from support.failed_writes import QUOTA, RAISE_QUOTA, failure
from support.plan_views import condition, created


def planned(builder: CloneSetBuilder) -> Plan:
    return plan_cloneset(builder.snapshot())


def status(builder: CloneSetBuilder) -> dict[str, Any]:
    status = planned(builder).status
    assert status is not None
    return status


def settled(builder: CloneSetBuilder) -> CloneSetBuilder:
    """The CloneSet with the status that its plan writes."""
    plan = planned(builder)
    if plan.status is not None:
        builder.document["status"] = plan.status
    return builder


def progressing(builder: CloneSetBuilder) -> dict[str, Any]:
    """The Progressing condition of the object after this plan."""
    plan = planned(builder)
    shown = builder.document["status"] if plan.status is None else plan.status
    return next(condition for condition in shown["conditions"] if condition["type"] == PROGRESSING)


def test_counts_are_of_active_pods_by_readiness_availability_and_revision() -> None:
    builder = cloneset(7, pods=8, old=3, partition=3).not_ready("a", "d").in_state("PreparingNormal", "e")
    builder.phase("Failed", "h")
    result = status(builder)
    del result["conditions"]
    assert result == {
        "observedGeneration": 3,
        "replicas": 7,
        "readyReplicas": 5,
        "availableReplicas": 4,
        "updatedReplicas": 4,
        "updatedReadyReplicas": 3,
        "updatedAvailableReplicas": 2,
        "expectedUpdatedReplicas": 4,
        "updateRevision": builder.update_revision,
        "currentRevision": builder.old_revision,
        "labelSelector": "app=web",
    }


def test_required_counts_are_written_even_without_pods() -> None:
    result = status(cloneset(0))
    assert [result[field] for field in ("replicas", "readyReplicas", "availableReplicas")] == [0, 0, 0]
    assert [result[field] for field in ("updatedReplicas", "updatedReadyReplicas")] == [0, 0]
    assert result["updatedAvailableReplicas"] == 0  # none are wanted


def test_a_status_that_is_right_is_not_written() -> None:
    assert planned(settled(cloneset(3))).is_settled


def test_the_update_revision_becomes_current_when_all_pods_have_it_even_unready() -> None:
    """cloneset case 83"""
    builder = cloneset(3).with_current("web-former").not_ready(*"abc")
    builder.with_revisions(
        revision(template("nginx:0"), 1, name="web-former"), revision(builder.spec["template"], 2)
    )
    result = status(builder)
    assert (result["currentRevision"], result["readyReplicas"]) == (builder.update_revision, 0)


@pytest.mark.parametrize("partition", [0, 3, "60%"])
def test_the_current_revision_follows_immediately_without_replicas_for_any_partition(
    partition: int | str,
) -> None:
    """cloneset case 84"""
    # given
    builder = cloneset(0, partition=partition)
    builder.with_current(builder.old_revision)
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    # then
    assert status(builder)["currentRevision"] == builder.update_revision
    # and scaled up again, all pods are new
    settled(builder).with_spec(replicas=5)
    made = [pod["metadata"]["labels"]["controller-revision-hash"] for pod in created(planned(builder))]
    assert made == [builder.update_revision] * 5


def test_availability_waits_for_min_ready_seconds_and_requeues_at_that_time() -> None:
    """cloneset case 85"""
    plan = planned(cloneset(1, minReadySeconds=30).ready_for(10, "a"))
    assert plan.status is not None
    assert (plan.status["readyReplicas"], plan.status["availableReplicas"]) == (1, 0)
    assert plan.requeue_after_s == 20


def test_a_selector_with_expressions_is_shown_for_the_scale_subresource() -> None:
    """cloneset case 94"""
    builder = cloneset(1)
    builder.with_spec(
        selector={
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["b", "a"]}],
        }
    )
    assert status(builder)["labelSelector"] == "app=web,tier notin (a,b)"


# Progressing


def deadline(builder: CloneSetBuilder, seconds: int = 60) -> CloneSetBuilder:
    return builder.with_spec(progressDeadlineSeconds=seconds)


def with_progressing(
    builder: CloneSetBuilder, reason: str, *, age: float, status: str = "True"
) -> CloneSetBuilder:
    """The CloneSet with its status and this condition, last updated `age` seconds ago."""
    settled(builder)
    time = format_time(NOW - age)
    others = [
        condition
        for condition in builder.document["status"].get("conditions") or ()
        if condition["type"] != PROGRESSING
    ]
    builder.document["status"]["conditions"] = [
        *others,
        {
            "type": PROGRESSING,
            "status": status,
            "reason": reason,
            "message": "CloneSet is progressing",
            "lastUpdateTime": time,
            "lastTransitionTime": time,
        },
    ]
    return builder


@pytest.mark.parametrize("seconds", [None, NO_DEADLINE])
def test_a_cloneset_without_a_deadline_has_no_progressing_condition(seconds: int | None) -> None:
    """cloneset case 86"""
    builder = with_progressing(deadline(cloneset(3)), "CloneSetAvailable", age=1)
    builder.with_spec(progressDeadlineSeconds=seconds)
    assert condition(planned(builder), PROGRESSING) is None
    assert planned(builder).status is not None


def test_an_available_cloneset_neither_writes_its_condition_again_nor_waits_for_a_deadline() -> None:
    plan = planned(settled(deadline(cloneset(3))).at(NOW + 100))
    assert plan.is_settled
    assert plan.requeue_after_s is None


def test_a_condition_of_the_same_reason_and_another_status_is_corrected() -> None:
    result = progressing(with_progressing(deadline(cloneset(3)), "CloneSetAvailable", age=9, status="False"))
    assert (result["status"], result["lastTransitionTime"]) == ("True", format_time(NOW))


def test_a_condition_without_its_time_has_no_deadline() -> None:
    """a client may have written it so"""
    builder = with_progressing(
        deadline(cloneset(3, old=2, max_unavailable=1)).not_ready("c"), "CloneSetUpdated", age=9
    )
    del builder.document["status"]["conditions"][-1]["lastUpdateTime"]
    plan = planned(builder)
    assert plan.status is None
    assert plan.requeue_after_s is None


@pytest.mark.parametrize(
    "builder",
    [cloneset(10, old=10, partition=5), cloneset(10, old=6, partition=5), cloneset(3, pods=4, old=1)],
    ids=["not begun", "not there yet", "a pod too many"],
)
def test_a_cloneset_before_its_partition_or_without_one_is_progressing(
    builder: CloneSetBuilder,
) -> None:
    assert progressing(deadline(builder))["reason"] == "CloneSetUpdated"


def test_available_paused_partition_ready_and_progressing_have_their_own_reasons() -> None:
    """cloneset case 87"""
    # given half of ten pods updated, as the partition wants
    builder = deadline(cloneset(10, old=5, partition="50%"))
    assert progressing(builder)["reason"] == "ProgressPartitionAvailable"
    # when paused
    assert progressing(settled(builder).paused())["reason"] == "CloneSetPaused"
    # when it continues without a partition
    builder = settled(builder).with_rolling(paused=False, partition=0)
    reasons = progressing(builder.at(NOW + 500))
    assert (reasons["reason"], reasons["lastUpdateTime"]) == ("CloneSetUpdated", format_time(NOW + 500))
    # when all are updated and available
    builder.add(*"abcde")
    reasons = progressing(builder)
    assert (reasons["reason"], reasons["message"]) == ("CloneSetAvailable", "CloneSet is available")


def test_a_missed_progress_deadline_is_reported_while_the_update_continues() -> None:
    """cloneset case 88"""
    # given a rollout that stands still
    builder = deadline(cloneset(3, old=2, max_unavailable=1)).not_ready("c")
    with_progressing(builder, "CloneSetUpdated", age=60)
    plan = planned(builder)
    assert plan.status is None
    assert plan.requeue_after_s == 1
    # when the deadline has passed
    builder.at(NOW + 1)
    result = condition(planned(builder), PROGRESSING)
    assert result is not None
    assert (result["status"], result["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert result["message"] == f"CloneSet revision {builder.update_revision} has timed out progressing"
    # then it stays so
    settled(builder)
    assert planned(builder.at(NOW + 500)).status is None
    # also when the number of ready pods increases
    builder.set_condition("c", "Ready", "True")
    assert progressing(builder)["reason"] == "ProgressDeadlineExceeded"
    # until all pods are updated and available
    builder.add("a", "b")
    assert progressing(builder)["reason"] == "CloneSetAvailable"


def _overdue(builder: CloneSetBuilder) -> CloneSetBuilder:
    return with_progressing(builder, "ProgressDeadlineExceeded", age=10, status="False")


def test_an_overdue_rollout_that_is_paused_or_stops_at_its_partition_is_overdue_no_longer() -> None:
    paused = _overdue(deadline(cloneset(4, old=3, partition=2, max_unavailable=1))).paused()
    assert progressing(paused)["reason"] == "CloneSetPaused"
    held = _overdue(deadline(cloneset(4, old=2, partition=2, max_unavailable=1)))
    assert progressing(held)["reason"] == "ProgressPartitionAvailable"
    # and when it continues, the deadline starts again
    going = settled(held).with_rolling(partition=0).at(NOW + 500)
    result = progressing(going)
    assert (result["reason"], result["lastUpdateTime"]) == ("CloneSetUpdated", format_time(NOW + 500))


def test_another_template_gives_an_overdue_rollout_its_full_deadline() -> None:
    # given
    builder = _overdue(deadline(cloneset(3, old=2, max_unavailable=1)).not_ready("c"))
    # when
    builder.spec["template"] = template("nginx:2")
    builder.with_revisions(revision(template("nginx:1"), 1), revision(template("nginx:2"), 2))
    # then
    result = progressing(builder)
    assert (result["reason"], result["status"]) == ("CloneSetUpdated", "True")
    assert result["lastUpdateTime"] == format_time(NOW)


def test_an_idle_cloneset_has_its_full_deadline_when_a_rollout_starts() -> None:
    """cloneset case 89"""
    # given a CloneSet that has been available for long
    builder = with_progressing(deadline(cloneset(3)), "CloneSetAvailable", age=10_000)
    # when its template changes
    builder.spec["template"] = template("nginx:2")
    builder.with_revisions(revision(template("nginx:1"), 1), revision(template("nginx:2"), 2))
    # then
    starts = progressing(builder)
    assert (starts["reason"], starts["status"]) == ("CloneSetUpdated", "True")
    assert starts["lastUpdateTime"] == format_time(NOW)
    assert starts["lastTransitionTime"] == format_time(NOW - 10_000)


@pytest.mark.parametrize(
    "change",
    [
        lambda builder: builder.set_condition("c", "Ready", "True"),
        lambda builder: builder.ready_for(5, "c").with_spec(minReadySeconds=30),
        lambda builder: builder.add("b").not_ready("b"),
        lambda builder: builder.with_spec(template=template("nginx:2")).with_revisions(
            revision(template("nginx:0"), 1),
            revision(template("nginx:1"), 2),
            revision(template("nginx:2"), 3),
        ),
    ],
    ids=["one more is available", "one more is ready", "one more is updated", "another template"],
)
def test_progress_renews_the_deadline(change: Callable[[CloneSetBuilder], Any]) -> None:
    # given a rollout that stands still
    builder = deadline(cloneset(3, old=3, max_unavailable=1)).not_ready("b", "c")
    with_progressing(builder, "CloneSetUpdated", age=3600)
    # when
    change(builder)
    # then
    result = progressing(builder)
    assert (result["reason"], result["lastUpdateTime"]) == ("CloneSetUpdated", format_time(NOW))


# Failures


def test_a_failed_creation_is_a_condition_with_the_error() -> None:
    """cloneset case 21"""
    snapshot = cloneset(3, pods=0).snapshot()
    result = compute_status_after(snapshot, plan_cloneset(snapshot), failure("create pods", QUOTA))
    assert result is not None
    failed, waiting = result["conditions"]
    assert (failed["type"], failed["status"], failed["reason"]) == (FAILED_SCALE, "True", "Quota")
    assert (waiting["type"], waiting["reason"], waiting["message"]) == ("Waiting", "Quota", failed["message"])
    assert failed["message"] == f"create pods: {QUOTA}; {RAISE_QUOTA}"
    assert failed["lastTransitionTime"] == format_time(NOW)


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("update pods", FAILED_UPDATE),
        ("refresh pods", FAILED_UPDATE),
        ("delete pods", FAILED_SCALE),
        ("maintain pods", FAILED_SCALE),
        ("release pods", FAILED_SCALE),
        ("store revision", FAILED_SCALE),
    ],
)
def test_each_stage_fails_as_one_of_the_two_phases(stage: str, kind: str) -> None:
    snapshot = cloneset(3).snapshot()
    result = compute_status_after(snapshot, plan_cloneset(snapshot), failure(stage))
    assert result is not None
    assert [condition["type"] for condition in result["conditions"]] == [kind, "Waiting"]


def test_a_failed_cleanup_is_not_a_failure_of_the_cloneset() -> None:
    snapshot = cloneset(3).snapshot()
    assert compute_status_after(snapshot, plan_cloneset(snapshot), failure("tidy up")) is None


def failing(builder: CloneSetBuilder, kind: str, message: str = "create pods: quota") -> CloneSetBuilder:
    settled(builder)
    time = format_time(NOW - 100)
    builder.document["status"]["conditions"] = [
        {"type": kind, "status": "True", "reason": "WriteFailed", "message": message}
        | {"lastTransitionTime": time, "lastUpdateTime": time}
    ]
    return builder


def test_a_failure_condition_stays_while_its_phase_has_work_left() -> None:
    builder = failing(cloneset(3, pods=2), FAILED_SCALE)
    status = planned(builder).status
    assert status is not None
    assert [condition["type"] for condition in status["conditions"]] == [FAILED_SCALE, "Waiting"]


def test_a_failure_with_another_text_keeps_its_transition_time() -> None:
    snapshot = failing(cloneset(3, pods=2), FAILED_SCALE).snapshot()
    result = compute_status_after(
        snapshot, plan_cloneset(snapshot), failure("create pods", f"{QUOTA}: another")
    )
    assert result is not None
    failed, _ = result["conditions"]
    assert (failed["message"], failed["lastTransitionTime"]) == (
        f"create pods: {QUOTA}: another; {RAISE_QUOTA}",
        format_time(NOW - 100),
    )


@pytest.mark.parametrize("message", ["create pods: quota", ""])
@pytest.mark.parametrize("kind", [FAILED_SCALE, FAILED_UPDATE])
def test_a_failure_condition_ends_when_its_phase_has_no_work_left(kind: str, message: str) -> None:
    """cloneset section 9.3 (OpenKruise never clears it)"""
    builder = failing(cloneset(3), kind, message)
    result = condition(planned(builder), kind)
    assert result is not None
    assert (result["status"], result["lastTransitionTime"]) == ("False", format_time(NOW))
    assert result.get("message", "") == ""
    # and that is written once
    assert planned(settled(builder).at(NOW + 100)).is_settled


def test_a_lasting_failure_is_written_once() -> None:
    # given pods that their policy does not allow to update
    builder = cloneset(3, old=3).with_rolling(podUpdatePolicy="InPlaceOnly")
    builder.with_spec(template=template("nginx:1", hostNetwork=True))
    assert condition(planned(builder), FAILED_UPDATE) is not None
    # then
    assert planned(settled(builder).at(NOW + 100)).is_settled


def test_a_cloneset_without_failures_has_no_failure_condition() -> None:
    assert "conditions" not in status(cloneset(3))
