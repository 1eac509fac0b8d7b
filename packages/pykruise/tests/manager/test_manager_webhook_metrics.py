"""Metrics and log lines of webhooks."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

from pykruise.admission.protection import RefusedDeletion
from pykruise.kube.values.owners import OwnerReference
from pykruise.manager.webhook_metrics import WebhookMetrics
from pykruise.plans.pod_steps import PreventedDisruption


def refused(kind: str, *, is_counted: bool = True) -> RefusedDeletion:
    return RefusedDeletion(kind=kind, namespace="shop", name="x", username="alice", is_counted=is_counted)


def shown(metrics: WebhookMetrics) -> str:
    registry = CollectorRegistry()
    metrics.register(registry, paths=("/mutate-pod", "/convert"), shed=lambda: 7)
    return generate_latest(registry).decode()


def test_requests_are_counted_by_path_and_http_status() -> None:
    metrics = WebhookMetrics()
    for _ in range(3):
        metrics.begin("/mutate-pod")
    metrics.end("/mutate-pod", 200, 0.003)
    metrics.end("/mutate-pod", 429, 0.001)
    text = shown(metrics)
    assert 'controller_runtime_webhook_requests_total{code="200",webhook="/mutate-pod"} 1.0' in text
    assert 'controller_runtime_webhook_requests_total{code="429",webhook="/mutate-pod"} 1.0' in text
    assert 'controller_runtime_webhook_latency_seconds_count{webhook="/mutate-pod"} 2.0' in text
    assert 'controller_runtime_webhook_requests_in_flight{webhook="/mutate-pod"} 1.0' in text
    assert "pykruise_webhook_requests_shed 7.0" in text


def test_durations_of_requests_are_counted_with_the_bounds_of_controller_runtime() -> None:
    metrics = WebhookMetrics()
    metrics.begin("/mutate-pod")
    metrics.end("/mutate-pod", 200, 0.7)
    counts = re.findall(r'latency_seconds_bucket\{le="(.+?)",webhook="/mutate-pod"\} (.+)', shown(metrics))
    bounds = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"]
    assert counts == [(bound, "0.0" if place < 7 else "1.0") for place, bound in enumerate(bounds)]


def test_the_usual_codes_of_every_path_begin_at_0() -> None:
    text = shown(WebhookMetrics())
    for code in ("200", "500"):
        assert f'controller_runtime_webhook_requests_total{{code="{code}",webhook="/convert"}} 0.0' in text
    assert 'controller_runtime_webhook_requests_in_flight{webhook="/convert"} 0.0' in text


def test_reviews_are_counted_by_path_and_code_of_the_answer() -> None:
    metrics = WebhookMetrics()
    metrics.observe_review("/mutate-pod", 200)
    metrics.observe_review("/mutate-pod", 422)
    text = shown(metrics)
    assert 'pykruise_webhook_reviews_total{code="200",webhook="/mutate-pod"} 1.0' in text
    assert 'pykruise_webhook_reviews_total{code="422",webhook="/mutate-pod"} 1.0' in text


def prevented(*, namespace: str = "shop", owner: str = "web") -> PreventedDisruption:
    reference = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=owner, uid="u")
    return PreventedDisruption(
        namespace=namespace,
        pod="web-0",
        kind="PodUnavailableBudget",
        name="pub",
        uid="uid-web-0",
        owner=reference if owner else None,
        username="alice",
    )


def test_pods_protected_by_a_budget_are_counted_by_owner_and_logged_with_it(tmp_path: Path) -> None:
    """podunavailablebudget case 65"""
    metrics = WebhookMetrics(log_folder=str(tmp_path))
    for each in (prevented(), prevented(), prevented(owner=""), prevented(namespace="")):
        metrics.prevent(each)
    text = shown(metrics)
    name = "pod_unavailable_budget"
    assert f'{name}{{kind_namespace_name="StatefulSet_shop_web",username="alice"}} 2.0' in text
    assert f'{name}{{kind_namespace_name="unknown_shop_web-0",username="alice"}} 1.0' in text
    assert f'{name}{{kind_namespace_name="StatefulSet_default_web",username="alice"}} 1.0' in text
    lines = [json.loads(line) for line in (tmp_path / "protection.log").read_text().splitlines()]
    assert len(lines) == 4
    assert lines[0] == {
        "Event": "PodUnavailableBudget",
        "Kind": "StatefulSet",
        "Namespace": "shop",
        "Name": "web",
        "UserAgent": "alice",
        "Pod": "web-0",
        "Budget": "pub",
    }
    assert (lines[2]["Kind"], lines[2]["Name"], lines[3]["Namespace"]) == ("unknown", "web-0", "default")


def test_refused_deletions_are_counted_under_the_originals_names_and_logged(tmp_path: Path) -> None:
    """admission case 34"""
    metrics = WebhookMetrics(log_folder=str(tmp_path / "log"))
    for each in (
        refused("Namespace"),
        refused("CustomResourceDefinition"),
        refused("Deployment"),
        refused("Service", is_counted=False),
    ):
        metrics.refuse(each)
    text = shown(metrics)
    assert 'namespace_deletion_protection{name="x",username="alice"} 1.0' in text
    assert 'crd_deletion_protection{name="x",username="alice"} 1.0' in text
    labels = 'kind_namespace_name="Deployment_shop_x",username="alice"'
    assert f"workload_deletion_protection{{{labels}}} 1.0" in text
    lines = (tmp_path / "log" / "protection.log").read_text().splitlines()
    assert [json.loads(line)["Kind"] for line in lines] == [
        "Namespace",
        "CustomResourceDefinition",
        "Deployment",
    ]
    assert json.loads(lines[0]) == {
        "Event": "DeletionProtection",
        "Kind": "Namespace",
        "Namespace": "shop",
        "Name": "x",
        "UserAgent": "alice",
    }


def test_an_unwritable_log_is_reported_once_and_replaced_by_standard_output(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """operations case 44"""
    (tmp_path / "log").write_text("a file where the folder should be")
    metrics = WebhookMetrics(log_folder=str(tmp_path / "log"))
    metrics.refuse(refused("Namespace"))
    metrics.refuse(refused("Namespace"))
    assert caplog.text.count("protection log cannot be written") == 1
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["Event"], line["Kind"], line["UserAgent"]) for line in printed] == [
        ("DeletionProtection", "Namespace", "alice")
    ] * 2
    assert 'namespace_deletion_protection{name="x",username="alice"} 2.0' in shown(metrics)
