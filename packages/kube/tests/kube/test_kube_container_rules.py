"""Rules for the parts of a container's hooks and probes that are sent over the network."""

from typing import Any

import pytest

from pykruise.kube.pod_rules.containers import check_lifecycle

GET = {"path": "/", "port": 80, "scheme": "HTTP"}


@pytest.mark.parametrize(
    ("get", "field"),
    [
        ({"path": "/a HTTP/1.1\r\nHost: h\r\n\r\nPUT / HTTP/1.1"}, "path"),
        ({"host": "a b"}, "host"),
        (
            {"httpHeaders": [{"name": "a", "value": "b"}, {"name": "c\n", "value": "d"}]},
            "httpHeaders[1].name",
        ),
        ({"httpHeaders": [{"name": "a", "value": "b\r\n\r\n"}]}, "httpHeaders[0].value"),
    ],
)
@pytest.mark.parametrize(
    "place", ["lifecycle.preStop", "lifecycle.postStart", "livenessProbe", "readinessProbe"]
)
def test_an_http_handler_that_would_smuggle_a_request_is_refused_in_every_hook_and_probe(
    get: dict[str, Any], field: str, place: str
) -> None:
    handler = {"httpGet": {**GET, **get}, "successThreshold": 1}
    outer, _, inner = place.partition(".")
    causes = list(check_lifecycle({outer: {inner: handler} if inner else handler}, "c"))
    assert [cause.field for cause in causes] == [f"c.{place}.httpGet.{field}"]


def test_a_path_with_a_space_is_a_path_as_kubelets_encode_it() -> None:
    assert list(check_lifecycle({"lifecycle": {"preStop": {"httpGet": {**GET, "path": "/a b"}}}}, "c")) == []
