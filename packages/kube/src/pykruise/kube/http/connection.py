"""An HTTP connection to a server: the common parts of requests (client.py) and streams (streams.py).

Origin, TLS ──▶ connect() ──▶ HttpConnection (an asyncio protocol around httptools) ──▶ the two modules' own protocols
Request, all its headers ──▶ RequestWriter ──▶ the bytes of a request

HTTP/1.1 as an API server speaks it: no redirects, cookies or compression. Proxies are in proxy.py.

Each part of a response has a size limit, beyond which its connection ends with AnswerTooLargeError: an API server is
trusted, the proxies on the way are not.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote, urlencode

import httptools
import msgspec

from pykruise.kube.client.transport import Request
from pykruise.kube.errors import UnreachableError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.http.addresses import open_socket
from pykruise.kube.http.heads import LINE_END, format_field_lines, format_length_line, format_request_line
from pykruise.kube.http.proxy import ProxyAddress, open_tunnel
from pykruise.kube.values.counts import format_count

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
    "lost_by_server",
    "read_buffer",
    "target_of",
    "text_of",
    "what_of",
]

GOODBYE_S: Final = 1.0
"""Seconds for a server to respond to the end of a TLS session, and for the loop to release all connections when
closing.
"""

BROKEN: Final = (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade)
"""Errors of a lost connection: it broke, or the peer does not speak HTTP."""

_WITHOUT_BODY: Final = frozenset({"GET", "DELETE", "HEAD"})
"""Methods that need no length when they have no body."""

_MOST_BLOCKS: Final = 64

_MOST_WORDS: Final = 512
"""Maximum number of characters of a message from a parser or a socket."""

_READ_BYTES: Final = 64 * 1024

MOST_HEAD: Final = 64 * 1024
"""Maximum number of bytes outside bodies: heads (interim ones together with the final one), and data after a body."""
MOST_BODY: Final = 64 * 1024 * 1024
"""Maximum number of bytes of a response's body: a page of a list. A list with larger pages is requested in small pages.
"""
MOST_REFUSAL: Final = 1024 * 1024
"""Maximum number of bytes of the body of an error response to a stream."""
MOST_LINE: Final = 16 * 1024 * 1024
"""Maximum number of bytes of a line of a stream: an event has one object, of 3 MiB at most."""

Fields = tuple[tuple[str, str], ...]
"""Names and values of headers, in their order."""


class HttpOrigin(msgspec.Struct, frozen=True):
    """Address of a server. `prefix` precedes every path; the server's certificate is for `name`."""

    is_tls: bool
    host: str
    port: int
    prefix: str
    authority: str
    """Value of the Host header: the host, with its port unless that is the usual one."""
    name: str
    proxy: ProxyAddress | None = None
    """The proxy between client and server."""

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


