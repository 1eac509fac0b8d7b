"""Conversion loses nothing: a conversion in both directions keeps the meaning, for every kind with two versions.

Objects are generated from the schemas of the CRDs, so every field of every version occurs. A null field, an empty
text and an absent field have the same meaning. So do values that a rule declares equal (a default, the label or
annotation that represents a field).
"""

import json
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykruise.kinds import build_crds, list_conversions
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import KEPT_PREFIX, ConversionError, convert

TABLE = list_conversions()
SCHEMAS = {
    (crd["spec"]["group"], crd["spec"]["names"]["kind"], version["name"]): version["schema"][
        "openAPIV3Schema"
    ]
    for crd in build_crds()
    for version in crd["spec"]["versions"]
}
TWO = sorted(key for key in SCHEMAS if key[:2] in TABLE)

names = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "x", "5", "20%", "true", "ReCreate", "InPlaceOnly", "OnDelete", "True"])
anything: st.SearchStrategy[Any] = st.sampled_from([{"spec": {"x": [1, {"y": None}]}}, {}, {"a": ""}])


def of_schema(schema: Mapping[str, Any], field: str = "") -> st.SearchStrategy[Any]:
    """Values that the schema allows; the items of a list have different identities."""
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(st.integers(0, 9), st.sampled_from(["10%", "7"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "integer":
            return st.integers(schema.get("minimum", 0), 9)
        case "boolean":
            return st.booleans()
        case "string" if schema.get("format") == "date-time":
            return st.sampled_from(["2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z"])
        case "string" if "pattern" in schema or schema.get("minLength"):
            return st.sampled_from(["Ready", "Other"])
        case "string":
            return texts
        case "array":
            return of_list(schema["items"])
        case "object" if "properties" in schema:
            return of_object(schema)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return st.dictionaries(names, of_schema(schema["additionalProperties"]), max_size=2)
    return anything


def of_object(schema: Mapping[str, Any]) -> st.SearchStrategy[Document]:
    fields = {name: of_schema(child, name) for name, child in schema["properties"].items()}
    required = {name: fields.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=fields)


def of_list(items: Mapping[str, Any]) -> st.SearchStrategy[list[Any]]:
    identities = [name for name in ("name", "type", "key", "tag") if name in items.get("properties", {})]
    values = st.lists(of_schema(items), max_size=2)
    if not identities:
        return values

    def numbered(value: list[Document]) -> list[Document]:
        return [{**item, identities[0]: f"Item{index}"} for index, item in enumerate(value)]

    return values.map(numbered)


PARTS = {
    key: {part: of_schema(SCHEMAS[key]["properties"][part]) for part in ("spec", "status")} for key in TWO
}


@st.composite
def objects(draw: st.DrawFn) -> Document:
    """An object of any kind with two versions, in either of them."""
    group, kind, version = key = draw(st.sampled_from(TWO))
    metadata: Document = {"name": "a", "uid": "1"}
    if labels := draw(st.dictionaries(names, texts, max_size=1)):
        metadata["labels"] = labels
    doc: Document = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata}
    doc["spec"] = draw(PARTS[key]["spec"])
    if draw(st.booleans()):
        doc["status"] = draw(PARTS[key]["status"])
    return doc


def other_version(doc: Document) -> str:
    group, _, version = doc["apiVersion"].partition("/")
    return f"{group}/{'v1beta1' if version == 'v1alpha1' else 'v1alpha1'}"


def lacks(result: Any, wanted: Any, path: str = "") -> list[str]:
    """Paths in `wanted` whose values are missing or different in `result`."""
    if wanted is None or wanted == "":
        return []
    if isinstance(wanted, dict) and isinstance(result, dict):
        return [
            problem
            for field, value in wanted.items()
            for problem in lacks(result.get(field), value, f"{path}.{field}")
        ]
    if isinstance(wanted, list) and isinstance(result, list):
        if all(identity(item) for item in (*wanted, *result)):  # a rule may add items
            known = {identity(item): item for item in result}
            pairs = [(known.get(identity(item)), item) for item in wanted]
        else:
            pairs = list(zip_longest(result, wanted))
        return [
            problem
            for index, (item, value) in enumerate(pairs)
            for problem in lacks(item, value, f"{path}[{index}]")
        ]
    return [] if result == wanted else [f"{path}: {result!r} is not {wanted!r}"]


def identity(item: Any) -> str:
    """The field that identifies an item of a list."""
    names = (item.get(name) for name in ("name", "type", "key", "tag")) if isinstance(item, dict) else ()
    return next((name for name in names if isinstance(name, str) and name), "")


def meant(doc: Document) -> Document:
    """The document in the normal form of its kind, which has only the meaning."""
    group, _, _ = doc["apiVersion"].partition("/")
    normalize = TABLE[group, doc["kind"]].normalize
    copy: Document = json.loads(json.dumps(doc))
    return normalize(copy) if normalize else copy


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(objects())
def test_a_conversion_and_its_inverse_keep_the_meaning(doc: Document) -> None:
    # when
    there = convert(doc, other_version(doc), TABLE)
    back = convert(there, doc["apiVersion"], TABLE)
    # then
    assert lacks(back, meant(doc)) == []
    kept = [key for key in back["metadata"].get("annotations", {}) if key.startswith(KEPT_PREFIX)]
    assert not any(key.endswith(doc["apiVersion"].partition("/")[2]) for key in kept)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(objects())
def test_repeated_conversions_are_stable(doc: Document) -> None:
    # given
    there = convert(doc, other_version(doc), TABLE)
    back = convert(there, doc["apiVersion"], TABLE)
    # when
    there_again = convert(back, other_version(doc), TABLE)
    # then
    assert there_again == there
    assert convert(there_again, doc["apiVersion"], TABLE) == back


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(objects())
def test_a_conversion_does_not_modify_its_input_and_keeps_templates(doc: Document) -> None:
    # given
    before = json.dumps(doc)
    # when
    there = convert(doc, other_version(doc), TABLE)
    # then
    assert json.dumps(doc) == before
    for field in ("template", "volumeClaimTemplates"):
        if field in doc["spec"] and doc["kind"] != "UnitedDeployment":
            assert there["spec"][field] == doc["spec"][field]


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 3), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names | texts, inner, max_size=2)),
    max_leaves=6,
)


@st.composite
def broken(draw: st.DrawFn) -> Document:
    """An object with values of wrong types somewhere."""
    doc: Document = json.loads(json.dumps(draw(objects())))
    target: Any = doc
    for _ in range(draw(st.integers(0, 4))):
        below = [value for value in _children(target) if isinstance(value, dict | list) and value]
        if not below:
            break
        target = draw(st.sampled_from(below))
    if isinstance(target, dict):
        for key in draw(st.lists(st.sampled_from(sorted(target)), max_size=3)):
            if target is not doc or key not in ("apiVersion", "kind"):
                target[key] = draw(values)
    elif target:
        target[0] = draw(values)
    return doc


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(broken())
def test_malformed_objects_are_converted_or_refused_with_a_reason(doc: Document) -> None:
    try:
        there = convert(doc, other_version(doc), TABLE)
    except ConversionError:
        return
    assert there["apiVersion"] == other_version(doc)
