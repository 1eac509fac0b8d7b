"""Events that wake SidecarSets, and the contents of their snapshots."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.kind import KIND
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.snapshot import SIDECAR_SET_VIEWS, SidecarSetSettings, SidecarSetSnapshot
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.documents import encode
from pykruise.plans.views import NAMESPACE_VIEWS, POD_VIEWS, REVISION_VIEWS, NamespaceView
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, project_revision
from support.sidecarsets import NOW, container, injected, pod, sidecarset, view
from support.snapshots import snapshot_of
from support.wakes import Woken

ALL = sidecarset("all", container("a"))
GOLD = sidecarset("gold", container("b"), namespaceSelector={"matchLabels": {"tier": "gold"}})
BROKEN = sidecarset("broken", container("c"), selector={"matchExpressions": [{"key": "a", "operator": "No"}]})


def woken(on: Any, old: Any, new: Any) -> list[str]:
    """Names of the SidecarSets that an event enqueues."""
    views = [view(entry) for entry in (ALL, GOLD)] + [view(BROKEN, is_admitted=False)]
    return Woken(KIND, {SIDECAR_SET_VIEWS: views}, settings=SidecarSetSettings()).by(on, old, new)


def carrying(names: str | None, *, name: str = "web-1", namespace: str = "shop") -> PodView:
    """A pod whose annotation lists these SidecarSets; None: it has no annotations."""
    annotations = {} if names is None else {"kruise.io/sidecarset-injected-list": names}
    metadata = {
        "uid": "u",
        "resourceVersion": "1",
        "namespace": namespace,
        "annotations": annotations,
        "labels": {"app": "selected-by-none"},
    }
    return project_pod(encode(pod(name=name, metadata=metadata)))


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (None, "a,b", ["a", "b"]),
        ("a,b", None, ["a", "b"]),
        # also the SidecarSet that was removed from the list
        ("a", "b", ["a", "b"]),
        ("", "", []),
    ],
)
def test_a_pod_enqueues_the_sidecarsets_that_it_lists_or_listed(
    old: str | None, new: str | None, names: list[str]
) -> None:
    """section 6.8, pitfall 17"""
    before = carrying(old) if old is not None else None
    after = carrying(new) if new is not None else None
    assert woken(POD_VIEWS, before, after) == names


def test_a_pod_without_annotations_enqueues_nothing() -> None:
    assert woken(POD_VIEWS, None, carrying(None)) == []
    assert woken(POD_VIEWS, carrying("a"), carrying(None)) == ["a"]


def test_a_pod_without_sidecars_enqueues_the_sidecarsets_that_select_it() -> None:
    matching = project_pod(encode(pod(metadata={"uid": "u", "resourceVersion": "1"})))
    assert woken(POD_VIEWS, None, matching) == ["all", "gold"]
    assert woken(POD_VIEWS, matching, None) == ["all", "gold"]
    assert woken(POD_VIEWS, matching, matching) == []


def test_a_changed_sidecarset_enqueues_itself() -> None:
    before = view(ALL)
    assert woken(SIDECAR_SET_VIEWS, before, view(ALL, generation=2)) == ["all"]
    assert woken(SIDECAR_SET_VIEWS, None, before) == ["all"]


def namespace(**labels: str) -> NamespaceView:
    return NamespaceView(name="shop", uid="n", resource_version=1, labels=labels)


@pytest.mark.parametrize(
    ("old", "new", "is_about"),
    [
        (None, namespace(tier="gold"), True),
        (namespace(tier="gold"), None, True),
        (namespace(tier="iron"), namespace(tier="gold"), True),
        (namespace(tier="gold"), namespace(tier="gold"), False),
    ],
)
def test_a_namespace_enqueues_the_sidecarsets_with_a_namespace_selector(
    old: Any, new: Any, *, is_about: bool
) -> None:
    """pitfall 17: its other labels do not matter"""
    assert woken(NAMESPACE_VIEWS, old, new) == (["gold"] if is_about else [])


def test_an_unchanged_namespace_of_a_new_list_enqueues_the_sidecarsets() -> None:
    """A cache with a new list delivers its objects unchanged."""
    item = namespace(tier="gold")
    assert woken(NAMESPACE_VIEWS, item, item) == ["gold"]


def stored(name: str, *, owner: str | None = "log", controller: str = "", number: int = 1) -> RevisionView:
    """A revision with the label of a SidecarSet."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "kruise-system",
        "uid": name,
        "resourceVersion": "1",
    }
    if owner is not None:
        metadata["labels"] = {SET_LABEL: owner}
    if controller:
        reference = {"apiVersion": "a/v1", "kind": "SidecarSet", "name": "log", "uid": controller}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return project_revision(encode({"metadata": metadata, "revision": number, "data": {"spec": {}}}))


