"""Cpu and memory of running containers."""

from typing import Any

import pytest

from pykruise.agent.rules.environment import parse_env_source
from pykruise.pods.in_place import has_resize, has_resize_by_version
from pykruise.pods.in_place.resources import (
    compute_effective_resources,
    compute_qos_class,
    explain_waiting_resize,
    keep_differences,
)
from pykruise.pods.view.containers import Amounts, ContainerFacts, Resources
from support.updatable_pod import PaperPod, pod_document


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v1.32.0", True),
        ("v1.33.0", True),
        ("v1.32.0.extra", True),
        ("v1.32+gke.1", True),
        ("v2.0.0", True),
        ("v1.31.0", False),
        ("v1.28+gke.1", False),
        ("v1.30+eks.1", False),
        ("v1.28+.1", False),
        ("", False),
        ("garbage", False),
        ("1.32", False),
        ("v..", False),
        ("v1.x.0", False),
        ("v1.32.x", False),
        ("v1.32.", False),
        ("vv1.32.0", False),
        ("1.32.0", True),
    ],
)
def test_the_server_version_decides_about_the_resize_subresource_without_errors(
    version: str, expected: bool
) -> None:
    """inplace-update 6.5, pitfall 10"""
    assert has_resize_by_version(version) is expected


def test_discovery_decides_about_the_resize_subresource() -> None:
    """inplace-update 9.2"""
    assert has_resize({"resources": [{"name": "pods"}, {"name": "pods/resize"}]})
    assert not has_resize({"resources": [{"name": "pods"}, {"name": "nodes/resize"}]})
    assert not has_resize({"resources": [{}]})
    assert not has_resize({"resources": None})
    assert not has_resize({})


def of(limits: dict[str, str] | None = None, requests: dict[str, str] | None = None) -> dict[str, Any]:
    return {"resources": {"limits": limits, "requests": requests}}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([of()], "BestEffort"),
        ([{}], "BestEffort"),
        ([of(BOTH, BOTH)], "Guaranteed"),
        ([of(BOTH)], "Guaranteed"),
        ([of({"cpu": "1000m", "memory": "1024Mi"}, BOTH)], "Guaranteed"),
        ([of({"cpu": "1"}, {"cpu": "1"})], "Burstable"),
        ([of(BOTH, {"cpu": "500m", "memory": "1Gi"})], "Burstable"),
        ([of(None, {"cpu": "1"})], "Burstable"),
        ([of(BOTH, BOTH), of()], "Burstable"),
        ([of(), of(BOTH, BOTH)], "Burstable"),
        ([of({"cpu": "0"}, {"cpu": "0"})], "BestEffort"),
        ([of({"cpu": "1"}, {"cpu": "0"})], "Burstable"),
        ([of({"cpu": "1n"})], "Burstable"),
        ([of({"nvidia.com/gpu": "1"})], "BestEffort"),
    ],
)
def test_quality_of_service_is_kubernetes_own(containers: list[dict[str, Any]], expected: str) -> None:
    """inplace-update 6.1 step 5"""
    assert compute_qos_class(containers) == expected


def test_a_limit_is_also_the_request_where_none_is_given() -> None:
    result = compute_effective_resources(of({"cpu": "1", "memory": "1Gi", "gpu": "1"}, {"cpu": "500m"}))
    assert result["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert compute_effective_resources({"resources": {"claims": [{"name": "x"}]}}) == {
        "claims": [{"name": "x"}]
    }
    assert compute_effective_resources({"resources": None}) == {}


def test_only_amounts_that_differ_from_the_live_pod_are_sent() -> None:
    """inplace-update 6.5"""
    live = ContainerFacts(
        name="c1", resources=Resources(limits=Amounts(cpu="1", memory="1Gi"), requests=Amounts(cpu="500m"))
    )
    change = {"limits": {"cpu": "1000m", "memory": "2Gi"}, "requests": {"cpu": "0.5", "memory": "1Gi"}}
    assert keep_differences(live, change) == {
        "limits": {"memory": "2Gi"},
        "requests": {"memory": "1Gi"},
    }


def test_resources_that_a_running_pod_cannot_get_are_not_sent() -> None:
    """inplace-update 6.1.1: another manager may have stored such resources in the annotation"""
    live = ContainerFacts(name="c1", resources=Resources(limits=Amounts(cpu="lots")))
    change: dict[str, Any] = {"limits": {"cpu": "1", "gpu": "2"}, "requests": None, "future": {"cpu": "1"}}
    assert keep_differences(live, change) == {"limits": {"cpu": "1"}}
    assert keep_differences(live, {"limits": {"cpu": "lots"}}) == {}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], ""),
        ([{"type": "PodResizePending", "reason": "Deferred"}], "Deferred"),
        ([{"type": "PodResizeInProgress", "message": "no memory"}], "no memory"),
        ([{"type": "PodResizePending", "reason": "Deferred", "status": "False"}], ""),
        ([{"type": "Ready", "reason": "X"}], ""),
        ([{"type": "PodResizePending"}, {"type": "PodResizeInProgress", "reason": "Error"}], "Error"),
    ],
)
def test_the_kubelets_reason_for_a_pending_resize_is_reported(
    conditions: list[dict[str, str]], expected: str
) -> None:
    """inplace-update 9.2"""
    document = pod_document("c1")
    document["status"]["conditions"] = [{"status": "True", **condition} for condition in conditions]
    assert explain_waiting_resize(PaperPod(document).view()) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.labels['app']", ("labels", "app")),
        ("metadata.annotations['a.b/c']", ("annotations", "a.b/c")),
        ("metadata.labels['it['s]']", ("labels", "it['s]")),
        ("metadata.labels", None),
        ("metadata.name", None),
        ("metadata.labels[app]", None),
        ("['app']", None),
        ("spec.labels['app']", None),
        ("metadata.labels['app'] ", None),
    ],
)
def test_a_field_path_names_one_label_or_annotation(path: str, expected: tuple[str, str] | None) -> None:
    """inplace-update 6.1.2"""
    result = parse_env_source("E", path)
    assert (result and (result.field, result.key)) == expected
