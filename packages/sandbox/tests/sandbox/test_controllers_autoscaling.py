"""HorizontalPodAutoscalers scale workloads of any kind by a metric that the test sets."""

import asyncio
from typing import Any

import pytest

from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS
from pykruise.sandbox.controllers.autoscaling import (
    METRIC,
    compute_wanted_replicas,
    read_current_metrics,
)
from support.sandbox import small_cluster


def autoscaler(**spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 6, **spec},
    }


DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        },
    },
}


@pytest.mark.parametrize(
    ("current", "metric", "wanted"),
    [
        (2, "160", 4),
        (2, "85", 2),  # within the tolerance
        (2, "40", 1),
        (4, "800", 6),  # the maximum
        (3, "", 3),
        (3, "nonsense", 3),
        (0, "800", 0),  # autoscaling is off
    ],
)
def test_the_wanted_replicas_are_computed_from_the_metric(current: int, metric: str, wanted: int) -> None:
    utilization = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec = {"maxReplicas": 6, "metrics": [{"type": "Resource", "resource": utilization}]}
    assert compute_wanted_replicas(spec, current=current, metric=metric) == wanted


def test_an_amount_is_a_target_as_well() -> None:
    source = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "100m"}}
    spec = {"maxReplicas": 9, "metrics": [{"type": "Pods", "pods": source}]}
    assert compute_wanted_replicas(spec, current=2, metric="0.2") == 4


@pytest.mark.parametrize(
    ("kind", "field", "source", "metric", "shown"),
    [
        (
            "Resource",
            "resource",
            {"name": "cpu", "target": {"averageUtilization": 80}},
            "160",
            {"averageUtilization": 160},
        ),
        (
            "Pods",
            "pods",
            {"metric": {"name": "q"}, "target": {"averageValue": "1"}},
            "150m",
            {"averageValue": "150m"},
        ),
        ("Object", "object", {"metric": {"name": "q"}, "target": {"value": "2k"}}, "3k", {"value": "3k"}),
    ],
)
def test_the_status_shows_the_metric(
    kind: str, field: str, source: dict[str, Any], metric: str, shown: dict[str, Any]
) -> None:
    spec = {"maxReplicas": 6, "metrics": [{"type": kind, field: source}]}
    result = read_current_metrics(spec, metric=metric)
    assert result is not None
    assert result[0][field]["current"] == shown
    assert read_current_metrics(spec, metric="") is None


async def test_an_autoscaler_scales_up_and_down_with_its_metric() -> None:
    async with small_cluster() as place:
        await place.create(DEPLOYMENTS, DEPLOYMENT)
        made = await place.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler())
        assert made["spec"]["minReplicas"] == 1
        assert made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80

        async def say(metric: str, wanted: int) -> None:
            patch = {"metadata": {"annotations": {METRIC: metric}}}
            await place.client.patch(
                HORIZONTAL_POD_AUTOSCALERS, "default", "web", patch, patch_type=PatchType.MERGE
            )

            async def has_scaled() -> bool:
                return bool((await place.get(DEPLOYMENTS, "web"))["spec"]["replicas"] == wanted)

            await place.until(has_scaled)

        await say("160", 4)
        await asyncio.sleep(60)
        # the same average: the sum is divided by more pods now
        assert (await place.get(HORIZONTAL_POD_AUTOSCALERS, "web"))["status"]["desiredReplicas"] == 6
        await say("10", 1)


async def test_a_missing_scale_target_is_reported() -> None:
    async with small_cluster() as place:
        await place.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler())

        async def says_so() -> bool:
            status = (await place.get(HORIZONTAL_POD_AUTOSCALERS, "web")).get("status") or {}
            return [condition["reason"] for condition in status.get("conditions") or ()] == ["FailedGetScale"]

        await place.until(says_so)
