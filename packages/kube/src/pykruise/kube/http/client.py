"""Requests over connections that are kept open, with only those parts of HTTP that an API server needs.

HttpTransport ──▶ HttpClient.send() ──▶ a kept connection, or a new one ──▶ API server
                        ◀── Response ◀── httptools (the parser of Node.js)

HTTP/1.1, one exchange at a time on each connection, no redirects, cookies or compression. A general HTTP client takes
four times as much CPU time (measured), and most pods cause only three such exchanges. Streams are in streams.py.

A connection serves requests sequentially. A connection is not used again after it breaks, after its exchange is given
up, or if headers say that the server closes it. Unused connections are closed, because each takes 75 KB. Nothing is
repeated here.
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
    lost_by_server,
    read_buffer,
    text_of,
    what_of,
)

__all__ = ["HttpClient"]


class _Connection(HttpConnection):
    """A connection, and the exchange that is in flight on it."""

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
        """Send a request. The future gets its response, or the error that ended the connection."""
        answer = self._answer = self._loop.create_future()
        if self._transport is None:
            self.on_lost(lost_by_server())
        else:
            self._transport.write(request)
        return answer

    def on_lost(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def on_data(self, data: memoryview) -> None:
        if self._answer is None:  # no request is in flight
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.on_lost(error)
            self.abort()

    # ── called by the loop ───────────────────────────────────────────────────

    def eof_received(self) -> None:
        """Complete a body without a length, which ends when the server closes the connection."""
        self.is_usable = False
        if self._answer is not None and self._has_head and AnswerHeaders(self._fields).ends_with_connection:
            self.on_message_complete()

    # ── called by the parser ─────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._answer is None:  # data after the response, in the same packet
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
            return  # an interim response: the final one follows
        self._beside_body = 0
        if not self._parser.should_keep_alive():
            self.is_usable = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            answer.set_result(Response(status, AnswerHeaders(self._fields), body))


class HttpClient:
    """At most `limit` connections to one server. Only one event loop may use it.

    A connection that was idle for `keepalive_s` is closed. `connect_timeout_s` covers TCP and TLS.
    """

    def __init__(
        self, origin: HttpOrigin, *, limit: int, keepalive_s: float, connect_timeout_s: float
    ) -> None:
        self._origin = origin
        self._limit = limit
        self._keepalive_s = keepalive_s
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[_Connection] = []
        """Idle connections; the one that was used last is at the end, and is used next."""
        self._will_close_idle = False
        """Whether a timer is set that closes idle connections."""
        self._open: set[_Connection] = set()
        self._places = 0
        """Connections that are open, or being opened."""
        self._waiting: deque[asyncio.Future[_Connection | None]] = deque()
        self._writer = RequestWriter(origin)
        self._buffer = read_buffer()
        self._is_closed = False

    async def send(
        self, request: Request, headers: Fields, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> Response:
        """Send one request and return its response. `headers` replace the request's own; `tls`: the context to use now.

        Raises UnreachableError, RequestTimeoutError, ConnectionLostError, AnswerTooLargeError; ValueError for a
        header that contains a line end.
        """
        loop = asyncio.get_running_loop()
        data = self._writer.encode(request, headers)
        what = what_of(self._origin, request)
        until = loop.time() + timeout_s
        connection = await self._acquire_connection(loop, tls, what, until)
        answer = connection.exchange(data)
        timer = loop.call_at(until, _time_out, answer)
        try:
            return await answer
        except TimeoutError as error:
            raise RequestTimeoutError(f"{what}: no response in time") from error
        except BROKEN as error:
            raise ConnectionLostError(f"{what}: the connection broke: {text_of(error)}") from error
        except TooLargeError as error:
            raise AnswerTooLargeError(f"{what}: {error}") from error
        finally:
            timer.cancel()
            if not answer.done() or answer.cancelled() or answer.exception() is not None:
                connection.abort()  # data that still arrives would be read as the next response
            self._give_back(loop, connection)

    async def close(self) -> None:
        """Close all connections. Requests in flight and new requests fail."""
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

    async def _acquire_connection(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, what: str, until: float
    ) -> _Connection:
        """Return a connection with this TLS context: an idle one, a new one, or the next free one."""
        if self._is_closed:
            raise UnreachableError(f"{what}: the transport is closed")
        while self._idle:
            connection = self._idle.pop()
            if self._is_usable_for(connection, tls, loop):
                return connection
            self._close_connection(loop, connection)
        if self._places < self._limit:
            self._places += 1
        else:
            free = await self._wait_for_free(loop, what, until)
            if free is not None and self._is_usable_for(free, tls, loop):
                return free
            if free is not None:
                free.close()
        return await self._open_connection(loop, tls, what)

    def _is_usable_for(
        self, connection: _Connection, tls: ssl.SSLContext | None, loop: asyncio.AbstractEventLoop
    ) -> bool:
        is_fresh = loop.time() - connection.idle_since < self._keepalive_s
        # A changed client certificate comes with a new context, which only new connections use.
        return connection.is_usable and connection.tls is tls and is_fresh

    async def _wait_for_free(
        self, loop: asyncio.AbstractEventLoop, what: str, until: float
    ) -> _Connection | None:
        """Return the next free connection; None: a new connection can be opened."""
        turn: asyncio.Future[_Connection | None] = loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(until):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(loop, turn.result())  # a connection became free just when the wait ended
            if isinstance(error, TimeoutError):
                raise UnreachableError(f"{what}: no connection became free in time") from error
            raise

    async def _open_connection(
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
        """Make a connection available again after its exchange."""
        connection.idle_since = loop.time()
        if connection.is_usable:
            self._pass_on(loop, connection)
        else:
            self._close_connection(loop, connection)

    def _close_connection(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        connection.close()
        self._pass_on(loop, None)

    def _pass_on(self, loop: asyncio.AbstractEventLoop, free: _Connection | None) -> None:
        """Give a connection, or a place for a new connection, to the request that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(free)
                return
        if free is None:
            self._places -= 1
            return
        self._idle.append(free)
        if not self._will_close_idle:
            self._will_close_idle = True
            loop.call_later(self._keepalive_s, self._close_idle, loop)

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections that were idle for too long, and look again when the next one may be."""
        self._will_close_idle = False
        until = loop.time() - self._keepalive_s
        stale = [connection for connection in self._idle if connection.idle_since <= until]
        del self._idle[: len(stale)]
        for connection in stale:
            self._close_connection(loop, connection)
        if self._idle and not self._is_closed:
            self._will_close_idle = True
            loop.call_at(self._idle[0].idle_since + self._keepalive_s, self._close_idle, loop)


def _time_out(answer: "asyncio.Future[Response]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
