"""Conversions of the kinds whose versions differ in a few fields (CloneSet has a file of its own)."""

import json
from typing import Any

import pytest

from pykruise.kinds import list_conversions
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import convert

TABLE = list_conversions()
OLD, NEW = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"
KEPT_NEW = "pykruise.io/conversion-v1beta1"


def document(kind: str, version: str, metadata: Document | None = None, **parts: Any) -> Document:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", **(metadata or {})},
        **{part: value for part, value in parts.items() if value is not None},
    }


def to_new(doc: Document) -> Document:
    return convert(doc, doc["apiVersion"].replace("v1alpha1", "v1beta1"), TABLE)


def to_old(doc: Document) -> Document:
    return convert(doc, doc["apiVersion"].replace("v1beta1", "v1alpha1"), TABLE)


def kept(doc: Document) -> Any:
    return json.loads(doc["metadata"]["annotations"][KEPT_NEW])


# StatefulSet


def test_v1beta1_only_fields_of_a_statefulset_survive_a_write_through_v1alpha1() -> None:
    """statefulset case 82"""
    # given
    doc = document(
        "StatefulSet",
        NEW,
        spec={"replicas": 3, "reserveOrdinals": [1, "5-8"], "ordinals": {"start": 2}, "template": {}},
        status={"replicas": 3, "volumeClaims": [{"volumeClaimName": "data", "compatibleReplicas": 3}]},
    )
    # when
    shown = to_old(doc)
    assert shown["spec"] == {"replicas": 3, "template": {}}
    assert shown["status"] == {"replicas": 3}
    shown["spec"]["replicas"] = 5
    # then
    result = to_new(shown)
    assert result["spec"] == {**doc["spec"], "replicas": 5}
    assert result["status"] == doc["status"]
    assert "annotations" not in result["metadata"]


def test_a_statefulset_without_newer_fields_carries_no_annotation() -> None:
    doc = document("StatefulSet", NEW, spec={"replicas": 3})
    assert to_old(doc) == {**doc, "apiVersion": OLD}


# SidecarSet


def test_a_named_namespace_is_a_selector_in_v1beta1_and_a_name_where_it_was_written() -> None:
    """sidecarset case 28"""
    # given
    spec = {"namespace": "ns", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    # when
    result = to_new(document("SidecarSet", OLD, spec=spec))
    # then
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}
    assert result["spec"] == {"namespaceSelector": selector}
    assert to_old(result)["spec"] == spec


def test_the_custom_version_of_a_sidecarset_is_a_label_in_v1alpha1() -> None:
    """sidecarset case 29"""
    # given
    label = {"labels": {"apps.kruise.io/sidecarset-custom-version": "v1"}}
    # when
    result = to_new(document("SidecarSet", OLD, label, spec={}))
    # then
    assert result == document("SidecarSet", NEW, spec={"customVersion": "v1"})
    assert to_old(result) == document("SidecarSet", OLD, label, spec={})


def test_a_custom_version_removed_in_v1beta1_is_not_restored_by_a_label() -> None:
    # given a v1beta1 object that has the label only
    label = {"labels": {"apps.kruise.io/sidecarset-custom-version": "v1", "a": "b"}}
    doc = document("SidecarSet", NEW, label, spec={})
    # then
    assert to_old(doc)["metadata"]["labels"] == {"a": "b"}
    assert to_new(to_old(doc)) == doc


@pytest.mark.parametrize("value", [None, [], {}])
def test_absent_and_empty_stay_different_in_sidecars(value: Any) -> None:
    """The hash of a SidecarSet depends on the difference."""
    sidecar = {"name": "a", "shareVolumeDevicePolicy": value, "resourcesPolicy": value}
    doc = document("SidecarSet", OLD, spec={"containers": [sidecar], "initContainers": value})
    assert to_new(doc)["spec"] == doc["spec"]
    assert to_old(to_new(doc))["spec"] == doc["spec"]


# WorkloadSpread


def test_node_selectors_of_subsets_have_other_names_in_v1alpha1() -> None:
    # given
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    preferred = [{"weight": 1, "preference": term}]
    old = [{"name": "a", "requiredNodeSelectorTerm": term, "preferredNodeSelectorTerms": preferred}]
    new = [{"name": "a", "requiredNodeSelector": term, "preferredNodeSelector": preferred}]
    # then
    doc = document("WorkloadSpread", OLD, spec={"subsets": old})
    assert to_new(doc) == document("WorkloadSpread", NEW, spec={"subsets": new})
    assert to_old(to_new(doc)) == doc


