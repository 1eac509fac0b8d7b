"""EphemeralJobs that a pod enqueues, and a job in one line."""

from typing import Any

import pytest

from pykruise.kinds.ephemeraljob.kind import KIND
from pykruise.kinds.ephemeraljob.snapshot import EPHEMERAL_JOB_VIEWS, EphemeralJobView
from pykruise.kube.cache.cache import Change
from pykruise.kube.documents import Document, encode
from pykruise.kube.ids import Key
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Around, Memories
from support.ephemeral_world import container
from support.snapshots import control_of, listed


def job(name: str, app: str, *, namespace: str = "shop") -> EphemeralJobView:
    spec = {
        "selector": {"matchLabels": {"app": app}},
        "template": {"ephemeralContainers": [container()]},
    }
    metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "7"}
    return EPHEMERAL_JOB_VIEWS.project(encode({"metadata": metadata, "spec": spec}))


def pod(app: str = "web", *, phase: str = "Running", state: Any = None, **labels: str) -> PodView:
    """A pod. `state`: the state of its ephemeral container; None: the pod has none."""
    metadata = {
        "namespace": "shop",
        "name": "pod-1",
        "uid": "u1",
        "resourceVersion": "1",
        "labels": {"app": app, **labels},
    }
    spec: Document = {"containers": [{"name": "main", "image": "web:1"}]}
    status: Document = {"phase": phase}
    if state is not None:
        spec["ephemeralContainers"] = [container()]
        status["ephemeralContainerStatuses"] = [{"name": "debug", "state": state}]
    return project_pod(encode({"metadata": metadata, "spec": spec, "status": status}))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, pod(), ["one"]),
        (pod(), None, ["one"]),
        (pod(), pod(state={}), ["one"]),
        (pod(state={"running": {}}), pod(state={"terminated": {"exitCode": 1}}), ["one"]),
        (pod(), pod(phase="Succeeded"), ["one"]),
        (pod(), pod("db"), ["one", "two"]),
        (pod(), pod(), []),
        (pod(phase="Pending"), pod(phase="Running"), []),
    ],
    ids=["comes", "goes", "has a container", "container ends", "ends", "labels", "nothing", "runs"],
)
def test_a_pod_enqueues_the_jobs_that_select_it_or_selected_it(
    old: PodView | None, new: PodView | None, expected: list[str]
) -> None:
    """containers 6.6"""
    jobs = [job("one", "web"), job("two", "db"), job("three", "web", namespace="other")]
    around: Around[Any] = Around(
        listed([EPHEMERAL_JOB_VIEWS], {EPHEMERAL_JOB_VIEWS: jobs}),
        settings=None,
        memories=Memories(),
        is_making=lambda _resource, _key: False,
        now=lambda: 0.0,
    )
    change = Change(key=Key("shop", "pod-1"), old=old, new=new)
    result = [
        key.name
        for wake in control_of(KIND).wakes(None)
        if wake.on is POD_VIEWS
        for key in wake.keys(change, around)
    ]
    assert result == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, "not started: 0 of 0 pods succeeded, 0 failed"),
        (
            {"phase": "Running", "match": 5, "succeeded": 2, "failed": 1},
            "Running: 2 of 5 pods succeeded, 1 failed",
        ),
    ],
)
def test_a_job_reports_its_progress_in_one_line(status: Document, expected: str) -> None:
    assert KIND.insight is not None
    assert KIND.insight.headline is not None
    assert KIND.insight.headline(status) == expected
