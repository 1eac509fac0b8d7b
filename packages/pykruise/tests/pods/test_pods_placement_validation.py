"""Errors in tolerations, and their fields."""

from typing import Any

import pytest

from pykruise.pods.template.placement_validation import find_toleration_errors


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


@pytest.mark.parametrize("nothing", [{}, dict.fromkeys(("key", "operator", "value", "effect"))])
def test_a_missing_value_is_reported_as_the_empty_value(nothing: dict[str, Any]) -> None:
    """A null is an absent field, as for API servers."""
    nowhere = {"tolerationSeconds": 5, "operator": "Exists"}
    causes = find_toleration_errors([nothing, {**nothing, **nowhere}], "tolerations")
    assert [(cause.field, cause.message.split(": ")[1]) for cause in causes] == [
        ("tolerations[0].operator", '""'),
        ("tolerations[1].effect", '""'),
    ]
