"""Facts about each minor version of Kubernetes: its fields, and the features that are on."""

import pytest

from pykruise.kube.documents import deep_copy
from pykruise.kube.schemas.builtin_types import fields_of, find_decoder
from pykruise.kube.schemas.disabled_fields import GATED_FIELDS, drop_disabled_fields
from pykruise.kube.schemas.fact_series import read_series
from pykruise.kube.schemas.releases import (
    MINORS,
    NEWEST,
    NEWEST_MINOR,
    is_known,
    is_newer_than_known,
    minor_of,
    number_of,
    release_of,
)
from pykruise.kube.schemas.served_fields import ServedFields, list_further_fields

SPEC = "io.k8s.api.core.v1.PodSpec"
CONTAINER = "io.k8s.api.core.v1.Container"


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("v1.32.0", "1.32"),
        ("v1.32+gke.1", "1.32"),
        ("v1.34.1-eks-113cf36", "1.34"),
        ("v1.27.9", "1.28"),
        ("v1.38.0-alpha.1", "1.37"),
        ("v2.0.0", "1.37"),
        ("", "1.37"),
        ("unknown", "1.37"),
    ],
)
def test_a_version_is_taken_for_the_nearest_minor_that_is_known(version: str, minor: str) -> None:
    assert minor_of(version) == minor
    assert minor_of({"gitVersion": version}) == minor


def test_minors_without_facts_are_known_to_be_missing() -> None:
    assert all(is_known(f"v{minor}.3") for minor in MINORS)
    assert not any(map(is_known, ("v1.27.0", "v1.38.0", "", "v1")))
    with pytest.raises(ValueError, match=r"1\.38"):
        release_of("1.38")


@pytest.mark.parametrize(
    ("minor", "definition", "field"),
    [
        ("1.28", f"{CONTAINER}", "restartPolicy"),
        ("1.31", "io.k8s.api.core.v1.Volume", "image"),
        ("1.32", SPEC, "resources"),
        ("1.33", "io.k8s.api.core.v1.Lifecycle", "stopSignal"),
        ("1.34", CONTAINER, "restartPolicyRules"),
        ("1.34", SPEC, "hostnameOverride"),
        ("1.37", SPEC, "evictionResponders"),
    ],
)
def test_a_field_is_known_since_the_minor_that_introduced_it(minor: str, definition: str, field: str) -> None:
    has_field = {each for each in MINORS if field in (fields_of(definition, each) or {})}
    assert has_field == {each for each in MINORS if number_of(each) >= number_of(minor)}


@pytest.mark.parametrize("name", ["types", "merge_keys"])
def test_every_minor_has_facts_about_almost_all_kinds_of_the_newest(name: str) -> None:
    newest = read_series(name, NEWEST_MINOR)
    for minor in MINORS:
        facts = read_series(name, minor)
        assert SPEC in facts
        assert 0.8 < len(facts) / len(newest) <= 1.01, minor


def test_every_field_that_a_gate_holds_back_exists() -> None:
    for definition, field in GATED_FIELDS:
        assert field in (fields_of(definition) or {}), (definition, field)


def test_every_gate_of_a_field_is_among_the_facts_or_always_on() -> None:
    known = release_of(MINORS[0]).off | {"DynamicResourceAllocation"}
    assert {*GATED_FIELDS.values()} <= known


@pytest.mark.parametrize("minor", MINORS)
def test_enabling_all_optional_gates_of_a_minor_turns_no_field_off(minor: str) -> None:
    assert release_of(minor, possible=True).off <= release_of(minor).off


def test_the_newest_release_keeps_every_field() -> None:
    assert not NEWEST.off


@pytest.mark.parametrize(("place", "gate"), GATED_FIELDS.items(), ids=str)
def test_a_field_of_a_feature_that_is_off_is_dropped_and_stays_where_it_is_on(
    place: tuple[str, str], gate: str
) -> None:
    definition, field = place
    document = {field: {}, "kept": 1}
    for minor in MINORS:
        release = release_of(minor)
        result = drop_disabled_fields(document, definition, release)
        assert ("kept" in result, field in result) == (True, release.has(gate))


def test_an_image_volume_is_dropped_with_its_mounts_where_the_feature_is_off() -> None:
    # given
    mounts = [{"name": "model", "mountPath": "/m"}, {"name": "tmp", "mountPath": "/t"}]
    spec = {
        "containers": [{"name": "main", "volumeMounts": mounts}],
        "volumes": [{"name": "model", "image": {"reference": "m:1"}}, {"name": "tmp", "emptyDir": {}}],
    }
    before = deep_copy(spec)
    # when
    off, on = (drop_disabled_fields(spec, SPEC, release_of(minor)) for minor in ("1.34", "1.35"))
    # then
    assert on == spec == before
    assert [volume["name"] for volume in off["volumes"]] == ["tmp"]
    assert [mount["name"] for mount in off["containers"][0]["volumeMounts"]] == ["tmp"]


def test_a_disabled_restart_policy_is_dropped_only_in_a_minor_that_knows_its_gate() -> None:
    # given a container with a policy, and a sidecar
    spec = {
        "containers": [{"name": "main", "restartPolicy": "Never"}],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
    }
    # when
    off, unknown = (drop_disabled_fields(spec, SPEC, release_of(minor)) for minor in ("1.34", "1.33"))
    # then 1.34 drops the field without a warning; 1.33 knows only the field, and refuses it
    assert "restartPolicy" not in off["containers"][0]
    assert off["initContainers"] == spec["initContainers"]
    assert unknown == spec


def test_a_null_creation_timestamp_is_dropped_since_1_34() -> None:
    for minor in MINORS:
        decoder = find_decoder("io.k8s.api.core.v1.PodTemplateSpec", minor)
        assert decoder is not None
        read, _ = decoder.decode({"metadata": {"creationTimestamp": None}})
        assert ("creationTimestamp" in read["metadata"]) is (number_of(minor) < (1, 34))


TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
NEWER = {
    "components": {
        "schemas": {
            "io.k8s.api.core.v1.PodSpec": {"properties": {"containers": {}, "brandNew": {}}},
            "io.k8s.api.core.v1.Container": {"properties": {"name": {}, "brandNew": {}}},
        }
    }
}


def test_fields_that_only_the_openapi_of_a_newer_server_has_are_not_unknown() -> None:
    # given a server newer than all known ones, and a template with its new fields and with misspelt ones
    served = ServedFields(NEWEST_MINOR, list_further_fields(NEWER, NEWEST_MINOR))
    container = {"name": "main", "brandNew": 1, "imagee": "x"}
    template = {"spec": {"brandNew": True, "containers": [container], "brandnew": 1}}
    # then
    assert served.list_unknown_fields(template, TEMPLATE) == ["spec.brandnew", "spec.containers[0].imagee"]
    assert len(ServedFields().list_unknown_fields(template, TEMPLATE)) == 4


def test_a_minor_reports_fields_of_later_minors_as_unknown() -> None:
    template = {"spec": {"containers": [{"name": "main", "restartPolicyRules": []}], "hostnameOverride": "x"}}
    assert ServedFields("1.37").list_unknown_fields(template, TEMPLATE) == []
    assert ServedFields("1.33").list_unknown_fields(template, TEMPLATE) == [
        "spec.containers[0].restartPolicyRules",
        "spec.hostnameOverride",
    ]


def test_versions_after_the_newest_are_newer() -> None:
    assert is_newer_than_known("v1.38.0")
    assert not any(map(is_newer_than_known, ("v1.37.9", "v1.28.0", "v1.2.0", "", "unknown")))
