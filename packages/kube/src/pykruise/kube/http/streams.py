"""Responses that do not end (watches and logs), each over its own connection.

HttpTransport ──▶ Streams.open() ──▶ a new connection ──▶ API server
      lines_of() ◀── Stream: its status, and read() ◀── httptools

Arriving data is kept until it is read. A slow reader makes the server wait: beyond a megabyte, nothing more is
received.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from typing import Final

import httptools

from pykruise.kube.client.transport import Request
from pykruise.kube.errors import (
    AnswerTooLargeError,
    ConnectionLostError,
    RequestTimeoutError,
    SilentStreamError,
    UnreachableError,
)
from pykruise.kube.http.connection import (
    BROKEN,
    GOODBYE_S,
    MOST_LINE,
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

__all__ = ["Stream", "Streams", "lines_of"]

_MOST_BYTES: Final = 1 << 20
"""Maximum number of bytes that are kept for a slow reader."""


class Stream(HttpConnection):
    """A response on its connection; created by `Streams.open`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, buffer: memoryview
    ) -> None:
        super().__init__(loop, tls, buffer)
        self.status: asyncio.Future[int] = loop.create_future()
        self._parts: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._is_over = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def code(self) -> int:
        """The HTTP status, after it has arrived."""
        return self.status.result()

    @property
    def headers(self) -> AnswerHeaders:
        """Headers of the response, after the status has arrived."""
        return AnswerHeaders(self._fields)

    def ask(self, request: bytes) -> None:
        """Send the request. Does nothing on a lost connection, whose `status` has the error."""
        if self._transport is not None:
            self._transport.write(request)

    async def read(self) -> bytes:
        """Return the data that has arrived since the last call, at least one byte; empty: the end.

        Raises the error that ended the stream: one of BROKEN, or the error given to `fail`.
        """
        while not self._parts:
            if self._is_over:
                if self._error is not None:
                    raise self._error
                return b""
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        parts, self._parts, self._size = self._parts, [], 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def fail(self, error: Exception) -> None:
        """Raise this error in the reader, after all data that has arrived."""
        self._set_end(error)

    def on_lost(self, error: Exception) -> None:
        self._set_end(error)

    def _set_end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._error = error
        if not self.status.done():
            self.status.set_exception(error or ConnectionResetError("there was no response"))
            self.status.exception()  # the waiting caller gets the error; without a caller there is nothing to log
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def on_data(self, data: memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._set_end(error)
            self.abort()

    # ── called by the loop ───────────────────────────────────────────────────

    def eof_received(self) -> None:
        """Complete a body without a length, which ends when the server closes the connection."""
        if self.status.done() and self.headers.ends_with_connection:
            self._set_end(None)

    # ── called by the parser ─────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if not self.status.done():  # otherwise the data follows the response, and belongs to no request
            self._fields = []

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.status.done():  # the final response follows an interim one
            self.status.set_result(status)

    def on_body(self, part: bytes) -> None:
        self._beside_body = 0
        if self._is_over:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > _MOST_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake_reader()

    def on_message_complete(self) -> None:
        if self.status.done():
            self._beside_body = 0
            self._set_end(None)


class Streams:
    """Opens streams from one server, any number at the same time. Only one event loop may use it."""

    def __init__(self, origin: HttpOrigin, *, connect_timeout_s: float) -> None:
        self._origin = origin
        self._connect_timeout_s = connect_timeout_s
        self._writer = RequestWriter(origin)
        self._buffer = read_buffer()
        self._open: set[Stream] = set()
        self._is_closed = False

    async def open(
        self, request: Request, headers: Fields, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> Stream:
        """Send a GET and wait for its status. `headers` replace the request's own. `abort()` the stream after
        reading.

        `timeout_s` covers everything that happens here. Raises UnreachableError, RequestTimeoutError,
        ConnectionLostError, AnswerTooLargeError.
        """
        loop = asyncio.get_running_loop()
        what = what_of(self._origin, request)
        if self._is_closed:
            raise UnreachableError(f"{what}: the transport is closed")
        data = self._writer.encode(request, headers)
        until = loop.time() + timeout_s
        stream = await self._open_connection(loop, tls, timeout_s, what)
        stream.ask(data)
        try:
            async with asyncio.timeout_at(until):
                await stream.status
        except TimeoutError as error:
            stream.abort()
            raise RequestTimeoutError(f"{what}: no response in time") from error
        except BROKEN as error:
            raise ConnectionLostError(f"{what}: the connection broke: {text_of(error)}") from error
        except TooLargeError as error:
            raise AnswerTooLargeError(f"{what}: {error}") from error
        except BaseException:
            stream.abort()
            raise
        return stream

    async def _open_connection(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, timeout_s: float, what: str
    ) -> Stream:
        stream = await connect(
            loop,
            self._origin,
            tls,
            lambda: Stream(loop, tls, self._buffer),
            timeout_s=min(self._connect_timeout_s, timeout_s),
            what=what,
        )
        if self._is_closed:  # closed during the connect
            stream.abort()
            raise UnreachableError(f"{what}: the transport is closed")
        self._open.add(stream)
        stream.lost.add_done_callback(lambda _: self._open.discard(stream))
        return stream

    async def close(self) -> None:
        """End all streams, and reject new ones."""
        self._is_closed = True
        gone = [stream.lost for stream in self._open]
        for stream in tuple(self._open):
            stream.abort()
        if gone:
            await asyncio.wait(gone, timeout=GOODBYE_S)


class _SilentError(Exception):
    """Nothing arrived on the stream for too long."""


async def lines_of(stream: Stream, *, what: str, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body, without line ends; empty ones are skipped. Lines have at most MOST_LINE bytes.

    Raises ConnectionLostError, SilentStreamError, AnswerTooLargeError. The parts of a long line are joined only once.
    """
    begun: list[bytes] = []
    size = 0
    silence = _IdleTimer(stream.fail, idle_timeout_s)
    read = stream.read
    try:
        while chunk := await read():
            silence.restart()
            lines = chunk.split(b"\n")
            begun.append(lines[0])
            size += len(lines[0])
            if size > MOST_LINE:
                raise TooLargeError("a line", MOST_LINE)
            if len(lines) == 1:
                continue
            lines[0] = begun[0] if len(begun) == 1 else b"".join(begun)
            last = lines.pop()
            begun, size = [last] if last else [], len(last)
            for line in lines:
                if line:
                    yield line
    except _SilentError as err:
        raise SilentStreamError(f"{what}: nothing arrived for {idle_timeout_s:g} s") from err
    except BROKEN as err:
        raise ConnectionLostError(f"{what}: the connection broke: {text_of(err)}") from err
    except TooLargeError as err:
        raise AnswerTooLargeError(f"{what}: {err}") from err
    finally:
        silence.stop()
    if rest := b"".join(begun):
        yield rest


class _IdleTimer:
    """Ends a stream that is silent for `idle_timeout_s` (None: never). It uses one timer for each silence: a timer for
    each packet would take a fiftieth of the CPU of a busy manager.
    """

    def __init__(self, fail: Callable[[Exception], None], idle_timeout_s: float | None) -> None:
        self._fail = fail
        self._idle_timeout_s = idle_timeout_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.restart()
        self._check_silence()

    def restart(self) -> None:
        """Note that data has arrived."""
        self._last_at = self._loop.time()

    def stop(self) -> None:
        """Stop the timer at the end of the stream."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_silence(self) -> None:
        if self._idle_timeout_s is None:
            return
        left_s = self._last_at + self._idle_timeout_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._check_silence)
        else:
            self._fail(_SilentError())
