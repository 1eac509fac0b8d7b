"""Whether embedded templates have the shape that Kubernetes gives them."""

from typing import Any

import pytest

from pykruise.pods.template_shape import shape_problem


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        ({}, ""),
        ({"metadata": None, "spec": {"template": None, "volumeClaimTemplates": None}}, ""),
        ({"spec": {"template": {"spec": {"containers": [{"name": None, "somethingNew": 1}]}}}}, ""),
        ({"spec": 5}, "spec: Expected `object | null`, got `int`"),
        (
            {"spec": {"template": {"spec": {"containers": [{"env": "x"}]}}}},
            "spec.template.spec.containers[0].env: Expected `array | null`, got `str`",
        ),
        (
            {"spec": {"volumeClaimTemplates": [{"status": []}]}},
            "spec.volumeClaimTemplates[0].status: Expected `object | null`, got `array`",
        ),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_the_first_place_of_the_wrong_type_is_named(workload: Any, problem: str) -> None:
    assert shape_problem(workload) == problem
