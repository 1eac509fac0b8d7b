"""CloneSets between v1alpha1 and v1beta1."""

import json
from typing import Any

import pytest

from pykruise.kinds import list_conversions
from pykruise.kinds.cloneset.conversion import EXCLUDE_PREPARING_DELETE
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import convert
from pykruise.pods.view import keys

MIN_UPDATED_READY = keys.PRE_DOWNLOAD_MIN_UPDATED_READY_ANNOTATION
PARALLELISM = keys.PRE_DOWNLOAD_PARALLELISM_ANNOTATION
TIMEOUT_SECONDS = keys.PRE_DOWNLOAD_TIMEOUT_ANNOTATION

OLD, NEW = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"
KEPT_NEW, KEPT_OLD = "pykruise.io/conversion-v1beta1", "pykruise.io/conversion-v1alpha1"


def cloneset(version: str, metadata: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": version,
        "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "default", **(metadata or {})},
        "spec": {"selector": {}, "template": {}, **spec},
    }


def to_new(doc: Document) -> Document:
    return convert(doc, NEW, list_conversions())


def to_old(doc: Document) -> Document:
    return convert(doc, OLD, list_conversions())


@pytest.mark.parametrize("scale", [{}, {"scaleStrategy": None}, {"scaleStrategy": {}}])
def test_claims_are_reused_in_v1alpha1_by_default(scale: Document) -> None:
    """cloneset case 2"""
    assert to_new(cloneset(OLD, **scale))["spec"]["scaleStrategy"] == {"enablePVCReuse": True}


@pytest.mark.parametrize("scale", [{}, {"scaleStrategy": {"enablePVCReuse": False}}])
def test_a_disabled_reuse_of_claims_is_shown_in_v1alpha1(scale: Document) -> None:
    """cloneset case 3"""
    assert to_old(cloneset(NEW, **scale))["spec"]["scaleStrategy"] == {"disablePVCReuse": True}


@pytest.mark.parametrize(("label", "excludes"), [("true", True), ("True", None), ("1", None)])
def test_only_the_exact_label_excludes_preparing_delete(label: str, excludes: bool | None) -> None:
    """cloneset case 4"""
    # when
    doc = cloneset(OLD, {"labels": {EXCLUDE_PREPARING_DELETE: label}})
    result = to_new(doc)
    # then
    assert result["spec"]["scaleStrategy"].get("excludePreparingDelete") is excludes
    assert result["metadata"] == doc["metadata"]
    assert to_old(result)["metadata"] == doc["metadata"]


def test_excluding_preparing_delete_is_a_label_in_v1alpha1_and_removed_with_the_field() -> None:
    """cloneset 9.2.7"""
    # given
    excluding = cloneset(NEW, scaleStrategy={"enablePVCReuse": True, "excludePreparingDelete": True})
    shown = to_old(excluding)
    assert shown["metadata"]["labels"] == {EXCLUDE_PREPARING_DELETE: "true"}
    # when a client of v1beta1 takes the field back, but not the label
    stored = to_new(shown)
    stored["spec"]["scaleStrategy"]["excludePreparingDelete"] = False
    # then a write through v1alpha1 does not bring it back
    assert "labels" not in to_old(stored)["metadata"]
    assert not to_new(to_old(stored))["spec"]["scaleStrategy"].get("excludePreparingDelete")


