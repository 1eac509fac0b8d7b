"""Errors of a PodProbeMarker, by field."""

from typing import Any

import pytest

from pykruise.kinds.podprobemarker.kind import KIND
from pykruise.kinds.podprobemarker.validation import errors_of
from pykruise.pods.probes.views import read_marker_spec
from support.probe_objects import EXEC, probe

SELECTOR: dict[str, Any] = {"matchLabels": {"app": "web"}}
LABELS = {"labels": {"a": "b"}}


def errors(*probes: Any, old: Any = None, **spec: Any) -> list[tuple[str, str]]:
    """Field and kind of every error."""
    document = {"spec": {"selector": SELECTOR, "probes": list(probes), **spec}}
    typed, problem = read_marker_spec(document["spec"])
    assert typed is not None, problem
    stored = {"spec": {"selector": old}} if old is not None else None
    return [
        (cause.field, cause.reason.removeprefix("FieldValue"))
        for cause in errors_of(document, typed, old=stored)
    ]


def test_a_whole_marker_is_accepted() -> None:
    http = {"httpGet": {"path": "/idle", "port": "web", "httpHeaders": [{"name": "X-A", "value": "b"}]}}
    policy = {"state": "Failed", "annotations": {"controller.kubernetes.io/pod-deletion-cost": "10"}}
    probes = [
        probe(on={**EXEC, "periodSeconds": 5}),
        probe("b", on=http, podConditionType="b"),
        probe("c", on={"tcpSocket": {"port": 80}}, markerPolicy=[{"state": "Succeeded", **LABELS}, policy]),
        probe("d", on={"httpGet": {"path": "/", "port": 80, "scheme": "HTTPS"}}, podConditionType="d"),
    ]
    assert errors(*probes, old=SELECTOR) == []
    by_expression = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    assert errors(*probes, selector=by_expression) == []


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}])
def test_a_selector_must_select_something(selector: Any) -> None:
    """containers case 53"""
    assert errors(probe(), selector=selector) == [("spec.selector", "Invalid")]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({}, "map[string]interface {}{}"),
        ({"selector": None}, "map[string]interface {}{}"),
        (
            {"selector": {"matchLabels": {}}},
            'map[string]interface {}{"matchLabels":map[string]interface {}{}}',
        ),
    ],
)
def test_an_empty_selector_is_printed_in_the_refusal(given: Any, value: str) -> None:
    """containers case 53"""
    spec, _ = read_marker_spec({"probes": [probe()], "selector": {}})
    assert spec is not None
    (cause,) = errors_of({"spec": {"probes": [probe()], **given}}, spec)
    assert (cause.field, cause.message) == (
        "spec.selector",
        f"Invalid value: {value}: must not be empty",
    )


def test_a_grpc_health_check_is_a_probe() -> None:
    """containers pitfall o"""
    assert errors(probe(on={"grpc": {"port": 80, "service": "game"}})) == []


def test_a_marker_without_a_probe_is_refused() -> None:
    assert errors() == [("spec.probes", "Invalid")]


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        (probe("a#b"), "name", "Invalid"),
        (probe(""), "name", "Required"),
        (probe("Ready"), "name", "Invalid"),
        (probe(containerName=""), "containerName", "Required"),
        (probe(on={}), "probe", "Required"),
        (probe(on={"grpc": {"port": 0}}), "probe.grpc.port", "Invalid"),
        (probe(on={**EXEC, "grpc": {"port": 80}}), "probe.grpc", "Forbidden"),
        (probe(on={**EXEC, "tcpSocket": {"port": 80}}), "probe.tcpSocket", "Forbidden"),
        (probe(on={**EXEC, "tcpSocket": {"port": 0}}), "probe.tcpSocket", "Forbidden"),
        (probe(on={"exec": {}}), "probe.exec.command", "Required"),
        (probe(on={**EXEC, "periodSeconds": -1}), "probe.periodSeconds", "Invalid"),
        (probe(podConditionType=""), "podConditionType", "Required"),
        (probe(podConditionType="Ready"), "podConditionType", "Invalid"),
        (probe(podConditionType="a b"), "podConditionType", "Invalid"),
        (probe(markerPolicy=[{"state": "Unknown", **LABELS}]), "markerPolicy[0].state", "Required"),
        (probe(markerPolicy=[{"state": "Failed"}]), "markerPolicy[0]", "Required"),
        (
            probe(markerPolicy=[{"state": "Failed", "labels": {"a": "b c"}}]),
            "markerPolicy[0].labels",
            "Invalid",
        ),
        (
            probe(markerPolicy=[{"state": "Failed", "annotations": {"a b": "c"}}]),
            "markerPolicy[0].annotations",
            "Invalid",
        ),
    ],
)
def test_a_probe_is_named_with_what_is_wrong(given: Any, field: str, reason: str) -> None:
    """containers case 53"""
    assert errors(given) == [(f"spec.probes[0].{field}", reason)]


