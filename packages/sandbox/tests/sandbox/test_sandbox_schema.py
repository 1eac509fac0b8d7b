"""Schemas of custom resources: structural rules, defaults, pruning, and checks beyond the recorded ones."""

import timeit
from typing import Any

import pytest

from pykruise.kube.values.patterns import compile_pattern
from pykruise.sandbox.apiserver.custom.formats import check_for
from pykruise.sandbox.apiserver.custom.schema import NotStructuralError, StructuralSchema

Node = dict[str, Any]


def compiled(spec: Node, **root: Any) -> StructuralSchema:
    return StructuralSchema.from_crd_schema({"type": "object", "properties": {"spec": spec}, **root})


def messages(spec: Node, value: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in compiled(spec).validate({"spec": value})]


def an_object(**properties: Node) -> Node:
    return {"type": "object", "properties": properties}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        ({}, "type", "Required value: must not be empty at the root"),
        ({"type": "array", "items": STRING}, "type", 'Invalid value: "array": must be object at the root'),
        (
            an_object(a={}),
            "properties[a].type",
            "Required value: must not be empty for specified object fields",
        ),
        (
            an_object(a={"type": "array", "items": {}}),
            "properties[a].items.type",
            "Required value: must not be empty for specified array items",
        ),
        (an_object(a={"type": "array"}), "properties[a].items", "Required value: must be specified"),
        (an_object(a={"type": "text"}), "properties[a].type", 'Unsupported value: "text"'),
        (an_object(a={"$ref": "#/x", **STRING}), "properties[a].$ref", "Forbidden: $ref is not supported"),
        (
            an_object(a={**STRING, "uniqueItems": True}),
            "properties[a].uniqueItems",
            "Forbidden: uniqueItems cannot be set to true",
        ),
        (
            an_object(a={**an_object(b=STRING), "additionalProperties": STRING}),
            "properties[a].additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "object", "additionalProperties": STRING},
            "additionalProperties",
            "Forbidden: must not be used at the root",
        ),
        (
            an_object(metadata=an_object(labels={"type": "object"})),
            "properties[metadata]",
            "Forbidden: must not specify anything other than name and generateName",
        ),
        (
            an_object(a={**STRING, "anyOf": [{"type": "string"}]}),
            "properties[a].anyOf[0].type",
            "Forbidden: must be empty to be structural",
        ),
        (
            an_object(a={**STRING, "not": {"default": "x"}}),
            "properties[a].not.default",
            "Forbidden: must be undefined to be structural",
        ),
        (
            an_object(a={"x-kubernetes-embedded-resource": True, **STRING}),
            "properties[a].type",
            'Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
        ),
        (
            an_object(a={"type": "array", "items": an_object(k=STRING), "x-kubernetes-list-type": "map"}),
            "properties[a].x-kubernetes-list-map-keys",
            "Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            an_object(
                a={
                    "type": "array",
                    "items": an_object(k=STRING),
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["z"],
                }
            ),
            "properties[a].x-kubernetes-list-map-keys[0]",
            'Invalid value: "z": entries must all be names of item properties',
        ),
        (
            an_object(a={**STRING, "pattern": "("}),
            "properties[a].pattern",
            'Invalid value: "(": must be a valid',
        ),
        (an_object(a={**INTEGER, "default": "x"}), "properties[a].default", 'Invalid value: "string"'),
    ],
)
def test_a_schema_that_is_not_structural_is_refused_with_the_place(
    schema: Node, field: str, message: str
) -> None:
    # when
    with pytest.raises(NotStructuralError) as refused:
        StructuralSchema.from_crd_schema(schema, path="spec.versions[0].schema.openAPIV3Schema")
    # then
    result = {cause.field: cause.message for cause in refused.value.causes}
    place = f"spec.versions[0].schema.openAPIV3Schema.{field}"
    assert result[place].startswith(message)
    assert place in str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_all_errors_of_a_schema_are_reported_together() -> None:
    # when
    with pytest.raises(NotStructuralError) as refused:
        StructuralSchema.from_crd_schema(an_object(a={}, b={}, c={"type": "array"}))
    # then
    assert len(refused.value.causes) == 3


