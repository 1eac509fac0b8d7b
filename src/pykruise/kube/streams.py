"""Answers that do not end, watches and logs: each over a connection of its own.

HttpTransport ──▶ Streams.open() ──▶ a new connection ──▶ API server
                        ◀── Stream: its status, and read() ◀── httptools

What arrives is kept until it is read. Who does not read makes the server wait: above a megabyte nothing more is
taken off the wire.
"""

import asyncio
import ssl
from typing import Final

import httptools

from pykruise.kube.errors import ConnectionLostError, RequestTimeoutError, UnreachableError
from pykruise.kube.wire import (
    BROKEN,
    GOODBYE_S,
    AnswerHeaders,
    Fields,
    Origin,
    RequestWriter,
    Wire,
    dial,
    words_of,
)

__all__ = ["Stream", "Streams"]

_MOST_BYTES: Final = 1 << 20
"""Kept for who reads slowly."""


class Stream(Wire):
    """One answer on its connection; made by `Streams.open`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        super().__init__(loop, tls)
        self.status: asyncio.Future[int] = loop.create_future()
        self._parts: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._is_over = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def headers(self) -> AnswerHeaders:
        """Of the answer, once there is a status."""
        return AnswerHeaders(self._fields)

    def ask(self, request: bytes) -> None:
        """Send the request."""
        assert self._transport is not None
        self._transport.write(request)

    async def read(self) -> bytes:
        """What has arrived since the last time, and something at least; empty: the end.

        Raises what the stream broke of: one of BROKEN, or what was given to `fail`.
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
        """Whoever reads gets this error, after all that has arrived."""
        self._end(error)

    def on_lost(self, error: Exception) -> None:
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._error = error
        if not self.status.done():
            self.status.set_exception(error or ConnectionResetError("there was no answer"))
            self.status.exception()  # whoever waits gets it; that nobody does is nothing to tell
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # ── what the loop calls ──────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(error)
            self.abort()

    def eof_received(self) -> None:
        """A body without a length ends with its connection."""
        if self.status.done() and self.headers.ends_with_connection:
            self._end(None)

    # ── what the parser calls ────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if not self.status.done():  # else it is behind the answer, and nobody's
            self._fields = []

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.status.done():  # an interim answer is followed by the real one
            self.status.set_result(status)

    def on_body(self, part: bytes) -> None:
        if self._is_over:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > _MOST_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self.status.done():
            self._end(None)


class Streams:
    """Opens streams from one server, any number at once. Belongs to the event loop that first uses it."""

    def __init__(self, origin: Origin, *, connect_timeout_s: float) -> None:
        self._origin = origin
        self._connect_timeout_s = connect_timeout_s
        self._requests = RequestWriter(origin)
        self._open: set[Stream] = set()
        self._is_closed = False

    async def open(
        self, path: str, query: str, headers: Fields, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> Stream:
        """GET, until there is a status. `abort()` what comes back when it is not read any more.

        `timeout_s` is for all that happens here. Raises UnreachableError, RequestTimeoutError, ConnectionLostError.
        """
        loop = asyncio.get_running_loop()
        what = f"GET {self._origin.prefix}{path}"
        if self._is_closed:
            raise UnreachableError(f"{what}: the transport is closed")
        target = f"{self._origin.prefix}{path}?{query}" if query else self._origin.prefix + path
        request = self._requests.written("GET", target, headers)
        until = loop.time() + timeout_s
        stream = await self._connect(loop, tls, timeout_s, what)
        stream.ask(request)
        try:
            async with asyncio.timeout_at(until):
                await stream.status
        except TimeoutError as error:
            stream.abort()
            raise RequestTimeoutError(f"{what}: no answer in time") from error
        except BROKEN as error:
            raise ConnectionLostError(f"{what}: the connection broke: {words_of(error)}") from error
        except BaseException:
            stream.abort()
            raise
        return stream

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None, timeout_s: float, what: str
    ) -> Stream:
        stream = await dial(
            loop,
            self._origin,
            tls,
            lambda: Stream(loop, tls),
            timeout_s=min(self._connect_timeout_s, timeout_s),
            what=what,
        )
        if self._is_closed:  # meanwhile
            stream.abort()
            raise UnreachableError(f"{what}: the transport is closed")
        self._open.add(stream)
        stream.lost.add_done_callback(lambda _: self._open.discard(stream))
        return stream

    async def close(self) -> None:
        """End all streams, and refuse new ones."""
        self._is_closed = True
        gone = [stream.lost for stream in self._open]
        for stream in tuple(self._open):
            stream.abort()
        if gone:
            await asyncio.wait(gone, timeout=GOODBYE_S)
