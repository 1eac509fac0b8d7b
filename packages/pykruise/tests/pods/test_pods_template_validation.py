"""Errors of a pod template, before a pod is created from it."""

from typing import Any

import pytest

from pykruise.pods.template.validation import (
    find_labels_errors,
    find_pod_spec_errors,
    find_template_errors,
    list_unknown_field_warnings,
)

ONE = {"name": "c", "image": "a:1"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ODD = {"key": "app", "operator": "In", "values": ["no value"]}
MOUNT = {"name": "data", "mountPath": "/data"}
MOUNTING = {**ONE, "volumeMounts": [MOUNT]}


def places(spec: Any = None, *claims: str, **template: Any) -> list[str]:
    """Fields with an error in a template with this spec, which has a container by default."""
    spec = {"containers": [ONE], **(spec or {})}
    return [
        error.field for error in find_template_errors({"spec": spec, **template}, "t", further_volumes=claims)
    ]


@pytest.mark.parametrize("template", [{}, {"metadata": None, "spec": None}, {"spec": {}}])
def test_a_template_needs_a_container_and_nothing_else(template: dict[str, Any]) -> None:
    assert [error.field for error in find_template_errors(template, "t")] == ["t.spec.containers"]
    assert places() == []
    assert places(metadata={"labels": None, "annotations": None}) == []


def test_labels_and_annotations_are_written_as_kubernetes_has_it() -> None:
    labels = {"no key": "a", "app": "no value"}
    annotations = {"no key": "any text will do", "Example.com/upper": "x"}
    assert places(metadata={"labels": labels, "annotations": annotations}) == [
        "t.metadata.labels",
        "t.metadata.labels",
        "t.metadata.annotations",
    ]
    assert [error.message.split(": ")[1] for error in find_labels_errors(labels, "labels")] == [
        '"no key"',
        '"no value"',
    ]


def test_ephemeral_containers_are_refused_with_one_error() -> None:
    assert places({"ephemeralContainers": [{"name": "NOT good"}]}) == ["t.spec.ephemeralContainers"]
    assert find_pod_spec_errors({"containers": [ONE], "ephemeralContainers": [ONE]}, "spec") == []
    assert [error.field for error in find_pod_spec_errors({}, "spec")] == ["spec.containers"]


@pytest.mark.parametrize(("seconds", "wrong"), [(None, []), (0, []), (1, []), (-1, ["t"])])
def test_a_grace_period_is_not_negative(seconds: int | None, wrong: list[str]) -> None:
    result = places({"terminationGracePeriodSeconds": seconds})
    assert result == [f"{text}.spec.terminationGracePeriodSeconds" for text in wrong]


def test_in_the_host_s_network_a_port_may_be_left_out_but_not_be_another() -> None:
    """Pods get it when they are created."""
    assert places({"hostNetwork": True, "containers": [{**ONE, "ports": [{"containerPort": 80}]}]}) == []
    other = {**ONE, "ports": [{"containerPort": 80, "hostPort": 81}]}
    assert places({"hostNetwork": True, "containers": [other]}) == ["t.spec.containers[0].ports[0].hostPort"]


def test_an_unreadable_spec_is_reported_with_its_field() -> None:
    (cause,) = find_template_errors({"spec": {"containers": [{**ONE, "securityContext": 5}]}}, "t")
    assert cause.field == "t.spec"
    assert "containers.securityContext" in cause.message


def test_invalid_amounts_are_reported_before_anything_else() -> None:
    wrong = {"limits": {"cpu": "much", "memory": "1Gi"}, "requests": {"memory": "some"}}
    spec = {"initContainers": [{**ONE, "resources": wrong}], "containers": [{"resources": None}]}
    assert places(spec) == [
        "t.spec.initContainers[0].resources.limits[cpu]",
        "t.spec.initContainers[0].resources.requests[memory]",
    ]
    assert places({"containers": [{**ONE, "resources": {"limits": None}}]}) == []


def test_a_claim_provides_a_volume_of_its_name() -> None:
    spec = {"containers": [MOUNTING]}
    assert places(spec) == ["t.spec.containers[0].volumeMounts[0].name"]
    assert places(spec, "logs") == ["t.spec.containers[0].volumeMounts[0].name"]
    assert places(spec, "logs", "data") == []
    # and for a claim without a name, that is the only error
    assert places(spec, "data", "") == ["t.spec.volumes[1].name"]


def test_a_volume_with_an_unknown_source_counts_as_a_volume() -> None:
    volumes = [
        {"name": "logs", "emptyDir": {}},
        {"name": "data", "someNewSource": {"size": 1}},
        {"name": "other", "emptyDir": {"someNewField": 1}, "secret": {"secretName": "s"}},
    ]
    spec = {"containers": [MOUNTING], "volumes": volumes}
    assert places(spec) == ["t.spec.volumes[2].secret"]
    # and an error in a known source remains an error beside the unknown field
    both = {"name": "logs", "hostPath": {"path": ""}, "someNewField": 1}
    assert places({"volumes": [both]}) == ["t.spec.volumes[0].hostPath.path"]
    both["hostPath"] = {"path": "/logs"}
    assert places({"volumes": [both]}) == []


def test_a_field_that_is_not_known_yet_may_be_what_another_one_lacks() -> None:
    known, new = {**ONE, "livenessProbe": {}}, {**ONE, "livenessProbe": {"someNewHandler": {}}}
    assert places({"containers": [known]}) == ["t.spec.containers[0].livenessProbe"]
    assert places({"containers": [new]}) == []


def test_labels_that_pods_are_spread_by_may_be_anything() -> None:
    """Templates may be older than Kubernetes' present rules."""
    term = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["no value"]}]}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    affinity = {"topologyKey": "zone", "labelSelector": term}
    assert places({"topologySpreadConstraints": [{**spread, "labelSelector": term}]}) == []
    labels = {"matchLabels": {"app": "no value"}}
    assert places({"topologySpreadConstraints": [{**spread, "labelSelector": labels}]}) == []
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [affinity]}
    assert places({"affinity": {"podAntiAffinity": required, "podAffinity": required}}) == []
    bad = {"key": "no key", "operator": "Exists"}
    result = places({"topologySpreadConstraints": [{**spread, "labelSelector": {"matchExpressions": [bad]}}]})
    assert result == ["t.spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].key"]


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{**ONE, "restartPolicy": "SomeNewPolicy"}]},
        {"initContainers": [{**ONE, "name": "i", "restartPolicy": "SomeNewPolicy"}]},
        {"dnsConfig": {"searches": ["_tcp.example.com"]}},
        {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
        {"containers": [{**ONE, "lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}]},
        {"containers": [{**ONE, "securityContext": {"procMount": "Unmasked"}}]},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ODD]}]}}}},
    ],
    ids=[
        "of a container",
        "of an init container",
        "a search domain",
        "a toleration",
        "a sleep of 0",
        "an unmasked proc",
        "a label value of nodes",
    ],
)
def test_values_that_some_kubernetes_allows_are_left_to_the_api_server(spec: dict[str, Any]) -> None:
    assert places(spec) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"containers": [{**ONE, "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}]},
            "lifecycle.preStop.sleep",
        ),
        (
            {"containers": [{**ONE, "securityContext": {"appArmorProfile": {"type": "x"}}}]},
            "securityContext.appArmorProfile.type",
        ),
        (
            {
                "containers": [{**MOUNTING, "volumeMounts": [{**MOUNT, "mountPropagation": "x"}]}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
            "volumeMounts.mountPropagation",
        ),
    ],
)
def test_values_that_no_kubernetes_allows_are_refused_before_pods_are_deleted(
    spec: dict[str, Any], field: str
) -> None:
    assert places(spec) == [f"t.spec.containers[0].{field}"]
    longer = {**spec, "terminationGracePeriodSeconds": 31}
    assert places(longer) == ([] if field.endswith("sleep") else places(spec))


def test_a_projected_token_gets_its_default_time() -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}]
    assert places({"volumes": [{"name": "t", "projected": {"sources": sources}}]}) == []


