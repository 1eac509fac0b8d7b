"""One HTTP connection to a server: what requests (http_client.py) and streams (http_stream.py) have in common.

Origin, TLS ──▶ connect() ──▶ HttpConnection (an asyncio protocol around httptools) ──▶ the two modules' own protocols
Request, all its headers ──▶ RequestWriter ──▶ the bytes of a request

HTTP/1.1 as an API server speaks it: no redirects, cookies or compression. Proxies are in http_proxy.py.

What is kept of an answer has a bound for each of its parts, beyond which its connection ends with
AnswerTooLargeError: an API server is trusted, every proxy in between is not.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar, cast
from urllib.parse import quote, urlencode

import httptools
import msgspec

from pykruise.kube.client.transport import Request
from pykruise.kube.errors import UnreachableError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.http.heads import LINE_END, field_lines, length_line, request_line
from pykruise.kube.http.proxy import ProxyAddress, open_tunnel

__all__ = [
    "BROKEN",
    "GOODBYE_S",
    "MOST_BODY",
    "MOST_HEAD",
    "MOST_LINE",
    "MOST_REFUSAL",
    "AnswerHeaders",
    "Fields",
    "HttpConnection",
    "HttpOrigin",
    "RequestWriter",
    "TooLargeError",
    "connect",
    "cut_of",
    "read_buffer",
    "target_of",
    "text_of",
    "what_of",
]

GOODBYE_S: Final = 1.0
"""How long a server has to answer the end of TLS, and closing for the loop to let go of all connections."""

BROKEN: Final = (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade)
"""Errors of a lost connection: it broke, or the peer does not speak HTTP."""

_WITHOUT_BODY: Final = frozenset({"GET", "DELETE", "HEAD"})
"""Methods that need not say that they have none."""

_MOST_BLOCKS: Final = 64

_MOST_WORDS: Final = 512
"""Characters of what a parser or a socket says."""

_READ_BYTES: Final = 64 * 1024

MOST_HEAD: Final = 64 * 1024
"""Bytes of what is no body: heads (interim ones together with the real one), and what stands behind a body."""
MOST_BODY: Final = 64 * 1024 * 1024
"""Bytes of an answer's body: a page of a list. A list whose pages are larger is asked for in small ones."""
MOST_REFUSAL: Final = 1024 * 1024
"""Bytes of the body of a stream that was refused."""
MOST_LINE: Final = 16 * 1024 * 1024
"""Bytes of a line of a stream: an event has one object, of 3 MiB at most."""

Fields = tuple[tuple[str, str], ...]
"""Names and values of headers, in their order."""


class HttpOrigin(msgspec.Struct, frozen=True):
    """Where a server is. `prefix` stands before every path; `name` is what its certificate is for."""

    is_tls: bool
    host: str
    port: int
    prefix: str
    authority: str
    """For the Host header: the host, with a port that is not the usual one."""
    name: str
    proxy: ProxyAddress | None = None
    """The proxy between client and server."""

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


class AnswerHeaders(Mapping[str, str]):
    """Headers of an answer, parsed on first use: only those of refusals are ever used."""

    __slots__ = ("_fields", "_read")

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields
        self._read: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, str]:
        if self._read is None:
            self._read = {}
            for name, value in self._fields:
                key, text = name.decode("latin-1").lower(), value.decode("latin-1")
                self._read[key] = f"{self._read[key]}, {text}" if key in self._read else text
        return self._read

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has no other end."""
        return "content-length" not in self and "transfer-encoding" not in self


class TooLargeError(Exception):
    """Something is larger than its bound; the text says what, and the bound."""

    def __init__(self, part: str, most: int) -> None:
        super().__init__(f"{part} has more than {most} bytes")


class HttpConnection(asyncio.BufferedProtocol):
    """One connection. A subclass says what becomes of what is parsed, and of being lost (`on_lost`).

    What arrives is read into `buffer`, which connections of one loop share: it is parsed before the next read. Without
    it the loop would make a buffer of 256 KiB for each read, which with small watch events costs more than decrypting.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, buffer: memoryview
    ) -> None:
        self.tls = tls
        """TLS context that the connection was opened with."""
        self.is_usable = True
        self.lost: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._cut: Callable[[], None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._beside_body = 0
        """Bytes that have arrived since the last part of a body: the parser may keep them."""

    def close(self) -> None:
        """Say goodbye."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End at once."""
        self.is_usable = False
        if self._cut is not None:
            self._cut()

    def on_lost(self, error: Exception) -> None:
        """The connection is gone."""
        raise NotImplementedError

    def on_data(self, data: memoryview) -> None:
        """Something has arrived; it is overwritten afterwards."""
        raise NotImplementedError

    # ── what the loop calls ──────────────────────────────────────────────────

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._beside_body += nbytes
        self.on_data(self._buffer[:nbytes])
        if self._beside_body > MOST_HEAD:
            self.break_off(TooLargeError("the head", MOST_HEAD))

    def break_off(self, error: Exception) -> None:
        """Give the exchange up: what comes is not to be kept."""
        self.on_lost(error)
        self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._cut = cut_of((self._transport,))
        # A server that vanished without a word is noticed although nothing is sent for hours.
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self.on_lost(exc or ConnectionResetError("the server closed the connection"))
        self.lost.set_result(None)

    # ── what the parser calls ────────────────────────────────────────────────

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))


