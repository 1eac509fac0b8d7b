"""Refusals of stored UnitedDeployments, with defaults or without, and warnings."""

import asyncio
from typing import Any

import pytest

from pykruise.kinds.uniteddeployment.admission import build_mutating_review, validate_united
from pykruise.kinds.uniteddeployment.defaults import add_defaults
from pykruise.kinds.uniteddeployment.kind import KIND
from pykruise.kinds.uniteddeployment.snapshot import read_spec
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    STATEFUL_SET,
)
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.errors import Cause
from pykruise.pods.template.defaults import DefaultingSettings
from support.reviews import request
from support.uniteddeployments import ALL_TEMPLATES, template_of, united_document

Document = dict[str, Any]
SUBSETS = "spec.topology.subsets"
UNAVAILABLE = "updateStrategy.rollingUpdate.maxUnavailable"
RETENTION = "persistentVolumeClaimRetentionPolicy"
WITH_LABELS = [STATEFUL_SET, ADVANCED_STATEFUL_SET, DEPLOYMENT]


def united(*subsets: Document, kind: str = CLONE_SET, **spec: Any) -> Document:
    result = united_document(kind, list(subsets), **{"replicas": 4, **spec})
    result["spec"] = {name: value for name, value in result["spec"].items() if value is not None}
    return result


def subset(name: str = "a", **fields: Any) -> Document:
    return {"name": name, **fields}


def united_of(kind: str, *subsets: Document, pod: Document | None = None, **inner: Any) -> Document:
    """A UnitedDeployment with a template of this kind, which has these fields."""
    return united(*(subsets or (subset(),)), template=template_of(kind, pod=pod, **inner))


def reviewed(document: Document, old: Document | None = None) -> AdmissionAnswer:
    async def review() -> AdmissionAnswer:
        return await validate_united(
            request(UNITED_DEPLOYMENTS, document, operation="UPDATE" if old else "CREATE", old=old)
        )

    return asyncio.run(review())


def causes(document: Document, old: Document | None = None) -> tuple[Cause, ...]:
    refusal = reviewed(document, old).refusal
    if refusal is None:
        return ()
    assert refusal.code == 422
    assert refusal.details is not None
    return refusal.details.causes


def fields(document: Document, old: Document | None = None) -> list[str]:
    return [cause.field for cause in causes(document, old)]


def warnings(document: Document) -> list[str]:
    answer = reviewed(document)
    assert answer.refusal is None, answer.refusal
    return list(answer.warnings)


# ── fields that are left out ─────────────────────────────────────────────


def test_an_empty_document_reports_its_missing_fields() -> None:
    missing = ["metadata.name", "spec.selector", "spec.template"]
    assert fields({}) == missing
    assert fields({"metadata": None, "spec": None}) == missing
    assert fields({"spec": {}}, {"metadata": {"name": "web"}, "spec": None}) == ["metadata.name"]


@pytest.mark.parametrize("topology", [None, {}, {"subsets": None}, {"subsets": []}])
def test_no_subsets_are_taken(topology: Document | None) -> None:
    assert fields(united(topology=topology)) == []


def test_an_unreadable_object_is_a_bad_request() -> None:
    refusal = reviewed(united(subset(), replicas="many")).refusal
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert "spec.replicas" in refusal.message


# ── defaults ─────────────────────────────────────────────────────────────


def mutated(document: Document, old: Document | None = None) -> Document:
    async def review() -> AdmissionAnswer:
        return await build_mutating_review(DefaultingSettings())(
            request(UNITED_DEPLOYMENTS, document, operation="UPDATE" if old else "CREATE", old=old)
        )

    result: Document = (asyncio.run(review()).object or document)["spec"]
    return result


def test_a_changed_template_of_a_built_in_stateful_set_gets_pod_defaults_too() -> None:
    """uniteddeployment case 3"""
    result = mutated(united_of(STATEFUL_SET, image="nginx:2"), united_of(STATEFUL_SET))
    pod = result["template"][STATEFUL_SET]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 30


