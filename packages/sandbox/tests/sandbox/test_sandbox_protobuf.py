"""Kubernetes protobuf bodies, as kubectl sends them for built-in kinds."""

import struct
from typing import Any

import pytest

from pykruise.sandbox.apiserver.requests.protobuf import ProtobufError, to_document

# A small encoder of the wire format, so that the messages below are readable.


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def member(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*members: tuple[int, Any]) -> bytes:
    return b"".join(member(number, value) for number, value in members)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, raw))


def test_a_config_map_as_kubectl_sends_it() -> None:
    # given what `kubectl create configmap a --from-literal=x=y` sends
    body = bytes.fromhex(
        "6b3873000a0f0a0276311209436f6e6669674d6170121b0a110a0161120"
        "01a0022002a003200380042001206" + "0a0178120179" + "1a002200"
    )
    # when
    doc = to_document(body)
    # then
    assert doc["kind"] == "ConfigMap"
    assert doc["apiVersion"] == "v1"
    assert doc["metadata"]["name"] == "a"
    assert doc["data"] == {"x": "y"}


def test_all_kinds_of_fields_are_read() -> None:
    # given
    http_get = message((1, "/live"), (2, message((1, 1), (3, "http"))))
    probe = message((1, message((2, http_get))), (2, -1), (6, 3))
    resources = message((1, message((1, "cpu"), (2, message((1, "500m"))))))
    container = message(
        (1, "main"), (2, "image:1"), (3, "run"), (3, "fast"), (8, resources), (10, probe), (16, 1)
    )
    volume = message((1, "config"), (2, message((19, message((1, message((1, "settings"))))))))
    spec = message((1, volume), (2, container), (4, 30))
    metadata = message(
        (1, "p"),
        (8, message((1, 1735689600))),
        (11, message((1, "a"), (2, "b"))),
        (11, message((1, "c"), (2, ""))),
    )
    # when
    doc = to_document(envelope("v1", "Pod", message((1, metadata), (2, spec))))
    # then
    assert doc["metadata"] == {
        "name": "p",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": {"a": "b", "c": ""},
    }
    assert doc["spec"]["terminationGracePeriodSeconds"] == 30
    assert doc["spec"]["volumes"] == [{"name": "config", "configMap": {"name": "settings"}}]
    (main,) = doc["spec"]["containers"]
    assert main["command"] == ["run", "fast"]
    assert main["stdin"] is True
    assert main["resources"] == {"limits": {"cpu": "500m"}}
    assert main["livenessProbe"]["httpGet"] == {"path": "/live", "port": "http"}
    assert main["livenessProbe"]["initialDelaySeconds"] == -1
    assert main["livenessProbe"]["failureThreshold"] == 3


def test_free_form_values_travel_as_json() -> None:
    # given
    revision = message((1, message((1, "r"))), (2, message((1, b'{"a":[1,null]}'))), (3, 7))
    # when
    doc = to_document(envelope("apps/v1", "ControllerRevision", revision))
    # then
    assert doc["data"] == {"a": [1, None]}
    assert doc["revision"] == 7


def test_binary_data_becomes_base64() -> None:
    # given
    secret = message((2, message((1, "k"), (2, b"\x00\xff"))))
    # then
    assert to_document(envelope("v1", "Secret", secret))["data"] == {"k": "AP8="}


def test_a_map_of_lists_is_unwrapped() -> None:
    # given
    extra = message((1, "scopes"), (2, message((1, "a"), (1, "b"))))
    review = message((2, message((5, extra))))
    # when
    doc = to_document(envelope("authorization.k8s.io/v1", "SubjectAccessReview", review))
    # then
    assert doc["spec"]["extra"] == {"scopes": ["a", "b"]}


def test_options_of_requests_belong_to_every_group() -> None:
    for api_version in ("v1", "apps/v1", "policy/v1"):
        # given
        options = envelope(api_version, "DeleteOptions", message((1, 5), (4, "Background")))
        # then
        assert to_document(options)["gracePeriodSeconds"] == 5
        assert to_document(options)["propagationPolicy"] == "Background"


def test_fields_of_newer_clients_are_passed_over() -> None:
    # given
    config = message((1, message((1, "a"))), (900, "?"), (901, 5), (902, 1.5))
    # then
    assert to_document(envelope("v1", "ConfigMap", config))["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00",
        b"k8s\x00\xff",
        b"k8s\x00" + b"\x80" * 20,
        envelope("v1", "Nonsense", b""),
        envelope("v1", "ConfigMap", b"\x0a\x7f"),
        envelope("v1", "ConfigMap", b"\x0b"),
        envelope("v1", "ConfigMap", message((1, 5))),
        envelope("v1", "ConfigMap", message((2, message((1, b"\xff"), (2, "x"))))),
        envelope("v1", "Pod", message((2, message((4, "thirty"))))),
        envelope("apps/v1", "ControllerRevision", message((2, message((1, "{"))))),
    ],
)
def test_a_body_that_is_not_protobuf_of_a_known_kind_is_an_error(body: bytes) -> None:
    with pytest.raises(ProtobufError):
        to_document(body)
