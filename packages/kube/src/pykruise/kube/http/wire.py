"""Wire format of server_connection.py: requests as values, heads of responses, chunks.

    target ──▶ split_target() ──▶ path, query
    Response ──▶ HeadWriter.head_of() ──▶ status line and headers

Pure except for the Date header and the memory of HeadWriter.
"""

import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from pykruise.kube.client.transport import Response
from pykruise.kube.http.heads import (
    CLOSE,
    LINE_END,
    format_field_lines,
    format_length_line,
    format_status_line,
    replace_controls,
)

__all__ = ["HeadWriter", "WireRequest", "split_target"]

_CHUNKED: Final = format_field_lines([("Transfer-Encoding", "chunked")])
_MOST_REMEMBERED: Final = 256
_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))
_NO_QUERY: Final[Mapping[str, str]] = {}
_NO_HEADERS: Final[Mapping[str, str]] = {}


class WireRequest:
    """A request. `path` is percent-encoded, `query` is not, `target` is both as they were sent.

    Names of headers are lower case. A repeated header has its first value, or all values joined as lines if it may
    repeat.
    `noted`: a value that App.admit may store for App.answer. `most_body`: the maximum number of bytes of the body.
    `peer`: the client's address. `is_verified`: the client has a certificate of a trusted CA. `is_counted`: the request
    needs one of the places for requests, unless App.admit decides otherwise.
    """

    __slots__ = (
        "body",
        "headers",
        "held",
        "is_counted",
        "is_placed",
        "is_verified",
        "method",
        "most_body",
        "noted",
        "path",
        "peer",
        "query",
        "target",
    )

    def __init__(
        self, method: str, path: str, query: Mapping[str, str], headers: dict[str, str], body: bytes = b""
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.noted: object = None
        self.most_body = 0
        self.target = b""
        self.peer = ""
        self.is_counted = True
        self.is_placed = False
        self.is_verified = False
        self.held = 0


def split_target(target: bytes) -> tuple[str, Mapping[str, str]]:
    """Return path and query of a request's target: `/path?a=b`, or a whole URL as sent to proxies."""
    text = target.decode() if target.isascii() else quote(target, safe=_ASCII)
    if not text.startswith("/") and "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return "", _NO_QUERY
        return parts.path or "/", _parse_query(parts.query)
    path, _, query = text.partition("#")[0].partition("?")
    return path, _parse_query(query) if query else _NO_QUERY


def _parse_query(text: str) -> Mapping[str, str]:
    query: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        query.setdefault(name, value)
    return query


class HeadWriter:
    """Writes heads of responses. Most heads equal an earlier one."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._begun: dict[tuple[int, tuple[tuple[str, str], ...]], bytes] = {}
        self._second = 0
        self._date = b""

    def name_of(self, raw: bytes) -> str:
        """Return the name of a header in lower case."""
        name = self._names.get(raw)
        if name is None:
            name = raw.decode("latin-1").lower()
            if len(self._names) < _MOST_REMEMBERED and len(raw) < 64:
                self._names[raw] = name
        return name

    def head_of(self, answer: Response, *, stays: bool) -> bytes:
        """Return the status line and headers of a response. `stays`: another request may follow."""
        asked = (answer.status, tuple(answer.headers.items()))
        begun = self._begun.get(asked)
        if begun is None:
            begun = _begin_head(*asked)
            if len(self._begun) >= _MOST_REMEMBERED:  # responses with warnings differ in their headers
                self._begun.clear()
            self._begun[asked] = begun
        length = b"" if answer.status == 204 else format_length_line(len(answer.body))
        return b"".join((begun, self._format_date_line(), length, b"" if stays else CLOSE, LINE_END))

    def head_of_stream(
        self, content_type: str, *, chunked: bool, headers: Mapping[str, str] = _NO_HEADERS
    ) -> bytes:
        """Return the status line and headers of a response of unknown length. Clients must not cache it, unless
        `headers` permit it.
        """
        said = {"content-type": content_type, "cache-control": "no-cache, private", **headers}
        head = _begin_head(200, tuple(said.items()))
        ends = _CHUNKED if chunked else CLOSE
        return b"".join((head, self._format_date_line(), ends, LINE_END))

    def head_of_upgrade(self, headers: Mapping[str, str]) -> bytes:
        """Return the status line and headers of a response after which the connection is used for another protocol."""
        return _begin_head(101, tuple(headers.items())) + LINE_END

    def _format_date_line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second, self._date = now, format_field_lines([("Date", formatdate(now, usegmt=True))])
        return self._date


def _begin_head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    # Warnings repeat text of clients, which may contain control characters. An empty header is left out.
    fields = [(name.title(), replace_controls(value)) for name, value in headers if value]
    return format_status_line(status) + format_field_lines(fields)
