"""Documents as typed values: differences, merges, and removed fields."""

from typing import Any

import pytest

from pykruise.sandbox.apiserver.managed.field_sets import EMPTY
from pykruise.sandbox.apiserver.managed.shapes import FREE, build_definition_shape, build_schema_shape
from pykruise.sandbox.apiserver.managed.values import (
    InvalidFieldsError,
    check,
    collect_fields,
    compare,
    merge,
    remove,
)

SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}},
}
SHAPE = build_schema_shape(
    {
        "type": "object",
        "properties": {
            "set": SET,
            "map": MAP,
            "list": {"type": "array", "items": {"type": "integer"}},
            "text": {"type": "string"},
        },
    }
)


def test_equal_parts_of_two_documents_are_not_a_change() -> None:
    changes = compare({"text": "a", "list": [1]}, {"text": "a", "list": [1]}, SHAPE)
    assert set(map(id, changes)) == {id(EMPTY)}


def test_a_list_without_a_type_is_of_one_piece() -> None:
    assert compare({"list": [1]}, {"list": [1, 2]}, SHAPE).modified == {"f:list": {}}


def test_items_of_a_map_are_added_modified_and_removed_one_by_one() -> None:
    # given
    old = {"map": [{"name": "a", "value": 1}, {"name": "b", "value": 1}]}
    new = {"map": [{"name": "a", "value": 2}, {"name": "c"}]}
    # when
    changes = compare(old, new, SHAPE)
    # then
    assert changes.modified == {"f:map": {'k:{"name":"a"}': {"f:value": {}}}}
    assert changes.added == {"f:map": {'k:{"name":"c"}': {".": {}, "f:name": {}}}}
    assert changes.removed == {"f:map": {'k:{"name":"b"}': {".": {}, "f:name": {}, "f:value": {}}}}


def test_applied_fields_are_leaves_and_items_without_the_maps_around_them() -> None:
    assert collect_fields({"map": [{"name": "a", "value": 1}], "set": ["x"]}, SHAPE) == {
        "f:map": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:set": {'v:"x"': {}},
    }


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        (["a", "b"], ["c"], ["a", "b", "c"]),
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a", "b", "c"], ["a", "x", "c"], ["a", "b", "x", "c"]),
        ([], ["a"], ["a"]),
    ],
)
def test_a_merged_list_keeps_both_orders_as_far_as_they_agree(
    live: list[str], applied: list[str], merged: list[str]
) -> None:
    assert merge({"set": live}, {"set": applied}, SHAPE) == {"set": merged}


def test_merging_modifies_neither_argument() -> None:
    # given
    live: dict[str, Any] = {"map": [{"name": "a", "value": 1}]}
    # when
    merge(live, {"map": [{"name": "a", "value": 2}]}, SHAPE)
    # then
    assert live == {"map": [{"name": "a", "value": 1}]}


def test_a_container_port_is_identified_by_its_default_protocol() -> None:
    # given
    shape = build_definition_shape("io.k8s.api.core.v1.Container")
    # when
    merged = merge(
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {"ports": [{"containerPort": 80, "name": "web"}]},
        shape,
    )
    # then
    assert merged == {"ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}


def test_removed_paths_are_removed_with_their_children() -> None:
    # given
    doc = {"map": [{"name": "a", "value": 1}, {"name": "b"}], "text": "x"}
    # when
    left = remove(doc, {"f:map": {'k:{"name":"b"}': {}, 'k:{"name":"a"}': {"f:value": {}}}}, SHAPE)
    # then
    assert left == {"map": [{"name": "a"}], "text": "x"}


@pytest.mark.parametrize(
    ("doc", "why"),
    [
        ({"unknown": 1}, ".unknown: field not declared in schema"),
        ({"text": 1}, ".text: expected string, got &value.valueUnstructured{Value:1}"),
        ({"list": {}}, ".list: expected list, got &{map[]}"),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        (
            {"map": [{"value": 1}]},
            ".map: element 0: associative list with keys has an element that omits key",
        ),
        ({"set": [{}]}, ".set: element 0: associative list of type set: items must be scalars"),
    ],
)
def test_a_document_of_another_shape_is_refused(doc: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidFieldsError) as refused:
        check(doc, SHAPE)
    assert str(refused.value).startswith(why)


def test_in_a_free_place_maps_have_many_owners_and_lists_one() -> None:
    assert compare({"a": {"x": 1}}, {"a": {"x": 1, "y": [1]}}, FREE).added == {"f:a": {"f:y": {}}}
