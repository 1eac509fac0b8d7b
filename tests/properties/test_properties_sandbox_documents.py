"""The sandbox decodes every document of a client, or rejects it with a message, and never has an internal error."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.documents import deep_copy
from pykruise.kube.schemas.builtin_types import fields_of
from pykruise.sandbox.apiserver.builtin import DecodeError, find_strategy
from pykruise.sandbox.apiserver.catalog import Catalog, list_builtin_entries
from pykruise.sandbox.apiserver.custom.schema import NotStructuralError, StructuralSchema
from pykruise.sandbox.apiserver.printing.cells import format_human_duration
from pykruise.sandbox.apiserver.printing.json_path import JSONPathError, compile_path
from pykruise.sandbox.apiserver.printing.tables import build_table
from pykruise.sandbox.apiserver.requests.protobuf import ProtobufError, to_document
from support.examples import examples

ENTRIES = {
    str(entry.resource): entry for entry in Catalog(list_builtin_entries(find_strategy)).list_entries()
}
KINDS = ("pods", "deployments.apps", "services", "persistentvolumeclaims", "jobs.batch", "secrets")

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@st.composite
def of_kind(draw: st.DrawFn, kind: str, depth: int = 0) -> Any:
    """Documents that are mostly valid: a few fields of a definition, with values of the right type."""
    kind = kind.removeprefix("*")
    if kind.startswith("[]"):
        return [draw(of_kind(kind[2:], depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    if kind.startswith("{}"):
        keys = draw(st.lists(st.sampled_from(["a", "cpu", "b/c", ""]), unique=True, max_size=2))
        return {key: draw(of_kind(kind[2:], depth + 1)) for key in keys}
    fields = fields_of(kind)
    if fields is None:
        return draw(_SCALARS_OF.get(kind, VALUES))
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=4)) if fields else []
    return {name: draw(of_kind(fields[name].kind, depth + 1)) for name in names if depth < 7}


_SCALARS_OF: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "bytes": st.sampled_from(["", "YQ==", "AAAA"]),
    "int32": st.integers(-2, 70000),
    "int64": st.integers(-2, 70000),
    "intOrString": st.integers(-1, 100) | st.sampled_from(["50%", "x", ""]),
    "object": st.just({}),
    "microtime": st.just("2026-01-01T00:00:00.000000Z"),
    "quantity": st.sampled_from(["1", "500m", "-1", "1Gi", "0"]),
    "string": st.sampled_from(["", "a", "Always", "A_B", "a/b/c", "RollingUpdate", "x" * 70]),
    "time": st.just("2026-01-01T00:00:00Z"),
}


@pytest.mark.parametrize("name", KINDS)
@examples(0.6)
@given(data=st.data())
def test_any_document_of_a_kind_is_decoded_defaulted_and_validated(name: str, data: st.DataObject) -> None:
    # given
    entry = ENTRIES[name]
    strategy = find_strategy(entry.resource)
    doc = data.draw(of_kind(entry.definition))
    before = deep_copy(doc)
    # when
    read, unknown = strategy.decode(doc)
    made = strategy.prepare_create(strategy.default(read))
    causes = strategy.validate_create(made)
    # then
    assert doc == before
    assert unknown == []
    assert strategy.default(deep_copy(made)) == made
    assert all(cause.message and cause.reason for cause in causes)
    json.dumps(build_table(entry, [made], now=0.0))
    # and an update of a valid document to itself is valid
    again = strategy.prepare_update(deep_copy(made), made)
    problems = strategy.validate_update(again, made)
    assert causes or not problems


@pytest.mark.parametrize("name", KINDS)
@given(doc=st.dictionaries(st.sampled_from(["metadata", "spec", "status", "data", "x"]), VALUES, max_size=4))
def test_any_json_is_a_document_or_a_refusal(name: str, doc: dict[str, Any]) -> None:
    # given
    strategy = find_strategy(ENTRIES[name].resource)
    before = deep_copy(doc)
    # when
    with contextlib.suppress(DecodeError):
        read, _ = strategy.decode(doc)
        # then
        assert strategy.decode(read) == (read, [])
    assert doc == before


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "enum": ["a", "b"], "default": "a"},
            {"type": "integer", "minimum": 0, "default": 1},
            {"type": "number", "nullable": True},
            {"type": "boolean"},
            {"x-kubernetes-int-or-string": True},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ]
    ),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda properties: {"type": "object", "properties": properties}
        ),
        inner.map(lambda sub: {"type": "object", "additionalProperties": sub}),
        inner.map(lambda sub: {"type": "array", "items": sub}),
    ),
    max_leaves=6,
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
)


@given(node=SCHEMAS, value=DOCUMENTS)
def test_pruning_and_defaulting_settle_after_one_pass_and_validation_never_fails(
    node: Any, value: Any
) -> None:
    # given
    schema = StructuralSchema.from_crd_schema({"type": "object", "properties": {"spec": node}})
    doc = {"spec": value}
    # when
    once, _ = schema.prune(deep_copy(doc))
    once = schema.default(once)
    twice, dropped = schema.prune(deep_copy(once))
    # then
    assert dropped == []
    assert schema.default(twice) == once
    before = deep_copy(once)
    causes = schema.validate(once)
    assert once == before
    assert schema.validate(once, once) == []
    assert all(cause.message for cause in causes)


@given(node=VALUES)
def test_any_schema_is_compiled_or_refused_with_the_place(node: Any) -> None:
    # given
    doc = {"type": "object", "properties": {"a": node}}
    # when
    places = ["schema"]
    try:
        StructuralSchema.from_crd_schema(doc, path="schema").validate({"a": 1})
    except NotStructuralError as error:
        places = [cause.field for cause in error.causes]
    # then
    assert places
    assert all(place.startswith("schema") for place in places)


@given(body=st.binary(max_size=60))
def test_any_bytes_are_protobuf_or_a_refusal(body: bytes) -> None:
    for prefix in (
        b"",
        b"k8s\x00",
        b"k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12",
        b"k8s\x00\n\t\n\x02v1\x12\x03Pod\x12",
    ):
        with contextlib.suppress(ProtobufError):
            json.dumps(to_document(prefix + body))


@given(path=st.text(alphabet=".[]()?@*'\"ab=<>:,0-1 \\", max_size=14))
def test_any_text_is_a_json_path_or_a_refusal(path: str) -> None:
    with contextlib.suppress(JSONPathError):
        assert isinstance(compile_path(path)({"a": [{"b": 1}, 2], "b": {"a": "x"}}), list)


@given(seconds=st.floats(min_value=-10, max_value=1e11))
def test_an_age_is_short(seconds: float) -> None:
    assert 1 < len(format_human_duration(seconds)) <= 9
