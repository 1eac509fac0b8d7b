"""Events that wake an ImageListPullJob."""

from typing import Any

import pytest

from pykruise.kinds.imagelistpulljob.kind import KIND
from pykruise.kinds.imagelistpulljob.snapshot import LIST_JOB_VIEWS
from pykruise.kube.documents import encode
from pykruise.plans.views import PULL_JOB_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.settings import NoSettings
from pykruise.runtime.views import Views
from support.image_objects import at, job
from support.wakes import Woken


def woken(on: Views[Any], old: Any, new: Any) -> list[str]:
    return Woken(KIND, {}, settings=NoSettings()).by(on, old, new)


def child(kind: str = "ImageListPullJob", *, generation: int = 1, **status: Any) -> PullJobView:
    """An ImagePullJob of a list."""
    owner = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": kind,
        "name": "list",
        "uid": "l",
        "controller": True,
    }
    metadata = {"generation": generation, "ownerReferences": [owner] if kind else []}
    return job(metadata=metadata, status={"startTime": at(0), "desired": 4, **status})


THIS = child()


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, THIS, True),
        (THIS, None, True),
        (THIS, THIS, True),  # a resync delivers all objects again
        (child(startTime=None, desired=1, failed=1), child(desired=1, failed=1), True),
        (child(startTime=None, desired=0), child(desired=0), False),
        (child(desired=0), child(desired=0, completionTime=at(1)), True),
        (child(), child(active=1), True),
        (child(active=1), child(active=2), False),
        (child(), child(failed=1), True),
        (child(failed=1), child(failed=2), False),
        (child(succeeded=2, failed=1), child(succeeded=3, failed=1), True),
        (child(succeeded=3), child(succeeded=4), True),
        (child(succeeded=1), child(succeeded=2, message="job is running, progress 50.0%"), False),
        (child(), child(generation=2), True),
        (None, child(""), False),
        (None, child("CloneSet"), False),
    ],
)
def test_an_image_pull_job_enqueues_its_list_job_only_when_counts_change(
    old: PullJobView | None, new: PullJobView | None, wakes: bool
) -> None:
    """images case 62: progress of one image alone is ignored"""
    assert woken(PULL_JOB_VIEWS, old, new) == (["list"] if wakes else [])


def test_an_event_of_a_list_enqueues_itself() -> None:
    document = {
        "metadata": {"name": "list", "namespace": "shop", "uid": "l", "resourceVersion": "1"},
        "spec": {"images": ["a"], "completionPolicy": {}},
    }
    assert woken(LIST_JOB_VIEWS, None, LIST_JOB_VIEWS.project(encode(document))) == ["list"]
