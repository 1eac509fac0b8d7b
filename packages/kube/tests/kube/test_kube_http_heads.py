"""Heads of HTTP messages: a value from a user never starts another message, and only one module writes heads."""

import ast
from pathlib import Path

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.client.transport import Request, Response
from pykruise.kube.http.connection import HttpOrigin, RequestWriter
from pykruise.kube.http.heads import (
    HttpHeadError,
    encode_percent,
    flaw_of_host,
    flaw_of_value,
    format_field_lines,
    format_request_head,
    replace_controls,
)
from pykruise.kube.http.wire import HeadWriter
from support.examples import examples
from support.sources import SOURCES, source_of

HOSTILE = "/a HTTP/1.1\r\nHost: h\r\n\r\nPUT /latest/api/token HTTP/1.1\r\nHost: x"
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="\r\n \t:/a\x00\x7fé", max_size=12),
    st.sampled_from([HOSTILE, "x\r\nX-Injected: 1", "\n", "", "a b"]),
)
FIELDS = st.lists(st.tuples(TEXTS, TEXTS), max_size=3)


class Seen:
    """The messages that a server's parser reads from bytes."""

    def __init__(self) -> None:
        self.messages = 0
        self.targets: list[bytes] = []
        self.names: list[bytes] = []

    def on_url(self, part: bytes) -> None:
        self.targets.append(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.names.append(name)

    def on_message_complete(self) -> None:
        self.messages += 1


@given(method=st.one_of(st.just("GET"), TEXTS), target=TEXTS, fields=FIELDS)
@examples(2)
def test_a_formatted_head_is_refused_or_parsed_as_one_request_with_its_fields(
    method: str, target: str, fields: list[tuple[str, str]]
) -> None:
    # when
    try:
        head = format_request_head(method, target, fields)
    except HttpHeadError:
        return
    # then
    assert head.count(b"\r\n\r\n") == 1
    assert head.count(b"\n") == head.count(b"\r") == 2 + len(fields)
    if (
        method == "GET"
        and target.startswith("/")
        and not {"content-length", "upgrade"} & {n.lower() for n, _ in fields}
    ):
        seen = Seen()
        httptools.HttpRequestParser(seen).feed_data(head)
        assert (seen.messages, seen.names) == (1, [name.encode() for name, _ in fields])


@given(path=TEXTS)
@examples(1)
def test_an_encoded_path_is_always_a_target(path: str) -> None:
    assert format_request_head("GET", encode_percent(f"/{path}"), [])


def test_a_path_is_percent_encoded_once_as_in_go() -> None:
    assert encode_percent("/health check?a=b&c=%20#x") == "/health%20check?a=b&c=%20"
    assert encode_percent("/\r\n\u00fc") == "/%0D%0A%C3%BC"


@given(value=TEXTS)
@examples(1)
def test_an_answer_is_written_in_any_case_and_its_headers_stay_in_their_lines(value: str) -> None:
    head = HeadWriter().head_of(Response(200, {"warning": value}, b""), stays=True)
    assert head.count(b"\r\n\r\n") == 1
    assert flaw_of_value(replace_controls(value)) == ""


def test_a_client_s_request_is_written_by_the_same_rules() -> None:
    writer = RequestWriter(HttpOrigin(is_tls=False, host="x", port=80, prefix="", authority="x", name="x"))
    for request, headers in (
        (Request("GET", HOSTILE), ()),
        (Request("GET /x HTTP/1.1\r\nA:", "/a"), ()),
        (Request("GET", "/a"), (("Authorization", "Bearer a\r\nB: c"),)),
        (Request("GET", "/a"), (("A: b\r\nC", "d"),)),
    ):
        with pytest.raises(HttpHeadError):
            writer.encode(request, headers)


def test_an_error_does_not_show_a_header_s_value() -> None:
    with pytest.raises(HttpHeadError) as caught:
        format_field_lines([("Authorization", "Bearer secret\r\n")])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1", "[fd00::1]", "web.default.svc", "fe80::1%eth0"])
def test_names_and_addresses_are_hosts(host: str) -> None:
    assert flaw_of_host(host) == ""


@pytest.mark.parametrize("host", ["", "a b", "a\r\nb", "a/b", "user@a", "a?b", "a#b"])
def test_a_host_that_would_change_the_request_is_invalid(host: str) -> None:
    assert flaw_of_host(host)


def test_no_other_module_writes_heads() -> None:
    """No other module has a line end of HTTP, or a request line, in a string that is not a docstring."""
    writers: set[str] = set()
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        tree = ast.parse(Path(path).read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in docstrings:
                continue
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str) and ("\r\n" in text or " HTTP/1." in text or text.startswith("HTTP/1.")):
                writers.add(source_of(str(path)) or str(path))
    said = {"kube/webhooks/server.py", "sandbox/http_front.py"}
    read = {"agent/http_get.py"}  # it gives the parser the head of a response, which is never sent
    assert writers - said - read == {"kube/http/heads.py"}
