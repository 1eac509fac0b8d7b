"""Fields that creators own: computed once for equal objects, and never mixed up."""

import random
import uuid
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet
from pykruise.sandbox.apiserver.managed.owned import (
    OwnedFields,
    compute_creator_fields,
    find_differences,
    set_between,
)
from pykruise.sandbox.apiserver.managed.shapes import build_definition_shape
from pykruise.sandbox.apiserver.managed.values import compare
from pykruise.sandbox.apiserver.objects.metadata import make_uid
from pykruise.sandbox.apiserver.requests.encoding import encode_object

CONFIG_MAP = build_definition_shape("io.k8s.api.core.v1.ConfigMap")
POD = build_definition_shape("io.k8s.api.core.v1.Pod")
NOT_STATUS: FieldSet = {"f:status": {}}


def owned(*, ignored: Any = EMPTY) -> OwnedFields:
    return OwnedFields(CONFIG_MAP, empty={"metadata": {}}, ignored=ignored)


def config_map(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **members}


def stored(doc: dict[str, Any]) -> bytes:
    return encode_object(doc)


def test_a_creator_owns_what_it_named_and_nothing_of_the_server() -> None:
    # given
    doc = config_map(data={"b": "1", "a": "2"})
    doc["metadata"] |= {"uid": "u", "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    # when
    data = owned().spell_out(stored(doc), b"{}")
    # then in the order of stored objects
    assert data == (b'{"f:data":{".":{},"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}')


def test_field_sets_are_shared_by_objects_that_differ_only_in_leaf_values() -> None:
    # given
    sets = owned()
    first = sets.spell_out(stored(config_map(data={"a": "1"})), b"{}")
    # then
    assert sets.spell_out(stored(config_map(data={"a": "2"})), b"{}") is first
    for other in (
        config_map(data={"b": "1"}),
        config_map(data={"a": "1", "b": "1"}),
        config_map(data={}),
        config_map(data=None),
        config_map(binaryData={"a": "1"}),
        config_map(data={"a": "1"}, immutable=True),
        config_map(data={"a": "1"}, metadata={"labels": {"a": "1"}}),
        config_map(data={"a": "1"}, metadata={"annotations": {"a": "1"}}),
        config_map(data={"a": "1"}, metadata={"finalizers": ["a"]}),
    ):
        expected = orjson.dumps(
            compute_creator_fields({"metadata": {}}, other, CONFIG_MAP, EMPTY), option=orjson.OPT_SORT_KEYS
        )
        assert sets.spell_out(stored(other), b"{}") == expected != first


def test_fields_taken_by_other_managers_are_left_out() -> None:
    # given
    sets = owned()
    doc = config_map(data={"a": "1", "b": "2"})
    everything = sets.spell_out(stored(doc), b'{"":null}')
    # when
    left = sets.spell_out(stored(doc), b'{"f:data":{"f:b":{}}}')
    # then
    assert orjson.loads(everything) == {"f:data": {".": {}, "f:a": {}, "f:b": {}}}
    assert orjson.loads(left) == {"f:data": {".": {}, "f:a": {}}}
    assert sets.spell_out(stored(doc), b'{"f:data":{".":{},"f:a":{},"f:b":{}}}') == b""


_SCALARS = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["a", "b"]))
_MAPS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)
_CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ab")}, optional={"image": st.sampled_from("xy")}),
    max_size=2,
    unique_by=lambda each: each["name"],
)
_PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": _MAPS, "annotations": _MAPS, "uid": _SCALARS}
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": _CONTAINERS,
                "nodeName": st.sampled_from("ab"),
                "nodeSelector": _MAPS,
                "tolerations": st.lists(st.just({"key": "a"}), max_size=2),
            },
        ),
        "status": st.fixed_dictionaries({}, optional={"phase": st.sampled_from("ab")}),
    },
)


@given(old=_PODS, new=_PODS)
def test_only_what_differs_is_compared_and_the_result_is_that_of_the_whole(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    # given
    def whole(doc: dict[str, Any]) -> dict[str, Any]:
        return {
            member: {name: each for name, each in value.items() if name != "uid"}
            for member, value in doc.items()
            if member != "status"
        }

    # when
    left, right = find_differences(old, new, NOT_STATUS)
    # then
    assert compare(left, right, POD) == compare(whole(old), whole(new), POD)
    assert set_between(left, right, POD) == set_between(whole(old), whole(new), POD)


@pytest.mark.parametrize("seed", range(20))
def test_uids_are_random_uuids(seed: int) -> None:
    # given
    bits = random.Random(seed).getrandbits(128)
    # then
    assert make_uid(random.Random(seed)) == str(uuid.UUID(int=bits, version=4))
