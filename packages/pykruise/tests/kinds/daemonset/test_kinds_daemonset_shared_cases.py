"""Cases of the shared engines (lifecycle hooks, updates in place) for DaemonSet.

Not here, as they cannot apply: lifecycle cases 1 to 34, 38 to 41 and 44 to 46, 50, 55, 56 (states and hooks that
DaemonSet has not, scaling, ordinals), inplace-update cases 19, 20 (claims), 25 (no grace period of its own), 53 to
67 (conditions, launch priority and ordering, which no DaemonSet decides) and 68 (no fewest number of pods).
"""

import json
from typing import Any

import pytest

from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.daemonset_builder import DaemonSetBuilder, daemonset, revision, template, updatable
from support.plan_views import deleted, left, pod_patches, reasons, states


def writes_of(plan: Plan, short: str) -> list[Patch]:
    """Patches of one pod, in order."""
    return [
        step.action
        for stage in plan.stages
        for chain in stage.chains
        if chain.subject == f"web-{short}"
        for step in chain.steps
        if isinstance(step.action, Patch)
    ]


def conditions_in(patch: Patch) -> dict[str, Any]:
    return {
        condition["type"]: condition for condition in (patch.body.get("status") or {}).get("conditions") or ()
    }


def begun(builder: DaemonSetBuilder, short: str = "n1", **state: Any) -> DaemonSetBuilder:
    """Let an update in place of this pod be in progress."""
    result = {"revision": builder.update_hash, "updateTimestamp": "2026-01-31T11:59:40Z", **state}
    builder.pods[short]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = json.dumps(result)
    builder.set_condition(short, keys.IN_PLACE_READY, "False", reason="StartInPlaceUpdate")
    return builder.not_ready(short)


# ── hooks ────────────────────────────────────────────────────────────────────


def test_a_pod_without_the_hooks_finalizer_is_deleted_immediately() -> None:
    """lifecycle case 35"""
    plan = daemonset(3).with_hook().taint("n2", "x:NoExecute").plan()
    assert (deleted(plan), states(plan)) == ({"n2"}, {})


@pytest.mark.parametrize("labels", [{}, {"example.com/empty": ""}])
def test_a_handler_with_an_empty_value_holds_only_pods_that_have_the_label(labels: dict[str, str]) -> None:
    """lifecycle case 54"""
    builder = daemonset(3).taint("n2", "x:NoExecute").labelled(labels, "n2")
    builder.spec["lifecycle"] = {"preDelete": {"labelsHandler": {"example.com/empty": ""}}}
    plan = builder.plan()
    assert deleted(plan) == (set() if labels else {"n2"})
    assert states(plan) == ({"n2": "PreparingDelete"} if labels else {})


def test_only_the_label_changes_without_the_readiness_gate() -> None:
    """lifecycle case 29"""
    builder = daemonset(3).with_hook(markPodNotReady=True).hooked("n2").taint("n2", "x:NoExecute")
    (patch,) = writes_of(builder.plan(), "n2")
    assert patch.subresource == ""
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    assert "status" not in patch.body


def test_readiness_and_state_are_written_in_one_patch() -> None:
    """lifecycle case 31: a failed write leaves the label as it was"""
    builder = daemonset(3).with_hook(markPodNotReady=True).hooked("n2").taint("n2", "x:NoExecute")
    builder.with_gate("n2", keys.KRUISE_POD_READY).set_condition("n2", keys.KRUISE_POD_READY, "True")
    (patch,) = writes_of(builder.plan(), "n2")
    assert patch.body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    assert conditions_in(patch)[keys.KRUISE_POD_READY]["status"] == "False"


def test_when_the_hook_is_taken_out_of_the_spec_waiting_pods_are_deleted() -> None:
    """lifecycle case 42"""
    assert deleted(daemonset(3).hooked("n2").leaving("n2").plan()) == {"n2"}


def test_a_deleted_pod_held_by_a_finalizer_is_neither_changed_nor_replaced() -> None:
    """lifecycle case 43"""
    plan = daemonset(3).with_hook().hooked("n2").deleted("n2").plan()
    assert not plan.stages
    assert plan.skipped_nodes["n2"].message == "its previous pod still exists"


def test_a_pod_that_is_in_its_state_already_is_not_written_to_again() -> None:
    """lifecycle case 51"""
    builder = daemonset(3).with_hook().hooked("n2").leaving("n2").taint("n2", "x:NoExecute")
    plan = builder.plan()
    assert not plan.stages
    assert "hook" in left(plan)["n2"]


def test_a_waiting_pod_uses_the_budget_up_and_is_never_updated_in_place() -> None:
    """lifecycle case 37"""
    builder = updatable(5).all_old().with_hook().hooked("n5").leaving("n5")
    plan = builder.plan()
    assert not plan.stages
    assert {*left(plan)} == {"n1", "n2", "n3", "n4", "n5"}


# ── updates in place ─────────────────────────────────────────────────────────


