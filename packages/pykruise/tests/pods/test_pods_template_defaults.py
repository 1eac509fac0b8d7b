"""Defaults of pod templates, equal to those of Kubernetes (and, for pull policies, of OpenKruise)."""

import copy
from typing import Any

import pytest

from pykruise.pods.template.defaults import (
    add_claim_defaults,
    add_container_defaults,
    add_defaults,
    add_volume_defaults,
    pull_policy_of_image,
)

POD = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PROBE = {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}


def container(**fields: Any) -> dict[str, Any]:
    """A container with these fields and its defaults."""
    return add_container_defaults({"name": "c", "image": "a:1", **fields})


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": {}}, {"spec": {"dnsPolicy": None}}])
def test_an_empty_pod_spec_gets_defaults(template: dict[str, Any]) -> None:
    assert add_defaults(template) == {"spec": POD}


def test_given_pod_fields_are_kept_and_empty_strings_get_defaults() -> None:
    # given
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "schedulerName": "", "containers": [], "nodeName": "n1"},
    }
    before = copy.deepcopy(template)
    # when
    result = add_defaults(template)
    # then
    assert result["metadata"] == template["metadata"]
    assert result["spec"] == {**POD, "restartPolicy": "Never", "containers": [], "nodeName": "n1"}
    assert template == before


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("registry:5000/app", "Always"),
        ("registry:5000/team/app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("registry:5000/app:1", "IfNotPresent"),
        ("app@sha256:ab", "IfNotPresent"),
        ("registry:5000/app:1@sha256:ab", "IfNotPresent"),
        ("app:latest@sha256:ab", "Always"),
    ],
)
def test_an_image_that_is_called_latest_is_pulled_each_time(image: str, policy: str) -> None:
    """sidecarset 4: Kubernetes' rule; with a digest, a tag is optional and is not ignored"""
    assert pull_policy_of_image(image) == policy


def test_regular_containers_are_always_pulled_and_init_containers_by_kubernetes_rule() -> None:
    """cloneset case 18"""
    containers = {"name": "c", "image": "a:1"}
    spec = add_defaults({"spec": {"containers": [containers], "initContainers": [containers]}})["spec"]
    assert spec["containers"] == [{**containers, **CONTAINER, "imagePullPolicy": "Always"}]
    assert spec["initContainers"] == [{**containers, **CONTAINER, "imagePullPolicy": "IfNotPresent"}]
    chosen = add_defaults({"spec": {"containers": [containers]}}, pull_policy=pull_policy_of_image)["spec"]
    assert chosen["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_container_keeps_its_given_fields() -> None:
    said = {"imagePullPolicy": "Never", "terminationMessagePolicy": "FallbackToLogsOnError"}
    assert container(**said, terminationMessagePath="") == {"name": "c", "image": "a:1", **CONTAINER, **said}
    assert container(image=None)["imagePullPolicy"] == "Always"
    assert container(ports=[], env=None, livenessProbe=None, lifecycle={}, resources={}) == {
        **container(),
        "ports": [],
        "lifecycle": {},
        "resources": {},
    }


@pytest.mark.parametrize(
    ("host_ports", "host_network", "port", "expected"),
    [
        (False, True, {"containerPort": 80}, {}),
        (True, None, {"containerPort": 80}, {}),
        (True, False, {"containerPort": 80}, {}),
        (True, True, {"containerPort": 80}, {"hostPort": 80}),
        (True, True, {"containerPort": 80, "hostPort": 0}, {"hostPort": 80}),
        (True, True, {"containerPort": 80, "hostPort": 81}, {}),
    ],
)
def test_a_port_in_the_host_network_gets_a_host_port_with_the_gate_on(
    host_ports: bool, host_network: bool | None, port: dict[str, int], expected: dict[str, int]
) -> None:
    """The gate DefaultHostNetworkHostPortsInPodTemplates."""
    item = {"name": "c", "image": "a:1", "ports": [port]}
    spec = {"hostNetwork": host_network, "containers": [item], "initContainers": [item]}
    result = add_defaults({"spec": spec}, host_ports=host_ports)["spec"]
    for field in ("containers", "initContainers"):
        assert result[field][0]["ports"] == [{"protocol": "TCP", **port, **expected}]
    assert container(ports=[port])["ports"] == [{"protocol": "TCP", **port}]


def test_ephemeral_containers_get_the_defaults_of_their_contents_alone() -> None:
    """Such a template may be stored before a review refuses it."""
    debug = {"name": "debug", "image": "", "ports": [{"containerPort": 80, "protocol": "UDP"}], "env": []}
    spec = {"hostNetwork": True, "ephemeralContainers": [{**debug, "startupProbe": {"a": 1}}]}
    assert add_defaults({"spec": spec}, host_ports=True)["spec"]["ephemeralContainers"] == [
        {**debug, "startupProbe": {**PROBE, "a": 1}}
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "A", "value": "1"}, {}),
        ({"name": "A", "valueFrom": None}, {}),
        ({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}, {}),
        (
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ),
        (
            {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "", "fieldPath": "metadata.name"}}},
            {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ),
        ({"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}, {}),
    ],
)
def test_a_field_is_referred_to_in_v1(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert container(env=[given])["env"] == [{**given, **expected}]


def test_probes_have_times_and_those_over_http_a_path_and_a_scheme() -> None:
    result = container(
        livenessProbe={"httpGet": {"port": 80}, "periodSeconds": 7},
        readinessProbe={"exec": {"command": ["a"]}},
        startupProbe={"httpGet": {"port": 80, "path": "/up", "scheme": ""}},
    )
    assert container(livenessProbe={})["livenessProbe"] == PROBE
    assert result["livenessProbe"] == {
        **PROBE,
        "periodSeconds": 7,
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
    }
    assert result["readinessProbe"] == {**PROBE, "exec": {"command": ["a"]}}
    assert result["startupProbe"] == {**PROBE, "httpGet": {"port": 80, "path": "/up", "scheme": "HTTP"}}


@pytest.mark.parametrize("given", [0, None])
def test_a_number_of_a_probe_that_is_0_or_null_gets_its_default(given: int | None) -> None:
    probe = {**dict.fromkeys(PROBE, given), "initialDelaySeconds": 0, "exec": {"command": ["a"]}}
    assert container(livenessProbe=probe)["livenessProbe"] == {
        **PROBE,
        "initialDelaySeconds": 0,
        "exec": {"command": ["a"]},
    }


def test_only_the_named_probes_of_a_separate_container_get_defaults() -> None:
    """sidecarset 4: startupProbe gets no defaults, since they would change hashes of stored objects"""
    item = {"name": "c", "livenessProbe": {"a": 1}, "startupProbe": {"a": 1}}
    result = add_container_defaults(item, probes=("livenessProbe",))
    assert (result["livenessProbe"], result["startupProbe"]) == ({**PROBE, "a": 1}, {"a": 1})


def test_hooks_over_http_have_a_path_and_a_scheme_and_a_stop_signal_is_a_text() -> None:
    lifecycle = {
        "preStop": {"httpGet": {"port": 80, "scheme": "HTTPS"}},
        "postStart": {"exec": {}},
        "stopSignal": "SIGUSR1",
    }
    assert container(lifecycle=lifecycle)["lifecycle"] == {
        **lifecycle,
        "preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTPS"}},
    }


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("100m", "100m"),
        ("0.1", "0.1"),
        ("1.5", "1.5"),
        ("0.005", "0.005"),
        ("1m", "1m"),
        ("100u", "1m"),
        ("1500u", "2m"),
        ("0.0005", "1m"),
        ("10n", "1m"),
        ("10000000n", "10000000n"),
        (0.5, 0.5),
        ("much", "much"),
    ],
)
def test_amounts_finer_than_a_thousandth_are_rounded_up(given: Any, stored: Any) -> None:
    resources = {
        "limits": {"cpu": given, "memory": "1Gi"},
        "requests": None,
        "claims": [{"name": "cpu", "request": "100u"}],
    }
    expected = {**resources, "limits": {"cpu": stored, "memory": "1Gi"}}
    assert container(resources=resources)["resources"] == expected
    template = {"spec": {"resources": resources, "accessModes": ["ReadWriteOnce"]}}
    assert add_claim_defaults(template) == {
        "spec": {"resources": expected, "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({}, {"status": {"phase": "Pending"}}),
        ({"spec": None, "status": None}, {"spec": None, "status": {"phase": "Pending"}}),
        ({"spec": {"storageClassName": "a"}, "status": {"phase": "Bound", "a": 1}}, {}),
    ],
)
def test_a_claim_that_is_not_made_yet_is_pending(claim: dict[str, Any], expected: dict[str, Any]) -> None:
    assert add_claim_defaults(claim) == {**claim, **expected}


