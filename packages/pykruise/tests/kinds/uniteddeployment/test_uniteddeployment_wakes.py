"""Events that enqueue UnitedDeployments."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kinds.uniteddeployment.snapshot import REPLICA_SET_VIEWS, UNITED_VIEWS, UnitedSettings
from pykruise.kinds.uniteddeployment.workloads import (
    CLONE_SET,
    DEPLOYMENT,
    SUBSET_LABEL,
    TEMPLATES,
    WORKLOAD_VIEWS,
    SubsetWorkload,
    project_workload,
)
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.targets import project_target
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.uniteddeployments import ALL_TEMPLATES, united_document
from support.wakes import Woken

Document = dict[str, Any]


def controlled(by: str, *, kind: str = "UnitedDeployment", group: str = "apps.kruise.io/v1beta1") -> Document:
    """A reference to its controller; its uid is uid-<name>."""
    return dict(build_owner_reference(api_version=group, kind=kind, name=by, uid=f"uid-{by}"))


def controlled_by(template: str, name: str) -> Document:
    """A pod's reference to its workload, of this template's kind."""
    resource = TEMPLATES[template]
    return controlled(name, kind=resource.kind, group=resource.api_version)


def metadata_of(name: str, *owners: Document, **fields: Any) -> Document:
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "ownerReferences": list(owners),
        **fields,
    }


def workload(
    *owners: Document, template: str = CLONE_SET, name: str = "web-a", **metadata: Any
) -> SubsetWorkload:
    labelled = {"labels": {"app": "web", SUBSET_LABEL: "a"}, **metadata}
    document = {"metadata": metadata_of(name, *owners, **labelled), "spec": {"replicas": 1}}
    return project_workload(orjson.dumps(document), template)


def united(name: str = "web", *, namespace: str = "shop", **spec: Any) -> Any:
    document = united_document(CLONE_SET, [{"name": "a"}], name=name, **spec)
    document["metadata"] |= {"namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
    return UNITED_VIEWS.project(orjson.dumps(document))


def pod(*owners: Document, status: Document | None = None, node: str = "", **metadata: Any) -> PodView:
    document = {
        "metadata": metadata_of("p", *owners, **metadata),
        "spec": {
            "containers": [{"name": "main", "image": "nginx:1"}],
            **({"nodeName": node} if node else {}),
        },
        "status": status or {"phase": "Pending"},
    }
    return project_pod(orjson.dumps(document))


def replica_set(name: str, deployment_uid: str) -> Any:
    owner = {**controlled_by(DEPLOYMENT, "web-a"), "uid": deployment_uid}
    document = {"metadata": metadata_of(name, owner), "spec": {}}
    return project_target(orjson.dumps(document))


def woken(*uniteds: Any, workloads: tuple[SubsetWorkload, ...] = (), replica_sets: Any = ()) -> Woken:
    """Wakes of a UnitedDeployment's controller whose caches have these objects."""
    objects: dict[Any, Any] = {UNITED_VIEWS: list(uniteds), REPLICA_SET_VIEWS: list(replica_sets)}
    for template, views in WORKLOAD_VIEWS.items():
        objects[views] = [workload for workload in workloads if workload.template == template]
    return Woken(KIND, objects, settings=UnitedSettings())


# ── workloads ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("template", ALL_TEMPLATES)
def test_an_event_of_a_workload_enqueues_its_controller(template: str) -> None:
    item = workload(controlled("web"), template=template)
    for old, new in ((None, item), (item, item), (item, None)):
        assert woken(united()).by(WORKLOAD_VIEWS[template], old, new) == ["web"]


def test_a_workload_that_changes_its_controller_enqueues_both() -> None:
    change = workload(controlled("web")), workload(controlled("shop"))
    assert woken(united()).by(WORKLOAD_VIEWS[CLONE_SET], *change) == ["shop", "web"]


@pytest.mark.parametrize(
    "owner", [controlled("web", kind="Deployment"), controlled("web", group="example.com/v1")]
)
def test_a_workload_of_another_kind_of_controller_enqueues_nothing(owner: Document) -> None:
    assert woken(united()).keys(WORKLOAD_VIEWS[CLONE_SET], None, workload(owner)) == []


def test_an_orphan_enqueues_the_uniteddeployments_of_its_namespace_that_select_it() -> None:
    # given
    others = [
        united("elsewhere", namespace="other"),
        united("unlike", selector={"matchLabels": {"app": "unlike"}}),
        united("unreadable", replicas="many"),
        united("unheard-of", selector={"matchExpressions": [{"key": "app", "operator": "Near"}]}),
    ]
    listening = woken(united(), *others)
    orphan = workload()
    # then
    assert listening.by(WORKLOAD_VIEWS[CLONE_SET], None, orphan) == ["web"]
    assert listening.by(WORKLOAD_VIEWS[CLONE_SET], orphan, None) == []


