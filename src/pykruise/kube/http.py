"""HTTP to an API server: the `Transport` that leaves this process.

Client ──▶ HttpTransport.request() ──▶ kept connections (exchanges.py)              ──▶ API server
caches ──▶ HttpTransport.stream()  ──▶ one connection for each watch (streams.py)   ──▶ API server
                                   through a proxy, or compressed: both by aiohttp

Requests and streams have pools of their own, so watches never keep a request waiting. Every request carries
what the Connection's credentials say at that moment; after a 401 they are asked for new ones, once. Whatever
goes wrong below comes out as a TransportError, which tells whether the request may have taken effect.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import quote, urlencode
from weakref import WeakSet

import aiohttp
from yarl import URL

from pykruise import __version__
from pykruise.kube.connection import Connection
from pykruise.kube.errors import (
    ConnectionLostError,
    RequestTimeoutError,
    SilentStreamError,
    TransportError,
    UnreachableError,
    error_for,
)
from pykruise.kube.exchanges import Exchanges
from pykruise.kube.streams import Streams
from pykruise.kube.transport import Response
from pykruise.kube.wire import BROKEN, Fields, Origin, words_of

_NO_HEADERS: Mapping[str, str] = {}

_HANG_UP_S = 1.0
"""How long `close()` waits until the event loop has let go of all connections."""

_BROKEN = (aiohttp.ClientError, *BROKEN)
"""What a stream of either client breaks of."""

# What aiohttp raises before a connection stands: nothing of the request was sent.
_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)


class HttpTransport:
    """`Transport` over HTTP. Belongs to the event loop that first uses it; `close()` it there.

    `pool` bounds the connections for requests (more than 32 only queue at the server, measured); streams are
    not bounded. `timeout_s` is for a whole request unless it says otherwise, and for opening a stream;
    `connect_timeout_s` for TCP and TLS. `keepalive_s` stays below the 90 s after which an API server closes
    idle connections. `compress` asks for gzip: for slow networks, on loopback it only costs time.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        pool: int = 32,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        keepalive_s: float = 60.0,
        compress: bool = False,
        user_agent: str = f"pykruise/{__version__}",
    ) -> None:
        self.connection = connection
        self._base = connection.server.rstrip("/")
        self._prefix = URL(self._base, encoded=True).raw_path.rstrip("/")
        self._pool = pool
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._keepalive_s = keepalive_s
        self._default_headers = [("User-Agent", user_agent), *connection.headers]
        self._skipped_headers = () if compress else ("Accept-Encoding",)
        self._timeout = self._timeout_of(timeout_s)
        self._exchanges: Exchanges | None = None
        self._streams: Streams | None = None
        if not (compress or connection.proxy):
            origin = _origin(connection)
            self._exchanges = Exchanges(
                origin, limit=pool, keepalive_s=keepalive_s, connect_timeout_s=connect_timeout_s
            )
            self._streams = Streams(origin, connect_timeout_s=connect_timeout_s)
        self._usual_tls: ssl.SSLContext | None = None
        self._requests_by_proxy: aiohttp.ClientSession | None = None
        self._streams_by_proxy: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._is_closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """See `Transport.request`. A 401 is answered by refreshing credentials and asking once more."""
        credentials = self.connection.credentials
        auth = await credentials.headers()
        answer = await self._request(method, path, query, headers or _NO_HEADERS, auth, body, timeout_s)
        if answer.status != 401 or not await credentials.refresh(rejected=auth):
            return answer
        auth = await credentials.headers()
        return await self._request(method, path, query, headers or _NO_HEADERS, auth, body, timeout_s)

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`. Lines may be of any length."""
        return self._stream(path, query, headers or _NO_HEADERS, idle_timeout_s)

    async def close(self) -> None:
        """Close all connections; requests under way fail, and new ones are refused."""
        self._is_closed = True
        if self._exchanges is not None:
            await self._exchanges.close()
        if self._streams is not None:
            await self._streams.close()
        for session in (self._requests_by_proxy, self._streams_by_proxy):
            if session is not None:
                await session.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        """End connections whose TLS still says goodbye, which a server may take half a minute to answer.

        Those that were given up in mid-request or mid-stream are among them: aiohttp has forgotten them by now.
        """
        for each in self._sockets:
            with suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANG_UP_S):
                while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)

    # ── one exchange ─────────────────────────────────────────────────────────

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        auth: Mapping[str, str],
        body: bytes | None,
        timeout_s: float | None,
    ) -> Response:
        if self._exchanges is None:
            url = self._url(path, query)
            timeout = self._timeout if timeout_s is None else self._timeout_of(timeout_s)
            return await self._request_by_proxy(method, url, {**headers, **auth}, body, timeout)
        return await self._exchanges.send(
            method,
            path,
            _query(query) if query else "",
            self._all_headers(headers, auth),
            body,
            tls=self._tls(),
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
        )

    def _all_headers(self, headers: Mapping[str, str], auth: Mapping[str, str]) -> Fields:
        """Those of the request win over the usual User-Agent."""
        is_named = any(name.lower() == "user-agent" for name in headers)
        usual = self._default_headers[1:] if is_named else self._default_headers
        return (*usual, *headers.items(), *auth.items())

    def _tls(self) -> ssl.SSLContext | None:
        """The context to use now; None: plain HTTP."""
        if not self._base.startswith("https:"):
            return None
        found = self.connection.credentials.tls or self.connection.ssl_context
        if found is None:
            found = self._usual_tls = self._usual_tls or ssl.create_default_context()
        return found

    async def _request_by_proxy(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> Response:
        if self._requests_by_proxy is None:
            self._requests_by_proxy = self._session(limit=self._pool)
        try:
            answer = await self._send(self._requests_by_proxy, method, url, headers, timeout, body)
            async with answer:
                data = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as err:
            raise _transport_error(method, url, err) from err
        return Response(answer.status, _lower(answer), data)

    # ── one stream ───────────────────────────────────────────────────────────

    @asynccontextmanager
    async def _stream(
        self,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        idle_timeout_s: float | None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        credentials = self.connection.credentials
        auth = await credentials.headers()
        answer = await self._open(path, query, headers, auth)
        try:
            if answer.status == 401 and await credentials.refresh(rejected=auth):
                answer.end()
                answer = await self._open(path, query, headers, await credentials.headers())
            what = f"GET {self._prefix}{path}"
            if answer.status != 200:
                body = await self._read_refusal(what, answer)
                raise error_for(answer.status, body, answer.headers)
            async with aclosing(_lines(what, answer, idle_timeout_s)) as lines:
                yield lines
        finally:
            answer.end()  # in mid-stream this closes the connection, which is what ends a watch

    async def _open(
        self,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        auth: Mapping[str, str],
    ) -> "_Opened":
        if self._streams is None:
            return await self._open_by_proxy(self._url(path, query), {**headers, **auth})
        stream = await self._streams.open(
            path,
            _query(query) if query else "",
            self._all_headers(headers, auth),
            tls=self._tls(),
            timeout_s=self._timeout_s,
        )
        return _Opened(stream.status.result(), stream.headers, stream.read, stream.fail, stream.abort)

    async def _open_by_proxy(self, url: URL, headers: Mapping[str, str]) -> "_Opened":
        if self._streams_by_proxy is None:
            self._streams_by_proxy = self._session(limit=0)
        timeout = aiohttp.ClientTimeout(sock_connect=self._connect_timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._send(self._streams_by_proxy, "GET", url, headers, timeout, None)
        except (aiohttp.ClientError, OSError, TimeoutError) as err:
            raise _transport_error("GET", url, err) from err
        content = answer.content
        return _Opened(answer.status, _lower(answer), content.readany, content.set_exception, answer.close)

    async def _read_refusal(self, what: str, answer: "_Opened") -> bytes:
        parts = []
        try:
            async with asyncio.timeout(self._timeout_s):
                while part := await answer.read():
                    parts.append(part)
        except TimeoutError as err:
            raise RequestTimeoutError(f"{what}: no answer in time") from err
        except _BROKEN as err:
            raise _lost(what, err) from err
        return b"".join(parts)

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        connection = self.connection
        if self._is_closed:
            raise UnreachableError(f"{method} {url.path}: the transport is closed")
        return await session.request(
            method,
            url,
            data=body,
            headers=headers,
            timeout=timeout,
            # A new context after a change of client certificate makes aiohttp open new connections.
            ssl=connection.credentials.tls or connection.ssl_context or True,
            server_hostname=connection.server_name or None,
            proxy=connection.proxy or None,
            allow_redirects=False,  # an API server has nowhere to send us, least of all with credentials
        )

    def _session(self, *, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit, keepalive_timeout=self._keepalive_s, socket_factory=self._new_socket
            ),
            headers=self._default_headers,
            skip_auto_headers=self._skipped_headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_no_hidden_repetition,),
            trust_env=False,  # proxies come with the Connection; ~/.netrc is none of our business
        )

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        new = socket.socket(family, kind, protocol)
        self._sockets.add(new)
        return new

    def _timeout_of(self, seconds: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=seconds, sock_connect=self._connect_timeout_s)

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        text = f"{self._base}{path}?{_query(query)}" if query else self._base + path
        return URL(text, encoded=True)


def _query(query: Mapping[str, str]) -> str:
    return urlencode(query, quote_via=quote)


def _origin(connection: Connection) -> Origin:
    url = URL(connection.server.rstrip("/"), encoded=True)
    host = url.host or ""
    is_usual = url.is_default_port() or url.port is None
    shown = f"[{host}]" if ":" in host else host
    is_tls = url.scheme == "https"
    return Origin(
        is_tls=is_tls,
        host=host,
        port=url.port or (443 if is_tls else 80),
        prefix=url.raw_path.rstrip("/"),
        authority=shown if is_usual else f"{shown}:{url.port}",
        name=connection.server_name or host,
    )


async def _no_hidden_repetition(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """aiohttp repeats PUT and DELETE by itself when a connection breaks, also when the first took effect.

    What may be repeated is the Client's decision, so the error leaves aiohttp in a type it does not repeat.
    """
    try:
        return await handler(request)
    except _NOT_CONNECTED:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as err:
        raise _lost(f"{request.method} {request.url.path}", err) from err


class _Opened(NamedTuple):
    """A stream of either client."""

    status: int
    headers: Mapping[str, str]
    read: Callable[[], Awaitable[bytes]]
    """What has arrived, and something at least; empty: the end."""
    fail: Callable[[Exception], None]
    """Have who reads get this error."""
    end: Callable[[], None]
    """End it, and its connection unless all of it was read."""


class _SilentError(Exception):
    """Nothing arrived for too long."""


async def _lines(what: str, answer: _Opened, idle_timeout_s: float | None) -> AsyncGenerator[bytes, None]:
    """The lines of a body, without line ends; empty ones are skipped.

    Of any length: objects reach 1.5 MB and more. The parts of a long line are joined once.
    """
    begun: list[bytes] = []
    watchman = _Watchman(answer.fail, idle_timeout_s)
    read = answer.read
    try:
        while chunk := await read():
            watchman.has_heard()
            lines = chunk.split(b"\n")
            begun.append(lines[0])
            if len(lines) == 1:
                continue
            lines[0] = begun[0] if len(begun) == 1 else b"".join(begun)
            last = lines.pop()
            begun = [last] if last else []
            for line in lines:
                if line:
                    yield line
    except _SilentError as err:
        raise SilentStreamError(f"{what}: nothing arrived for {idle_timeout_s:g} s") from err
    except _BROKEN as err:
        raise _lost(what, err) from err
    finally:
        watchman.go()
    if rest := b"".join(begun):
        yield rest


class _Watchman:
    """Ends a stream that is silent for `idle_timeout_s` (None: never), with one timer a silence: one for every
    packet would be a fiftieth of all that a busy manager does."""

    def __init__(self, fail: Callable[[Exception], None], idle_timeout_s: float | None) -> None:
        self._fail = fail
        self._idle_timeout_s = idle_timeout_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.has_heard()
        self._look()

    def has_heard(self) -> None:
        """Something has come."""
        self._heard_at = self._loop.time()

    def go(self) -> None:
        """Nobody reads any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._idle_timeout_s is None:
            return
        left_s = self._heard_at + self._idle_timeout_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self._fail(_SilentError())


def _transport_error(method: str, url: URL, err: Exception) -> TransportError:
    if isinstance(err, _NOT_CONNECTED):
        return UnreachableError(f"{method} {url.path}: cannot connect to {url.origin()}: {words_of(err)}")
    if isinstance(err, TimeoutError):
        return RequestTimeoutError(f"{method} {url.path}: no answer in time")
    return _lost(f"{method} {url.path}", err)


def _lost(what: str, err: Exception) -> ConnectionLostError:
    return ConnectionLostError(f"{what}: the connection broke: {words_of(err)}")


def _lower(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Header names in lower case; a header that comes several times (Warning does) is joined."""
    found: dict[str, str] = {}
    for name, value in answer.headers.items():
        name = name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
