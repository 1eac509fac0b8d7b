"""Open schemas: they name the lists of Kubernetes' types that are merged by key."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pykruise.kube.patches.schemas import merge_keys
from pykruise.kube.schemas.merged_lists import (
    LEFT_WHOLE,
    MERGED,
    build_merging_list,
    build_merging_object,
    map_lists,
)

_POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
_JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"
_DEPLOYMENT = "io.k8s.api.apps.v1.DeploymentSpec"
_STATEFUL_SET = "io.k8s.api.apps.v1.StatefulSetSpec"


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_each_list_that_kubernetes_merges_is_merged_or_left_whole_for_a_reason() -> None:
    # given what can be in a template, of the newest minor
    there = set(map_lists(_POD_TEMPLATE))
    # then
    merged = {(owner, field) for owner, fields in MERGED.items() for field in fields}
    assert there == merged | LEFT_WHOLE.keys()
    assert not merged & LEFT_WHOLE.keys()
    assert all(LEFT_WHOLE.values())


@pytest.mark.parametrize("definition", [_POD_TEMPLATE, _JOB_TEMPLATE, _DEPLOYMENT, _STATEFUL_SET])
def test_every_merged_list_is_in_the_schema_of_what_contains_it(definition: str) -> None:
    # when
    schema = build_merging_object(definition)
    # then
    lists = {path for path, node in nodes(schema) if node.get("x-kubernetes-list-type") == "map"}
    ends = {path.rpartition(".")[2] for path in lists}
    assert ends == {field for owner, fields in MERGED.items() for field in fields if "Ephemeral" not in owner}


@pytest.mark.parametrize("definition", [_POD_TEMPLATE, _JOB_TEMPLATE, _DEPLOYMENT, _STATEFUL_SET])
def test_nothing_is_required_dropped_or_written_but_empty_keys(definition: str) -> None:
    for path, node in nodes(build_merging_object(definition)):
        assert "required" not in node, path
        match node["type"]:
            case "object":
                assert node["x-kubernetes-preserve-unknown-fields"], path
                assert path.endswith("[]") != node.get("nullable", False), path
            case "array":
                assert node["nullable"], path
            case "string":
                assert node["default"] == "", path
            case other:
                pytest.fail(f"{path} is a {other}")


def test_a_merged_list_has_the_keys_of_kubernetes_which_its_items_always_have() -> None:
    for owner, fields in MERGED.items():
        for field in fields:
            schema = build_merging_list(owner, field)
            assert schema["x-kubernetes-list-map-keys"] == list(merge_keys()[owner][field].list_map_keys)
            assert set(schema["x-kubernetes-list-map-keys"]) <= schema["items"]["properties"].keys()
