"""Requests are counted by verb and resource."""

import pytest

from pykruise.kube.metered import MeteredTransport
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
    await metered.request(method, path)
    # then
    assert dict(metered.requests) == {counted: 1}
    assert metered.writes == (0 if method == "GET" else 1)
