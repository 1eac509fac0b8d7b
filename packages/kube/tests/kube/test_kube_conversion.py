"""Conversion between versions: a value that one version lacks is kept, and comes back unless a client replaced it."""

import json
from typing import Any

import pytest

from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.conversion import Conversion, ConversionError, annotate, convert, find_section

OLD, NEW = "example.com/v1", "example.com/v2"
KEPT_NEW, KEPT_OLD = "pykruise.io/conversion-v2", "pykruise.io/conversion-v1"


def to_new(doc: Document) -> Document:
    """Rename `count` to `number`, replace `mode: quick` by `speed: 9`, and drop `gone`."""
    spec = find_section(doc, "spec")
    if spec is not None:
        if "count" in spec:
            spec["number"] = spec.pop("count")
        if spec.pop("mode", None) == "quick":
            spec["speed"] = 9
        spec.pop("gone", None)
    return doc


def to_old(doc: Document) -> Document:
    """Reverse `to_new`: every `speed` becomes `mode: quick`; `extra` and the `note` of parts are dropped."""
    spec = find_section(doc, "spec")
    if spec is not None:
        if "number" in spec:
            spec["count"] = spec.pop("number")
        if spec.pop("speed", None) is not None:
            spec["mode"] = "quick"
        spec.pop("extra", None)
        for part in spec.get("parts") or ():
            part.pop("note", None)
    return doc


TABLE = {
    ("example.com", "Thing"): Conversion(
        Resource("example.com", "v2", "things", "Thing"), "v1", to_hub=to_new, to_spoke=to_old
    )
}


def new(annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    return _thing(NEW, annotations, spec)


def old(annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    return _thing(OLD, annotations, spec)


def _thing(version: str, annotations: dict[str, str] | None, spec: Document) -> Document:
    metadata: Document = {"name": "a", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": version, "kind": "Thing", "metadata": metadata, "spec": spec}


def kept(doc: Document, key: str) -> Any:
    return json.loads(doc["metadata"]["annotations"][key])


def test_fields_that_both_versions_have_need_no_annotation() -> None:
    assert convert(new(number=3), OLD, TABLE) == old(count=3)
    assert convert(old(count=3), NEW, TABLE) == new(number=3)


def test_a_field_of_only_one_version_survives_the_round_trip() -> None:
    # when
    through = convert(new(number=3, extra=[1, 2]), OLD, TABLE)
    # then
    assert through["spec"] == {"count": 3}
    assert kept(through, KEPT_NEW) == {"spec": {"extra": [1, 2]}}
    assert convert(through, NEW, TABLE) == new(number=3, extra=[1, 2])


def test_a_client_that_changes_something_else_loses_nothing() -> None:
    # given
    through = convert(new({"team": "a"}, number=3, extra=[1, 2]), OLD, TABLE)
    # when
    through["spec"]["count"] = 5
    # then
    assert convert(through, NEW, TABLE) == new({"team": "a"}, number=5, extra=[1, 2])


def test_a_value_without_an_exact_counterpart_survives_the_round_trip() -> None:
    through = convert(new(speed=7), OLD, TABLE)
    assert through["spec"] == {"mode": "quick"}
    assert convert(through, NEW, TABLE) == new(speed=7)


def test_a_kept_value_that_contradicts_a_later_write_is_dropped() -> None:
    # given
    through = convert(new(speed=7, extra=1), OLD, TABLE)
    # when
    del through["spec"]["mode"]
    # then
    assert convert(through, NEW, TABLE) == new(extra=1)


def test_fields_of_the_older_version_are_kept_on_the_stored_object() -> None:
    # when
    stored = convert(old(count=1, gone="x"), NEW, TABLE)
    # then
    assert stored["spec"] == {"number": 1}
    assert kept(stored, KEPT_OLD) == {"spec": {"gone": "x"}}
    assert convert(stored, OLD, TABLE) == old(count=1, gone="x")


def test_fields_of_list_items_return_to_their_item_wherever_it_is_now() -> None:
    # given
    parts = [{"name": "a", "size": 1, "note": "first"}, {"name": "b", "size": 2, "note": "second"}]
    through = convert(new(parts=parts), OLD, TABLE)
    assert through["spec"]["parts"] == [{"name": "a", "size": 1}, {"name": "b", "size": 2}]
    # when one is removed and one is new
    through["spec"]["parts"] = [{"name": "c", "size": 3}, {"name": "b", "size": 4}]
    # then
    back = convert(through, NEW, TABLE)
    assert back == new(parts=[{"name": "c", "size": 3}, {"name": "b", "size": 4, "note": "second"}])


def test_a_stale_annotation_of_the_objects_own_version_is_removed() -> None:
    # given a manifest that was read in one version and is sent in the other
    stale = {KEPT_NEW: '{"spec":{"extra":1}}'}
    # then
    assert convert(new(stale, number=1), OLD, TABLE) == old(count=1)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"x"'])
def test_a_broken_annotation_keeps_no_values(text: str) -> None:
    assert convert(old({KEPT_NEW: text}, count=1), NEW, TABLE) == new(number=1)


def test_an_annotation_of_another_client_harms_no_metadata() -> None:
    # given
    hostile = {KEPT_NEW: '{"metadata":{"name":"b","uid":"1"},"kind":"Other","spec":{"extra":1}}'}
    # when
    result = convert(old(hostile, count=1), NEW, TABLE)
    # then
    assert result == new(number=1, extra=1)


def test_the_converted_document_is_not_modified() -> None:
    # given
    doc = new({"a": "b"}, number=3, extra={"x": [1]}, parts=[{"name": "a", "note": "n"}])
    copy = json.loads(json.dumps(doc))
    # when
    through = convert(doc, OLD, TABLE)
    through["spec"]["parts"][0]["name"] = "changed"
    # then
    assert doc == copy


@pytest.mark.parametrize("spec", [None, "text", 7, [1], {"parts": {}}])
def test_values_of_the_wrong_type_stay_where_they_are(spec: Any) -> None:
    doc = {"apiVersion": NEW, "kind": "Thing", "metadata": "none", "spec": spec}
    assert convert(doc, OLD, TABLE) == {**doc, "apiVersion": OLD}


def test_the_same_version_gives_a_copy() -> None:
    doc = new(number=1)
    result = convert(doc, NEW, TABLE)
    assert result == doc
    assert result is not doc


@pytest.mark.parametrize(
    ("doc", "to", "why"),
    [
        ({}, NEW, "must have an apiVersion and a kind"),
        ({"apiVersion": 1, "kind": "Thing"}, NEW, "must have an apiVersion and a kind"),
        ({"apiVersion": OLD, "kind": "Other"}, NEW, "there is no conversion of example.com/v1 Other"),
        ({"apiVersion": "example.com/v9", "kind": "Thing"}, NEW, "not from example.com/v9"),
        ({"apiVersion": OLD, "kind": "Thing"}, "example.com/v9", "to example.com/v9"),
        ({"apiVersion": OLD, "kind": "Thing"}, "other.com/v2", "to other.com/v2"),
    ],
)
def test_an_impossible_conversion_is_refused_with_the_reason(doc: Document, to: str, why: str) -> None:
    with pytest.raises(ConversionError, match=why):
        convert(doc, to, TABLE)


def test_labels_and_annotations_are_set_and_removed_without_leaving_empty_maps() -> None:
    doc: Document = {}
    annotate(doc, "a", "1")
    annotate(doc, "b", "2", part="labels")
    assert doc == {"metadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}}}
    annotate(doc, "a", None)
    annotate(doc, "b", None, part="labels")
    assert doc == {"metadata": {}}
