"""HorizontalPodAutoscalers: defaults, rules, tables and their status. No controller handles them here."""

from collections.abc import Mapping
from typing import Any, Final

from conformance.dsl import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Request,
    apply,
    based_on,
    case,
    create,
    get,
    owned,
    patch,
    put,
    table,
)

_PATH: Final = "horizontalpodautoscalers"
_TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_CPU: Final = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}


def _autoscaler(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": _TARGET, "maxReplicas": 5, **spec},
    }


def _of(name: str, metric: Mapping[str, Any], current: Mapping[str, Any]) -> tuple[Request, Request]:
    """Requests that create one with a metric, and write the current value of the metric into its status."""
    return (
        create(_PATH, _autoscaler(name, metrics=[metric])),
        patch(
            f"{_PATH}/{name}/status",
            {"status": {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [current]}},
        ),
    )


_QUEUE: Final = {"metric": {"name": "queue"}}
_INGRESS: Final = {
    "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
    "metric": {"name": "hits"},
}

CASES = [
    case(
        "an autoscaler's behavior and target must be valid",
        create(_PATH, _autoscaler(behavior={"scaleUp": {"stabilizationWindowSeconds": 3601}})),
        create(_PATH, _autoscaler(behavior={"scaleUp": {"stabilizationWindowSeconds": -1}})),
        create(_PATH, _autoscaler(behavior={"scaleUp": {"selectPolicy": "Sometimes"}})),
        create(
            _PATH,
            _autoscaler(
                behavior={
                    "scaleDown": {
                        "policies": [
                            {"type": "Pods", "value": 0, "periodSeconds": 0},
                            {"type": "Some", "value": 1, "periodSeconds": 1801},
                        ]
                    }
                }
            ),
        ),
        create(_PATH, _autoscaler(scaleTargetRef={"kind": "Deployment", "name": "web"})),
        create(_PATH, _autoscaler(scaleTargetRef={**_TARGET, "apiVersion": "v1"})),
    ),
    case(
        "an autoscaler gets its defaults",
        create(_PATH, _autoscaler()),
        owned(get(f"{_PATH}/a")),
        create(_PATH, _autoscaler("b", minReplicas=2, metrics=[{"type": "Resource", "resource": _CPU}])),
        create(_PATH, _autoscaler("c", behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})),
        create(_PATH, {**_autoscaler("d"), "status": {"currentReplicas": 7, "desiredReplicas": 7}}),
        patch(f"{_PATH}/a", {"spec": {"maxReplicas": 9}}, MERGE),
        patch(
            f"{_PATH}/a",
            {"spec": {"metrics": [{"type": "Resource", "resource": {**_CPU, "name": "memory"}}]}},
            STRATEGIC,
        ),
        put(f"{_PATH}/a", based_on(1, {"spec": {"maxReplicas": 3}, "metadata": {"resourceVersion": None}})),
        apply(f"{_PATH}/e", _autoscaler("e", minReplicas=1)),
    ),
    case(
        "an autoscaler must be valid",
        create(_PATH, _autoscaler(maxReplicas=0)),
        create(_PATH, _autoscaler(minReplicas=7)),
        create(_PATH, _autoscaler(minReplicas=0)),
        create(_PATH, _autoscaler(minReplicas=-1)),
        create(_PATH, _autoscaler(scaleTargetRef={"apiVersion": "apps/v1"})),
        create(_PATH, _autoscaler(scaleTargetRef={**_TARGET, "name": "a/b"})),
        create(_PATH, _autoscaler(metrics=[{"type": "Resource"}])),
        create(_PATH, _autoscaler(metrics=[{"type": "Nonsense"}])),
        create(
            _PATH,
            _autoscaler(
                metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
            ),
        ),
        create(
            _PATH,
            _autoscaler(metrics=[{"type": "Pods", "pods": {**_QUEUE, "target": {"type": "AverageValue"}}}]),
        ),
        create(_PATH, _autoscaler(maxReplicas="5")),
        create(_PATH, {**_autoscaler(), "metadata": {"name": "A"}}),
    ),
    case(
        "autoscalers are shown as tables",
        create(_PATH, _autoscaler("plain")),
        *_of(
            "cpu",
            {"type": "Resource", "resource": _CPU},
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 160, "averageValue": "160m"}},
            },
        ),
        *_of(
            "memory",
            {
                "type": "Resource",
                "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "64Mi"}},
            },
            {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "80Mi"}}},
        ),
        *_of(
            "pods",
            {"type": "Pods", "pods": {**_QUEUE, "target": {"type": "AverageValue", "averageValue": "100m"}}},
            {"type": "Pods", "pods": {**_QUEUE, "current": {"averageValue": "200m"}}},
        ),
        *_of(
            "object",
            {"type": "Object", "object": {**_INGRESS, "target": {"type": "Value", "value": "2k"}}},
            {"type": "Object", "object": {**_INGRESS, "current": {"value": "3k"}}},
        ),
        *_of(
            "external",
            {
                "type": "External",
                "external": {**_QUEUE, "target": {"type": "AverageValue", "averageValue": "30"}},
            },
            {"type": "External", "external": {**_QUEUE, "current": {"averageValue": "45", "value": "90"}}},
        ),
        *_of(
            "container",
            {"type": "ContainerResource", "containerResource": {"container": "main", **_CPU}},
            {
                "type": "ContainerResource",
                "containerResource": {
                    "container": "main",
                    "name": "cpu",
                    "current": {"averageUtilization": 50, "averageValue": "50m"},
                },
            },
        ),
        create(
            _PATH,
            _autoscaler(
                "three",
                metrics=[
                    {"type": "Resource", "resource": _CPU},
                    {"type": "Resource", "resource": {**_CPU, "name": "memory"}},
                    {
                        "type": "Pods",
                        "pods": {**_QUEUE, "target": {"type": "AverageValue", "averageValue": "1"}},
                    },
                ],
            ),
        ),
        table(_PATH),
    ),
    case(
        "the status of an autoscaler is written by itself",
        create(_PATH, _autoscaler()),
        patch(f"{_PATH}/a/status", {"status": {"currentReplicas": 2, "desiredReplicas": 4}}),
        patch(f"{_PATH}/a/status", {"status": {"currentReplicas": -1}}),
        patch(f"{_PATH}/a/status", {"spec": {"maxReplicas": 50}, "status": {"observedGeneration": 1}}),
        patch(f"{_PATH}/a", {"status": {"currentReplicas": 9}}, MERGE),
        patch(f"{_PATH}/a", [{"op": "remove", "path": "/spec/maxReplicas"}], JSON_PATCH),
        get(f"{_PATH}/a"),
    ),
    case(
        "the resources of autoscalers are listed",
        get(
            "/apis/autoscaling/v2",
            only=(
                "kind",
                "groupVersion",
                *(
                    f"resources[name={name}].{member}"
                    for name in (_PATH, f"{_PATH}/status")
                    for member in ("kind", "namespaced", "singularName", "shortNames", "categories", "verbs")
                ),
            ),
        ),
    ),
]