@pytest.mark.parametrize("is_on", [True, False])
def test_ports_of_a_built_in_stateful_set_in_the_network_of_its_nodes_follow_the_gate(is_on: bool) -> None:
    container = {"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80}]}
    given = united_of(STATEFUL_SET, pod={"hostNetwork": True, "containers": [container]})
    result = add_defaults(given, settings=DefaultingSettings(host_network_ports=is_on))
    pod = result["spec"]["template"][STATEFUL_SET]["spec"]["template"]["spec"]
    assert ("hostPort" in pod["containers"][0]["ports"][0]) == is_on


def test_a_removed_template_gets_no_defaults() -> None:
    assert "template" not in mutated(united(subset(), template=None), united_of(STATEFUL_SET))


@pytest.mark.parametrize("inner", [{}, {"template": None}, {"volumeClaimTemplates": None}])
def test_a_workload_without_a_pod_template_gets_no_pod_template(inner: Document) -> None:
    template = {STATEFUL_SET: {"spec": inner}}
    assert mutated(united(subset(), template=template))["template"] == template


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ([subset("a", minReplicas=1), subset("b")], [subset("a", minReplicas=1), subset("b", minReplicas=0)]),
        (
            [subset("a", maxReplicas=0), subset("b")],
            [subset("a", maxReplicas=0, minReplicas=0), subset("b", minReplicas=0)],
        ),
        ([subset("a"), subset("b")], [subset("a"), subset("b")]),
        (
            [subset("a", replicas=0), subset("b", minReplicas=1)],
            [subset("a", replicas=0), subset("b", minReplicas=1)],
        ),
        (
            [subset("a", minReplicas=None, maxReplicas=None)],
            [subset("a", minReplicas=None, maxReplicas=None)],
        ),
    ],
)
def test_minimums_are_spelled_out_where_a_subset_has_a_bound(
    given: list[Document], stored: list[Document]
) -> None:
    """uniteddeployment case 2"""
    assert mutated(united(*given))["topology"]["subsets"] == stored


@pytest.mark.parametrize("topology", [{}, {"subsets": None}, {"subsets": []}])
def test_a_topology_without_subsets_gets_no_defaults(topology: Document) -> None:
    assert mutated(united(topology=topology))["topology"] == topology
    assert "topology" not in mutated(united(topology=None))


def test_only_the_manual_strategy_gets_its_block() -> None:
    assert mutated(united(subset(), updateStrategy={"type": "Auto"}))["updateStrategy"] == {"type": "Auto"}


# ── the template ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [CLONE_SET, DEPLOYMENT])
def test_a_kind_with_adaptive_subsets_can_reserve_unschedulable_pods(kind: str) -> None:
    """uniteddeployment case 5"""
    strategy = {"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": True}}
    topology = {"subsets": [subset()], "scheduleStrategy": strategy}
    assert fields(united(kind=kind, topology=topology)) == []
    (cause,) = causes(united(kind=STATEFUL_SET, topology=topology))
    assert '"reserveUnschedulablePods":true' in cause.message


def test_the_templates_that_are_too_many_are_named() -> None:
    both = {**template_of(DEPLOYMENT), **template_of(CLONE_SET)}
    (cause,) = causes(united(subset(), template=both))
    assert CLONE_SET in cause.message
    assert DEPLOYMENT in cause.message


@pytest.mark.parametrize("kind", WITH_LABELS)
@pytest.mark.parametrize("operator", ["Near", "In"])
def test_no_template_label_is_required_with_an_unreadable_selector(kind: str, operator: str) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": operator}]}
    assert fields(united(subset(), kind=kind, selector=selector)) == ["spec.selector"]
    assert fields(united(subset(), kind=kind, selector={})) == ["spec.selector"]


@pytest.mark.parametrize("pod", [None, {}, {"metadata": None, "spec": None}])
@pytest.mark.parametrize("kind", WITH_LABELS)
def test_a_workload_without_pods_lacks_their_labels(kind: str, pod: Document | None) -> None:
    template = template_of(kind)
    template[kind]["spec"]["template"] = pod
    assert fields(united(subset(), template=template)) == [
        f"spec.template.{kind}.spec.template.metadata.labels"
    ]
    template[kind]["spec"] = None
    assert fields(united(subset(), template=template)) == [
        f"spec.template.{kind}.spec.template.metadata.labels"
    ]


