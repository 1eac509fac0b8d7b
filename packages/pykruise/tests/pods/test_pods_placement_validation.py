"""Errors in node selector terms, preferences and tolerations, and their fields."""

from typing import Any

import pytest

from pykruise.pods.template.placement_validation import (
    find_node_term_errors,
    find_preferred_terms_errors,
    find_toleration_errors,
)


def expression(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("compares", "wrong"),
    [
        (expression("In", "a"), []),
        (expression("In"), ["values"]),
        (expression("Exists", "a"), ["values"]),
        (expression("Gt", "1", "2"), ["values"]),
        (expression("Gt", "1"), []),
        (expression("Is", "a"), ["operator"]),
        (expression("In", "a", key="no/such/key"), ["key"]),
        (expression("In", "a", "not valid"), ["values[1]"]),
        (expression("Exists", "not valid"), ["values"]),
        (expression("Gt", "-1"), []),
        ({"key": "zone", "operator": "Exists", "values": None}, []),
        ({"key": "zone", "operator": "In", "values": None}, ["values"]),
        ({"key": "zone", "operator": "Lt", "values": None}, ["values"]),
    ],
)
def test_an_expression_needs_what_its_operator_compares_with(
    compares: dict[str, Any], wrong: list[str]
) -> None:
    causes = list(find_node_term_errors({"matchExpressions": [compares]}, "term"))
    assert [cause.field for cause in causes] == [f"term.matchExpressions[0].{field}" for field in wrong]


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (expression("In", "n1", key="metadata.name"), []),
        (expression("In", "n1", "n2", key="metadata.name"), ["values"]),
        (expression("Exists", key="metadata.name"), ["operator"]),
        (expression("In", "n1", key="metadata.uid"), ["key"]),
        ({"key": "metadata.name", "operator": "In", "values": None}, ["values"]),
        (expression("NotIn", "Not_A_Name", key="metadata.name"), ["values[0]"]),
        (expression("In", "Not_A_Name", key="metadata.uid"), ["key"]),
    ],
)
def test_the_only_field_of_a_node_is_its_name(entry: dict[str, Any], wrong: list[str]) -> None:
    causes = list(find_node_term_errors({"matchFields": [entry]}, "term"))
    assert [cause.field for cause in causes] == [f"term.matchFields[0].{field}" for field in wrong]


@pytest.mark.parametrize(("weight", "count"), [(1, 0), (100, 0), (0, 1), (101, 1)])
def test_weights_have_bounds(weight: int, count: int) -> None:
    terms = [{"weight": weight, "preference": {"matchExpressions": [expression("Exists")]}}]
    assert len(list(find_preferred_terms_errors(terms, "terms"))) == count


def test_a_preference_is_a_term_like_others() -> None:
    terms = [{"weight": 1}, {"weight": 1, "preference": {"matchExpressions": [expression("In")]}}]
    causes = list(find_preferred_terms_errors(terms, "terms"))
    assert [cause.field for cause in causes] == ["terms[1].preference.matchExpressions[0].values"]


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "a", "value": "b"}, []),
        ({"value": "b"}, ["operator"]),
        ({"key": "a", "operator": "Exists", "value": "b"}, ["operator"]),
        ({"key": "a", "operator": "Is"}, ["operator"]),
        ({"key": "a", "effect": "Never"}, ["effect"]),
        ({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}, ["effect"]),
        ({"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}, []),
        ({"key": "not valid"}, ["key"]),
    ],
)
def test_invalid_tolerations_are_reported_with_their_field(entry: dict[str, Any], wrong: list[str]) -> None:
    causes = list(find_toleration_errors([entry], "tolerations"))
    assert [cause.field for cause in causes] == [f"tolerations[0].{field}" for field in wrong]


@pytest.mark.parametrize("nothing", [{}, dict.fromkeys(("key", "operator", "value", "values", "effect"))])
def test_a_missing_value_is_reported_as_the_empty_value(nothing: dict[str, Any]) -> None:
    """A null is an absent field, as for API servers."""
    # given
    term = {"matchExpressions": [nothing], "matchFields": [nothing]}
    nowhere = {"tolerationSeconds": 5, "operator": "Exists"}
    # when
    causes = [
        *find_node_term_errors(term, "term"),
        *find_preferred_terms_errors([{"weight": None, "preference": None}, {}], "terms"),
        *find_toleration_errors([nothing, {**nothing, **nowhere}], "tolerations"),
    ]
    # then
    assert [(cause.field, cause.message.split(": ")[1]) for cause in causes] == [
        ("term.matchExpressions[0].operator", '""'),
        ("term.matchExpressions[0].key", '""'),
        ("term.matchExpressions[0].key", '""'),
        ("term.matchFields[0].operator", '""'),
        ("term.matchFields[0].key", '""'),
        ("terms[0].weight", "0"),
        ("terms[1].weight", "0"),
        ("tolerations[0].operator", '""'),
        ("tolerations[1].effect", '""'),
    ]
