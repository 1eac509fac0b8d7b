"""An HTTP GET like those of the kubelet's probes and hooks: in HTTP/1.1, over a new connection each time, and without a
check of certificates.

host, port, path, headers ──▶ send_http_get() ──▶ HttpAnswer (status, the beginning of the body)

Redirects within the host are followed; a redirect to another host is returned as the response. The parser is httptools.
Values that users chose (path, headers) are encoded or rejected as in the kubelet's client, because the request is sent
from the node's network and can reach any server there.
"""

import asyncio
import re
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

_REDIRECTS: Final = (301, 302, 303, 307, 308)
"""Statuses whose Location Go's HTTP client follows."""
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
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
    if answer.status not in _REDIRECTS or not answer.location:
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
        self._waiting = bytearray()
        """Beginning of a head."""
        self._has_head = False
        self._has_length = False
        """Whether the end of the body is known from the head."""

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Raises HttpParserError and HttpHeadError for an invalid response."""
        try:
            while data and not self._has_head:
                head, data = self._split_head(data)
                if head:
                    self._has_head = True  # on_message_complete resets it after an interim response
                    self.parser.feed_data(head)
            if data and not self.is_complete:
                self.parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.is_complete:  # bytes after the response mean nothing
                raise

    def end(self) -> None:
        """Complete a body that ends with the connection. Raises EOFError if the response is incomplete."""
        if self._has_head and not self._has_length:
            self.is_complete = True
        if not self.is_complete:
            is_begun = self._has_head or self._waiting
            raise EOFError(
                "unexpected EOF" if is_begun else "the server closed the connection without a response"
            )

    def _split_head(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the complete head in strict form, and the bytes after it. The head is empty until it is complete."""
        searched = max(0, len(self._waiting) - 3)
        self._waiting += data
        end = _HEAD_END.search(self._waiting, searched)
        if end is None:
            if len(self._waiting) > MOST_HEAD:
                raise HttpHeadError(f"the head of the response is larger than {MOST_HEAD // 1024} KiB")
            return b"", b""
        head, rest = bytes(self._waiting[: end.start()]), bytes(self._waiting[end.end() :])
        self._waiting.clear()
        return _normalize_head(head), rest

    # ── called by the parser ─────────────────────────────────────────────────

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"location":
                self.location = value.decode("latin-1")
            case b"content-length" | b"transfer-encoding":
                self._has_length = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.read_status():
            self.is_complete = True
        else:
            self._has_head = self._has_length = False
            self.body.clear()
            self.location = ""

    def read_status(self) -> int:
        """Return the status; 0 before the status of the final response has arrived."""
        status: int = self.parser.get_status_code()
        is_interim = 100 <= status < 200 and status != _SWITCHING_PROTOCOLS
        return 0 if is_interim else status


def _normalize_head(head: bytes) -> bytes:
    """Return the head as the parser accepts it.

    Go's HTTP client, which kubelets use, also accepts lines without CR, folded lines, spaces before a colon, and the
    same Content-Length twice. If the head has a Transfer-Encoding, this client ignores Content-Length. Raises
    HttpHeadError for two different lengths and for a line without a colon.
    """
    first, *lines = [line.rstrip(b"\r") for line in head.split(b"\n")]
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and fields:
            name, value = fields.pop()
            fields.append((name, value + b" " + line.strip()))
            continue
        name, colon, value = line.partition(b":")
        if not colon:
            raise HttpHeadError(f"malformed header line {line[:80].decode('latin-1')!r}")
        fields.append((name.rstrip(), value.strip()))
    lengths = {value for name, value in fields if name.lower() == b"content-length"}
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in fields)
    if len(lengths) > 1 and not is_chunked:
        raise HttpHeadError("the response has different values of Content-Length")
    kept = [first, *(name + b": " + value for name, value in fields if name.lower() != b"content-length")]
    if lengths and not is_chunked:
        kept.append(b"Content-Length: " + lengths.pop())
    return b"\r\n".join((*kept, b"", b""))


async def _get_once(host: str, port: int, path: str, is_tls: bool, headers: Headers) -> HttpAnswer:
    request = _encode_request(host, port, path, headers)
    reader, writer = await asyncio.open_connection(
        host, port, ssl=_make_unchecked_context() if is_tls else None
    )
    try:
        writer.write(request)
        response = _Response()
        received = 0
        while not response.is_complete and len(response.body) < MOST_BODY:
            data = await reader.read(16 * 1024)
            received += len(data)
            if received > MOST_HEAD + MOST_BODY:
                break
            if data:
                response.feed(data)
            else:
                response.end()
        status = response.read_status()
        if not status:
            raise EOFError("no final response arrived")
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
