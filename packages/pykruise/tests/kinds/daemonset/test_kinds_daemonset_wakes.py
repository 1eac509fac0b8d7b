"""Events that wake DaemonSets."""

import random
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from pykruise.kinds.daemonset.kind import KIND
from pykruise.kinds.daemonset.snapshot import DAEMON_SET_VIEWS, DaemonSetSettings, DaemonSetView
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, REVISION_VIEWS, NodeView, project_node
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import project_revision
from pykruise.runtime.read import Memories
from support.daemonset_builder import daemonset, revision, template
from support.snapshots import OnPaper, snapshot_of
from support.wakes import Woken


class Listening:
    """DaemonSets, and the ones that an event enqueues. `with_pods`: names of the sets that had a pod on node n1 in
    their last snapshot."""

    def __init__(
        self,
        *daemonsets: DaemonSetView,
        with_pods: Iterable[str] = (),
        app: str = "web",
        has_pods: bool = True,
    ) -> None:
        memories = Memories()
        for daemon_set in daemonsets:
            if daemon_set.name in with_pods:
                _look(daemon_set, memories, app=app, has_pods=has_pods)
        self.woken = Woken(
            KIND, {DAEMON_SET_VIEWS: daemonsets}, settings=DaemonSetSettings(), memories=memories
        )

    def node(self, old: NodeView | None, new: NodeView | None) -> list[str]:
        return self.woken.by(NODE_VIEWS, old, new)

    def pod(self, old: PodView | None, new: PodView | None) -> list[str]:
        return self.woken.by(POD_VIEWS, old, new)


def _look(daemon_set: DaemonSetView, memories: Memories, *, app: str, has_pods: bool) -> None:
    """Take a snapshot of the set, with a pod on n1 that has this label, or without a pod."""
    builder = daemonset(1).labelled({"app": app}, "n1")
    builder.pods["n1"]["metadata"]["ownerReferences"][0] |= {"name": daemon_set.name, "uid": daemon_set.uid}
    if not has_pods:
        builder.without_pod("n1")
    objects: OnPaper = {POD_VIEWS: builder.pod_views(), NODE_VIEWS: builder.node_views()}
    snapshot_of(KIND, daemon_set, objects, settings=DaemonSetSettings(), now=builder.now, memories=memories)


def view(name: str, **spec: Any) -> DaemonSetView:
    builder = daemonset(0)
    builder.document["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    builder.spec.update(spec)
    return DAEMON_SET_VIEWS.project(orjson.dumps(builder.document))


def node(*taints: str, version: int = 1, conditions: Any = None, **labels: str) -> NodeView:
    result = [{"key": key, "effect": effect} for key, _, effect in (taint.partition(":") for taint in taints)]
    metadata = {"name": "n1", "uid": "u", "resourceVersion": str(version), "labels": labels}
    status = {"conditions": conditions or []}
    return project_node(orjson.dumps({"metadata": metadata, "spec": {"taints": result}, "status": status}))


EVERYWHERE = view("everywhere")
ON_SSD = view("on-ssd", template=template(nodeSelector={"disk": "ssd"}))
CANARY = view(
    "canary",
    updateStrategy={
        "type": "RollingUpdate",
        "rollingUpdate": {"selector": {"matchLabels": {"canary": "1"}}},
    },
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node(), ["canary", "everywhere"]),
        (None, node(disk="ssd"), ["canary", "everywhere", "on-ssd"]),
        (node(), node(disk="ssd"), ["on-ssd"]),  # daemonset case 22
        (node(disk="ssd"), node(), ["on-ssd"]),  # daemonset case 22
        (node(), node("x:NoSchedule"), ["canary", "everywhere"]),
        (node("x:NoSchedule"), node("x:NoExecute"), ["canary", "everywhere"]),
        (node(), node(canary="1"), ["canary"]),  # daemonset case 38
        (node(), node(other="1"), []),
        (node(), node("x:PreferNoSchedule"), []),
        (node(), None, ["canary", "everywhere"]),
        (node("x:NoExecute"), None, []),
    ],
)
def test_a_node_enqueues_the_daemonsets_for_which_its_change_matters(
    old: NodeView | None, new: NodeView | None, expected: list[str]
) -> None:
    """daemonset cases 22 and 38"""
    assert Listening(EVERYWHERE, ON_SSD, CANARY).node(old, new) == expected