class AnswerHeaders(Mapping[str, str]):
    """Headers of a response, parsed on first use: usually only those of error responses are read."""

    __slots__ = ("_fields", "_read")

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields
        self._read: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._parse_all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parse_all())

    def __len__(self) -> int:
        return len(self._parse_all())

    def _parse_all(self) -> dict[str, str]:
        if self._read is None:
            self._read = {}
            for name, value in self._fields:
                key, text = name.decode("latin-1").lower(), value.decode("latin-1")
                self._read[key] = f"{self._read[key]}, {text}" if key in self._read else text
        return self._read

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body ends with the connection."""
        return "content-length" not in self and "transfer-encoding" not in self


class TooLargeError(Exception):
    """Something is larger than its limit; the text names it and the limit."""

    def __init__(self, part: str, most: int) -> None:
        super().__init__(f"{part} has more than {format_count(most, 'byte')}")


class HttpConnection(asyncio.BufferedProtocol):
    """A connection. Subclasses handle the parsed data and the loss of the connection (`on_lost`).

    Data is read into `buffer`, which the connections of one loop share: it is parsed before the next read. Otherwise
    the loop would allocate a buffer of 256 KiB for each read, which takes more time than decryption when watch events
    are small.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, buffer: memoryview
    ) -> None:
        self.tls = tls
        """TLS context with which the connection was opened."""
        self.is_usable = True
        self.lost: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._cut: Callable[[], None] | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._beside_body = 0
        """Number of bytes that have arrived since the last part of a body; the parser may keep them in memory."""

    def close(self) -> None:
        """Close the connection after all written data has been sent."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        self.is_usable = False
        if self._cut is not None:
            self._cut()

    def on_lost(self, error: Exception) -> None:
        """Handle the loss of the connection."""
        raise NotImplementedError

    def on_data(self, data: memoryview) -> None:
        """Handle data that has arrived; the buffer is overwritten afterwards."""
        raise NotImplementedError

    # ── called by the loop ───────────────────────────────────────────────────

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._beside_body += nbytes
        self.on_data(self._buffer[:nbytes])
        if self._beside_body > MOST_HEAD:
            self.break_off(TooLargeError("the head", MOST_HEAD))

    def break_off(self, error: Exception) -> None:
        """Abandon the exchange; data that still arrives is dropped."""
        self.on_lost(error)
        self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._cut = cut_of((self._transport,))
        # A watch must not wait for a server that disappeared without closing the connection.
        with suppress(OSError):
            detect_lost_peer(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self.on_lost(exc or lost_by_server())
        self.lost.set_result(None)
        # These attributes refer back to the connection: the memory of TLS (256 KiB of buffer) would stay until the
        # next garbage collection of old objects, and forever if the connection was open when the heap was frozen.
        self._parser = self._transport = self._cut = None

    # ── called by the parser ─────────────────────────────────────────────────

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))


def lost_by_server() -> Exception:
    """Return the error of a connection that the server closed."""
    return ConnectionResetError("the server closed the connection")


def read_buffer() -> memoryview:
    """Return a buffer into which the connections of one loop read."""
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
    """Open a connection; `timeout_s` covers TCP and TLS. Raises UnreachableError, which names the request `what`."""
    try:
        async with asyncio.timeout(timeout_s):
            connection = await _open_connection(loop, origin, tls, make, timeout_s)
    except (OSError, TimeoutError) as error:
        raise _name_origin(
            UnreachableError(f"{what}: cannot connect to {origin}: {text_of(error)}"), origin
        ) from error
    return connection


def _name_origin(error: UnreachableError, origin: HttpOrigin) -> UnreachableError:
    """Add the server's address to an error. A separate function does this, because an error in a local variable of the
    function that raises it would keep the TLS state of the handshake in memory until the next garbage collection.
    """
    error.origin = str(origin)
    return error


async def _open_connection(
    loop: asyncio.AbstractEventLoop,
    origin: HttpOrigin,
    tls: ssl.SSLContext | None,
    make: Callable[[], C],
    timeout_s: float,
) -> C:
    proxy = origin.proxy
    near = proxy or origin
    sock = await open_socket(loop, near.host, near.port, timeout_s=timeout_s)
    if proxy is not None and tls is not None:
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        return await open_tunnel(
            loop,
            proxy,
            make,
            sock=sock,
            target=f"{host}:{origin.port}",
            tls=tls,
            server_hostname=origin.name,
            goodbye_s=GOODBYE_S,
        )
    if proxy is not None:
        tls = proxy.tls
    _, connection = await loop.create_connection(
        make,
        sock=sock,
        ssl=tls,
        server_hostname=(origin.name if proxy is None else proxy.host) if tls is not None else None,
        ssl_shutdown_timeout=GOODBYE_S if tls is not None else None,
    )
    return connection


def detect_lost_peer(sock: socket.socket) -> None:
    """Make the kernel probe an idle connection, and close it 45 s after the peer has disappeared.

    client-go needs the same time (ReadIdleTimeout and PingTimeout of HTTP/2). Without the options of Linux, the kernel
    begins its probes after hours.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def text_of(error: Exception) -> str:
    """Return an error as one short line: its text or, if it has none, its type. The text may repeat received data."""
    words = excerpt(str(error), most=_MOST_WORDS).split()
    line = " ".join("".join(mark if mark.isprintable() else "?" for mark in word) for word in words)
    return line or type(error).__name__


def what_of(origin: HttpOrigin, request: Request) -> str:
    """Return a request as an error message names it: `GET /prefix/api/v1/pods`."""
    return f"{request.method} {origin.prefix}{request.path}"


def target_of(origin: HttpOrigin, request: Request) -> str:
    """Return the path and the query of a request, percent-encoded; for a forwarding proxy, the whole URL."""
    path = origin.prefix + request.path
    if origin.proxy is not None and not origin.is_tls:
        path = f"{origin}{path}"
    return f"{path}?{urlencode(request.query, quote_via=quote)}" if request.query else path


class RequestWriter:
    """Encodes requests. Most requests have the same headers as many earlier requests."""

    def __init__(self, origin: HttpOrigin) -> None:
        self._origin = origin
        self._own: Fields = (("Host", origin.authority),)
        if origin.proxy is not None and origin.proxy.authorization and not origin.is_tls:
            self._own = (*self._own, ("Proxy-Authorization", origin.proxy.authorization))
        self._blocks: dict[Fields, bytes] = {}

    def encode(self, request: Request, headers: Fields) -> bytes:
        """Return the bytes of one request, with `headers` instead of the headers of the request. Raises HttpHeadError
        for a line end inside a line.
        """
        method, body = request.method, request.body
        target = target_of(self._origin, request)
        block = self._blocks.get(headers)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:  # tokens change from time to time
                self._blocks.clear()
            block = self._blocks[headers] = format_field_lines([*self._own, *headers])
        if body or method not in _WITHOUT_BODY:
            length = format_length_line(len(body or b""))
        else:
            length = b""
        return b"".join((format_request_line(method, target), block, length, LINE_END, body or b""))


def cut_of(transports: Iterable[asyncio.WriteTransport | None]) -> Callable[[], None]:
    """Return a function that aborts these connections immediately; call it after closing them. None entries are
    skipped.

    A client with a pool of connections sends no close_notify, so `close` of a TLS connection would wait until its
    timeout.

    Python before 3.11.5 loses the TLS side of a transport that is closed twice, as servers do, and can no longer abort
    it. The function then shuts the socket down. For this, the transports must be passed here before they are closed.
    """
    result = [
        (transport, transport.get_extra_info("socket")) for transport in transports if transport is not None
    ]

    def cut() -> None:
        for transport, sock in result:
            try:
                transport.abort()
            except AttributeError:
                if sock is not None:  # without a socket, nothing is left to close
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)

    return cut