@pytest.mark.parametrize(
    ("strategy", "is_taken"),
    [
        ({"rollingUpdate": {"partition": 0}}, True),
        ({"type": "", "rollingUpdate": {"partition": 1}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, False),
        ({"type": "OnDelete", "rollingUpdate": None}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": None}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": None}, True),
        (None, True),
    ],
)
@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET])
def test_a_partition_in_the_template_is_refused_under_an_explicit_rolling_update(
    kind: str, strategy: Document | None, is_taken: bool
) -> None:
    """rule 8"""
    path = f"spec.template.{kind}.spec.updateStrategy.rollingUpdate.partition"
    assert fields(united_of(kind, updateStrategy=strategy)) == ([] if is_taken else [path])


def test_the_update_strategy_of_a_deployment_template_is_not_validated() -> None:
    assert fields(united_of(DEPLOYMENT, updateStrategy={"rollingUpdate": {"partition": 1}})) == []


@pytest.mark.parametrize(
    ("inner", "field"),
    [
        ({"updateStrategy": {"type": "Sometimes"}}, "updateStrategy"),
        ({"podManagementPolicy": "Backwards"}, "podManagementPolicy"),
        ({"minReadySeconds": -1}, "minReadySeconds"),
        ({"revisionHistoryLimit": -1}, "revisionHistoryLimit"),
        ({"updateStrategy": {"type": "OnDelete"}}, ""),
        ({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}, "updateStrategy.rollingUpdate"),
        ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}, ""),
        ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}, ""),
        ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": -1}}}, UNAVAILABLE),
        ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, UNAVAILABLE),
        ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}, UNAVAILABLE),
        ({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": ""}}, ""),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}}, f"{RETENTION}.whenScaled"),
        ({"ordinals": {"start": 0}}, ""),
        ({"ordinals": {"start": -1}}, "ordinals.start"),
        ({"podManagementPolicy": None}, ""),
        ({"podManagementPolicy": "OrderedReady"}, ""),
        ({"minReadySeconds": 0, "revisionHistoryLimit": "x"}, ""),
    ],
)
def test_a_built_in_stateful_set_must_be_one_that_kubernetes_takes(inner: Document, field: str) -> None:
    """rule 9; the API server checks types of fields"""
    path = f"spec.template.{STATEFUL_SET}.spec"
    assert fields(united_of(STATEFUL_SET, **inner)) == ([f"{path}.{field}"] if field else [])
    assert fields(united_of(ADVANCED_STATEFUL_SET, **inner)) == []


def test_a_max_unavailable_that_is_no_number_and_no_percentage_is_two_errors() -> None:
    document = united_of(STATEFUL_SET, updateStrategy={"rollingUpdate": {"maxUnavailable": "many"}})
    assert set(fields(document)) == {f"spec.template.{STATEFUL_SET}.spec.{UNAVAILABLE}"}


def test_a_stored_error_of_a_built_in_stateful_set_does_not_block_a_new_image() -> None:
    ordinals = {"start": -1}
    stored = united_of(STATEFUL_SET, ordinals=ordinals)
    assert fields(united_of(STATEFUL_SET, image="nginx:2", ordinals=ordinals), stored) == []
    assert fields(united_of(STATEFUL_SET, ordinals=ordinals), united_of(STATEFUL_SET)) != []


def test_pods_of_an_advanced_stateful_set_that_end_are_doubted_only() -> None:
    """rule 10"""
    document = united_of(ADVANCED_STATEFUL_SET, pod={"restartPolicy": "Never", "activeDeadlineSeconds": 5})
    path = f"spec.template.{ADVANCED_STATEFUL_SET}.spec.template.spec"
    assert [warning.partition(": ")[0] for warning in warnings(document)] == [
        f"{path}.restartPolicy",
        f"{path}.activeDeadlineSeconds",
    ]


