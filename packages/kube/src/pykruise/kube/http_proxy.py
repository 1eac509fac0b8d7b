"""Requests and streams through a proxy, or compressed: by aiohttp, which knows both.

HttpTransport ──▶ AiohttpClient.send(), .open() ──▶ aiohttp ──▶ proxy ──▶ API server

The same two seams as http_client.py and http_stream.py, which are several times as fast and know neither.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakSet

import aiohttp
from yarl import URL

from pykruise.kube.errors import (
    AnswerTooLargeError,
    ConnectionLostError,
    RequestTimeoutError,
    TransportError,
    UnreachableError,
)
from pykruise.kube.http_connection import (
    GOODBYE_S,
    MOST_BODY,
    Fields,
    Origin,
    TooLargeError,
    target_of,
    text_of,
)
from pykruise.kube.http_stream import OpenStream
from pykruise.kube.transport import Request, Response

__all__ = ["AiohttpClient"]

# What aiohttp raises before a connection stands: nothing of the request was sent.
_NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)


class AiohttpClient:
    """At most `limit` connections to one server for requests, and one for each stream.

    `proxy`: its URL; empty: none. Belongs to the event loop that first uses it.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        proxy: str,
        compress: bool,
        limit: int,
        keepalive_s: float,
        connect_timeout_s: float,
    ) -> None:
        self._origin = origin
        self._proxy = proxy
        self._skipped_headers = () if compress else ("Accept-Encoding",)
        self._limit = limit
        self._keepalive_s = keepalive_s
        self._connect_timeout_s = connect_timeout_s
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._is_closed = False

    async def send(
        self, request: Request, headers: Fields, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> Response:
        """See `HttpClient.send`."""
        if self._requests is None:
            self._requests = self._session(limit=self._limit)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=self._connect_timeout_s)
        url = self._url(request)
        try:
            answer = await self._send(self._requests, request, url, headers, tls, timeout)
            async with answer:
                data = await _read(answer, f"{request.method} {url.path}")
        except (aiohttp.ClientError, OSError, TimeoutError) as err:
            raise _transport_error(request, url, err) from err
        return Response(answer.status, _lower(answer), data)

    async def open(
        self, request: Request, headers: Fields, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> OpenStream:
        """See `Streams.open`."""
        if self._streams is None:
            self._streams = self._session(limit=0)
        timeout = aiohttp.ClientTimeout(sock_connect=self._connect_timeout_s)
        url = self._url(request)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._send(self._streams, request, url, headers, tls, timeout)
        except (aiohttp.ClientError, OSError, TimeoutError) as err:
            raise _transport_error(request, url, err) from err
        return _AiohttpStream(answer)

    async def close(self) -> None:
        """Close all connections; requests under way fail, and new ones are refused."""
        self._is_closed = True
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        # TLS may still say goodbye, which a server may take half a minute to answer. Connections that were given up
        # in mid-request or mid-stream are among them: aiohttp has forgotten them by now.
        for each in self._sockets:
            with suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_S):
                while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.001)

    async def _send(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        url: URL,
        headers: Fields,
        tls: ssl.SSLContext | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if self._is_closed:
            raise UnreachableError(f"{request.method} {url.path}: the transport is closed")
        return await session.request(
            request.method,
            url,
            data=request.body,
            headers=headers,
            timeout=timeout,
            # A new context after a change of client certificate makes aiohttp open new connections.
            ssl=tls or True,
            server_hostname=self._origin.name if self._origin.name != self._origin.host else None,
            proxy=self._proxy or None,
            allow_redirects=False,  # an API server has nowhere to send us, least of all with credentials
        )

    def _session(self, *, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit, keepalive_timeout=self._keepalive_s, socket_factory=self._new_socket
            ),
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

    def _url(self, request: Request) -> URL:
        return URL(f"{self._origin}{target_of(self._origin, request)}", encoded=True)


async def _read(answer: aiohttp.ClientResponse, what: str) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > MOST_BODY:
            answer.close()
            raise AnswerTooLargeError(f"{what}: {TooLargeError('the body', MOST_BODY)}")
        parts.append(part)
    return b"".join(parts)


class _AiohttpStream:
    """An `OpenStream` of aiohttp."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.code = answer.status
        self.headers: Mapping[str, str] = _lower(answer)
        self._answer = answer

    async def read(self) -> bytes:
        """See `OpenStream.read`."""
        try:
            return await self._answer.content.readany()
        except aiohttp.ClientError as err:
            raise ConnectionResetError(text_of(err)) from err

    def fail(self, error: Exception) -> None:
        """See `OpenStream.fail`."""
        self._answer.content.set_exception(error)

    def abort(self) -> None:
        """See `OpenStream.abort`."""
        self._answer.close()


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


def _transport_error(request: Request, url: URL, err: Exception) -> TransportError:
    what = f"{request.method} {url.path}"
    if isinstance(err, _NOT_CONNECTED):
        return UnreachableError(f"{what}: cannot connect to {url.origin()}: {text_of(err)}")
    if isinstance(err, TimeoutError):
        return RequestTimeoutError(f"{what}: no answer in time")
    return _lost(what, err)


def _lost(what: str, err: Exception) -> ConnectionLostError:
    return ConnectionLostError(f"{what}: the connection broke: {text_of(err)}")


def _lower(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Header names in lower case; a header that comes several times (Warning does) is joined."""
    found: dict[str, str] = {}
    for name, value in answer.headers.items():
        name = name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
