"""A connection of an HTTP/1.1 server: its requests are parsed, counted and answered sequentially.

    bytes ──▶ httptools (the parser of Node.js) ──▶ head ──▶ App.admit(): an error, or continue
                                               └──▶ Request ──▶ App.answer(): a Response, a Streamed or
                                                            an Upgraded
    Response, Streamed, Upgraded ──▶ wire.py ──▶ bytes

Each connection has one task, which answers its requests sequentially. The task ends with the connection: otherwise a
watch whose client has disconnected would stay until the next event.

One step of the loop does a limited amount of work for one connection, whatever the content of a packet. Parsing stops
after the first whole message and after 4 KiB of heads and chunks; the remaining bytes wait. The rest of a body with a
known length is read in one step, which copies and parses nothing. Only one request that a client sends in advance is
parsed. Connections with more bytes wait in `Turns`, which lets two of them continue in one iteration of the loop;
addresses take turns. The task answers one request in a step.

Every limit has a defined outcome. The App builds every error response (`REFUSAL_CODES`):

    400     the data is not HTTP
    408     a request is not complete in time, or arrives too slowly
    413     a body is too large
    417     the header Expect is not 100-continue
    429     too many requests are being answered, or too many bytes of bodies are in memory
    431     a head is too large
    501     the transfer coding is not chunked, or the method is CONNECT
    505     the version is not HTTP/1.0 or HTTP/1.1
    closed  a connection whose client does not read, an unused one, and an idle one beyond the limit of connections

A request is counted when its body has arrived. So a client that sends incomplete requests blocks no other client. Its
bodies use memory, but each address has only its share of that memory, and the oldest incomplete body is rejected first.

After a response that is sent before the end of its request, the server reads and drops the rest of the request for a
moment: an immediate close would also drop the response.

After an `Upgraded` the connection is used for another protocol until it closes. Its data is read in the same small
steps.
"""

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

import httptools

from pykruise.kube.client.transport import Response
from pykruise.kube.http.app import App, HttpLimits, StreamCutError, Streamed, Upgraded
from pykruise.kube.http.fairness import ServerRoom
from pykruise.kube.http.heads import CONTINUE, HEAD_END, LAST_CHUNK, LINE_END, chunk_of
from pykruise.kube.http.turns import Turns
from pykruise.kube.http.wire import HeadWriter, WireRequest, split_target

__all__ = ["RECEIVE", "REFUSAL_CODES", "ServerConnection", "ServerState"]

_LOG: Final = logging.getLogger(__name__)

_HANDSHAKE_S: Final = 10.0
_GOODBYE_S: Final = 2.0
"""Seconds for a client to respond to the end of a TLS session."""
_UNSENT: Final = 64 * 1024
"""A body with more bytes is written separately from its head, so that it is not copied."""
_MOST_IGNORED: Final = 256 * 1024
"""Maximum number of bytes that are still read and dropped after an early response."""
_PART: Final = 32 * 1024
"""Bytes of an incomplete body after which other connections get a turn."""
_PARTS: Final = 2
"""Number of incomplete bodies that are read in one iteration of the loop: TLS delivers up to half a megabyte of each.
"""
_STEP: Final = 4 * 1024
"""Bytes of heads and chunks that one step parses: a header may have only four bytes, and a chunk six bytes."""
_UPGRADED_STEP: Final = 1024
"""Bytes that one step passes to a protocol that has replaced HTTP: a frame of six bytes may need a response."""
_MOST_FIELDS: Final = 256
"""Maximum number of parameters of a query."""
_SINGLE: Final = frozenset({"host", "content-length", "transfer-encoding"})
"""Headers that must not repeat: a proxy on the way could use the other value, and so read another request."""
REFUSAL_CODES: Final = (400, 408, 413, 417, 429, 431, 500, 501, 505)
"""Codes for which a connection calls `App.failed`."""
RECEIVE: Final = 64 * 1024
"""Receive buffer of a connection that is not being read, in the kernel and in TLS each: hundreds of connections may
exist.
"""


class _Turn(NamedTuple):
    """A request to answer, or the error response to data that is not a valid request."""

    request: WireRequest
    refusal: Response | None
    stays: bool
    """Whether the connection serves another request afterwards."""


