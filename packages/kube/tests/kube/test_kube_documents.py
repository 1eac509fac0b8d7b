"""Decoding, encoding and looking into documents."""

from typing import Any

import msgspec
import pytest

from pykruise.kube.documents import (
    annotations_of,
    decode,
    deep_copy,
    encode,
    encode_canonical,
    get_path,
    is_same,
    key_of,
    labels_of,
    rename_members,
)
from pykruise.kube.ids import Key


def test_a_document_survives_decoding_and_encoding_byte_for_byte() -> None:
    # given compact JSON with keys out of order
    raw = b'{"kind":"Pod","apiVersion":"v1","spec":{"n":1,"f":1.5,"t":true,"z":null,"s":"\xc3\xa9"}}'
    # then
    assert encode(decode(raw)) == raw


def test_raw_parts_of_a_list_answer_decode_like_bytes() -> None:
    # given
    raw = msgspec.Raw(b'{"a":[1,2]}')
    # then
    assert decode(raw) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"{", "not a JSON document"),
        (b"", "not a JSON document"),
        (b'{"a":\xff}', "not a JSON document"),
        (b"[1]", "expected an object, got an array"),
        (b"null", "expected an object, got null"),
        (b'"x"', "expected an object, got a string"),
        (b"true", "expected an object, got a boolean"),
        (b"12", "expected an object, got a number"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused_with_the_reason(raw: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        decode(raw)


def test_a_value_that_json_cannot_hold_is_refused_when_encoding() -> None:
    for write in (encode, encode_canonical):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            write({"a": object()})


def test_equal_documents_have_equal_canonical_bytes() -> None:
    # given
    left = {"b": {"y": 1, "x": [2, 1]}, "a": None}
    right = {"a": None, "b": {"x": [2, 1], "y": 1}}
    # then
    assert encode_canonical(left) == encode_canonical(right) == b'{"a":null,"b":{"x":[2,1],"y":1}}'


def test_the_key_of_an_object_is_its_namespace_and_name() -> None:
    assert key_of({"metadata": {"namespace": "shop", "name": "web-0"}}) == Key("shop", "web-0")
    assert key_of({"metadata": {"name": "node-1"}}) == Key("", "node-1")
    assert key_of({}) == Key("", "")


def test_labels_and_annotations_of_an_object_without_any_are_empty() -> None:
    assert labels_of({"metadata": {"labels": None}}) == {}
    assert annotations_of({}) == {}
    assert labels_of({"metadata": {"labels": {"a": "b"}}}) == {"a": "b"}
    assert annotations_of({"metadata": {"annotations": {"c": "d"}}}) == {"c": "d"}


def test_a_path_leads_through_maps_and_lists_or_to_the_default() -> None:
    # given
    pod = {"spec": {"containers": [{"name": "a", "image": "x"}], "nodeName": None}}
    # then
    assert get_path(pod, "spec", "containers", 0, "image") == "x"
    assert get_path(pod, "spec", "containers", -1, "name") == "a"
    assert get_path(pod, "spec", "containers", 1, "image", default="none") == "none"
    assert get_path(pod, "spec", "nodeName", default="") == ""
    assert get_path(pod, "spec", "nodeName", "deeper") is None
    assert get_path(pod, "spec", 0) is None
    assert get_path(pod) == pod


def test_a_deep_copy_shares_nothing_that_can_change() -> None:
    # given
    doc = {"a": [{"b": [1]}], "c": {"d": {}}}
    # when
    copy = deep_copy(doc)
    copy["a"][0]["b"].append(2)
    copy["c"]["d"]["e"] = 1
    # then
    assert doc == {"a": [{"b": [1]}], "c": {"d": {}}}


def test_json_equality_separates_true_from_one_and_equates_1_with_1_point_0() -> None:
    assert is_same({"a": [1, 2.0, None]}, {"a": [1.0, 2, None]})
    assert not is_same({"a": 1}, {"a": True})
    assert not is_same([False], [0])
    assert not is_same({"a": None}, {})
    assert not is_same([1], [1, 2])
    assert not is_same({"a": 1}, ["a"])
    assert not is_same("1", 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"KIND": 1, "Other": 2}, {"kind": 1, "Other": 2}),
        ({"kind": 1, "Kind": 2}, {"kind": 2}),
        ({}, {}),
        (None, None),
        ([{"KIND": 1}], [{"KIND": 1}]),
    ],
)
def test_members_are_renamed_without_regard_to_case(value: Any, expected: Any) -> None:
    assert rename_members(value, ("kind",)) == expected