def test_int_or_string_may_leave_its_type_to_the_usual_pattern() -> None:
    # given
    spec = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    # then
    assert messages(an_object(a=spec), {"a": 5}) == []
    assert messages(an_object(a=spec), {"a": "5%"}) == []
    assert messages(an_object(a=spec), {"a": 1.5})[0].endswith('must be of type integer,string: "number"')


def test_the_schema_object_around_it_is_taken_as_well() -> None:
    assert StructuralSchema.from_crd_schema({"openAPIV3Schema": an_object()}).validate({}) == []


def test_cel_rules_are_evaluated_at_their_place() -> None:
    # given
    rule = [{"rule": "self > 5", "message": "must be more than 5"}]
    items = {"type": "array", "items": {**INTEGER, "x-kubernetes-validations": rule}}
    schema = compiled(an_object(a=items))
    # then
    assert messages(an_object(a=items), {"a": [6]}) == []
    assert [cause.field for cause in schema.validate({"spec": {"a": [1, 9]}})] == ["spec.a[0]"]


def test_a_rule_about_a_change_is_checked_at_an_update_only() -> None:
    # given
    schema = compiled(an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}))
    # then
    assert schema.validate({"spec": {"a": 1}}) == []
    assert schema.validate({"spec": {"a": 1}}, {"spec": {}}) == []
    assert len(schema.validate({"spec": {"a": 1}}, {"spec": {"a": 2}})) == 1


def test_a_violated_rule_does_not_block_an_update_that_keeps_its_value() -> None:
    # given
    schema = compiled(an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self > 5"}]}, b=INTEGER))
    # then
    assert schema.validate({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1, "b": 1}}) == []


def test_rules_are_not_checked_on_what_has_the_wrong_type() -> None:
    # given
    schema = compiled(an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self > 5"}]}))
    # when
    causes = schema.validate({"spec": {"a": "text"}})
    # then
    assert causes[-1].field == "<nil>"
    assert "some validation rules were not checked" in causes[-1].message


@pytest.mark.parametrize("rule", ["self >", "nope(self)", "", "other > 1"])
def test_a_rule_that_cannot_be_compiled_is_an_offence_of_the_schema(rule: str) -> None:
    with pytest.raises(NotStructuralError, match=r"x-kubernetes-validations\[0\]\.rule"):
        compiled(an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": rule}]}))


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (an_object(a={**INTEGER, "default": 3}), {}, {"a": 3}),
        (an_object(a={**INTEGER, "default": 3}), {"a": None}, {"a": 3}),
        (an_object(a={**INTEGER, "default": 3, "nullable": True}), {"a": None}, {"a": None}),
        (an_object(a={**INTEGER, "default": 0}), {"a": 7}, {"a": 7}),
        (an_object(a={**an_object(b={**INTEGER, "default": 1}), "default": {}}), {}, {"a": {"b": 1}}),
        (an_object(a=an_object(b={**INTEGER, "default": 1})), {}, {}),
        (
            {"type": "array", "items": an_object(b={**STRING, "default": "x"})},
            [{}, {"b": "y"}],
            [{"b": "x"}, {"b": "y"}],
        ),
        (
            {"type": "object", "additionalProperties": an_object(b={**STRING, "default": "x"})},
            {"k": {}},
            {"k": {"b": "x"}},
        ),
        ({"type": "object", "additionalProperties": {**INTEGER, "default": 2}}, {"k": None}, {"k": 2}),
        ({"type": "array", "items": {**INTEGER, "default": 2}}, [None, 1], [2, 1]),
    ],
)
def test_defaults_fill_what_is_absent_or_null(spec: Node, value: Any, expected: Any) -> None:
    assert compiled(spec).default({"spec": value}) == {"spec": expected}


def test_filled_in_defaults_share_nothing() -> None:
    # given
    schema = compiled(
        an_object(a={**an_object(), "default": {}, "x-kubernetes-preserve-unknown-fields": True})
    )
    first, second = schema.default({"spec": {}}), schema.default({"spec": {}})
    # when
    first["spec"]["a"]["changed"] = True
    # then
    assert second["spec"]["a"] == {}