def test_a_revision_enqueues_the_sidecarset_in_its_label() -> None:
    revision = stored("log-1")
    assert woken(REVISION_VIEWS, None, revision) == woken(REVISION_VIEWS, revision, None) == ["log"]
    assert woken(REVISION_VIEWS, None, stored("web-1", owner=None)) == []
    assert woken(REVISION_VIEWS, revision, stored("log-1", owner="other")) == ["other"]


# ── snapshots ────────────────────────────────────────────────────────────────


def looked(
    sidecar_set: SidecarSetView,
    *,
    pods: list[PodView] | None = None,
    namespaces: list[NamespaceView] | None = None,
    revisions: list[RevisionView] | None = None,
) -> SidecarSetSnapshot:
    objects = {POD_VIEWS: pods or [], NAMESPACE_VIEWS: namespaces or [], REVISION_VIEWS: revisions or []}
    snapshot: SidecarSetSnapshot = snapshot_of(
        KIND, sidecar_set, objects, settings=SidecarSetSettings(), now=NOW
    )
    return snapshot


def test_the_revisions_of_a_sidecarset_have_its_label_and_no_other_owner() -> None:
    """section 6.7"""
    own = [stored("log-2", number=2), stored("log-1", controller="uid-log")]
    others = [
        stored("log-3", controller="another"),
        stored("log-4", owner="other"),
        stored("log-5", owner=None),
    ]
    snapshot = looked(view(sidecarset("log", container("log"))), revisions=[*own, *others, stored("web-1")])
    assert [revision.name for revision in snapshot.revisions] == ["log-1", "log-2"]
    assert sorted(snapshot.other_revisions) == ["log-3", "log-4", "log-5"]


def test_a_name_that_is_too_long_for_a_revision_is_cut_off() -> None:
    """section 6.7: after 223 characters"""
    name = "l" * 230
    revision = stored(f"{name[:223]}-1", owner=name)
    snapshot = looked(view(sidecarset(name, container("log"))), revisions=[revision])
    assert [each.name for each in snapshot.revisions] == [revision.name]


def managed(*, namespace: str, name: str, sets: Any) -> PodView:
    """A pod with the injected sidecars of these SidecarSets."""
    result = injected(pod(name=name), sets, namespace_labels={"tier": "gold"})
    assert result is not None
    place = {"uid": f"{namespace}-{name}", "resourceVersion": "1", "namespace": namespace}
    metadata = {**result["metadata"], **place}
    return project_pod(encode({**result, "metadata": metadata}))


def test_the_snapshots_pods_are_sorted_by_namespace_and_name() -> None:
    places = [("shop", "web-2"), ("shop", "web-1"), ("bar", "web-3")]
    pods = [managed(namespace=namespace, name=name, sets=ALL) for namespace, name in places]
    assert [(pod.pod.namespace, pod.pod.name) for pod in looked(view(ALL), pods=pods).pods] == sorted(places)


def test_pods_of_other_namespaces_are_not_its_own() -> None:
    """section 6.8"""
    pods = [managed(namespace=name, name="web-1", sets=GOLD) for name in ("shop", "bar", "unknown")]
    namespaces = [
        NamespaceView(name=name, uid=name, resource_version=1, labels={"tier": tier})
        for name, tier in (("shop", "gold"), ("bar", "iron"))
    ]
    snapshot = looked(view(GOLD), pods=pods, namespaces=namespaces)
    assert [pod.pod.namespace for pod in snapshot.pods] == ["shop"]