@pytest.mark.parametrize(
    ("action", "field", "reason"),
    [
        ({"path": "/", "port": 80, "host": "a.io"}, "host", "Invalid"),
        ({"port": 80}, "path", "Required"),
        ({"path": "http://[", "port": 80}, "path", "Invalid"),
        ({"path": "/\x00", "port": 80}, "path", "Invalid"),
        ({"path": "/", "port": 0}, "port", "Invalid"),
        ({"path": "/", "port": "80"}, "port", "Invalid"),
        ({"path": "/", "port": 80, "scheme": "FTP"}, "scheme", "NotSupported"),
        (
            {"path": "/", "port": 80, "httpHeaders": [{"name": "a:b", "value": ""}]},
            "httpHeaders[0].name",
            "Invalid",
        ),
        ({"path": "/\r\nX: y", "port": 80}, "path", "Invalid"),
        (
            {"path": "/", "port": 80, "httpHeaders": [{"name": "a", "value": "b\r\n\r\nPUT / HTTP/1.1"}]},
            "httpHeaders[0].value",
            "Invalid",
        ),
    ],
)
def test_an_http_probe_must_target_the_pod_itself(action: Any, field: str, reason: str) -> None:
    """containers case 54"""
    assert errors(probe(on={"httpGet": action})) == [(f"spec.probes[0].probe.httpGet.{field}", reason)]


def test_duplicate_names_conditions_and_states_are_refused() -> None:
    """containers case 53"""
    policies = [{"state": "Failed", **LABELS}] * 2
    result = errors(probe(), probe(podConditionType="other"), probe("c"), probe("d", markerPolicy=policies))
    assert result == [
        ("spec.probes[1].name", "Duplicate"),
        ("spec.probes[2].podConditionType", "Duplicate"),
        ("spec.probes[3].markerPolicy[1].state", "Duplicate"),
    ]


def test_a_stored_invalid_marker_is_not_validated_again() -> None:
    document = {"metadata": {"finalizers": []}, "spec": {"selector": {}, "probes": []}}
    spec, _ = read_marker_spec(document["spec"])
    assert spec is not None
    assert errors_of(document, spec, old=document) == []
    assert errors_of(document, spec)


def test_the_selector_cannot_be_changed() -> None:
    """containers case 53"""
    assert errors(probe(), old={"matchLabels": {"app": "other"}}) == [("spec.selector", "Invalid")]


def test_only_a_stored_host_of_a_tcp_probe_is_used() -> None:
    """containers case 54"""
    tcp = probe(on={"tcpSocket": {"port": 80, "host": "a.io"}})
    http = probe("b", on={"httpGet": {"path": "/", "port": 80, "host": "a.io"}}, podConditionType="b")
    rejected = [
        ("spec.probes[0].probe.tcpSocket.host", "Invalid"),
        ("spec.probes[1].probe.httpGet.host", "Invalid"),
    ]
    assert errors(tcp, http) == rejected
    spec, _ = read_marker_spec({"selector": SELECTOR, "probes": [tcp, http]})
    assert KIND.stored is not None
    assert [flaw.field for flaw in KIND.stored.flaws_of(spec)] == ["spec.probes[1].probe.httpGet.host"]
