"""Claims that grow with their templates; numbers are the specification's cases."""

from typing import Any

import pytest

from pykruise.kube.clock import format_time
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from support.statefulset_builder import (
    NOW,
    StatefulSetBuilder,
    claim_template,
    deleted,
    left,
    patches,
    statefulset,
    states,
    template,
    updatable,
    waiting,
)

FAST = {"storageClassName": "fast"}


def growing(replicas: int = 3, **fields: Any) -> StatefulSetBuilder:
    """A set with claims of 1Gi, and a template of 2Gi."""
    builder = statefulset(replicas, **fields).with_claims(claim_template(**FAST))
    builder.spec["volumeClaimTemplates"] = [claim_template(size="2Gi", **FAST)]
    return builder.growing()


def grown(plan: Any) -> list[str]:
    return [name for name, body in patches(plan, PERSISTENT_VOLUME_CLAIMS).items() if "spec" in body]


def capacity(builder: StatefulSetBuilder, name: str, size: str, *, asked: str = "2Gi") -> None:
    builder.claims[name]["spec"]["resources"]["requests"]["storage"] = asked
    builder.claims[name]["status"]["capacity"]["storage"] = size


def ready_claims(builder: StatefulSetBuilder) -> int:
    status = builder.plan().status
    assert status is not None
    claims: int = status["volumeClaims"][0]["compatibleReadyReplicas"]
    return claims