def test_pre_download_settings_are_read_from_numeric_annotations() -> None:
    """cloneset case 5"""
    # when
    doc = cloneset(
        OLD,
        {"annotations": {PARALLELISM: "10", TIMEOUT_SECONDS: "abc", MIN_UPDATED_READY: ""}},
        updateStrategy={"type": "InPlaceOnly"},
    )
    # then
    rolling = to_new(doc)["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling["inPlaceUpdateStrategy"] == {"imagePreDownloadParallelism": 10}
    assert to_old(to_new(doc))["metadata"] == doc["metadata"]


@pytest.mark.parametrize(
    ("share", "replicas", "pods"),
    [
        ("50%", 5, 3),
        ("100%", 5, 5),
        ("12.5%", 16, 2),
        ("0%", 5, 0),
        ("50%", 0, 0),
        ("100%", None, 1),
        ("100%", -5, 0),
        ("100%", "many", 1),
    ],
)
def test_a_share_of_ready_pods_is_resolved_against_replicas(
    share: str, replicas: int | str | None, pods: int
) -> None:
    """cloneset 9.2.8: rounded up; the default of replicas is one. Validation checks the value of replicas"""
    # given
    spec = {} if replicas is None else {"replicas": replicas}
    doc = cloneset(
        OLD, {"annotations": {MIN_UPDATED_READY: share}}, updateStrategy={"type": "InPlaceOnly"}, **spec
    )
    # when
    result = to_new(doc)
    # then
    rolling = result["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling["inPlaceUpdateStrategy"] == {"imagePreDownloadMinUpdatedReadyPods": pods}
    # and it stays a percentage for the client that wrote it
    assert to_old(result)["metadata"] == doc["metadata"]


def test_an_outdated_percentage_is_replaced_by_the_number() -> None:
    """cloneset 9.2.8: v1beta1 keeps the number, even when replicas change"""
    # given
    doc = cloneset(
        OLD, {"annotations": {MIN_UPDATED_READY: "50%"}}, updateStrategy={"type": "InPlaceOnly"}, replicas=4
    )
    stored = to_new(doc)
    # when
    stored["spec"]["replicas"] = 10
    # then
    shown = to_old(stored)
    assert shown["metadata"]["annotations"][MIN_UPDATED_READY] == "2"
    assert to_new(shown) == stored


def test_a_percentage_removed_in_v1beta1_is_not_restored() -> None:
    doc = cloneset(
        OLD, {"annotations": {MIN_UPDATED_READY: "50%"}}, updateStrategy={"type": "InPlaceOnly"}, replicas=4
    )
    stored = to_new(doc)
    del stored["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"]
    assert to_new(to_old(stored))["spec"] == stored["spec"]


def test_a_parallelism_that_is_not_a_number_is_stored_as_text() -> None:
    doc = cloneset(OLD, {"annotations": {PARALLELISM: "20%"}}, updateStrategy={"type": "InPlaceOnly"})
    rolling = to_new(doc)["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling["inPlaceUpdateStrategy"] == {"imagePreDownloadParallelism": "20%"}


@pytest.mark.parametrize("text", ["99999999999", "-2147483649", "1_000", " 5", "9" * 5000, "9999999999999%"])
def test_a_pre_download_setting_that_does_not_fit_into_its_field_is_left_out(text: str) -> None:
    """Otherwise the spec could not be read."""
    annotations = {TIMEOUT_SECONDS: text, MIN_UPDATED_READY: text}
    doc = cloneset(OLD, {"annotations": annotations}, updateStrategy={"type": "InPlaceOnly"})
    rolling = to_new(doc)["spec"]["updateStrategy"]["rollingUpdate"]
    assert not rolling.get("inPlaceUpdateStrategy")
    assert to_old(to_new(doc))["metadata"] == doc["metadata"]


def test_pre_download_settings_are_annotations_in_v1alpha1() -> None:
    """cloneset case 6"""
    # when
    in_place = {
        "gracePeriodSeconds": 3,
        "imagePreDownloadParallelism": 5,
        "imagePreDownloadTimeoutSeconds": 60,
        "imagePreDownloadMinUpdatedReadyPods": 0,
    }
    doc = cloneset(
        NEW,
        updateStrategy={
            "type": "RollingUpdate",
            "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "inPlaceUpdateStrategy": in_place},
        },
    )
    annotations = to_old(doc)
    # then
    strategy = {"type": "InPlaceOnly", "inPlaceUpdateStrategy": {"gracePeriodSeconds": 3}}
    assert annotations["spec"]["updateStrategy"] == strategy
    assert annotations["metadata"]["annotations"] == {
        PARALLELISM: "5",
        TIMEOUT_SECONDS: "60",
        MIN_UPDATED_READY: "0",
    }
    assert to_new(annotations)["spec"] == {**doc["spec"], "scaleStrategy": {"enablePVCReuse": False}}


@pytest.mark.parametrize(
    ("in_place", "shown"),
    [
        ({"imagePreDownloadParallelism": 5}, {}),
        ({"imagePreDownloadTimeoutSeconds": 0, "gracePeriodSeconds": 0}, {"gracePeriodSeconds": 0}),
        ({}, {}),
    ],
)
def test_a_strategy_with_only_pre_download_is_not_shown_in_v1alpha1(
    in_place: Document, shown: Document
) -> None:
    """cloneset 2.5: but an empty strategy from a client stays"""
    # given
    rolling = {"podUpdatePolicy": "InPlaceOnly", "inPlaceUpdateStrategy": in_place}
    doc = cloneset(NEW, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    # when
    strategy = to_old(doc)["spec"]["updateStrategy"]
    # then
    if shown or not in_place:
        assert strategy["inPlaceUpdateStrategy"] == shown
    else:
        assert "inPlaceUpdateStrategy" not in strategy


def test_fields_of_pre_download_that_a_client_of_v1alpha1_writes_do_not_count() -> None:
    """cloneset 2.5: only the annotations count; the fields are shown again as they were written"""
    # given
    in_place = {"gracePeriodSeconds": 3, "imagePreDownloadParallelism": 7}
    doc = cloneset(OLD, updateStrategy={"type": "InPlaceOnly", "inPlaceUpdateStrategy": in_place})
    # when
    fields = to_new(doc)
    # then
    rolling = fields["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling["inPlaceUpdateStrategy"] == {"gracePeriodSeconds": 3}
    assert to_old(fields)["spec"]["updateStrategy"] == doc["spec"]["updateStrategy"]


@pytest.mark.parametrize("text", ["05", "+5", "5"])
def test_a_number_keeps_its_notation_in_its_annotation(text: str) -> None:
    doc = cloneset(OLD, {"annotations": {PARALLELISM: text}}, updateStrategy={"type": "InPlaceOnly"})
    result = to_new(doc)
    assert KEPT_OLD not in result["metadata"]["annotations"]
    assert to_old(result)["metadata"] == doc["metadata"]


def test_pre_download_annotations_are_ignored_under_on_delete() -> None:
    doc = cloneset(OLD, {"annotations": {PARALLELISM: "5"}}, updateStrategy={"type": "OnDelete"})
    assert to_new(doc)["spec"]["updateStrategy"] == {"type": "OnDelete"}


@pytest.mark.parametrize("parallelism", ["5", "20%"])
def test_a_setting_removed_in_v1beta1_is_not_restored_by_its_annotation(parallelism: str) -> None:
    # given
    stored = to_new(
        cloneset(OLD, {"annotations": {PARALLELISM: parallelism}}, updateStrategy={"type": "InPlaceOnly"})
    )
    # when
    del stored["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"]
    # then
    again = to_new(to_old(stored))
    assert again["spec"] == stored["spec"]
    assert PARALLELISM not in to_old(stored)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        (None, None),
        ({}, {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}}),
        (
            {"type": "InPlaceIfPossible", "partition": "20%", "maxSurge": 1, "paused": True},
            {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "podUpdatePolicy": "InPlaceIfPossible",
                    "partition": "20%",
                    "maxSurge": 1,
                    "paused": True,
                },
            },
        ),
        (
            {"type": "Unknown", "maxUnavailable": 0},
            {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate", "maxUnavailable": 0}},
        ),
        ({"type": "OnDelete", "partition": 3}, {"type": "OnDelete"}),
    ],
)
def test_the_flat_strategy_becomes_a_nested_one(flat: Document | None, nested: Document | None) -> None:
    # when
    result = to_new(cloneset(OLD, updateStrategy=flat))
    # then
    assert result["spec"]["updateStrategy"] == nested
    back = to_old(result)["spec"]["updateStrategy"]
    assert back == ({"type": "ReCreate"} if flat == {} else flat)


def test_settings_under_on_delete_survive_a_write_through_v1alpha1() -> None:
    """cloneset 9.2.7"""
    # given
    rolling = {"podUpdatePolicy": "InPlaceOnly", "partition": 2, "maxSurge": 0}
    doc = cloneset(NEW, updateStrategy={"type": "OnDelete", "rollingUpdate": rolling})
    shown = to_old(doc)
    assert shown["spec"]["updateStrategy"] == {"type": "OnDelete", "partition": 2, "maxSurge": 0}
    # when
    shown["spec"]["replicas"] = 9
    # then
    result = to_new(shown)
    assert result["spec"]["updateStrategy"] == doc["spec"]["updateStrategy"]
    assert "annotations" not in result["metadata"]


def test_a_type_written_in_v1alpha1_overrides_the_kept_policy() -> None:
    # given
    rolling = {"podUpdatePolicy": "InPlaceOnly", "partition": 2}
    shown = to_old(cloneset(NEW, updateStrategy={"type": "OnDelete", "rollingUpdate": rolling}))
    # when
    shown["spec"]["updateStrategy"] |= {"type": "ReCreate", "partition": 3}
    # then
    assert to_new(shown)["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "ReCreate", "partition": 3},
    }


def test_settings_of_a_v1alpha1_on_delete_are_kept_on_the_stored_object() -> None:
    stored = to_new(cloneset(OLD, updateStrategy={"type": "OnDelete", "partition": 3}))
    assert json.loads(stored["metadata"]["annotations"][KEPT_OLD]) == {
        "spec": {"updateStrategy": {"partition": 3}}
    }


def test_templates_status_and_unknown_fields_are_converted_unchanged() -> None:
    doc = cloneset(
        OLD,
        {"uid": "1", "ownerReferences": [{"uid": "2"}], "managedFields": [{"manager": "x"}]},
        template={"metadata": None, "spec": {"containers": [{"name": "a", "new": {"b": [None]}}]}},
        volumeClaimTemplates=[{"metadata": {"name": "data"}}],
        future={"x": 1},
        scaleStrategy={"podsToDelete": [], "future": 1},
        updateStrategy={"type": "ReCreate", "future": 2},
    )
    doc |= {"status": {"replicas": 0, "conditions": []}, "extra": True}
    result = to_new(doc)
    for part in ("metadata", "status", "extra"):
        assert result[part] == doc[part]
    for field in ("template", "volumeClaimTemplates", "future"):
        assert result["spec"][field] == doc["spec"][field]
    assert result["spec"]["scaleStrategy"]["podsToDelete"] == []
    assert result["spec"]["updateStrategy"]["future"] == 2
    back = to_old(result)
    assert back["spec"].pop("scaleStrategy") == {"podsToDelete": [], "future": 1, "disablePVCReuse": False}
    assert back["spec"] == {field: doc["spec"][field] for field in back["spec"]}


@pytest.mark.parametrize(
    "spec",
    [
        {"scaleStrategy": "x", "updateStrategy": 3},
        {"scaleStrategy": [1], "updateStrategy": [1]},
        {"updateStrategy": {"type": 7, "rollingUpdate": "x", "inPlaceUpdateStrategy": "y"}},
    ],
)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_malformed_objects_are_converted_as_far_as_possible(spec: Document, version: str) -> None:
    other = NEW if version == OLD else OLD
    doc = cloneset(version, {"labels": ["x"], "annotations": "y"}, **spec)
    result = convert(doc, other, list_conversions())
    assert result["apiVersion"] == other
    assert result["spec"]["selector"] == {}
