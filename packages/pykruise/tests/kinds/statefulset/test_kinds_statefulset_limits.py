"""The number of pods that a StatefulSet wants, keeps and may lose, also for specs that bypassed admission."""

from typing import Any

import pytest

from pykruise.kinds.statefulset.limits import StatefulSetLimits, limits_of
from pykruise.pods.workload.spec import LARGEST_SET
from support.statefulset_builder import StatefulSetBuilder, statefulset


def limits(builder: StatefulSetBuilder) -> tuple[StatefulSetLimits, list[str]]:
    spec = builder.view().spec
    assert spec is not None
    return limits_of(spec)


@pytest.mark.parametrize(("replicas", "expected"), [(None, 1), (0, 0), (LARGEST_SET, LARGEST_SET)])
def test_a_set_without_replicas_has_one(replicas: int | None, expected: int) -> None:
    result, problems = limits(statefulset(pods=False).with_spec(replicas=replicas))
    assert (result.replicas, problems) == (expected, [])


@pytest.mark.parametrize(
    ("spec", "rolling", "field"),
    [
        ({"replicas": -1}, {}, "spec.replicas"),
        ({"revisionHistoryLimit": -1}, {}, "spec.revisionHistoryLimit"),
        ({}, {"partition": -1}, "spec.updateStrategy.rollingUpdate.partition"),
        ({}, {"minReadySeconds": -1}, "spec.updateStrategy.rollingUpdate.minReadySeconds"),
    ],
)
def test_a_negative_number_is_reported_and_causes_no_writes(
    spec: dict[str, Any], rolling: dict[str, Any], field: str
) -> None:
    builder = statefulset(3, **rolling).with_spec(**spec).all_old()
    assert limits(builder)[1] == [f"{field}: -1 is negative"]
    plan = builder.plan()
    assert plan.stages == ()
    assert plan.waiting is not None
    assert field in plan.waiting.message


def test_more_pods_than_a_cluster_can_have_are_a_problem_and_fill_no_memory() -> None:
    result, problems = limits(statefulset(pods=False).with_spec(replicas=LARGEST_SET + 1))
    assert result.replicas == LARGEST_SET
    assert problems == ["spec.replicas: 150001 is more than the 150000 pods that a cluster can have"]


@pytest.mark.parametrize(("history", "expected"), [(None, 10), (0, 0), (3, 3)])
def test_ten_revisions_are_kept_by_default(history: int | None, expected: int) -> None:
    assert limits(statefulset().with_spec(revisionHistoryLimit=history))[0].history == expected


def test_the_defaults_are_no_partition_no_min_ready_seconds_and_all_pods() -> None:
    result, _ = limits(statefulset(3))
    assert (result.partition, result.min_ready_seconds, result.quota) == (0, 0, 3)
