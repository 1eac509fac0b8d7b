"""JSON merge patches: applied, and made."""

from typing import Any

import pytest

from pykruise.kube.documents import deep_copy
from pykruise.kube.patches import PatchError, apply_merge_patch, diff_merge

Doc = dict[str, Any]


@pytest.mark.parametrize(
    ("doc", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b"}, {"x": None}, {"a": "b"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": 1}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": None}, {"b": 1}, {"a": None, "b": 1}),
        ({}, {"a": [None, {"b": None, "c": 1}]}, {"a": [None, {"c": 1}]}),
    ],
)
def test_objects_merge_null_deletes_and_the_rest_replaces(doc: Doc, patch: Doc, merged: Doc) -> None:
    assert apply_merge_patch(doc, patch) == merged


def test_inputs_are_not_changed_and_not_shared_with_the_result() -> None:
    # given
    doc: Doc = {"kept": {"x": [1]}, "changed": {"y": {}}}
    patch: Doc = {"changed": {"new": {"list": [1]}}}
    before = deep_copy([doc, patch])
    # when
    merged = apply_merge_patch(doc, patch)
    merged["kept"]["x"].append(2)
    merged["changed"]["new"]["list"].append(2)
    merged["changed"]["y"]["z"] = 1
    # then
    assert [doc, patch] == before


@pytest.mark.parametrize("patch", [[], None, "x"])
def test_a_patch_that_is_not_an_object_is_refused(patch: Any) -> None:
    with pytest.raises(PatchError, match="Invalid JSON Patch") as caught:
        apply_merge_patch({}, patch)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 1, "d": 3}}, {"b": {"d": 3}}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": None}, {"a": None}, {}),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_the_patch_between_two_documents_names_only_what_differs(old: Doc, new: Doc, patch: Doc) -> None:
    assert diff_merge(old, new) == patch
    assert apply_merge_patch(old, patch) == new
