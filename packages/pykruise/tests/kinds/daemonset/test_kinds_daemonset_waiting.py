"""The Waiting condition of a DaemonSet: the reason why it has not converged, and the remedy."""

from typing import Any

import pytest

from pykruise.kinds.daemonset.plan import compute_status_after, plan_daemonset
from pykruise.kinds.daemonset.waiting import NAMED_AFTER_S
from pykruise.kube.clock import format_time
from pykruise.pods.lifecycle.blockers import MARKED_IN_S
from pykruise.pods.mounts import ENDED_IN_S
from pykruise.pods.view import keys
from support.daemonset_builder import NOW, DaemonSetBuilder, daemonset, updatable
from support.failed_writes import POD, RAISE_QUOTA, failure
from support.plan_views import condition


def shown(builder: DaemonSetBuilder) -> dict[str, Any] | None:
    """The Waiting condition after this plan. Stores the status of the plan."""
    plan = builder.plan()
    if plan.status is not None:
        builder.document["status"] = plan.status
    stored = builder.document["status"].get("conditions") or []
    return next((item for item in stored if item["type"] == "Waiting"), None)


def says(builder: DaemonSetBuilder) -> tuple[str, str, str]:
    """Reason, message and remedy of the condition."""
    result = shown(builder)
    assert result is not None
    assert result["status"] == "True"
    words, _, remedy = result["message"].partition("; ")
    return result["reason"], words, remedy


