"""Fields that the specs of all workloads have in common."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.statefulset.types import StatefulSetSpec
from pykruise.pods.api import InPlaceUpdateStrategy
from pykruise.pods.lifecycle.states import Lifecycle, LifecycleHook


def spec(strategy: Any, **more: Any) -> StatefulSetSpec:
    document = {"selector": {}, "template": {}, "updateStrategy": strategy, **more}
    return msgspec.convert(
        {name: value for name, value in document.items() if value is not None}, StatefulSetSpec
    )


@pytest.mark.parametrize(
    ("strategy", "is_on_delete", "is_paused", "policy"),
    [
        (None, False, False, "ReCreate"),
        ({}, False, False, "ReCreate"),
        ({"type": "RollingUpdate", "rollingUpdate": {}}, False, False, "ReCreate"),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"paused": True, "podUpdatePolicy": "InPlaceOnly"}},
            False,
            True,
            "InPlaceOnly",
        ),
        (
            {"type": "OnDelete", "rollingUpdate": {"paused": True, "podUpdatePolicy": "InPlaceOnly"}},
            True,
            False,
            "ReCreate",
        ),
    ],
)
def test_a_block_counts_unless_pods_are_updated_on_deletion(
    strategy: Any, is_on_delete: bool, is_paused: bool, policy: str
) -> None:
    stateful_set_spec = spec(strategy)
    assert (stateful_set_spec.is_on_delete, stateful_set_spec.is_paused, stateful_set_spec.policy) == (
        is_on_delete,
        is_paused,
        policy,
    )
    assert stateful_set_spec.is_in_place is (policy == "InPlaceOnly")


@pytest.mark.parametrize(
    ("strategy", "grace_s"),
    [
        (None, None),
        ({"rollingUpdate": {}}, None),
        ({"rollingUpdate": {"inPlaceUpdateStrategy": {"gracePeriodSeconds": 7}}}, 7),
        ({"type": "OnDelete", "rollingUpdate": {"inPlaceUpdateStrategy": {"gracePeriodSeconds": 7}}}, None),
    ],
)
def test_in_place_update_settings_always_exist(strategy: Any, grace_s: int | None) -> None:
    expected = (
        InPlaceUpdateStrategy() if grace_s is None else InPlaceUpdateStrategy(grace_period_seconds=grace_s)
    )
    assert spec(strategy).in_place == expected


def test_hooks_always_exist() -> None:
    assert spec(None).hooks == Lifecycle()
    lifecycle = spec(None, lifecycle={"preDelete": {"labelsHandler": {"a": "b"}}}).hooks
    assert lifecycle == Lifecycle(pre_delete=LifecycleHook(labels_handler={"a": "b"}))
