"""Documents of the workload of a subset, and changes of an existing workload."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.uniteddeployment.types import Subset
from pykruise.kinds.uniteddeployment.workload_documents import (
    WantedWorkload,
    change_of,
    document_of,
    format_workload_name,
    is_on_delete,
    pod_template_of,
    replicas_change_of,
)
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    PATCH_ANNOTATION,
    REVISION_LABEL,
    STATEFUL_SET,
    SUBSET_LABEL,
    SubsetWorkload,
)
from pykruise.kube.schemas.types import NodeSelectorTerm, Toleration

Document = dict[str, Any]
REVISION = "web-2"
POD: Document = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
MARKS = {SUBSET_LABEL: "a", REVISION_LABEL: REVISION}
ZONE: Document = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
GPU = {"key": "gpu", "operator": "Exists"}
NODES = msgspec.convert(ZONE, NodeSelectorTerm)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def wanted(
    template: str = CLONE_SET,
    *,
    spec: Document | None = None,
    metadata: Document | None = None,
    selector: Document | None = None,
    patch: Any = None,
    nodes: NodeSelectorTerm | None = None,
    **more: Any,
) -> WantedWorkload:
    """Subset a with 3 replicas; `spec`: fields of the template's spec beside its pods."""
    return WantedWorkload(
        template=template,
        metadata=metadata or {},
        spec={"template": POD, **(spec or {})},
        selector={"matchLabels": {"app": "web"}} if selector is None else selector,
        subset=Subset(name="a", patch=patch, node_selector_term=nodes),
        revision=REVISION,
        **{"replicas": 3, "partition": 0, **more},
    )


def made(wanted: WantedWorkload) -> Document:
    return document_of(wanted, name="web-a-12345", namespace="shop", united="web", owner={"uid": "ud"})


# ── names ────────────────────────────────────────────────────────────────


def test_a_name_is_not_longer_than_names_may_be() -> None:
    """uniteddeployment case 19"""
    assert len(format_workload_name("w" * 253, "a", uid="u")) == 253


def test_a_name_that_is_taken_has_another_one_after_it() -> None:
    names = {format_workload_name("web", "a", uid="u", attempt=attempt) for attempt in range(100)}
    assert len(names) > 95
    assert format_workload_name("web", "a", uid="u") == format_workload_name("web", "a", uid="u", attempt=0)


# ── a new workload ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("template", "given", "strategy"),
    [
        (CLONE_SET, {}, {"rollingUpdate": {"partition": 1}}),
        (CLONE_SET, {"updateStrategy": None}, {"rollingUpdate": {"partition": 1}}),
        (CLONE_SET, {"updateStrategy": {"rollingUpdate": None}}, {"rollingUpdate": {"partition": 1}}),
        (
            CLONE_SET,
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}},
            {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1, "partition": 1}},
        ),
        (ADVANCED_STATEFUL_SET, {}, {"rollingUpdate": {"partition": 1}}),
        (
            ADVANCED_STATEFUL_SET,
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"paused": True}}},
            {"type": "RollingUpdate", "rollingUpdate": {"paused": True, "partition": 1}},
        ),
        (ADVANCED_STATEFUL_SET, {"updateStrategy": {"type": "OnDelete"}}, {"type": "OnDelete"}),
        (STATEFUL_SET, {}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        (STATEFUL_SET, {"updateStrategy": {"type": "OnDelete"}}, {"type": "OnDelete"}),
        (DEPLOYMENT, {}, None),
        (DEPLOYMENT, {"strategy": {"type": "Recreate"}}, {"type": "Recreate"}),
        (
            DEPLOYMENT,
            {"strategy": {"rollingUpdate": {"maxSurge": 1}}},
            {"rollingUpdate": {"maxSurge": 1}},
        ),
    ],
)
def test_the_partition_is_written_to_the_field_of_each_kind(
    template: str, given: Document, strategy: Document | None
) -> None:
    """uniteddeployment cases 37 and 39"""
    spec = made(wanted(template, spec=given, partition=1))["spec"]
    assert spec.get("strategy" if template == DEPLOYMENT else "updateStrategy") == strategy


