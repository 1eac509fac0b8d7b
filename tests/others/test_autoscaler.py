"""Kubernetes' controller of HorizontalPodAutoscalers scales every kind that has a scale, in every version.

The test writes the values of a metrics server: a CRD serves PodMetrics in the metrics API.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import yaml

from others.cluster import Cluster, Document
from others.conftest import Loop
from others.scalable import SCALED, app_of, workload
from testbed.build import default_version

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

MEBIBYTES: Final = 100
"""Target usage of one pod."""

POD_METRICS: Final[Document] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {
            "plural": "pods",
            "singular": "podmetrics",
            "kind": "PodMetrics",
            "listKind": "PodMetricsList",
        },
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}

PREFIX: Final = "hpa"


@pytest.fixture
def metrics(cluster: Cluster, loop: Loop) -> Iterator[None]:
    """A CRD with the API of a metrics server."""
    cluster.apply(POD_METRICS)
    names = "customresourcedefinition", "pods.metrics.k8s.io"
    cluster.kubectl("wait", "--for=condition=Established", "/".join(names))
    yield
    cluster.kubectl("delete", *names)


def autoscaler(kind: str, api_version: str) -> Document:
    app = app_of(PREFIX, kind, api_version)
    target = {"type": "AverageValue", "averageValue": f"{MEBIBYTES}Mi"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": app},
        "spec": {
            "scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": app},
            "minReplicas": 1,
            "maxReplicas": 5,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}],
        },
    }


class Meter:
    """Usage of the pods of all apps, as a metrics server reports it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def pods(self) -> dict[str, list[str]]:
        """Names of pods that do not terminate, by app."""
        result: dict[str, list[str]] = {app_of(PREFIX, *scaled): [] for scaled in SCALED}
        for pod in self._cluster.list("pods"):
            app = pod["metadata"].get("labels", {}).get("app", "")
            if app in result and "deletionTimestamp" not in pod["metadata"]:
                result[app].append(pod["metadata"]["name"])
        return result

    def write(self, mebibytes: int) -> dict[str, list[str]]:
        """Report this usage for each pod, and return the pods."""
        pods = self.pods()
        documents = [
            {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "PodMetrics",
                "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
                "timestamp": "2020-01-01T00:00:00Z",
                "window": "30s",
                "containers": [{"name": "main", "usage": {"cpu": "1m", "memory": f"{mebibytes}Mi"}}],
            }
            for app, names in pods.items()
            for name in names
        ]
        words = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        self._cluster.kubectl(*words, text=yaml.safe_dump_all(documents))
        return pods


def are_many(pods: dict[str, list[str]], count: int) -> bool:
    return all(len(names) == count for names in pods.values())


@pytest.mark.program(
    "HorizontalPodAutoscaler (kube-controller-manager)",
    default_version(),
    "every kind with a scale in every version: scaled up and down by a resource metric",
)
def test_the_autoscaler_scales_every_kind_that_has_a_scale(
    cluster: Cluster, loop: Loop, metrics: None
) -> None:
    # given
    assert len(SCALED) >= 6
    meter = Meter(cluster)
    cluster.apply(*(workload(PREFIX, *scaled) for scaled in SCALED))

    def until(claim: Callable[[], bool], what: str) -> None:
        loop.run(cluster.until(claim, what=what, within_s=150))

    until(lambda: are_many(meter.pods(), 2), "two pods each")
    # when each pod uses twice the target
    meter.write(2 * MEBIBYTES)
    cluster.apply(*(autoscaler(*scaled) for scaled in SCALED))
    # then there are twice as many
    until(lambda: are_many(meter.pods(), 4), f"four pods each: {meter.pods()}")
    until(lambda: all(is_able(item) for item in autoscalers(cluster)), "all autoscalers are able to scale")
    # and when each pod uses a quarter of the target, one pod is enough
    until(lambda: are_many(meter.write(MEBIBYTES // 4), 1), "one pod each")
    cluster.kubectl("delete", "hpa", *(app_of(PREFIX, *scaled) for scaled in SCALED))
    for kind, api_version in SCALED:
        cluster.kubectl("delete", f"{kind.lower()}s.apps.kruise.io", app_of(PREFIX, kind, api_version))


def autoscalers(cluster: Cluster) -> list[Document]:
    items: list[Any] = json.loads(cluster.kubectl("get", "hpa", "-o", "json"))["items"]
    return items


def is_able(item: Document) -> bool:
    conditions = {entry["type"]: entry["status"] for entry in item["status"].get("conditions", ())}
    return conditions.get("AbleToScale") == "True" and conditions.get("ScalingActive") == "True"
