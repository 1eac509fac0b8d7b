"""Conversions of the kinds whose versions differ in a few fields (CloneSet has a file of its own)."""

import json
from typing import Any

import pytest

from pykruise.kinds import conversions
from pykruise.kube.conversion import convert
from pykruise.kube.documents import Document

TABLE = conversions()
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


def test_what_only_v1beta1_statefulsets_have_survives_a_write_through_v1alpha1() -> None:
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
    found = to_new(shown)
    assert found["spec"] == {**doc["spec"], "replicas": 5}
    assert found["status"] == doc["status"]
    assert "annotations" not in found["metadata"]


def test_a_statefulset_without_newer_fields_carries_no_annotation() -> None:
    doc = document("StatefulSet", NEW, spec={"replicas": 3})
    assert to_old(doc) == {**doc, "apiVersion": OLD}


# SidecarSet


def test_a_named_namespace_becomes_a_selector_for_good() -> None:
    """sidecarset case 28"""
    # given
    spec = {"namespace": "ns", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    # when
    found = to_new(document("SidecarSet", OLD, spec=spec))
    # then
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}
    assert found == document("SidecarSet", NEW, spec={"namespaceSelector": selector})
    assert to_old(found)["spec"] == {"namespaceSelector": selector}


def test_the_version_of_ones_own_is_a_label_in_v1alpha1() -> None:
    """sidecarset case 29"""
    # given
    label = {"labels": {"apps.kruise.io/sidecarset-custom-version": "v1"}}
    # when
    found = to_new(document("SidecarSet", OLD, label, spec={}))
    # then
    assert found == document("SidecarSet", NEW, spec={"customVersion": "v1"})
    assert to_old(found) == document("SidecarSet", OLD, label, spec={})


def test_a_version_taken_away_in_v1beta1_is_not_brought_back_by_a_label() -> None:
    # given a v1beta1 object that has the label only
    label = {"labels": {"apps.kruise.io/sidecarset-custom-version": "v1", "a": "b"}}
    doc = document("SidecarSet", NEW, label, spec={})
    # then
    assert to_old(doc)["metadata"]["labels"] == {"a": "b"}
    assert to_new(to_old(doc)) == doc


@pytest.mark.parametrize("value", [None, [], {}])
def test_absent_and_empty_are_told_apart_in_sidecars(value: Any) -> None:
    """The hash of a SidecarSet depends on it."""
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
    found = to_new(document("WorkloadSpread", OLD, status=status))["status"][where]
    # then
    (subset,) = found["rev"] if where.startswith("versioned") else found
    assert subset["conditions"][0]["reason"] == "Unknown"


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
