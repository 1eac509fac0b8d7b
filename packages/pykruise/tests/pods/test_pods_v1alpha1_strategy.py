"""The update strategy of a v1alpha1 CloneSet, and the nested one."""

import copy
from typing import Any

import pytest

from pykruise.pods.workload.v1alpha1_strategy import FLAT_FIELDS, flatten, nest, rolling_update_of

SETTINGS = {field: f"a {field}" for field in FLAT_FIELDS}


def rolling(policy: Any = "ReCreate", **fields: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy, **fields}}


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ({}, rolling()),
        ({"type": None}, rolling()),
        ({"type": "ReCreate", "partition": 3}, rolling(partition=3)),
        ({"type": "InPlaceOnly", **SETTINGS}, rolling("InPlaceOnly", **SETTINGS)),
        ({"type": "InPlaceIfPossible", "paused": None}, rolling("InPlaceIfPossible", paused=None)),
        ({"type": "SomethingNew", "maxSurge": 1}, rolling(maxSurge=1)),
        ({"type": "OnDelete", **SETTINGS}, {"type": "OnDelete"}),
    ],
)
def test_flat_settings_are_nested_into_the_rolling_update_block(
    flat: dict[str, Any], nested: dict[str, Any]
) -> None:
    spec = {"replicas": 3, "updateStrategy": copy.deepcopy(flat)}
    nest(spec)
    assert spec == {"replicas": 3, "updateStrategy": nested}


@pytest.mark.parametrize(
    ("nested", "flat"),
    [
        ({}, {"type": "ReCreate"}),
        ({"type": "RollingUpdate", "rollingUpdate": None}, {"type": "ReCreate"}),
        (rolling(None), {"type": "ReCreate"}),
        (rolling("SomethingNew", partition=1), {"type": "ReCreate", "partition": 1}),
        (rolling("InPlaceOnly", **SETTINGS), {"type": "InPlaceOnly", **SETTINGS}),
        (rolling("InPlaceIfPossible", paused=None), {"type": "InPlaceIfPossible", "paused": None}),
        ({**rolling("InPlaceOnly", **SETTINGS), "type": "OnDelete"}, {"type": "OnDelete", **SETTINGS}),
        ({"type": "OnDelete"}, {"type": "OnDelete"}),
        (rolling(further=1), {"type": "ReCreate"}),
        (
            {"type": "RollingUpdate", "rollingUpdate": "x"},
            {"type": "ReCreate", "rollingUpdate": "x"},
        ),
    ],
)
def test_the_block_is_opened_and_its_policy_is_the_type(nested: dict[str, Any], flat: dict[str, Any]) -> None:
    spec = {"replicas": 3, "updateStrategy": copy.deepcopy(nested)}
    flatten(spec)
    assert spec == {"replicas": 3, "updateStrategy": flat}


@pytest.mark.parametrize("spec", [{}, {"updateStrategy": None}, {"updateStrategy": ["x"]}])
def test_an_invalid_strategy_is_not_changed(spec: dict[str, Any]) -> None:
    for turn in (nest, flatten):
        result = copy.deepcopy(spec)
        turn(result)
        assert result == spec


@pytest.mark.parametrize(
    ("strategy", "block"),
    [
        ({"type": "RollingUpdate"}, {}),
        ({}, {}),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, {"partition": 1}),
        ({"type": "OnDelete", "rollingUpdate": {"partition": 1}}, {"partition": 1}),
        ({"type": "OnDelete"}, None),
        ({"type": "RollingUpdate", "rollingUpdate": "x"}, None),
        ("x", None),
    ],
)
def test_a_rolling_update_block_is_created_where_the_strategy_has_one(
    strategy: Any, block: dict[str, Any] | None
) -> None:
    # given
    spec = {"updateStrategy": copy.deepcopy(strategy)}
    # when
    result = rolling_update_of(spec)
    # then the result is the object in the spec itself
    assert result == block
    assert result is None or result is spec["updateStrategy"]["rollingUpdate"]
    assert result is not None or spec == {"updateStrategy": strategy}


def test_a_spec_without_a_strategy_gets_a_rolling_one() -> None:
    spec: dict[str, Any] = {}
    assert rolling_update_of(spec) == {}
    assert spec == {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {}}}