def waits_for_image(builder: DaemonSetBuilder, short: str) -> DaemonSetBuilder:
    builder.not_ready(short)
    status = builder.pods[short]["status"]["containerStatuses"][0]
    status |= {"ready": False, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    return builder


def being_updated(builder: DaemonSetBuilder, short: str) -> DaemonSetBuilder:
    """Let an update in place of this pod have begun a while ago."""
    state = (
        f'{{"revision":"{builder.update_hash}","updateTimestamp":"2026-01-31T11:00:00Z",'
        '"lastContainerStatuses":{"main":{"imageID":"sha256:nginx:0"}}}'
    )
    builder.pods[short]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = state
    builder.set_condition(short, keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    return builder.not_ready(short)


def unready(builder: DaemonSetBuilder, short: str, seconds: float) -> DaemonSetBuilder:
    """Let the pod be unready since `seconds` seconds."""
    return builder.set_condition(short, "Ready", "False", lastTransitionTime=format_time(NOW - seconds))


def unschedulable(builder: DaemonSetBuilder, short: str) -> DaemonSetBuilder:
    builder.unscheduled(short)
    words = "0/5 nodes are available: Insufficient cpu"
    return builder.set_condition(short, "PodScheduled", "False", reason="Unschedulable", message=words)


# ── converged, or not ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "builder",
    [
        daemonset(),
        daemonset(0),
        daemonset().taint("n3", "x:NoSchedule"),
        daemonset().taint("n3", "x:NoSchedule").not_ready("n3"),
        daemonset().node("n6").taint("n6", "x:NoExecute"),
        daemonset().with_spec(minReadySeconds=5),
        daemonset().orphaned("n2"),
    ],
    ids=[
        "as wanted",
        "no nodes",
        "may stay",
        "may stay, not ready",
        "runs none",
        "available for long",
        "to be adopted",
    ],
)
def test_a_converged_daemonset_has_no_waiting_condition(builder: DaemonSetBuilder) -> None:
    builder.with_status(conditions=[{"type": "Waiting", "status": "True", "reason": "Creating"}])
    assert shown(builder) is None


def test_the_waiting_condition_keeps_its_transition_time_and_other_conditions_stay() -> None:
    # given
    theirs = {"type": "Example", "status": "True", "lastTransitionTime": format_time(NOW - 60)}
    builder = daemonset(5, paused=True).all_old().with_status(conditions=[theirs])
    first = shown(builder)
    # when it waits for something else, later
    builder.with_rolling(paused=False, partition=5).at(300)
    second = shown(builder)
    # then
    assert first is not None
    assert second is not None
    assert (first["reason"], second["reason"]) == ("Paused", "Partition")
    assert second["lastTransitionTime"] == first["lastTransitionTime"] == format_time(NOW)
    assert [condition["type"] for condition in builder.document["status"]["conditions"]] == [
        "Example",
        "Waiting",
    ]


# ── changes that a person must make ──────────────────────────────────────────


@pytest.mark.parametrize(
    ("builder", "reason", "words", "remedy"),
    [
        (waits_for_image(daemonset().old("n1"), "n2"), "ImagePull", "nginx:1", "correct the image"),
        (unschedulable(daemonset(), "n2"), "Unschedulable", "Insufficient cpu", "free cpu on node n2"),
        (daemonset().not_ready("n2"), "NotReady", "not ready", "readiness probe"),
        (
            daemonset().not_ready("n2").taint("n2", "node.kubernetes.io/unreachable:NoExecute"),
            "NodeLost",
            "its node n2 is not ready",
            "bring n2 back",
        ),
        (
            daemonset().deleted("n2").taint("n2", "node.kubernetes.io/unreachable:NoExecute"),
            "NodeLost",
            "must be deleted, but its node n2 is not ready",
            "bring n2 back, or delete the node",
        ),
        (  # no pod should run on the node
            daemonset().deleted("n2").taint("n2", "node.kubernetes.io/unreachable:NoSchedule"),
            "NodeLost",
            "must be deleted, but its node n2 is not ready",
            "or delete the pod by force (kubectl delete pod",
        ),
        (daemonset().hooked("n2").deleted("n2"), "Finalizer", "example.com/hook", "must remove it"),
        (
            waits_for_image(daemonset().hooked("n2").deleted("n2"), "n3"),
            "Finalizer",
            "pod web-n2",
            "must remove it",
        ),
        (
            daemonset().with_hook().hooked("n2").leaving("n2"),
            "PreDeleteHook",
            "hook",
            "remove the hook",
        ),
        (daemonset().phase("Failed", "n2"), "PodFailed", "has failed on node n2", "logs"),
        (daemonset().phase("Succeeded", "n2"), "PodFinished", "has finished on node n2", "logs"),
        (daemonset().phase("Failed", "n2").taint("n2", "x:NoSchedule"), "PodFailed", "on node n2", "logs"),
        (daemonset(partition="abc").old("n2"), "InvalidSpec", "rollingUpdate.partition", "correct"),
        (daemonset(partition="a").old("n2").not_ready("n3"), "InvalidSpec", "partition", "correct"),
        (waits_for_image(daemonset(partition="a").old("n2"), "n3"), "InvalidSpec", "partition", "correct"),
        (
            daemonset().with_spec(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            "InvalidSpec",
            "spec.selector",
            "correct",
        ),
        (daemonset().with_spec(selector={}), "SelectingAll", "spec.selector", "correct"),
        (daemonset().with_spec(minReadySeconds="soon"), "InvalidSpec", "spec.minReadySeconds", "correct"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reason_that_needs_a_person_is_named_with_its_remedy(
    builder: DaemonSetBuilder, reason: str, words: str, remedy: str
) -> None:
    result = says(builder)
    assert result[0] == reason
    assert words in "; ".join(result[1:])
    assert remedy in result[2]


def test_a_failed_pod_in_backoff_reports_when_it_is_replaced() -> None:
    builder = daemonset().phase("Failed", "n2")
    builder.failed_until = {"n2": NOW + 40}
    assert format_time(NOW + 40) in says(builder)[1]


def test_pods_that_share_an_obstacle_are_counted() -> None:
    builder = waits_for_image(waits_for_image(daemonset(), "n2"), "n4")
    assert says(builder)[1].startswith("pod web-n2 (and 1 more): image nginx:1")


# ── waits that the spec demands ──────────────────────────────────────────────


@pytest.mark.parametrize(
    ("builder", "reason", "words", "remedy"),
    [
        (daemonset(paused=True).old("n1", "n2"), "Paused", "2 pods", "paused to false"),
        (daemonset(paused=True).old("n3").taint("n3", "x:NoSchedule"), "Paused", "1 pod", "paused to false"),
        (
            daemonset(paused=True)
            .old("n1")
            .orphaned("n2")
            .taint("n2", "node.kubernetes.io/unreachable:NoExecute"),
            "Paused",
            "1 pod",
            "paused to false",
        ),
        (
            daemonset(5, paused=True).surging().old("n5").on("n5", called="b").born(5, "b").unscheduled("b"),
            "Paused",
            "1 pod",
            "paused to false",
        ),
        (daemonset().old("n1").on_delete(), "OnDelete", "1 pod", "delete the pods"),
        (daemonset(partition=2).old("n1", "n2"), "Partition", "2 nodes", "lower"),
        (
            daemonset(selector={"matchLabels": {"canary": "1"}}).old("n1"),
            "NodeSelector",
            "rollingUpdate.selector",
            "label these nodes",
        ),
        (
            daemonset(partition=4, selector={"matchLabels": {"a": "b"}}).node("n1", a="b").old("n1", "n2"),
            "NodeSelector",
            "2 pods",
            "label these nodes",
        ),
        (
            daemonset(5, pods=False, partition=5).with_spec(scaleStrategy={"partitionedScaling": True}),
            "PartitionedScaling",
            "5 of 5 nodes have no pod",
            "lower",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_block_by_the_spec_is_named_with_its_remedy(
    builder: DaemonSetBuilder, reason: str, words: str, remedy: str
) -> None:
    result = says(builder)
    assert result[0] == reason
    assert words in result[1] + result[2]
    assert remedy in result[2]


# ── waits without an action of a person ──────────────────────────────────────


@pytest.mark.parametrize(
    ("builder", "reason", "words"),
    [
        (daemonset().all_old(), "Updating", "5 pods are of an older template and being updated"),
        (daemonset(5, maxSurge=1, maxUnavailable=0).all_old(), "Updating", "5 pods"),
        (daemonset(5, pods=False), "Creating", "5 of 5 nodes have no pod yet, and pods are being created"),
        (daemonset().without_pod("n2").old("n1"), "Updating", "1 pod"),
        (daemonset(5, paused=True).without_pod("n2").old("n1"), "Creating", "1 of 5 nodes"),
        (daemonset().deleted("n2"), "Creating", "1 of 5 nodes"),
        (daemonset().deleted("n2").not_ready("n2"), "Creating", "1 of 5 nodes"),
        (
            daemonset(5, pods=False, partition=3).with_spec(scaleStrategy={"partitionedScaling": True}),
            "Creating",
            "5 of 5 nodes",
        ),
        (daemonset().taint("n3", "x:NoExecute").deleted("n3"), "Deleting", "1 pod is to be deleted"),
        (daemonset().surging().deleted("n2").on("n2", called="b"), "Deleting", "1 pod is to be deleted"),
        (daemonset(paused=True).old("n1").on("n2", called="b"), "Deleting", "1 pod is to be deleted"),
        (
            daemonset().unscheduled("n4").without_node("n4").on("n1", called="b"),
            "Deleting",
            "2 pods are to be deleted",
        ),
        (daemonset().on("n1", called="extra"), "Deleting", "1 pod is to be deleted"),
        (daemonset().taint("n3", "x:NoExecute"), "Deleting", "1 pod is to be deleted"),
        (daemonset().unscheduled("n4").without_node("n4"), "Deleting", "1 pod is to be deleted"),
        (
            daemonset().unscheduled("n4").deleted("n4").without_node("n4"),
            "Deleting",
            "1 pod is to be deleted",
        ),
        (daemonset().with_spec(minReadySeconds=30).ready_for(3, "n2").old("n1"), "Updating", "1 pod"),
        (daemonset().unscheduled("n2").born(1, "n2"), "Starting", "the pods on 1 of 5 nodes are starting"),
        (
            daemonset().unscheduled("n2").born(1, "n2").orphaned("n4"),
            "Starting",
            "the pods on 1 of 5 nodes are starting",
        ),
        (
            unready(daemonset().unscheduled("n2").born(1, "n2").taint("n3", "x:NoSchedule"), "n3", 5),
            "Starting",
            "the pods on 1 of 4 nodes are starting",
        ),
        (
            daemonset()
            .unscheduled("n2")
            .born(1, "n2")
            .taint("n2", "node.kubernetes.io/unreachable:NoExecute"),
            "Starting",
            "the pods on 1 of 5 nodes are starting",
        ),
        (daemonset().with_spec(minReadySeconds=30).ready_for(3, "n2"), "MinReadySeconds", "30 s"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wait_without_an_action_reports_that_none_is_needed(
    builder: DaemonSetBuilder, reason: str, words: str
) -> None:
    result = says(builder)
    assert result[0] == reason
    assert words in result[1]
    assert result[2] == "no action is needed"


def test_an_in_place_update_in_progress_needs_no_action() -> None:
    # given a pod whose container still runs the earlier image, and another old pod
    builder = being_updated(updatable(3).old("n1"), "n3")
    status = builder.pods["n3"]["status"]["containerStatuses"][0]
    status |= {"image": "nginx:0", "imageID": "sha256:nginx:0"}
    # then
    assert says(builder)[0] == "Updating"
    # and for the last pod, its containers are waited for
    builder.without_pod("n1").on("n1")
    reason, _, remedy = says(builder)
    assert (reason, remedy) == ("Starting", "no action is needed")


def test_an_unreadable_update_state_needs_a_person() -> None:
    builder = updatable(2)
    builder.pods["n2"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = "not JSON"
    builder.set_condition("n2", keys.IN_PLACE_READY, "False").not_ready("n2")
    reason, words, remedy = says(builder)
    assert (reason, "web-n2" in words) == ("BrokenUpdateState", True)
    assert "delete the pod" in remedy


def test_a_pod_is_named_after_being_unready_for_a_while_by_a_requeue() -> None:
    """Every new pod is unready for a moment; writes of the status for each would be expensive."""
    # given a pod that is not ready for ten seconds
    builder = daemonset().set_condition("n5", "Ready", "False", lastTransitionTime=format_time(NOW - 10))
    builder.old("n1", "n2")
    # then the condition reports the rollout, and the plan is due when the pod has been unready for too long
    assert says(builder)[0] == "Updating"
    assert builder.plan().requeue_after_s == NAMED_AFTER_S - 10
    # when
    builder.at(NAMED_AFTER_S)
    # then
    reason, words, _ = says(builder)
    assert reason == "NotReady"
    assert "web-n5" in words


def test_the_requeue_is_for_the_first_unready_pod_to_be_named() -> None:
    builder = daemonset().old("n1")
    for short, seconds in (("n2", NAMED_AFTER_S), ("n3", 10), ("n4", 20)):
        unready(builder, short, seconds)
    assert builder.plan().requeue_after_s == NAMED_AFTER_S - 20


@pytest.mark.parametrize(
    "builder",
    [
        daemonset(2).held("n1").ready_for(4, "n1"),
        unready(daemonset(2), "n1", MARKED_IN_S),
    ],
    ids=["ready", "named already, and its node counts as lost"],
)
def test_a_pod_that_time_does_not_change_is_not_requeued(builder: DaemonSetBuilder) -> None:
    assert builder.plan().requeue_after_s is None


def test_a_terminating_pod_requeues_the_set_at_its_expected_end() -> None:
    assert unready(daemonset(2).deleted("n1"), "n1", 4).plan().requeue_after_s == ENDED_IN_S


def test_an_unschedulable_pod_is_reported_only_after_a_delay() -> None:
    """The scheduler may be busy, and tries again."""
    builder = unschedulable(daemonset(), "n2").born(5, "n2")
    assert says(builder)[0] == "Starting"
    assert builder.plan().requeue_after_s == NAMED_AFTER_S - 5
    assert says(builder.at(NAMED_AFTER_S - 5))[0] == "Unschedulable"


def of_unknown_age(builder: DaemonSetBuilder, short: str) -> DaemonSetBuilder:
    """Let a pod be unready, without a time: it has neither a creation time nor a Ready condition."""
    builder.set_condition(short, "Ready", None)
    del builder.pods[short]["metadata"]["creationTimestamp"]
    return builder


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (of_unknown_age(unschedulable(daemonset(), "n2"), "n2"), "Unschedulable"),
        (of_unknown_age(daemonset(), "n2"), "NotReady"),
    ],
)
def test_a_pod_unready_since_an_unknown_time_is_named_immediately(
    builder: DaemonSetBuilder, reason: str
) -> None:
    assert builder.plan().requeue_after_s is None
    assert says(builder)[0] == reason


def test_a_failing_container_is_named_immediately_despite_others() -> None:
    builder = unready(waits_for_image(daemonset(), "n2"), "n2", 5)
    statuses = builder.pods["n2"]["status"]["containerStatuses"]
    statuses.append({**statuses[0], "name": "side", "state": {"waiting": {"reason": "ContainerCreating"}}})
    assert says(builder)[0] == "ImagePull"


# ── failed writes ────────────────────────────────────────────────────────────


def test_a_failed_write_stays_in_the_status_until_nothing_is_left_to_write() -> None:
    """A status write per attempt would start the next attempt immediately."""
    # given a creation that was refused
    builder = daemonset().without_pod("n2")
    snapshot = builder.snapshot()
    refused = failure("create pods", f"pods {POD} is forbidden: exceeded quota")
    failed = compute_status_after(snapshot, plan_daemonset(snapshot), refused)
    assert failed is not None
    builder.document["status"] = failed
    assert says(builder) == (
        "Quota",
        "create pods: pods … is forbidden: exceeded quota",
        RAISE_QUOTA,
    )
    # then the next plan does not change the condition
    assert builder.plan().status is None
    # and another failure does not change it
    snapshot = builder.snapshot()
    assert compute_status_after(snapshot, plan_daemonset(snapshot), refused) == failed
    # and when the pod exists, the condition is removed
    builder.on("n2")
    assert shown(builder) is None


def test_the_status_after_a_write_that_failed_has_the_counters_of_now_and_conditions_of_others() -> None:
    theirs = {"type": "Example", "status": "True"}
    snapshot = daemonset(3).without_pod("n2").with_status(conditions=[theirs]).snapshot()
    failed = compute_status_after(snapshot, plan_daemonset(snapshot), failure("create pods"))
    assert failed is not None
    assert failed["currentNumberScheduled"] == 2
    assert [(condition["type"], condition.get("reason")) for condition in failed["conditions"]] == [
        ("Example", None),
        ("Waiting", "Quota"),
    ]


@pytest.mark.parametrize(
    ("builder", "stored", "expected"),
    [
        (daemonset().old("n1").with_revisions(), {"type": "Waiting", "reason": "Quota"}, "Quota"),
        (daemonset(paused=True).with_revisions(), {"type": "Waiting", "reason": "Quota"}, "Quota"),
        (daemonset().old("n1"), {"type": "Waiting", "reason": "Quota"}, "Quota"),
        (daemonset(paused=True).old("n1"), {"type": "Waiting", "reason": "Quota"}, "Paused"),
        (daemonset().old("n1"), {"type": "Waiting", "reason": "Paused"}, "Updating"),
        (daemonset().old("n1"), {"type": "Example", "reason": "Quota"}, "Updating"),
    ],
    ids=[
        "a revision and an update",
        "a revision",
        "an update",
        "nothing to write",
        "it was another reason",
        "it is of others",
    ],
)
def test_a_failed_write_is_reported_while_something_is_left_to_write(
    builder: DaemonSetBuilder, stored: dict[str, str], expected: str
) -> None:
    builder.with_status(conditions=[{"status": "True", "message": "it failed", **stored}])
    assert says(builder)[0] == expected


def test_a_new_reason_emits_one_event() -> None:
    # given an image that cannot be pulled
    builder = waits_for_image(daemonset(), "n2")
    plan = builder.plan()
    assert [note.reason for note in plan.notes] == ["ImagePull"]
    assert plan.status is not None
    # then no further event is emitted while the condition has this reason
    builder.document["status"] = plan.status
    assert builder.plan().notes == ()
    # and an unreadable limit has one event
    builder = daemonset(partition="abc").old("n2")
    assert [note.reason for note in builder.plan().notes] == ["InvalidSpec"]


def test_tidying_up_that_fails_is_not_in_the_status() -> None:
    snapshot = daemonset().snapshot()
    assert compute_status_after(snapshot, plan_daemonset(snapshot), failure("tidy up")) is None


# ── with the selector guard ──────────────────────────────────────────────────


def test_under_the_selector_guard_there_is_only_its_condition() -> None:
    builder = daemonset(paused=True).old("n1")
    assert says(builder)[0] == "Paused"
    builder.with_revisions(*builder.stored_revisions()).with_spec(selector={"matchLabels": {"app": "other"}})
    plan = builder.plan()
    assert condition(plan, "Waiting") is None
    assert condition(plan, "SelectorMismatch") is not None
