"""DaemonSets between v1alpha1 and v1beta1."""

from typing import Any

import pytest

from pykruise.kinds import list_conversions
from pykruise.kinds.daemonset.conversion import PROGRESSIVE
from pykruise.kube.schemas.conversion import ConversionError, convert

V1ALPHA1, V1BETA1 = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"


def document(version: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"apiVersion": version, "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def to(version: str, doc: dict[str, Any]) -> dict[str, Any]:
    return convert(doc, version, list_conversions())


def strategy(**rolling: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def test_the_annotation_is_the_field_and_stays() -> None:
    """daemonset case 15"""
    stays = to(V1BETA1, document(V1ALPHA1, annotations={PROGRESSIVE: "true"}))
    assert stays["spec"]["scaleStrategy"] == {"partitionedScaling": True}
    assert stays["metadata"]["annotations"] == {PROGRESSIVE: "true"}
    back = to(V1ALPHA1, stays)
    assert back["metadata"]["annotations"] == {PROGRESSIVE: "true"}
    assert "scaleStrategy" not in back["spec"]


def test_the_annotation_extends_an_existing_scale_strategy() -> None:
    doc = document(V1ALPHA1, annotations={PROGRESSIVE: "true"}, scaleStrategy={"other": 1})
    assert to(V1BETA1, doc)["spec"]["scaleStrategy"] == {"other": 1, "partitionedScaling": True}


def test_partitioned_scaling_disabled_in_v1beta1_is_not_restored_by_the_stored_annotation() -> None:
    """daemonset case 15"""
    # given a v1beta1 object whose field was switched off, and that still has the annotation
    stored = document(V1BETA1, annotations={PROGRESSIVE: "true"}, scaleStrategy={"partitionedScaling": False})
    # when a v1alpha1 client reads and writes it
    read = to(V1ALPHA1, stored)
    assert read["metadata"]["annotations"] == {
        "pykruise.io/conversion-v1beta1": '{"spec":{"scaleStrategy":{"partitionedScaling":false}}}'
    }
    written = to(V1BETA1, read)
    # then
    assert written["spec"].get("scaleStrategy", {}).get("partitionedScaling") is not True


@pytest.mark.parametrize("text", ["True", "false", "1", ""])
def test_any_annotation_text_other_than_true_is_false(text: str) -> None:
    """daemonset case 16"""
    assert "scaleStrategy" not in to(V1BETA1, document(V1ALPHA1, annotations={PROGRESSIVE: text}))["spec"]


@pytest.mark.parametrize(
    ("given", "surge", "unavailable"),
    [({}, 1, 0), ({"maxSurge": 2}, 2, 0), ({"maxSurge": "20%", "maxUnavailable": 0}, "20%", 0)],
)
def test_surging_is_standard_with_surge(given: dict[str, Any], surge: int | str, unavailable: int) -> None:
    """daemonset case 2"""
    old = document(V1ALPHA1, updateStrategy=strategy(rollingUpdateType="Surging", **given))
    result = to(V1BETA1, old)
    assert result["spec"]["updateStrategy"]["rollingUpdate"] == {
        "rollingUpdateType": "Standard",
        "maxSurge": surge,
        "maxUnavailable": unavailable,
    }
    # and v1alpha1 shows it as it was written
    back = to(V1ALPHA1, result)
    assert back["spec"]["updateStrategy"]["rollingUpdate"] == old["spec"]["updateStrategy"]["rollingUpdate"]
    # unless a client of v1beta1 has written something else since
    result["spec"]["updateStrategy"]["rollingUpdate"] = {"rollingUpdateType": "Standard", "maxUnavailable": 1}
    changed = to(V1ALPHA1, result)["spec"]["updateStrategy"]["rollingUpdate"]
    assert changed == {"rollingUpdateType": "Standard", "maxUnavailable": 1}


def test_the_hash_has_another_name_in_the_status() -> None:
    doc = {**document(V1BETA1), "status": {"updateRevision": "abc", "numberReady": 3}}
    result = to(V1ALPHA1, doc)
    assert result["status"] == {"daemonSetHash": "abc", "numberReady": 3}
    assert to(V1BETA1, result)["status"] == doc["status"]


def test_all_other_fields_are_converted_unchanged() -> None:
    doc = document(
        V1BETA1,
        selector={"matchLabels": {"app": "web"}},
        burstReplicas="10%",
        minReadySeconds=3,
        revisionHistoryLimit=2,
        lifecycle={"preDelete": {"labelsHandler": {"a": "b"}}},
        updateStrategy=strategy(partition=2, paused=True, selector={"matchLabels": {"canary": "1"}}),
        template={"spec": {"unknown": [1]}},
    )
    doc["metadata"] |= {"finalizers": ["a/b"], "ownerReferences": [{"uid": "o"}]}
    stays = to(V1ALPHA1, doc)
    assert {**stays, "apiVersion": V1BETA1} == doc
    assert to(V1BETA1, stays) == doc


def test_a_version_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ConversionError, match="v2"):
        to("apps.kruise.io/v2", document(V1BETA1))


@pytest.mark.parametrize("spec", [None, "x", [1]])
def test_values_of_the_wrong_type_stay_where_they_are(spec: Any) -> None:
    doc = {**document(V1ALPHA1, annotations={PROGRESSIVE: "true"}), "spec": spec}
    assert to(V1BETA1, doc)["spec"] == spec
