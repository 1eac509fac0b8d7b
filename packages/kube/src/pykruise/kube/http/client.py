"""Requests and answers over kept connections, without anything in between that an API server does not need.

HttpTransport ──▶ HttpClient.send() ──▶ a kept connection, or a new one ──▶ API server
                        ◀── Response ◀── httptools (the parser of Node.js)

HTTP/1.1, one exchange at a time on each connection, no redirects, cookies or compression: a general
HTTP client takes four times the CPU for what is left of it then (measured), and three of these are all that
happens to most pods. Streams are in http_stream.py.

A connection serves one request after the other. One that breaks, is given up in mid-exchange, or whose server
says that it closes is not used again. Nothing is repeated here.
"""

import asyncio
import ssl
from collections import deque

import httptools

from pykruise.kube.client.transport import Request, Response
from pykruise.kube.errors import (
    AnswerTooLargeError,
    ConnectionLostError,
    RequestTimeoutError,
    UnreachableError,
)
from pykruise.kube.http.connection import (
    BROKEN,
    GOODBYE_S,
    MOST_BODY,
    AnswerHeaders,
    Fields,
    HttpConnection,
    HttpOrigin,
    RequestWriter,
    TooLargeError,
    connect,
    read_buffer,
    text_of,
    what_of,
)

__all__ = ["HttpClient"]


class _Connection(HttpConnection):
    """One connection, and the exchange that is under way on it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, buffer: memoryview
    ) -> None:
        super().__init__(loop, tls, buffer)
        self.idle_since = 0.0
        self._answer: asyncio.Future[Response] | None = None
        self._has_head = False
        self._body: list[bytes] = []
        self._body_size = 0

    def exchange(self, request: bytes) -> "asyncio.Future[Response]":
        """Send a request; the result is its answer, or what it is lost of."""
        assert self._transport is not None
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return self._answer

    def on_lost(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def on_data(self, data: memoryview) -> None:
        if self._answer is None:  # there is no request
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.on_lost(error)
            self.abort()

    # ── what the loop calls ──────────────────────────────────────────────────

    def eof_received(self) -> None:
        """A body without a length ends with its connection."""
        self.is_usable = False
        if self._answer is not None and self._has_head and AnswerHeaders(self._fields).ends_with_connection:
            self.on_message_complete()

    # ── what the parser calls ────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._answer is None:  # behind the answer, in the same packet
            self.is_usable = False
        self._has_head = False
        self._fields = []
        self._body, self._body_size = [], 0

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, part: bytes) -> None:
        self._beside_body = 0
        self._body_size += len(part)
        if self._body_size > MOST_BODY:
            self._body = []
            self.break_off(TooLargeError("the body", MOST_BODY))
        elif self._answer is not None:
            self._body.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # an interim answer: the real one follows
        self._beside_body = 0
        if not self._parser.should_keep_alive():
            self.is_usable = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            answer.set_result(Response(status, AnswerHeaders(self._fields), body))


class HttpClient:
    """At most `limit` connections to one server. Belongs to the event loop that first uses it.

    A connection that was idle for `keepalive_s` is not used any more. `connect_timeout_s` is for TCP and TLS.
    """

    def __init__(
        self, origin: HttpOrigin, *, limit: int, keepalive_s: float, connect_timeout_s: float
    ) -> None:
        self._origin = origin
        self._limit = limit
        self._keepalive_s = keepalive_s
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._places = 0
        """Taken: connections that are open, or being opened."""
        self._waiting: deque[asyncio.Future[_Connection | None]] = deque()
        self._writer = RequestWriter(origin)
        self._buffer = read_buffer()
        self._is_closed = False

    async def send(
        self, request: Request, headers: Fields, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> Response:
        """One exchange. `headers` go instead of the request's own; `tls`: the context to use now.

        Raises UnreachableError, RequestTimeoutError, ConnectionLostError; ValueError for a header that breaks
        its line.
        """
        loop = asyncio.get_running_loop()
        data = self._writer.encode(request, headers)
        what = what_of(self._origin, request)
        until = loop.time() + timeout_s
        connection = await self._take(loop, tls, what, until)
        answer = connection.exchange(data)
        timer = loop.call_at(until, _time_out, answer)
        try:
            return await answer
        except TimeoutError as error:
            raise RequestTimeoutError(f"{what}: no answer in time") from error
        except BROKEN as error:
            raise ConnectionLostError(f"{what}: the connection broke: {text_of(error)}") from error
        except TooLargeError as error:
            raise AnswerTooLargeError(f"{what}: {error}") from error
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
            await asyncio.wait(gone, timeout=GOODBYE_S)

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
                self._pass_on(loop, turn.result())  # it came in the moment in which the waiting ended
            if isinstance(error, TimeoutError):
                raise UnreachableError(f"{what}: no connection became free in time") from error
            raise

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, what: str
    ) -> _Connection:
        try:
            connection = await connect(
                loop,
                self._origin,
                tls,
                lambda: _Connection(loop, tls, self._buffer),
                timeout_s=self._connect_timeout_s,
                what=what,
            )
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


def _time_out(answer: "asyncio.Future[Response]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