@pytest.mark.parametrize(
    ("template", "given", "strategy"),
    [
        (CLONE_SET, {}, {"rollingUpdate": {"partition": 0, "maxUnavailable": 2}}),
        (
            CLONE_SET,
            {"updateStrategy": {"type": "OnDelete"}},
            {"type": "OnDelete", "rollingUpdate": {"partition": 0}},
        ),
        (DEPLOYMENT, {}, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}),
        (DEPLOYMENT, {"strategy": {"type": "Recreate"}}, {"type": "Recreate"}),
    ],
)
def test_max_unavailable_is_the_number_of_reserved_pods_under_rolling_update(
    template: str, given: Document, strategy: Document
) -> None:
    """uniteddeployment case 56"""
    spec = made(wanted(template, spec=given, max_unavailable=2))["spec"]
    assert spec["strategy" if template == DEPLOYMENT else "updateStrategy"] == strategy


@pytest.mark.parametrize(
    ("template", "labels"),
    [
        (None, MARKS),
        ({}, MARKS),
        ({"metadata": None, "spec": None}, MARKS),
        ({"metadata": {"labels": None}}, MARKS),
        ({"metadata": {"labels": {"app": "web"}}}, {"app": "web", **MARKS}),
    ],
)
def test_an_almost_empty_template_gets_the_subset_labels(template: Any, labels: Document) -> None:
    """CloneSet templates are not validated"""
    result = pod_template_of(wanted(spec={"template": template}))
    assert result["metadata"]["labels"] == labels
    assert result["spec"] == {}


