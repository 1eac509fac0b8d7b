"""The manager's plans for a ContainerRecreateRequest: cases of the specification, without a cluster."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.containerrecreaterequest.kind import KIND
from pykruise.kinds.containerrecreaterequest.plan import FINALIZER, plan_request
from pykruise.kinds.containerrecreaterequest.results import RequestEnding
from pykruise.kinds.containerrecreaterequest.view import REQUEST_VIEWS, read_snapshot
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.reasons import Code
from pykruise.pods.view.decoding import project_pod
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.snapshots import read_of, taken

NOW = parse_time("2026-05-01T12:00:00Z")
HOLDER = '[{"userAgent":"ContainerRecreateRequest","key":"default/again"}]'
OVER = {"phase": "Completed", "completionTime": format_time(NOW - 5)}
HELD = {
    "type": "PreRecreateGrace",
    "status": "True",
    "reason": "PreRecreateGrace",
    "lastTransitionTime": format_time(NOW - 2),
    "message": "m",
}


def request(name: str = "again", *, status: Any = None, age_s: float = 0.0, **spec: Any) -> dict[str, Any]:
    target = {"name": "main", "statusContext": {"containerID": "containerd://1", "restartCount": 0}}
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "creationTimestamp": format_time(NOW - age_s),
            "labels": {"crr.apps.kruise.io/pod-uid": "pod-1", "crr.apps.kruise.io/active": "true"},
        },
        "spec": {"podName": "web", "containers": [target], **spec},
        **({"status": status} if status else {}),
    }


def pod(*, uid: str = "pod-1", gated: bool = True, message: str = "", **status: Any) -> dict[str, Any]:
    container = {"name": "main", "containerID": "containerd://1", "restartCount": 0, "ready": True}
    condition = {"type": "KruisePodReady", "status": "False" if message else "True", "message": message}
    return {
        "metadata": {"namespace": "default", "name": "web", "uid": uid, "resourceVersion": "3"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "main", "image": "i"}],
            "readinessGates": [{"conditionType": "KruisePodReady"}] if gated else [],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{**container, "state": {"running": {}}, **status}],
            "conditions": [condition] if gated else [],
        },
    }


class Server:
    """An API server with this pod, or without pods."""

    def __init__(self, the_pod: dict[str, Any] | None = None) -> None:
        self._pod = the_pod
        self.asked = 0

    async def get(self, *_: object) -> bytes:
        self.asked += 1
        if self._pod is None:
            raise NotFoundError(ErrorStatus(code=404))
        return orjson.dumps(self._pod)


def plan(
    doc: dict[str, Any],
    the_pod: dict[str, Any] | None,
    *others: dict[str, Any],
    memories: Memories | None = None,
    now: float = NOW,
    live: Server | None = None,
) -> Plan:
    views = [REQUEST_VIEWS.project(orjson.dumps(entry)) for entry in (doc, *others)]
    pods = [project_pod(orjson.dumps(the_pod))] if the_pod else []
    objects: dict[Any, Any] = {POD_VIEWS: pods, REQUEST_VIEWS: views}
    read = read_of(
        KIND, views[0], objects, settings=None, now=now, memories=memories, live=live or Server(the_pod)
    )
    return plan_request(taken(read_snapshot(views[0], read)))


def patches(plan: Plan) -> list[Any]:
    return [step.action.body for step in plan.steps if isinstance(step.action, Patch)]


def end_of(plan: Plan, now: float = NOW) -> str:
    ((body,)) = patches(plan)
    assert (body["status"]["phase"], body["status"]["completionTime"]) == ("Completed", format_time(now))
    return str(body["status"]["message"])


def test_a_deleted_or_replaced_pod_ends_the_request_case_21() -> None:
    assert end_of(plan(request(), None)) == "pod has gone"
    going = pod()
    going["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert end_of(plan(request(), going)) == "pod has gone"
    assert end_of(plan(request(), pod(uid="pod-2"))) == "pod has gone"


@pytest.mark.parametrize("seen", [None, pod(uid="pod-0")])
def test_a_pod_missing_in_the_cache_is_not_deleted_for_the_request(seen: dict[str, Any] | None) -> None:
    """the watch of pods may be behind the watch of requests"""
    waiting = plan(request(age_s=20), seen, live=Server(pod()))
    assert waiting.requeue_after_s == pytest.approx(40)
    assert waiting.waiting is not None
    assert waiting.waiting.code is Code.NO_AGENT


def test_a_request_that_lost_its_label_still_finds_its_pod() -> None:
    doc = request(age_s=20)
    del doc["metadata"]["labels"]["crr.apps.kruise.io/active"]
    assert plan(doc, pod()).requeue_after_s == pytest.approx(40)


def test_the_pod_of_a_released_request_is_not_read_again() -> None:
    doc = request(status=OVER)
    server = Server()
    assert plan(doc, None, live=server).stages
    assert server.asked == 1
    del doc["metadata"]["labels"]["crr.apps.kruise.io/active"]
    assert not plan(doc, None, live=server).stages
    assert server.asked == 1
    # while the request has its finalizer, the pod is read
    doc["metadata"]["finalizers"] = [FINALIZER]
    assert plan(doc, None, live=server).stages
    assert server.asked == 2


def test_an_agent_that_does_not_begin_ends_the_request_case_22() -> None:
    waiting = plan(request(age_s=20), pod())
    assert waiting.requeue_after_s == pytest.approx(40)
    assert waiting.waiting is not None
    assert waiting.waiting.code is Code.NO_AGENT
    assert "node n " in waiting.waiting.message
    assert end_of(plan(request(age_s=60), pod())) == "daemon has not responded for a long time"


WAITS = request(status={"phase": "Pending"}, age_s=3600)
BUSY = request("busy", status={"phase": "Recreating"}, age_s=3600)
DONE = request("busy", status={"phase": "Completed", "completionTime": format_time(NOW - 10)}, age_s=3600)


@pytest.mark.parametrize("status", [{"phase": "Pending"}, None])
@pytest.mark.parametrize("others", [(), (DONE,)])
def test_a_request_that_waits_behind_another_gets_its_full_time_case_24(
    status: Any, others: tuple[dict[str, Any], ...]
) -> None:
    """pitfall j: a waiting request has a deadline when its turn comes, even if the previous request was deleted"""
    waits = request(status=status, age_s=3600)
    memories = Memories()
    result = plan(waits, pod(), BUSY, memories=memories)
    assert result.requeue_after_s is None
    assert result.waiting is not None
    assert result.waiting.code is Code.PARALLELISM
    # a minute from the time when it waits behind none
    assert plan(waits, pod(), *others, memories=memories).requeue_after_s == pytest.approx(60)
    again = plan(waits, pod(), *others, memories=memories, now=NOW + 20)
    assert again.requeue_after_s == pytest.approx(40)
    late = plan(waits, pod(), *others, memories=memories, now=NOW + 60)
    assert end_of(late, NOW + 60) == "daemon has not responded for a long time"


def test_a_new_manager_restarts_the_deadline_of_a_request_that_waited() -> None:
    assert plan(WAITS, pod()).requeue_after_s == pytest.approx(60)
    # for a request that no agent has seen, the end of the previous request is the start
    assert plan(request(age_s=3600), pod(), DONE).requeue_after_s == pytest.approx(50)


@pytest.mark.parametrize(
    ("status", "metadata"),
    [
        (None, {}),
        ({"phase": "Pending"}, {}),
        ({"phase": "Recreating"}, {"deletionTimestamp": format_time(NOW)}),
        ({"phase": "Recreating", "completionTime": "soon"}, {}),
        ({"phase": "Completed", "completionTime": format_time(NOW - 3600)}, {}),
    ],
)
def test_only_a_request_in_progress_is_waited_for(status: Any, metadata: dict[str, Any]) -> None:
    other = request("other", status=status, age_s=3600)
    other["metadata"] |= metadata
    result = plan(request(age_s=20), pod(), other)
    assert result.requeue_after_s == pytest.approx(40)
    assert result.waiting is not None
    assert result.waiting.code is Code.NO_AGENT


def test_the_earlier_of_two_deadlines_sets_the_requeue() -> None:
    assert plan(request(age_s=20, activeDeadlineSeconds=30), pod()).requeue_after_s == pytest.approx(10)
    assert plan(request(age_s=20, activeDeadlineSeconds=300), pod()).requeue_after_s == pytest.approx(40)


def test_an_unreadable_request_reports_its_error() -> None:
    """Admission was bypassed"""
    doc = request()
    doc["spec"]["containers"] = "main"
    result = plan(doc, pod())
    assert result.stages == ()
    assert result.waiting is not None
    assert result.waiting.code is Code.INVALID_SPEC
    assert "containers" in result.waiting.message
    (note,) = result.notes
    assert (note.reason, note.warning, note.again_after_s) == (Code.INVALID_SPEC, True, 600)


def test_a_snapshot_of_a_request_holds_the_others_for_its_pod() -> None:
    views = [REQUEST_VIEWS.project(orjson.dumps(request(name))) for name in ("again", "other")]
    objects: dict[Any, Any] = {POD_VIEWS: [], REQUEST_VIEWS: views}
    read = read_of(KIND, views[0], objects, settings=None, now=NOW, live=Server())
    assert [request.name for request in taken(read_snapshot(views[0], read)).others] == ["other"]


def test_a_deadline_ends_the_request_case_23() -> None:
    status = {"phase": "Recreating"}
    assert plan(request(status=status, age_s=299, activeDeadlineSeconds=300), pod()).requeue_after_s == 1
    result = plan(request(status=status, age_s=300, activeDeadlineSeconds=300), pod())
    assert end_of(result) == "recreating has exceeded the activeDeadlineSeconds"


def test_restarted_containers_are_mirrored_until_a_newer_one_runs() -> None:
    """pitfalls 1 and 3: a container is new by its id and restart count; without one, the last entry stays"""
    fresh = pod(containerID="containerd://2", restartCount=1, ready=False)
    mirrored = {"name": "main", "ready": False, "restartCount": 1, "containerID": "containerd://2"}
    doc = request(status={"phase": "Recreating"})
    result = plan(doc, fresh)
    assert result.status is not None
    assert result.status["containerStatusSnapshot"] == [mirrored]
    assert result.requeue_after_s == 3.0
    # the old container is not mirrored
    assert plan(doc, pod()).status is None
    # nor is a container that has ended
    known = request(status={"phase": "Recreating", "containerStatusSnapshot": [mirrored]})
    ended = pod(state={"terminated": {"exitCode": 1}}, containerID="containerd://3", restartCount=2)
    assert plan(known, ended).status is None


@pytest.mark.parametrize(
    ("status", "is_new"),
    [
        ({"containerID": "containerd://2"}, True),
        ({"restartCount": 1}, True),
        ({"containerID": "", "restartCount": 1}, False),
        ({"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}, False),
        ({"restartCount": 1, "state": {"terminated": {"exitCode": 0}}}, False),
    ],
)
def test_a_container_counts_as_new_when_it_runs_with_another_id_or_restart_count(
    status: dict[str, Any], is_new: bool
) -> None:
    """pitfalls 1 and 3"""
    result = plan(request(status={"phase": "Recreating"}), pod(**status))
    assert (result.status is not None) is is_new


def test_any_running_container_counts_as_new_without_a_recorded_context() -> None:
    doc = request(status={"phase": "Recreating"})
    del doc["spec"]["containers"][0]["statusContext"]
    assert plan(doc, pod()).status is not None


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "container main: waits"),
        ([{"name": "main", "phase": "Recreating"}], "container main: Recreating"),
        (
            [{"name": "main", "phase": "Pending", "message": "not found container on Node"}],
            "container main: Pending: not found container on Node",
        ),
        (
            [{"name": "main", "phase": "Succeeded"}, {"name": "side", "phase": "Recreating"}],
            "container side: Recreating",
        ),
        (
            [{"name": "main", "phase": "Failed"}, {"name": "side", "phase": "Succeeded"}],
            "the agent has not reported the end of the recreation yet",
        ),
    ],
)
def test_a_request_names_the_container_that_it_waits_for(states: list[Any], message: str) -> None:
    """pitfall i"""
    doc = request(status={"phase": "Recreating", "containerRecreateStates": states})
    doc["spec"]["containers"].append({"name": "side"})
    result = plan(doc, pod())
    assert result.waiting is not None
    assert result.waiting.message == message


def test_a_pod_is_held_back_before_the_grace_period_counts_case_16() -> None:
    grace = {"unreadyGracePeriodSeconds": 3}
    doc = request(status={"phase": "Recreating"}, strategy=grace)
    # first the finalizer, so that the pod is released in any case
    result = plan(doc, pod(restartCount=1))
    (first,) = patches(result)
    assert first == {"metadata": {"finalizers": [FINALIZER]}}
    assert result.status is not None
    assert result.requeue_after_s == 3.0
    # then the pod, then the condition
    doc["metadata"]["finalizers"] = [FINALIZER]
    result = plan(doc, pod(restartCount=1))
    on_pod, on_request = patches(result)
    (condition, *_) = on_pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("KruisePodReady", "False")
    assert "default/again" in condition["message"]
    assert on_request["status"]["conditions"][0]["lastTransitionTime"] == format_time(NOW)
    # and the rest of the status immediately after that
    assert (result.status, result.requeue_after_s) == (None, 0.0)


def test_each_write_has_the_version_of_the_object_that_was_seen() -> None:
    doc = request(status={"phase": "Recreating"}, strategy={"unreadyGracePeriodSeconds": 3})
    doc["metadata"]["finalizers"] = [FINALIZER]
    versions = [
        (step.action.key.name, step.action.resource_version)
        for result in (plan(doc, pod()), plan(request(), None), plan(request(status=OVER), None))
        for step in result.steps
        if isinstance(step.action, Patch)
    ]
    assert versions == [("web", "3"), *[("again", "5")] * 3]


def test_other_conditions_stay_and_a_false_grace_condition_has_no_effect() -> None:
    other = {**HELD, "type": "Other"}
    held = {"phase": "Recreating", "conditions": [{**HELD, "status": "False"}, other]}
    doc = request(status=held, strategy={"unreadyGracePeriodSeconds": 3})
    (body,) = patches(plan(doc, pod(gated=False)))
    result = [(condition["type"], condition["status"]) for condition in body["status"]["conditions"]]
    assert result == [("Other", "True"), ("PreRecreateGrace", "True")]


@pytest.mark.parametrize("strategy", [{}, {"unreadyGracePeriodSeconds": None, "orderedRecreate": True}])
def test_no_pod_is_held_back_without_a_grace_period(strategy: dict[str, Any]) -> None:
    assert patches(plan(request(status={"phase": "Recreating"}, strategy=strategy), pod())) == []


def test_a_pod_without_the_gate_is_waited_for_and_not_held_case_17() -> None:
    doc = request(status={"phase": "Recreating"}, strategy={"unreadyGracePeriodSeconds": 3})
    (body,) = patches(plan(doc, pod(gated=False)))
    assert body["status"]["conditions"][0]["type"] == "PreRecreateGrace"


def test_a_running_grace_period_is_not_restarted_case_19() -> None:
    doc = request(
        status={"phase": "Recreating", "conditions": [HELD]}, strategy={"unreadyGracePeriodSeconds": 3}
    )
    assert patches(plan(doc, pod())) == []


def test_a_pod_stays_held_back_while_another_holds_it_case_18() -> None:
    both = '[{"userAgent":"ContainerRecreateRequest","key":"default/again"},'
    both += '{"userAgent":"ContainerRecreateRequest","key":"default/other"}]'
    doc = request(status={"phase": "Completed", "completionTime": format_time(NOW)})
    doc["metadata"]["finalizers"] = [FINALIZER, "x/y"]
    result = plan(doc, pod(message=both))
    assert [stage.purpose for stage in result.stages] == [Purpose.SET_READINESS, Purpose.TIDY_UP]
    on_pod, on_request = patches(result)
    (condition,) = on_pod["status"]["conditions"]
    assert condition["status"] == "False"
    assert "default/again" not in condition["message"]
    assert on_request["metadata"] == {
        "finalizers": ["x/y"],
        "labels": {"crr.apps.kruise.io/active": None},
    }


GONE = {"deletionTimestamp": format_time(NOW)}


@pytest.mark.parametrize(
    "the_pod",
    [
        None,
        pod(uid="pod-2", message=HOLDER),
        pod(message=HOLDER) | {"metadata": {**pod()["metadata"], **GONE}},
    ],
    ids=["none", "another", "going"],
)
def test_a_pod_that_the_request_does_not_hold_is_not_changed(the_pod: Any) -> None:
    doc = request(status=OVER)
    doc["metadata"]["finalizers"] = [FINALIZER]
    (body,) = patches(plan(doc, the_pod))
    assert body == {"metadata": {"finalizers": None, "labels": {"crr.apps.kruise.io/active": None}}}


def test_a_deleted_request_releases_the_pod_and_its_finalizer_case_20() -> None:
    doc = request(
        status={"phase": "Recreating", "conditions": [HELD]}, strategy={"unreadyGracePeriodSeconds": 3}
    )
    doc["metadata"] |= {"finalizers": [FINALIZER], **GONE}
    on_pod, on_request = patches(plan(doc, pod(message=HOLDER)))
    assert [condition["status"] for condition in on_pod["status"]["conditions"]] == ["True"]
    assert on_request == {"metadata": {"finalizers": None}}
    # and it is not deleted again by its time to live
    doc = request(status=OVER, ttlSecondsAfterFinished=0)
    doc["metadata"] |= {"finalizers": ["x/y"], **GONE}
    result = plan(doc, pod())
    assert (result.stages, result.waiting) == ((), None)


def over(message: str = "", **spec: Any) -> dict[str, Any]:
    """A request that has ended, and that agents no longer see."""
    result = request(status={**OVER, "message": message}, **spec)
    del result["metadata"]["labels"]["crr.apps.kruise.io/active"]
    return result


@pytest.mark.parametrize(
    ("message", "phase", "code", "shown"),
    [
        (RequestEnding.POD_GONE, "", Code.NO_TARGET, "pod has gone"),
        (
            RequestEnding.NO_RESPONSE,
            "",
            Code.NO_AGENT,
            "the agent of the pod's node has not begun the recreation",
        ),
        (RequestEnding.TOO_LATE, "Recreating", Code.JOB_FAILED, "spec.activeDeadlineSeconds"),
        ("", "Failed", Code.JOB_FAILED, "container main: the recreation failed"),
        ("", "Succeeded", Code.JOB_OVER, "the request has ended"),
    ],
)
def test_a_finished_request_reports_its_reason(message: str, phase: str, code: Code, shown: str) -> None:
    result = over(message)
    if phase:
        result["status"] = {**result["status"], "containerRecreateStates": [{"name": "main", "phase": phase}]}
    waiting = plan(result, pod()).waiting
    assert waiting is not None
    assert waiting.code is code
    assert shown in waiting.message


def test_the_time_to_live_counts_from_a_readable_completion_time() -> None:
    assert plan(over(ttlSecondsAfterFinished=6), pod()).requeue_after_s == pytest.approx(1)
    unreadable = over(ttlSecondsAfterFinished=6)
    unreadable["status"]["completionTime"] = "soon"
    assert plan(unreadable, pod()).requeue_after_s == pytest.approx(6)
    without = over()
    without["spec"] = {"containers": "main"}
    assert plan(without, pod()).requeue_after_s is None


def test_a_finished_request_without_a_ttl_is_kept_case_25() -> None:
    status = {"phase": "Completed", "completionTime": format_time(NOW - 5)}
    kept, going = request(status=status), request(status=status, ttlSecondsAfterFinished=10)
    for doc in (kept, going):
        del doc["metadata"]["labels"]["crr.apps.kruise.io/active"]
    assert plan(kept, pod()).requeue_after_s is None
    assert plan(going, pod()).requeue_after_s == pytest.approx(5)
    going["status"]["completionTime"] = format_time(NOW - 10)
    assert [stage.purpose for stage in plan(going, pod()).stages] == [Purpose.DELETE_JOB]


def test_a_request_bumps_the_pods_version_before_it_releases_the_pod() -> None:
    doc = request(status={"phase": "Completed", "completionTime": format_time(NOW)})
    doc["metadata"]["finalizers"] = [FINALIZER]
    result = plan(doc, pod())
    assert [stage.purpose for stage in result.stages] == [Purpose.SET_READINESS, Purpose.TIDY_UP]
    on_pod, on_request = patches(result)
    assert on_pod["status"]["conditions"] == [{"type": "KruisePodReady", "lastProbeTime": format_time(NOW)}]
    assert on_request["metadata"]["finalizers"] is None
    # a pod without the gate cannot be held out of service
    (on_request,) = patches(plan(doc, pod(gated=False)))
    assert on_request["metadata"]["finalizers"] is None


def test_a_pod_still_held_by_a_released_request_is_released() -> None:
    doc = request(status={"phase": "Completed", "completionTime": format_time(NOW)})
    held = pod(message='[{"userAgent":"ContainerRecreateRequest","key":"default/again"}]')
    on_pod, on_request = patches(plan(doc, held))
    (condition,) = on_pod["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("True", "[]")
    assert on_request["metadata"] == {"labels": {"crr.apps.kruise.io/active": None}}


def annotated(doc: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The request after the plan's patch of its annotations."""
    (body,) = patches(plan)
    return {**doc, "metadata": {**doc["metadata"], "annotations": body["metadata"]["annotations"]}}