@pytest.mark.parametrize("where", ["subsetStatuses", "versionedSubsetStatuses"])
def test_a_condition_without_a_reason_gets_one_in_v1beta1(where: str) -> None:
    """workloadspread case 72"""
    # given
    subsets = [{"name": "a", "conditions": [{"type": "Schedulable", "status": "True", "reason": ""}]}]
    status = {where: {"rev": subsets} if where.startswith("versioned") else subsets}
    # when
    result = to_new(document("WorkloadSpread", OLD, status=status))["status"][where]
    # then
    (subset,) = result["rev"] if where.startswith("versioned") else result
    assert subset["conditions"][0]["reason"] == "Unknown"


@pytest.mark.parametrize(
    ("given", "reason", "message"),
    [
        ({}, "Unknown", ""),
        ({"reason": None, "message": None}, "Unknown", ""),
        ({"reason": "Full", "message": "no place"}, "Full", "no place"),
    ],
)
def test_conditions_keep_their_reason_and_message_or_get_defaults(
    given: Document, reason: str, message: str
) -> None:
    condition = {"type": "Schedulable", "status": "True", **given}
    doc = document(
        "WorkloadSpread", OLD, status={"subsetStatuses": [{"name": "a", "conditions": [condition]}]}
    )
    (result,) = to_new(doc)["status"]["subsetStatuses"][0]["conditions"]
    assert result == {"type": "Schedulable", "status": "True", "reason": reason, "message": message}


def test_the_observed_generation_of_a_condition_is_kept() -> None:
    # given
    condition = {
        "type": "Schedulable",
        "status": "True",
        "reason": "X",
        "message": "",
        "observedGeneration": 7,
    }
    doc = document(
        "WorkloadSpread", NEW, status={"subsetStatuses": [{"name": "a", "conditions": [condition]}]}
    )
    # when
    shown = to_old(doc)
    # then
    assert "observedGeneration" not in shown["status"]["subsetStatuses"][0]["conditions"][0]
    assert to_new(shown) == doc


# UnitedDeployment


def test_the_status_of_v1alpha1_has_maps_where_that_of_v1beta1_has_a_list() -> None:
    # given
    subsets = [{"name": "a", "replicas": 2, "partition": 1}, {"name": "b"}]
    doc = document("UnitedDeployment", NEW, status={"updatedRevision": "r2", "subsetStatuses": subsets})
    # when
    shown = to_old(doc)
    # then
    assert shown["status"] == {
        "subsetStatuses": subsets,
        "subsetReplicas": {"a": 2, "b": 0},
        "updateStatus": {"updatedRevision": "r2", "currentPartitions": {"a": 1, "b": 0}},
    }
    assert "annotations" not in shown["metadata"]
    assert to_new(shown) == doc


def test_numbers_without_an_entry_get_one() -> None:
    """uniteddeployment case 60"""
    result = to_new(document("UnitedDeployment", OLD, status={"subsetReplicas": {"b": 1, "a": 2}}))
    assert result["status"] == {
        "subsetStatuses": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}]
    }


def test_a_status_without_subsets_has_no_update_status() -> None:
    assert to_old(document("UnitedDeployment", NEW, status={"replicas": 0}))["status"] == {"replicas": 0}


def template_with_spec(spec: Document) -> Document:
    return {"template": {"cloneSetTemplate": {"spec": spec}}}


NESTED = {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": 2}}


@pytest.mark.parametrize(
    ("released", "newer"),
    [
        ({}, {"scaleStrategy": {"enablePVCReuse": True}}),
        (
            {
                "updateStrategy": {"type": "InPlaceOnly", "partition": 2},
                "scaleStrategy": {"disablePVCReuse": True},
            },
            {"updateStrategy": NESTED, "scaleStrategy": {"enablePVCReuse": False}},
        ),
        (
            {"updateStrategy": {"maxSurge": 1}},
            {
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"podUpdatePolicy": "ReCreate", "maxSurge": 1},
                },
                "scaleStrategy": {"enablePVCReuse": True},
            },
        ),
    ],
)
def test_a_cloneset_template_of_a_released_version_is_read_and_shown_as_v1alpha1(
    released: Document, newer: Document
) -> None:
    """uniteddeployment case 61"""
    written = document("UnitedDeployment", OLD, spec=template_with_spec(released))
    result = to_new(written)
    assert result == document("UnitedDeployment", NEW, spec=template_with_spec(newer))
    shown = to_old(result)["spec"]["template"]["cloneSetTemplate"]["spec"]
    assert to_new(to_old(result)) == result
    for field, value in released.items():
        assert value.items() <= shown[field].items()