@pytest.mark.parametrize(
    "affinity",
    [
        None,
        {"nodeAffinity": None},
        {"nodeAffinity": {REQUIRED: None}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": None}}},
    ],
)
def test_nodes_are_required_where_the_template_requires_none(affinity: Any) -> None:
    """uniteddeployment case 27"""
    pod = {**POD, "spec": {**POD["spec"], "affinity": affinity}}
    result = pod_template_of(wanted(spec={"template": pod}, nodes=NODES))
    assert result["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE]}}}


@pytest.mark.parametrize(
    ("template", "is_dropped"),
    [(CLONE_SET, True), (ADVANCED_STATEFUL_SET, True), (STATEFUL_SET, False), (DEPLOYMENT, False)],
)
def test_only_templates_of_kruise_kinds_lose_keys_about_a_single_pod(template: str, is_dropped: bool) -> None:
    """Admission of these kinds would reject the workload. In other kinds, the change would update all pods."""
    key = "controller-revision-hash"
    pod = {**POD, "metadata": {"labels": {"app": "web", key: "abc"}}}
    labels = pod_template_of(wanted(template, spec={"template": pod}))["metadata"]["labels"]
    assert labels == {"app": "web", **MARKS, **({} if is_dropped else {key: "abc"})}


def test_other_affinity_of_the_template_stays() -> None:
    affinity: Document = {"podAffinity": {"x": []}, "nodeAffinity": {"preferred": []}}
    pod = {**POD, "spec": {**POD["spec"], "affinity": affinity}}
    result = pod_template_of(wanted(spec={"template": pod}, nodes=NODES))["spec"]["affinity"]
    assert result["podAffinity"] == {"x": []}
    assert set(result["nodeAffinity"]) == {"preferred", REQUIRED}


@pytest.mark.parametrize(
    ("given", "own"), [({}, []), ({"tolerations": None}, []), ({"tolerations": [GPU]}, [GPU])]
)
def test_tolerations_of_the_subset_are_appended_to_those_of_the_template(
    given: Document, own: list[Document]
) -> None:
    pod = {**POD, "spec": {**POD["spec"], **given}}
    subset = Subset(name="a", tolerations=[Toleration(key="zone", operator="Exists")])
    tolerations = pod_template_of(msgspec.structs.replace(wanted(spec={"template": pod}), subset=subset))
    assert tolerations["spec"]["tolerations"] == [*own, {"key": "zone", "operator": "Exists"}]


def test_labels_and_annotations_of_the_template_are_on_the_workload() -> None:
    metadata = {"labels": {"app": "other", "tier": "gold"}, "annotations": {"note": "x"}}
    result = made(wanted(metadata=metadata))["metadata"]
    assert result["labels"] == {"app": "web", "tier": "gold", **MARKS}
    assert result["annotations"] == {"note": "x", PATCH_ANNOTATION: ""}


@pytest.mark.parametrize("selector", [{}, {"matchLabels": None}])
def test_a_selector_without_labels_gets_the_subset(selector: Document) -> None:
    """uniteddeployment case 64"""
    result = made(wanted(selector=selector, metadata={"labels": None, "annotations": None}))
    assert result["spec"]["selector"] == {"matchLabels": {SUBSET_LABEL: "a"}}
    assert result["metadata"]["labels"] == MARKS


# ── changes ──────────────────────────────────────────────────────────────


def workload(
    template: str = CLONE_SET,
    *,
    spec: Document | None = None,
    revision: str = REVISION,
    annotations: Document | None = None,
    replicas: int = 3,
) -> SubsetWorkload:
    return SubsetWorkload(
        template=template,
        namespace="shop",
        name="web-a",
        uid="uid-a",
        resource_version=1,
        labels={SUBSET_LABEL: "a", REVISION_LABEL: revision},
        annotations={PATCH_ANNOTATION: ""} if annotations is None else annotations,
        spec=spec or {},
        replicas=replicas,
    )


def rolling(*, template: str = CLONE_SET, type_: str | None = None, **block: Any) -> Document:
    """A spec with this rolling update."""
    strategy: Document = {"rollingUpdate": block, **({"type": type_} if type_ is not None else {})}
    return {"strategy" if template == DEPLOYMENT else "updateStrategy": strategy}


def test_an_up_to_date_workload_is_not_written() -> None:
    assert change_of(workload(), wanted()) is None


def test_a_size_alone_is_changed_alone() -> None:
    assert change_of(workload(replicas=2), wanted()) == {"spec": {"replicas": 3}}
    assert replicas_change_of(workload(replicas=2), 3) == {"spec": {"replicas": 3}}
    assert replicas_change_of(workload(), 3) is None


@pytest.mark.parametrize(
    ("template", "spec", "is_changed"),
    [
        (CLONE_SET, {}, True),
        (CLONE_SET, {"updateStrategy": None}, True),
        (CLONE_SET, {"updateStrategy": {"rollingUpdate": None}}, True),
        (CLONE_SET, rolling(partition=2), False),
        (CLONE_SET, rolling(partition="50%"), False),
        (CLONE_SET, rolling(partition="30%"), True),
        (CLONE_SET, rolling(partition="many"), True),
        (CLONE_SET, rolling(type_="OnDelete", partition=1), True),
        (ADVANCED_STATEFUL_SET, rolling(partition=1), True),
        (ADVANCED_STATEFUL_SET, rolling(type_="OnDelete"), False),
        (STATEFUL_SET, rolling(type_="OnDelete"), False),
        (DEPLOYMENT, {}, False),
    ],
)
def test_a_partition_is_changed_where_it_is_another(template: str, spec: Document, is_changed: bool) -> None:
    """uniteddeployment cases 38 and 39: a percentage is a share of the replicas, rounded up"""
    result = change_of(workload(template, spec=spec), wanted(template, partition=2))
    assert result == ({"spec": rolling(partition=2)} if is_changed else None)


def test_an_unreadable_partition_is_reset_to_zero() -> None:
    result = change_of(workload(spec=rolling(partition="many")), wanted())
    assert result == {"spec": rolling(partition=0)}


@pytest.mark.parametrize(
    ("template", "spec", "written"),
    [
        (CLONE_SET, rolling(maxUnavailable=1), rolling(maxUnavailable=2)),
        (CLONE_SET, rolling(maxUnavailable=2), None),
        (CLONE_SET, rolling(type_="OnDelete"), None),
        (DEPLOYMENT, {}, rolling(template=DEPLOYMENT, maxUnavailable=2)),
        (DEPLOYMENT, {"strategy": None}, rolling(template=DEPLOYMENT, maxUnavailable=2)),
        (DEPLOYMENT, {"strategy": {"type": "Recreate"}}, None),
    ],
)
def test_max_unavailable_is_raised_to_the_number_of_reserved_pods(
    template: str, spec: Document, written: Document | None
) -> None:
    """uniteddeployment case 56"""
    result = change_of(
        workload(template, spec=spec), wanted(template, max_unavailable=2, restores_max_unavailable=True)
    )
    assert result == (None if written is None else {"spec": written})


@pytest.mark.parametrize(
    ("template", "stored", "given", "written"),
    [
        (CLONE_SET, 2, {}, rolling(maxUnavailable=None)),
        (CLONE_SET, "20%", {}, None),
        (CLONE_SET, None, {}, None),
        (CLONE_SET, 2, rolling(maxUnavailable="30%"), rolling(maxUnavailable="30%")),
        (CLONE_SET, "20%", rolling(maxUnavailable="30%"), rolling(maxUnavailable="30%")),
        (CLONE_SET, "30%", rolling(maxUnavailable="30%"), None),
        (ADVANCED_STATEFUL_SET, 1, {}, None),
        (ADVANCED_STATEFUL_SET, 2, {}, rolling(maxUnavailable=None)),
        (DEPLOYMENT, "25%", {}, None),
        (DEPLOYMENT, 2, {}, rolling(template=DEPLOYMENT, maxUnavailable=None)),
    ],
)
def test_the_templates_max_unavailable_is_restored_when_no_pod_is_reserved(
    template: str, stored: Any, given: Document, written: Document | None
) -> None:
    """LIFT-18"""
    block = {} if stored is None else {"maxUnavailable": stored}
    there = workload(template, spec=rolling(template=template, **block))
    result = change_of(there, wanted(template, spec=given, restores_max_unavailable=True))
    assert result == (None if written is None else {"spec": written})
    assert change_of(there, wanted(template, spec=given)) is None, "in reserve mode only"


@pytest.mark.parametrize(
    ("stored", "patch", "is_applied"),
    [
        ({}, None, True),
        ({PATCH_ANNOTATION: ""}, None, True),
        ({PATCH_ANNOTATION: ""}, {"spec": {"hostNetwork": True}}, False),
        ({PATCH_ANNOTATION: '{"spec":{"hostNetwork":true}}'}, None, False),
        ({PATCH_ANNOTATION: '{"spec": {"hostNetwork": true}}'}, {"spec": {"hostNetwork": True}}, True),
        ({PATCH_ANNOTATION: '{"spec":{"hostNetwork":false}}'}, {"spec": {"hostNetwork": True}}, False),
        ({PATCH_ANNOTATION: "no JSON"}, {"spec": {"hostNetwork": True}}, False),
        ({PATCH_ANNOTATION: "null"}, None, False),
    ],
)
def test_another_patch_is_applied_to_the_whole(stored: Document, patch: Any, is_applied: bool) -> None:
    """uniteddeployment cases 28 and 29"""
    result = change_of(workload(annotations=stored), wanted(patch=patch))
    if is_applied:
        assert result is None
    else:
        assert result is not None
        network = result["spec"]["template"]["spec"].get("hostNetwork")
        assert network == (None if patch is None else True)


def test_another_revision_is_applied_to_the_whole_and_what_others_wrote_stays() -> None:
    # given
    there = workload(revision="web-1", annotations={"note": "x", PATCH_ANNOTATION: ""}, spec={"paused": True})
    # when
    result = change_of(there, wanted(metadata={"annotations": {"tier": "gold"}}))
    # then
    assert result is not None
    assert result["metadata"] == {
        "labels": {"app": "web", REVISION_LABEL: REVISION},
        "annotations": {"tier": "gold"},
    }
    assert result["spec"]["paused"] is None, "the template does not say it"
    assert result["spec"]["template"]["spec"] == POD["spec"]


@pytest.mark.parametrize(
    ("spec", "is_it"),
    [
        ({}, False),
        ({"updateStrategy": None}, False),
        (rolling(type_="RollingUpdate"), False),
        (rolling(type_="OnDelete"), True),
    ],
)
def test_a_workload_is_on_delete_only_with_that_strategy_type(spec: Document, is_it: bool) -> None:
    assert is_on_delete(workload(STATEFUL_SET, spec=spec)) is is_it