def test_fields_that_are_not_known_are_named_up_to_a_number() -> None:
    spec = {"containers": [{**ONE, "a": 1}], **{f"new{number}": 1 for number in range(30)}}
    result = list_unknown_field_warnings({"spec": spec}, "spec.template")
    assert len(result) == 16
    assert result[0].startswith('unknown field "spec.template.spec.')
    assert list_unknown_field_warnings({"spec": {"containers": [ONE]}}, "spec.template") == []
    assert list_unknown_field_warnings({"spec": 5}, "spec.template") == []


SIX = {
    "evictionResponders": [{"name": "responder.example.com"}],
    "schedulingGroup": {"podGroupName": "group"},
    "containers": [
        {
            **ONE,
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
            "lifecycle": {"stopSignal": "SIGUSR1"},
            "env": [
                {"name": "E", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "env", "key": "K"}}}
            ],
        }
    ],
    "os": {"name": "linux"},
    "volumes": [
        {"name": "v", "emptyDir": {}},
        {
            "name": "certificate",
            "projected": {
                "sources": [{"podCertificate": {"signerName": "example.com/s", "keyType": "ED25519"}}]
            },
        },
    ],
}


def test_fields_of_kubernetes_1_37_are_neither_warned_about_nor_refused() -> None:
    assert list_unknown_field_warnings({"spec": SIX}, "spec.template") == []
    assert find_template_errors({"spec": SIX}, "spec.template") == []
