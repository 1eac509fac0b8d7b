"""The check of a request's host and origin, before the request is answered."""

import pytest

from pykruise.dashboard.guard import OWN_HEADER, Guard
from pykruise.kube.http.wire import WireRequest

OWN = Guard({"127.0.0.1:8080", "localhost:8080"})


def asked(method: str = "GET", path: str = "/api/session", **headers: str) -> WireRequest:
    given = {"host": "127.0.0.1:8080", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return WireRequest(method, path, {}, given)


def test_requests_of_the_page_itself_are_allowed() -> None:
    assert OWN.find_refusal(asked(origin="http://127.0.0.1:8080", sec_fetch_site="same-origin")) == ""


@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/api/session", "/api/stream"])
def test_another_name_for_this_address_is_refused(path: str) -> None:
    # DNS rebinding: the name of another site suddenly resolves to 127.0.0.1
    assert OWN.find_refusal(asked(path=path, host="attacker.example:8080"))


def test_a_request_without_a_name_is_refused() -> None:
    assert OWN.find_refusal(asked(host=""))


@pytest.mark.parametrize("origin", ["http://attacker.example", "null", "http://127.0.0.1:9090", "file://"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    assert OWN.find_refusal(asked(origin=origin))


def test_a_request_that_the_browser_marks_as_cross_site_is_refused() -> None:
    assert OWN.find_refusal(asked(sec_fetch_site="cross-site"))
    assert OWN.find_refusal(asked(sec_fetch_site="same-site"))


def test_a_post_needs_the_header_that_forms_cannot_send() -> None:
    assert OWN.find_refusal(asked("POST", "/api/act"))
    assert OWN.find_refusal(asked("POST", "/api/act", **{OWN_HEADER: "1"})) == ""


def test_a_proxys_name_counts_where_it_is_allowed() -> None:
    behind = Guard({"kruise.example"})
    assert behind.find_refusal(asked(host="kruise.example", origin="https://kruise.example")) == ""


def test_kubelet_probes_health_by_the_pods_address() -> None:
    for path in ("/healthz", "/kruise/healthz"):
        assert OWN.find_refusal(asked(path=path, host="10.1.2.3:8080")) == ""