@pytest.mark.parametrize(
    ("spec", "value", "expected", "dropped"),
    [
        (an_object(a=INTEGER), {"a": 1, "b": 2}, {"a": 1}, ["spec.b"]),
        (an_object(a=INTEGER), {"a": None}, {}, []),
        (an_object(a={**INTEGER, "nullable": True}), {"a": None}, {"a": None}, []),
        (an_object(a={**INTEGER, "default": 1}), {"a": None}, {"a": None}, []),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"x": {"y": None}},
            {"x": {"y": None}},
            [],
        ),
        (
            {**an_object(a=an_object(b=INTEGER)), "x-kubernetes-preserve-unknown-fields": True},
            {"z": 1, "a": {"b": 1, "c": 2}},
            {"z": 1, "a": {"b": 1}},
            ["spec.a.c"],
        ),
        (
            {"type": "array", "items": an_object(a=INTEGER)},
            [{"a": 1, "q": 1}, {"r": 2}],
            [{"a": 1}, {}],
            ["spec[0].q", "spec[1].r"],
        ),
        (
            {"type": "object", "additionalProperties": an_object(a=INTEGER)},
            {"k": {"b": 1}},
            {"k": {}},
            ["spec.k.b"],
        ),
        ({"type": "object", "additionalProperties": True}, {"k": {"b": 1}}, {"k": {}}, ["spec.k.b"]),
        (
            {**an_object(a=INTEGER), "x-kubernetes-embedded-resource": True},
            {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x", "bad": 1}, "a": 1, "b": 2},
            {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x"}, "a": 1},
            ["spec.b", "spec.metadata.bad"],
        ),
    ],
)
def test_pruning_drops_fields_that_the_schema_does_not_have(
    spec: Node, value: Any, expected: Any, dropped: list[str]
) -> None:
    assert compiled(spec).prune({"spec": value}) == ({"spec": expected}, dropped)


def test_the_objects_own_metadata_is_never_pruned() -> None:
    # given
    doc = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x", "labels": {"a": "b"}}, "bogus": 1}
    # when
    pruned, dropped = compiled(an_object()).prune(dict(doc))
    # then
    assert pruned == {key: value for key, value in doc.items() if key != "bogus"}
    assert dropped == ["bogus"]


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        ({**STRING, "maxLength": 3}, "äöü", []),
        (
            {**STRING, "pattern": "^a$"},
            "a\n",
            ["spec: Invalid value: \"a\\n\": spec in body should match '^a$'"],
        ),
        ({**INTEGER, "multipleOf": 5}, 7, ["spec: Invalid value: 7: spec in body should be a multiple of 5"]),
        (
            {"type": "number", "maximum": 2.5, "exclusiveMaximum": True},
            2.5,
            ["spec: Invalid value: 2.5: spec in body should be less than 2.5"],
        ),
        (
            {"type": "object", "additionalProperties": INTEGER, "minProperties": 1},
            {},
            ["spec: Invalid value: 0: spec in body should have at least 1 properties"],
        ),
        ({**STRING, "enum": ["a", "b"]}, "c", ['spec: Unsupported value: "c": supported values: "a", "b"']),
        ({**INTEGER, "enum": [1, 2]}, 1.0, []),
        (
            {"type": "boolean"},
            1,
            ['spec: Invalid value: "integer": spec in body must be of type boolean: "integer"'],
        ),
        (INTEGER, True, ['spec: Invalid value: "boolean": spec in body must be of type integer: "boolean"']),
        ({"type": "number"}, 1, []),
        (
            {"type": "array", "items": {**INTEGER, "maximum": 1}},
            [0, 5],
            ["spec[1]: Invalid value: 5: spec[1] in body should be less than or equal to 1"],
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "boolean"}},
            [True, False, True],
            ["spec[2]: Duplicate value: true"],
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {**an_object(a=STRING, b=INTEGER), "required": ["a", "b"]},
            },
            [{"a": "x", "b": 1}, {"a": "x", "b": 2}, {"a": "x", "b": 1}],
            ['spec[2]: Duplicate value: map[string]interface {}{"a":"x", "b":1}'],
        ),
    ],
)
def test_values_that_break_a_rule_are_refused_in_the_servers_words(
    spec: Node, value: Any, expected: list[str]
) -> None:
    assert messages(spec, value) == expected