def read_buffer() -> memoryview:
    """Buffer into which the connections of one loop read."""
    return memoryview(bytearray(_READ_BYTES))


C = TypeVar("C", bound=HttpConnection)


async def connect(
    loop: asyncio.AbstractEventLoop,
    origin: HttpOrigin,
    tls: ssl.SSLContext | None,
    make: Callable[[], C],
    *,
    timeout_s: float,
    what: str,
) -> C:
    """A new connection; `timeout_s` is for TCP and TLS. Raises UnreachableError, which names `what` was to be sent."""
    try:
        async with asyncio.timeout(timeout_s):
            connection = await _connect(loop, origin, tls, make)
    except (OSError, TimeoutError) as error:
        raise UnreachableError(f"{what}: cannot connect to {origin}: {text_of(error)}") from error
    return connection


async def _connect(
    loop: asyncio.AbstractEventLoop, origin: HttpOrigin, tls: ssl.SSLContext | None, make: Callable[[], C]
) -> C:
    proxy = origin.proxy
    if proxy is not None and tls is not None:
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        return await open_tunnel(
            loop,
            proxy,
            make,
            target=f"{host}:{origin.port}",
            tls=tls,
            server_hostname=origin.name,
            goodbye_s=GOODBYE_S,
        )
    if proxy is not None:
        tls = proxy.tls
    near = proxy or origin
    _, connection = await loop.create_connection(
        make,
        near.host,
        near.port,
        ssl=tls,
        server_hostname=(origin.name if proxy is None else proxy.host) if tls is not None else None,
        ssl_shutdown_timeout=GOODBYE_S if tls is not None else None,
    )
    return connection


def text_of(error: Exception) -> str:
    """Show an error in one short line: its text, or its type where it has none. The text may repeat what arrived."""
    words = excerpt(str(error), most=_MOST_WORDS).split()
    line = " ".join("".join(mark if mark.isprintable() else "?" for mark in word) for word in words)
    return line or type(error).__name__


def what_of(origin: HttpOrigin, request: Request) -> str:
    """A request in an error message: `GET /prefix/api/v1/pods`."""
    return f"{request.method} {origin.prefix}{request.path}"


def target_of(origin: HttpOrigin, request: Request) -> str:
    """The path and the query of a request, percent-encoded; for a proxy that passes it on, the whole URL."""
    path = origin.prefix + request.path
    if origin.proxy is not None and not origin.is_tls:
        path = f"{origin}{path}"
    return f"{path}?{urlencode(request.query, quote_via=quote)}" if request.query else path


class RequestWriter:
    """Requests as they go over the wire. Most carry the same headers as many before."""

    def __init__(self, origin: HttpOrigin) -> None:
        self._origin = origin
        self._own: Fields = (("Host", origin.authority),)
        if origin.proxy is not None and origin.proxy.authorization and not origin.is_tls:
            self._own = (*self._own, ("Proxy-Authorization", origin.proxy.authorization))
        self._blocks: dict[Fields, bytes] = {}

    def encode(self, request: Request, headers: Fields) -> bytes:
        """One request, with `headers` instead of its own. Raises HttpHeadError for what would break its line."""
        method, body = request.method, request.body
        target = target_of(self._origin, request)
        block = self._blocks.get(headers)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:  # tokens change now and then
                self._blocks.clear()
            block = self._blocks[headers] = field_lines([*self._own, *headers])
        if body or method not in _WITHOUT_BODY:
            length = length_line(len(body or b""))
        else:
            length = b""
        return b"".join((request_line(method, target), block, length, LINE_END, body or b""))


def cut_of(transports: Iterable[asyncio.WriteTransport | None]) -> Callable[[], None]:
    """Function that aborts these connections at once; call it after they were closed. Ended ones (None) are left out.

    A client with a pool of connections sends no close_notify, so a polite close of TLS would last for its time-out.

    Python before 3.11.5 forgets the TLS side of a transport that is closed twice, as servers do, and cannot abort
    it any more; then its socket is shut down, which is why they have to be given before.
    """
    result = [
        (transport, transport.get_extra_info("socket")) for transport in transports if transport is not None
    ]

    def cut() -> None:
        for transport, sock in result:
            try:
                transport.abort()
            except AttributeError:
                if sock is not None:  # else it had been closed twice before, and ends by itself
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)

    return cut
