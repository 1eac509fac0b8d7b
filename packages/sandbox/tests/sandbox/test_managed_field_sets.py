"""Sets of fields: a place is a member on its own, whatever is below it."""

import pytest

from pykruise.sandbox.apiserver.managed.field_sets import (
    EMPTY,
    FieldSet,
    difference,
    has,
    intersection,
    is_field_set,
    paths,
    union,
    without,
)

A: FieldSet = {"f:a": {".": {}, "f:x": {}, "f:y": {}}}
X: FieldSet = {"f:a": {"f:x": {}}}
ITSELF: FieldSet = {"f:a": {}}


def test_a_union_has_what_either_has_and_a_member_keeps_its_mark() -> None:
    assert union(X, ITSELF) == {"f:a": {".": {}, "f:x": {}}}
    assert union(EMPTY, X) is X
    assert union(X, EMPTY) is X


def test_taking_a_place_away_leaves_what_is_below_it() -> None:
    assert difference(A, ITSELF) == {"f:a": {"f:x": {}, "f:y": {}}}
    assert difference(A, X) == {"f:a": {".": {}, "f:y": {}}}
    assert difference(X, X) is EMPTY


def test_an_intersection_has_the_places_of_both_and_nothing_that_leads_to_none() -> None:
    assert intersection(A, X) == X
    assert intersection(X, ITSELF) is EMPTY
    assert intersection(A, ITSELF) == ITSELF


def test_dropping_a_place_drops_what_is_below_it() -> None:
    assert without(A, X) == {"f:a": {".": {}, "f:y": {}}}
    assert without(A, ITSELF) is EMPTY


def test_the_empty_set_has_no_member_and_a_leaf_is_one() -> None:
    assert not has(EMPTY)
    assert has({})
    assert list(paths(EMPTY)) == []


def test_paths_are_written_as_in_messages() -> None:
    # given
    fields: FieldSet = {
        "f:spec": {
            "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
            "f:names": {'v:"a"': {}},
        }
    }
    # then
    assert list(paths(fields)) == [
        '.spec.names[="a"]',
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
    ]


@pytest.mark.parametrize("value", [[], {"x": {}}, {"f:a": 1}, {"k:[": {}}, {"k:1": {}}, {"i:a": {}}])
def test_what_has_not_the_form_of_a_set_is_none(value: object) -> None:
    assert not is_field_set(value)
