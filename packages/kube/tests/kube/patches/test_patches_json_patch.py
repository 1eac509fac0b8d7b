"""JSON patches: applied as an API server applies them, and made."""

from typing import Any

import pytest

from pykruise.kube.documents import deep_copy
from pykruise.kube.patches import (
    JsonPatchTestFailed,
    PatchError,
    apply_json_patch,
    diff_json,
    escape_pointer,
    format_pointer,
)

Doc = dict[str, Any]


@pytest.mark.parametrize(
    ("doc", "step", "result"),
    [
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/1", "value": 3}, {"a": [1, 3, 2]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/2", "value": 3}, {"a": [1, 2, 3]}),
        ({"l": {}}, {"op": "add", "path": "/l/x.io~1y~0z", "value": 1}, {"l": {"x.io/y~z": 1}}),
        ({"a": 1}, {"op": "add", "path": "/a", "value": 2}, {"a": 2}),
        ({"a": 1}, {"op": "remove", "path": "/a"}, {}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"op": "replace", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 1}}, {"b": 1}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": {"x": 1}}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": {"x": 1}, "b": {"x": 1}}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.0}, {"a": 1}),
        ({"a": {"b": [1, {}]}}, {"op": "test", "path": "/a", "value": {"b": [1, {}]}}, {"a": {"b": [1, {}]}}),
        ({}, {"op": "test", "path": "/a", "value": None}, {}),
        ({"a": 1}, {"op": "test", "path": "", "value": {"a": 1}}, {"a": 1}),
    ],
)
def test_each_json_patch_operation_has_its_specified_result(doc: Doc, step: Doc, result: Doc) -> None:
    assert apply_json_patch(doc, [step]) == result


@pytest.mark.parametrize(
    ("doc", "path", "value"),
    [
        ({"a": True}, "/a", 1),
        ({"a": 0}, "/a", False),
        ({"a": [1]}, "/a", [True]),
        ({"a": {"b": 1}}, "/a", {"b": True}),
        ({"a": "1"}, "/a", 1),
        ({"a": {}}, "/a", []),
        ({"a": 1}, "/b", 1),
        ({"a": 1}, "", {"a": 2}),
    ],
)
def test_a_test_that_finds_something_else_fails_as_a_precondition(doc: Doc, path: str, value: Any) -> None:
    with pytest.raises(JsonPatchTestFailed) as caught:
        apply_json_patch(doc, [{"op": "test", "path": path, "value": value}])
    assert str(caught.value) == f"testing value {path} failed: test failed"
    assert caught.value.code == 422


@pytest.mark.parametrize("path", ["/x/y", "/a/5", "/a/-", "/a/0/deeper", "a"])
def test_a_test_operation_on_a_missing_path_fails_as_a_precondition(path: str) -> None:
    with pytest.raises(JsonPatchTestFailed, match=path):
        apply_json_patch({"a": [1]}, [{"op": "test", "path": path, "value": 1}])


MISSING = ": missing value"
NO_INDEX = "Unable to access invalid index: {}: invalid index referenced"
NO_NUMBER = 'strconv.Atoi: parsing "{}": invalid syntax'
NO_KEY = "Unable to remove nonexistent key: {}" + MISSING


