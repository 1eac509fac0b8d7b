"""What goes over the wire of http_server_connection.py: requests as values, heads of answers, chunks.

    target ──▶ split_target() ──▶ path, query
    Response ──▶ HeadWriter.head_of() ──▶ status line and headers

Pure but for the Date header, and for what HeadWriter remembers.
"""

import time
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from pykruise.kube.transport import Response

__all__ = ["CONTINUE", "LAST_CHUNK", "HeadWriter", "Request", "chunk_of", "split_target"]

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_CLOSE: Final = b"Connection: close\r\n"
_MOST_REMEMBERED: Final = 256
_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))
_NO_QUERY: Final[Mapping[str, str]] = {}
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Request:
    """One request. `path` is percent-encoded, `query` is not, `target` is both as they came.

    Names of headers are in lower case. Of what is said twice the first counts; headers that may come several times
    are in lines. `noted` is what the App wants to know again when the body is there, `most_body` how many bytes that
    may have. `peer` is the client's address; `is_verified`: it has a certificate of an authority that the server
    trusts. `is_counted`: it needs one of the places for requests, unless App.admit says otherwise.
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
    """Path and query of a request's target: `/path?a=b`, or a whole URL as proxies are sent it."""
    text = target.decode() if target.isascii() else quote(target, safe=_ASCII)
    if not text.startswith("/") and "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return "", _NO_QUERY
        return parts.path or "/", _query(parts.query)
    path, _, query = text.partition("#")[0].partition("?")
    return path, _query(query) if query else _NO_QUERY


def _query(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, value)
    return found


def chunk_of(part: bytes) -> bytes:
    """A part of a body of unknown length."""
    return b"%x\r\n%b\r\n" % (len(part), part)


class HeadWriter:
    """Writes heads of answers. Most are like one before."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._begun: dict[tuple[int, tuple[tuple[str, str], ...]], bytes] = {}
        self._second = 0
        self._date = b""

    def name_of(self, raw: bytes) -> str:
        """The name of a header in lower case."""
        found = self._names.get(raw)
        if found is None:
            found = raw.decode("latin-1").lower()
            if len(self._names) < _MOST_REMEMBERED and len(raw) < 64:
                self._names[raw] = found
        return found

    def head_of(self, answer: Response, *, stays: bool) -> bytes:
        """Status line and headers of an answer. `stays`: another request may follow."""
        asked = (answer.status, tuple(answer.headers.items()))
        begun = self._begun.get(asked)
        if begun is None:
            begun = _begun(*asked)
            if len(self._begun) >= _MOST_REMEMBERED:  # warnings differ
                self._begun.clear()
            self._begun[asked] = begun
        length = b"" if answer.status == 204 else b"Content-Length: %d\r\n" % len(answer.body)
        return b"".join((begun, self._dated(), length, b"\r\n" if stays else _CLOSE + b"\r\n"))

    def head_of_stream(
        self, content_type: str, *, chunked: bool, headers: Mapping[str, str] = _NO_HEADERS
    ) -> bytes:
        """Status line and headers of an answer of unknown length; it is not to be kept, unless they say so."""
        said = {"content-type": content_type, "cache-control": "no-cache, private", **headers}
        head = _begun(200, tuple(said.items()))
        ends = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else _CLOSE + b"\r\n"
        return b"".join((head, self._dated(), ends))

    def _dated(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second, self._date = now, b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return self._date


def _begun(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    lines = [f"HTTP/1.1 {status} {phrase}"]
    # As in Go: what would break the line is a space. Warnings repeat what a client said.
    for name, value in headers:
        if value:
            lines.append(f"{name.title()}: {value}".replace("\r", " ").replace("\n", " "))
    return ("\r\n".join(lines) + "\r\n").encode("utf-8", "replace")