# ── sizes ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("subsets", "replicas", "sizes"),
    [
        # bounds
        ([subset("a", minReplicas=2, maxReplicas=2), subset("b")], 4, []),
        ([subset("a", minReplicas="50%", maxReplicas="50%"), subset("b")], 4, []),
        ([subset("a", maxReplicas=0), subset("b", minReplicas=9)], 4, []),
        ([subset("a", minReplicas=1), subset("b")], None, [SUBSETS]),
        ([subset("a", maxReplicas=1), subset("b", maxReplicas=9)], None, [SUBSETS]),
        ([subset("a", maxReplicas=1), subset("b", maxReplicas=9)], 4, [SUBSETS]),
        (
            [subset("a", minReplicas=9, maxReplicas=1), subset("b", maxReplicas=1)],
            4,
            [f"{SUBSETS}[0].minReplicas"],
        ),
        ([subset("a", minReplicas="50%"), subset("b")], None, [f"{SUBSETS}[0].minReplicas"]),
        # replicas
        ([subset("a", replicas=1), subset("b")], None, [SUBSETS]),
        ([subset("a", replicas=1), subset("b", replicas=9)], None, []),
        ([subset("a", replicas=5), subset("b")], 4, [SUBSETS]),
        ([subset("a", replicas=4), subset("b")], 4, []),
        ([subset("a", replicas=4), subset("b", replicas=1)], 4, [SUBSETS, SUBSETS]),
        ([subset("a", replicas=1), subset("b", replicas=1)], 4, [SUBSETS]),
    ],
)
def test_the_sizes_of_subsets_must_be_possible(
    subsets: list[Document], replicas: int | None, sizes: list[str]
) -> None:
    """uniteddeployment cases 6 and 9; rules 13 and 15 to 17"""
    assert fields(united(*subsets, replicas=replicas)) == sizes


def test_a_subset_without_a_name_has_a_required_and_an_invalid_error() -> None:
    """rules 18 and 20"""
    reasons = [(cause.field, cause.reason) for cause in causes(united(subset("")))]
    assert reasons == [
        (f"{SUBSETS}[0].name", "FieldValueRequired"),
        (f"{SUBSETS}[0].name", "FieldValueInvalid"),
    ]


def test_partitions_of_no_subset_are_named_in_order() -> None:
    partitions = dict.fromkeys("gcafbed", 1)
    strategy = {"type": "Manual", "manualUpdate": {"partitions": partitions}}
    result = [cause.message.split('"')[1] for cause in causes(united(subset(), updateStrategy=strategy))]
    assert result == list("bcdefg")


def flaws(document: Document) -> list[str]:
    """Fields of a stored spec with which the controller changes nothing."""
    spec, problem = read_spec(document["spec"])
    assert spec is not None, problem
    assert KIND.stored is not None
    return [flaw.field for flaw in KIND.stored.flaws_of(spec)]


@pytest.mark.parametrize(
    ("first", "adaptive", "expected"),
    [
        ({}, {}, []),
        ({"replicas": "x"}, {}, [f"{SUBSETS}[0].replicas"]),
        ({"minReplicas": 1}, {}, [f"{SUBSETS}[1].replicas"]),
        ({}, {"reserveUnschedulablePods": True}, [f"{SUBSETS}[1].replicas"]),
    ],
)
def test_stored_numbers_with_the_adaptive_strategy_stop_nothing_if_they_divide_the_pods(
    first: Document, adaptive: Document, expected: list[str]
) -> None:
    strategy = {"type": "Adaptive", "adaptive": adaptive}
    topology = {"subsets": [subset(**first), subset("b", replicas=2)], "scheduleStrategy": strategy}
    document = united(topology=topology)
    assert f"{SUBSETS}[1].replicas" in fields(document)
    assert flaws(document) == expected


def test_a_stored_update_strategy_of_another_type_stops_nothing() -> None:
    document = united(subset(), updateStrategy={"type": "RollingUpdate"})
    assert fields(document) == ["spec.updateStrategy.type"]
    assert flaws(document) == []


# ── updates ──────────────────────────────────────────────────────────────