@pytest.mark.parametrize(
    "newer",
    [
        {"updateStrategy": NESTED},
        {"updateStrategy": {"type": "RollingUpdate"}},
        {"scaleStrategy": {"enablePVCReuse": True}},
        {"updateStrategy": NESTED, "scaleStrategy": {"enablePVCReuse": False}},
    ],
)
def test_a_clone_set_template_with_v1beta1_fields_is_the_same_in_both_versions(newer: Document) -> None:
    result = to_new(document("UnitedDeployment", OLD, spec=template_with_spec(newer)))
    assert result["spec"] == template_with_spec(newer)
    assert to_old(result)["spec"] == template_with_spec(newer)
    assert to_new(to_old(result)) == result


def test_a_client_that_writes_the_other_form_wins() -> None:
    shown = to_old(
        to_new(document("UnitedDeployment", OLD, spec=template_with_spec({"updateStrategy": NESTED})))
    )
    strategy = shown["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"]
    strategy |= {"type": "InPlaceIfPossible", "partition": 5}
    wins = to_new(shown)
    changed = wins["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"]
    assert changed["rollingUpdate"] == {"podUpdatePolicy": "InPlaceIfPossible", "partition": 5}
    shown = to_old(wins)
    shown["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"]["rollingUpdate"] = {
        "partition": 7
    }
    again = to_new(shown)["spec"]["template"]["cloneSetTemplate"]["spec"]["updateStrategy"]
    assert again["rollingUpdate"] == {"podUpdatePolicy": "InPlaceIfPossible", "partition": 7}


# AdvancedCronJob, BroadcastJob, ImagePullJob, ImageListPullJob, NodeImage


@pytest.mark.parametrize("kind", ["AdvancedCronJob", "BroadcastJob", "ImagePullJob", "ImageListPullJob"])
@pytest.mark.parametrize(("version", "other"), [(OLD, NEW), (NEW, OLD)])
def test_kinds_with_the_same_fields_change_their_version_only(kind: str, version: str, other: str) -> None:
    doc = document(kind, version, spec={"template": {"imageListPullJobTemplate": {"spec": {}}}, "images": []})
    assert convert(doc, other, TABLE) == {**doc, "apiVersion": other}


def test_the_mode_of_a_secret_survives_a_write_through_v1alpha1() -> None:
    # given
    secrets = [
        {"namespace": "d", "name": "a", "mode": "batch"},
        {"namespace": "d", "name": "b", "mode": "batch"},
        {"namespace": "d", "name": "c"},
    ]
    shown = to_old(
        document("NodeImage", NEW, spec={"images": {"nginx": {"pullSecrets": secrets, "tags": []}}})
    )
    image = shown["spec"]["images"]["nginx"]
    assert not any("mode" in secret for secret in image["pullSecrets"])
    # when one entry is removed, and a tag is added
    del image["pullSecrets"][0]
    image["tags"].append({"tag": "1"})
    # then
    result = to_new(shown)
    assert result["spec"]["images"]["nginx"] == {"pullSecrets": secrets[1:], "tags": [{"tag": "1"}]}


def test_only_the_version_of_an_empty_nodeimage_is_converted() -> None:
    doc = document("NodeImage", NEW, spec=None)
    assert to_old(doc) == {**doc, "apiVersion": OLD}


# ContainerRecreateRequest

SNAPSHOT = [{"name": "main", "ready": True, "restartCount": 1, "containerID": "x://1"}]
SYNC = "crr.apps.kruise.io/sync-container-statuses"
UNREADY = "crr.apps.kruise.io/unready-acquired"