def test_the_pod_is_out_of_service_before_its_image_changes() -> None:
    """inplace-update case 22"""
    condition, change = writes_of(updatable(1).all_old().plan(), "n1")
    assert condition.subresource == "status"
    result = conditions_in(condition)
    assert (result[keys.IN_PLACE_READY]["status"], result[keys.IN_PLACE_READY]["reason"]) == (
        "False",
        "StartInPlaceUpdate",
    )
    assert result["Ready"]["status"] == "False"
    assert change.body["spec"] == {"containers": [{"name": "main", "image": "nginx:1"}]}


def test_unknown_fields_are_not_in_the_write() -> None:
    """inplace-update case 31"""
    builder = updatable(1).all_old()
    builder.pods["n1"]["spec"]["newField"] = {"a": 1}
    builder.pods["n1"]["spec"]["containers"][0]["newField"] = "b"
    assert "newField" not in json.dumps(writes_of(builder.plan(), "n1")[-1].body)


@pytest.mark.parametrize(
    ("given", "uses_resize", "stages"),
    [("100m", True, ["resize?dryRun", "status", "resize", ""]), ("200m", True, [""])],
)
def test_resources_are_patched_with_the_resize_subresource_unless_already_set(
    given: str, uses_resize: bool, stages: list[str]
) -> None:
    """inplace-update cases 15, 28 and 29: values that the pod has already restart nothing and keep it in service"""
    # given a change of the cpu limit alone, and a pod that has `given`
    builder = updatable(1).with_settings(in_place_vertical_scaling=True, uses_resize=uses_resize)
    for value, cpu in ((builder.old_template, "100m"), (builder.spec["template"], "200m")):
        container = value["spec"]["containers"][0]
        container |= {"image": "nginx:1", "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": cpu}}}
        container["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    builder.all_old()
    container = builder.pods["n1"]["spec"]["containers"][0]
    container |= {"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": given}}}
    container["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    # then
    writes = writes_of(builder.plan(), "n1")
    assert [
        f"{write.subresource}?dryRun" if write.is_dry_run else write.subresource for write in writes
    ] == stages


def infeasible(nodes: int = 3, **rolling: Any) -> DaemonSetBuilder:
    """A DaemonSet with one pod whose resize its node has been refusing as infeasible for 20 s."""
    builder = updatable(nodes).with_settings(in_place_vertical_scaling=True, uses_resize=True)
    if rolling:
        builder.with_rolling(**rolling)
    for value, cpu in ((builder.old_template, "100m"), (builder.spec["template"], "900")):
        value["spec"]["containers"][0] |= {"image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}
    builder.on(*builder.pods)
    for short in builder.pods:
        builder.pods[short]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "900"}}
    state = {
        "revision": builder.update_hash,
        "updateTimestamp": "2026-01-31T11:59:40Z",
        "updateResources": True,
    }
    builder.pods["n1"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = json.dumps(state)
    return builder.set_condition("n1", "PodResizePending", "True", reason="Infeasible", message="too much")


def test_an_infeasible_resize_is_waited_for_and_then_the_pod_is_recreated() -> None:
    # given a pod whose resize is infeasible, and that is recreated in 100 s
    builder = infeasible()
    plan = builder.plan()
    # then the reason is reported, and the plan is due again in time
    assert plan.waiting is not None
    assert plan.waiting.code == Code.RESIZE_INFEASIBLE
    assert (deleted(plan), left(plan).keys()) == (set(), {"n1"})
    assert plan.requeue_after_s == pytest.approx(100)
    # and after that time the pod is recreated
    late = builder.at(101).plan()
    assert deleted(late) == {"n1"}
    assert [note.reason for note in late.notes] == [Code.RESIZE_INFEASIBLE]


def test_a_pod_that_is_given_up_keeps_to_the_budget_and_to_a_pause() -> None:
    # given another unready pod, and maxUnavailable 1
    assert deleted(infeasible().not_ready("n2").at(101).plan()) == set()
    # or a paused update
    assert deleted(infeasible(paused=True).at(101).plan()) == set()


def test_a_resize_by_another_client_is_ignored() -> None:
    builder = infeasible().at(101)
    del builder.pods["n1"]["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION]
    assert deleted(builder.plan()) == set()


def test_a_change_of_resources_recreates_the_pod_without_its_gate() -> None:
    """inplace-update case 14"""
    builder = updatable(1)
    builder.spec["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    builder.old_template["spec"]["containers"][0] |= {
        "image": "nginx:1",
        "resources": {"limits": {"cpu": "2"}},
    }
    assert deleted(builder.all_old().plan()) == {"n1"}


@pytest.mark.parametrize("extra", ["container", "init container", "environment"])
def test_more_than_images_and_metadata_recreates_the_pod(extra: str) -> None:
    """inplace-update cases 8, 10 and 11"""
    builder = updatable(1).all_old()
    spec = builder.spec["template"]["spec"]
    if extra == "container":
        spec["containers"].append({"name": "more", "image": "more:1"})
    elif extra == "init container":
        spec["initContainers"] = [{"name": "more", "image": "more:1"}]
    else:
        spec["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    assert deleted(builder.plan()) == {"n1"}


def test_labels_and_annotations_of_the_template_change_in_place() -> None:
    """inplace-update case 4"""
    builder = updatable(1)
    builder.spec["template"]["metadata"]["labels"]["tier"] = "front"
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    builder.old("n1")
    change = writes_of(builder.plan(), "n1")[-1]
    assert change.body["metadata"]["labels"]["tier"] == "front"
    assert change.body["spec"]["containers"][0]["image"] == "nginx:1"


def test_the_next_batch_waits_for_the_first_and_then_follows() -> None:
    """inplace-update cases 33 and 34"""
    # given an update of a pod's first container, with its second container still to follow
    builder = begun(
        updatable(1),
        lastContainerStatuses={"main": {"imageID": "sha256:nginx:0"}},
        updateImages=True,
        nextContainerImages={"main": "nginx:2"},
        preCheckBeforeNext={"containersRequiredReady": ["main"]},
    )
    status = builder.pods["n1"]["status"]["containerStatuses"][0]
    status["ready"] = False
    # then
    plan = builder.plan()
    assert writes_of(plan, "n1") == []
    assert "under way" in left(plan)["n1"]
    # when
    status["ready"] = True
    # then
    (patch,) = writes_of(builder.plan(), "n1")
    assert patch.body["spec"]["containers"] == [{"name": "main", "image": "nginx:2"}]


def test_a_grace_period_that_another_manager_began_is_ended_by_the_refresh() -> None:
    """daemonset 6.9, inplace-update cases 40 and 41"""
    # given
    builder = begun(updatable(1).old("n1"))
    pod = builder.pods["n1"]
    pod["metadata"]["labels"][keys.REVISION_LABEL] = builder.update_hash
    grace = {"revision": builder.update_hash, "containerImages": {"main": "nginx:1"}, "graceSeconds": 30}
    pod["metadata"]["annotations"][keys.IN_PLACE_GRACE_ANNOTATION] = json.dumps(grace)
    # then it waits for the rest of the grace period
    plan = builder.plan()
    assert writes_of(plan, "n1") == []
    assert plan.requeue_after_s == 10
    # and then changes the image
    plan = builder.at(10).plan()
    (patch,) = writes_of(plan, "n1")
    assert patch.body["spec"]["containers"] == [{"name": "main", "image": "nginx:1"}]
    assert patch.body["metadata"]["annotations"][keys.IN_PLACE_GRACE_ANNOTATION] is None


def test_a_grace_period_without_a_state_is_reported() -> None:
    """inplace-update case 43"""
    builder = updatable(1)
    builder.pods["n1"]["metadata"]["annotations"][keys.IN_PLACE_GRACE_ANNOTATION] = json.dumps(
        {"revision": builder.update_hash, "graceSeconds": 30}
    )
    assert reasons(builder.plan()) == {"BrokenUpdateState"}


def test_a_new_pod_gets_its_condition_once() -> None:
    """inplace-update case 44"""
    builder = updatable(1)
    conditions = builder.pods["n1"]["status"]["conditions"]
    conditions[:] = [condition for condition in conditions if condition["type"] != keys.IN_PLACE_READY]
    (patch,) = writes_of(builder.plan(), "n1")
    assert conditions_in(patch)[keys.IN_PLACE_READY]["status"] == "True"
    builder.set_condition("n1", keys.IN_PLACE_READY, "True")
    assert pod_patches(builder.plan()) == {}


def test_completing_an_update_requires_the_resource_version_that_was_read() -> None:
    """inplace-update case 51: if another update has begun, the write conflicts, and nothing is forced"""
    builder = begun(updatable(1), lastContainerStatuses={"main": {"imageID": "sha256:nginx:0"}})
    (patch,) = writes_of(builder.plan(), "n1")
    assert conditions_in(patch)[keys.IN_PLACE_READY]["status"] == "True"
    assert patch.resource_version == "50"


def test_a_newer_template_keeps_the_pending_changes_of_the_previous_update() -> None:
    """inplace-update case 39"""
    # given a pod on its way to B whose second container still has to follow, and a template C
    b, c = template("nginx:1"), template("nginx:2")
    for entry in (b, c):
        entry["spec"]["containers"].append({"name": "side", "image": "side:2"})
    builder = updatable(1).with_spec(template=c)
    builder.pods["n1"] = builder._pod("n1", "n1", old=False)
    builder.with_revisions(revision(b, 1), revision(c, 2))
    pod = builder.pods["n1"]
    pod["metadata"]["labels"][keys.REVISION_LABEL] = revision(b, 1)["metadata"]["labels"][keys.REVISION_LABEL]
    pod["spec"]["containers"] = [{"name": "main", "image": "nginx:1"}, {"name": "side", "image": "side:1"}]
    state = {
        "revision": "b",
        "updateTimestamp": "2026-01-31T11:59:40Z",
        "nextContainerImages": {"side": "side:2"},
        "preCheckBeforeNext": {"containersRequiredReady": ["main"]},
    }
    pod["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = json.dumps(state)
    # when
    change = writes_of(builder.plan(), "n1")[-1]
    # then
    images = {container["name"]: container["image"] for container in change.body["spec"]["containers"]}
    assert images == {"main": "nginx:2", "side": "side:2"}
