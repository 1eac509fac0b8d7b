"""Changes of pods and storage classes that wake a StatefulSet, and the caches for each gate."""

import pytest

from pykruise.kinds.statefulset.kind import KIND
from pykruise.kinds.statefulset.snapshot import (
    STATEFUL_SET_VIEWS,
    STORAGE_CLASS_VIEWS,
    StatefulSetSettings,
    StatefulSetView,
    StorageClassView,
)
from pykruise.plans.views import POD_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.assemble import views_of
from support.snapshots import control_of
from support.statefulset_builder import statefulset
from support.wakes import Woken


@pytest.mark.parametrize(("pulls", "grows"), [(False, True), (True, False)])
def test_pull_jobs_and_storage_classes_are_read_only_where_their_gates_are_on(
    pulls: bool, grows: bool
) -> None:
    read = views_of(control_of(KIND), StatefulSetSettings(pre_download=pulls, auto_resize_claims=grows))
    assert (PULL_JOB_VIEWS in read, STORAGE_CLASS_VIEWS in read) == (pulls, grows)


# ── pods ─────────────────────────────────────────────────────────────────────


def foreign(name: str) -> PodView:
    """A pod with a name that no set gives."""
    builder = statefulset(1).orphaned(0).labelled({"app": "other"}, 0)
    builder.pods["web-0"]["metadata"]["name"] = name
    (view,) = builder.pod_views()
    return view


@pytest.mark.parametrize(
    ("old", "new", "is_woken"),
    [
        (foreign("web-1"), None, True),
        (foreign("web-1"), foreign("web-1"), False),
        (None, foreign("web-1"), False),
        (foreign("api-1"), None, False),
        (foreign("web-api-1"), None, False),
    ],
    ids=["goes", "changes", "comes", "of another set goes", "of a set with a longer name goes"],
)
def test_a_deleted_pod_of_another_owner_enqueues_the_set_that_needs_its_name(
    old: PodView | None, new: PodView | None, is_woken: bool
) -> None:
    woken = Woken(KIND, {STATEFUL_SET_VIEWS: [statefulset(3).view()]}, settings=StatefulSetSettings())
    assert woken.by(POD_VIEWS, old, new) == (["web"] if is_woken else [])


# ── storage classes ──────────────────────────────────────────────────────────


def storage_class(*, grows: bool, version: int = 1) -> StorageClassView:
    return StorageClassView(name="fast", uid="u", resource_version=version, allows_expansion=grows)


def set_named(name: str, **spec: object) -> StatefulSetView:
    builder = statefulset(1).with_spec(**spec)
    builder.document["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return builder.view()


@pytest.mark.parametrize(
    ("old", "new", "are_woken"),
    [
        (storage_class(grows=False), storage_class(grows=True, version=2), True),
        (storage_class(grows=True), storage_class(grows=False, version=2), True),
        (storage_class(grows=True), storage_class(grows=True, version=2), False),
        (None, storage_class(grows=True), True),
        (storage_class(grows=True), None, True),
    ],
    ids=["lets grow", "lets grow no more", "another change", "comes", "goes"],
)
@pytest.mark.parametrize("is_on", [True, False])
def test_a_class_that_allows_expansion_enqueues_the_statefulsets_that_expand_claims(
    old: StorageClassView | None, new: StorageClassView | None, are_woken: bool, is_on: bool
) -> None:
    """statefulset case 71"""
    # given sets with and without the strategy, and an unreadable set
    strategy = {"type": "OnPodRollingUpdate"}
    sets = [
        set_named("broken", replicas="many", volumeClaimUpdateStrategy=strategy),
        set_named("follows", volumeClaimUpdateStrategy=strategy),
        set_named("stays"),
    ]
    assert sets[0].spec is None
    # when
    woken = Woken(KIND, {STATEFUL_SET_VIEWS: sets}, settings=StatefulSetSettings(auto_resize_claims=is_on))
    # then
    templates = woken.by(STORAGE_CLASS_VIEWS, old, new)
    assert templates == (["follows"] if is_on and are_woken else [])