def test_annotations_of_a_v1alpha1_request_are_parts_of_its_status() -> None:
    """containers case 29"""
    # given
    annotations = {SYNC: json.dumps(SNAPSHOT), UNREADY: "2026-01-31T14:00:00+02:00"}
    doc = document("ContainerRecreateRequest", OLD, {"annotations": annotations}, status={"phase": "Pending"})
    # when
    result = to_new(doc)
    # then
    assert result["status"]["containerStatusSnapshot"] == SNAPSHOT
    (condition,) = result["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PreRecreateGrace", "True")
    assert condition["lastTransitionTime"] == "2026-01-31T12:00:00Z"
    assert result["metadata"]["annotations"] == annotations
    assert to_old(result) == doc


@pytest.mark.parametrize("text", ["", "{", "7", '[{"name":1}]', "null", 7, None, {}])
def test_an_unreadable_annotation_is_kept(text: Any) -> None:
    """containers case 29"""
    annotations = {SYNC: text, UNREADY: text}
    doc = document("ContainerRecreateRequest", OLD, {"annotations": annotations}, status={"phase": "Pending"})
    assert to_new(doc) == {**doc, "apiVersion": NEW}


def grace(status: str) -> Document:
    return {
        "type": "PreRecreateGrace",
        "status": status,
        "reason": "X",
        "message": "held back",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("status", "annotation"), [("True", "2026-01-31T12:00:00Z"), ("False", None), ("Unknown", None)]
)
def test_the_grace_of_a_request_is_an_annotation_in_v1alpha1(status: str, annotation: str | None) -> None:
    """containers case 30"""
    # given
    parts = {"phase": "Recreating", "conditions": [grace(status)], "containerStatusSnapshot": SNAPSHOT}
    doc = document("ContainerRecreateRequest", NEW, status=parts)
    # when
    shown = to_old(doc)
    # then
    assert shown["status"] == {"phase": "Recreating"}
    assert shown["metadata"]["annotations"].get(UNREADY) == annotation
    assert json.loads(shown["metadata"]["annotations"][SYNC]) == SNAPSHOT
    assert to_new(shown)["status"] == doc["status"]


def test_a_condition_of_another_type_is_not_a_grace_period() -> None:
    other = {**grace("True"), "type": "Other"}
    parts = {"phase": "Recreating", "conditions": [other]}
    shown = to_old(document("ContainerRecreateRequest", NEW, status=parts))
    assert UNREADY not in (shown["metadata"].get("annotations") or {})


@pytest.mark.parametrize("stored", ["2026-01-31T12:00:00Z", "soon"])
def test_the_unready_annotation_is_removed_with_its_condition(stored: str) -> None:
    """containers case 30"""
    status = {"phase": "Recreating", "conditions": [grace("False")]}
    doc = document("ContainerRecreateRequest", NEW, {"annotations": {UNREADY: stored}}, status=status)
    assert UNREADY not in to_old(doc)["metadata"]["annotations"]


@pytest.mark.parametrize("stored", ["[]", json.dumps(SNAPSHOT), "{"])
def test_an_annotation_stays_until_the_status_replaces_it(stored: str) -> None:
    annotations = {SYNC: stored, UNREADY: "2026-01-31T12:00:00Z"}
    doc = document("ContainerRecreateRequest", NEW, {"annotations": annotations}, status={"phase": "Pending"})
    assert to_old(doc)["metadata"]["annotations"] == annotations


def test_an_annotation_that_was_written_without_a_status_stays() -> None:
    doc = document("ContainerRecreateRequest", NEW, {"annotations": {SYNC: "[]"}}, spec={})
    assert to_old(doc) == {**doc, "apiVersion": OLD}


# PersistentPodState


def test_topology_keys_have_another_name_in_v1alpha1() -> None:
    """persistentpodstate case 57"""

    def spec(name: str) -> Document:
        keys = {name: ["zone", "host", "zone"]}
        return {
            "requiredPersistentTopology": keys,
            "preferredPersistentTopology": [{"weight": 1, "preference": keys}],
            "persistentPodStateRetentionPolicy": "Anything",
        }

    old = document("PersistentPodState", OLD, spec=spec("nodeTopologyKeys"))
    new = document("PersistentPodState", NEW, spec=spec("keys"))
    assert (to_new(old), to_old(new)) == (new, old)