class _UnreadError(Exception):
    """The client does not read the response."""


class ServerState:
    """State that all connections of a server share."""

    def __init__(self, app: App, limits: HttpLimits) -> None:
        self.app = app
        self.limits = limits
        self.heads = HeadWriter()
        self.is_stopping = self.is_retiring = False
        self.connections: dict[ServerConnection, None] = {}
        """Connections that have finished their TLS handshake."""
        self.room: ServerRoom[ServerConnection] = ServerRoom(
            connections=limits.connections,
            requests=limits.requests,
            size=limits.bodies,
            share=limits.share,
        )
        self.parts: Turns[ServerConnection] = Turns(each=_PARTS, serve=ServerConnection.read_on)
        """Connections that wait for the next part of their body to be read."""


class ServerConnection(asyncio.Protocol):
    """A connection of a client to a server: reads requests and writes the responses in their order."""

    def __init__(self, server: ServerState, sock: socket.socket, peer: str) -> None:
        self._server = server
        self._sock = sock
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._limits = server.limits
        self._app = server.app
        self._room = server.room
        self._parser: Any = None
        self._transport: asyncio.Transport | None = None
        self._is_verified = False
        """Whether the client has presented an accepted certificate."""
        self.task: asyncio.Task[None] | None = None
        # State of the message that is being read.
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""
        self._body_begun: float | None = None
        self._request: WireRequest | None = None
        """The request whose body is arriving."""
        self._refusal: Response | None = None
        self._is_begun = False
        self._is_deaf = False
        """Whether arriving data is dropped."""
        self._owes_continue = False
        self._arrived = 0
        """Number of bytes that have arrived of the head, or of the body as it was sent."""
        self._head_size = 0
        self._stays = True
        self._line = bytearray()
        """The request line as it was sent, and some bytes after it."""
        self._has_line = False
        self._is_repeated = False
        """Whether a header that must not repeat was sent twice."""
        self._body_left = 0
        """Remaining bytes of a body with a known length."""
        self._tail = b""
        """The last parsed bytes of a head or of chunks."""
        self._is_between = True
        """Whether the next byte begins a message."""
        self._rest: bytes = b""
        """Bytes that have arrived; those from `_at` on are not parsed yet."""
        self._at = 0
        self._messages = 0
        """Number of parsed messages."""
        # State of the requests that are being answered.
        self._turns: deque[_Turn] = deque()
        self._next_turn: asyncio.Future[None] | None = None
        self._is_reading_paused = False
        self._is_in_line = False
        """Whether the connection waits in `ServerState.parts`."""
        self._is_writing_paused = False
        self._upgraded: Upgraded | None = None
        """The protocol that has replaced HTTP on this connection."""
        self._drained: asyncio.Future[None] | None = None
        self._since, self._made = 0.0, self._loop.time()
        self._is_opening = False
        """Whether `open` has been called."""
        self._is_silent = True
        """Whether the client has not sent a whole head yet."""
        self._is_lost = False

    async def open(self, tls: ssl.SSLContext | None) -> None:
        """Perform the handshake. A client that does not complete it is disconnected."""
        self._is_opening = True
        try:
            await self._loop.connect_accepted_socket(
                lambda: self,
                self._sock,
                ssl=tls,
                ssl_handshake_timeout=min(_HANDSHAKE_S, self._limits.first_s) if tls is not None else None,
                ssl_shutdown_timeout=_GOODBYE_S if tls is not None else None,
            )
        except OSError as error:
            _LOG.debug("a TLS handshake failed: %s", error)
        finally:
            if self._transport is None:  # the loop has closed the socket
                self._is_deaf = self._is_lost = True
                self._room.leave(self)

    # --- called by the loop -----------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._server.is_stopping or self._is_deaf:  # the handshake has ended only now
            self._is_deaf = True
            self._transport.abort()
            return
        self._is_verified = bool(transport.get_extra_info("peercert"))
        if (
            limit := getattr(transport, "set_read_buffer_limits", None)
        ) is not None:  # only TLS transports have this method
            limit(high=RECEIVE)
        self._parser = httptools.HttpRequestParser(self)
        self._since = self._loop.time()
        self.task = self._loop.create_task(self._serve_requests(self._transport))
        self._server.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_deaf = self._is_lost = True
        self._server.connections.pop(self, None)
        self._room.leave(self)
        if self.task is not None:
            self.task.cancel()
        self._rest, self._at = b"", 0
        # These attributes refer back to the connection: the memory of TLS and the body would stay until the next
        # garbage collection.
        self._parser = self._transport = self._drained = self._upgraded = None
        self._turns.clear()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf and self._upgraded is None:
            self._throw_away(len(data))
            return
        if self._at < len(self._rest):
            self._rest = self._rest[self._at :] + data
        else:
            self._rest = data
        self._at = 0
        if self._is_in_line or self._turns:
            self._pause_reading()  # TLS may deliver data that it held when reading was paused
        elif self._upgraded is not None:
            self._pass_upgraded_bytes(self._upgraded)
        else:
            self._parse_step()

    def _throw_away(self, size: int) -> None:
        self._arrived += size
        if self._arrived > _MOST_IGNORED:
            self._pause_reading()

    def _parse_step(self) -> None:
        """Parse to the end of the current message, but not more than one step may parse. The remaining bytes wait."""
        data, begun, messages = self._rest, self._at, self._messages
        while self._at < len(data) and self._at - begun < _STEP and messages == self._messages:
            self._parse_piece(data)
            if self._is_deaf:
                self._drop_rest()
                return
        if self._at < len(data):
            self._pause_reading()
        else:
            self._rest, self._at = b"", 0
        if self._turns and self._next_turn is None:
            self._pause_reading()  # a request is kept: reading continues when the task has taken it
        elif self._at < len(data) or (self._is_begun and len(data) >= _PART):
            self._wait_for_turn()

    def _pass_upgraded_bytes(self, upgraded: Upgraded) -> None:
        """Pass the next bytes to the protocol that has replaced HTTP. The remaining bytes wait."""
        begin, self._at = self._at, min(len(self._rest), self._at + _UPGRADED_STEP)
        answer = upgraded.receive(self._rest[begin : self._at])
        if answer and self._transport is not None and not self._is_writing_paused:
            self._transport.write(answer)
        if upgraded.is_ended:
            self._upgraded, self._rest, self._at = None, b"", 0
            self.close()
        elif self._at < len(self._rest):
            self._wait_for_turn()
        else:
            self._rest, self._at = b"", 0
            self._resume_reading()

    def _parse_piece(self, data: bytes) -> None:
        """Parse a piece of the data, which never extends beyond the current message."""
        if self._is_between:
            if data[self._at] in LINE_END:  # servers ignore empty lines before a request
                self._at = len(data) - len(data[self._at :].lstrip(LINE_END))
            if self._at >= len(data):
                return
            self._is_between = False
        begin, end = self._at, self._end_of_piece(data)
        if self._body_left:
            self._body_left -= end - begin
        else:
            self._tail = (self._tail + data[max(begin, end - 3) : end])[-3:]
            if not self._has_line:
                self._line += data[begin:end]
                self._has_line = LINE_END in self._line
        self._at = end
        self._arrived += end - begin
        try:
            self._parser.feed_data(memoryview(data)[begin:end])
        except httptools.HttpParserUpgrade:
            self._is_deaf = True  # the App answers as if the request did not ask for another protocol
        except httptools.HttpParserError:
            self._refuse(400)
        if not self._is_begun:
            return
        if self._request is None and self._arrived > self._limits.head:
            self._refuse(431)
        elif self._request is not None and self._arrived > 2 * self._request.most_body + self._limits.head:
            self._refuse(413)  # the chunks are tiny, or have long extensions

    def _end_of_piece(self, data: bytes) -> int:
        """Return the end of the next piece: the end of a body with a known length, else a place where a message may
        end.
        """
        if self._body_left:
            return min(len(data), self._at + self._body_left)
        most = min(len(data), self._at + _STEP)
        # A chunked body ends with an empty line too.
        across = (self._tail + data[self._at : self._at + 3]).find(HEAD_END)
        if across >= 0:
            return min(most, self._at + across + len(HEAD_END) - len(self._tail))
        number = data.find(HEAD_END, self._at, most)
        return most if number < 0 else number + len(HEAD_END)

    def _drop_rest(self) -> None:
        """Drop the remaining data, and all data that still arrives."""
        left, self._rest, self._at = len(self._rest) - self._at, b"", 0
        if not self._is_in_line:
            self._resume_reading()
        self._throw_away(left)

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _wait_for_turn(self) -> None:
        """Pause reading until it is this connection's turn again."""
        if self._transport is not None and not self._is_in_line:
            self._pause_reading()
            self._is_in_line = True
            self._server.parts.add(self._peer, self)

    def read_on(self) -> bool:
        """Continue reading in this connection's turn. Returns whether there was something to do."""
        self._is_in_line = False
        if self._transport is None or (self._turns and not self._is_deaf):
            return False  # a request is kept: reading continues when the task has taken it
        if self._upgraded is not None and self._at < len(self._rest):
            self._pass_upgraded_bytes(self._upgraded)
        elif self._is_deaf and self._upgraded is None:
            self._drop_rest()
        elif self._at < len(self._rest):
            self._parse_step()
        else:
            self._resume_reading()
        return True

    def _continue_reading(self) -> None:
        """Continue with the next data, because no request is kept any more."""
        if self._is_deaf or self._is_in_line:
            return
        if self._at < len(self._rest):
            self._wait_for_turn()
        else:
            self._resume_reading()

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # --- called by the parser -----------------------------------------

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body = b"", {}, b""
        self._request = self._refusal = None
        self._head_size = self._body_left = 0
        self._is_begun = True
        self._is_repeated = False
        if not self._turns and self._next_turn is not None:
            self._since = self._loop.time()

    def on_url(self, part: bytes) -> None:
        self._target += part
        self._head_size += len(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._request is not None:
            return  # a header after a body (a trailer) is not used
        self._head_size += len(name) + len(value)
        key = self._server.heads.name_of(name)
        text = value.decode("utf-8", "replace")
        if key not in self._headers:
            self._headers[key] = text
        elif key.startswith("impersonate-"):
            self._headers[key] += f"\n{text}"  # these may be repeated; other headers keep their first value
        elif key in _SINGLE:
            self._is_repeated = True

    def on_headers_complete(self) -> None:
        self._arrived = 0
        is_long = self._target.count(b"&") > _MOST_FIELDS
        path, query = split_target(b"" if is_long else self._target)
        request = WireRequest(self._parser.get_method().decode("ascii"), path, query, self._headers)
        request.target = self._target
        request.most_body = self._limits.body
        request.is_verified, request.peer = self._is_verified, self._peer
        self._request = request
        self._is_silent = False
        self._stays = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        length = self._headers.get("content-length", "0")
        expected = self._headers.get("expect")
        if is_long or self._head_size > self._limits.head:
            self._refuse(431)
            return
        if code := self._check_head():
            self._refuse(code)
            return
        self._refusal = self._app.admit(request)
        if length == "0" and "transfer-encoding" not in self._headers:
            return
        if self._refusal is not None:
            self._end_reading(_Turn(request, self._refusal, stays=False))
        elif len(length) > 19 or int(length) > request.most_body:
            self._refuse(413)
        else:
            self._body_left = int(length)
            if expected is None:
                self._body_begun = self._loop.time()
            else:
                self._owes_continue = True
                if self._next_turn is not None and not self._turns:
                    self._ask_to_continue()

    def _check_head(self) -> int:
        """Return the status with which this head is rejected; 0: it is valid. The parser accepts more than RFC 9112."""
        method, version = self._parser.get_method(), self._parser.get_http_version()
        line = b"%b %b HTTP/%b" % (method, self._target, version.encode())
        if not self._line.startswith(line + LINE_END):
            return 400
        if version not in ("1.0", "1.1"):
            return 505
        if self._is_repeated or ("host" not in self._headers and version == "1.1"):
            return 400
        coding = self._headers.get("transfer-encoding")
        if coding is not None and version == "1.0":
            return 400
        if method == b"CONNECT" or (coding is not None and coding.lower() != "chunked"):
            return 501
        expected = self._headers.get("expect")
        return 417 if expected is not None and expected.lower() != "100-continue" else 0

    def on_body(self, part: bytes) -> None:
        request = self._request
        if self._is_deaf or request is None:
            return
        size = len(part)
        if request.held + size > request.most_body:
            self._refuse(413)
        elif not self._room.hold(self, size, evict=ServerConnection.give_up):
            self._refuse(429)
        else:
            request.held += size
            if not self._body:
                self._body = part  # most bodies arrive in one part
                return
            if isinstance(self._body, bytes):
                # A list of tiny parts would take many times their memory.
                self._body = bytearray(self._body)
            self._body += part

    def on_message_complete(self) -> None:
        request = self._request
        if self._is_deaf or request is None:
            return
        self._is_begun = self._owes_continue = self._has_line = False
        self._is_between = True
        self._line.clear()
        self._messages += 1
        self._tail, self._body_left = b"", 0
        self._arrived, self._body_begun = 0, None
        request.body, self._body = bytes(self._body), b""
        self._room.use(self)
        if self._refusal is None and request.is_counted:
            request.is_placed = self._room.begin(self)
            if not request.is_placed:
                self._refusal = self._app.failed(429, request)
        self._add_turn(_Turn(request, self._refusal, self._stays and not self._server.is_retiring))

    # --- requests ----------------------------------------

    def _refuse(self, code: int) -> None:
        """Respond with an error after the earlier requests, and read no more."""
        if not self._is_deaf:
            request = self._request or WireRequest("GET", "", {}, {})
            self._end_reading(_Turn(request, self._app.failed(code, request), stays=False))

    def _end_reading(self, turn: _Turn) -> None:
        self._is_deaf, self._arrived = True, 0
        self._room.release(self, turn.request.held)
        turn.request.held, self._body, self._body_begun = 0, b"", None
        self._add_turn(turn)

    def _add_turn(self, turn: _Turn) -> None:
        self._turns.append(turn)
        if self._next_turn is not None and not self._next_turn.done():
            self._next_turn.set_result(None)

    async def _take_turn(self) -> _Turn:
        if self._turns:
            await asyncio.sleep(0)  # the previous response may have used up a step
        else:
            if self._owes_continue:
                self._ask_to_continue()
            self._since = self._loop.time()
            self._next_turn = self._loop.create_future()
            try:
                await self._next_turn
            finally:
                self._next_turn = None
        turn = self._turns.popleft()
        if not self._turns:
            self._continue_reading()
        return turn

    def _ask_to_continue(self) -> None:
        self._owes_continue = False
        self._body_begun = self._loop.time()
        if self._transport is not None:
            self._transport.write(CONTINUE)

    @property
    def transport(self) -> asyncio.Transport | None:
        """Transport of the connection; None before the connection is made."""
        return self._transport

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, or waits to be answered."""
        is_over = self.task is None or self.task.done()
        return not is_over and (self._next_turn is None or bool(self._turns))

    @property
    def body_begun(self) -> float | None:
        """Time at which the arriving body began, in the loop's seconds; None: no body is arriving."""
        return None if self._is_deaf else self._body_begun

    def _is_too_slow(self, now: float) -> bool:
        """Whether the body arrives more slowly than the minimum rate."""
        rate, request = self._limits.least_rate, self._request
        if self._body_begun is None or request is None or not rate:
            return False
        return now > self._body_begun + self._limits.grace_s + request.held / rate

    def give_up(self) -> None:
        """Reject the arriving body, because its memory is needed."""
        self._refuse(429)

    def check(self, now: float) -> None:
        """Close the connection or reject its request when a time limit has passed."""
        if self._transport is None:
            if now - self._made > self._limits.first_s:
                self.abort()
        elif self.is_busy:
            return
        elif self._is_begun and not self._is_deaf:
            if self._is_silent and now - self._since > self._limits.first_s:
                self.abort()
            elif now - self._since > self._limits.read_s or self._is_too_slow(now):
                self._refuse(408)
        elif now - self._since > self._limits.idle_s and not self._has_unread_data():
            self.close()

    def _has_unread_data(self) -> bool:
        """Whether the kernel has received data that the loop has not read yet, which may be a request."""
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> None:
        """Close the connection after all written data has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._is_deaf = True
        if self._transport is not None:
            self._transport.abort()
        elif self._is_opening:  # the loop owns the socket, and closes it
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        elif not self._is_lost:
            self._is_lost = True
            self._room.leave(self)
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def wait_for_hello(self, then: Callable[["ServerConnection"], None]) -> None:
        """Call `then` when the client sends data, so that a silent client causes no handshake."""
        self._loop.add_reader(self._sock.fileno(), self._on_hello, then)

    def _on_hello(self, then: Callable[["ServerConnection"], None]) -> None:
        self._loop.remove_reader(self._sock.fileno())
        then(self)

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._is_lost

    # --- answers ----------------------------------------

    async def _serve_requests(self, transport: asyncio.Transport) -> None:
        try:
            stays = True
            while stays:
                turn = await self._take_turn()
                stays = turn.stays
                try:
                    await self._send_answer(transport, turn)
                finally:
                    self._release_request(turn.request)
            if self._is_deaf:
                await asyncio.sleep(self._limits.linger_s)
            transport.close()
        except (_UnreadError, StreamCutError):
            transport.abort()
        except asyncio.CancelledError:
            if self._is_lost:  # TLS has nothing left to abort, and a traceback would keep all this in memory
                return
            transport.abort()  # the server stops
            raise
        except Exception:
            _LOG.exception("a connection failed")
            transport.abort()

    def _release_request(self, request: WireRequest) -> None:
        """Release the room that a request took."""
        if request.is_placed:
            self._room.end(self)
        self._room.release(self, request.held)

    async def _send_answer(self, transport: asyncio.Transport, turn: _Turn) -> None:
        request = turn.request
        answer: Response | Streamed | Upgraded | None = turn.refusal
        if answer is None:
            try:
                answer = await self._app.answer(request)
            except Exception:
                _LOG.exception("%s %s failed", request.method, request.path)
                answer = self._app.failed(500, request)
        if isinstance(answer, Upgraded):
            await self._send_upgraded(transport, request, answer)
            return
        if not isinstance(answer, Response):
            await self._send_stream(transport, turn, answer)
            return
        head, body = self._server.heads.head_of(answer, stays=turn.stays), answer.body
        if request.method == "HEAD" or answer.status == 204:
            transport.write(head)
        elif len(body) < _UNSENT:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        await self._wait_until_read(request, self._limits.answer_s)

    async def _send_stream(self, transport: asyncio.Transport, turn: _Turn, answer: Streamed) -> None:
        request, limit_s = turn.request, self._limits.send_s
        # A client with HTTP/1.0 recognizes the end of a response by the end of the connection.
        is_chunked = self._parser.get_http_version() != "1.0"
        try:
            head = self._server.heads.head_of_stream(
                answer.content_type, chunked=is_chunked, headers=answer.headers
            )
            transport.write(head)
            while part := await answer.chunk():
                transport.write(chunk_of(part) if is_chunked else part)
                await self._wait_until_read(request, limit_s)
            if is_chunked:
                transport.write(LAST_CHUNK)
        finally:
            await answer.aclose()

    async def _send_upgraded(
        self, transport: asyncio.Transport, request: WireRequest, answer: Upgraded
    ) -> None:
        self._is_deaf, self._upgraded = True, answer
        try:
            transport.write(self._server.heads.head_of_upgrade(answer.headers))
            while part := await answer.chunk():
                transport.write(part)
                await self._wait_until_read(request, self._limits.send_s)
        finally:
            self._upgraded = None
            await answer.aclose()

    async def _wait_until_read(self, request: WireRequest, limit_s: float) -> None:
        """Wait until the client has read most of the written data. Raises _UnreadError when it does not."""
        if not self._is_writing_paused:
            return
        self._drained = self._loop.create_future()
        try:
            async with asyncio.timeout(limit_s):
                await self._drained
        except TimeoutError:
            _LOG.info(
                "the response to %s %s is cut off: the client read nothing for %g s",
                request.method,
                request.path,
                limit_s,
            )
            raise _UnreadError from None
        finally:
            self._drained = None
