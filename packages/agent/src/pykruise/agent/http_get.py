"""An HTTP GET like those of the kubelet's probes and hooks: in HTTP/1.1, over a new connection each time, and without a
check of certificates.

host, port, path, headers ──▶ send_http_get() ──▶ HttpAnswer (status, the beginning of the body)

Redirects within the host are followed; a redirect to another host is returned as the response. The parser is httptools.
Values that users chose (path, headers) are encoded or rejected as in the kubelet's client, because the request is sent
from the node's network and can reach any server there.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Final
from urllib.parse import urljoin, urlsplit

import httptools
import msgspec

from pykruise.kube.http.heads import HttpHeadError, encode_percent, flaw_of_host, format_request_head

MOST_BODY: Final = 10 * 1024
MOST_HEAD: Final = 64 * 1024
MOST_REDIRECTS: Final = 10

_SWITCHING_PROTOCOLS: Final = 101
"""The only status below 200 that is a final response."""
_NOT_TLS: Final = "WRONG_VERSION_NUMBER"
"""OpenSSL's reason if the first bytes of the server are not TLS."""

Headers = Sequence[tuple[str, str]]


class HttpGetError(Exception):
    """There was no response: no connection, a broken connection, a timeout, or an invalid request."""


class NoTlsError(HttpGetError):
    """The server responded to an HTTPS request without TLS."""


class HttpAnswer(msgspec.Struct, frozen=True):
    """Response to an HTTP request. `body` is its first 10 KiB."""

    status: int
    body: bytes
    location: str = ""


async def send_http_get(
    host: str, port: int, *, path: str, scheme: str, headers: Headers, timeout_s: float
) -> HttpAnswer:
    """Return the response to a GET, after redirects within the host. Raises HttpGetError (NoTlsError)."""
    is_tls = scheme.upper() == "HTTPS"
    try:
        async with asyncio.timeout(timeout_s):
            for _ in range(MOST_REDIRECTS):
                answer = await _get_once(host, port, path, is_tls, headers)
                target = _find_redirect(answer, host, port, path, is_tls)
                if target is None:
                    return answer
                port, path, is_tls = target
            raise HttpGetError(f"stopped after {MOST_REDIRECTS} redirects")
    except TimeoutError as error:
        raise HttpGetError(f"no response within {timeout_s:g} s") from error
    except HttpHeadError as error:
        raise HttpGetError(str(error)) from error
    except (OSError, EOFError, httptools.HttpParserError) as error:
        is_plain = isinstance(error, ssl.SSLError) and error.reason == _NOT_TLS
        kind = NoTlsError if is_plain else HttpGetError
        raise kind(f"{host}:{port}: {str(error) or type(error).__name__}") from error


def _find_redirect(
    answer: HttpAnswer, host: str, port: int, path: str, is_tls: bool
) -> tuple[int, str, bool] | None:
    if not 300 <= answer.status < 400 or not answer.location:
        return None
    here = f"{'https' if is_tls else 'http'}://{_bracket_ipv6(host)}:{port}{path}"
    target = urlsplit(urljoin(here, answer.location))
    if target.hostname != host.lower().strip("[]"):
        return None
    is_tls = target.scheme == "https"
    query = f"?{target.query}" if target.query else ""
    return target.port or (443 if is_tls else 80), (target.path or "/") + query, is_tls


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _Response:
    """The final response of a server, and the parser that reads it. Interim responses before it are ignored."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.location = ""
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"location":
            self.location = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.read_status():
            self.is_complete = True
        else:
            self.body.clear()
            self.location = ""

    def read_status(self) -> int:
        """Return the status; 0 before the status of the final response has arrived."""
        status: int = self.parser.get_status_code()
        is_interim = 100 <= status < 200 and status != _SWITCHING_PROTOCOLS
        return 0 if is_interim else status


async def _get_once(host: str, port: int, path: str, is_tls: bool, headers: Headers) -> HttpAnswer:
    request = _encode_request(host, port, path, headers)
    reader, writer = await asyncio.open_connection(
        host, port, ssl=_make_unchecked_context() if is_tls else None
    )
    try:
        writer.write(request)
        response = _Response()
        data, received = b"", 0
        while not response.is_complete and len(response.body) < MOST_BODY:
            data = await reader.read(16 * 1024)
            received += len(data)
            if not data:
                break
            if received > MOST_HEAD + MOST_BODY:
                break
            response.parser.feed_data(data)
        status = response.read_status()
        if not status:
            raise EOFError(
                "no final response arrived" if data else "the server closed the connection without a response"
            )
        return HttpAnswer(status, bytes(response.body[:MOST_BODY]), response.location)
    finally:
        writer.close()
        with suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(1.0):
                await writer.wait_closed()


def _encode_request(host: str, port: int, path: str, headers: Headers) -> bytes:
    if flaw := flaw_of_host(host):
        raise HttpHeadError(f"host {host[:200]!r}: {flaw}")
    given = {name.lower() for name, _ in headers}
    fields = [
        ("Host", f"{_bracket_ipv6(host)}:{port}"),
        ("User-Agent", "kube-probe/pykruise"),
        ("Accept", "*/*"),
    ]
    return format_request_head(
        "GET",
        encode_percent(path if path.startswith("/") else f"/{path}"),
        [
            *((name, value) for name, value in fields if name.lower() not in given),
            # An empty Accept header is left out.
            *((name, value) for name, value in headers if value or name.lower() != "accept"),
            ("Connection", "close"),
        ],
    )


@cache
def _make_unchecked_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