@pytest.mark.parametrize(
    "spec", [None, {}, {"preferredPersistentTopology": [{"weight": 1}], "requiredPersistentTopology": None}]
)
def test_a_state_without_topologies_changes_its_version_only(spec: Document | None) -> None:
    doc = document("PersistentPodState", OLD, spec=spec)
    assert to_new(doc) == {**doc, "apiVersion": NEW}
    assert to_old(to_new(doc)) == doc


# ResourceDistribution


def test_a_client_of_v1alpha1_sees_the_names_of_v1alpha1() -> None:
    """admission case 57"""
    selector = {"matchLabels": {"a": "b"}}
    new = document(
        "ResourceDistribution",
        NEW,
        spec={"targets": {"namespaceSelector": selector}},
        status={"conditions": [{"type": "Get", "failedNamespaces": ["x"]}]},
    )
    old = document(
        "ResourceDistribution",
        OLD,
        spec={"targets": {"namespaceLabelSelector": selector}},
        status={"conditions": [{"type": "Get", "failedNamespace": ["x"]}]},
    )
    assert (to_new(old), to_old(new)) == (new, old)


# PodUnavailableBudget

OPERATIONS = "kruise.io/pub-protect-operations"
TOTAL = "pub.kruise.io/protect-total-replicas"
OLD_POLICY, NEW_POLICY = "policy.kruise.io/v1alpha1", "policy.kruise.io/v1beta1"


def test_annotations_of_a_v1alpha1_budget_are_fields() -> None:
    """podunavailablebudget case 14"""
    annotations = {OPERATIONS: "EVICT, UPDATE,", TOTAL: "9"}
    doc = document("PodUnavailableBudget", OLD_POLICY, {"annotations": annotations}, spec={})
    result = to_new(doc)
    assert result["spec"] == {"protectOperations": ["EVICT", "UPDATE"], "protectTotalReplicas": 9}
    assert to_new(to_old(result))["spec"] == result["spec"]


UNCLEAR: list[Document] = [
    {OPERATIONS: "DELETE,BOGUS"},
    {TOTAL: "many"},
    {TOTAL: "4294967296"},
    {TOTAL: "9" * 5000},
]


@pytest.mark.parametrize("annotations", UNCLEAR)
def test_a_v1alpha1_budget_that_cannot_be_understood_can_be_listed(annotations: Document) -> None:
    """podunavailablebudget case 15; a conversion error would fail the list of all budgets"""
    # given a budget that was stored without validation
    doc = document("PodUnavailableBudget", OLD_POLICY, {"annotations": annotations}, spec={})
    # then it has the default, which protects from every operation, and is converted back unchanged
    assert to_new(doc)["spec"] == {}
    assert to_old(to_new(doc)) == doc
    # in v1beta1 the annotations mean nothing
    stored = document("PodUnavailableBudget", NEW_POLICY, {"annotations": annotations}, spec={})
    assert to_new(to_old(stored)) == stored


def test_fields_of_a_budget_are_annotations_in_v1alpha1() -> None:
    """podunavailablebudget case 16"""
    spec = {"protectOperations": ["DELETE", "RESIZE"], "protectTotalReplicas": 9}
    shown = to_old(document("PodUnavailableBudget", NEW_POLICY, spec=spec))
    assert shown["spec"] == {}
    assert shown["metadata"]["annotations"] == {OPERATIONS: "DELETE,RESIZE", TOTAL: "9"}


def test_a_stale_annotation_of_a_budget_is_not_shown() -> None:
    """podunavailablebudget case 17"""
    # given
    annotations = {OPERATIONS: "DELETE", TOTAL: "3", "a": "b"}
    doc = document("PodUnavailableBudget", NEW_POLICY, {"annotations": annotations}, spec={})
    # then
    shown = to_old(doc)
    assert OPERATIONS not in shown["metadata"]["annotations"]
    assert TOTAL not in shown["metadata"]["annotations"]
    assert to_new(shown) == doc


def test_ignored_pods_of_a_budget_survive_a_write_through_v1alpha1() -> None:
    """podunavailablebudget 2.3"""
    spec = {"maxUnavailable": 1, "ignoredPodSelector": {"matchLabels": {"a": "b"}}}
    doc = document("PodUnavailableBudget", NEW_POLICY, spec=spec)
    shown = to_old(doc)
    shown["spec"]["maxUnavailable"] = 2
    assert to_new(shown)["spec"] == {**spec, "maxUnavailable": 2}
