"""Sets of fields: a field can be a member without its children, and its children without the field."""

import pytest

from pykruise.sandbox.apiserver.managed.field_sets import (
    EMPTY,
    FieldSet,
    drop_places,
    has_place,
    intersect_sets,
    is_field_set,
    list_paths,
    subtract_sets,
    unite_sets,
)

A: FieldSet = {"f:a": {".": {}, "f:x": {}, "f:y": {}}}
X: FieldSet = {"f:a": {"f:x": {}}}
ITSELF: FieldSet = {"f:a": {}}


def test_a_union_has_what_either_has_and_a_member_keeps_its_mark() -> None:
    assert unite_sets(X, ITSELF) == {"f:a": {".": {}, "f:x": {}}}
    assert unite_sets(EMPTY, X) is X
    assert unite_sets(X, EMPTY) is X


def test_a_subtracted_path_leaves_its_children() -> None:
    assert subtract_sets(A, ITSELF) == {"f:a": {"f:x": {}, "f:y": {}}}
    assert subtract_sets(A, X) == {"f:a": {".": {}, "f:y": {}}}
    assert subtract_sets(X, X) is EMPTY


def test_an_intersection_has_only_the_paths_of_both_sets() -> None:
    assert intersect_sets(A, X) == X
    assert intersect_sets(X, ITSELF) is EMPTY
    assert intersect_sets(A, ITSELF) == ITSELF


def test_a_dropped_path_drops_its_children() -> None:
    assert drop_places(A, X) == {"f:a": {".": {}, "f:y": {}}}
    assert drop_places(A, ITSELF) is EMPTY


def test_the_empty_set_has_no_member_and_a_leaf_has_one() -> None:
    assert not has_place(EMPTY)
    assert has_place({})
    assert list(list_paths(EMPTY)) == []


def test_paths_are_written_as_in_messages() -> None:
    # given
    fields: FieldSet = {
        "f:spec": {
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
            "f:names": {'v:"a"': {}},
        }
    }
    # then
    assert list(list_paths(fields)) == [
        '.spec.names[="a"]',
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
    ]


@pytest.mark.parametrize("value", [[], {"x": {}}, {"f:a": 1}, {"k:[": {}}, {"k:1": {}}, {"i:a": {}}])
def test_a_malformed_field_set_is_rejected(value: object) -> None:
    assert not is_field_set(value)
