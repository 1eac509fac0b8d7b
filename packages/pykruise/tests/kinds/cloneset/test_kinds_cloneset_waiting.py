"""The Waiting condition: why a CloneSet has not converged, since when, and the remedy."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kube.clock import format_time
from pykruise.pods.lifecycle.blockers import LOOKED_AT
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from support.cloneset_builder import NOW, CloneSetBuilder, cloneset, names, revision, template
from support.plan_views import condition


def waiting(builder: CloneSetBuilder) -> dict[str, Any] | None:
    """The Waiting condition of the object after this plan."""
    plan = plan_cloneset(builder.snapshot())
    if plan.status is not None:
        builder.document["status"] = plan.status
        return condition(plan, "Waiting")
    stored = builder.document["status"].get("conditions") or []
    return next((item for item in stored if item["type"] == "Waiting"), None)


def pod_waits(reason: str) -> Callable[[CloneSetBuilder], None]:
    """A CloneSet whose pod a does not run its container, for this reason."""

    def change(builder: CloneSetBuilder) -> None:
        builder.not_ready("a")
        status = builder.pods["a"]["status"]["containerStatuses"][0]
        status |= {"ready": False, "state": {"waiting": {"reason": reason}}}

    return change


def unscheduled(message: str, reason: str = "Unschedulable") -> Callable[[CloneSetBuilder], None]:
    def change(builder: CloneSetBuilder) -> None:
        builder.unscheduled("a").in_state("PreparingNormal", "a")
        builder.set_condition("a", "PodScheduled", "False", reason=reason, message=message)

    return change


def resizing(reason: str) -> Callable[[CloneSetBuilder], None]:
    def change(builder: CloneSetBuilder) -> None:
        builder.in_state("Updating", "a").not_ready("a")
        builder.set_condition("a", "PodResizePending", "True", reason=reason, message="too much")

    return change


def own_gate(builder: CloneSetBuilder) -> None:
    builder.not_ready("a")
    builder.pods["a"]["spec"]["readinessGates"].append({"conditionType": "example.com/lb"})


@pytest.mark.parametrize(
    ("change", "reason", "remedy"),
    [
        (pod_waits("ImagePullBackOff"), "ImagePull", "correct the image"),
        (pod_waits("InvalidImageName"), "ImagePull", "correct the image"),
        (pod_waits("CrashLoopBackOff"), "ContainerFails", "kubectl describe pod -n"),
        (pod_waits("ContainerCreating"), "Starting", "no action is needed"),
        (unscheduled("0/3 nodes are available: insufficient cpu"), "Unschedulable", "add nodes"),
        (unscheduled("pod has unbound immediate PersistentVolumeClaims"), "UnboundClaims", "storage class"),
        (unscheduled("gated", "SchedulingGated"), "SchedulingGated", "scheduling gates"),
        (lambda builder: builder.unscheduled("a").born(1, "a"), "Scheduling", "no action is needed"),
        (lambda builder: builder.unscheduled("a"), "NoScheduler", "schedulerName"),
        (resizing("Infeasible"), "ResizeInfeasible", "lower the resources"),
        (resizing("Deferred"), "ResizeDeferred", "lower the resources"),
        (own_gate, "ReadinessGate", "example.com/lb"),
        (lambda builder: builder.not_ready("a"), "NotReady", "readiness probe"),
        (
            lambda builder: builder.ready_for(3, "a").with_spec(minReadySeconds=9),
            "MinReadySeconds",
            "no action",
        ),
        (
            lambda builder: builder.with_hook("preNormal").in_state("PreparingNormal", "a"),
            "PreNormalHook",
            "add the hook",
        ),
        (
            lambda builder: builder.with_hook("inPlaceUpdate").in_state("Updated", "a"),
            "InPlaceUpdateHook",
            "add the hook",
        ),
        (
            lambda builder: (
                builder.with_hook("preDelete")
                .with_finalizer("example.com/hook", "a")
                .marked("a")
                .in_state("PreparingDelete", "a")
            ),
            "PreDeleteHook",
            "remove the hook",
        ),
    ],
)
def test_a_blocked_pod_is_named_with_its_remedy(
    change: Callable[[CloneSetBuilder], Any], reason: str, remedy: str
) -> None:
    # given
    builder = cloneset(3)
    change(builder)
    # when
    result = waiting(builder)
    # then
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", reason)
    assert "web-a" in result["message"]
    assert remedy in result["message"].partition("; ")[2]


@pytest.mark.parametrize(
    ("builder", "reason", "remedy"),
    [
        (cloneset(3, old=2).paused(), "Paused", "paused to false"),
        (cloneset(3, old=2).on_delete(), "OnDelete", "delete the pods"),
        (cloneset(3, old=2, partition=2), "Partition", "lower"),
        (cloneset(3, old=2, max_unavailable=1), "Updating", "no action is needed"),
        (cloneset(3, pods=1), "Creating", "no action is needed"),
        (cloneset(1, pods=3), "Deleting", "no action is needed"),
        (cloneset(1, pods=2), "Deleting", "no action is needed"),
        (cloneset(3).deleted("a"), "Creating", "no action is needed"),
        # a pod that is only not ready comes after missing pods
        (cloneset(3, pods=2).not_ready("a"), "Creating", "no action is needed"),
        # one pod more returns to the current revision than there are older pods
        (
            cloneset(1, pods=2, partition=1, max_unavailable=1, max_surge=1)
            .with_settings(partition_rollback=True)
            .with_revisions(revision(template("nginx:0"), 1), revision(template("nginx:1"), 2))
            .with_current(revision(template("nginx:0"), 1)["metadata"]["name"]),
            "Updating",
            "no action is needed",
        ),
        (
            cloneset(3, pods=2).not_ready("a").with_spec(scaleStrategy={"maxUnavailable": 1}),
            "NotReady",
            "readiness probe",
        ),
        (cloneset(3, max_unavailable=0, max_surge=1).marked("a"), "Creating", "no action"),
        (
            cloneset(3).not_ready("b").marked("a").with_rolling(maxUnavailable=1),
            "NotReady",
            "readiness probe",
        ),
    ],
)
def test_a_block_by_the_spec_is_named_with_its_remedy(
    builder: CloneSetBuilder, reason: str, remedy: str
) -> None:
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == reason
    assert remedy in result["message"].partition("; ")[2]


def test_one_pod_that_is_not_ready_is_found_among_many() -> None:
    """The plan looks at a limited number of pods, and available pods do not use up the limit."""
    *_, last = names(LOOKED_AT + 1)
    result = waiting(cloneset(LOOKED_AT + 1).not_ready(last))
    assert result is not None
    assert result["reason"] == "NotReady"


def test_a_reason_that_needs_attention_precedes_transient_ones() -> None:
    starts = pod_waits("ContainerCreating")
    # given a pod that starts, and one that is missing
    builder = cloneset(3, pods=2)
    starts(builder)
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "Creating"
    # given a pod that starts, and one that is not ready
    builder = cloneset(3).not_ready("b")
    starts(builder)
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "NotReady"


@pytest.mark.parametrize(
    ("builder", "reason"),
    [(cloneset(3, max_unavailable=3).marked("b"), "Deleting"), (cloneset(3, pods=2), "Creating")],
)
def test_a_pod_that_waits_for_another_reason_blocks_no_other_pod(
    builder: CloneSetBuilder, reason: str
) -> None:
    # given a pod that is being updated in place, and still runs the old image
    state = {
        "revision": builder.update_revision,
        "updateTimestamp": format_time(NOW - 10),
        "lastContainerStatuses": {"main": {"imageID": "sha256:nginx:1"}},
        "updateImages": True,
    }
    builder.annotated({keys.IN_PLACE_STATE_ANNOTATION: orjson.dumps(state).decode()}, "a")
    builder.in_state("Updating", "a").set_condition("a", keys.IN_PLACE_READY, "False", reason="x")
    builder.pods["a"]["status"]["containerStatuses"][0]["image"] = "nginx:0"
    # then
    plan = plan_cloneset(builder.snapshot())
    assert "web-a" in plan.skipped
    assert plan.waiting is not None
    assert plan.waiting.code == reason


def test_pods_that_their_policy_cannot_update_are_named() -> None:
    builder = cloneset(3, old=2).with_rolling(podUpdatePolicy="InPlaceOnly")
    builder.with_spec(template=template("nginx:1", hostNetwork=True)).add("a", "b", old=True).add("c")
    plan = plan_cloneset(builder.snapshot())
    assert plan.skipped.keys() == {"web-a", "web-b"}
    assert plan.waiting is not None
    assert plan.waiting.code == "NotInPlace"
    assert "hostNetwork" in plan.waiting.message


def test_the_first_of_several_slowly_terminating_pods_is_named() -> None:
    builder = cloneset(2).with_templates("data", reuse=True).claim("a", "b").deleted("b", "a")
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "Terminating"
    assert "pod web-a" in result["message"]


def test_a_converged_cloneset_has_no_waiting_condition() -> None:
    builder = cloneset(3)
    assert waiting(builder) is None
    assert "conditions" not in builder.document["status"]


def test_the_start_of_waiting_and_of_its_current_reason_are_reported() -> None:
    # given a pod that is not ready
    builder = cloneset(3).not_ready("a")
    first = waiting(builder)
    assert first is not None
    # when its image turns out to be wrong, and much later the image of another pod too
    pod_waits("ErrImagePull")(builder)
    second = waiting(builder.at(NOW + 60))
    assert second is not None
    builder.not_ready("b")
    builder.pods["b"]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ErrImagePull"}}
    third = waiting(builder.at(NOW + 120))
    assert third is not None
    # then
    times = [(entry["lastTransitionTime"], entry["lastUpdateTime"]) for entry in (first, second, third)]
    start, later = format_time(NOW), format_time(NOW + 60)
    assert times == [(start, start), (start, later), (start, later)]
    assert "(and 1 more)" in third["message"]


def test_a_pod_that_leaves_its_name_late_is_named_with_its_finalizers() -> None:
    """cloneset 6.7: its successor needs the name"""
    builder = cloneset(1).with_templates("data", reuse=True).claim("a").deleted("a")
    builder.with_finalizer("example.com/backup", "a")
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "Finalizer"
    assert "example.com/backup" in result["message"]


def test_a_pod_kept_by_a_finalizer_is_named_although_the_rest_has_converged() -> None:
    builder = cloneset(2).add("c").deleted("c").with_finalizer("example.com/backup", "c")
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "Finalizer"
    assert plan_cloneset(builder.snapshot()).waiting is None


def test_a_failure_is_not_contradicted() -> None:
    # given a creation that failed
    builder = cloneset(3, pods=1)
    builder.with_status(
        conditions=[
            {"type": "FailedScale", "status": "True", "reason": "WriteFailed", "message": "exceeded quota"}
        ]
    )
    # then the message is not that pods are being created: the CloneSet waits because of the rejection
    refused = waiting(builder)
    assert refused is not None
    assert (refused["reason"], refused["message"]) == ("WriteFailed", "exceeded quota")
    # but a cause that needs a remedy is reported beside it
    pod_waits("ErrImagePull")(builder)
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "ImagePull"


@pytest.mark.parametrize(("kind", "status"), [("FailedScale", "False"), ("Progressing", "True")])
def test_only_a_lasting_failure_replaces_the_reason_for_waiting(kind: str, status: str) -> None:
    builder = cloneset(3, pods=1, progressDeadlineSeconds=60)
    builder.with_status(conditions=[{"type": kind, "status": status, "reason": "Succeeded", "message": ""}])
    result = waiting(builder)
    assert result is not None
    assert result["reason"] == "Creating"


def test_the_label_of_a_container_that_waits_for_another_image_names_the_wanted_one() -> None:
    builder = cloneset(1)
    pod_waits("ErrImagePull")(builder)
    builder.pods["a"]["spec"]["containers"][0]["image"] = "nginx:wrong"
    result = waiting(builder)
    assert result is not None
    assert "nginx:wrong" in result["message"]
    assert keys.IN_PLACE_READY not in result["message"]


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(cloneset(3, old=3, max_unavailable=0, max_surge=0), id="to be updated"),
        pytest.param(cloneset(3, max_unavailable=0, max_surge=0).marked("a"), id="to be deleted"),
    ],
)
def test_a_max_unavailable_of_zero_is_named_as_the_limit(world: CloneSetBuilder) -> None:
    """A CloneSet with zero replicas may be stored with that value, and scaled up later."""
    plan = plan_cloneset(world.snapshot())
    assert plan.waiting is not None
    assert (plan.waiting.code, plan.waiting.remedy) == (
        Code.LIMIT_IS_ZERO,
        "raise spec.updateStrategy.rollingUpdate.maxUnavailable",
    )
    assert {why.code for why in plan.skipped.values()} == {Code.LIMIT_IS_ZERO}