def test_a_stored_spec_that_cannot_be_read_hinders_no_correction() -> None:
    assert (
        fields(united_of(STATEFUL_SET), {"spec": {**united_of(STATEFUL_SET)["spec"], "replicas": "many"}})
        == []
    )


@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET])
def test_the_kind_of_template_may_become_one_with_fixed_fields(kind: str) -> None:
    """uniteddeployment case 15"""
    assert fields(united_of(kind), united_of(CLONE_SET)) == []


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        ([], None, True),
        (None, [], True),
        ([{"operator": "Exists"}], None, False),
        ([{"operator": "Exists"}], [{"operator": "Exists"}], True),
    ],
)
def test_tolerations_of_a_subset_stay(old: Any, new: Any, is_taken: bool) -> None:
    """uniteddeployment case 12"""
    tolerations = fields(united(subset(tolerations=new)), united(subset(tolerations=old)))
    assert tolerations == ([] if is_taken else [f"{SUBSETS}[0].tolerations"])


EXPRESSION: Document = {"key": "zone", "operator": "Exists"}


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        ({}, None, True),
        (None, {"matchExpressions": []}, True),
        ({"matchExpressions": [EXPRESSION]}, {"matchExpressions": [{**EXPRESSION, "values": []}]}, True),
        ({"matchExpressions": [EXPRESSION]}, {"matchExpressions": [EXPRESSION], "matchFields": None}, True),
        ({}, {"matchExpressions": [EXPRESSION]}, False),
        ({"matchExpressions": [EXPRESSION]}, None, False),
    ],
)
def test_the_nodes_of_a_subset_stay_and_an_empty_term_is_an_absent_one(
    old: Any, new: Any, is_taken: bool
) -> None:
    """uniteddeployment case 12. OpenKruise stores `nodeSelectorTerm: {}`."""
    terms = fields(united(subset(nodeSelectorTerm=new)), united(subset(nodeSelectorTerm=old)))
    assert terms == ([] if is_taken else [f"{SUBSETS}[0].nodeSelectorTerm"])


def test_a_toleration_with_empty_texts_is_the_same_one() -> None:
    given = [{"key": "a", "operator": "Exists"}]
    stored = [{"key": "a", "operator": "Exists", "value": "", "effect": ""}]
    assert fields(united(subset(tolerations=given)), united(subset(tolerations=stored))) == []


def claims_of(storage: str, **fields: Any) -> list[Document]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return [{"metadata": {"name": "data"}, "spec": spec, **fields}]


@pytest.mark.parametrize("kind", [STATEFUL_SET, ADVANCED_STATEFUL_SET])
@pytest.mark.parametrize("status", [{}, {"phase": "Pending"}])
def test_claims_in_the_form_of_a_go_client_are_not_changed_by_their_manifest(
    kind: str, status: Document
) -> None:
    """uniteddeployment case 13"""
    metadata = {"creationTimestamp": None, "name": "data"}
    stored = united_of(kind, volumeClaimTemplates=claims_of("1Gi", metadata=metadata, status=status))
    assert fields(united_of(kind, volumeClaimTemplates=claims_of("1024Mi")), stored) == []
    path = f"spec.template.{kind}.spec"
    assert fields(united_of(kind, volumeClaimTemplates=claims_of("2Gi")), stored) == [path]
    assert fields(united_of(kind), stored) == [path]
    labels = {"name": "data", "labels": {"a": "b"}}
    assert fields(united_of(kind, volumeClaimTemplates=claims_of("1Gi", metadata=labels)), stored) == [path]


def test_the_selector_is_immutable_until_the_controller_reports_that_it_differs() -> None:
    stored = united(subset(), kind=CLONE_SET)
    selector = stored["spec"]["selector"]
    changed = united(subset(), kind=CLONE_SET, selector={"matchLabels": {"app": "new"}})
    same = united(subset(), kind=CLONE_SET, selector={**selector, "matchExpressions": []})
    condition = {"type": "SelectorMismatch", "status": "True"}
    assert fields(changed, stored) == ["spec.selector"]
    assert fields(same, stored) == []
    assert fields(stored, {**changed, "status": {"conditions": [condition]}}) == []
    assert fields(stored, {**stored, "spec": {**stored["spec"], "selector": None}}) == []