def test_claims_grow_pod_by_pod_from_the_highest_and_no_pod_is_restarted() -> None:
    """statefulset case 70"""
    # given
    builder = growing()
    plan = builder.plan()
    assert grown(plan) == ["data-web-2"]
    body = patches(plan, PERSISTENT_VOLUME_CLAIMS)["data-web-2"]
    assert body["metadata"]["annotations"] == {"apps.kruise.io/owned-by-asts": "web"}
    assert body["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    assert ready_claims(builder) == 0
    assert waiting(plan) == "ClaimsGrow"
    assert all(step.failed is not None and step.failed.warning for step in plan.steps)
    # while it grows, the next one waits
    capacity(builder, "data-web-2", "1Gi")
    plan = builder.plan()
    assert plan.stages == ()
    assert waiting(plan) == "ClaimsGrow"
    # and then the next claim grows
    for number, following in ((2, ["data-web-1"]), (1, ["data-web-0"]), (0, [])):
        capacity(builder, f"data-web-{number}", "2Gi")
        plan = builder.plan()
        assert grown(plan) == following
        assert deleted(plan) == []
        assert ready_claims(builder) == 3 - number
    assert waiting(plan) == ""


@pytest.mark.parametrize(
    ("classes", "why"),
    [
        ([{"metadata": {"name": "fast"}}], "does not set allowVolumeExpansion"),
        (
            [{"metadata": {"name": "fast"}, "allowVolumeExpansion": False}],
            "does not set allowVolumeExpansion",
        ),
        ([], "does not exist"),
    ],
)
def test_a_class_whose_volumes_cannot_grow_stops_the_pass_and_is_named(
    classes: list[dict[str, Any]], why: str
) -> None:
    """statefulset case 71"""
    builder = growing().all_old()
    builder.classes = classes
    plan = builder.plan()
    assert plan.stages == ()
    assert {note.reason for note in plan.notes} == {"FailedUpdatePVC"}
    assert plan.status is not None
    message = f"claim data-web-2 cannot be expanded: storage class fast {why}"
    assert plan.status["conditions"][0]["message"] == message
    assert waiting(plan) == "CannotUpdate"


def test_a_claim_without_a_class_grows() -> None:
    """Without a storage class, the controller cannot see whether the volume can grow."""
    builder = statefulset(1).with_claims(claim_template()).growing()
    builder.spec["volumeClaimTemplates"] = [claim_template(size="2Gi")]
    assert grown(builder.plan()) == ["data-web-0"]


def test_each_claim_of_a_pod_grows_independently_and_the_pod_waits_for_all() -> None:
    # given a claim of the right size and of a deleted class, and a claim that should grow
    data, logs = claim_template(storageClassName="gone"), claim_template("logs", **FAST)
    builder = statefulset(1).with_claims(data, logs).growing()
    builder.spec["volumeClaimTemplates"] = [data, claim_template("logs", "2Gi", **FAST)]
    assert grown(builder.plan()) == ["logs-web-0"]
    # while the second claim grows
    capacity(builder, "logs-web-0", "1Gi")
    assert waiting(builder.plan()) == "ClaimsGrow"
    plan = builder.all_old().plan()
    assert (deleted(plan), left(plan)) == ([], {0: "waits until its claims have grown"})
    # and when it has grown
    capacity(builder, "logs-web-0", "2Gi")
    assert deleted(builder.plan()) == [0]


def test_claims_never_shrink_and_a_larger_one_will_do() -> None:
    """statefulset case 72"""
    builder = statefulset(3).with_claims(claim_template(size="2Gi")).growing()
    builder.spec["volumeClaimTemplates"] = [claim_template(size="1Gi")]
    plan = builder.plan()
    assert plan.stages == ()
    assert plan.status["volumeClaims"][0]["compatibleReadyReplicas"] == 3  # type: ignore[index]
    # and a new claim is smaller
    plan = builder.with_spec(replicas=4).plan()
    claim = next(iter(plan.steps)).action.body  # type: ignore[union-attr]
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"


def test_after_a_rollback_claims_grow_without_a_restart() -> None:
    """statefulset case 73"""
    # given P2 updated with its claim under partition 2; then the image is reverted, and the partition is lowered
    builder = growing(partition=0)
    capacity(builder, "data-web-2", "2Gi")
    builder.old_template = template("nginx:2")
    builder.old(2)
    # then P2 is updated first
    assert deleted(builder.plan()) == [2]
    # and then the claims of P1 and P0 grow, and their pods stay, because their revision is right
    builder.pod(2)
    plan = builder.plan()
    assert (grown(plan), deleted(plan)) == (["data-web-1"], [])


SHAPES = [{"accessModes": ["ReadWriteMany"]}, {"storageClassName": "slow"}]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pod_with_a_claim_of_another_shape_uses_an_unavailable_slot(shape: dict[str, Any]) -> None:
    builder = growing(3, parallel=True).all_old()
    for number in range(3):
        capacity(builder, f"data-web-{number}", "2Gi")
    assert deleted(builder.plan()) == [2]
    builder.claims["data-web-0"]["spec"] |= shape
    assert deleted(builder.plan()) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_claim_of_another_shape_stops_the_pass_and_is_named(shape: dict[str, Any]) -> None:
    """statefulset case 75"""
    builder = growing(parallel=True).all_old()
    # given a claim that is large enough
    capacity(builder, "data-web-2", "2Gi")
    builder.claims["data-web-2"]["spec"] |= shape
    # given another pod whose claims could grow without the first one
    plan = builder.with_rolling(maxUnavailable=2).plan()
    assert plan.stages == ()
    (note,) = plan.notes
    assert (note.reason, note.warning) == ("FailedUpdatePVC", True)
    assert "data-web-2" in note.message


def test_a_pod_is_updated_once_its_claims_have_grown() -> None:
    # given another image too
    builder = growing(2, podUpdatePolicy="ReCreate").all_old()
    plan = builder.plan()
    assert (grown(plan), deleted(plan)) == (["data-web-1"], [])
    capacity(builder, "data-web-1", "1Gi")
    plan = builder.plan()
    assert plan.stages == ()
    assert left(plan)[1] == "waits until its claims have grown"
    # and the next claim grows, within maxUnavailable
    builder.with_spec(podManagementPolicy="Parallel").with_rolling(maxUnavailable=2)
    assert grown(builder.plan()) == ["data-web-0"]
    capacity(builder, "data-web-1", "2Gi")
    assert deleted(builder.plan()) == [1]


def test_claims_of_a_finished_or_terminating_ordered_pod_grow_when_its_successor_exists() -> None:
    assert grown(growing(1).phase("Failed", 0).plan()) == []
    assert grown(growing(1).state("Updating", 0).deleted(0).plan()) == []


def test_claims_grow_side_by_side_within_the_budget() -> None:
    assert grown(growing(parallel=True, maxUnavailable=2).plan()) == ["data-web-2", "data-web-1"]


def test_a_file_system_that_does_not_grow_under_the_pod_gets_a_new_pod() -> None:
    # given a claim whose volume has grown, and whose file system waits for the pod's start
    builder = growing(3, parallel=True, maxUnavailable=2)
    wait_for_start(builder, "data-web-2", since_s=100)
    wait_for_start(builder, "data-web-1", since_s=50)
    # then it has some time
    plan = builder.plan()
    assert (deleted(plan), plan.requeue_after_s) == ([], 200)
    assert left(plan) == dict.fromkeys((1, 2), "waits until the file system of its claims has grown")
    # and then the pod is recreated, although its revision is right, and the other pod waits
    plan = builder.at(200).plan()
    assert (deleted(plan), plan.requeue_after_s) == ([2], 50)
    assert deleted(builder.at(250).plan()) == [2, 1]
    # and an old pod need not wait that time
    assert deleted(builder.at(0).all_old().plan()) == [2, 1]


def test_the_first_claim_with_a_stuck_file_system_resize_decides_when_its_pod_is_deleted() -> None:
    # given two claims of a pod that wait, and a third whose file system has grown in spite of its condition
    names = ("data", "logs", "temp")
    builder = statefulset(1).with_claims(*(claim_template(name, **FAST) for name in names)).growing()
    builder.spec["volumeClaimTemplates"] = [claim_template(name, "2Gi", **FAST) for name in names]
    for name, since_s in (("data", 100), ("logs", 50), ("temp", 1000)):
        wait_for_start(builder, f"{name}-web-0", since_s=since_s)
    capacity(builder, "temp-web-0", "2Gi")
    # then
    plan = builder.plan()
    assert (deleted(plan), plan.requeue_after_s) == ([], 200)


def test_a_pod_that_is_recreated_for_its_file_system_waits_for_its_hook_without_a_return_to_service() -> None:
    # given
    builder = growing(3).with_hook("preDelete").hooked(0, 1, 2)
    wait_for_start(builder, "data-web-2", since_s=300)
    assert states(builder.plan()) == {2: "PreparingDelete"}
    builder.state("PreparingDelete", 2)
    # then
    plan = builder.plan()
    assert (plan.stages, waiting(plan)) == ((), "PreDeleteHook")
    # and it is deleted once the hook is removed
    assert deleted(builder.labelled({"example.com/hook": "off"}, 2).plan()) == [2]
    # and it returns if its file system has grown in spite of this, or if the set is paused
    builder.hooked(2)
    assert states(builder.with_rolling(paused=True).plan()) == {2: "Normal"}
    capacity(builder, "data-web-2", "2Gi")
    assert states(builder.with_rolling(paused=False).plan())[2] == "Normal"


def wait_for_start(builder: StatefulSetBuilder, claim: str, *, since_s: float) -> None:
    """Let the volume have grown `since_s` seconds ago, and its file system not."""
    capacity(builder, claim, "1Gi")
    since = format_time(NOW - since_s)
    pending = {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": since}
    builder.claims[claim]["status"]["conditions"] = [pending]


def test_claims_are_not_resized_without_the_gate_or_the_strategy() -> None:
    """statefulset case 51"""
    for builder in (
        growing().with_settings(auto_resize_claims=False),
        growing().with_spec(volumeClaimUpdateStrategy=None),
        growing().with_spec(volumeClaimUpdateStrategy={"type": "OnDelete"}),
    ):
        plan = builder.plan()
        assert (plan.stages, plan.notes, plan.waiting) == ((), (), None)
    # and no pod waits for them
    wait_for_start(builder, "data-web-2", since_s=1000)
    assert builder.plan().stages == ()
    capacity(builder, "data-web-2", "1Gi")
    del builder.claims["data-web-2"]["status"]["conditions"]
    assert deleted(builder.all_old().plan()) == [2]
    capacity(builder, "data-web-2", "2Gi")
    capacity(builder, "data-web-1", "1Gi")
    assert deleted(builder.plan()) == [2]


def test_missing_and_terminating_claims_are_not_resized() -> None:
    builder = growing(2, parallel=True, maxUnavailable=2)
    del builder.claims["data-web-0"]
    builder.claims["data-web-1"]["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert grown(builder.plan()) == []


def test_in_place_updates_wait_for_their_claims_too() -> None:
    builder = updatable(2).with_claims(claim_template(**FAST)).all_old()
    builder.spec["volumeClaimTemplates"] = [claim_template(size="2Gi", **FAST)]
    plan = builder.growing().plan()
    assert grown(plan) == ["data-web-1"]
    assert patches(plan) == {}
