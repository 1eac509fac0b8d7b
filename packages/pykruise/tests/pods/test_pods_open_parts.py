"""Parts of specs with an open schema, and their values in Go."""

from typing import Any

import pytest

from pykruise.kube.schemas.zero_values import fill_zero_values
from pykruise.pods.template.typed_parts import (
    CLAIMS,
    LABEL_SELECTOR,
    POD_TEMPLATE,
    TEMPLATES,
    empty_parts,
    explain_unreadable,
    fill_parts,
)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}),
        ({"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}),
        (
            {"spec": {"containers": [{"args": [None], "resources": {"limits": {"cpu": None}}}]}},
            {"spec": {"containers": [{"args": [""], "resources": {"limits": {"cpu": "0"}}}]}},
        ),
        (
            {"spec": {"securityContext": {"supplementalGroups": [None, 7]}}},
            {"spec": {"securityContext": {"supplementalGroups": [0, 7]}}},
        ),
        # a null field is an absent one, unknown fields and fields of another type stay
        ({"metadata": None, "spec": {"new": [None]}}, {"metadata": None, "spec": {"new": [None]}}),
        ({"spec": {"containers": {"a": None}}}, {"spec": {"containers": {"a": None}}}),
        ({"metadata": {"labels": [None]}}, {"metadata": {"labels": [None]}}),
        (None, None),
    ],
)
def test_a_null_in_a_list_or_map_is_the_zero_value_of_its_type(given: Any, value: Any) -> None:
    assert fill_zero_values(given, POD_TEMPLATE) == value


def test_only_parts_are_filled() -> None:
    spec = {"template": {"spec": {"volumes": [None]}}, "other": [None], "volumeClaimTemplates": [None]}
    assert fill_parts(spec, TEMPLATES) == {
        "template": {"spec": {"volumes": [{}]}},
        "other": [None],
        "volumeClaimTemplates": [{}],
    }
    assert fill_parts({"template": None}, TEMPLATES) == {"template": None}


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (None, POD_TEMPLATE, ""),
        ({}, POD_TEMPLATE, ""),
        ("x", POD_TEMPLATE, ": json: cannot unmarshal string into Go value of type v1.PodTemplateSpec"),
        (None, CLAIMS, ""),
        ([None, {}], CLAIMS, ""),
        (7, CLAIMS, ": json: cannot unmarshal number into Go value of type []v1.PersistentVolumeClaim"),
        (
            [{}, 7],
            CLAIMS,
            "[1]: json: cannot unmarshal number into Go value of type v1.PersistentVolumeClaim",
        ),
        (
            {"matchLabels": {"a": 7}},
            LABEL_SELECTOR,
            ": json: cannot unmarshal number into Go struct field LabelSelector.matchLabels of type string",
        ),
    ],
)
def test_an_unreadable_field_is_reported_with_its_path(value: Any, kind: str, why: str) -> None:
    assert explain_unreadable(value, kind) == why


def test_an_invalid_amount_hides_no_value_of_a_wrong_type() -> None:
    bad: dict[str, Any] = {"name": "main", "resources": {"limits": {"cpu": "much"}}}
    assert explain_unreadable({"spec": {"containers": [bad]}}, POD_TEMPLATE) == ""
    text = explain_unreadable({"spec": {"containers": [bad, {"env": 7}]}}, POD_TEMPLATE)
    assert text == (
        ": json: cannot unmarshal number into Go struct field Container.spec.containers.env of type []v1.EnvVar"
    )


def test_parts_that_are_left_out_are_empty() -> None:
    spec = {"template": "x", "volumeClaimTemplates": 7, "replicas": 1}
    result = empty_parts(spec, list(TEMPLATES), TEMPLATES)
    assert result == {"template": {}, "volumeClaimTemplates": [], "replicas": 1}