def op(kind: str, path: str, **more: Any) -> Doc:
    return {"op": kind, "path": path, **more}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (op("add", "/x/y", value=1), 'add operation does not apply: doc is missing path: "/x/y"' + MISSING),
        (op("add", "", value={}), 'add operation does not apply: doc is missing path: ""' + MISSING),
        (op("add", "/a/b", value=1), 'add operation does not apply: doc is missing path: "/a/b"' + MISSING),
        (op("add", "/l/9", value=1), "error in add for path: '/l/9': " + NO_INDEX.format(9)),
        (
            op("add", "/l/x", value=1),
            "error in add for path: '/l/x': value was not a proper array index: 'x': "
            + NO_NUMBER.format("x"),
        ),
        (op("add", "/b"), "error in add for path: '/b': The operation does not contain a 'value' member"),
        (op("remove", "/m/n~1o"), "error in remove for path: '/m/n~1o': " + NO_KEY.format("n/o")),
        (op("remove", "/x/y"), 'remove operation does not apply: doc is missing path: "/x/y"' + MISSING),
        (op("remove", "/l/-"), "error in remove for path: '/l/-': " + NO_NUMBER.format("-")),
        (
            op("replace", "/l/3", value=1),
            "replace operation does not apply: doc is missing key: /l/3" + MISSING,
        ),
        (
            op("replace", "/x/y", value=1),
            "replace operation does not apply: doc is missing path: /x/y" + MISSING,
        ),
        (
            {"op": "move", "from": "/x/y", "path": "/b"},
            "move operation does not apply: doc is missing from path: /x/y" + MISSING,
        ),
        ({"op": "move", "from": "/b", "path": "/c"}, "error in move for path: 'b': " + NO_KEY.format("b")),
        (
            {"op": "move", "from": "/a", "path": "/l/7"},
            "error in move for path: '/l/7': " + NO_INDEX.format(7),
        ),
        (
            {"op": "move", "from": "/l/-", "path": "/b"},
            "error in move for path: '-': " + NO_NUMBER.format("-"),
        ),
        (op("move", "/c"), "move operation failed to decode from" + MISSING),
        (
            {"op": "copy", "from": "/a", "path": "/x/y"},
            "copy operation does not apply: doc is missing destination path: /x/y" + MISSING,
        ),
        (
            {"op": "copy", "from": "/l/5", "path": "/b"},
            "error in copy for from: '/l/5': " + NO_INDEX.format(5),
        ),
        (
            {"op": "copy", "from": "/a", "path": "/l/7"},
            "error while adding value during copy: " + NO_INDEX.format(7),
        ),
        (op("increase", "/a"), "Unexpected kind: increase"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
        ({"op": "add", "value": 1}, "add operation failed to decode path" + MISSING),
    ],
)
def test_an_operation_that_does_not_fit_is_refused_in_the_api_servers_words(bad: Doc, says: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_json_patch({"a": 1, "l": [1], "m": {}}, [bad])
    assert str(caught.value) == says
    assert caught.value.code == 422
    assert not isinstance(caught.value, JsonPatchTestFailed)


def test_a_dash_is_an_ordinary_key_of_an_object() -> None:
    # given
    doc = {"m": {"-": 1}}
    # then
    assert apply_json_patch(doc, [op("test", "/m/-", value=1), op("replace", "/m/-", value=2)]) == {
        "m": {"-": 2}
    }
    assert apply_json_patch(doc, [{"op": "move", "from": "/m/-", "path": "/a"}]) == {"m": {}, "a": 1}


def test_a_failed_operation_leaves_no_trace_of_those_before_it() -> None:
    # given
    doc = {"a": {"b": 1}, "l": [1]}
    before = deep_copy(doc)
    ops = [
        {"op": "replace", "path": "/a/b", "value": 2},
        {"op": "move", "from": "/a/b", "path": "/l/9"},
    ]
    # when
    with pytest.raises(PatchError):
        apply_json_patch(doc, ops)
    # then
    assert doc == before


def test_neither_document_nor_operations_are_changed_or_shared() -> None:
    # given a value that a later operation reaches into
    doc = {"m": {}, "kept": {"x": []}}
    ops = [
        {"op": "add", "path": "/m/new", "value": {"list": []}},
        {"op": "add", "path": "/m/new/list/-", "value": 1},
        {"op": "replace", "path": "/m/other", "value": {"y": []}},
    ]
    before = deep_copy([doc, ops])
    # when
    result = apply_json_patch(doc, ops)
    result["kept"]["x"].append(1)
    result["m"]["other"]["y"].append(1)
    # then
    assert result["m"]["new"] == {"list": [1]}
    assert [doc, ops] == before


@pytest.mark.parametrize("ops", [{"op": "remove", "path": "/a"}, "remove", None, 1])
def test_a_json_patch_that_is_not_a_list_of_objects_is_refused(ops: Any) -> None:
    with pytest.raises(PatchError, match="a JSON patch is a list of operations"):
        apply_json_patch({}, ops)


def test_a_json_patch_item_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(PatchError, match="an operation of a JSON patch must be an object"):
        apply_json_patch({}, ["remove"])  # type: ignore[list-item]


def test_a_document_must_stay_an_object() -> None:
    with pytest.raises(PatchError, match="must be an object"):
        apply_json_patch({}, [{"op": "replace", "path": "", "value": [1]}])


def test_more_than_ten_thousand_operations_are_too_large() -> None:
    with pytest.raises(
        PatchError, match="allowed maximum operations in a JSON patch is 10000, got 10001"
    ) as caught:
        apply_json_patch({}, [{"op": "test", "path": "/a", "value": None}] * 10_001)
    assert caught.value.code == 413


def test_the_operations_between_two_documents_name_only_what_differs() -> None:
    # given
    old = {"a": 1, "b": [1, 2], "c/d": {"e": 1}}
    new = {"a": 1, "b": [1, 2, 3], "c/d": {"e": True}}
    # when
    ops = diff_json(old, new)
    # then
    assert sorted(step["path"] for step in ops) == ["/b/2", "/c~1d/e"]
    assert apply_json_patch(old, ops) == new
    assert diff_json(old, old) == []


def test_pointers_are_written_with_their_steps_escaped() -> None:
    assert format_pointer("metadata", "labels", "a.io/b~c") == "/metadata/labels/a.io~1b~0c"
    assert format_pointer("spec", "containers", 0, "image") == "/spec/containers/0/image"
    assert format_pointer() == ""
    assert escape_pointer("~/") == "~0~1"