def test_a_heartbeat_enqueues_no_daemonset() -> None:
    """daemonset case 23"""
    beat = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-31T12:00:10Z"}]
    assert Listening(EVERYWHERE).node(node(version=1), node(version=2, conditions=beat)) == []


def test_a_deleted_node_enqueues_the_sets_with_a_pod_on_it() -> None:
    own, other = (view(name, template=template(nodeSelector={"disk": "ssd"})) for name in ("own", "other"))
    assert Listening(own, other, with_pods=["own"]).node(node("x:NoExecute"), None) == ["own"]
    # also a set whose pod was relabelled, and is not released yet
    assert Listening(own, other, with_pods=["own"], app="aside").node(node("x:NoExecute"), None) == ["own"]
    # and not the sets that only know the node
    assert Listening(own, with_pods=["own"], has_pods=False).node(node("x:NoExecute"), None) == []


def pod(*, owned: bool = True, version: str = "apps.kruise.io/v1beta1", **labels: str) -> PodView:
    builder = daemonset(1).labelled(labels, "n1")
    if owned:
        builder.pods["n1"]["metadata"]["ownerReferences"][0]["apiVersion"] = version
    else:
        builder.orphaned("n1")
    return builder.pod_views()[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, pod(), ["web"]),
        (pod(), None, ["web"]),
        (None, pod(version="apps.kruise.io/v1alpha1"), ["web"]),  # created before an upgrade
        (None, pod(version="apps/v1"), []),  # of Kubernetes' own DaemonSet
        (pod(), pod(owned=False, app="x"), ["web"]),  # released
        (None, pod(owned=False), ["everywhere"]),  # may be adopted
        (pod(owned=False, app="x"), pod(owned=False), ["everywhere"]),
        (pod(owned=False), pod(owned=False), []),
        (None, pod(owned=False, app="x"), []),
        (pod(owned=False), None, []),
    ],
)
def test_a_pod_enqueues_its_owner_and_an_orphan_the_daemonsets_that_may_adopt_it(
    old: PodView | None, new: PodView | None, expected: list[str]
) -> None:
    assert Listening(EVERYWHERE).pod(old, new) == expected


def test_a_revision_enqueues_the_daemonset_in_its_name() -> None:
    listening, woken = Listening(view("web")), []
    for name in ("web-abc", "other-abc"):
        result = project_revision(orjson.dumps(revision(template(), 1, name=name)))
        woken += listening.woken.by(REVISION_VIEWS, None, result)
    assert woken == ["web"]


def test_a_thousand_heartbeats_examine_no_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of a node is work for that node only; a heartbeat is no work"""
    woken = Listening(EVERYWHERE).woken
    asked = 0

    def counted() -> tuple[DaemonSetView, ...]:
        nonlocal asked
        asked += 1
        return (EVERYWHERE,)

    monkeypatch.setattr(woken.around.find_mirror(DAEMON_SET_VIEWS), "values", counted)
    rng = random.Random(1)
    for number in range(1000):
        labels = {"rack": str(rng.randrange(3))}
        assert (
            woken.keys(NODE_VIEWS, node(version=number, **labels), node(version=number + 1, **labels)) == []
        )
    assert asked == 0


@pytest.mark.parametrize("ignores", [False, True])
def test_a_cordoned_node_wakes_the_daemonsets_that_may_leave_it_out(ignores: bool) -> None:
    builder = daemonset(1)
    if ignores:
        builder.document["metadata"]["annotations"] = {"pykruise.io/ignore-unavailable-nodes": "1"}
    (before,) = builder.node_views()
    (after,) = builder.taint("n1", "node.kubernetes.io/unschedulable:NoSchedule").node_views()
    assert Listening(builder.view()).node(before, after) == (["web"] if ignores else [])