FED = {"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}
FED_BY_V1 = {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": None}, {"emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"emptyDir": {"medium": "Memory"}}),
        ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a", "type": ""}}),
        ({"hostPath": {"path": "/a", "type": "File"}}, {"hostPath": {"path": "/a", "type": "File"}}),
        ({"hostPath": {"path": "/a", "type": None}}, {"hostPath": {"path": "/a", "type": ""}}),
        ({"secret": {}}, {"secret": {"defaultMode": 420}}),
        ({"secret": {"defaultMode": None}}, {"secret": {"defaultMode": 420}}),
        ({"secret": {"defaultMode": 0}}, {"secret": {"defaultMode": 0}}),
        ({"secret": {"defaultMode": 256}}, {"secret": {"defaultMode": 256}}),
        ({"configMap": {"name": "m"}}, {"configMap": {"name": "m", "defaultMode": 420}}),
        ({"downwardAPI": {}}, {"downwardAPI": {"defaultMode": 420}}),
        (
            {"downwardAPI": {"items": [FED, {"path": "b", "resourceFieldRef": {}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 420,
                    "items": [FED_BY_V1, {"path": "b", "resourceFieldRef": {}}],
                }
            },
        ),
        ({"projected": {}}, {"projected": {"defaultMode": 420, "sources": []}}),
        (
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t"}},
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": None}},
                        {"downwardAPI": {"items": [FED]}},
                        {"downwardAPI": {}},
                        {"secret": {"name": "s"}},
                    ]
                }
            },
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                        {"downwardAPI": {"items": [FED_BY_V1]}},
                        {"downwardAPI": {}},
                        {"secret": {"name": "s"}},
                    ],
                }
            },
        ),
    ],
)
def test_a_volume_has_the_defaults_of_its_source(source: dict[str, Any], expected: dict[str, Any]) -> None:
    volume = {"name": "v", **source}
    assert add_volume_defaults(volume) == {"name": "v", **expected}
    assert add_defaults({"spec": {"volumes": [volume]}})["spec"]["volumes"] == [{"name": "v", **expected}]
