"""Requests and answers over kept connections, without anything in between that an API server does not need.

HttpTransport ──▶ Exchanges.send() ──▶ a kept connection, or a new one ──▶ API server
                        ◀── Response ◀── httptools (the parser of Node.js)

HTTP/1.1, one exchange at a time on each connection, no redirects, cookies, proxies or compression: a general
HTTP client takes four times the CPU for what is left of it then (measured), and three of these are all that
happens to most pods. Streams and proxies are aiohttp's (http.py).

A connection serves one request after the other. One that breaks, is given up in mid-exchange, or whose server
says that it closes is not used again. Nothing is repeated here.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, cast

import httptools
import msgspec

from pykruise.kube.cutting import cut_of
from pykruise.kube.errors import ConnectionLostError, RequestTimeoutError, UnreachableError
from pykruise.kube.transport import Response

__all__ = ["Exchanges", "Origin"]

_GOODBYE_S: Final = 1.0
"""How long a server has to answer the end of TLS, and `close()` for the loop to let go of all connections."""

_WITHOUT_BODY: Final = frozenset({"GET", "DELETE", "HEAD"})
"""Methods that need not say that they have none."""


Fields = tuple[tuple[str, str], ...]
"""Names and values of headers, in their order."""

_MOST_BLOCKS: Final = 64


class Origin(msgspec.Struct, frozen=True):
    """Where a server is. `prefix` stands before every path; `name` is what its certificate is for."""

    is_tls: bool
    host: str
    port: int
    prefix: str
    authority: str
    """For the Host header: the host, with a port that is not the usual one."""
    name: str

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


class _Headers(Mapping[str, str]):
    """Headers of an answer, read when somebody asks: of one that is no refusal nobody does."""

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


class _Connection(asyncio.Protocol):
    """One connection, and the exchange that is under way on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self._loop = loop
        self.tls = tls
        """What it was opened with."""
        self.idle_since = 0.0
        self.is_usable = True
        self.lost: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._cut: Callable[[], None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._has_head = False
        self._fields: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []

    def exchange(self, request: bytes) -> "asyncio.Future[Response]":
        """Send a request; the result is its answer, or what it is lost of."""
        assert self._transport is not None
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return self._answer

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

    # ── what the loop calls ──────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._cut = cut_of((self._transport,))
        # A server that vanished without a word is noticed although nothing is sent for hours.
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # nobody asked
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(error)
            self.abort()

    def eof_received(self) -> None:
        """A body without a length ends with its connection."""
        self.is_usable = False
        headers = _Headers(self._fields)
        is_measured = "content-length" in headers or "transfer-encoding" in headers
        if self._answer is not None and self._has_head and not is_measured:
            self.on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._fail(exc or ConnectionResetError("the server closed the connection"))
        self.lost.set_result(None)

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    # ── what the parser calls ────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._answer is None:  # behind the answer, in the same packet
            self.is_usable = False
        self._has_head = False
        self._fields = []
        self._body = []

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # an interim answer: the real one follows
        if not self._parser.should_keep_alive():
            self.is_usable = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            answer.set_result(Response(status, _Headers(self._fields), body))


class Exchanges:
    """At most `limit` connections to one server. Belongs to the event loop that first uses it.

    A connection that was idle for `keepalive_s` is not used any more. `connect_timeout_s` is for TCP and TLS.
    """

    def __init__(self, origin: Origin, *, limit: int, keepalive_s: float, connect_timeout_s: float) -> None:
        self._origin = origin
        self._limit = limit
        self._keepalive_s = keepalive_s
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._places = 0
        """Taken: connections that are open, or being opened."""
        self._waiting: deque[asyncio.Future[_Connection | None]] = deque()
        self._blocks: dict[Fields, bytes] = {}
        self._is_closed = False

    async def send(
        self,
        method: str,
        path: str,
        query: str,
        headers: Fields,
        body: bytes | None,
        *,
        tls: ssl.SSLContext | None,
        timeout_s: float,
    ) -> Response:
        """One exchange. `path` and `query` are percent-encoded; `tls`: the context to use now.

        Raises UnreachableError, RequestTimeoutError, ConnectionLostError; ValueError for a header that breaks
        its line.
        """
        loop = asyncio.get_running_loop()
        target = f"{self._origin.prefix}{path}?{query}" if query else self._origin.prefix + path
        request = self._written(method, target, headers, body)
        until = loop.time() + timeout_s
        connection = await self._take(loop, tls, f"{method} {self._origin.prefix}{path}", until)
        answer = connection.exchange(request)
        timer = loop.call_at(until, _time_out, answer)
        try:
            return await answer
        except TimeoutError as error:
            raise RequestTimeoutError(f"{method} {self._origin.prefix}{path}: no answer in time") from error
        except (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            words = str(error) or type(error).__name__
            message = f"{method} {self._origin.prefix}{path}: the connection broke: {words}"
            raise ConnectionLostError(message) from error
        finally:
            timer.cancel()
            if not answer.done() or answer.cancelled() or answer.exception() is not None:
                connection.abort()  # what still arrives would be taken for the next answer
            self._give_back(loop, connection)

    async def close(self) -> None:
        """End all connections; requests under way fail, and new ones are refused."""
        self._is_closed = True
        for turn in self._waiting:
            if not turn.done():
                turn.set_exception(UnreachableError("the transport is closed"))
        gone = [connection.lost for connection in self._open]
        for connection in tuple(self._open):
            connection.abort()
        if gone:
            await asyncio.wait(gone, timeout=_GOODBYE_S)

    def _written(self, method: str, target: str, headers: Fields, body: bytes | None) -> bytes:
        """A request as it goes over the wire. Most carry the same headers as many before."""
        block = self._blocks.get(headers)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:  # tokens change now and then
                self._blocks.clear()
            block = self._blocks[headers] = _header_lines([("Host", self._origin.authority), *headers])
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"{method} {target!r}: the path is not percent-encoded")
        if body or method not in _WITHOUT_BODY:
            length = b"Content-Length: %d\r\n" % len(body or b"")
        else:
            length = b""
        line = f"{method} {target} HTTP/1.1\r\n".encode()
        return b"".join((line, block, length, b"\r\n", body or b""))

    # ── connections ──────────────────────────────────────────────────────────

    async def _take(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, what: str, until: float
    ) -> _Connection:
        """A connection with this TLS context: an idle one, a new one, or the next that becomes free."""
        if self._is_closed:
            raise UnreachableError(f"{what}: the transport is closed")
        while self._idle:
            connection = self._idle.pop()
            if self._serves(connection, tls, loop):
                return connection
            self._drop(loop, connection)
        if self._places < self._limit:
            self._places += 1
        else:
            free = await self._wait(loop, what, until)
            if free is not None and self._serves(free, tls, loop):
                return free
            if free is not None:
                free.close()
        return await self._connect(loop, tls, what)

    def _serves(
        self, connection: _Connection, tls: ssl.SSLContext | None, loop: asyncio.AbstractEventLoop
    ) -> bool:
        is_fresh = loop.time() - connection.idle_since < self._keepalive_s
        # After a change of client certificate there is a new context, for new connections.
        return connection.is_usable and connection.tls is tls and is_fresh

    async def _wait(self, loop: asyncio.AbstractEventLoop, what: str, until: float) -> _Connection | None:
        """The next connection that is free; None: its place only, for a new one."""
        turn: asyncio.Future[_Connection | None] = loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(until):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(loop, turn.result())  # it came in the moment in which nobody waited any more
            if isinstance(error, TimeoutError):
                raise UnreachableError(f"{what}: no connection became free in time") from error
            raise

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, what: str
    ) -> _Connection:
        origin = self._origin
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, tls),
                    origin.host,
                    origin.port,
                    ssl=tls,
                    server_hostname=origin.name if tls is not None else None,
                    ssl_shutdown_timeout=_GOODBYE_S if tls is not None else None,
                )
        except (OSError, TimeoutError) as error:
            self._pass_on(loop, None)
            words = str(error) or type(error).__name__
            raise UnreachableError(f"{what}: cannot connect to {origin}: {words}") from error
        except BaseException:
            self._pass_on(loop, None)
            raise
        if self._is_closed:
            connection.abort()
            raise UnreachableError(f"{what}: the transport is closed")
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _give_back(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        """Its exchange is over."""
        connection.idle_since = loop.time()
        if connection.is_usable:
            self._pass_on(loop, connection)
        else:
            self._drop(loop, connection)

    def _drop(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        connection.close()
        self._pass_on(loop, None)

    def _pass_on(self, loop: asyncio.AbstractEventLoop, free: _Connection | None) -> None:
        """Give a connection, or the place of one, to who waits for it longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(free)
                return
        if free is None:
            self._places -= 1
        else:
            self._idle.append(free)


def _header_lines(fields: list[tuple[str, str]]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    for (name, _), line in zip(fields, lines, strict=True):
        if line.count("\r") != 1 or line.count("\n") != 1:
            raise ValueError(f"header {name!r}: there is a line break in it")
    return "".join(lines).encode()


def _time_out(answer: "asyncio.Future[Response]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
