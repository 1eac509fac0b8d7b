"""Views of the kinds, and the keys by which the kinds find objects."""

from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS
from pykruise.kube.cache.cache import Change
from pykruise.kube.documents import encode
from pykruise.kube.ids import Key
from pykruise.plans.views import (
    POD_VIEWS,
    PULL_JOB_VIEWS,
    REVISION_VIEWS,
    NamespaceView,
    project_namespace,
)
from pykruise.plans.wakes import wake_namesake
from pykruise.plans.workloads import list_known_revisions_around, pull_jobs_of
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Around, Memories, Mirrors

LONG = "w" * 230
"""The name of a workload; names of its revisions begin with its first 223 characters."""


def revision(name: str, *, owner: str = "other", namespace: str = "shop") -> RevisionView:
    return RevisionView(
        namespace=namespace,
        name=name,
        uid=f"u-{name}",
        resource_version=1,
        number=1,
        controller_uid=owner,
        template={},
        meaning=b"",
    )


def workload(name: str) -> WorkloadView:
    return WorkloadView(namespace="shop", name=name, uid=f"u-{name}", resource_version=1)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "shop"}, NamespaceView(name="shop", uid="", resource_version=0)),
        (
            {"name": "shop", "uid": "u", "resourceVersion": "7", "labels": {"team": "a"}},
            NamespaceView(name="shop", uid="u", resource_version=7, labels={"team": "a"}),
        ),
        (
            {"name": "shop", "labels": None, "deletionTimestamp": "2026-01-31T12:00:00Z"},
            NamespaceView(name="shop", uid="", resource_version=0, is_deleting=True),
        ),
    ],
)
def test_a_namespace_view_has_labels_and_a_terminating_state(
    metadata: Mapping[str, Any], expected: NamespaceView
) -> None:
    namespace = project_namespace(encode({"metadata": metadata}))
    assert namespace == expected
    assert namespace.labels == expected.labels


def test_pods_are_indexed_by_labels_except_those_of_revisions_and_instances() -> None:
    labels = {"app": "web", "pod-template-hash": "a", keys.REVISION_LABEL: "r", keys.INSTANCE_ID_LABEL: "i"}
    pod = project_pod(encode({"metadata": {"name": "a", "namespace": "shop", "labels": labels}}))
    assert list(POD_VIEWS.indexes["label"](pod)) == [("shop", "app", "web")]


@pytest.mark.parametrize(
    ("owner", "name", "is_found"),
    [
        ("web", "web-7c9d", True),
        ("web", "web-front-7c9d", False),
        ("web-front", "web-front-7c9d", True),
        (LONG, f"{LONG[:223]}-7c9d", True),
        (LONG, f"{LONG[:222]}-7c9d", False),
    ],
)
def test_revisions_with_the_name_of_a_workload_are_listed_for_any_owner(
    owner: str, name: str, is_found: bool
) -> None:
    read = Mirrors({REVISION_VIEWS: Listed(REVISION_VIEWS, [revision(name)])})
    assert [revision.name for revision in list_known_revisions_around(workload(owner), read)] == [
        name
    ] * is_found


def test_revisions_and_orphans_around_a_workload_are_listed_once() -> None:
    revisions = [
        revision("web-own", owner="u-web"),
        revision("elsewhere-own", owner="u-web"),
        revision("web-orphan", owner=""),
        revision("db-orphan", owner=""),
        revision("db-own"),
    ]
    read = Mirrors({REVISION_VIEWS: Listed(REVISION_VIEWS, revisions)})
    names = [revision.name for revision in list_known_revisions_around(workload("web"), read)]
    assert sorted(names) == ["db-orphan", "elsewhere-own", "web-orphan", "web-own"]


def test_images_are_pulled_ahead_only_where_pull_jobs_can_be_read() -> None:
    # given
    jobs = [
        PullJobView(namespace="shop", name=name, uid=name, resource_version=1, controller_uid=owner)
        for name, owner in (("mine", "u-web"), ("other", "u-db"))
    ]
    # then
    assert pull_jobs_of(workload("web"), Mirrors({PULL_JOB_VIEWS: Listed(PULL_JOB_VIEWS, jobs)})) == (
        jobs[0],
    )
    assert pull_jobs_of(workload("db-2"), Mirrors({PULL_JOB_VIEWS: Listed(PULL_JOB_VIEWS, jobs)})) == ()
    unread = Mirrors({PULL_JOB_VIEWS: Listed(PULL_JOB_VIEWS, jobs, synced=False)})
    assert pull_jobs_of(workload("web"), unread) is None
    assert pull_jobs_of(workload("web"), Mirrors({})) is None


@pytest.mark.parametrize(
    ("name", "namespace", "woken"),
    [("web-7c9d", "shop", ["web"]), ("db-7c9d", "shop", []), ("web-7c9d", "bank", [])],
)
def test_a_revision_enqueues_the_object_of_its_name_even_when_deleted(
    name: str, namespace: str, woken: list[str]
) -> None:
    # given
    around: Around[None] = Around(
        {CLONE_SET_VIEWS: Listed[Any](CLONE_SET_VIEWS, [workload("web")])},
        settings=None,
        memories=Memories(),
        is_making=lambda *_: False,
        now=lambda: 0.0,
    )
    wake = wake_namesake(REVISION_VIEWS, CLONE_SET_VIEWS)
    item = revision(name, namespace=namespace)
    # then
    for old, new in ((None, item), (item, item), (item, None)):
        goes = wake.keys(Change(Key(namespace, name), old, new), around)
        assert [key.name for key in goes if isinstance(key, Key)] == woken