@pytest.mark.parametrize(
    "metadata", [{"labels": {"app": "web"}}, {"deletionTimestamp": "2026-01-31T12:00:00Z"}]
)
def test_an_orphan_that_cannot_be_adopted_enqueues_nothing(metadata: Document) -> None:
    """uniteddeployment case 25: only an orphan that has a subset and is not terminating can be adopted"""
    assert woken(united()).by(WORKLOAD_VIEWS[CLONE_SET], None, workload(**metadata)) == []


def test_a_workload_of_another_controller_enqueues_only_its_controller() -> None:
    assert woken(united()).by(WORKLOAD_VIEWS[CLONE_SET], None, workload(controlled("shop"))) == ["shop"]


# ── pods ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("template", [template for template in ALL_TEMPLATES if template != DEPLOYMENT])
def test_a_pod_enqueues_the_controller_of_its_workload(template: str) -> None:
    listening = woken(united(), workloads=(workload(controlled("web"), template=template),))
    item = pod(controlled_by(template, "web-a"))
    assert listening.by(POD_VIEWS, None, item) == ["web"]
    assert listening.by(POD_VIEWS, item, None) == ["web"]


REPLICA_SET = controlled("web-a-h1", kind="ReplicaSet", group="apps/v1")


@pytest.mark.parametrize("name", ["web-a-h1", "adopted"])
def test_a_pod_of_a_deployment_enqueues_the_controller_of_the_deployment(name: str) -> None:
    listening = woken(
        united(),
        workloads=(workload(controlled("web"), template=DEPLOYMENT),),
        replica_sets=[replica_set(name, "uid-web-a")],
    )
    owner = controlled(name, kind="ReplicaSet", group="apps/v1")
    assert listening.by(POD_VIEWS, None, pod(owner)) == ["web"]


@pytest.mark.parametrize(
    ("workloads", "replica_sets"),
    [
        ((), [replica_set("web-a-h1", "uid-web-a")]),
        ((workload(controlled("web"), template=DEPLOYMENT),), []),
        ((workload(controlled("web"), template=DEPLOYMENT),), [replica_set("web-a-h1", "uid-before")]),
    ],
)
def test_a_pod_of_a_deleted_deployment_enqueues_nothing(
    workloads: tuple[SubsetWorkload, ...], replica_sets: Any
) -> None:
    listening = woken(united(), workloads=workloads, replica_sets=replica_sets)
    assert listening.keys(POD_VIEWS, None, pod(REPLICA_SET)) == []


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [controlled("web-a", kind="Job", group="batch/v1")],
        [controlled_by(CLONE_SET, "web-b")],
        [controlled_by(CLONE_SET, "alone")],
    ],
)
def test_a_pod_without_a_subset_enqueues_nothing(owners: list[Document]) -> None:
    """LIFT-5"""
    workloads = (workload(controlled("web")), workload(name="alone"))
    assert woken(united(), workloads=workloads).keys(POD_VIEWS, None, pod(*owners)) == []


OWNED = controlled_by(CLONE_SET, "web-a")
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
BEFORE: Document = {"labels": {"a": "1"}, "node": "n1", "status": {"phase": "Running", "conditions": [READY]}}


@pytest.mark.parametrize(
    ("change", "is_heard"),
    [
        ({}, False),
        ({"annotations": {"a": "1"}}, False),
        ({"resourceVersion": "2"}, False),
        ({"labels": {"a": "2"}}, True),
        ({"deletionTimestamp": "2026-01-31T12:00:00Z"}, True),
        ({"node": "n2"}, True),
        ({"status": {"phase": "Pending", "conditions": [READY]}}, True),
        ({"status": {"phase": "Running", "conditions": [{**READY, "status": "False"}]}}, True),
        (
            {
                "status": {
                    "phase": "Running",
                    "conditions": [{**READY, "lastTransitionTime": "2026-01-31T12:01:00Z"}],
                }
            },
            True,
        ),
        (
            {
                "status": {
                    "phase": "Running",
                    "conditions": [READY, {"type": "PodScheduled", "status": "False"}],
                }
            },
            True,
        ),
    ],
)
def test_a_pod_enqueues_when_the_counts_of_its_subset_change(change: Document, is_heard: bool) -> None:
    """LIFT-5"""
    listening = woken(united(), workloads=(workload(controlled("web")),))
    old, new = pod(OWNED, **BEFORE), pod(OWNED, **{**BEFORE, **change})
    assert listening.by(POD_VIEWS, old, new) == (["web"] if is_heard else [])
