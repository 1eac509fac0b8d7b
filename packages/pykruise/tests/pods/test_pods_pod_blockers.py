"""Causes that keep a pod from being available."""

from typing import Any

import msgspec
import pytest

from pykruise.kube.clock import format_time
from pykruise.pods.lifecycle.blockers import LOOKED_AT, blocker_of, blockers_of, find_next_blocker_time
from pykruise.pods.lifecycle.states import Lifecycle, LifecycleHook
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerStatusFacts
from pykruise.runtime.reasons import Reason
from support.cloneset_builder import NOW, CloneSetBuilder, cloneset

HOOK = LifecycleHook(labels_handler={"hook": "on"})
HOOKS = Lifecycle(pre_normal=HOOK, in_place_update=HOOK, pre_delete=HOOK)


def found(builder: CloneSetBuilder, lifecycle: Lifecycle | None = None, *, minimum: int = 0) -> Reason | None:
    return blocker_of(builder.pod_views()[0], lifecycle, min_ready_seconds=minimum, now=NOW)


def code_of(builder: CloneSetBuilder, lifecycle: Lifecycle | None = None, **arguments: Any) -> str:
    reason = found(builder, lifecycle, **arguments)
    return "" if reason is None else reason.code


def waiting(reason: str, *, image: str = "nginx:1", init: bool = False, **spec: Any) -> CloneSetBuilder:
    """A pod with a container that waits for this reason; its status has this image."""
    builder = cloneset(1).not_ready("a")
    pod = builder.pods["a"]
    status = {"name": "main", "image": image, "restartCount": 3, "state": {"waiting": {"reason": reason}}}
    pod["status"]["initContainerStatuses" if init else "containerStatuses"] = [{**status, **spec}]
    return builder