def test_an_error_of_the_stored_spec_does_not_block_other_changes() -> None:
    """An autoscaler can scale subsets with 50% each to 3 replicas: the scale subresource has no admission."""
    halves = [subset("a", replicas="50%"), subset("b", replicas="50%")]
    stored = united(*halves, replicas=3)
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}
    assert set(fields(stored)) == {SUBSETS}
    assert fields(labelled, stored) == []
    assert fields(united(*halves, replicas=3, revisionHistoryLimit=5), stored) == []
    assert set(fields(united(*halves, replicas=5), stored)) == {SUBSETS}


@pytest.mark.parametrize("template", [{}, None, {**template_of(DEPLOYMENT), **template_of(CLONE_SET)}])
def test_an_unchanged_spec_is_not_validated_again(template: Document | None) -> None:
    stored = united(subset("A_b"), template=template)
    assert fields(stored) != []
    assert fields(stored, stored) == []


@pytest.mark.parametrize(
    "nothing",
    [
        {"volumeClaimTemplates": []},
        {"volumeClaimTemplates": None},
        {"podManagementPolicy": "Parallel", "revisionHistoryLimit": None},
        {"unheardOf": ""},
        {"unheardOf": {}},
    ],
)
def test_an_empty_value_is_not_a_change(nothing: Document) -> None:
    assert fields(united_of(STATEFUL_SET, **nothing), united_of(STATEFUL_SET)) == []
    assert fields(united_of(STATEFUL_SET), united_of(STATEFUL_SET, **nothing)) == []


# ── warnings ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pod", [None, {}, {"metadata": None, "spec": None}])
def test_a_clone_set_without_pods_is_doubted(pod: Document | None) -> None:
    template = {CLONE_SET: {"spec": {"template": pod}}}
    assert any(
        warning.startswith(f"spec.template.{CLONE_SET}.spec.template.spec.containers: ")
        for warning in warnings(united(subset(), template=template))
    )
    assert warnings(united(subset(), template={CLONE_SET: {"spec": None}}))


def test_a_field_unknown_to_kubernetes_causes_a_warning() -> None:
    (text,) = warnings(united_of(DEPLOYMENT, pod={"nodeNaem": "n1"}))
    assert f"spec.template.{DEPLOYMENT}.spec.template.spec.nodeNaem" in text


@pytest.mark.parametrize("kind", ALL_TEMPLATES)
def test_claims_of_the_workload_are_volumes_of_its_pods(kind: str) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod: Document = {"containers": [{"name": "main", "image": "nginx:1", "volumeMounts": mounts}]}
    claims = [{"metadata": {"name": "data"}}, {"metadata": None}, {"metadata": {"name": "data"}}]
    assert warnings(united_of(kind, pod=pod, volumeClaimTemplates=claims)) == []
    # also where a volume has the name of a claim
    pod["volumes"] = [{"name": "data", "emptyDir": {}}]
    assert warnings(united_of(kind, pod=pod, volumeClaimTemplates=claims)) == []
    # and without claims the mount has no volume
    del pod["volumes"]
    assert warnings(united_of(kind, pod=pod)) != []


BAD: Document = {"spec": {"containers": [{"name": name, "image": ""} for name in ("x", "y")]}}


def test_the_number_of_warnings_is_limited() -> None:
    containers = [{"name": f"c{number}", "image": ""} for number in range(20)]
    assert len(warnings(united_of(CLONE_SET, pod={"containers": containers}))) == 16
    patched = [subset(f"s{number}", patch=BAD) for number in range(16)]
    assert len(warnings(united(*patched))) == 16


def test_the_patches_of_the_first_sixteen_subsets_are_tried() -> None:
    subsets = [subset(f"s{number}") for number in range(18)]
    subsets[15]["patch"] = subsets[16]["patch"] = BAD
    assert {warning.partition(".patch")[0] for warning in warnings(united(*subsets))} == {f"{SUBSETS}[15]"}