def test_validating_leaves_the_document_alone() -> None:
    # given
    spec = an_object(a={**INTEGER, "default": 1}, b={"type": "array", "items": STRING})
    doc = {"spec": {"b": [1, "x"], "zz": 1}}
    # when
    compiled(spec).validate(doc)
    # then
    assert doc == {"spec": {"b": [1, "x"], "zz": 1}}


def test_a_workload_with_an_open_template_is_checked_in_tens_of_microseconds() -> None:
    # given a schema like that of a CloneSet: typed fields around an open template
    template = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    int_or_string = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    strategy = an_object(
        type={**STRING, "enum": ["ReCreate", "InPlaceIfPossible"]},
        partition=int_or_string,
        maxUnavailable=int_or_string,
        paused={"type": "boolean"},
    )
    labels = an_object(matchLabels={"type": "object", "additionalProperties": STRING})
    spec = {
        **an_object(
            replicas={**INTEGER, "format": "int32", "minimum": 0},
            selector=labels,
            template=template,
            updateStrategy=strategy,
        ),
        "required": ["selector", "template"],
    }
    schema = compiled(spec)
    container = {"name": "a", "image": "b", "env": [{"name": str(n), "value": "v"} for n in range(50)]}
    doc = {
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {"containers": [container]}},
            "updateStrategy": {"type": "InPlaceIfPossible", "partition": "20%", "paused": False},
        }
    }
    # when
    seconds = min(timeit.repeat(lambda: schema.validate(doc), number=200, repeat=5)) / 200
    # then
    assert schema.validate(doc) == []
    assert seconds < 200e-6, f"{seconds * 1e6:.0f} µs"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123+02:00"],
            ["2020-01-02", "2020-13-01T00:00:00Z", "x"],
        ),
        ("date", ["2020-02-29"], ["2021-02-29", "2020-1-1"]),
        ("byte", ["", "YQ=="], ["Y", "???"]),
        ("ipv4", ["1.2.3.4"], ["1.2.3", "::1"]),
        ("ipv6", ["::1"], ["1.2.3.4", "x"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/99"]),
        ("mac", ["00:11:22:33:44:55"], ["00:11"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
        ("uuid4", ["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
        ("hostname", ["a.example.com"], ["-a", "a b", ""]),
        ("email", ["a@b.c"], ["a", "a@"]),
        ("uri", ["https://x/y", "/x"], ["x y", ""]),
        ("duration", ["5m", "1h30m", "22 ns", "0"], ["x", "5"]),
        ("hexcolor", ["#fff", "a0b1c2"], ["#ff"]),
        ("rgbcolor", ["rgb(1,2,3)"], ["rgb(1,2)"]),
        ("isbn", ["0321751043", "978-0321751041"], ["0321751044"]),
        ("creditcard", ["4111-1111-1111-1111"], ["1234"]),
        ("ssn", ["111-22-3333"], ["1"]),
        ("bsonobjectid", ["0123456789abcdef01234567"], ["0123"]),
        ("password", ["anything"], []),
    ],
)
def test_formats_of_strings_are_checked(name: str, good: list[str], bad: list[str]) -> None:
    # given
    check = check_for(name)
    assert check is not None
    # then
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


@pytest.mark.parametrize("name", ["int32", "int64", "double", "made-up"])
def test_other_formats_are_not_checked(name: str) -> None:
    assert check_for(name) is None


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[a-z]+$", "abc", "abc\n"),
        ("b", "abc", "ac"),
        (r"^\d+$", "123", "१२३"),
        ("^[[:alpha:]]+$", "aB", "a1"),
        ("^[$]$", "$", "x"),
        (r"^a\$$", "a$", "a"),
        (r"^a\z", "a", "ab"),
        ("(?i)^ABC$", "abc", "abd"),
    ],
)
def test_patterns_match_as_in_go(pattern: str, good: str, bad: str) -> None:
    # given
    compiled_pattern = compile_pattern(pattern)
    # then
    assert compiled_pattern.search(good)
    assert not compiled_pattern.search(bad)
