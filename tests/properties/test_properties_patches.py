"""The invariant of all patches: a patch computed from two documents turns the first into the second."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.documents import deep_copy, encode_canonical, is_same
from pykruise.kube.patches import (
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge,
    diff_json,
    diff_merge,
    diff_strategic,
)

Doc = dict[str, Any]

POD = "io.k8s.api.core.v1.Pod"

scalars = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from(["", "x", "y"]))
numbers_too = st.one_of(st.none(), scalars, st.sampled_from([0.5, 1.0]))
keys = st.sampled_from(["a", "b", "c/d", "e~f", "0", "-"])


def json_values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
        max_leaves=8,
    )


any_documents = st.dictionaries(keys, json_values(numbers_too), max_size=4)
documents_without_null = st.dictionaries(keys, json_values(scalars), max_size=4)


def some_fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Doc]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def keyed(key: str, values: list[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Doc]]:
    """A list of objects, each with another value of `key`."""
    item = st.fixed_dictionaries({key: st.sampled_from(values)}, optional=fields)
    return st.lists(item, max_size=4, unique_by=lambda each: each[key])


texts = st.sampled_from(["x", "y"])
string_maps = st.dictionaries(st.sampled_from("abc"), texts, max_size=3)
containers = keyed(
    "name",
    ["c1", "c2", "c3", "c4"],
    image=texts,
    args=st.lists(texts, max_size=2),
    env=keyed("name", ["A", "B", "C"], value=texts, valueFrom=some_fields(fieldRef=string_maps)),
    ports=keyed("containerPort", [80, 81, 82], protocol=texts, name=texts),
    resources=some_fields(limits=string_maps, requests=string_maps),
    unknown=json_values(scalars),
)
pods = some_fields(
    metadata=some_fields(
        labels=string_maps,
        annotations=string_maps,
        finalizers=st.lists(st.sampled_from(["f1", "f2", "f3", "f4"]), max_size=4, unique=True),
        ownerReferences=keyed("uid", ["u", "v", "w"], name=texts, controller=st.booleans()),
    ),
    spec=some_fields(
        containers=containers,
        initContainers=containers,
        volumes=keyed("name", ["v1", "v2"], emptyDir=string_maps, hostPath=string_maps),
        tolerations=st.lists(string_maps, max_size=2),
        nodeSelector=string_maps,
        hostAliases=keyed("ip", ["1", "2", "3"], hostnames=st.lists(texts, max_size=2)),
        activeDeadlineSeconds=st.integers(1, 2),
        somethingNew=json_values(scalars),
    ),
    status=some_fields(
        phase=texts,
        conditions=keyed("type", ["Ready", "ContainersReady", "InPlaceUpdateReady"], status=texts),
        containerStatuses=st.lists(string_maps, max_size=2),
    ),
)


@given(pods, pods)
def test_a_strategic_patch_turns_the_old_document_into_the_new_one(old: Doc, new: Doc) -> None:
    # given
    before = deep_copy([old, new])
    # when
    patch = diff_strategic(old, new, definition=POD)
    result = apply_strategic_merge(old, patch, definition=POD)
    # then
    assert is_same(result, new)
    assert encode_canonical(result) == encode_canonical(new)
    assert is_same([old, new], before)


@given(pods)
def test_a_strategic_patch_between_equal_documents_is_empty(doc: Doc) -> None:
    assert diff_strategic(doc, deep_copy(doc), definition=POD) == {}


@given(pods, pods)
def test_applying_a_strategic_patch_twice_changes_nothing_more(old: Doc, new: Doc) -> None:
    # given
    patch = diff_strategic(old, new, definition=POD)
    once = apply_strategic_merge(old, patch, definition=POD)
    # then
    assert is_same(apply_strategic_merge(once, patch, definition=POD), once)


@given(pods, pods, pods)
def test_a_strategic_patch_leaves_foreign_containers_and_labels_in_place(
    old: Doc, new: Doc, live: Doc
) -> None:
    # given another client's container and label in the live object
    live = deep_copy(live)
    live.setdefault("metadata", {}).setdefault("labels", {})["foreign"] = "1"
    live.setdefault("spec", {}).setdefault("containers", []).append({"name": "foreign"})
    for doc in (old, new):
        doc.setdefault("metadata", {}).setdefault("labels", {})
        doc.setdefault("spec", {}).setdefault("containers", [])
    # when
    result = apply_strategic_merge(live, diff_strategic(old, new, definition=POD), definition=POD)
    # then
    assert result["metadata"]["labels"]["foreign"] == "1"
    assert {"name": "foreign"} in result["spec"]["containers"]


@given(pods, pods)
def test_any_document_can_be_merged_in_as_a_patch_without_leaving_nulls_or_changing_it(
    doc: Doc, patch: Doc
) -> None:
    # given
    before = deep_copy([doc, patch])
    # when
    result = apply_strategic_merge(doc, patch, definition=POD)
    # then the result has each field of the patch
    for name, value in patch.get("metadata", {}).get("labels", {}).items():
        assert result["metadata"]["labels"][name] == value
    for item in patch.get("spec", {}).get("containers", []):
        (outcome,) = [other for other in result["spec"]["containers"] if other["name"] == item["name"]]
        assert item.get("image", outcome.get("image")) == outcome.get("image")
    assert is_same([doc, patch], before)


@given(documents_without_null, documents_without_null)
def test_a_merge_patch_turns_the_old_document_into_the_new_one(old: Doc, new: Doc) -> None:
    # when
    patch = diff_merge(old, new)
    # then
    assert is_same(apply_merge_patch(old, patch), new)
    assert diff_merge(new, new) == {}


@given(any_documents, any_documents)
def test_a_json_patch_turns_the_old_document_into_the_new_one(old: Doc, new: Doc) -> None:
    # given
    before = deep_copy([old, new])
    # when
    result = apply_json_patch(old, diff_json(old, new))
    # then
    assert is_same(result, new)
    assert is_same([old, new], before)
