"""Label and field selectors."""

from typing import Any

import pytest

from pykruise.kube.values.field_selectors import parse_field_selector
from pykruise.kube.values.selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    SelectorError,
    SelectorOperator,
    format_label_selector,
    parse_label_selector,
    parse_selector,
)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "x"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a in ()", {"a": ""}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "-1"}, True),
        ("a>5", {"a": "many"}, False),
        ("a<5", {}, False),
        ("a>5", {"a": "9999999999999999999"}, False),
        ("in in (in,notin)", {"in": "notin"}, True),
        ("a=b,c!=d", {"a": "b", "c": "d"}, False),
        ("", {}, True),
        ("  ", {"a": "b"}, True),
    ],
)
def test_a_selector_selects_what_all_its_requirements_allow(
    text: str, labels: dict[str, str], selected: bool
) -> None:
    assert parse_label_selector(text).matches(labels) is selected


def test_canonical_text_is_sorted_by_key_and_value() -> None:
    # given
    selector = parse_label_selector(" !d ,c in (y, x,x),  a =b,e , f>1")
    # then
    assert str(selector) == "a=b,c in (x,y),!d,e,f>1"
    assert parse_label_selector(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=b,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a is b", "unable to parse requirement: found 'is', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the",
        ),
        (
            "a/b/c=d",
            'unable to parse requirement: <nil>: Invalid value: "a/b/c": a qualified name must consist',
        ),
        ("a=-", 'unable to parse requirement: values[0][a]: Invalid value: "-": a valid label must be'),
    ],
)
def test_a_syntax_error_is_worded_as_the_api_server_words_it(text: str, says: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value).startswith(says)


def test_a_label_selector_document_joins_labels_and_expressions() -> None:
    # given
    selector = parse_selector(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "NotIn", "values": ["x"]},
                {"key": "any", "operator": "Exists", "values": []},
            ],
        }
    )
    # then
    assert str(selector) == "any,app=web,!old,tier in (a,b),zone notin (x)"
    assert selector.matches({"app": "web", "tier": "a", "any": ""})
    assert not selector.matches({"app": "web", "tier": "a", "any": "", "old": "1"})


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert parse_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.is_empty
    assert parse_selector({}) is EVERYTHING
    assert parse_selector({"matchLabels": {}, "matchExpressions": None}).matches({"a": "b"})
    assert EVERYTHING.is_empty


def expression(operator: Any, *values: Any, key: Any = "a") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("doc", "says"),
    [
        (expression("Gt", "1"), '"Gt" is not a valid label selector operator'),
        (expression(None), '"None" is not a valid label selector operator'),
        (
            expression("In"),
            "values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            expression("Exists", "x"),
            'values: Invalid value: []string{"x"}: values set must be empty for exists and does not exist',
        ),
        (expression("In", "!"), 'values[0][a]: Invalid value: "!": a valid label must be'),
        (expression("Exists", key="_"), 'key: Invalid value: "_": name part must consist of'),
        (expression("In", 1), "keys and values of a label selector must be strings"),
        ({"matchLabels": {"a": "!"}}, 'values[0][a]: Invalid value: "!": a valid label must be'),
        ({"matchLabels": {"a": 1}}, "keys and values of a label selector must be strings"),
        ({"matchLabels": ["a"]}, "invalid label selector: matchLabels must be a map, and"),
        (
            {"matchExpressions": ["a"]},
            "an entry of matchExpressions must be an object with key, operator and values",
        ),
    ],
)
def test_a_wrong_label_selector_document_is_refused(doc: dict[str, Any], says: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(doc)
    assert str(caught.value).startswith(says)


def test_all_errors_of_a_requirement_are_reported_together() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(expression("Exists", "!", key="_"))
    message = str(caught.value)
    assert message.startswith('[key: Invalid value: "_"')
    assert message.endswith("]")
    assert "values: Invalid value" in message
    assert "values[0][_]: Invalid value" in message


def test_an_empty_selector_is_printed_as_none_and_a_broken_one_as_error() -> None:
    assert format_label_selector({"matchLabels": {"b": "1", "a": "2"}}) == "a=2,b=1"
    assert format_label_selector({}) == "<none>"
    assert format_label_selector(None) == "<none>"
    assert format_label_selector(expression("Gt")) == "<error>"


def test_a_selector_gives_the_one_value_it_requires_of_a_label() -> None:
    # given
    selector = parse_label_selector("a=b,c in (d),e in (f,g),h!=i")
    # then
    assert [selector.required_value(key) for key in "acehz"] == ["b", "d", None, None, None]


def test_a_requirement_can_be_taken_apart() -> None:
    assert parse_label_selector("a notin (c,b)").requirements == (
        Requirement("a", SelectorOperator.NOT_IN, ("b", "c")),
    )


# --- field selectors ---


def test_a_field_selector_compares_fields_as_text() -> None:
    # given
    fields = {"metadata.name": "web-0", "status.phase": "Running", "spec.nodeName": ""}
    get = fields.__getitem__
    # then
    assert parse_field_selector("metadata.name=web-0,status.phase!=Failed").matches(get)
    assert parse_field_selector("spec.nodeName=").matches(get)
    assert not parse_field_selector("status.phase==Failed").matches(get)
    assert parse_field_selector("").matches(get)
    assert parse_field_selector("").is_empty


def test_escaped_characters_are_part_of_the_value() -> None:
    # given
    selector = parse_field_selector(r"a=x\,y\=z\\,b!=1")
    # then
    assert [(term.field, term.operator, term.value) for term in selector.requirements] == [
        ("a", "=", "x,y=z\\"),
        ("b", "!=", "1"),
    ]
    assert str(selector) == r"a=x\,y\=z\\,b!=1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_wrong_field_selector_is_refused(text: str, says: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == says


def test_a_field_selector_gives_the_value_it_requires() -> None:
    # given
    selector = parse_field_selector("metadata.name=x,spec.nodeName!=y")
    # then
    assert selector.required_value("metadata.name") == "x"
    assert selector.required_value("spec.nodeName") is None
