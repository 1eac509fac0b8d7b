"""Events that wake ContainerRecreateRequests, and a request in one line."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.containerrecreaterequest.kind import KIND
from pykruise.kinds.containerrecreaterequest.view import REQUEST_VIEWS, RequestView
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.wakes import Woken

OVER = {"phase": "Completed", "completionTime": "2026-05-01T12:00:00Z"}
NOW = "2026-05-01T12:00:00Z"


def request(name: str, *, pod: str = "pod-1", status: Any = None, **metadata: Any) -> RequestView:
    doc = {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "labels": {"crr.apps.kruise.io/pod-uid": pod} if pod else {},
            **metadata,
        },
        "spec": {"podName": "web", "containers": [{"name": "main"}]},
        "status": status or {},
    }
    return REQUEST_VIEWS.project(orjson.dumps(doc))


BUSY = request("busy", status={"phase": "Recreating"})
DONE = request("busy", status=OVER)
STORED = (
    BUSY,
    request("waits"),
    request("over", status=OVER),
    request("going", deletionTimestamp=NOW),
    request("other", pod="pod-2"),
)


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        (None, request("waits"), ["waits"]),
        (request("waits"), request("waits", status={"phase": "Pending"}), ["waits"]),
        # when a request ends, the requests that wait behind it
        (BUSY, DONE, ["busy", "going", "waits"]),
        (None, DONE, ["busy", "going", "waits"]),
        (BUSY, None, ["busy", "going", "waits"]),
        # a request that was stored without its pod waits behind none
        (request("bare", pod=""), None, ["bare"]),
    ],
)
def test_a_request_enqueues_itself_and_its_successors_when_it_ends(
    old: RequestView | None, new: RequestView | None, woken: list[str]
) -> None:
    """containers case 24"""
    assert Woken(KIND, {REQUEST_VIEWS: STORED}, settings=None).by(REQUEST_VIEWS, old, new) == woken


def pod(uid: str = "pod-1", *, restarts: int = 0, init_restarts: int = 0, **metadata: Any) -> PodView:
    doc = {
        "metadata": {"namespace": "default", "name": "web", "uid": uid, "resourceVersion": "1", **metadata},
        "spec": {
            "containers": [{"name": "main"}],
            "initContainers": [{"name": "mesh", "restartPolicy": "Always"}],
        },
        "status": {
            "containerStatuses": [{"name": "main", "restartCount": restarts}],
            "initContainerStatuses": [{"name": "mesh", "restartCount": init_restarts}],
        },
    }
    return project_pod(orjson.dumps(doc))


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        (None, pod(), ["busy", "waits"]),
        (pod(), None, ["busy", "waits"]),
        (pod(), pod(deletionTimestamp=NOW), ["busy", "waits"]),
        (pod(), pod(restarts=1), ["busy", "waits"]),
        (pod(), pod(init_restarts=1), ["busy", "waits"]),
        (pod(), pod(labels={"a": "b"}), []),
        (pod("pod-3"), None, []),
        # another pod got the name while the watch was interrupted
        (pod(), pod("pod-2"), ["busy", "other", "waits"]),
    ],
)
def test_a_change_of_a_pod_or_its_containers_enqueues_its_requests(
    old: PodView | None, new: PodView | None, woken: list[str]
) -> None:
    assert Woken(KIND, {REQUEST_VIEWS: STORED}, settings=None).by(POD_VIEWS, old, new) == woken


DONE_ONE = {"phase": "Succeeded"}


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        ({}, "not begun: no container is recreated"),
        (
            {
                "phase": "Recreating",
                "containerRecreateStates": [DONE_ONE, DONE_ONE, {"phase": "Pending"}],
            },
            "Recreating: 2 of 3 containers are recreated",
        ),
        (
            {
                "phase": "Recreating",
                "containerRecreateStates": [DONE_ONE, {"name": "app", "phase": "Recreating"}],
            },
            "Recreating: 1 of 2 containers are recreated; it waits for app to be ready again, for minStartedSeconds if"
            " that is set",
        ),
        (
            {"phase": "Completed", "containerRecreateStates": None, "message": "pod has gone"},
            "Completed: no container is recreated; pod has gone",
        ),
    ],
)
def test_a_request_reports_its_progress_in_one_line(status: dict[str, Any], headline: str) -> None:
    assert KIND.insight is not None
    assert KIND.insight.headline is not None
    assert KIND.insight.headline(status) == headline
