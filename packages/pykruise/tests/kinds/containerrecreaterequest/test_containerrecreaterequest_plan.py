"""What the manager does for a ContainerRecreateRequest: cases of the specification, on paper."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.containerrecreaterequest.kind import KIND
from pykruise.kinds.containerrecreaterequest.plan import FINALIZER, plan_request
from pykruise.kinds.containerrecreaterequest.view import REQUEST_VIEWS, snapshot
from pykruise.kube.clock import format_time, parse_time
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.pod_decoding import project_pod
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from support.snapshots import read_of, taken

NOW = parse_time("2026-05-01T12:00:00Z")
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


def plan(doc: dict[str, Any], the_pod: dict[str, Any] | None, *others: dict[str, Any]) -> Plan:
    views = [REQUEST_VIEWS.project(orjson.dumps(one)) for one in (doc, *others)]
    pods = [project_pod(orjson.dumps(the_pod))] if the_pod else []
    read = read_of(KIND, views[0], {POD_VIEWS: pods, REQUEST_VIEWS: views}, settings=None, now=NOW)
    return plan_request(taken(snapshot(views[0], read)))


def patches(found: Plan) -> list[Any]:
    return [step.action.body for step in found.steps if isinstance(step.action, Patch)]


def end_of(found: Plan) -> str:
    ((body,)) = patches(found)
    assert (body["status"]["phase"], body["status"]["completionTime"]) == ("Completed", format_time(NOW))
    return str(body["status"]["message"])


def test_a_pod_that_is_gone_or_another_one_ends_the_request_case_21() -> None:
    assert end_of(plan(request(), None)) == "pod has gone"
    assert end_of(plan(request(), pod(uid="pod-2"))) == "pod has gone"


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_an_agent_that_does_not_begin_ends_the_request_case_22(phase: str) -> None:
    """pitfall j: one that waits is not exempt once nothing is before it"""
    status = {"phase": phase} if phase else None
    waiting = plan(request(status=status, age_s=20), pod())
    assert waiting.requeue_after_s == pytest.approx(40)
    assert waiting.waiting is not None
    assert waiting.waiting.code is Code.NO_AGENT
    found = plan(request(status=status, age_s=60), pod())
    assert end_of(found) == "daemon has not responded for a long time"


def test_one_that_waits_behind_another_is_given_its_time_case_24() -> None:
    waits = request(status={"phase": "Pending"}, age_s=3600)
    busy = request("busy", status={"phase": "Recreating"}, age_s=3600)
    assert plan(waits, pod(), busy).requeue_after_s is None
    # and once the other is over, a minute from then
    done = request("busy", status={"phase": "Completed", "completionTime": format_time(NOW - 10)})
    assert plan(waits, pod(), done).requeue_after_s == pytest.approx(50)


def test_a_deadline_ends_the_request_case_23() -> None:
    status = {"phase": "Recreating"}
    assert plan(request(status=status, age_s=299, activeDeadlineSeconds=300), pod()).requeue_after_s == 1
    found = plan(request(status=status, age_s=300, activeDeadlineSeconds=300), pod())
    assert end_of(found) == "recreating has exceeded the activeDeadlineSeconds"


def test_containers_that_run_anew_are_mirrored_and_nothing_replaces_that() -> None:
    """pitfalls 1 and 3: by id and restart count; what was said stays while there is no container"""
    fresh = pod(containerID="containerd://2", restartCount=1, ready=False)
    mirrored = {"name": "main", "ready": False, "restartCount": 1, "containerID": "containerd://2"}
    doc = request(status={"phase": "Recreating"})
    found = plan(doc, fresh)
    assert found.status is not None
    assert found.status["containerStatusSnapshot"] == [mirrored]
    assert found.requeue_after_s == 3.0
    # the old one is not
    assert plan(doc, pod()).status is None
    # nor is one that has ended
    known = request(status={"phase": "Recreating", "containerStatusSnapshot": [mirrored]})
    ended = pod(state={"terminated": {"exitCode": 1}}, containerID="containerd://3", restartCount=2)
    assert plan(known, ended).status is None


def test_a_pod_is_held_back_before_the_grace_period_counts_case_16() -> None:
    grace = {"unreadyGracePeriodSeconds": 3}
    doc = request(status={"phase": "Recreating"}, strategy=grace)
    # first the finalizer, so that the pod is not forgotten
    (first,) = patches(plan(doc, pod()))
    assert first == {"metadata": {"finalizers": [FINALIZER]}}
    # then the pod, then the condition
    doc["metadata"]["finalizers"] = [FINALIZER]
    on_pod, on_request = patches(plan(doc, pod()))
    (condition, *_) = on_pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("KruisePodReady", "False")
    assert "default/again" in condition["message"]
    assert on_request["status"]["conditions"][0]["lastTransitionTime"] == format_time(NOW)


def test_a_pod_without_the_gate_is_waited_for_and_not_held_case_17() -> None:
    doc = request(status={"phase": "Recreating"}, strategy={"unreadyGracePeriodSeconds": 3})
    (body,) = patches(plan(doc, pod(gated=False)))
    assert body["status"]["conditions"][0]["type"] == "PreRecreateGrace"


def test_a_grace_period_that_counts_is_not_begun_anew_case_19() -> None:
    doc = request(
        status={"phase": "Recreating", "conditions": [HELD]}, strategy={"unreadyGracePeriodSeconds": 3}
    )
    assert patches(plan(doc, pod())) == []


def test_a_pod_stays_held_back_while_another_holds_it_case_18() -> None:
    both = '[{"userAgent":"ContainerRecreateRequest","key":"default/again"},'
    both += '{"userAgent":"ContainerRecreateRequest","key":"default/other"}]'
    doc = request(status={"phase": "Completed", "completionTime": format_time(NOW)})
    doc["metadata"]["finalizers"] = [FINALIZER, "x/y"]
    found = plan(doc, pod(message=both))
    assert [stage.purpose for stage in found.stages] == [Purpose.SET_READINESS, Purpose.TIDY_UP]
    on_pod, on_request = patches(found)
    (condition,) = on_pod["status"]["conditions"]
    assert condition["status"] == "False"
    assert "default/again" not in condition["message"]
    assert on_request["metadata"] == {
        "finalizers": ["x/y"],
        "labels": {"crr.apps.kruise.io/active": None},
    }


def test_a_request_that_is_over_is_kept_without_a_time_to_live_case_25() -> None:
    status = {"phase": "Completed", "completionTime": format_time(NOW - 5)}
    kept, going = request(status=status), request(status=status, ttlSecondsAfterFinished=10)
    for doc in (kept, going):
        del doc["metadata"]["labels"]["crr.apps.kruise.io/active"]
    assert plan(kept, pod()).requeue_after_s is None
    assert plan(going, pod()).requeue_after_s == pytest.approx(5)
    going["status"]["completionTime"] = format_time(NOW - 10)
    assert [stage.purpose for stage in plan(going, pod()).stages] == [Purpose.DELETE_JOB]