@pytest.mark.parametrize(
    "reason",
    [
        *("ErrImageNeverPull", "ErrImagePull", "ImageInspectError", "ImagePullBackOff", "InvalidImageName"),
        *("RegistryUnavailable", "SignatureValidationFailed"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_named_as_the_spec_wants_it(reason: str) -> None:
    blocker = found(waiting(reason, image="nginx:0"))
    assert blocker is not None
    assert (blocker.code, blocker.container) == (Code.IMAGE_PULL, "main")
    assert blocker.message == f"image nginx:1 of container main cannot be pulled ({reason})"


def test_an_image_of_an_init_container_or_of_a_sidecar_is_named_too() -> None:
    setup = found(waiting("ErrImagePull", image="setup:1", init=True, name="setup"))
    assert setup is not None
    assert setup.message == "image setup:1 of container setup cannot be pulled (ErrImagePull)"
    builder = waiting("ErrImagePull", image="proxy:1", init=True, name="proxy")
    builder.pods["a"]["spec"]["initContainers"] = [
        {"name": "proxy", "image": "proxy:2", "restartPolicy": "Always"}
    ]
    proxy = found(builder)
    assert proxy is not None
    assert proxy.message == "image proxy:2 of container proxy cannot be pulled (ErrImagePull)"


@pytest.mark.parametrize(
    "reason",
    [
        *("ContainerCannotRun", "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError"),
        "RunContainerError",
    ],
)
def test_a_container_that_does_not_start_is_named(reason: str) -> None:
    blocker = found(waiting(reason))
    assert blocker is not None
    assert (blocker.code, blocker.container) == (Code.CONTAINER_FAILS, "main")
    assert blocker.message == f"container main does not start ({reason}, 3 restarts)"


def unscheduled(status: str | None = "False", **fields: str | None) -> CloneSetBuilder:
    return cloneset(1).unscheduled("a").set_condition("a", "PodScheduled", status, **fields)


@pytest.mark.parametrize(
    ("builder", "code", "message"),
    [
        (unscheduled(None).born(30, "a"), Code.SCHEDULING, "waits for the scheduler"),
        (unscheduled(None), Code.NO_SCHEDULER, "no scheduler has processed it"),
        (unscheduled("True", reason="SchedulingGated"), Code.SCHEDULING, "waits for the scheduler"),
        (
            unscheduled(reason="SchedulingGated", message="gated"),
            Code.SCHEDULING_GATED,
            "scheduling gates hold it",
        ),
        (
            unscheduled(message="unbound immediate PersistentVolumeClaims"),
            Code.UNBOUND_CLAIMS,
            "cannot be scheduled: unbound immediate PersistentVolumeClaims",
        ),
        (unscheduled(message="no cpu", reason="X"), Code.UNSCHEDULABLE, "cannot be scheduled: no cpu"),
        (unscheduled(message=None, reason="X"), Code.UNSCHEDULABLE, "cannot be scheduled: X"),
        (unscheduled(reason=None), Code.UNSCHEDULABLE, "cannot be scheduled: no reason given"),
    ],
)
def test_a_pending_pod_reports_the_schedulers_message(
    builder: CloneSetBuilder, code: Code, message: str
) -> None:
    blocker = found(builder, HOOKS)
    assert blocker is not None
    assert (blocker.code, blocker.message) == (code, message)


@pytest.mark.parametrize(
    ("reason", "status", "state", "code"),
    [
        ("Infeasible", "True", "Updating", Code.RESIZE_INFEASIBLE),
        ("Deferred", "True", "Updating", Code.RESIZE_DEFERRED),
        ("Other", "True", "Updating", Code.RESIZE_PENDING),
        (None, "True", "Updating", Code.RESIZE_PENDING),
        ("Infeasible", "False", "Updating", Code.UPDATING_IN_PLACE),
        ("Infeasible", "True", "Normal", ""),
    ],
)
def test_a_resize_that_the_node_cannot_do_blocks_the_update(
    reason: str | None, status: str, state: str, code: str
) -> None:
    """inplace-update 9.2"""
    builder = cloneset(1).in_state(state, "a").set_condition("a", "PodResizePending", status, reason=reason)
    assert code_of(builder) == code


@pytest.mark.parametrize(
    ("state", "code", "remedy"),
    [
        ("PreparingNormal", Code.PRE_NORMAL_HOOK, "add the hook of spec.lifecycle to the pod"),
        ("PreparingUpdate", Code.IN_PLACE_UPDATE_HOOK, "remove the hook of spec.lifecycle from the pod"),
        ("Updated", Code.IN_PLACE_UPDATE_HOOK, "add the hook of spec.lifecycle to the pod again"),
        ("PreparingDelete", Code.PRE_DELETE_HOOK, "remove the hook of spec.lifecycle from the pod"),
        ("Updating", Code.UPDATING_IN_PLACE, ""),
    ],
)
def test_a_hook_that_holds_a_pod_blocks_it_until_its_owner_acts(state: str, code: Code, remedy: str) -> None:
    blocker = found(cloneset(1).in_state(state, "a"), HOOKS)
    assert blocker is not None
    assert (blocker.code, blocker.remedy) == (code, remedy)


def test_a_pod_in_its_grace_period_waits_for_its_end_and_one_of_a_strange_state_for_that() -> None:
    grace = {keys.IN_PLACE_GRACE_ANNOTATION: '{"revision":"x","graceSeconds":5}'}
    assert code_of(cloneset(1).annotated(grace, "a").in_state("Updating", "a")) == Code.GRACE_PERIOD
    assert code_of(cloneset(1).in_state("Strange", "a"), HOOKS) == Code.LIFECYCLE
    assert code_of(cloneset(1).in_state("Updated", "a")) == Code.LIFECYCLE


def test_a_pod_without_a_hook_is_not_blocked_by_one() -> None:
    """The pod has a node already: the next plan makes it Normal."""
    assert code_of(cloneset(1).in_state("PreparingNormal", "a")) == Code.LIFECYCLE
    assert code_of(cloneset(1).in_state("PreparingNormal", "a"), Lifecycle(pre_delete=HOOK)) == Code.LIFECYCLE


@pytest.mark.parametrize(
    ("ready_for", "minimum", "code"),
    [
        (10, 0, ""),
        (10, 10, ""),
        (10, 11, Code.MIN_READY_SECONDS),
        (-5, 0, Code.MIN_READY_SECONDS),
        (None, 0, ""),
        (None, 1, Code.MIN_READY_SECONDS),
    ],
)
def test_a_ready_pod_may_wait_for_min_ready_seconds(ready_for: int | None, minimum: int, code: str) -> None:
    since = None if ready_for is None else format_time(NOW - ready_for)
    builder = cloneset(1).set_condition("a", "Ready", "True", lastTransitionTime=since)
    assert code_of(builder, minimum=minimum) == code


def test_containers_that_start_are_waited_for() -> None:
    starting = found(waiting("ContainerCreating"))
    assert starting is not None
    assert (starting.code, starting.message) == (Code.STARTING, "its containers start (ContainerCreating)")
    beside = waiting("ContainerCreating")
    beside.pods["a"]["status"]["containerStatuses"].insert(0, {"name": "side", "ready": True})
    assert code_of(beside) == Code.STARTING
    for phase in ("", "Pending"):
        pending = found(cloneset(1).phase(phase, "a").not_ready("a"))
        assert pending is not None
        assert (pending.code, pending.message) == (Code.STARTING, "its containers start (Pending)")
    assert code_of(cloneset(1).phase("Unknown", "a").not_ready("a")) == Code.NOT_READY


def gated(*gates: str, **conditions: dict[str, str]) -> CloneSetBuilder:
    """A pod that is not ready, with these readiness gates and these fields of their conditions."""
    builder = cloneset(1).not_ready("a")
    builder.pods["a"]["spec"]["readinessGates"] = [{"conditionType": gate} for gate in gates]
    for gate, fields in conditions.items():
        builder.set_condition("a", gate, **{"status": "False", **fields})
    return builder


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        (gated("lb"), "its readiness gate lb is not True"),
        (gated("lb", lb={"message": "drains", "reason": "X"}), "its readiness gate lb is not True (drains)"),
        (gated("lb", lb={"reason": "X"}), "its readiness gate lb is not True (X)"),
        (gated("dns", "lb", dns={"status": "True"}), "its readiness gate lb is not True"),
    ],
)
def test_a_gate_that_its_controller_has_not_opened_is_named(builder: CloneSetBuilder, message: str) -> None:
    blocker = found(builder)
    assert blocker is not None
    assert (blocker.code, blocker.message) == (Code.READINESS_GATE, message)


def test_readiness_gates_of_this_project_open_automatically() -> None:
    # a missing condition is set in the same plan
    missing = gated(keys.IN_PLACE_READY, "lb").set_condition("a", keys.IN_PLACE_READY, None)
    blocker = found(missing)
    assert blocker is not None
    assert (blocker.code, blocker.message) == (Code.READINESS_GATE, "its readiness gate lb is not True")
    # a condition that is False, or missing, belongs to an update
    held = gated(keys.IN_PLACE_READY).set_condition("a", keys.IN_PLACE_READY, "False")
    held.annotated({keys.IN_PLACE_STATE_ANNOTATION: "{}"}, "a")
    assert code_of(held) == Code.UPDATING_IN_PLACE
    assert code_of(held.set_condition("a", keys.IN_PLACE_READY, None)) == Code.UPDATING_IN_PLACE
    assert code_of(gated(keys.IN_PLACE_READY)) == Code.NOT_READY


def test_an_unready_pod_reports_since_when() -> None:
    blocker = found(cloneset(1).not_ready("a"))
    assert blocker is not None
    assert blocker.message == f"container main is not ready (since {format_time(NOW - 3600)})"
    unknown = found(cloneset(1).set_condition("a", "Ready", None))
    assert unknown is not None
    assert unknown.message == "the containers are not ready"


def test_blocked_pods_are_sorted_by_name_among_a_limited_number_of_pods() -> None:
    pods = cloneset(LOOKED_AT + 2).not_ready("b", "a").pod_views()
    named = blockers_of([*pods[2:4], *reversed(pods[:2])], None, now=NOW)
    assert [(pod.name, reason.code) for pod, reason in named] == [
        ("web-a", Code.NOT_READY),
        ("web-b", Code.NOT_READY),
    ]
    assert [pod.name for pod, _ in blockers_of([*pods[3:], *pods[:3]], None, now=NOW)] == ["web-a"]


@pytest.mark.parametrize(
    ("annotations", "added_by"),
    [
        (
            {keys.MATCHED_SPREAD_ANNOTATION: "{}"},
            ", or correct what its subset of a WorkloadSpread added to the pod",
        ),
        (
            {keys.INJECTED_STATE_ANNOTATION: "web"},
            ", or correct what PersistentPodState web added to the pod",
        ),
        ({}, "of spec.template"),
    ],
)
def test_the_remedy_of_an_unschedulable_pod_names_what_limited_its_nodes(
    annotations: dict[str, str], added_by: str
) -> None:
    builder = unscheduled(
        message="3 node(s) didn't match Pod's node affinity/selector", reason="Unschedulable"
    )
    pod = msgspec.structs.replace(builder.pod_views()[0], annotations=annotations)
    ((_, obstacle),) = blockers_of([pod], None, now=NOW)
    assert added_by in obstacle.remedy


@pytest.mark.parametrize(
    ("builder", "at"),
    [
        (unscheduled(None).born(30, "a"), NOW + 30),
        (unscheduled(None).born(90, "a"), None),
        (cloneset(1), None),
    ],
    ids=["a scheduler that may be late", "one that is late", "a ready pod"],
)
def test_an_obstacle_that_appears_without_an_event_has_a_time(
    builder: CloneSetBuilder, at: float | None
) -> None:
    assert find_next_blocker_time(builder.pod_views(), now=NOW) == at


def test_a_node_counts_as_lost_a_minute_after_its_pod_was_marked() -> None:
    pod = cloneset(1).not_ready("a").pod_views()[0]
    status = ContainerStatusFacts(name="main", ready=True)
    marked = msgspec.structs.replace(pod, container_statuses=(status,), ready_since=NOW - 10)
    assert find_next_blocker_time([marked], now=NOW) == NOW + 50


@pytest.mark.parametrize(
    ("prepared", "code"),
    [
        ([], Code.NOT_MOUNTED),
        ([{"type": "PodReadyToStartContainers", "status": "False"}], Code.NOT_MOUNTED),
        ([{"type": "PodReadyToStartContainers", "status": "True"}], Code.STARTING),
    ],
)
def test_a_pod_whose_node_has_prepared_it_waits_for_no_volume(prepared: list[Any], code: Code) -> None:
    # given
    builder = waiting("ContainerCreating")
    pod = builder.pods["a"]
    pod["spec"]["volumes"] = [{"name": "conf", "configMap": {"name": "shop"}}]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(NOW - 120)}
    pod["status"] |= {"phase": "Pending", "conditions": [scheduled, *prepared]}
    # then
    assert code_of(builder) == code
