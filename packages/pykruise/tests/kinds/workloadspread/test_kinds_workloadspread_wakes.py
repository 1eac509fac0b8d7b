"""Events that wake WorkloadSpreads."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds.workloadspread.kind import KIND
from pykruise.kinds.workloadspread.snapshot_reads import DEPLOYMENT as DEPLOYMENTS
from pykruise.kinds.workloadspread.snapshot_reads import SPREAD_VIEWS, TARGET_VIEWS, SpreadSettings
from pykruise.kube.documents import Document
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import TargetView, project_target
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION, MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from support.spreads import CLONE_SET, DEPLOYMENT, pod, spread, subset, view, workload
from support.wakes import Woken

CLONE_SETS = GroupKind("apps.kruise.io", "CloneSet")
REPLICA_SETS = GroupKind("apps", "ReplicaSet")
OWNED_BY_WEB: Document = {"controller_uid": "uid-web", "controller": (GroupKind("apps", "Deployment"), "web")}
NOTED = {MATCHED_SPREAD_ANNOTATION: '{"name":"ws","subset":"a"}'}
ADAPTIVE = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


class SpreadWakes:
    """WorkloadSpreads of a cluster. The methods return the names of those that an event enqueues.

    The Deployment web controls the ReplicaSet web-h1.
    """

    def __init__(self, *documents: Document) -> None:
        self._woken = Woken(
            KIND,
            {
                SPREAD_VIEWS: [view(document) for document in documents],
                TARGET_VIEWS[REPLICA_SETS]: [target(("apps/v1", "ReplicaSet", "web-h1"), **OWNED_BY_WEB)],
                TARGET_VIEWS[DEPLOYMENTS]: [target(DEPLOYMENT, uid="uid-web")],
            },
            settings=SpreadSettings(versioned_kinds=("deployment",)),
        )

    def pod(self, old: Document | None, new: Document | None) -> list[str]:
        return self._woken.by(POD_VIEWS, _pod(old), _pod(new))

    def target(self, kind: GroupKind, old: TargetView | None, new: TargetView | None) -> list[str]:
        return self._woken.by(TARGET_VIEWS[kind], old, new)


def _pod(document: Document | None) -> PodView | None:
    return project_pod(orjson.dumps(document)) if document is not None else None


def target(owner: Any = CLONE_SET, **fields: Any) -> TargetView:
    return msgspec.structs.replace(project_target(orjson.dumps(workload(owner))), **fields)


def test_an_annotated_pod_enqueues_its_workload_spread_when_created_and_deleted() -> None:
    spread_wakes = SpreadWakes(spread(subset("a")), spread(subset("a"), name="other", target=DEPLOYMENT))
    goes = pod("p", annotations=NOTED)
    assert spread_wakes.pod(None, goes) == ["ws"]
    assert spread_wakes.pod(goes, None) == ["ws"]
    assert spread_wakes.pod(goes, pod("p", annotations=NOTED, phase="Running")) == []


@pytest.mark.parametrize(
    "new",
    [
        pod("p", annotations=NOTED, phase="Succeeded"),
        pod("p", annotations=NOTED, deleting=True),
        pod("p", annotations={MATCHED_SPREAD_ANNOTATION: '{"name":"ws","subset":"b"}'}),
    ],
)
def test_an_assigned_pod_enqueues_when_it_ends_or_changes_its_subset(new: Document) -> None:
    assert SpreadWakes(spread(subset("a"))).pod(pod("p", annotations=NOTED), new) == ["ws"]


def test_an_assigned_pod_enqueues_when_its_version_changes() -> None:
    owner = ("apps/v1", "ReplicaSet", "web-h1")
    before = pod("p", owner=owner, annotations=NOTED, labels={"pod-template-hash": "h1"})
    after = pod("p", owner=owner, annotations=NOTED, labels={"pod-template-hash": "h2"})
    assert SpreadWakes(spread(subset("a"))).pod(before, after) == ["ws"]


def test_an_assigned_pod_enqueues_when_its_deletion_cost_changes() -> None:
    before = pod("p", annotations={**NOTED, DELETION_COST_ANNOTATION: "200"})
    after = pod("p", annotations={**NOTED, DELETION_COST_ANNOTATION: "5"})
    spread_wakes = SpreadWakes(spread(subset("a")))
    assert spread_wakes.pod(before, after) == ["ws"]
    assert (
        spread_wakes.pod(before, pod("p", annotations=before["metadata"]["annotations"], phase="Running"))
        == []
    )


@pytest.mark.parametrize(("strategy", "woken"), [(ADAPTIVE, ["ws"]), ({"type": "Fixed"}, [])])
def test_scheduling_enqueues_only_the_adaptive_and_a_failure_enqueues_each_lift_12(
    strategy: Any, woken: list[str]
) -> None:
    spread_wakes = SpreadWakes(spread(subset("a"), subset("b"), scheduleStrategy=strategy))
    waiting = pod("p", annotations=NOTED, phase="Pending")
    failed = pod("p", annotations=NOTED, phase="Pending")
    failed["status"]["conditions"] = UNSCHEDULABLE
    scheduled = pod("p", annotations=NOTED, phase="Pending", nodeName="n1")
    assert spread_wakes.pod(waiting, scheduled) == woken
    assert spread_wakes.pod(waiting, failed) == ["ws"]
    assert spread_wakes.pod(failed, scheduled) == ["ws"]


def test_an_unassigned_pod_enqueues_when_it_is_scheduled() -> None:
    spread_wakes = SpreadWakes(spread(subset("a")), spread(subset("a"), name="deployed", target=DEPLOYMENT))
    assert spread_wakes.pod(None, pod("p")) == []
    assert spread_wakes.pod(pod("p"), pod("p", nodeName="n1")) == ["ws"]
    owner = ("apps/v1", "ReplicaSet", "web-h1")
    assert spread_wakes.pod(pod("p", owner=owner), pod("p", owner=owner, nodeName="n1")) == ["deployed"]
    assert spread_wakes.pod(None, pod("p", owner=None, nodeName="n1")) == []


def test_a_pod_without_an_annotation_enqueues_its_workload_spread_when_deleted() -> None:
    spread_wakes = SpreadWakes(spread(subset("a")))
    assert spread_wakes.pod(pod("p", deleting=True), None) == ["ws"]
    assert spread_wakes.pod(pod("p", owner=None), None) == []


def test_a_phase_change_alone_enqueues_nothing() -> None:
    # given
    strict = spread(subset("a"), targetFilter={"selector": {"matchLabels": {"tier": "web"}}})
    adaptive = spread(subset("a"), subset("b"), scheduleStrategy=ADAPTIVE)
    labels = {"tier": "web"}
    before = pod("p", annotations=NOTED, labels=labels, phase="Pending")
    going = pod("p", annotations=NOTED, labels=labels, deleting=True)
    # then
    for document, old, new in (
        (strict, before, pod("p", annotations=NOTED, labels={**labels, "a": "b"}, phase="Pending")),
        (strict, going, pod("p", annotations=NOTED, labels=labels, deleting=True, phase="Running")),
        (adaptive, before, pod("p", annotations=NOTED, labels=labels, phase="Running")),
    ):
        assert SpreadWakes(document).pod(old, new) == []


def test_a_scheduled_pod_enqueues_the_adaptive_workload_spread_before_its_condition() -> None:
    spread_wakes = SpreadWakes(spread(subset("a"), subset("b"), scheduleStrategy=ADAPTIVE))
    waiting, placed = pod("p", annotations=NOTED), pod("p", annotations=NOTED, nodeName="n1")
    assert spread_wakes.pod(waiting, placed) == ["ws"]


@pytest.mark.parametrize(
    ("note", "woken"),
    [('{"name":"gone","subset":"a"}', []), ('{"subset":"a"}', ["ws"]), ("no json", ["ws"])],
    ids=["it is gone", "it names none", "it cannot be read"],
)
def test_an_annotation_of_a_missing_workload_spread_enqueues_nothing_and_a_nameless_is_ignored(
    note: str, woken: list[str]
) -> None:
    document = pod("p", annotations={MATCHED_SPREAD_ANNOTATION: note}, nodeName="n1")
    spread_wakes = SpreadWakes(spread(subset("a")))
    assert spread_wakes.pod(None, document) == woken
    assert spread_wakes.pod(document, pod("p", annotations=document["metadata"]["annotations"])) == []


def test_an_unreadable_filter_selects_no_pod_with_any_labels() -> None:
    filtered = {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    spread_wakes = SpreadWakes(spread(subset("a"), targetFilter=filtered))
    assert spread_wakes.pod(pod("p", annotations=NOTED), pod("p", annotations=NOTED, labels={"a": "b"})) == []


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        ({"labels": {"pod-template-hash": "h2"}}, ["ws"]),
        ({"annotations": {DELETION_COST_ANNOTATION: "5"}}, ["ws"]),
        ({"phase": "Running"}, []),
    ],
)
def test_an_unassigned_pod_enqueues_when_its_version_or_cost_changes(changes: Any, woken: list[str]) -> None:
    owner = ("apps/v1", "ReplicaSet", "web-h1")
    before = pod("p", owner=owner, labels={"pod-template-hash": "h1"}, nodeName="n1")
    after = pod("p", owner=owner, nodeName="n1", **{"labels": {"pod-template-hash": "h1"}, **changes})
    spread_wakes = SpreadWakes(spread(subset("a"), target=owner))
    assert spread_wakes.pod(before, after) == woken


def test_a_pod_whose_annotation_is_removed_enqueues_its_workload_spread() -> None:
    noted = pod("p", annotations=NOTED, nodeName="n1")
    assert SpreadWakes(spread(subset("a"))).pod(noted, pod("p", nodeName="n1")) == ["ws"]


@pytest.mark.parametrize("annotations", [NOTED, {}])
def test_a_pod_enqueues_when_its_workload_releases_it_and_when_another_adopts_it(annotations: Any) -> None:
    # given
    spread_wakes = SpreadWakes(spread(subset("a")))
    owned = pod("p", annotations=annotations, nodeName="n1")
    orphan = pod("p", annotations=annotations, nodeName="n1", owner=None)
    # then
    assert spread_wakes.pod(owned, orphan) == ["ws"]
    assert spread_wakes.pod(orphan, owned) == ["ws"]


@pytest.mark.parametrize("annotations", [NOTED, {}])
def test_a_pod_enqueues_when_its_labels_no_longer_match_the_filter(annotations: Any) -> None:
    # given
    spread_wakes = SpreadWakes(
        spread(subset("a"), targetFilter={"selector": {"matchLabels": {"tier": "web"}}})
    )
    meant = pod("p", annotations=annotations, nodeName="n1", labels={"tier": "web"})
    # then
    assert spread_wakes.pod(meant, pod("p", annotations=annotations, nodeName="n1")) == ["ws"]
    same_labels = pod("p", annotations=annotations, nodeName="n1", labels={"tier": "web"}, phase="Running")
    assert spread_wakes.pod(meant, same_labels) == []


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        ({"replicas": 7}, ["ws"]),
        ({"update_revision": "web-2"}, ["ws"]),
        ({"is_deleting": True}, ["ws"]),
        ({"observed_generation": 9}, []),
        ({"labels": {"a": "b"}}, []),
    ],
)
def test_a_workload_enqueues_when_its_spreading_changes_lift_13(change: Any, woken: list[str]) -> None:
    spread_wakes = SpreadWakes(spread(subset("a")))
    assert spread_wakes.target(CLONE_SETS, target(), target(**change)) == woken


@pytest.mark.parametrize(
    "owner", [("apps/v1", "StatefulSet", "web"), ("apps.kruise.io/v1beta1", "StatefulSet", "web")]
)
def test_statefulsets_enqueue_too_lift_14(owner: Any) -> None:
    kind = GroupKind(owner[0].partition("/")[0], owner[1])
    spread_wakes = SpreadWakes(spread(subset("a"), target=owner))
    assert spread_wakes.target(kind, None, target(owner)) == ["ws"]
    assert spread_wakes.target(kind, target(owner), None) == ["ws"]


def test_a_replicaset_enqueues_the_spread_of_its_deployment() -> None:
    spread_wakes = SpreadWakes(spread(subset("a"), target=DEPLOYMENT))
    for name in ("web-h1", "adopted"):
        owned = target(("apps/v1", "ReplicaSet", name), **OWNED_BY_WEB)
        assert spread_wakes.target(REPLICA_SETS, None, owned) == ["ws"]
    assert spread_wakes.target(REPLICA_SETS, None, target(("apps/v1", "ReplicaSet", "web-h1"))) == []


def test_a_workload_of_another_kind_with_the_name_of_a_replicaset_is_not_of_its_deployment() -> None:
    spread_wakes = SpreadWakes(spread(subset("a"), target=DEPLOYMENT))
    namesake = ("apps.kruise.io/v1beta1", "CloneSet", "web-h1")
    assert spread_wakes.pod(None, pod("p", owner=namesake, nodeName="n1")) == []
    assert spread_wakes.target(CLONE_SETS, None, target(namesake, **OWNED_BY_WEB)) == []
