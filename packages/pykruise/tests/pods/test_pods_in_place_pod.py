"""Properties of a pod that can be updated in place."""

import copy
from typing import Any

import pytest

from pykruise.pods.in_place import add_ready_gates
from pykruise.pods.view import keys

BOTH = [keys.IN_PLACE_READY, keys.KRUISE_POD_READY]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, BOTH),
        ({"readinessGates": None}, BOTH),
        ({"readinessGates": [{"conditionType": "lb"}, {}]}, ["lb", None, *BOTH]),
        ({"readinessGates": [{"conditionType": keys.KRUISE_POD_READY}]}, BOTH[::-1]),
        ({"readinessGates": [{"conditionType": text} for text in BOTH]}, BOTH),
    ],
)
def test_a_pod_gets_each_readiness_gate_once_and_its_template_is_not_modified(
    given: dict[str, Any], expected: list[str | None]
) -> None:
    """inplace-update 4 step 1"""
    template = {"hostNetwork": True, **given}
    before = copy.deepcopy(template)
    result = add_ready_gates(template)
    assert [gate.get("conditionType") for gate in result["readinessGates"]] == expected
    assert result["hostNetwork"]
    assert template == before
