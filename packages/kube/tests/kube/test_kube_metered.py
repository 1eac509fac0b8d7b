"""Requests are counted by verb and resource."""

import json
import logging

import pytest

from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.client.transport import Request
from pykruise.kube.errors import ForbiddenError, parse_error
from support.scripted import ScriptedTransport, answer


@pytest.mark.parametrize(
    ("method", "path", "counted"),
    [
        ("GET", "/api/v1/namespaces/ns/pods", "GET pods"),
        ("POST", "/api/v1/namespaces/ns/pods", "POST pods"),
        ("PATCH", "/api/v1/namespaces/ns/pods/a/status", "PATCH pods/status"),
        ("DELETE", "/api/v1/namespaces/ns", "DELETE namespaces"),
        ("PUT", "/apis/apps.kruise.io/v1beta1/namespaces/ns/clonesets/web/scale", "PUT clonesets/scale"),
        ("GET", "/version", "GET /version"),
    ],
)
async def test_a_request_is_counted_as_verb_and_resource(method: str, path: str, counted: str) -> None:
    # given
    metered = MeteredTransport(ScriptedTransport(answer(200)))
    # when
    await metered.request(Request(method, path))
    # then
    assert dict(metered.requests) == {counted: 1}
    assert metered.writes == (0 if method == "GET" else 1)


REFUSAL = {
    "kind": "Status",
    "code": 403,
    "reason": "Forbidden",
    "message": 'pods is forbidden: User "x" cannot list resource "pods" in API group ""',
}
QUOTA = {**REFUSAL, "message": "pods is forbidden: exceeded quota"}


async def test_a_repeated_missing_right_is_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given
    metered = MeteredTransport(ScriptedTransport(answer(403, REFUSAL), answer(403, REFUSAL)))
    # when
    for _ in range(2):
        assert (await metered.request(Request("GET", "/api/v1/pods"))).status == 403
    # then
    assert metered.missing_rights == {"GET pods": 2}
    (line,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "a permission is missing, GET pods is forbidden: " in line.getMessage()
    assert "cannot list resource" in line.getMessage()


async def test_the_right_to_watch_counts_too() -> None:
    refused = parse_error(403, json.dumps(REFUSAL).encode())
    metered = MeteredTransport(ScriptedTransport(streams=[refused]))
    with pytest.raises(ForbiddenError):
        async with metered.stream(Request("GET", "/api/v1/pods")):
            pass
    assert metered.missing_rights == {"WATCH pods": 1}


async def test_a_quota_refusal_is_not_a_missing_right() -> None:
    metered = MeteredTransport(ScriptedTransport(answer(403, QUOTA)))
    await metered.request(Request("POST", "/api/v1/namespaces/a/pods"))
    assert not metered.missing_rights