@pytest.mark.parametrize("status", [{"phase": "Pending"}, None])
def test_the_start_of_the_turn_of_a_request_survives_a_manager_restart(status: Any) -> None:
    # given a waiting request, and a manager that has seen it wait
    doc = request(status=status, age_s=3600)
    waits = annotated(doc, plan(doc, pod(), BUSY))
    # when the previous request is deleted while no manager runs
    result = plan(waits, pod())
    # then its minute begins with the next manager
    assert result.requeue_after_s == pytest.approx(60)
    # and a third manager continues from there
    turns = annotated(doc, result)
    again = plan(turns, pod(), now=NOW + 20)
    assert (patches(again), again.requeue_after_s) == ([], pytest.approx(40))
    assert end_of(plan(turns, pod(), now=NOW + 60), NOW + 60) == "daemon has not responded for a long time"


@pytest.mark.parametrize(
    ("policy", "exit_code", "is_final"),
    [
        ("Never", 0, True),
        ("Never", 1, True),
        ("OnFailure", 0, True),
        ("OnFailure", 143, False),
        ("Always", 0, False),
    ],
)
def test_a_container_that_its_pod_does_not_restart_is_the_reason(
    policy: str, exit_code: int, is_final: bool
) -> None:
    # given
    ended = pod(state={"terminated": {"exitCode": exit_code}}, ready=False)
    ended["spec"]["restartPolicy"] = policy
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "daily", "uid": "j", "controller": True}
    ended["metadata"]["ownerReferences"] = [owner]
    # when
    waiting = plan(request(status={"phase": "Recreating"}), ended).waiting
    # then
    assert waiting is not None
    assert (f"restartPolicy of pod web is {policy}" in waiting.message) is is_final
    if is_final:
        assert "so that Job daily creates another one (kubectl delete pod -n default web)" in waiting.remedy
